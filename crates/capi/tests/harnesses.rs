//! Harnesses of C++ that count: by the C++ wrapper, or by counters of their own, which the virtual PMU answers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use support::{Prefix, inside, native, text};

/// A test of Catch2's that compares counts.
#[test]
fn catch2_compares_counts() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let program = match prefix.built("c++", "catch2.cpp", &["-O0", "-std=c++17"]) {
        Ok(program) => program,
        Err(said) if said.contains("catch2/catch.hpp") => {
            truecount_testing::skip!("catch2", "{said}");
            return;
        }
        Err(said) => panic!("{said}"),
    };
    let Some(output) = inside(&program, &[]) else {
        return;
    };
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("All tests passed (2 assertions in 1 test case)"),
        "{said}"
    );
}

/// google-benchmark opens an event on each PMU of the CPU that sysfs lists, and where it lists none, on none, without a
/// word; libpfm looks up the PMU's type there.
#[test]
fn who_looks_for_pmus_in_sysfs_counts_by_the_virtual_one() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let program = prefix.compile("cc", "pmus.c", &["-O1"]);
    let Some(output) = inside(&program, &[]) else {
        return;
    };
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let wanted = "there type 4, counted";
    assert!(
        ["no list: ", "cpu: "]
            .iter()
            .any(|how| said.contains(&format!("{how}{wanted}"))),
        "{said}"
    );
}

/// The program with google-benchmark; a skip where that is not here.
fn google_benchmark(prefix: &Prefix) -> Option<PathBuf> {
    let flags = ["-O2", "-std=c++17", "-lbenchmark"];
    match prefix.built("c++", "gbench.cpp", &flags) {
        Ok(program) => Some(program),
        Err(said) if said.contains("benchmark/benchmark.h") || said.contains("-lbenchmark") => {
            truecount_testing::skip!("google-benchmark", "{said}");
            None
        }
        Err(said) => panic!("{said}"),
    }
}

/// A user counter of google-benchmark's, which needs neither its libpfm nor a PMU.
#[test]
fn google_benchmark_shows_counts_beside_times() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let Some(program) = google_benchmark(&prefix) else {
        return;
    };
    let arguments = [
        "--benchmark_min_time=0.01",
        "--benchmark_format=csv",
        "--benchmark_filter=loop",
    ];
    let mut first = None;
    for _ in 0..2 {
        let Some(output) = inside(&program, &arguments) else {
            return;
        };
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let counts: Vec<u64> = said
            .lines()
            .filter(|line| line.starts_with("\"loop/"))
            .map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap() as u64)
            .collect();
        assert_eq!(counts.len(), 2, "{said}");
        assert_eq!(counts[1] - counts[0], 2000, "{said}");
        assert!((2000..2300).contains(&counts[0]), "{said}");
        assert_eq!(*first.get_or_insert_with(|| counts.clone()), counts);
    }
}

/// Counts of an iteration of two loops of known length, by a harness that has counters of its own: the same in every run.
fn loops_of(program: &Path, arguments: &[&str], read: impl Fn(&str) -> Vec<f64>) {
    let mut first = None;
    for _ in 0..3 {
        let Some(output) = inside(program, arguments) else {
            return;
        };
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let counts = read(&said);
        let [short, long] = counts[..] else {
            panic!("{said}");
        };
        assert!(
            (long - short - 2000.0).abs() < 1.0 && (2000.0..2300.0).contains(&short),
            "{said}"
        );
        assert_eq!(*first.get_or_insert_with(|| counts.clone()), counts);
    }
}

/// google-benchmark's own counters, in a build with libpfm: CPATH, LIBRARY_PATH and LD_LIBRARY_PATH lead to one that is not
/// the system's.
#[test]
fn google_benchmarks_own_counters_count_by_the_virtual_pmu() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let Some(program) = google_benchmark(&prefix) else {
        return;
    };
    let arguments = [
        "--benchmark_filter=plain",
        "--benchmark_perf_counters=INSTRUCTIONS",
        "--benchmark_format=json",
    ];
    let said = native(&program, &arguments);
    let warned = String::from_utf8_lossy(&said.stderr).into_owned();
    if warned.contains("counters not supported") {
        truecount_testing::skip!("libpfm", "{warned}");
        return;
    }
    loops_of(&program, &arguments, |said| {
        let counts = said.lines().filter_map(|line| {
            let count = line.trim().strip_prefix("\"INSTRUCTIONS\": ")?;
            Some(count.trim_end_matches(',').parse().expect(said))
        });
        counts.collect()
    });
}

#[test]
fn nanobench_counts_by_the_virtual_pmu() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let program = match prefix.built("c++", "nanobench.cpp", &["-O2", "-std=c++17", "-w"]) {
        Ok(program) => program,
        Err(said) if said.contains("nanobench.h") => {
            truecount_testing::skip!("nanobench", "{said}");
            return;
        }
        Err(said) => panic!("{said}"),
    };
    loops_of(&program, &[], |said| {
        let counts = said.lines().filter_map(|line| line.strip_prefix("loop "));
        counts.map(|count| count.parse().expect(said)).collect()
    });
}
