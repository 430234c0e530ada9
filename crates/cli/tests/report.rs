//! What `report`, `blocks` and the readers of documents take: recordings of perf, text, streams, things without an end.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "report/compiled.rs"]
mod compiled;

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

/// Three threads of two processes, two CPUs, a known tree of calls, as `perf script` prints it.
fn script() -> String {
    let chain = |leaf: &str| {
        format!(
            "\t    1000 {leaf}+0x10 (/opt/prog)\n\t    2000 middle+0x4 (/opt/prog)\n\t    3000 main+0x9 (/opt/prog)\n\n"
        )
    };
    let mut text = String::new();
    for n in 0..10 {
        let (comm, task, cpu) = match n {
            0..4 => ("one two", "7/7", 0),
            4..7 => ("one two", "7/8", 1),
            _ => ("other", "9/9", 1),
        };
        let leaf = if n % 2 == 0 { "left" } else { "right" };
        text.push_str(&format!(
            "{comm} {task} [00{cpu}] 100.{n}00000: 1000 cycles:u: \n{}",
            chain(leaf)
        ));
    }
    // Without a chain, in the kernel.
    text.push_str(
        "idle 0/0 [000] 101.000000: 2000 cycles:u: ffffffff81000000 halt+0x1 ([kernel.kallsyms])\n",
    );
    text
}

fn of_script(options: &[&str]) -> Value {
    let arguments = [&["report", "-", "--json"], options].concat();
    json(&with_input(&arguments, script().as_bytes()))
}

/// (key, own samples, samples with callees) of the first event's rows.
fn rows(document: &Value) -> Vec<(String, u64, u64)> {
    let rows = document["events"][0]["rows"].as_array().unwrap().iter();
    let row = |r: &Value| {
        let total = r["total"]["samples"].as_u64().unwrap_or(0);
        let key = r["key"].as_str().unwrap().to_owned();
        (key, r["self"]["samples"].as_u64().unwrap(), total)
    };
    rows.map(row).collect()
}

fn row(key: &str, own: u64, total: u64) -> (String, u64, u64) {
    (key.to_owned(), own, total)
}

#[test]
fn text_of_perf_script_is_reported() {
    let document = of_script(&[]);
    let event = &document["events"][0];
    assert_eq!(event["name"], "cycles:u");
    assert_eq!(
        (&event["samples"], &event["events"]),
        (&11.into(), &12_000.into())
    );
    let all = rows(&document);
    assert!(all.contains(&row("left [prog]", 5, 5)), "{all:?}");
    assert!(all.contains(&row("main [prog]", 0, 10)), "{all:?}");
    assert!(all.contains(&row("halt [kernel]", 1, 1)), "{all:?}");
    let refused = with_input(&["report", "-", "--annotate", "left"], script().as_bytes());
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--annotate needs the recording"));
}

