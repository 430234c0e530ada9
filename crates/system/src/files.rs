//! Reads files below a root, at most so much of each.

use std::fs::File;
use std::io::Read as _;

use truecount_perf::probe::Root;

/// `/proc/interrupts` of a machine with thousands of CPUs fits; nothing larger is read.
const LONGEST: u64 = 16 << 20;

/// A file's text; `Err` says why there is none.
pub(crate) fn text(root: &Root, relative: &str) -> Result<String, String> {
    let path = root.path(relative);
    let mut bytes = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(LONGEST).read_to_end(&mut bytes))
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("no /{relative}"),
            _ => format!("/{relative}: {error}"),
        })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The number that a file holds.
pub(crate) fn number(root: &Root, relative: &str) -> Result<u64, String> {
    let text = text(root, relative)?;
    text.trim()
        .parse()
        .map_err(|_| format!("/{relative} holds no number"))
}
