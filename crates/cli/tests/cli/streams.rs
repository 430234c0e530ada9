//! A disk that is full, a reader that has gone, a descriptor that is closed: what every command makes of it.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use crate::support::{code, stderr, truecount};

/// Commands that end by themselves and write to stdout; nothing of them is lost by not being written.
const SHOWN: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help", "stat"],
    &["stat", "--help"],
    &["stat", "-h"],
    &["bench", "--help"],
    &["run", "--help"],
    &["noise", "--help"],
    &["profile", "diff", "--help"],
    &["man", "bench"],
    &["completions", "bash"],
    &["events", "--cpu", "skl"],
    &["events", "--metrics", "--cpu", "spr", "--json"],
    &["check"],
    &["check", "--json"],
    &["system", "-n", "1", "-I", "50"],
    &["system", "-n", "1", "-I", "50", "--json"],
];

/// Measured: what cannot be written to its place goes to stderr.
const MEASURED: &[&[&str]] = &[
    &["overhead", "--model-only"],
    &[
        "stat",
        "--source",
        "software",
        "-e",
        "page-faults",
        "--json",
        "true",
    ],
    &[
        "stat",
        "--source",
        "software",
        "-e",
        "page-faults",
        "--csv",
        "true",
    ],
    &["bench", "--source", "software", "-n", "2", "--json", "true"],
    &[
        "bench",
        "--source",
        "software",
        "-n",
        "2",
        "--markdown",
        "true",
    ],
    &["bench", "--source", "software", "-n", "2", "true"],
];

/// Lines of truecount's own on stderr, and that there is no panic.
fn complaints(text: &str) -> Vec<&str> {
    assert!(!text.contains("panicked"), "{text}");
    let own = |line: &&str| line.starts_with("truecount: ");
    text.lines().filter(own).collect()
}

#[test]
fn a_full_disk_is_said_with_a_status() {
    if !std::path::Path::new("/dev/full").exists() {
        truecount_testing::skip!("tools", "no /dev/full");
        return;
    }
    for (line, measured) in SHOWN
        .iter()
        .map(|line| (line, false))
        .chain(MEASURED.iter().map(|line| (line, true)))
    {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = truecount(line).stdout(full.unwrap()).output().unwrap();
        let text = stderr(&output);
        assert_eq!(code(&output), 1, "{line:?}: {text}");
        let own = complaints(&text);
        assert!(
            own.len() == 1 && own[0].contains("space"),
            "{line:?}: {text}"
        );
        // Without a result that would be lost there is nothing else.
        assert!(measured || text.lines().count() == 1, "{line:?}: {text}");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    for line in SHOWN.iter().chain(MEASURED) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = truecount(line).stdout(writer).output().unwrap();
        let text = stderr(&output);
        assert_eq!(code(&output), 0, "{line:?}: {text}");
        assert!(complaints(&text).is_empty(), "{line:?}: {text}");
    }
}

#[test]
fn a_closed_stderr_leaves_the_status() {
    for (line, status) in [
        (&["stat", "--jsn", "true"][..], 2),
        (&["stat", "truecount-no-such-program"], 127),
        (&["report", "truecount-no-such-file"], 1),
    ] {
        let mut command = truecount(line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: close(2) is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::close(2);
                Ok(())
            });
        }
        assert_eq!(command.status().unwrap().code(), Some(status), "{line:?}");
    }
}
