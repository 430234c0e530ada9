//! Every number of the self-time table against measureme's own (`analyzeme`), label by label.
//!
//! `TRUECOUNT_PROFILES=DIR cargo test -p truecount-profile --release --test oracle -- --ignored`
//! does it for every profile below DIR (the big ones need twice their size in memory, for analyzeme).

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use truecount_profile::{Profile, summarize};

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap()
}

/// Compares all numbers of all labels; returns how many labels there were.
fn compare(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let theirs = analyzeme::ProfilingData::from_paged_buffer(bytes, Some(path))
        .unwrap()
        .perform_analysis();
    let ours = summarize(&Profile::open(path).unwrap());
    assert!(
        ours.losses.is_empty(),
        "{}: {:?}",
        path.display(),
        ours.losses
    );
    assert_eq!(
        i128::from(ours.total),
        theirs.total_time.as_nanos() as i128,
        "{}",
        path.display()
    );
    let theirs_by_label: BTreeMap<_, _> = theirs
        .query_data
        .iter()
        .map(|row| (row.label.as_str(), row))
        .collect();
    assert_eq!(
        ours.labels.len(),
        theirs_by_label.len(),
        "{}",
        path.display()
    );
    for row in &ours.labels {
        let them = theirs_by_label[row.label.as_str()];
        let place = format!("{} {}", path.display(), row.label);
        assert_eq!(row.self_time, nanos(them.self_time), "self time of {place}");
        assert_eq!(row.time as i64, nanos(them.time), "time of {place}");
        assert_eq!(row.count, them.invocation_count as u64, "count of {place}");
        assert_eq!(
            row.cache_misses, them.number_of_cache_misses as u64,
            "misses of {place}"
        );
        assert_eq!(
            row.cache_hits, them.number_of_cache_hits as u64,
            "hits of {place}"
        );
        assert_eq!(
            row.blocked as i64,
            nanos(them.blocked_time),
            "blocked of {place}"
        );
        assert_eq!(
            row.incremental_load,
            nanos(them.incremental_load_time),
            "load of {place}"
        );
        assert_eq!(
            row.incremental_hashing,
            nanos(them.incremental_hashing_time),
            "hashing of {place}"
        );
    }
    let artifacts: Vec<_> = theirs
        .artifact_sizes
        .iter()
        .map(|a| (a.label.clone(), a.value))
        .collect();
    assert_eq!(
        ours.artifacts
            .iter()
            .map(|a| (a.label.clone(), a.bytes))
            .collect::<Vec<_>>(),
        artifacts
    );
    ours.labels.len()
}

#[test]
fn same_numbers_as_analyzeme_on_what_rustc_writes() {
    let directory = tempfile::tempdir().unwrap();
    for events in ["default", "default,args", "all"] {
        let name = format!("tree_{}", events.replace(',', "_"));
        let Some(path) = support::rustc_profile(directory.path(), events, &name) else {
            return;
        };
        assert!(compare(&path) > 50, "rustc has more than 50 labels");
    }
}

#[test]
#[ignore = "needs TRUECOUNT_PROFILES=DIR with profiles; minutes for the big ones"]
fn same_numbers_as_analyzeme_on_a_directory() {
    let Some(directory) = std::env::var_os("TRUECOUNT_PROFILES") else {
        truecount_testing::skip!("profiles", "TRUECOUNT_PROFILES is not set");
        return;
    };
    for path in truecount_profile::find(Path::new(&directory)).unwrap() {
        let labels = compare(&path);
        println!("{}: {labels} labels, every number equal", path.display());
    }
}
