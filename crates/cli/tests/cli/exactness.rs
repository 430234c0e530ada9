//! `truecount exactness`. What it needs is in every machine: the engine where there is no PMU.

use std::time::Duration;

use serde_json::Value;

use crate::support::{
    code, fails, hardware, interrupt, run, stderr, stdout, truecount, virtual_pmu,
};
use truecount_testing::schemas::schema;

fn valid(document: &Value) -> bool {
    jsonschema::is_valid(&schema("exactness.json"), document)
}

/// Runs it with a state directory of its own.
fn measured(arguments: &[&str], state: &std::path::Path) -> Value {
    let output = truecount(&[&["exactness", "--json"], arguments].concat())
        .env("XDG_STATE_HOME", state)
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn without_a_pmu_the_virtual_source_deviates_by_nothing_and_check_shows_it() {
    if hardware() || !virtual_pmu() {
        truecount_testing::skip!(
            "no-pmu",
            "needs a machine without a PMU where the virtual PMU works"
        );
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let document = measured(&["--seconds", "1", "-e", "instructions:u"], state.path());
    let errors = jsonschema::validator_for(&schema("exactness.json"))
        .unwrap()
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect::<Vec<_>>();
    assert!(errors.is_empty(), "{errors:#?}");
    let counter = &document["counters"][0];
    assert_eq!(
        (&counter["event"], &counter["source"]),
        (&"instructions:u".into(), &"virtual".into())
    );
    assert_eq!(counter["verdict"]["kind"], "exact", "{counter}");
    let loops = counter["loops"].as_array().unwrap();
    assert!(loops.len() >= 8, "{counter}");
    for each in loops {
        assert!(each["truth"].as_u64().unwrap() > 500, "{each}");
        assert_eq!(each["exact"], each["samples"], "{each}");
        assert_eq!(each["histogram"][0]["deviation"], 0, "{each}");
    }
    let check = truecount(&["check"])
        .env("XDG_STATE_HOME", state.path())
        .output()
        .unwrap();
    let text = stdout(&check);
    assert!(
        text.contains("instructions:u (virtual) deviation 0"),
        "{text}"
    );
    // A schema that accepts anything would prove nothing.
    for spoil in [
        |d: &mut Value| d["counters"][0]["source"] = "step".into(),
        |d: &mut Value| d["counters"][0]["loops"][0]["truth"] = Value::Null,
        |d: &mut Value| d["counters"][0]["verdict"]["kind"] = "fine".into(),
        |d: &mut Value| d["schema"] = "truecount.exactness/9".into(),
    ] {
        let mut wrong = document.clone();
        spoil(&mut wrong);
        assert!(!valid(&wrong), "{wrong}");
    }
}

#[test]
fn page_faults_are_exact_and_nothing_is_kept_unless_wished() {
    let state = tempfile::tempdir().unwrap();
    let document = measured(
        &[
            "--seconds",
            "0.3",
            "-e",
            "page-faults:u",
            "--no-save",
            "--stress",
            "--seed",
            "7",
        ],
        state.path(),
    );
    assert!(valid(&document), "{document}");
    assert_eq!(
        (&document["seed"], &document["stress"]),
        (&7.into(), &true.into())
    );
    let loops = document["counters"][0]["loops"].as_array().unwrap();
    let faults = loops.iter().find(|each| each["name"] == "faults").unwrap();
    assert_eq!(faults["truth"], 128);
    assert!(faults["exact"].as_u64() > Some(0), "{faults}");
    assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0);
}

/// Interrupts a run over ten minutes, and gives what it printed.
fn interrupted(event: &str) -> Value {
    let arguments = [
        "exactness",
        "--json",
        "--seconds",
        "600",
        "--no-save",
        "-e",
        event,
    ];
    let child = truecount(&arguments)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Where there is something by then, it is in the document.
    interrupt(&child, Duration::from_millis(500));
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(valid(&document), "{document}");
    assert_eq!(document["interrupted"], libc::SIGINT);
    // It ended because of the signal, not by itself.
    assert!(document["seconds"].as_f64() < Some(600.0), "{document}");
    document
}

#[test]
fn ctrl_c_prints_what_there_is() {
    interrupted("page-faults:u");
    if virtual_pmu() {
        interrupted("instructions:u");
    }
}

#[test]
fn what_nobody_knows_is_refused_with_the_hint() {
    fails(
        &["exactness", "-e", "cycles:u"],
        2,
        &["cycles:u=instructions"],
    );
    fails(
        &["exactness", "-e", "nonsense=instructions"],
        2,
        &["nonsense"],
    );
    fails(&["exactness", "-e", "r00c0:u=cycles"], 2, &["page-faults"]);
    let help = stdout(&run(&["exactness", "--help"]));
    for word in ["deviation", "per second", "SpecLockMap", "EXAMPLES"] {
        assert!(help.contains(word), "{word}");
    }
}
