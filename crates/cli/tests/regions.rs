//! `truecount noise` of programs that write region profiles of their own. A binary without much in it: it is the program
//! that is counted, and its symbols are looked up.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "cli/support.rs"]
#[allow(dead_code)] // only some of it is needed here
mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use support::{TWO_RUNS, code, fails, stderr, stdout, truecount, virtual_pmu};

fn skipped() -> bool {
    !virtual_pmu()
}

/// Set: the program that `noise` runs; it records regions of this counter into this file.
const RECORD: &str = "TRUECOUNT_TEST_RECORD";

/// Not a test of its own. One region does the same in every run, the one inside it ten turns for each byte of
/// the environment.
#[test]
fn region_workload() {
    let Some(recorded) = std::env::var_os(RECORD) else {
        return;
    };
    let recorded = recorded.into_string().unwrap();
    let (counter, path) = recorded.split_once(' ').unwrap();
    let turns = |count: usize| {
        let mut left = count;
        while left > 0 {
            left = std::hint::black_box(left) - 1;
        }
    };
    let bytes: usize = std::env::vars_os()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let recorder = truecount::Recorder::with_counters(path, &[counter]).unwrap();
    {
        let _steady = recorder.region("steady");
        turns(10_000);
        let _odd = recorder.region("by the environment's size");
        turns(bytes * 10);
    }
    recorder.finish().unwrap();
    // Here, because the harness prints how long it took: that differs by itself.
    std::process::exit(0);
}

/// `noise` of [`region_workload`] in a directory.
fn of_regions(directory: &Path, record: &str, arguments: &[&str]) -> Command {
    let head = [
        "noise",
        "--source",
        "virtual",
        "--seed",
        "1",
        "--factors",
        "env",
    ];
    let mut command = truecount(&[&head[..], arguments, &["--"]].concat());
    command
        .arg(std::env::current_exe().unwrap())
        .args(["region_workload", "--exact", "--test-threads=1"])
        .env(RECORD, record)
        .current_dir(directory);
    command
}

#[test]
fn regions_of_the_programs_own_profiles_are_named() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // A profile of another day is none of these runs'.
    std::fs::write(directory.path().join("old.mm_profdata"), "old").unwrap();
    let page = directory.path().join("page.html");
    // The test harness varies a little by itself: so many runs decide what is a cause. Without functions they are fast.
    let page_name = page.to_str().unwrap();
    let arguments = ["-n", "5", "--functions", "0", "--html", page_name];
    let output = of_regions(directory.path(), "instructions:u app", &arguments)
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "dominant factor: environment size",
        "Regions in which runs differ, env: ",
        "(instructions:u of the program's own profiles)",
        "by the environment's size",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("not used") && !text.contains("Functions in which"),
        "{text}"
    );
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("Regions in which runs differ") && text.contains("environment's size"));
    // Elsewhere, and with functions.
    let other = tempfile::tempdir().unwrap();
    let place = other.path().to_str().unwrap();
    let arguments = ["-n", "2", "--json", "--profile", place];
    let record = format!("instructions:u {place}/app");
    let output = of_regions(directory.path(), &record, &arguments)
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let env = &document["factors"][0];
    assert!(!env["functions"].as_array().unwrap().is_empty(), "{env:#}");
    assert_eq!(env["region_counter"], "instructions:u", "{env:#}");
    assert!(env["diverging_regions"].as_u64() > Some(0), "{env:#}");
    let region = &env["regions"][0];
    assert_eq!(region["region"], "by the environment's size");
    // What the region counts is the program's: nearly all of the difference.
    let end = |name: &str| region[name].as_f64().unwrap();
    let difference = end("max_run") - end("min_run");
    let all = env["plus_minus"].as_f64().unwrap() * 2.0;
    assert!((difference / all - 1.0).abs() < 0.1, "{env:#}");
}

#[test]
fn region_profiles_that_tell_nothing_are_a_note() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let text = |output: std::process::Output| {
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(
            !stdout(&output).contains("Regions in which"),
            "{}",
            stdout(&output)
        );
        stdout(&output)
    };
    // Time is not instructions.
    let told = text(
        of_regions(
            directory.path(),
            "wall-time app",
            &["-n", "2", "--functions", "0"],
        )
        .output()
        .unwrap(),
    );
    assert!(told.contains("count wall-time"), "{told}");
    let told = text(
        of_regions(
            directory.path(),
            "wall-time app",
            &["-n", "2", "--functions", "0", "--profile", "x"],
        )
        .output()
        .unwrap(),
    );
    assert!(told.contains("No run wrote a region profile"), "{told}");
    // Cut off, of another version, and no profile at all.
    let whole = std::fs::read(directory.path().join("app.mm_profdata")).unwrap();
    let sources = tempfile::tempdir().unwrap();
    let cut = whole[..whole.len() - 3].to_vec();
    let files = [
        (cut, "ends inside a page"),
        (b"MMPD\x07\0\0\0".to_vec(), "version 7"),
        (b"what".to_vec(), "offset 0"),
    ];
    for (bytes, cause) in files {
        let source = sources.path().join("bad");
        std::fs::write(&source, bytes).unwrap();
        let head = [&TWO_RUNS[..], &["--factors", "env", "--", "cp"]].concat();
        let mut command = truecount(&head);
        command
            .arg(&source)
            .arg("bad.mm_profdata")
            .current_dir(directory.path());
        let told = text(command.output().unwrap());
        assert!(told.contains("not used") && told.contains(cause), "{told}");
    }
    fails(
        &["noise", "--profile", "/dev/null", "--", "true"],
        2,
        &["--profile /dev/null"],
    );
}
