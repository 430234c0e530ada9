//! The page of `bench` on a phone and on a desk, in both schemes, as a browser lays it out.

use std::path::Path;
use std::process::Command;

use super::{Directory, chromium};

/// Asks the page itself: how wide it is, whether a verdict is in the window, and the colours.
const PROBE: &str = "<script>addEventListener('load', () => {
  const w = document.documentElement, b = getComputedStyle(document.body);
  const judges = t => [...t.querySelectorAll('th')].some(h => h.textContent == 'verdict');
  const cells = [...document.querySelectorAll('table')].filter(judges).flatMap(t => [...t.querySelectorAll('td:last-child')]);
  const out = cells.filter(c => { const r = c.getBoundingClientRect(); return r.width > 0 && r.right > innerWidth + 1; });
  const unlabelled = [...document.querySelectorAll('svg')].filter(s => !s.getAttribute('aria-label')
      && !s.getAttribute('aria-labelledby') && s.getAttribute('aria-hidden') != 'true' && !s.querySelector('title'));
  document.body.dataset.probe = `window=${innerWidth} page=${w.scrollWidth} cells=${cells.length} out=${out.length} `
    + `unlabelled=${unlabelled.length} back=${b.backgroundColor} text=${b.color}`;
})</script>";

fn probe(directory: &Path, page: &Path, width: u32, dark: bool) -> Option<String> {
    let size = format!("--window-size={width},900");
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
    let shown = chromium(
        directory,
        &["--hide-scrollbars", &size, &scheme, "--dump-dom"],
        page,
    )?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let begin = text
        .split("data-probe=\"")
        .nth(1)
        .unwrap_or_else(|| panic!("{text}"));
    begin.split('"').next().map(str::to_owned)
}

fn field<'t>(probe: &'t str, name: &str) -> &'t str {
    let found = probe.split(&format!("{name}=")).nth(1).unwrap();
    found
        .split(if name == "back" { " text" } else { " " })
        .next()
        .unwrap()
}

#[test]
fn the_page_of_bench_fits_a_phone_and_a_desk_in_both_schemes() {
    let directory = Directory::new("bench-page");
    let page = directory.0.join("page.html");
    let status = Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args([
            "bench",
            "--source",
            "software",
            "-n",
            "7",
            "--only",
            "-e",
            "wall-time,page-faults",
            "--html",
        ])
        .arg(&page)
        .args(["true", "sleep 0.02"])
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let text = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, text.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    let mut backs = Vec::new();
    // A window without a head is at least 500 wide; the rules for phones hold there.
    for width in [500, 1280] {
        for dark in [true, false] {
            let Some(said) = probe(&directory.0, &page, width, dark) else {
                return;
            };
            let number = |name: &str| field(&said, name).parse::<u32>().unwrap();
            assert_eq!(number("window"), width, "{said}");
            assert!(number("page") <= width, "it sticks out: {said}");
            assert!(
                number("cells") > 0 && number("out") == 0,
                "verdicts are cut: {said}"
            );
            assert_eq!(number("unlabelled"), 0, "{said}");
            backs.push(field(&said, "back").to_owned());
        }
    }
    assert_eq!((&backs[0], &backs[1]), (&backs[2], &backs[3]));
    assert_ne!(backs[0], backs[1], "no dark mode");
}
