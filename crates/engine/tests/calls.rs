//! The calling-context tree: programs whose trees are known, to the instruction.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::expect_used)] // tests

#[path = "calls/killed.rs"]
mod killed;
#[path = "calls/linkage.rs"]
mod linkage;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch};
use truecount_engine::virt::{CallKind, CallOptions, Calls, Event, Options, Outcome};

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
        let counted = calls.counted_events(thread.slot);
        for (&event, counted) in calls.events.iter().zip(counted) {
            let events = thread.events.expect("blocks are counted");
            assert_eq!(counted, events[event as usize], "{event:?}");
        }
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
    let expected = expected.iter();
    let expected = expected.map(|&(path, calls, own)| (path.to_owned(), (calls, own)));
    let mut expected: BTreeMap<String, (u64, u64)> = expected.collect();
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

/// A program with the C library in it; its paths that have one of these functions in them, from that on.
fn library(what: &str, functions: &[&str]) -> Option<BTreeMap<String, (u64, u64)>> {
    let source = include_str!("calls/library.c");
    with_library(&format!("calls_library_{what}.c"), source, what, functions)
}

fn with_library(
    name: &str,
    source: &str,
    what: &str,
    functions: &[&str],
) -> Option<BTreeMap<String, (u64, u64)>> {
    let program = built(
        name,
        source,
        &[
            "-O1",
            "-static",
            "-no-pie",
            "-pthread",
            "-fno-stack-protector",
        ],
    )?;
    let outcome = run(&program, &[what], CallOptions::default())?;
    assert!(outcome.status.success(), "{:?}", outcome.status);
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (path, (calls, own)) in paths(&program, tree(&outcome)) {
        let mut names: Vec<&str> = path.split(';').collect();
        let first = names
            .iter()
            .position(|name| functions.contains(&name.trim_start_matches("signal ")));
        if let Some(first) = first {
            let last = names.last().copied().unwrap_or("");
            // What is in the library is another one elsewhere.
            if !functions.contains(&last.trim_start_matches("signal ")) && last != "unit" {
                continue;
            }
            // Who calls it first is part of what is tested.
            let from = first.saturating_sub(1);
            names.drain(..from);
            let sum = found.entry(names.join(";")).or_default();
            *sum = (sum.0 + calls, sum.1 + own);
        }
    }
    Some(found)
}

/// Calls of each path; `unit` costs the same wherever it is called.
fn called(found: &BTreeMap<String, (u64, u64)>) -> Vec<(&str, u64)> {
    let mut unit = None;
    for (path, &(calls, own)) in found {
        if path.ends_with(";unit") {
            let each = own / calls;
            assert_eq!(own % calls, 0, "{path} {found:?}");
            assert_eq!(*unit.get_or_insert(each), each, "{path} {found:?}");
        }
    }
    found
        .iter()
        .map(|(path, &(calls, _))| (path.as_str(), calls))
        .collect()
}

/// `longjmp` leaves six frames: what comes then is `main`'s again.
#[test]
fn longjmp_leaves_frames() {
    let Some(found) = library("jump", &["dive", "after_jump", "after_all"]) else {
        return;
    };
    let mut expected = vec![
        ("main;after_all".to_owned(), 1),
        ("main;after_all;unit".to_owned(), 1),
        ("main;after_jump".to_owned(), 1),
        ("main;after_jump;unit".to_owned(), 1),
    ];
    let mut path = "main".to_owned();
    for _ in 0..6 {
        path += ";dive";
        expected.push((path.clone(), 4));
        expected.push((format!("{path};unit"), 4));
    }
    expected.sort();
    let found = called(&found);
    let expected: Vec<(&str, u64)> = expected.iter().map(|(p, n)| (p.as_str(), *n)).collect();
    assert_eq!(found, expected);
}

/// Handlers have a tree of their own, one that interrupts another, too; and the interrupted goes on where it was.
#[test]
fn signal_handlers() {
    let Some(found) = library("signals", &["outer", "inner", "after_signals", "after_all"]) else {
        return;
    };
    assert_eq!(
        called(&found),
        [
            ("T1;signal inner", 7),
            ("T1;signal inner;unit", 7),
            ("T1;signal outer", 7),
            ("T1;signal outer;unit", 14),
            ("main;after_all", 1),
            ("main;after_all;unit", 1),
            ("main;after_signals", 1),
            ("main;after_signals;unit", 1),
        ]
    );
}

