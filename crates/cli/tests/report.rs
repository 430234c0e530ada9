//! What `report`, `blocks` and the readers of documents take: recordings of perf, text, streams, things without an end.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn truecount(arguments: &[&str]) -> Output {
    with_input(arguments, b"")
}

/// Runs with these bytes as standard input.
fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A recording of other people, where it is at hand.
fn recorded(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("TRUECOUNT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let file = shared.join("data/perfdata").join(name);
    if !file.is_file() {
        truecount_testing::skip!("data", "no recording at {}", file.display());
        return None;
    }
    Some(file)
}

/// Devices without an end, and an endless text: a refusal at once, by every reader of files.
#[test]
fn what_does_not_end_is_refused_at_once() {
    let (zero, text_of) = ("/dev/zero", |output: &Output| text(&output.stderr));
    for arguments in [
        &["report", zero][..],
        &["report", "--diff", zero, zero],
        &["blocks", zero],
        &["profile", "summarize", zero],
        &["profile", "show", zero],
        &["profile", "aggregate", zero, zero],
        &["profile", "diff", zero, zero],
        &["profile", "export", zero, "--to", "json"],
        &["bench", "--baseline", zero, "-n", "1", "true"],
        &["stat", "--metrics-file", zero, "-M", "ipc", "true"],
        &["events", "--event-dir", zero],
        &["report", "--binary", zero, zero],
    ] {
        let start = Instant::now();
        let output = truecount(arguments);
        let said = text_of(&output);
        assert!(
            matches!(output.status.code(), Some(1 | 2)),
            "{arguments:?}: {:?} {said}",
            output.status
        );
        assert!(!said.is_empty() && said.lines().count() <= 2, "{said}");
        assert!(start.elapsed() < Duration::from_secs(20), "{arguments:?}");
    }
    // Not the first bytes but the first part tells that a text has no samples.
    let endless = b"a line without a sample\n".repeat(1 << 20);
    for command in ["report", "blocks"] {
        let output = with_input(&[command, "-"], &endless);
        assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    }
    let output = with_input(&["profile", "summarize", "-"], &[0; 100_000]);
    assert!(
        text_of(&output).contains("offset 0"),
        "{}",
        text_of(&output)
    );
}

/// Standard input is read as the file is.
#[test]
fn a_recording_comes_by_standard_input() {
    for name in [
        "linux-perf-data/sleep.compressed.pipe.data",
        "perf_data_converter/perf.data.branch-3.8",
    ] {
        let Some(file) = recorded(name) else { return };
        let options = ["--json", "--by", "process"];
        let file_name = file.to_str().unwrap();
        let mut by_name = json(&truecount(&[&["report", file_name], &options[..]].concat()));
        let bytes = std::fs::read(&file).unwrap();
        let mut by_stdin = json(&with_input(
            &[&["report", "-"], &options[..]].concat(),
            &bytes,
        ));
        by_name["recording"] = Value::Null;
        by_stdin["recording"] = Value::Null;
        assert_eq!(by_name, by_stdin, "{name}");
    }
}

/// `perf` itself records what is read; `None` where it is not there or records nothing.
fn perf_record(options: &[&str], name: &str) -> Option<PathBuf> {
    let file = std::env::temp_dir().join(format!("truecount-{name}-{}", std::process::id()));
    let busy = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    let recorded = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock:u", "-c", "500000", "-o"])
        .arg(&file)
        .args(options)
        .args(["--", "sh", "-c", busy])
        .output();
    match recorded {
        Ok(output) if output.status.success() => Some(file),
        Ok(output) => {
            let said = text(&output.stderr);
            truecount_testing::skip!("perf", "perf record {options:?}: {}", said.trim());
            None
        }
        Err(error) => {
            truecount_testing::skip!("perf", "no perf ({error})");
            None
        }
    }
}

fn remove(file: &Path) {
    let _ = std::fs::remove_file(file);
    let _ = std::fs::remove_dir_all(file);
}

/// Samples of perf's own recording, as `perf script` lists them.
fn perf_lists(file: &Path) -> usize {
    let listed = Command::new("perf")
        .args(["script", "-F", "ip", "-G", "-i"])
        .arg(file)
        .output()
        .unwrap();
    let listed = text(&listed.stdout);
    listed.lines().filter(|l| !l.trim().is_empty()).count()
}

/// What perf records in its various ways has as many samples here as there.
#[test]
fn perfs_own_recordings_are_whole() {
    let ways: [&[&str]; 5] = [&[], &["-z"], &["--buildid-mmap"], &["--threads"], &["-g"]];
    for (number, options) in ways.into_iter().enumerate() {
        let Some(file) = perf_record(options, &format!("perfs-{number}")) else {
            continue;
        };
        let output = truecount(&["report", file.to_str().unwrap(), "--json"]);
        let expected = perf_lists(&file);
        remove(&file);
        let document = json(&output);
        let samples = document["events"][0]["samples"].as_u64().unwrap();
        assert!(expected > 10, "{options:?}");
        assert_eq!(samples as usize, expected, "{options:?}: {document}");
    }
}

/// A text's addresses are those of a program that is loaded where it was linked; of another nothing can be said.
#[test]
fn a_binary_is_honoured_or_refused_for_texts_too() {
    let directory = std::env::temp_dir().join(format!("truecount-texts-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let code = "void _start(void) { __asm__ volatile(\"1: dec %eax; jnz 1b\"); for (;;) {} }\n";
    std::fs::write(path("p.c"), code).unwrap();
    let compiled = Command::new("cc")
        .args(["-nostdlib", "-static", "-no-pie", "-Wl,--build-id", "-o"])
        .args([path("prog"), path("p.c")])
        .output();
    let compiled = compiled.is_ok_and(|output| output.status.success());
    if compiled && cfg!(target_arch = "x86_64") {
        let nm = Command::new("nm").arg(path("prog")).output().unwrap();
        let nm = text(&nm.stdout);
        let start = nm.lines().find(|l| l.ends_with(" _start")).unwrap();
        let start = u64::from_str_radix(start.split(' ').next().unwrap(), 16).unwrap();
        let entry = format!(" {:#x}/{:#x}/P/-/-/3", start + 6, start + 4);
        std::fs::write(path("text"), format!("{}\n", entry.repeat(4)).repeat(30)).unwrap();
        let arguments = ["blocks", &path("text"), "--binary"];
        let output = truecount(&[&arguments[..], &[&path("prog")]].concat());
        let said = text(&output.stdout);
        assert!(said.contains("_start+"), "{said}{}", text(&output.stderr));
        for (wrong, why) in [
            (env!("CARGO_BIN_EXE_truecount"), "position-independent"),
            ("/no/such/program", "No such file"),
            ("/etc/passwd", "not a 64-bit ELF program"),
        ] {
            let output = truecount(&[&arguments[..], &[wrong]].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(why) && said.contains(wrong), "{said}");
        }
    } else {
        truecount_testing::skip!("cc", "no C compiler");
    }
    if let Some(file) = recorded("autofdo/propeller_sample.perfdata") {
        let arguments = [
            "blocks",
            file.to_str().unwrap(),
            "--binary",
            "/no/such/program",
        ];
        let output = truecount(&arguments);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains("--binary /no/such/program"));
    }
    std::fs::remove_dir_all(directory).unwrap();
}
