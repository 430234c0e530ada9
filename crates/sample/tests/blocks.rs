//! What `blocks` finds in the real recording of a Skylake server (autofdo's `propeller_sample.perfdata`), and in
//! made-up stacks where every rule of the cleaning applies once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::PathBuf;

use truecount_sample::blocks::{self, Analysis, Refusal};
use truecount_sample::{Recording, Result};

fn corpus(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("TRUECOUNT_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let file = shared.join("data/perfdata").join(name);
    if file.is_file() {
        return Some(file);
    }
    truecount_testing::skip!(
        "data",
        "no recording at {} (set TRUECOUNT_SHARED)",
        file.display()
    );
    None
}

fn analyze(file: &std::path::Path) -> Result<std::result::Result<Analysis, Refusal>> {
    blocks::analyze(&Recording::open(file)?)
}

#[test]
fn propeller_is_cleaned_and_merged() {
    let Some(file) = corpus("autofdo/propeller_sample.perfdata") else {
        return;
    };
    let a = analyze(&file).unwrap().unwrap();
    let c = &a.cleaning;
    assert_eq!(
        (c.samples, c.entries, c.entries_with_cycles, c.mispredicted),
        (4639, 148_448, 148_070, 482)
    );
    assert_eq!(c.duplicated_top, 720);
    assert_eq!(a.losses.throttled, 41);
    // Three processes at three addresses are one program.
    let program = a
        .files
        .iter()
        .position(|f| f.path.ends_with("/propeller_sample.bin"))
        .unwrap();
    let in_program: Vec<_> = a
        .blocks
        .iter()
        .filter(|b| b.file == Some(program as u32))
        .collect();
    assert!(
        in_program.iter().all(|b| b.start < 0x2000),
        "offsets, not addresses"
    );
    let starts: std::collections::HashSet<_> =
        in_program.iter().map(|b| (b.start, b.end)).collect();
    assert_eq!(starts.len(), in_program.len(), "each block once");
}

/// perf says 12 cycles for what ends here, because it mixes all starts.
#[test]
fn propellers_block_has_its_own_distribution() {
    let Some(file) = corpus("autofdo/propeller_sample.perfdata") else {
        return;
    };
    let a = analyze(&file).unwrap().unwrap();
    // main+69 → main+167; main is at 0x11e0 in the file.
    let block = a
        .blocks
        .iter()
        .find(|b| (b.start, b.end) == (0x11e0 + 69, 0x11e0 + 167))
        .unwrap();
    let all = block.all_cycles();
    assert!((all.mean().unwrap() - 22.5).abs() < 0.1, "{:?}", all.mean());
    let modes: Vec<f64> = all.modes().iter().map(|m| m.cycles.round()).collect();
    assert_eq!(modes, [11.0, 17.0, 21.0, 41.0]);
    // Others end at the same branch, and take another time.
    let others: Vec<_> = a
        .blocks
        .iter()
        .filter(|b| b.end == block.end && b.start != block.start)
        .collect();
    assert!(others.iter().any(|b| b.all_cycles().mean().unwrap() < 10.0));
}

#[test]
fn propellers_misprediction_costs_24_cycles() {
    let Some(file) = corpus("autofdo/propeller_sample.perfdata") else {
        return;
    };
    let a = analyze(&file).unwrap().unwrap();
    let m = a.misprediction.unwrap();
    assert!((m.cycles - 24.0).abs() < 1.0 && m.arrivals > 300, "{m:?}");
}

#[test]
fn files_without_cycles_say_why_and_give_counts() {
    let expected = [
        ("perf_data_converter/perf.data.branch_stack_spec", "AMD"),
        (
            "perf_data_converter/perf.data.branch-3.8",
            "before Skylake|only Skylake",
        ),
        (
            "autofdo/perf-vmlinux.etm-inject.data",
            "no cycle counts|no entry has cycles",
        ),
    ];
    for (name, why) in expected {
        let Some(file) = corpus(name) else { return };
        let a = analyze(&file).unwrap().unwrap();
        let said = a.no_cycles.unwrap();
        assert!(why.split('|').any(|w| said.contains(w)), "{name}: {said}");
        assert!(
            a.blocks[0].count() > 1 && a.misprediction.is_none(),
            "{name}"
        );
        assert!(!a.loops.is_empty() && !a.paths.is_empty(), "{name}");
    }
}

#[test]
fn recordings_without_stacks_are_refused() {
    let Some(file) = corpus("autofdo/ro_sample.perf") else {
        return;
    };
    assert_eq!(
        analyze(&file).unwrap().unwrap_err(),
        Refusal::NoBranchStacks
    );
}

/// One line of `perf script -F ip,brstack`, oldest entry first here.
fn line(entries: &[(u64, u64, &str, u16)]) -> String {
    let mut out = String::from(" 401000");
    for (from, to, flag, cycles) in entries.iter().rev() {
        out.push_str(&format!(" {from:#x}/{to:#x}/{flag}/-/-/{cycles}"));
    }
    out.push('\n');
    out
}

#[test]
fn every_rule_of_cleaning_counts_what_it_drops() {
    let kernel = 0xffff_ffff_8000_0000;
    let stack = [
        (0x1010, 0x1100, "P", 3),     // no start known
        (0x1110, 0x1000, "P", 7),     // block 1100..1110
        (0x1010, 0x1100, "P", 0),     // block 1000..1010, cycles not known
        (0x1110, 0x1000, "M", 65535), // block 1100..1110, saturated
        (0x1010, 0x1100, "P", 30),    // block 1000..1010 after a mispredicted branch
        (kernel, 0x1108, "P", 9000),  // an interruption comes back
        (0x1110, 0x1000, "P", 2),     // block 1108..1110
        (0x900, 0x1000, "P", 5),      // ends before it starts
        (0, 0, "-", 0),               // nothing recorded
        (0x1010, 0x1100, "P", 4),     // no start known again
        (0x1110, 0x1200, "P", 6),     // block 1100..1110, a forward branch …
        (0x1110, 0x1200, "P", 11),    // … that cannot be taken twice in a row
    ];
    let a = blocks::analyze_text(&line(&stack), None).unwrap();
    let c = a.cleaning;
    assert_eq!(c.entries, 12);
    assert_eq!(c.duplicated_top, 1);
    assert_eq!((c.ring_transitions, c.ring_cycles), (1, 9000));
    assert_eq!((c.zero_address, c.impossible, c.without_start), (1, 1, 2));
    assert_eq!((c.unknown_cycles, c.saturated), (1, 1));
    assert_eq!((c.blocks, c.timed_blocks), (6, 4));
    // Every entry is accounted for.
    let dropped =
        c.duplicated_top + c.ring_transitions + c.zero_address + c.impossible + c.without_start;
    assert_eq!(c.blocks + dropped, c.entries);
    let find = |start, end| {
        a.blocks
            .iter()
            .find(|b| (b.start, b.end) == (start, end))
            .unwrap()
    };
    let entered = find(0x1000, 0x1010);
    assert_eq!(
        (
            entered.predicted.unknown,
            entered.mispredicted.cycles.bins()
        ),
        (1, &[(30, 1)][..])
    );
    let second = find(0x1100, 0x1110);
    assert_eq!(
        (second.predicted.cycles.bins(), second.predicted.saturated),
        (&[(6, 1), (7, 1)][..], 1)
    );
    assert_eq!(find(0x1108, 0x1110).predicted.cycles.bins(), [(2, 1)]);
}

#[test]
fn a_loop_has_its_trip_count_and_its_cycles() {
    // 5 turns of one block, entered from above, left by falling through; three times.
    let mut entries = vec![(0x900, 0x1000, "P", 1)];
    for _ in 0..3 {
        entries.extend([(0x1030, 0x1020, "P", 9); 4]);
        entries.push((0x1050, 0x1000, "P", 12));
    }
    let a = blocks::analyze_text(&line(&entries), None).unwrap();
    let l = a.loops.iter().find(|l| l.header == 0x1020).unwrap();
    assert_eq!(l.back_edge, 0x1030);
    // Three whole iterations lie between the four arrivals of each time.
    assert_eq!((l.iterations, l.cycles.bins()), (9, &[(9, 9)][..]));
    // The first block has no predecessor and does not count: 14 executions of the header, 2 entries.
    assert_eq!(
        (l.header_executions, l.entries, l.trip_count()),
        (14, 2, Some(7.0))
    );
    let outer = a.loops.iter().find(|l| l.header == 0x1000).unwrap();
    assert_eq!((outer.iterations, outer.cycles.bins()), (1, &[(48, 1)][..]));
}

/// A loop that calls one of four functions by a pointer: calls of functions before it and returns from functions behind
/// it go backwards, and are no loops.
#[test]
fn calls_and_returns_are_no_loops() {
    for functions in [0x1000, 0x9000] {
        let mut random = 7u32;
        let mut entries = Vec::new();
        for _ in 0..200 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let function = functions + u64::from(random >> 30) * 0x40;
            // call *(%rax) at 0x5010 (2 bytes), ret at the function's end, the loop's own branch at 0x5020.
            entries.push((0x5010, function, "P", 3));
            entries.push((function + 0x20, 0x5012, "P", 5));
            entries.push((0x5020, 0x5000, "P", 2));
        }
        let text: String = entries.chunks(30).map(|some| line(some) + "\n").collect();
        let a = blocks::analyze_text(&text, None).unwrap();
        let found: Vec<(u64, u64)> = a.loops.iter().map(|l| (l.header, l.back_edge)).collect();
        assert_eq!(found, [(0x5000, 0x5020)], "{functions:#x}");
        let l = &a.loops[0];
        assert_eq!(l.bodies.len(), 4, "one way for each function");
        assert!(
            l.iterations > 100 && l.cycles.percentile(0.5) == Some(10),
            "{l:?}"
        );
    }
}

/// Indirect branches lead to blocks that take as long after a misprediction, or less: no cost is shown then, and none is
/// below 0.
#[test]
fn a_misprediction_costs_nothing_or_more() {
    let cost = |after_mispredicted: u16| {
        let mut entries = Vec::new();
        for turn in 0..200u64 {
            // The flag of an entry is that of its own branch: what comes behind it took longer, or not.
            let (flag, cycles) = match turn % 5 {
                0 => ("M", 20),
                1 => ("P", after_mispredicted),
                _ => ("P", 20),
            };
            entries.push((0x1080, 0x1050, flag, cycles));
        }
        let text: String = entries.chunks(30).map(|some| line(some) + "\n").collect();
        blocks::analyze_text(&text, None).unwrap().misprediction
    };
    let more = cost(45).unwrap();
    assert!((more.cycles - 25.0).abs() < 0.5, "{more:?}");
    for as_long_or_less in [20, 18] {
        let none = cost(as_long_or_less);
        assert!(none.is_none(), "{none:?}");
    }
}
