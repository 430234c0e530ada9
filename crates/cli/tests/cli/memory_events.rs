//! `truecount run -e` with events of memory: each alone has the value that it has among all, though nothing else is looked at.

use crate::memory::built;
use crate::model_told::BRANCHES;
use crate::support::{code, stderr, truecount, virtual_pmu};
use std::os::unix::process::CommandExt as _;
use truecount_testing::programs::{ELEMENTS, FAULTS, REFERENCES};

/// What needs nothing but itself, each; `l2-misses` where this CPU's model has them.
const EVENTS: [&str; 13] = [
    "load-bytes",
    "store-bytes",
    "taken-branches",
    "lines-touched",
    "lines-written",
    "pages-touched",
    "line-splits",
    "page-splits",
    "unaligned",
    "l1i-misses",
    "l1d-misses",
    "ll-misses",
    "mispredicts",
];

/// The values of events of a run, in their order. `limit`: most bytes of its addresses.
fn values(program: &str, events: &[&str], limit: Option<u64>) -> Vec<u64> {
    let names = events.join(",");
    let arguments = ["run", "--json", "--reproducible", "-e", &names, "--"];
    let arguments: Vec<&str> = arguments.into_iter().chain([program, "again"]).collect();
    let mut command = truecount(&arguments);
    if let Some(bytes) = limit {
        let limit = libc::rlimit {
            rlim_cur: bytes,
            rlim_max: bytes,
        };
        // SAFETY: setrlimit(2) is async-signal-safe.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
    }
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{events:?}: {}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counters = document["counters"].as_array().unwrap().iter();
    let values: Vec<u64> = counters
        .map(|one| one["value"].as_u64().unwrap_or_else(|| panic!("{one}")))
        .collect();
    assert_eq!(values.len(), events.len(), "{document}");
    values
}

fn check(source: &str, arguments: &[&str], sets: &[&[&str]], limit: Option<u64>) {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), source, arguments) else {
        return;
    };
    let program = program.to_str().unwrap();
    let all = values(program, &EVENTS, limit);
    let named = |event: &&&str| EVENTS.iter().position(|name| name == *event);
    for events in sets {
        let expected: Vec<u64> = events
            .iter()
            .filter_map(|event| Some(all[named(&event)?]))
            .collect();
        assert_eq!(
            values(program, events, limit),
            expected,
            "{events:?} of {all:?}"
        );
    }
    // (Most of them are not 0: there is something to compare.)
    assert!(
        all.iter().filter(|value| **value == 0).count() < 5,
        "{all:?}"
    );
}

/// Each alone, and facts with a part of the model.
const SETS: [&[&str]; 12] = [
    &["load-bytes", "store-bytes"],
    &["taken-branches"],
    &["line-splits", "unaligned"],
    &["lines-touched", "pages-touched"],
    &["l1i-misses"],
    &["l1d-misses"],
    &["ll-misses"],
    &["mispredicts"],
    &["load-bytes", "mispredicts", "taken-branches"],
    &["taken-branches", "l1d-misses"],
    &["store-bytes", "l1i-misses", "l1d-misses"],
    &["lines-written", "mispredicts", "l1i-misses"],
];

#[test]
fn of_all_sizes() {
    check(REFERENCES, &["-O1"], &SETS, None);
}

#[test]
fn of_uncommon_references() {
    // (The reference machine has no AVX-512.)
    let wide = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    let wide = format!("-DWIDE={}", u8::from(wide));
    let arguments = ["-O1", "-no-pie", &wide, "-DWITH_FAULTS"];
    check(ELEMENTS, &arguments, &SETS, None);
}

#[test]
fn of_faults_and_processes() {
    check(FAULTS, &["-O1"], &SETS, None);
}

#[test]
fn of_branches() {
    let arguments = ["-O1", "-nostdlib", "-static"];
    check(BRANCHES, &arguments, &SETS[..9], None);
}

/// Where no addresses are left for a shadow every reference is noted.
#[test]
fn without_addresses_for_a_shadow() {
    check(REFERENCES, &["-O1"], &SETS, Some(4 << 30));
    check(FAULTS, &["-O1"], &SETS[3..], Some(4 << 30));
}
