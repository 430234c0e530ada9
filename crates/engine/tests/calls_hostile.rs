//! The calling-context tree of programs that are out to break it: they run as natively, nothing is lost, and what was
//! folded is told.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::expect_used)] // tests

mod support;

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use support::{built, launch};
use truecount_engine::virt::{CallKind, CallOptions, Calls, Options};

fn program(test: &str) -> Option<PathBuf> {
    let options = ["-O1", "-static", "-no-pie", "-fno-stack-protector"];
    let source = include_str!("calls/hostile.c");
    built(&format!("calls_hostile_{test}.c"), source, &options)
}

/// Runs it natively and with a tree: the same output, the same end, and own costs that are all that was counted.
fn tree(test: &str, arguments: &[&str], options: CallOptions) -> Option<Calls> {
    let program = program(test)?;
    let mut command = Command::new(&program);
    command.args(arguments).env_clear().stdin(Stdio::null());
    let native = command.output().expect("it runs");
    let (mut reads, writes) = std::io::pipe().expect("a pipe");
    command.stdout(writes);
    let running = launch(&mut command, &Options::default().calls(Some(options)))?;
    drop(command);
    let outcome = running.wait().expect("an outcome");
    let mut output = Vec::new();
    reads.read_to_end(&mut output).expect("its output");
    assert_eq!(output, native.stdout);
    assert_eq!(
        (outcome.status.code(), outcome.status.signal()),
        (native.status.code(), native.status.signal())
    );
    let calls = outcome.calls.expect("a tree");
    assert_eq!(calls.discrepancies(), []);
    for thread in outcome.totals.threads.iter().filter(|thread| thread.whole) {
        assert_eq!(calls.counted(thread.slot), Some(thread.instructions));
    }
    Some(calls)
}

/// The exponent of how many paths, and how many are kept; the long form makes 16 M.
fn paths() -> (&'static str, u32, &'static str) {
    match std::env::var_os("TRUECOUNT_LONG_TESTS") {
        Some(_) => ("23", 4 << 20, "700"),
        None => ("19", 50_000, "64"),
    }
}

/// What is beyond the bound is one node below who called it, with all its calls: so what is inclusive, and how often
/// anything was called in all, is right for every path that was kept. Memory stays within the bound, which the program
/// itself looks at.
#[test]
fn paths_without_number_are_folded_within_the_bound_of_memory() {
    let (exponent, bound, mebibytes) = paths();
    let options = CallOptions::default().nodes(bound);
    let Some(calls) = tree("paths", &["paths", exponent, mebibytes], options) else {
        return;
    };
    let kept = calls.nodes.len();
    assert!(kept <= bound as usize + 2 && kept > bound as usize / 2);
    let others = calls
        .nodes
        .iter()
        .filter(|node| node.kind == CallKind::Other);
    let (number, own) = others.fold((0, 0), |(number, own), node| (number + 1, own + node.own));
    assert!(
        (1..=64).contains(&number) && own > 1_000_000,
        "{number} {own}"
    );
    assert!(calls.folded >= number);
    // Calls and instructions of every path with all below it.
    let mut below: Vec<(u64, u64)> = calls
        .nodes
        .iter()
        .map(|node| (node.calls, node.own))
        .collect();
    for (at, node) in calls.nodes.iter().enumerate().rev() {
        if let Some(parent) = node.parent {
            let (calls, own) = below[at];
            below[parent as usize].0 += calls;
            below[parent as usize].1 += own;
        }
    }
    // The program's own paths: below the one that has as many calls as there are in a tree of this height.
    let height: u32 = exponent.parse().expect("a number");
    let all = |height: u32| (2u64 << height) - 1;
    let mut heights: Vec<Option<u32>> = vec![None; kept];
    let mut costs: Vec<Option<u64>> = vec![None; height as usize + 1];
    let mut checked = 0;
    for (at, node) in calls.nodes.iter().enumerate() {
        let above = node.parent.and_then(|parent| heights[parent as usize]);
        heights[at] = match above {
            _ if node.kind != CallKind::Function => None,
            Some(above) => above.checked_sub(1),
            None => (below[at].0 == all(height)).then_some(height),
        };
        if let Some(height) = heights[at] {
            assert_eq!(below[at].0, all(height), "{node:?}");
            checked += 1;
            // What it adds to is one instruction more or less on the two sides, and their ends.
            let most = costs[height as usize].get_or_insert(below[at].1);
            assert!(most.abs_diff(below[at].1) <= all(height), "{node:?}");
        }
    }
    assert!(checked > kept - kept / 8 - 1000, "{checked} of {kept}");
}

/// Where also the room for what is folded is used up, it is in that of one above, or of the thread.
#[test]
fn what_is_folded_finds_its_place_also_where_there_is_little_room() {
    for bound in [9, 40, 300] {
        let options = CallOptions::default().nodes(bound);
        let Some(calls) = tree("few", &["paths", "12"], options) else {
            return;
        };
        assert!(calls.nodes.len() <= bound as usize + 2);
        let others = calls
            .nodes
            .iter()
            .filter(|node| node.kind == CallKind::Other);
        assert!(others.map(|node| node.calls).sum::<u64>() > 8000 - u64::from(bound));
    }
}

#[test]
fn a_million_calls_deep_are_a_million_paths() {
    let Some(calls) = tree("deep", &["deep", "1000000"], CallOptions::default()) else {
        return;
    };
    assert_eq!((calls.folded, calls.too_deep), (0, 0));
    // inc, dec, jz, call, ret; the innermost has no call.
    let levels = calls
        .nodes
        .iter()
        .filter(|node| (node.calls, node.own) == (1, 5));
    assert!(levels.count() >= 999_999);
}

/// Deeper than what is kept of a stack: told, and nothing lost.
#[test]
fn calls_that_are_deeper_than_what_is_kept_are_told() {
    let options = CallOptions::default().nodes(1000);
    let Some(calls) = tree("deeper", &["deep", "3000000"], options) else {
        return;
    };
    assert!(
        calls.too_deep > 100_000 && calls.folded > 0,
        "{} {}",
        calls.too_deep,
        calls.folded
    );
}

#[test]
fn a_stack_that_overflows_ends_the_program_or_is_caught() {
    let Some(caught) = tree("caught", &["caught"], CallOptions::default()) else {
        return;
    };
    let handlers = caught
        .nodes
        .iter()
        .filter(|node| node.kind == CallKind::Signal);
    assert_eq!(handlers.map(|node| node.calls).sum::<u64>(), 3);
    tree(
        "overflow",
        &["overflow"],
        CallOptions::default().nodes(5000),
    );
}

#[test]
fn return_addresses_that_are_not_those_of_calls() {
    for sites in [false, true] {
        let options = CallOptions::default().sites(sites);
        let Some(calls) = tree("corrupt", &["corrupt", "20000"], options) else {
            return;
        };
        assert_eq!((calls.folded, calls.too_deep), (0, 0));
        // No path grows with the rounds.
        assert!(calls.nodes.len() < 3000, "{}", calls.nodes.len());
        let rounds = calls.nodes.iter().filter(|node| node.calls == 20_000);
        assert!(rounds.count() >= 5);
    }
}
