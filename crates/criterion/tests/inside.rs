//! Criterion itself, with counts, under the virtual PMU.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use criterion::Criterion;
use std::process::Command;
use std::time::Duration;
use truecount_criterion::Counts;
use truecount_engine::virt::{LaunchError, run_held_constant};

const INSIDE: &str = "TRUECOUNT_TEST_INSIDE";

/// The test below runs this inside.
#[test]
fn suite() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let counts = Counts::instructions();
    let mut criterion = Criterion::default()
        .with_measurement(counts)
        .sample_size(10)
        .warm_up_time(Duration::from_millis(1))
        .measurement_time(Duration::from_millis(5));
    criterion.bench_function("loop", |bencher| {
        bencher.iter(|| truecount::known_loop(std::hint::black_box(10_000)));
    });
}

/// The estimate of `what` for an iteration.
fn estimate(text: &str, what: &str) -> f64 {
    let of = text.split(&format!("\"{what}\":")).nth(1).unwrap();
    let number = of.split("\"point_estimate\":").nth(1).unwrap();
    let number = number.split([',', '}']).next().unwrap();
    number.trim().parse().unwrap()
}

#[test]
fn criterion_counts_a_loop_of_known_length() {
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    let home = std::env::temp_dir().join(format!("truecount-criterion-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "suite", "--nocapture"])
        .env(INSIDE, "1")
        .env("CRITERION_HOME", &home);
    match run_held_constant(&mut command, false) {
        Ok(outcome) => assert!(outcome.status.success(), "{}", outcome.status),
        Err(LaunchError::PtraceForbidden { error }) => {
            truecount_testing::skip!("virtual", "ptrace is not permitted: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    }
    let estimates = home.join("loop/new/estimates.json");
    let text = std::fs::read_to_string(&estimates)
        .unwrap_or_else(|error| panic!("{}: {error}", estimates.display()));
    let _ = std::fs::remove_dir_all(&home);
    let median = estimate(&text, "median");
    // The loop, and in a debug build a hundred or so around it.
    assert!((20_000.0..20_500.0).contains(&median), "{text}");
}

/// The example, whose suite is ported by its first line: it runs itself again, and its estimates are the same to the
/// last digit.
#[test]
fn a_ported_suite_gives_the_same_estimates_in_every_run() {
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let profile = own.parent().unwrap().parent().unwrap();
    let suite = profile.join("examples/ported");
    assert!(suite.exists(), "{} is not built", suite.display());
    let mut first: Option<Vec<String>> = None;
    for _ in 0..2 {
        let scratch = tempfile::tempdir().unwrap();
        // Names of the same length: the paths are in the environment.
        let home = scratch.path().join("home");
        let output = Command::new(&suite)
            .args(["--bench", "--noplot"])
            .env("CRITERION_HOME", &home)
            .current_dir(scratch.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() && said.contains("ptrace") {
            truecount_testing::skip!("virtual", "{said}");
            return;
        }
        assert!(output.status.success(), "{said}");
        let read = |name: &str| {
            let path = home.join(name).join("new/estimates.json");
            std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let found: Vec<String> = ["sums/10", "sums/1000", "sort", "hashes"].map(read).into();
        assert!(estimate(&found[1], "median") > estimate(&found[0], "median"));
        assert_eq!(*first.get_or_insert_with(|| found.clone()), found);
    }
}
