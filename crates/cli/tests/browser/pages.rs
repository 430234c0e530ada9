//! Every page and chart at the width of a phone and of a desk, in both schemes, as a browser lays it out: nothing sticks
//! out, no text is too small to read, every picture has a name, and what is dark is dark.

use std::path::Path;
use std::process::Command;

use super::{Directory, chromium};

/// A phone's and a desk's.
const WIDTHS: [u32; 2] = [390, 1280];

/// Holds a page at [`WIDTHS`], whatever the window's, and asks it how it stands in each.
fn frame(page: &str) -> String {
    let source = page.replace('&', "&amp;").replace('"', "&quot;");
    let frames = WIDTHS.map(|width| {
        format!("<iframe style='width:{width}px;height:2000px;border:0;display:block' srcdoc=\"{source}\"></iframe>")
    });
    let frames = frames.concat();
    format!(
        "<!doctype html><body style='margin:0'>{frames}
<script>addEventListener('load', () => {{
  document.body.dataset.probe = [...document.querySelectorAll('iframe')].map(frame => {{
  const d = frame.contentDocument, w = d.defaultView, root = d.documentElement;
  const scrolls = e => e && (w.getComputedStyle(e).overflowX == 'auto' || scrolls(e.parentElement));
  const out = [...d.querySelectorAll('body *')].filter(e => !(e instanceof w.SVGElement && e.tagName != 'svg'))
    .filter(e => {{ const r = e.getBoundingClientRect(); return r.width > 0 && r.right > w.innerWidth + 1 && !scrolls(e); }});
  const pictures = [...d.querySelectorAll('svg:not(svg svg)')];
  const unnamed = pictures.filter(s => !s.getAttribute('aria-label') && !s.getAttribute('aria-labelledby')
    && s.getAttribute('aria-hidden') != 'true' && !s.querySelector('title'));
  const wide = [...d.querySelectorAll('svg.flame > text')].filter(t => t.getBoundingClientRect().right > w.innerWidth);
  const texts = [...d.querySelectorAll('svg text')].filter(t => t.textContent.trim());
  const tiny = [...d.querySelectorAll('svg.chart text')].filter(t => t.textContent.trim())
    .filter(t => t.getBoundingClientRect().height < 8.5);
  const light = c => {{ const m = c.match(/[0-9.]+/g).map(Number); return (m[0] + m[1] + m[2]) / 3; }};
  const ink = light(w.getComputedStyle(texts[0] || d.body)[texts[0] ? 'fill' : 'color']);
  return `window=${{w.innerWidth}} page=${{root.scrollWidth}} out=${{out.length}} `
    + `which=${{out.slice(0, 3).map(e => e.tagName).join('/')}} pictures=${{pictures.length}} unnamed=${{unnamed.length}} ink=${{Math.round(ink)}} wide=${{wide.length}} tiny=${{tiny.length}} `;
}}).join('|'); }})</script></body>"
    )
}

fn number(probe: &str, name: &str) -> u32 {
    let found = probe.split(&format!("{name}=")).nth(1);
    let digits = found.and_then(|rest| rest.split(' ').next());
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no {name}: {probe}"))
}

/// What the page says of itself at each width; `None` without a browser.
fn probe(directory: &Path, file: &Path, dark: bool) -> Option<Vec<String>> {
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
    let arguments = [
        "--hide-scrollbars",
        "--window-size=1280,4000",
        &scheme,
        "--dump-dom",
    ];
    let shown = chromium(directory, &arguments, file)?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let said = text.rsplit("data-probe=\"").next()?.split('"').next()?;
    Some(said.split('|').map(str::to_owned).collect())
}

/// Whether a command that writes pages could do it here; it is skipped for the lack of what it needs.
fn made(directory: &Directory, need: &str, words: &[&str]) -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args(words)
        .current_dir(&directory.0)
        .output()
        .unwrap();
    if !output.status.success() {
        truecount_testing::skip!(need, "{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// Two blocks with long names, and a file that is not there.
fn stacks(path: &Path) {
    let line = |n: u32| {
        let entries: String = (0..31)
            .map(|k| {
                format!(
                    " 0x401080/0x401050/P/-/-/{}",
                    if (n + k).is_multiple_of(4) {
                        280 + k
                    } else {
                        16 + k % 5
                    }
                )
            })
            .collect();
        format!(" 401060{entries}\n")
    };
    std::fs::write(path, (0..100).map(line).collect::<String>()).unwrap();
}

/// Runs a command that writes these files; `false` where the machine cannot.
type Make<'a> = dyn FnMut(&[&str], &[&'static str]) -> bool + 'a;