/// Handlers on a stack of their own that never return.
#[test]
fn signal_handlers_left_by_a_jump() {
    let Some(found) = library("faults", &["on_fault", "after_signals", "after_all"]) else {
        return;
    };
    assert_eq!(
        called(&found),
        [
            ("T1;signal on_fault", 5),
            ("T1;signal on_fault;unit", 5),
            ("main;after_all", 1),
            ("main;after_all;unit", 1),
            ("main;after_signals", 1),
            ("main;after_signals;unit", 1),
        ]
    );
}

/// Every thread has its own tree, complete also where the thread ends in the middle.
#[test]
fn threads_have_their_own_trees() {
    let Some(found) = library("threads", &["thread_main", "after_all"]) else {
        return;
    };
    let called = called(&found);
    let units: u64 = called
        .iter()
        .filter(|(path, _)| path.ends_with("thread_main;unit"))
        .map(|(_, calls)| calls)
        .sum();
    assert_eq!(units, 6, "{called:?}");
    assert!(called.contains(&("main;after_all", 1)), "{called:?}");
}

/// A forked child goes on in the path of its parent, in a tree of its own.
#[test]
fn forked_children() {
    let Some(found) = library("fork", &["in_child", "after_all"]) else {
        return;
    };
    assert_eq!(
        called(&found),
        [
            ("main;after_all", 1),
            ("main;after_all;unit", 1),
            ("main;in_child", 1),
            ("main;in_child;unit", 1),
        ]
    );
}

/// Paths beyond the bound are one, and nothing is lost.
#[test]
fn too_many_paths_are_folded() {
    let Some(program) = freestanding("calls_folded.S", include_str!("calls/plain.S")) else {
        return;
    };
    let Some(outcome) = run(&program, &[], CallOptions::default().nodes(4)) else {
        return;
    };
    let calls = tree(&outcome);
    assert!(calls.folded > 0);
    let other = paths(&program, calls)["T1;[other]"];
    assert!(other.1 > 0, "{:?}", paths(&program, calls));
}

/// Events beside instructions: every path's own, which sum to what the blocks say (see `sums_are_whole`).
#[test]
fn events_beside_instructions() {
    use Event::*;
    let events = [Loads, Stores, ConditionalBranches, IndirectBranches];
    let options = CallOptions::default().events(&events);
    let source = include_str!("calls/plain.S");
    let Some(program) = freestanding("calls_events.S", source) else {
        return;
    };
    for sites in [false, true] {
        let Some(outcome) = run(&program, &[], options.sites(sites)) else {
            return;
        };
        let calls = tree(&outcome);
        assert_eq!(calls.events, events);
        let symbols = symbols(&program);
        let leaf = symbols.iter().find(|(_, name)| *name == "leaf");
        let (&leaf, _) = leaf.expect("a symbol");
        let leaves = calls.nodes.iter().filter(|node| node.function == leaf);
        let sums = leaves.fold((0, [0; 4]), |(calls, sums), node| {
            let sum = |at: usize| sums[at] + node.events[at];
            (calls + node.calls, [sum(0), sum(1), sum(2), sum(3)])
        });
        // It returns, which is a load.
        assert_eq!(sums, (5, [5, 0, 0, 0]), "sites: {sites}");
    }
    let source = include_str!("calls/library.c");
    let flags = ["-O1", "-static", "-no-pie", "-pthread"];
    let Some(program) = built("calls_library_events.c", source, &flags) else {
        return;
    };
    for what in ["jump", "signals", "faults", "threads", "fork"] {
        let outcome = run(&program, &[what], options).expect("it ran before");
        assert!(outcome.status.success(), "{what}: {:?}", outcome.status);
    }
}

/// Call sites apart: the same function from two places is two paths.
#[test]
fn call_sites() {
    let Some(program) = freestanding("calls_sites.S", include_str!("calls/plain.S")) else {
        return;
    };
    let Some(outcome) = run(&program, &[], CallOptions::default().sites(true)) else {
        return;
    };
    let symbols = symbols(&program);
    let leaf = symbols.iter().find(|(_, name)| *name == "leaf");
    let (&leaf, _) = leaf.expect("a symbol");
    let found: Vec<(u64, u64)> = tree(&outcome)
        .nodes
        .iter()
        .filter(|node| node.function == leaf)
        .map(|node| (u64::from(node.site != 0), node.calls))
        .collect();
    // By two pointers, by a conditional jump (whose site is that of the call in whose place it is), and twice below
    // `third`, once each.
    let mut found = found;
    found.sort_unstable();
    assert_eq!(found.iter().map(|(_, calls)| calls).sum::<u64>(), 5);
    assert_eq!(found.iter().filter(|(site, _)| *site == 0).count(), 0);
}

