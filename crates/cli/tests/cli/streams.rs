//! A disk that is full, a reader that has gone, a descriptor that is closed: what every command makes of it.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{code, stderr, truecount, until};

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

/// Commands whose result goes to FILE, and which fail after they have looked at it: nothing stays behind where nothing was,
/// and what was there stays.
const FAILING: &[(&str, i32)] = &[
    (
        "stat --source software -o FILE truecount-no-such-program",
        127,
    ),
    (
        "stat --source software --json=FILE truecount-no-such-program",
        127,
    ),
    ("run -o FILE truecount-no-such-program", 127),
    ("run --flamegraph FILE truecount-no-such-program", 127),
    (
        "noise --source virtual --html FILE truecount-no-such-program",
        127,
    ),
    (
        "noise --source virtual --svg FILE -o /nonexistent/x true",
        1,
    ),
    (
        "bench --source software -n 2 --save FILE truecount-no-such-program",
        127,
    ),
    (
        "bench --source software -n 2 --export-json FILE --csv=/nonexistent/x true",
        1,
    ),
    (
        "bench --source software -n 2 --csv=FILE --export-json /nonexistent/x true",
        1,
    ),
    ("bench --source software -n 2 --html=FILE false", 1),
    ("exactness --seconds 1 --json=FILE -e nosuchevent", 2),
    ("discover --json=FILE -- truecount-no-such-program", 127),
    (
        "record -e cpu-clock:u -o FILE truecount-no-such-program",
        127,
    ),
    ("overhead --json=FILE -- truecount-no-such-program", 127),
    // Executed once, it has no interval: no chart.
    ("latency main --svg FILE -- PROGRAM", 1),
    (
        "latency main --html FILE --svg /nonexistent/x -- PROGRAM",
        1,
    ),
];

#[test]
fn a_failure_leaves_no_file_and_keeps_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let program = crate::support::compiled(directory.path(), "int main(void) { return 0; }\n");
    let file = directory.path().join("result");
    let name = file.to_str().unwrap();
    for (line, status) in FAILING {
        let virtual_pmu = line.contains("virtual") || line.starts_with("latency");
        if virtual_pmu && !crate::support::virtual_pmu() {
            continue;
        }
        if program.is_none() && line.contains("PROGRAM") {
            continue;
        }
        // Names may have spaces: they are put into words.
        let words: Vec<String> = line
            .split(' ')
            .map(|word| {
                let program = program.as_ref().map_or("", |p| p.to_str().unwrap());
                word.replace("PROGRAM", program).replace("FILE", name)
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for before in [None, Some("what was there before")] {
            if let Some(text) = before {
                std::fs::write(&file, text).unwrap();
            }
            let output = truecount(&words).output().unwrap();
            let told = stderr(&output);
            // Where it cannot even begin (no PMU, no sampling) it says so with another status.
            let ended = code(&output);
            assert!(
                ended == *status || [1, 125].contains(&ended),
                "{line}: {ended}: {told}"
            );
            let now = std::fs::read_to_string(&file).ok();
            assert_eq!(now.as_deref(), before, "{line}: {told}");
            let _ = std::fs::remove_file(&file);
        }
    }
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .flatten()
        .collect();
    assert!(left.len() <= 2, "{left:?}");
}

/// Results that are larger than a file may be: told with a status, shown elsewhere where they were measured, and neither
/// half a file nor the end of truecount by SIGXFSZ.
#[test]
fn half_a_result_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("result");
    let name = file.to_str().unwrap();
    let lines = [
        "stat --source software --json=FILE true",
        "bench --source software -n 2 --json=FILE true",
        "bench --source software -n 2 --html=FILE true",
        "check --json=FILE",
        "events --cpu skl --json=FILE",
        "record -e cpu-clock:u -o FILE true",
    ];
    for line in lines {
        for before in [None, Some("what was there before")] {
            // A recording is read as far as it goes, and the one before it has another name.
            let recording = line.starts_with("record");
            if let Some(text) = before.filter(|_| !recording) {
                std::fs::write(&file, text).unwrap();
            }
            let words: Vec<String> = line.split(' ').map(|w| w.replace("FILE", name)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut command = truecount(&words);
            // SAFETY: setrlimit is async-signal-safe.
            unsafe {
                command.pre_exec(|| {
                    let limit = libc::rlimit {
                        rlim_cur: 64,
                        rlim_max: 64,
                    };
                    libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
                    Ok(())
                });
            }
            let output = command.output().unwrap();
            let told = stderr(&output);
            assert!(
                output.status.code().is_some(),
                "{line}: {}: {told}",
                output.status
            );
            if recording && output.status.code() == Some(125) {
                continue;
            }
            assert_eq!(code(&output), 1, "{line}: {told}");
            assert_eq!(complaints(&told).len(), 1, "{line}: {told}");
            assert!(told.contains("too large"), "{line}: {told}");
            if !recording {
                let now = std::fs::read_to_string(&file).ok();
                assert_eq!(now.as_deref(), before, "{line}: {told}");
            }
            let _ = std::fs::remove_file(&file);
        }
    }
}

/// Then a command that waits is killed.
const NEVER: Duration = Duration::from_secs(50);

/// A FIFO is given to who reads it, whole.
#[test]
fn a_fifo_is_written_once_and_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a valid path.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let argument = format!("--json={}", path.display());
    let start = || {
        truecount(&[
            "bench", "--source", "software", "-n", "2", &argument, "--", "true",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
    };
    let mut child = start();
    let mut text = String::new();
    std::fs::File::open(&path)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("truecount.bench/2"), "{text}");
    assert!(child.wait().unwrap().success());
    // Nobody reads: Ctrl-C ends the wait.
    let mut child = start();
    let pid = i32::try_from(child.id()).unwrap();
    until("it does not open the FIFO", || {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        call.starts_with(&format!("{} ", libc::SYS_openat))
    });
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let begun = Instant::now();
    until("it goes on", || {
        child.try_wait().unwrap().is_some() || begun.elapsed() > NEVER
    });
    let status = child.try_wait().unwrap();
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(status.is_some(), "it goes on for {NEVER:?}");
}
