//! The micro noise of real runs: equal sequences, differing sequences, several threads.

#![allow(clippy::unwrap_used)]

#[path = "support/build.rs"]
mod build;

use build::Builder;
use std::path::PathBuf;
use truecount_profile::aggregate::aggregate;

/// A run: on each thread an outer interval with `steps` in it, each `lengths[i]` long.
fn run(directory: &std::path::Path, name: &str, threads: &[(u32, &[(&str, u64)])]) -> PathBuf {
    let mut b = Builder::new(9);
    let kind = b.bytes(b"GenericActivity");
    let outer = b.bytes(b"outer");
    for (thread, steps) in threads {
        let mut now = 100;
        for (label, length) in *steps {
            let id = b.bytes(label.as_bytes());
            b.raw(kind, id, *thread, now, now + length);
            now += length + 10;
        }
        b.raw(kind, outer, *thread, 90, now);
    }
    let path = directory.join(name);
    std::fs::write(&path, b.file(4096)).unwrap();
    path
}

#[test]
fn equal_runs_have_variations_with_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let files = [
        run(
            directory.path(),
            "1",
            &[(1, &[("a", 5), ("b", 7), ("c", 5)])],
        ),
        run(
            directory.path(),
            "2",
            &[(1, &[("a", 5), ("b", 12), ("c", 5)])],
        ),
        run(
            directory.path(),
            "3",
            &[(1, &[("a", 5), ("b", 7), ("c", 6)])],
        ),
    ];
    let noise = aggregate(&files).unwrap();
    assert_eq!(
        (noise.intervals, noise.unmatched, noise.distinct),
        (7, 0, 1)
    );
    let found: Vec<(u64, u64)> = noise
        .variations
        .iter()
        .map(|v| (v.range, v.occurrences))
        .collect();
    assert_eq!(found, [(0, 5), (1, 1), (5, 1)]);
    assert_eq!(noise.place(&noise.variations[1]), "c()");
    assert_eq!(noise.place(&noise.variations[2]), "b()");
    assert!(noise.differences.is_empty());
}

#[test]
fn differing_sequences_are_aligned_and_the_rest_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let files = [
        run(
            directory.path(),
            "1",
            &[(1, &[("a", 5), ("b", 7), ("c", 5), ("d", 1)])],
        ),
        run(
            directory.path(),
            "2",
            &[(1, &[("a", 6), ("x", 1), ("c", 5), ("d", 4)])],
        ),
    ];
    let noise = aggregate(&files).unwrap();
    assert_eq!(noise.distinct, 2);
    assert_eq!(noise.differences.len(), 1);
    let difference = &noise.differences[0];
    assert_eq!(difference.place, "in outer(), between a() and c()");
    assert_eq!(
        (difference.points, difference.runs.as_slice()),
        (2, &[(1, 2)][..])
    );
    // start-a, a, (a-b, b, b-c differ), c, c-d, d, d-end
    assert_eq!((noise.intervals, noise.unmatched), (6, 3));
}

#[test]
fn threads_are_lined_up_by_what_they_do() {
    let directory = tempfile::tempdir().unwrap();
    let files = [
        run(
            directory.path(),
            "1",
            &[(1, &[("a", 5)]), (2, &[("b", 5), ("c", 1)])],
        ),
        run(
            directory.path(),
            "2",
            &[(1, &[("b", 5), ("c", 3)]), (2, &[("a", 5)])],
        ),
        run(
            directory.path(),
            "3",
            &[
                (1, &[("a", 5)]),
                (2, &[("b", 5), ("c", 1)]),
                (3, &[("a", 1)]),
            ],
        ),
    ];
    let noise = aggregate(&files).unwrap();
    assert_eq!((noise.intervals, noise.unmatched), (8, 0));
    assert_eq!(noise.variations.last().unwrap().range, 2);
    assert_eq!(
        noise.place(noise.variations.last().unwrap()),
        "thread 2: c()"
    );
    assert_eq!(noise.unpaired, [(2, 3, 4)]);
    assert!(aggregate(&files[..1]).is_err());
}

/// Threads that take work from each other: what one did in one run and another in the next is the same work.
#[test]
fn work_is_found_on_whichever_thread_it_ran() {
    let directory = tempfile::tempdir().unwrap();
    let files = [
        run(
            directory.path(),
            "1",
            &[
                (1, &[("a", 5), ("b", 6), ("c", 7), ("d", 8)]),
                (2, &[("e", 1), ("f", 2)]),
                (3, &[("g", 3)]),
            ],
        ),
        run(
            directory.path(),
            "2",
            &[
                // The ids are others, thread 3 took c and d away, and nobody's order tells who is who.
                (1, &[("g", 3)]),
                (2, &[("a", 5), ("b", 9)]),
                (3, &[("e", 1), ("c", 7), ("f", 2), ("d", 18)]),
            ],
        ),
    ];
    let noise = aggregate(&files).unwrap();
    // Compared: g's thread (3 intervals), b and what stands before (4), e and f (3 of their thread's), c and d (1 each).
    assert_eq!(noise.moved, 2, "{noise:?}");
    let ranges: Vec<u64> = noise.variations.iter().map(|v| v.range).collect();
    assert_eq!(ranges, [0, 3, 10], "{noise:?}");
    assert_eq!(noise.place(&noise.variations[2]), "thread 1: d()");
    assert!(noise.unpaired.is_empty());
    let durations = noise.durations();
    assert_eq!(
        durations.iter().map(|d| d.occurrences).sum::<u64>(),
        noise.intervals
    );
    let d = durations.iter().find(|d| d.low == 8).unwrap();
    assert_eq!((d.high, d.occurrences), (18, 1));
    assert_eq!(noise.place_of(d), "thread 1: d()");
}
