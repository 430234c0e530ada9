//! `truecount overhead`: the timer is there on every machine where the kernel lets this user sample.

use std::time::Duration;

use serde_json::Value;

use crate::support::{code, fails, hardware, interrupt, json, run, stderr, stdout, truecount};
use truecount_testing::schemas::schema;

fn check(document: &Value) {
    let schema = schema("overhead.json");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

fn refuses(document: &Value, spoil: impl Fn(&mut Value)) {
    let mut wrong = document.clone();
    spoil(&mut wrong);
    assert!(
        !jsonschema::is_valid(&schema("overhead.json"), &wrong),
        "{wrong}"
    );
}

/// What it printed, or `None` with the reason where nobody may sample.
fn measured(arguments: &[&str]) -> Option<Value> {
    let output = run(&[&["overhead", "--json"], arguments].concat());
    if code(&output) == 1 && stderr(&output).contains("no cell could be measured") {
        truecount_testing::skip!("software", "the kernel lets this user sample nothing");
        return None;
    }
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn every_cell_has_a_price_or_a_reason() {
    let Some(document) = measured(&[
        "--seconds",
        "1",
        "--rates",
        "4000",
        "--model",
        "--seed",
        "9",
    ]) else {
        return;
    };
    check(&document);
    assert_eq!(document["seed"], 9);
    let cells = document["cells"].as_array().unwrap();
    let missing = document["not_here"].as_array().unwrap();
    // 2 events, 2 methods, 4 payloads, 1 rate.
    assert_eq!(cells.len() + missing.len(), 16);
    for method in ["frequency", "period"] {
        for payload in ["none", "fp", "dwarf"] {
            let cell = cells
                .iter()
                .find(|c| {
                    c["event"] == "cpu-clock" && c["method"] == method && c["payload"] == payload
                })
                .unwrap();
            assert!(cell["samples"].as_u64() > Some(0), "{cell}");
            assert_eq!(cell["period"].is_u64(), method == "period", "{cell}");
        }
    }
    assert!(
        cells.iter().any(|c| c["stolen"]["p50"].as_u64() > Some(0)),
        "{document}"
    );
    if !hardware() {
        let cycles = missing.iter().filter(|c| c["event"] == "cycles");
        assert_eq!(cycles.filter(|c| c["needs_hardware"] == true).count(), 8);
        let read = &document["reads"][0];
        assert!(read["ns"].is_null() && read["reason"].is_string(), "{read}");
        assert!(document["model"]["fitted"].is_null());
    }
    assert!(
        document["advice"]["budgeted"]
            .as_array()
            .is_some_and(|b| !b.is_empty()),
        "{document}"
    );
    refuses(&document, |d| d["cells"][0]["event"] = "clock".into());
    refuses(&document, |d| d["model"]["label"] = "measured".into());
    refuses(&document, |d| {
        d["model"]["inputs"]["wrmsr_ns"]["origin"] = "somewhere".into();
    });
    refuses(&document, |d| d["reads"][0]["reason"] = 5.into());
    refuses(&document, |d| d["schema"] = "truecount.overhead/9".into());
}

#[test]
fn a_command_is_a_workload_too() {
    let arguments = [
        "--seconds",
        "0.5",
        "--rates",
        "1000",
        "--payloads",
        "none",
        "--event",
        "cpu-clock",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done",
    ];
    let Some(document) = measured(&arguments) else {
        return;
    };
    check(&document);
    assert!(document["command"].as_str().unwrap().starts_with("sh -c"));
    for cell in document["cells"].as_array().unwrap() {
        assert!(cell["samples"].as_u64() > Some(0), "{cell}");
        assert!(cell["slowdown"]["value"].as_f64() > Some(0.0), "{cell}");
        assert!(cell["stolen"].is_null(), "{cell}");
    }
    fails(
        &["overhead", "--", "no-such-program-anywhere"],
        127,
        &["no-such-program"],
    );
}

/// A program that is gone after its fourth run: two settings a round, so the fifth run is of the third round.
#[test]
fn a_run_that_fails_costs_only_itself() {
    let cells = ["--rates", "1000", "--payloads", "none"];
    let of = ["--event", "cpu-clock", "--methods", "period"];
    let quick = ["--seconds", "0.01", "--", "true"];
    if measured(&[&cells[..], &of, &quick].concat()).is_none() {
        return;
    }
    let gone = |last: &str, json: &[&str]| {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("sh");
        std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
        let head = ["overhead", "--seconds", "60", "--seed", "1"];
        let script = "n=0; [ -s count ] && read n < count; echo $((n+1)) > count; \
            [ $n -lt LAST ] || rm -f sh; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        truecount(&[&head[..], &cells, &of, json, &["--"]].concat())
            .arg(&program)
            .args(["-c", &script.replace("LAST", last)])
            .current_dir(directory.path())
            .output()
            .unwrap()
    };
    let output = gone("3", &["--json"]);
    let told = stderr(&output);
    assert_eq!(code(&output), 127, "{told}");
    assert_eq!(told.matches("truecount: ").count(), 1, "{told}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&document);
    let cell = &document["cells"][0];
    assert_eq!(
        (&cell["visits"], &document["rounds"]),
        (&2.into(), &2.into())
    );
    assert!(cell["slowdown"]["value"].as_f64() > Some(0.0), "{cell}");
    let note = document["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with("Run 5 (") && note.contains("failed: "),
        "{note}"
    );
    refuses(&document, |d| d["notes"] = "none".into());
    let output = gone("3", &[]);
    let text = stdout(&output);
    assert_eq!(code(&output), 127, "{}", stderr(&output));
    assert!(
        text.contains("Run 5 (") && text.contains("What a sample costs"),
        "{text}"
    );
    // An undisturbed run alone (with this seed it is the first) is nothing to show.
    let output = gone("0", &["--json"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (127, ""));
}

#[test]
fn the_model_alone_measures_nothing_and_says_what_it_is() {
    let document = json(&[
        "overhead",
        "--model-only",
        "--json",
        "--input",
        "delivery_ns=0",
    ]);
    check(&document);
    assert!(document["cells"].as_array().unwrap().is_empty() && document["advice"].is_null());
    for outcome in document["model"]["outcomes"].as_array().unwrap() {
        // Nothing is lost where the interrupt comes at once.
        assert_eq!(outcome["lost"], 0.0, "{outcome}");
    }
    let text = stdout(&run(&["overhead", "--model-only"]));
    assert!(
        text.contains("a model, not a measurement") && text.contains("stated:"),
        "{text}"
    );
    fails(
        &["overhead", "--model-only", "--input", "wrmsr_ns=-1"],
        2,
        &["wrmsr_ns"],
    );
    fails(
        &["overhead", "--model-only", "--input", "x=1"],
        2,
        &["delivery_ns"],
    );
    let help = stdout(&run(&["overhead", "--help"]));
    for word in ["stolen", "handler", "slowdown", "throttled", "EXAMPLES"] {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn ctrl_c_prints_what_there_is() {
    let child = truecount(&[
        "overhead",
        "--json",
        "--seconds",
        "60",
        "--event",
        "cpu-clock",
    ])
    .stdout(std::process::Stdio::piped())
    .spawn()
    .unwrap();
    // Where there is something by then, it is in the document.
    interrupt(&child, Duration::from_millis(500));
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&document);
    assert_eq!(document["interrupted"], libc::SIGINT);
}
