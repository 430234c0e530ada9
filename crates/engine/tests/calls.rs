//! The calling-context tree: programs whose trees are known, to the instruction.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::expect_used)] // tests

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch};
use truecount_engine::virt::{CallKind, CallOptions, Calls, Options, Outcome};

/// Function symbols of a program that lies where it was linked to.
fn symbols(program: &Path) -> BTreeMap<u64, String> {
    let output = Command::new("nm").arg(program).output().expect("nm");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            (kind == "T" || kind == "t" || kind == "W")
                .then(|| Some((address, words.next()?.to_owned())))?
        })
        .collect()
}

fn run(program: &Path, arguments: &[&str], calls: CallOptions) -> Option<Outcome> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    fixed_layout(&mut command);
    let options = Options::default().calls(Some(calls));
    let outcome = launch(&mut command, &options)?.wait().expect("an outcome");
    sums_are_whole(&outcome);
    Some(outcome)
}

fn tree(outcome: &Outcome) -> &Calls {
    outcome.calls.as_ref().expect("a tree")
}

/// The nodes' own costs are all that was counted, and the two ways of counting agree.
fn sums_are_whole(outcome: &Outcome) {
    let calls = tree(outcome);
    assert_eq!(calls.discrepancies(), [], "{:?}", calls.nodes);
    for thread in outcome.totals.threads.iter().filter(|thread| thread.whole) {
        assert_eq!(calls.counted(thread.slot), Some(thread.instructions));
    }
}

/// Every path with its calls and own cost: `_start;down 1 5`. Threads are `T1`, `T2` … in order of appearance.
fn paths(program: &Path, calls: &Calls) -> BTreeMap<String, (u64, u64)> {
    let symbols = symbols(program);
    let mut names: Vec<String> = Vec::new();
    let mut threads = 0;
    let mut sums = BTreeMap::new();
    for node in &calls.nodes {
        let own = match node.kind {
            CallKind::Thread => {
                threads += 1;
                format!("T{threads}")
            }
            CallKind::Other => "[other]".to_owned(),
            kind => {
                let known = symbols.range(..=node.function).next_back();
                let name = known.map_or("?", |(_, name)| name);
                match kind {
                    CallKind::Signal => format!("signal {name}"),
                    _ => name.to_owned(),
                }
            }
        };
        let name = match node.parent.and_then(|parent| names.get(parent as usize)) {
            Some(parent) => format!("{parent};{own}"),
            None => own,
        };
        names.push(name.clone());
        let sum: &mut (u64, u64) = sums.entry(name).or_default();
        *sum = (sum.0 + node.calls, sum.1.wrapping_add(node.own));
    }
    sums
}

fn freestanding(name: &str, source: &str) -> Option<PathBuf> {
    built(name, source, &["-nostdlib", "-static", "-no-pie"])
}

fn check(found: &BTreeMap<String, (u64, u64)>, expected: &[(&str, u64, u64)]) {
    let mut expected: BTreeMap<String, (u64, u64)> = expected
        .iter()
        .map(|&(path, calls, own)| (path.to_owned(), (calls, own)))
        .collect();
    expected.entry("T1".to_owned()).or_default();
    assert_eq!(found, &expected);
}

/// Recursion, mutual recursion, tail calls, calls through pointers, `ret n`, a return used as a jump.
#[test]
fn paths_of_a_program_without_a_library() {
    let Some(program) = freestanding("calls_plain.S", include_str!("calls/plain.S")) else {
        return;
    };
    let Some(outcome) = run(&program, &[], CallOptions::default()) else {
        return;
    };
    let s = "T1;_start";
    let mut expected = vec![(s.to_owned(), 1, 19)];
    let mut path = s.to_owned();
    for depth in 0..6 {
        path += ";down";
        expected.push((path.clone(), 1, if depth == 5 { 3 } else { 6 }));
    }
    let mut path = s.to_owned();
    for depth in 0..5 {
        let (name, own) = [("even", 5), ("odd", 6)][depth % 2];
        path = format!("{path};{name}");
        expected.push((path.clone(), 1, if depth == 4 { 3 } else { own }));
    }
    for (path, calls, own) in [
        ("first", 1, 2),
        ("second", 1, 4),
        // Once by a tail call, once by the return of `retpoline`.
        ("third", 2, 4),
        ("third;leaf", 2, 4),
        // By two pointers, and in the place of `maybe`.
        ("leaf", 3, 6),
        ("takes", 1, 2),
        ("maybe", 2, 6),
        ("retpoline", 1, 2),
        // What it calls is in the middle of it.
        ("retpoline;retpoline", 1, 2),
    ] {
        expected.push((format!("{s};{path}"), calls, own));
    }
    let expected: Vec<(&str, u64, u64)> = expected
        .iter()
        .map(|(path, calls, own)| (path.as_str(), *calls, *own))
        .collect();
    check(&paths(&program, tree(&outcome)), &expected);
    assert_eq!(tree(&outcome).folded, 0);
}
