//! `record` and `report` by the timer that every Linux has, and what they and `blocks` say to wrong input.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn truecount(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("truecount-{name}-{}.data", std::process::id())))
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Something that keeps a CPU busy for a while, in a process of its own.
const BUSY: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

/// Records the busy shell by cpu-clock; `None` where perf events are not available.
fn record(file: &File, options: &[&str]) -> Option<u64> {
    let mut arguments = vec![
        "record",
        "-e",
        "cpu-clock:u",
        "-c",
        "200000",
        "-o",
        file.name(),
    ];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", BUSY]);
    let output = truecount(&arguments);
    let said = text(&output.stderr);
    if output.status.code() == Some(125) {
        truecount_testing::skip!("software", "{}", said.trim());
        return None;
    }
    assert!(output.status.success(), "{said}");
    let line = said
        .lines()
        .find(|l| l.contains(" samples of cpu-clock:u in "))
        .unwrap();
    let number = line
        .strip_prefix("truecount record: ")
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    Some(number.replace(',', "").parse().unwrap())
}

fn report(file: &File, options: &[&str]) -> Value {
    let mut arguments = vec!["report", file.name(), "--json"];
    arguments.extend(options);
    let output = truecount(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn what_is_recorded_is_reported_and_perf_reads_it() {
    let file = File::new("clock");
    let Some(samples) = record(&file, &[]) else {
        return;
    };
    assert!(samples > 10, "{samples}");
    let document = report(&file, &["--by", "process"]);
    assert_eq!(document["schema"], "truecount.report/1");
    let event = &document["events"][0];
    assert_eq!(event["name"], "cpu-clock:u");
    assert_eq!(event["samples"].as_u64().unwrap(), samples);
    assert!(
        event["rows"][0]["key"]
            .as_str()
            .unwrap()
            .starts_with("sh ("),
        "{event}"
    );
    let shares: u64 = event["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["self"]["samples"].as_u64().unwrap())
        .sum();
    assert_eq!(shares, samples);
    match Command::new("perf")
        .args(["script", "-F", "ip", "-i", file.name()])
        .output()
    {
        Ok(perf) if perf.status.success() => {
            assert_eq!(
                text(&perf.stdout)
                    .lines()
                    .filter(|l| !l.trim().is_empty())
                    .count() as u64,
                samples
            );
        }
        Ok(perf) => panic!("perf script: {}", text(&perf.stderr)),
        Err(error) => truecount_testing::skip!("perf", "perf script ({error})"),
    }
}

#[test]
fn recorded_stacks_are_unwound() {
    let file = File::new("dwarf");
    let Some(samples) = record(&file, &["-g", "dwarf"]) else {
        return;
    };
    let document = report(&file, &["--by", "dso"]);
    assert!(
        document["samples_with_call_chain"].as_u64().unwrap() * 2 > samples,
        "{document}"
    );
    // All that the shell does, in the C library too, is called from its own code; but not what starts it.
    let shell = std::fs::canonicalize("/bin/sh").unwrap();
    let rows = document["events"][0]["rows"].as_array().unwrap();
    let shell = rows
        .iter()
        .find(|row| row["key"].as_str() == shell.file_name().unwrap().to_str());
    let total = shell.unwrap_or_else(|| panic!("{document}"))["total"]["samples"].as_u64();
    assert!(total.unwrap() * 10 > samples * 8, "{document}");
}

#[test]
fn exports_are_written() {
    let file = File::new("exports");
    if record(&file, &["-g"]).is_none() {
        return;
    }
    let outputs: Vec<File> = ["svg", "json", "pb"].iter().map(|n| File::new(n)).collect();
    let names: Vec<&str> = outputs.iter().map(File::name).collect();
    let output = truecount(&[
        "report",
        file.name(),
        "--flamegraph",
        names[0],
        "--firefox",
        names[1],
        "--pprof",
        names[2],
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        std::fs::read_to_string(names[0])
            .unwrap()
            .ends_with("</svg>")
    );
    let firefox: Value = serde_json::from_slice(&std::fs::read(names[1]).unwrap()).unwrap();
    assert!(firefox["threads"][0]["samples"]["length"].as_u64().unwrap() > 0);
    assert!(std::fs::metadata(names[2]).unwrap().len() > 100);
    let diff = truecount(&["report", file.name(), "--diff", file.name(), "--json"]);
    let diff: Value = serde_json::from_slice(&diff.stdout).unwrap();
    for row in diff["rows"].as_array().unwrap() {
        assert_eq!(
            (row["difference"].as_f64(), row["changed"].as_bool()),
            (Some(0.0), Some(false)),
            "{row}"
        );
    }
}

/// One line with cause and hint, and the status.
fn refused(arguments: &[&str], status: i32, part: &str) {
    let output = truecount(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert!(
        said.contains(part) && said.trim().lines().count() == 1,
        "{arguments:?}: {said}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_input_gets_one_line_and_a_status() {
    let file = File::new("wrong");
    refused(&["record"], 2, "nothing to record");
    refused(
        &["record", "-o", file.name(), "--", "/no/such/program"],
        127,
        "/no/such/program",
    );
    refused(&["report", "/no/such/file"], 1, "/no/such/file");
    refused(&["blocks", "/no/such/file"], 1, "/no/such/file");
    std::fs::write(&file.0, b"PERFILE2").unwrap();
    refused(&["report", file.name()], 1, "offset 0x8");
    std::fs::write(&file.0, b"\x7fELF something else").unwrap();
    refused(&["blocks", file.name()], 1, "not a perf.data file");
    std::fs::write(&file.0, b"some text\n").unwrap();
    refused(&["blocks", file.name()], 1, "text without branch stacks");
    std::fs::write(&file.0, b"0x10/0x20/P/-/-/1 0x30/0x8/P/-/-/2\n").unwrap();
    refused(&["blocks", file.name(), "--block", "zz+1"], 1, "zz+1");
    refused(&["blocks", file.name(), "--block", "zz+q"], 2, "zz+q");
}

#[test]
fn a_program_that_cannot_be_executed_leaves_the_recording_before_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let program = File::new("no-program");
    std::fs::write(&program.0, b"\x7fELF and nothing else").unwrap();
    std::fs::set_permissions(&program.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = File::new("discarded");
    let arguments = [
        "record",
        "-e",
        "cpu-clock:u",
        "-o",
        file.name(),
        "--",
        program.name(),
    ];
    for before in [None, Some("the recording before")] {
        if let Some(text) = before {
            std::fs::write(&file.0, text).unwrap();
        }
        let output = truecount(&arguments);
        if output.status.code() == Some(125) {
            truecount_testing::skip!("software", "{}", text(&output.stderr).trim());
            return;
        }
        assert_eq!(output.status.code(), Some(126), "{}", text(&output.stderr));
        assert_eq!(std::fs::read_to_string(&file.0).ok().as_deref(), before);
        assert!(!Path::new(&format!("{}.old", file.name())).exists());
    }
}

#[test]
fn a_corrupted_recording_is_an_error_with_its_place() {
    let shared = std::env::var_os("TRUECOUNT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let file = shared
        .join("data/perfdata/perf_data_converter/perf.data.piped.corrupted.zero_size_sample-3.2");
    if !file.is_file() {
        truecount_testing::skip!("data", "no recording at {}", file.display());
        return;
    }
    refused(&["report", file.to_str().unwrap()], 1, "offset 0xbfd0");
}

/// Documents follow their schemas, and a spoilt one does not.
fn follows(name: &str, document: &Value, spoil: impl Fn(&mut Value)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/schemas")
        .join(name);
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
    let mut wrong = document.clone();
    spoil(&mut wrong);
    assert!(!validator.is_valid(&wrong), "{name} accepts {wrong}");
}

#[test]
fn documents_follow_their_schemas() {
    let file = File::new("schema");
    let stack = " 0x40/0x10/P/-/-/9 0x40/0x10/M/-/-/30 0x40/0x10/P/-/-/9 0x40/0x10/P/-/-/0";
    std::fs::write(&file.0, format!("{stack}\n").repeat(20)).unwrap();
    let output = truecount(&["blocks", "--json", file.name()]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!document["blocks"].as_array().unwrap().is_empty());
    follows("blocks.json", &document, |d| {
        d["blocks"][0]["unit"] = "furlongs".into();
    });
    let file = File::new("schema-report");
    if record(&file, &["-g"]).is_some() {
        follows("report.json", &report(&file, &[]), |d| {
            d["events"][0]["rows"][0]["self"] = Value::Null;
        });
        let diff = truecount(&["report", file.name(), "--diff", file.name(), "--json"]);
        let diff: Value = serde_json::from_slice(&diff.stdout).unwrap();
        follows("report-diff.json", &diff, |d| {
            d["rows"][0]["before"] = 2.into();
        });
    }
}

/// A loop of one block in the text of `perf script`: cycles by whether the branch before was mispredicted, which every
/// fifth is.
fn loop_text(cycles: impl Fn(bool, u32) -> u32) -> String {
    let mut text = String::new();
    let mut state = 1u32;
    for _ in 0..200 {
        let mut stack = Vec::new();
        let mut mispredicted = false;
        for _ in 0..31 {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
            let taken = cycles(mispredicted, state >> 16) + (state >> 8) % 2;
            mispredicted = (state >> 20).is_multiple_of(5);
            let flag = if mispredicted { 'M' } else { 'P' };
            stack.push(format!(" 0x401080/0x401050/{flag}/-/-/{taken}"));
        }
        // Newest first.
        stack.reverse();
        text.push_str(&format!(" 401060{}\n", stack.concat()));
    }
    text
}

/// A misprediction is not a cache miss: no prefetch helps it, in the text, in the document, in the chart.
#[test]
fn a_misprediction_is_no_prefetch_window() {
    let file = File::new("mispredicted");
    std::fs::write(
        &file.0,
        loop_text(|mispredicted, _| if mispredicted { 41 } else { 20 }),
    )
    .unwrap();
    let page = File::new("mispredicted.html");
    let arguments = ["blocks", file.name(), "--block", "0x401050"];
    let output = truecount(&[&arguments[..], &["--html", page.name()]].concat());
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        said.contains("after a mispredicted branch") && said.contains("mode 4"),
        "{said}"
    );
    assert!(
        !said.contains("cycles before the load") && !said.contains("Prefetch window"),
        "{said}"
    );
    assert!(
        said.contains("nothing here for a prefetch to win"),
        "{said}"
    );
    let page = std::fs::read_to_string(page.name()).unwrap();
    assert!(!page.contains("prefetch window"), "{page}");
    let document = truecount(&[&arguments[..], &["--json"]].concat());
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    assert!(document["blocks"][0]["prefetch_window"].is_null());
}

/// The window of misses after predicted branches, the same number everywhere, whatever mispredictions cost beside it.
#[test]
fn the_prefetch_window_is_the_same_everywhere() {
    let file = File::new("window");
    let cycles = |mispredicted, random: u32| match (mispredicted, random % 5) {
        (true, _) => 650,
        (false, 0..3) => 20,
        (false, _) => 338,
    };
    std::fs::write(&file.0, loop_text(cycles)).unwrap();
    let (page, chart) = (File::new("window.html"), File::new("window.svg"));
    let arguments = ["blocks", file.name(), "--block", "0x401050"];
    let pictures = ["--html", page.name(), "--svg", chart.name()];
    let output = truecount(&[&arguments[..], &pictures].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = truecount(&[&arguments[..], &["--json"]].concat());
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    let window = document["blocks"][0]["prefetch_window"]["window"].as_f64();
    let window = window.unwrap();
    assert!((315.0..=320.0).contains(&window), "{window}");
    let said = text(&output.stdout);
    assert!(
        said.contains(&format!("{window:.0} cycles to win")),
        "{said}"
    );
    for picture in [&page, &chart] {
        let drawn = std::fs::read_to_string(picture.name()).unwrap();
        assert!(
            drawn.contains(&format!("prefetch window: {window:.0} cycles")),
            "{drawn}"
        );
        assert!(drawn.contains("prefers-color-scheme:dark"));
    }
}
