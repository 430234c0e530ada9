//! Charts and pages, rendered by a real browser. Skipped where there is no Chromium. One module a command.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "browser/blocks.rs"]
mod blocks;
#[path = "browser/noise.rs"]
mod noise;

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

/// Bytes of a picture of the page; `None` where there is no browser.
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

/// Whether a browser draws `chart.svg` and `page.html` as more than empty pages, and what it makes of the page's markup;
/// `None` where there is no browser.
fn drawn(folder: &Folder) -> Option<String> {
    let file = |name: &str| folder.0.join(name);
    std::fs::write(file("blank.html"), "<!doctype html>").unwrap();
    let blank = screenshot(&folder.0, &file("blank.html"))?;
    for name in ["chart.svg", "page.html"] {
        let size = screenshot(&folder.0, &file(name))?;
        assert!(
            size > 3 * blank,
            "{name}: {size} bytes, a blank one has {blank}"
        );
    }
    let shown = chromium(&folder.0, &["--dump-dom"], &file("page.html"))?;
    Some(String::from_utf8_lossy(&shown.stdout).into_owned())
}