/// Stacks that go on in turns: each has its own path, whoever goes on with it, wherever it lies.
#[test]
fn several_stacks() {
    let source = include_str!("calls/stacks.S");
    for (name, flags) in [("below", &[][..]), ("above", &["-DX_ABOVE"])] {
        let flags = [&["-nostdlib", "-static", "-no-pie"], flags].concat();
        let Some(program) = built(&format!("calls_stacks_{name}.S"), source, &flags) else {
            return;
        };
        let Some(outcome) = run(&program, &[], CallOptions::default()) else {
            return;
        };
        let mut expected = vec![("T1;_start".to_owned(), 1, 10)];
        for (path, calls, own) in [
            ("switch", 2, 6),
            ("again", 1, 4),
            ("again;switch", 1, 3),
            ("x", 1, 8),
            ("x;switch", 2, 6),
            ("x;leaf", 1, 2),
            ("x;x_deep", 1, 14),
            ("x;x_deep;leaf", 4, 8),
            ("x;x_deep;switch", 3, 9),
            ("x;x_deep;y", 1, 1),
            ("x;x_deep;y;y_deep", 1, 8),
            ("x;x_deep;y;y_deep;leaf", 2, 4),
            ("x;x_deep;y;y_deep;switch", 2, 6),
        ] {
            expected.push((format!("T1;_start;{path}"), calls, own));
        }
        let expected: Vec<(&str, u64, u64)> = expected
            .iter()
            .map(|(path, calls, own)| (path.as_str(), *calls, *own))
            .collect();
        check(&paths(&program, tree(&outcome)), &expected);
    }
}

/// `swapcontext`: what a context executes belongs to where it was begun, whoever goes on with it, another thread, too.
#[test]
fn contexts() {
    let functions = ["begins", "other", "deeper", "leave", "goes_on", "in_thread"];
    let source = include_str!("calls/stacks.c");
    for what in ["main", "thread"] {
        let name = format!("calls_contexts_{what}.c");
        let Some(found) = with_library(&name, source, what, &functions) else {
            return;
        };
        let mut expected = vec![
            ("main;begins", 1),
            ("main;begins;other", 1),
            ("main;begins;other;deeper", 1),
            ("main;begins;other;deeper;leave", 2),
            ("main;begins;other;deeper;unit", 3),
            ("main;begins;other;unit", 2),
            ("main;goes_on", if what == "main" { 2 } else { 1 }),
        ];
        if what == "thread" {
            expected.extend([
                ("start_thread;in_thread", 1),
                ("start_thread;in_thread;goes_on", 1),
                ("start_thread;in_thread;unit", 1),
            ]);
        }
        assert_eq!(called(&found), expected, "{what}");
    }
}

/// A goroutine's calls belong to it, whichever thread goes on with it.
#[test]
fn goroutines() {
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (
        directory.join("goroutines.go"),
        directory.join("goroutines"),
    );
    std::fs::write(&source, include_str!("calls/goroutines.go")).expect("it is writable");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(&source);
    if !go.status().is_ok_and(|status| status.success()) {
        truecount_testing::skip!("go", "no working Go compiler");
        return;
    }
    let Some(outcome) = run(&program, &[], CallOptions::default()) else {
        return;
    };
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for (path, (calls, _)) in paths(&program, tree(&outcome)) {
        if let Some(at) = path.find(";main.main") {
            *found.entry(path[at + 1..].to_owned()).or_default() += calls;
        }
    }
    let last = |path: &str| path.rsplit(';').next().map(str::to_owned);
    found.retain(|path, _| last(path).is_some_and(|last| last.starts_with("main.")));
    let other = "main.main.gowrap1;main.other";
    let expected = [
        ("main.main".to_owned(), 1),
        ("main.main.gowrap1".to_owned(), 100),
        (other.to_owned(), 100),
        (format!("{other};main.deeper"), 100),
        (format!("{other};main.deeper;main.unit"), 300),
        (format!("{other};main.unit"), 200),
        ("main.main;main.sum".to_owned(), 100),
    ];
    assert_eq!(found, BTreeMap::from(expected));
}
