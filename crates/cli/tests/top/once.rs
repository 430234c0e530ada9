//! `top --once`.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Busy, text, truecount};

/// The document; `None` where perf events are not available.
fn once(arguments: &[&str]) -> Option<Value> {
    let output = truecount(&[&["top", "--once", "--json"], arguments].concat());
    if output.status.code() == Some(125) {
        truecount_testing::skip!("software", "{}", text(&output.stderr).trim());
        return None;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The same over as long as a loaded machine may need until there is enough in it.
fn once_enough(arguments: &[&str], enough: impl Fn(&Value) -> bool) -> Option<Value> {
    for seconds in ["1", "5"] {
        let document = once(&[arguments, &["--seconds", seconds]].concat())?;
        if enough(&document) {
            return Some(document);
        }
    }
    once(&[arguments, &["--seconds", "25"]].concat())
}

fn row<'a>(document: &'a Value, name: &str) -> &'a Value {
    let rows = document["rows"].as_array().unwrap();
    let found = rows
        .iter()
        .find(|r| r["name"].as_str().unwrap().contains(name));
    found.unwrap_or_else(|| panic!("no {name} in {document:#}"))
}

#[test]
fn shares_are_those_of_perf_report() {
    let busy = Busy::start();
    let pid = busy.pid();
    let file = std::env::temp_dir().join(format!("truecount-top-{pid}.data"));
    // Both look at the same three seconds.
    let perf = Command::new("perf")
        .args([
            "record",
            "-q",
            "-e",
            "cpu-clock:u",
            "-c",
            "200000",
            "-p",
            &pid,
            "-o",
        ])
        .arg(&file)
        .args(["--", "sleep", "3"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let document = once(&[
        "-e",
        "cpu-clock:u",
        "-c",
        "200000",
        "-p",
        &pid,
        "--seconds",
        "3",
    ]);
    let recorded = perf.map(|perf| perf.wait_with_output().unwrap());
    let Some(document) = document else { return };
    assert_eq!(document["events"][0]["name"], "cpu-clock:u");
    let samples = document["events"][0]["samples"].as_u64().unwrap();
    if samples < 500 {
        truecount_testing::skip!(
            "idle",
            "this machine is too busy to compare shares ({samples} samples in 3 s)"
        );
        return;
    }
    let first = &document["rows"][0];
    assert!(
        first["name"].as_str().unwrap().contains("top_test_hot"),
        "{document:#}"
    );
    let shares: f64 = document["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["values"][0]["share"].as_f64().unwrap())
        .sum();
    assert!((shares - 1.0).abs() < 1e-6, "{shares}");
    assert_eq!(document["losses"]["records"], 0);
    assert_eq!(document["losses"]["not_understood"], 0);
    match recorded {
        Ok(recorded) if recorded.status.success() => {
            let report = Command::new("perf")
                .args([
                    "report",
                    "--stdio",
                    "--no-inline",
                    "-F",
                    "overhead,sym",
                    "-i",
                ])
                .arg(&file)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let report = text(&report.stdout);
            for name in ["top_test_hot", "top_test_warm"] {
                let line = report.lines().find(|l| l.contains(name)).expect(&report);
                let theirs = line.trim().split('%').next().unwrap();
                let theirs: f64 = theirs.parse().expect(line);
                let ours = 100.0 * row(&document, name)["values"][0]["share"].as_f64().unwrap();
                println!("{name}: truecount {ours:.2} %, perf {theirs:.2} %");
                // Five standard deviations of the difference of two shares of so many samples.
                let most = 100.0 * 5.0 * (2.0 * 0.25 / samples as f64).sqrt();
                assert!((ours - theirs).abs() < most, "{name}: {ours} and {theirs}");
            }
        }
        Ok(recorded) => truecount_testing::skip!("perf", "perf record: {}", text(&recorded.stderr)),
        Err(error) => truecount_testing::skip!("perf", "perf ({error})"),
    }
    let _ = std::fs::remove_file(file);
}

#[test]
fn rows_of_every_kind_and_their_schema() {
    let busy = Busy::start();
    let pid = busy.pid();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/top.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for by in ["symbol", "line", "process", "thread", "cpu"] {
        let arguments = ["-e", "cpu-clock:u,task-clock:u", "-p", &pid, "--by", by];
        let events = |document: &Value| document["events"].as_array().unwrap().clone();
        let Some(document) = once_enough(&arguments, |document| {
            let mut events = events(document).into_iter();
            events.all(|event| event["samples"].as_u64() >= Some(50))
        }) else {
            return;
        };
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let mut wrong = document.clone();
        wrong["rows"][0]["values"][0]["share"] = 1.5.into();
        assert!(!validator.is_valid(&wrong));
        let first = document["rows"][0]["name"].as_str().unwrap();
        let expected = match by {
            "symbol" => "top_test_hot",
            "line" => "top.rs:",
            "cpu" => "CPU ",
            // The program's, or of the thread that runs the test.
            _ => "",
        };
        assert!(first.contains(expected), "{by}: {document:#}");
        if by == "process" {
            assert_eq!(document["rows"][0]["of"], pid.as_str());
            assert!(first.starts_with("top-"), "{first}");
        }
        if by == "thread" {
            assert!(
                document["rows"][0]["of"]
                    .as_str()
                    .unwrap()
                    .starts_with(&format!("{pid}/"))
            );
        }
        // Two clocks of the same time.
        let ratio = document["rows"][0]["ratio"].as_f64().unwrap();
        assert!((0.5..2.0).contains(&ratio), "{ratio}");
        assert_eq!(document["events"][1]["name"], "task-clock:u");
    }
}

#[test]
fn the_whole_machine_has_our_program_in_it() {
    let busy = Busy::start();
    let pid = busy.pid();
    let arguments = ["-e", "cpu-clock", "--by", "process", "--top", "1000"];
    let ours = |document: &Value| {
        let rows = document["rows"].as_array().unwrap();
        let ours = rows.iter().find(|r| r["of"] == pid.as_str());
        ours.and_then(|ours| ours["values"][0]["samples"].as_u64())
    };
    let enough = |document: &Value| ours(document) > Some(20);
    let Some(document) = once_enough(&arguments, enough) else {
        return;
    };
    assert!(enough(&document), "our program is not there: {document:#}");
    let rows = document["rows"].as_array().unwrap();
    assert!(
        rows.iter().all(|r| r["of"] != "0"),
        "idle time is not sampled: {document:#}"
    );
}

#[test]
fn a_process_that_ends_ends_the_sampling() {
    let mut busy = Busy::start();
    let pid = busy.pid();
    let mut top = Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args(["top", "--once", "--json", "-e", "cpu-clock:u"])
        .args(["-p", &pid, "--seconds", "600"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It watches, and the program has run since, for 20 ticks of its time: then there are samples.
    let (mut began, mut status) = (None, None);
    while status.is_none() && began.is_none_or(|began| ticks(&pid) < began + 20) {
        std::thread::sleep(std::time::Duration::from_millis(10));
        if began.is_none() && watches(top.id()) {
            began = Some(ticks(&pid));
        }
        status = top.try_wait().unwrap();
    }
    busy.0.kill().unwrap();
    busy.0.wait().unwrap();
    let output = top.wait_with_output().unwrap();
    if output.status.code() == Some(125) {
        truecount_testing::skip!("software", "perf events are not available");
        return;
    }
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["process_ended"], true);
    assert!(document["seconds"].as_f64() < Some(600.0), "{document:#}");
    assert!(
        document["rows"][0]["name"]
            .as_str()
            .unwrap()
            .contains("top_test_hot")
    );
}

/// Whether a process has opened perf events.
fn watches(pid: u32) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
    open.is_ok_and(|open| {
        let mut files = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        files.any(|file| file.to_string_lossy().contains("[perf_event]"))
    })
}

/// User time of a process in ticks: the 14th field of proc(5)'s `stat`.
fn ticks(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit(") ").next().unwrap();
    rest.split(' ').nth(11).unwrap().parse().unwrap()
}

/// One line with cause and hint, and the status.
fn refused(arguments: &[&str], status: i32, parts: &[&str]) {
    let output = truecount(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert_eq!(said.trim().lines().count(), 1, "{arguments:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{arguments:?}: no {part} in {said}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_input_gets_one_line_and_a_status() {
    refused(&["top"], 2, &["not a terminal", "--once"]);
    refused(
        &["top", "--once", "-e", "cpu-clok"],
        2,
        &["cpu-clok", "cpu-clock"],
    );
    refused(
        &["top", "--once", "-p", "4194305"],
        125,
        &["no process 4194305", "pgrep"],
    );
    refused(&["top", "--once", "-p", "0"], 125, &["no process 0"]);
    refused(
        &["top", "--once", "-C", "1000"],
        2,
        &["CPU 1000 is not online"],
    );
    refused(
        &["top", "--once", "-C", "x"],
        2,
        &["`x` is not a list of CPUs"],
    );
    let events = ["page-faults"; 9].join(",");
    refused(
        &["top", "--once", "-e", &events],
        2,
        &["9 events", "at most 8"],
    );
    refused(
        &["top", "--once", "-e", "wall-time"],
        2,
        &["wall-time", "cannot be sampled"],
    );
}

/// Without the right to look at other users' processes.
#[test]
fn missing_rights_are_told_with_their_hint() {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let level: i32 = paranoid
        .ok()
        .and_then(|t| t.trim().parse().ok())
        .unwrap_or(-1);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    // The test's directory may not be readable for nobody.
    let copy = std::env::temp_dir().join(format!("truecount-nobody-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_truecount"), &copy).unwrap();
    let output = command
        .arg(&copy)
        .args(["top", "--once", "-e", "cpu-clock", "--seconds", "200ms"])
        .output();
    let _ = std::fs::remove_file(copy);
    match output {
        Ok(output) if output.status.code() == Some(125) => {
            let said = text(&output.stderr);
            assert_eq!(said.trim().lines().count(), 1, "{said}");
            assert!(said.contains("perf_event_paranoid"), "{said}");
        }
        Ok(output) if level > 0 && text(&output.stderr).starts_with("truecount") => {
            panic!("{}", text(&output.stderr));
        }
        Ok(output) => {
            truecount_testing::skip!("setpriv", "{} {}", output.status, text(&output.stderr));
        }
        Err(error) => truecount_testing::skip!("setpriv", "setpriv ({error})"),
    }
}