#[test]
fn samples_and_rows_are_selected() {
    let samples = |options: &[&str]| of_script(options)["events"][0]["samples"].as_u64().unwrap();
    for (options, expected) in [
        (&["--comm", "one two"][..], 7),
        (&["--comm", "other,idle"], 4),
        (&["--pid", "7"], 7),
        (&["--tid", "8,9"], 6),
        (&["--cpu", "0"], 5),
        (&["-C", "0-1"], 11),
        (&["--time", "100.2,100.4"], 3),
        (&["--time", "100.95,"], 1),
        (&["--time", "0%-50%"], 6),
        (&["--time", "100.0,100.3", "--cpu", "0", "--tid", "7"], 4),
    ] {
        assert_eq!(samples(options), expected, "{options:?}");
    }
    // Rows only: the shares stay those of all samples.
    let document = of_script(&["--symbol", "middle,halt"]);
    assert_eq!(
        rows(&document),
        [row("halt [kernel]", 1, 1), row("middle [prog]", 0, 10)]
    );
    assert_eq!(document["events"][0]["samples"], 11);
    let kernel = rows(&of_script(&["--dso", "[kernel.kallsyms]"]));
    assert_eq!(kernel, [row("halt [kernel]", 1, 1)]);
    assert_eq!(
        rows(&of_script(&["--dso", "/opt/prog", "--by", "dso"])),
        [row("prog", 10, 10)]
    );
    for (options, part) in [
        (
            ["--comm", "nobody"],
            "its processes are one two, other, idle",
        ),
        (["--time", "7,8"], "no sample is left by --time"),
        (["--time", "8,7"], "START,STOP"),
        (["--cpu", "x"], "not a list of CPUs"),
    ] {
        let output = with_input(
            &[&["report", "-"], &options[..]].concat(),
            script().as_bytes(),
        );
        assert!(
            !output.status.success() && text(&output.stderr).contains(part),
            "{options:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn rows_are_sorted_and_joined() {
    let by_total = rows(&of_script(&["--children"]));
    let order: Vec<&str> = by_total.iter().map(|r| r.0.as_str()).take(2).collect();
    assert_eq!(order, ["main [prog]", "middle [prog]"]);
    let joined = of_script(&["--sort", "comm,dso,symbol"]);
    assert!(
        rows(&joined).contains(&row("one two  prog  left", 4, 4)),
        "{joined}"
    );
    assert_eq!(joined["by"], "comm, dso, symbol");
    assert_eq!(rows(&of_script(&["-s", "tid"]))[0].1, 4);
    let shown = with_input(
        &["report", "-", "--no-children", "-s", "comm,symbol"],
        script().as_bytes(),
    );
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("comm") && !shown.contains("with callees"),
        "{shown}"
    );
}

/// (depth, function, own samples, samples in all) of the nodes.
fn tree(document: &Value) -> Vec<(u64, String, u64, u64)> {
    let nodes = document["events"][0]["tree"].as_array().unwrap().iter();
    let number = |v: &Value| v.as_u64().unwrap();
    let node = |n: &Value| {
        let function = n["function"].as_str().unwrap().to_owned();
        let own = number(&n["self"]["samples"]);
        (
            number(&n["depth"]),
            function,
            own,
            number(&n["total"]["samples"]),
        )
    };
    nodes.map(node).collect()
}

#[test]
fn trees_grow_from_callers_and_from_callees() {
    let node = |depth, name: &str, own, total| (depth, name.to_owned(), own, total);
    assert_eq!(
        tree(&of_script(&["--tree"])),
        [
            node(0, "main", 0, 10),
            node(1, "middle", 0, 10),
            node(2, "left", 5, 5),
            node(2, "right", 5, 5),
            node(0, "halt", 1, 1),
        ]
    );
    let callees = tree(&of_script(&["-g", "callee", "--percent-limit", "20"]));
    assert_eq!(
        callees,
        [
            node(0, "left", 5, 5),
            node(1, "middle", 0, 5),
            node(2, "main", 0, 5),
            node(0, "right", 5, 5),
            node(1, "middle", 0, 5),
            node(2, "main", 0, 5),
        ]
    );
    let shown = with_input(&["report", "-", "--tree"], script().as_bytes());
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("├ left [prog]") && shown.contains("└ right [prog]"),
        "{shown}"
    );
    let flat = b"sh 1 1.5: 1 cycles: 1000 f (x)\n";
    let refused = with_input(&["report", "-", "--tree"], flat);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("record -g"));
}

/// The records of a recording, and perf's text of one as input: the same samples either way.
#[test]
fn records_are_listed_and_perfs_text_agrees() {
    let Some(file) = recorded("linux-perf-data/fibo.compressed2.pipe.data") else {
        return;
    };
    let name = file.to_str().unwrap();
    let document = json(&truecount(&["report", name, "--json", "--by", "process"]));
    let samples = document["events"][0]["samples"].as_u64().unwrap();
    let dump = truecount(&["report", "-D", name]);
    let listed = text(&dump.stdout);
    let listed_samples = listed.lines().filter(|l| l.contains("] SAMPLE ")).count();
    assert_eq!(listed_samples as u64, samples, "{}", text(&dump.stderr));
    assert!(listed.contains("] MMAP2 ") && listed.contains("] COMM "));
    let file = perf_record(&["-g"], "script");
    let Some(file) = file else { return };
    let script = Command::new("perf")
        .args(["script", "-i"])
        .arg(&file)
        .output()
        .unwrap();
    let of_text = json(&with_input(
        &["report", "-", "--json", "--by", "process"],
        &script.stdout,
    ));
    let of_file = json(&truecount(&[
        "report",
        file.to_str().unwrap(),
        "--json",
        "--by",
        "process",
    ]));
    remove(&file);
    let count = |d: &Value| {
        (
            d["events"][0]["samples"].clone(),
            d["events"][0]["rows"][0]["self"].clone(),
        )
    };
    assert_eq!(count(&of_text), count(&of_file));
}
