//! Regions recorded with a real counter: nested, on several threads, each of known length.

use super::{EXACT, pmu, slack};
use analyzeme::{EventPayload, ProfilingData, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use truecount::{Counter, Recorder, known_loop};

/// Times each thread records the same two regions.
const ROUNDS: u32 = 50;

/// The lengths of the thread's regions, by label; clock readings are stored in nanoseconds there.
fn lengths(data: &ProfilingData) -> BTreeMap<(u32, String), Vec<u64>> {
    let mut found: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for event in data.iter_full() {
        if let EventPayload::Timestamp(Timestamp::Interval { start, end }) = event.payload {
            let length = end.duration_since(start).unwrap().as_nanos();
            found
                .entry((event.thread_id, event.label.to_string()))
                .or_default()
                .push(u64::try_from(length).unwrap());
        }
    }
    found
}

#[test]
fn nested_regions_of_four_threads_have_their_lengths() {
    if !pmu("regions") {
        return;
    }
    let directory = std::env::temp_dir().join(format!("truecount-regions-{}", std::process::id()));
    let recorder = Recorder::with_counters(&directory, &[EXACT]).unwrap();
    // The outer region holds the recording of the inner one.
    let slack = 10 * slack(&Counter::<truecount::Fence>::open(EXACT).unwrap());
    let loops = [1_000_u64, 10_000, 100_000, 500_000];
    std::thread::scope(|scope| {
        for (number, iterations) in loops.into_iter().enumerate() {
            let recorder = &recorder;
            scope.spawn(move || {
                let (outer, inner) = (format!("outer {number}"), format!("inner {number}"));
                let (outer, inner) = (recorder.label(&outer), recorder.label(&inner));
                for _ in 0..ROUNDS {
                    let _outer = recorder.region(outer);
                    known_loop(black_box(iterations));
                    let _inner = recorder.region(inner);
                    known_loop(black_box(2 * iterations));
                }
            });
        }
    });
    let path = recorder.files().pop().unwrap();
    recorder.finish().unwrap();
    let data = ProfilingData::from_paged_buffer(std::fs::read(&path).unwrap(), None);
    let found = lengths(&data.unwrap());
    std::fs::remove_file(&path).unwrap();

    let mut threads = BTreeSet::new();
    for ((thread, label), lengths) in &found {
        threads.insert(*thread);
        let (place, number) = label.split_once(' ').unwrap();
        let iterations = loops[number.parse::<usize>().unwrap()];
        let truth = 2 * iterations * if place == "inner" { 2 } else { 3 };
        let seen: BTreeSet<u64> = lengths.iter().copied().collect();
        println!(
            "thread {thread} {label}: {truth} + {:?}",
            seen.iter().map(|n| n - truth).collect::<Vec<_>>()
        );
        assert_eq!(lengths.len(), ROUNDS as usize);
        let within = |length: &u64| (truth..truth + slack).contains(length);
        assert!(lengths.iter().all(within), "{label}: {seen:?}");
        // Arm's reads go by the page's protocol, which repeats a read that the kernel disturbed.
        let odd = if cfg!(target_arch = "x86_64") { 0 } else { 2 };
        let same = |&length: &u64| lengths.iter().filter(|&&other| other == length).count();
        let most = lengths.iter().map(same).max().unwrap();
        assert!(most + odd >= lengths.len(), "{label}: {seen:?}");
    }
    assert_eq!((threads.len(), found.len()), (4, 8));
}
