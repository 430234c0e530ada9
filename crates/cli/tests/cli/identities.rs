//! The command on CPUs other than the one at hand (`TRUECOUNT_TEST_CPU`): tables, metrics and messages differ, nothing
//! may fail. `.ci/run` gives two of these identities to the tests of schemas and errors as well.

use std::process::Output;

use crate::support::{code, stderr, stdout, truecount, virtual_pmu};
use truecount_testing::schemas::schema;

/// Name for messages, identity, the model of the tables, and whether its tables have an event called like a cycle that
/// `truecount events cycles` finds.
const CPUS: [(&str, &str, Option<&str>); 8] = [
    ("Zen 2", "AuthenticAMD-23-49-0", Some("amdzen2")),
    ("Zen 3", "AuthenticAMD-25-33-0", Some("amdzen3")),
    ("Zen 5", "AuthenticAMD-26-68-0", Some("amdzen5")),
    ("Skylake", "GenuineIntel-6-94-3", Some("skylake")),
    ("Alder Lake", "GenuineIntel-6-151-2", Some("alderlake")),
    (
        "Sapphire Rapids",
        "GenuineIntel-6-143-8",
        Some("sapphirerapids"),
    ),
    ("Neoverse N1", "0x41-8-3340-1", Some("neoverse-n1")),
    ("unknown", "unknown", None),
];

fn on(identity: &str, args: &[&str]) -> Output {
    let mut command = truecount(args);
    command
        .env("TRUECOUNT_TEST_CPU", identity)
        .output()
        .unwrap()
}

fn follows(name: &str, output: &Output) -> serde_json::Value {
    assert_eq!(code(output), 0, "{}", stderr(output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let validator = jsonschema::validator_for(&schema(name)).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
    document
}

#[test]
fn events_are_those_of_the_stated_cpu() {
    for (cpu, identity, model) in CPUS {
        let text = stdout(&on(identity, &["events"]));
        let first = text.lines().next().unwrap_or_default();
        match model {
            Some(model) => assert!(first.contains(model), "{cpu}: {first}"),
            None => assert!(text.contains("cpu-clock"), "{cpu}: {text}"),
        }
        let document = follows("events.json", &on(identity, &["events", "--json"]));
        let from_table = document["events"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["origin"] == "table")
            .count();
        assert_eq!(from_table > 20, model.is_some(), "{cpu}: {from_table}");
    }
}

/// Whatever the tables have, the answer is a list or a line that says why there is none.
#[test]
fn a_name_is_found_or_the_reason_is_said() {
    for (cpu, identity, _) in CPUS {
        for name in ["cycles", "branch", "l2", "instructions", "nosuchevent"] {
            let output = on(identity, &["events", name]);
            let said = stderr(&output);
            match code(&output) {
                0 => assert!(
                    stdout(&output).to_lowercase().contains(name),
                    "{cpu}, {name}"
                ),
                1 => assert!(
                    said.starts_with("truecount: ") && said.lines().count() == 1,
                    "{cpu}, {name}: {said}"
                ),
                other => panic!("{cpu}, {name}: {other} {said}"),
            }
        }
    }
}

#[test]
fn every_command_that_looks_at_the_cpu_works() {
    for (cpu, identity, _) in CPUS {
        let check = follows("check.json", &on(identity, &["check", "--json"]));
        let findings = check["findings"].as_array().unwrap();
        let shown = findings
            .iter()
            .find(|finding| finding["name"] == "cpu")
            .unwrap();
        assert!(
            shown["detail"]
                .as_str()
                .unwrap()
                .contains("TRUECOUNT_TEST_CPU"),
            "{cpu}: {shown}"
        );
        for (args, statuses) in [
            (&["events", "--metrics"][..], &[0][..]),
            (
                &[
                    "stat",
                    "--source",
                    "software",
                    "-e",
                    "page-faults",
                    "--",
                    "true",
                ],
                &[0],
            ),
            (&["stat", "-M", "ipc", "--", "true"], &[0, 2]),
            (&["stat", "-M", "topdown-1", "--", "true"], &[0, 2]),
            (&["bench", "-n", "2", "true"], &[0]),
            (&["system", "-n", "1", "-I", "50", "--json"], &[0]),
            (
                &["discover", "--select", "0xc0", "-n", "2", "--", "true"],
                &[0, 1],
            ),
            (&["overhead", "--model-only"], &[0]),
        ] {
            let output = on(identity, args);
            let (status, said) = (code(&output), stderr(&output));
            assert!(
                statuses.contains(&status),
                "{cpu}: {args:?}: {status} {said}"
            );
            assert!(!said.contains("panicked"), "{cpu}: {args:?}: {said}");
        }
    }
}

#[test]
fn the_virtual_pmu_counts_whatever_the_cpu_is_called() {
    if !virtual_pmu() {
        return;
    }
    for (cpu, identity, _) in CPUS {
        let output = on(identity, &["run", "--", "true"]);
        assert_eq!(code(&output), 0, "{cpu}: {}", stderr(&output));
        assert!(
            stderr(&output).contains("instructions:u  virtual  exact"),
            "{cpu}"
        );
    }
}
