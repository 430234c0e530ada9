//! Every real file of the corpus beside the project is read whole; counts are those that `perf script -D`
//! and `perf script -F brstack` (6.1) print, and those of the corpus's README where perf cannot read a file.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use truecount_sample::abi::record as rt;
use truecount_sample::{Body, BranchStack, Error, Recording};

fn corpus() -> Option<PathBuf> {
    let shared = std::env::var_os("TRUECOUNT_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let dir = shared.join("data/perfdata");
    if dir.is_dir() {
        return Some(dir);
    }
    truecount_testing::skip!(
        "data",
        "no recordings at {} (set TRUECOUNT_SHARED)",
        dir.display()
    );
    None
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    samples: u64,
    mmaps: u64,
    comms: u64,
    forks: u64,
    exits: u64,
    throttles: u64,
    unthrottles: u64,
    lost_samples: u64,
    switches: u64,
    namespaces: u64,
    entries: u64,
    with_cycles: u64,
    cycles: u64,
    mispredicted: u64,
}

fn count(recording: &Recording) -> Counts {
    let mut n = Counts::default();
    for record in recording.records() {
        let record = record.unwrap();
        let (body, ..) = recording.decode(&record).unwrap();
        match body {
            Body::Sample(sample) => {
                n.samples += 1;
                for entry in sample.branches.iter().flat_map(BranchStack::iter) {
                    n.entries += 1;
                    n.with_cycles += u64::from(entry.cycles() != 0);
                    n.cycles += u64::from(entry.cycles());
                    n.mispredicted += u64::from(entry.mispredicted());
                }
            }
            Body::Mmap(_) => n.mmaps += 1,
            Body::Comm(_) => n.comms += 1,
            Body::Fork(_) => n.forks += 1,
            Body::Exit(_) => n.exits += 1,
            Body::Throttle { .. } => n.throttles += 1,
            Body::Unthrottle { .. } => n.unthrottles += 1,
            Body::LostSamples { .. } => n.lost_samples += 1,
            Body::Switch { .. } => n.switches += 1,
            Body::Namespaces { .. } => n.namespaces += 1,
            _ => {}
        }
        assert_ne!(record.raw.kind, rt::COMPRESSED);
    }
    n
}

#[test]
fn records_are_those_that_perf_prints() {
    let Some(dir) = corpus() else { return };
    // file, samples, mmaps, comms, forks, exits
    #[rustfmt::skip]
    let table: &[(&str, [u64; 5])] = &[
        ("autofdo/perf-vmlinux.etm-inject.data", [56, 4496, 591, 592, 1]),
        ("autofdo/propeller_sample.perfdata", [4639, 16, 5, 3, 4]),
        ("autofdo/ro_sample.perf", [13, 5, 2, 0, 1]),
        ("linux-perf-data/sleep.compressed.pipe.data", [8, 49, 2, 0, 1]),
        ("perf_data_converter/perf.data.armv7.perf_3.14-3.8", [700, 1639, 217, 5, 12]),
        ("perf_data_converter/perf.data.branch-3.8", [1916, 1793, 229, 2, 6]),
        ("perf_data_converter/perf.data.branch-4.14", [13, 31, 3, 0, 1]),
        ("perf_data_converter/perf.data.branch_stack_hw_index", [5, 4551, 584, 582, 1]),
        ("perf_data_converter/perf.data.branch_stack_spec", [8, 30, 2, 0, 1]),
        ("perf_data_converter/perf.data.callgraph_and_branch-3.8", [1856, 1793, 229, 1, 4]),
        ("perf_data_converter/perf.data.ctx_switch_namespaces-4.14", [2, 31, 3, 0, 1]),
        ("perf_data_converter/perf.data.group_desc-4.14", [13, 31, 3, 0, 1]),
        ("perf_data_converter/perf.data.hybrid_topology", [7, 107, 3, 0, 1]),
        ("perf_data_converter/perf.data.intel_pt-4.14", [15, 66, 3, 0, 1]),
        ("perf_data_converter/perf.data.lost_samples-4.4", [191, 45, 3, 0, 1]),
        ("perf_data_converter/perf.data.piped.header_features_aligned-6.12", [9, 4, 2, 0, 1]),
        ("perf_data_converter/perf.data.piped.target-3.8", [5218, 2591, 266, 0, 2]),
        ("perf_data_converter/perf.data.raw_callgraph_branch-3.4", [513, 1645, 225, 2, 6]),
        ("perf_data_converter/perf.data.throttle-3.8", [14980, 1653, 230, 2, 4]),
        ("perf_data_converter/perf.data.weight_struct", [14, 6945, 2959, 2955, 59]),
    ];
    for (name, want) in table {
        let n = count(&Recording::open(&dir.join(name)).unwrap());
        assert_eq!(
            [n.samples, n.mmaps, n.comms, n.forks, n.exits],
            *want,
            "{name}"
        );
    }
}

#[test]
fn branch_stacks_are_those_that_perf_prints() {
    let Some(dir) = corpus() else { return };
    // file, entries, with cycles, mispredicted, sum of cycles
    #[rustfmt::skip]
    let table: &[(&str, [u64; 4])] = &[
        ("autofdo/propeller_sample.perfdata", [148_448, 148_070, 482, 659_096]),
        ("autofdo/perf-vmlinux.etm-inject.data", [1991, 0, 0, 0]),
        ("autofdo/ro_sample.perf", [0, 0, 0, 0]),
        ("perf_data_converter/perf.data.branch-3.8", [30_656, 0, 1906, 0]),
        ("perf_data_converter/perf.data.branch-4.14", [416, 386, 21, 50_938]),
        ("perf_data_converter/perf.data.branch_stack_hw_index", [116, 0, 0, 0]),
        ("perf_data_converter/perf.data.branch_stack_spec", [128, 0, 9, 0]),
        ("perf_data_converter/perf.data.callgraph_and_branch-3.8", [29_696, 0, 1716, 0]),
        ("perf_data_converter/perf.data.raw_callgraph_branch-3.4", [8208, 0, 453, 0]),
    ];
    for (name, want) in table {
        let n = count(&Recording::open(&dir.join(name)).unwrap());
        assert_eq!(
            [n.entries, n.with_cycles, n.mispredicted, n.cycles],
            *want,
            "{name}"
        );
    }
}

/// perf 6.1 reads none of these: newer attributes (136 bytes) and records (83).
#[test]
fn files_newer_than_perf_are_read() {
    let Some(dir) = corpus() else { return };
    let read = |name: &str| {
        let recording = Recording::open(&dir.join("linux-perf-data").join(name)).unwrap();
        let n = count(&recording);
        assert!(n.samples > 0, "{name}: {n:?}");
        assert!(
            recording.events().iter().all(|e| e.attr.size == 136),
            "{name}"
        );
        (n.samples, n.mmaps, n.comms, n.exits)
    };
    for name in NEWER {
        println!("{name}: {:?}", read(name));
    }
}

const NEWER: [&str; 5] = [
    "sleep.data",
    "sleep.compressed.data",
    "sleep.compressed2.data",
    "sleep.compressed2.pipe.data",
    "fibo.compressed2.pipe.data",
];

#[test]
fn losses_and_throttling_are_accounted() {
    let Some(dir) = corpus() else { return };
    let open = |name: &str| Recording::open(&dir.join(name)).unwrap();
    let n = count(&open("perf_data_converter/perf.data.throttle-3.8"));
    assert_eq!((n.throttles, n.unthrottles), (68, 64));
    let propeller = open("autofdo/propeller_sample.perfdata");
    assert_eq!(propeller.losses().unwrap().throttled, 41);
    let lost = open("perf_data_converter/perf.data.lost_samples-4.4");
    assert_eq!(count(&lost).lost_samples, 2);
    assert!(lost.losses().unwrap().lost_samples > 0);
    let n = count(&open(
        "perf_data_converter/perf.data.ctx_switch_namespaces-4.14",
    ));
    assert_eq!((n.switches, n.namespaces), (2, 1));
}

#[test]
fn features_name_the_machine_and_the_events() {
    let Some(dir) = corpus() else { return };
    let hybrid =
        Recording::open(&dir.join("perf_data_converter/perf.data.hybrid_topology")).unwrap();
    let names: Vec<_> = hybrid.events().iter().map(|e| e.name.as_str()).collect();
    assert_eq!(
        names,
        ["cpu_core/cycles:ppp/", "cpu_atom/cycles:ppp/", "dummy:HG"]
    );
    assert_eq!(
        hybrid.features().cpu_id.as_deref(),
        Some("GenuineIntel,6,186,3")
    );
    assert!(!hybrid.features().build_ids.is_empty());
    let pipe = Recording::open(
        &dir.join("perf_data_converter/perf.data.piped.header_features_aligned-6.12"),
    )
    .unwrap();
    assert!(pipe.is_pipe() && pipe.features().arch.is_some());
}

#[test]
fn the_corrupted_file_is_an_error_with_its_offset() {
    let Some(dir) = corpus() else { return };
    let error = Recording::open(
        &dir.join("perf_data_converter/perf.data.piped.corrupted.zero_size_sample-3.2"),
    )
    .err()
    .unwrap();
    assert!(
        matches!(error, Error::Damaged { offset, .. } if offset > 16),
        "{error}"
    );
    assert!(error.to_string().contains("a record of 0 bytes"), "{error}");
}

#[test]
fn every_cut_of_a_file_is_read_or_refused() {
    let Some(dir) = corpus() else { return };
    for name in [
        "autofdo/ro_sample.perf",
        "linux-perf-data/sleep.compressed.pipe.data",
    ] {
        let bytes = std::fs::read(dir.join(name)).unwrap();
        for cut in (0..bytes.len()).step_by(7) {
            let Ok(recording) = Recording::from_bytes(bytes.get(..cut).unwrap().to_vec()) else {
                continue;
            };
            for record in recording.records().flatten() {
                let _ = recording.decode(&record);
            }
        }
    }
}