/// Flame graphs: of calls, of a recording, of regions.
fn of_trees(directory: &Directory, make: &mut Make<'_>) {
    let calls = ["run", "--calls", "--flamegraph", "calls.svg", "--", "true"];
    make(&calls, &["calls.svg"]);
    let recorder = truecount::Recorder::new(directory.0.join("profile")).unwrap();
    {
        let _outer = recorder.region("outer");
        for number in 0..20 {
            let name = format!("the region number {number} <of twenty>");
            let _inner = recorder.region_with(&name, &["a \"label\" & more"]);
        }
    }
    recorder.finish().unwrap();
    let export = "profile export --to svg profile -o profile.svg";
    let export = export.split(' ').collect::<Vec<_>>();
    make(&export, &["profile.svg"]);
    let spinning = "int look_up(int i) { return i * 3; } int main(void) { volatile int s = 0;
        for (int i = 0; i < 50000000; i++) s += look_up(i); return 0; }";
    std::fs::write(directory.0.join("spin.c"), spinning).unwrap();
    let built = Command::new("cc")
        .args(["-O0", "-o", "spin", "spin.c"])
        .current_dir(&directory.0)
        .status();
    let record = "record -g -e cpu-clock:u -c 1000000 -o p.data -- ./spin";
    if built.is_ok_and(|status| status.success())
        && make(&record.split(' ').collect::<Vec<_>>(), &[])
    {
        let report = ["report", "p.data", "--flamegraph", "report.svg"];
        make(&report, &["report.svg"]);
    }
}

/// The script of the page of calls comes to its end: it shows the function that cost most last.
fn ends(directory: &Directory, page: &str) {
    let Some(shown) = chromium(&directory.0, &["--dump-dom"], &directory.0.join(page)) else {
        return;
    };
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        text.contains("<h3>Callers</h3>") && text.contains("Instructions, by their place"),
        "{text}"
    );
}

#[test]
fn every_page_fits_a_phone_and_a_desk_in_both_schemes() {
    let directory = Directory::new("pages");
    let file = |name: &str| directory.0.join(name);
    stacks(&file("stacks.txt"));
    let mut pages = Vec::new();
    let mut make = |words: &[&str], files: &[&'static str]| {
        let need = match words[0] {
            "record" => "software",
            _ => "virtual",
        };
        let done = made(&directory, need, words);
        if done {
            pages.extend(files);
        }
        done
    };
    let source = [
        "noise",
        "--source",
        "virtual",
        "-n",
        "2",
        "--factors",
        "env,getrandom",
    ];
    let head = [
        "--html",
        "noise.html",
        "--svg",
        "noise.svg",
        "--",
        "sh",
        "-c",
        "echo a b",
    ];
    make(&[&source[..], &head].concat(), &["noise.html", "noise.svg"]);
    make(
        &[
            "blocks",
            "stacks.txt",
            "--block",
            "0x401050",
            "--html",
            "blocks.html",
            "--svg",
            "blocks.svg",
        ],
        &["blocks.html", "blocks.svg"],
    );
    make(
        &["run", "--flamegraph", "run.svg", "--", "true"],
        &["run.svg"],
    );
    make(
        &[
            "bench",
            "--source",
            "software",
            "-n",
            "3",
            "--html=bench.html",
            "true",
            "sleep 0.001",
        ],
        &["bench.html"],
    );
    let program = "int look_up(int i) { return i * 3; } int main(void) { volatile int s = 0;
        for (int i = 0; i < 5000; i++) s += look_up(i); return 0; }";
    std::fs::write(file("timed.c"), program).unwrap();
    let built = Command::new("cc")
        .args(["-O0", "-o"])
        .args([file("timed"), file("timed.c")])
        .status();
    if built.is_ok_and(|status| status.success()) && cfg!(target_arch = "x86_64") {
        make(
            &[
                "latency",
                "look_up",
                "--html",
                "latency.html",
                "--svg",
                "latency.svg",
                "--",
                "./timed",
            ],
            &["latency.html", "latency.svg"],
        );
        make(
            &["run", "--html", "calls.html", "--", "./timed"],
            &["calls.html"],
        );
    }
    of_trees(&directory, &mut make);
    assert!(pages.len() > 2, "{pages:?}");
    if pages.contains(&"calls.html") {
        ends(&directory, "calls.html");
    }
    for name in pages {
        if !fits(&directory, name) {
            return;
        }
    }
}

/// Whether there is a browser; with one, the page fits both widths in both schemes.
fn fits(directory: &Directory, name: &str) -> bool {
    let file = |name: &str| directory.0.join(name);
    let mut page = std::fs::read_to_string(file(name)).unwrap();
    if name.ends_with(".svg") {
        page = format!(
            "<!doctype html><html><body style='margin:0;overflow-x:auto'>{page}</body></html>"
        );
    }
    std::fs::write(file("frame.html"), frame(&page)).unwrap();
    for dark in [true, false] {
        let Some(said) = probe(&directory.0, &file("frame.html"), dark) else {
            return false;
        };
        assert_eq!(said.len(), WIDTHS.len(), "{name}: {said:?}");
        for (said, width) in said.iter().zip(WIDTHS) {
            let what = format!("{name}, {width}, dark {dark}: {said}");
            assert_eq!(number(said, "window"), width, "{what}");
            if name.ends_with(".html") {
                assert!(number(said, "page") <= width, "{what}");
                assert_eq!(number(said, "out"), 0, "{what}");
            }
            let wrong = number(said, "unnamed") + number(said, "wide") + number(said, "tiny");
            assert_eq!(wrong, 0, "{what}");
            let ink = number(said, "ink");
            assert_eq!(dark, ink > 128, "{what}: text of {ink} of 255");
        }
    }
    true
}
