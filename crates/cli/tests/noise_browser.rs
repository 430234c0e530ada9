//! The page of `truecount noise`, rendered by a real browser: it must not be an empty page, and what it says must be
//! shown. Skipped where there is no Chromium or no virtual PMU.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("truecount-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn chromium(folder: &Path, arguments: &[&str], page: &Path) -> Option<Output> {
    for name in ["chromium", "chromium-browser", "google-chrome"] {
        let profile = folder.join("profile");
        let started = Command::new(name)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .output();
        match started {
            Ok(output) => return Some(output),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    println!("skipped: no Chromium on this machine");
    None
}

fn screenshot(folder: &Path, page: &Path) -> Option<u64> {
    let picture = folder.join("shot.png");
    let argument = format!("--screenshot={}", picture.display());
    let output = chromium(folder, &[&argument, "--window-size=1040,700"], page)?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let size = std::fs::metadata(&picture).unwrap().len();
    std::fs::remove_file(picture).unwrap();
    Some(size)
}

#[test]
fn what_makes_runs_differ_is_drawn() {
    let folder = Folder::new("noise-browser");
    let file = |name: &str| folder.0.join(name);
    let made = Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args(["noise", "--source", "virtual", "-n", "3"])
        .args(["--factors", "env,getrandom", "--html"])
        .arg(file("page.html"))
        .arg("--svg")
        .arg(file("chart.svg"))
        .args(["--", "sh", "-c", "echo '<b>&amp;'"])
        .output()
        .unwrap();
    if !made.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&made.stderr));
        return;
    }
    std::fs::write(file("blank.html"), "<!doctype html>").unwrap();
    let Some(blank) = screenshot(&folder.0, &file("blank.html")) else {
        return;
    };
    for name in ["page.html", "chart.svg"] {
        let size = screenshot(&folder.0, &file(name)).unwrap();
        assert!(
            size > 3 * blank,
            "{name}: {size} bytes, a blank one has {blank}"
        );
    }
    let shown = chromium(&folder.0, &["--dump-dom"], &file("page.html")).unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for text in [
        "environment size",
        "hash randomisation",
        "every run the same",
        "'&lt;b&gt;&amp;amp;'",
        "</svg>",
    ] {
        assert!(shown.contains(text), "{text} is not shown: {shown}");
    }
    // Three runs each of two factors, of nothing and of everything.
    assert_eq!(shown.matches("<circle").count(), 12);
}
