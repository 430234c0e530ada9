//! Charts and pages, rendered by a real browser. Skipped where there is no Chromium. One module a command.

#![allow(clippy::unwrap_used)]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "browser/bench.rs"]
mod bench;
#[path = "browser/blocks.rs"]
mod blocks;
#[path = "browser/noise.rs"]
mod noise;
#[path = "browser/pages.rs"]
mod pages;

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("truecount-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn chromium(directory: &Path, arguments: &[&str], page: &Path) -> Option<Output> {
    for name in ["chromium", "chromium-browser", "google-chrome"] {
        let profile = directory.join("profile");
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
            // Denied: PATH has a directory that this user cannot look into.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::PermissionDenied
                ) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    truecount_testing::skip!("chromium", "no Chromium on this machine");
    None
}

/// Bytes of a picture of the page; `None` where there is no browser.
fn screenshot(directory: &Path, page: &Path) -> Option<u64> {
    let picture = directory.join("shot.png");
    let argument = format!("--screenshot={}", picture.display());
    let output = chromium(directory, &[&argument, "--window-size=1040,700"], page)?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let size = std::fs::metadata(&picture).unwrap().len();
    std::fs::remove_file(picture).unwrap();
    Some(size)
}

/// Whether a browser draws `chart.svg` and `page.html` as more than empty pages, and what it makes of the page's markup;
/// `None` where there is no browser.
fn drawn(directory: &Directory) -> Option<String> {
    let file = |name: &str| directory.0.join(name);
    std::fs::write(file("blank.html"), "<!doctype html>").unwrap();
    let blank = screenshot(&directory.0, &file("blank.html"))?;
    for name in ["chart.svg", "page.html"] {
        let size = screenshot(&directory.0, &file(name))?;
        assert!(
            size > 3 * blank,
            "{name}: {size} bytes, a blank one has {blank}"
        );
    }
    let shown = chromium(&directory.0, &["--dump-dom"], &file("page.html"))?;
    Some(String::from_utf8_lossy(&shown.stdout).into_owned())
}
