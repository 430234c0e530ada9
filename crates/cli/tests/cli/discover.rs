//! `truecount discover` without a PMU: what is wrong is said in one line. What it finds is in `tests/hardware`.

use crate::support::{code, fails, hardware, run, stderr, stdout};
use truecount_testing::schemas::schema;

#[test]
fn without_a_pmu_it_says_so_and_shows_no_zeros() {
    if hardware() {
        truecount_testing::skip!("no-pmu", "there is a PMU");
        return;
    }
    for arguments in [
        &["discover"][..],
        &["discover", "--json", "--select", "0xc0..0xcc"],
        &["discover", "--", "true"],
    ] {
        let output = run(arguments);
        assert_eq!(
            (code(&output), stdout(&output).as_str()),
            (1, ""),
            "{arguments:?}"
        );
        let told = stderr(&output);
        assert!(
            told.contains("no selector can be tried") && told.contains("PMU"),
            "{told}"
        );
        assert_eq!(told.trim().lines().count(), 1, "{told}");
    }
}

#[test]
fn the_command_line_is_checked() {
    assert_eq!(code(&run(&["discover", "-n", "1"])), 2);
    assert_eq!(code(&run(&["discover", "--umasks=some"])), 2);
    for (select, cause) in [
        ("c0", "is not an event code"),
        ("0xc4..0xc0", "ends before it begins"),
        ("0xfffff", "end at"),
    ] {
        fails(&["discover", "--select", select], 2, &["--select", cause]);
    }
}

#[test]
fn its_help_explains_every_number() {
    let help = stdout(&run(&["discover", "--help"]));
    for word in [
        "min",
        "repeats",
        "counts in",
        "sums of two",
        "never counted",
        "not opened",
        "130",
    ] {
        assert!(help.contains(word), "{word}");
    }
}

/// A document as the x86 rig gives it, shortened.
const DOCUMENT: &str = r#"{
  "schema": "truecount.discover/2", "select": "0xc0..0xcc", "codes": 13, "umasks": "no", "filter": "u", "runs": 3,
  "command": [], "phases": [{ "name": "calls", "turn": "call", "turns": 50000 }], "cpu": 0, "table": "skylake",
  "references": [{ "event": "interrupts", "source": "software", "min": 60, "median": 61.5, "max": 63, "exact": false },
    { "event": "x", "source": "hardware" }],
  "at_once": 5,
  "events": [{ "event": "r01cb:u", "code": 203, "umask": 1, "names": ["HW_INTERRUPTS.RECEIVED"], "provenance": "x",
    "names_of_code": 1, "min": 50, "median": 51.0, "max": 53, "exact": false, "runs": 3,
    "phases": [{ "phase": "calls", "min": 1, "median": 1.0, "max": 2, "exact": false, "per_turn": 0.00002, "turn": "call" }],
    "relations": [{ "reference": "interrupts", "relation": "correlated", "equal_points": 40, "points": 48, "ratio": 0.9,
      "pearson": 0.99, "spearman": 0.98 }] }],
  "sums": [{ "event": "a", "of": ["b", "c"], "equal_points": 48, "points": 48, "max_off": 0 }],
  "silent": [{ "event": "r00c1:u", "code": 193, "umask": 0, "names": [] }],
  "not_opened": [{ "event": "r00c2:u", "selector": { "code": 194, "umask": null }, "reason": "no", "hint": "do" }],
  "not_counted": [], "complete": true, "resumed": false, "interrupted": null, "seconds": 1.5, "notes": [],
  "environment": {}
}"#;

#[test]
fn the_schema_accepts_results_and_nothing_else() {
    let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
    let schema = schema("discover.json");
    let errors: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    for spoil in [
        |d: &mut serde_json::Value| d["schema"] = "truecount.discover/9".into(),
        |d: &mut serde_json::Value| d["events"][0]["max"] = 0.into(),
        |d: &mut serde_json::Value| d["events"][0]["relations"][0]["relation"] = "near".into(),
        |d: &mut serde_json::Value| d["not_opened"][0]["reason"] = "".into(),
        |d: &mut serde_json::Value| d["references"][0]["source"] = "virtual".into(),
    ] {
        let mut wrong = document.clone();
        spoil(&mut wrong);
        assert!(!jsonschema::is_valid(&schema, &wrong), "{wrong}");
    }
}
