//! `truecount check`.

use crate::support::{code, hardware, json, run, stderr, stdout};

#[test]
fn every_problem_has_a_cause_and_what_is_missing_says_so() {
    let document = json(&["check", "--json"]);
    let findings = document["findings"].as_array().unwrap();
    for name in [
        "cpu",
        "hardware",
        "counters",
        "rdpmc",
        "lbr",
        "irq-event",
        "paranoid",
        "nmi-watchdog",
        "aslr-control",
        "virtualisation",
        "software",
        "step",
        "virtual",
    ] {
        let finding = findings.iter().find(|finding| finding["name"] == name);
        let finding = finding.unwrap_or_else(|| panic!("no finding {name}"));
        assert!(!finding["detail"].as_str().unwrap().is_empty());
    }
    let found = findings
        .iter()
        .find(|finding| finding["name"] == "hardware")
        .unwrap();
    if found["status"] == "missing" {
        assert!(
            found["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
            "{found}"
        );
    }
    let text = stdout(&run(&["check"]));
    assert!(text.lines().count() >= findings.len());
}

#[test]
fn requirements_decide_the_status() {
    assert_eq!(code(&run(&["check", "--require", "software"])), 0);
    let output = run(&["check", "--require", "software,hardware"]);
    if hardware() {
        assert_eq!(code(&output), 0);
    } else {
        assert_eq!(code(&output), 1);
        assert!(
            stderr(&output).contains("required but missing: hardware"),
            "{}",
            stderr(&output)
        );
    }
}
