//! Facts about memory references, and what a model makes of them, by path of calls: by hand, and as where every reference is
//! told one by one.

use crate::memory::built;
use crate::model_told::BRANCHES;
use crate::support::{code, json, run, stderr, virtual_pmu};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use truecount_testing::programs::{ELEMENTS, FAULTS, REFERENCES};

/// What each path of a tree has of each event, inclusively, by the names on it. (No path comes twice in these programs.)
fn inclusive(tree: &Value) -> BTreeMap<String, BTreeMap<String, u64>> {
    let list = |of: &Value, name: &str| of[name].as_array().cloned().unwrap_or_default();
    let events = list(tree, "events");
    let mut names: Vec<String> = Vec::new();
    let mut found = BTreeMap::new();
    for node in list(tree, "nodes") {
        let function = node["function"].as_u64().unwrap() as usize;
        let own = tree["functions"][function]["name"].as_str().unwrap();
        let name = match node["parent"].as_u64() {
            Some(parent) => format!("{};{own}", names[parent as usize]),
            None => "all".to_owned(),
        };
        let costs = list(&node, "events");
        let costs = events.iter().zip(&costs).map(|(event, cost)| {
            let event = event.as_str().unwrap().to_owned();
            (event, cost["inclusive"].as_u64().unwrap())
        });
        found.insert(name.clone(), costs.collect());
        names.push(name);
    }
    found
}

/// The tree of a program that ends with 0, with these options.
fn tree(program: &Path, options: &[&str]) -> Value {
    let program = program.to_str().unwrap();
    let arguments = ["run", "--json", "--reproducible", "--calls"];
    let mut arguments: Vec<&str> = arguments
        .into_iter()
        .chain(options.iter().copied())
        .collect();
    arguments.extend(["--", program, "again"]);
    json(&arguments)["calls"].take()
}

/// `walk` reads a word of each line that it is given; `odd` four words that are not aligned, one of them in two lines, one in
/// two pages; `copy` copies ten bytes by a string instruction; `pick` stores those four words of sixteen that a mask chooses,
/// where there are masks. `one` calls all, `two` what is there already, and goes on in `copy` by a conditional jump.
const BY_HAND: &str = r#"
__attribute__((aligned(4096))) char room[16384];
__asm__(
    ".text\n.globl _start\n_start: and $-64, %rsp; call one; call two; mov $60, %eax; xor %edi, %edi; syscall\n"
    ".type one, @function\n.globl one\none: lea room(%rip), %rdi; mov $100, %ecx; call walk; call odd; call copy; ret\n"
    ".size one, .-one\n"
    ".type two, @function\n.globl two\ntwo: lea room(%rip), %rdi; mov $50, %ecx; call walk; call odd; test %eax, %eax;"
    " jns copy; ud2\n.size two, .-two\n"
    ".type walk, @function\n.globl walk\nwalk: mov (%rdi), %eax; add $64, %rdi; dec %ecx; jnz walk; ret\n.size walk, .-walk\n"
    ".type odd, @function\n.globl odd\nodd: lea room+8192(%rip), %rdx; mov 1(%rdx), %eax; mov 61(%rdx), %eax;"
    " mov 4093(%rdx), %eax; addl $0, 67(%rdx); xor %eax, %eax; ret\n.size odd, .-odd\n"
    ".type copy, @function\n.globl copy\ncopy: lea room(%rip), %rsi; lea room+12(%rip), %rdi; mov $10, %ecx; rep movsb; ret\n"
    ".size copy, .-copy\n");
"#;

#[test]
fn facts_are_those_of_their_path() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-nostdlib", "-static", "-fno-pie", "-no-pie"];
    let Some(program) = built(directory.path(), BY_HAND, &arguments) else {
        return;
    };
    let names = [
        "load-bytes",
        "store-bytes",
        "lines-touched",
        "lines-written",
        "pages-touched",
        "line-splits",
        "page-splits",
        "unaligned",
        "taken-branches",
    ];
    // Every return reads 8 bytes and is taken; a call is, and writes them.
    let expected = [
        ("all;_start;one;walk", [408, 0, 100, 0, 2, 0, 0, 0, 100]),
        // Two lines of one page, the last of it, and the first of the next; the second is written.
        ("all;_start;one;odd", [24, 4, 4, 1, 2, 2, 1, 4, 1]),
        ("all;_start;one;copy", [18, 10, 0, 1, 0, 0, 0, 0, 1]),
        ("all;_start;two;walk", [208, 0, 0, 0, 0, 0, 0, 0, 50]),
        ("all;_start;two;odd", [24, 4, 0, 0, 0, 2, 1, 4, 1]),
        ("all;_start;copy", [18, 10, 0, 0, 0, 0, 0, 0, 1]),
        // What it called, three calls, and its return; and the jump.
        ("all;_start;one", [458, 38, 104, 2, 4, 2, 1, 4, 106]),
        ("all;_start;two", [232, 20, 0, 0, 0, 2, 1, 4, 54]),
    ];
    for more in [
        &[][..],
        &["--locality"],
        &["--model=cachegrind"],
        &["--lines"],
    ] {
        let options = [&["--memory"], more].concat();
        let found = inclusive(&tree(&program, &options));
        for (path, costs) in expected {
            let known = found.get(path);
            let known = known.unwrap_or_else(|| panic!("{path}: {:?}", found.keys()));
            let known = names.map(|name| known[name]);
            assert_eq!(known, costs, "{path} {more:?} {names:?}");
        }
    }
    // Some of it alone, with events that follow from instructions.
    let options = "-e store-bytes,instructions:u,loads:u,calls:u,returns:u";
    let options: Vec<&str> = options.split(' ').collect();
    let found = inclusive(&tree(&program, &options));
    let one = &found["all;_start;one"];
    let of = |name: &str| one.get(name).copied();
    assert_eq!(of("store-bytes"), Some(38));
    // (A string instruction is one that reads.)
    assert_eq!(
        (of("loads:u"), of("calls:u"), of("returns:u")),
        (Some(109), Some(3), Some(4))
    );
    assert_eq!(of("lines-touched"), None);
}

/// Every number of every path.
fn same(source: &str, arguments: &[&str], options: &[&str]) {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), source, arguments) else {
        return;
    };
    let some = inclusive(&tree(&program, options));
    let all = inclusive(&tree(&program, &[options, &["--locality"]].concat()));
    assert!(some.len() > 2);
    for (path, costs) in &all {
        assert_eq!(some.get(path), Some(costs), "{path} {options:?}");
    }
    assert_eq!(some.len(), all.len());
}

#[test]
fn what_is_known_already_changes_nothing() {
    let wide = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    let wide = format!("-DWIDE={}", u8::from(wide));
    for options in [
        &["--memory"][..],
        &["--model=cachegrind"],
        &["--model=zen4", "--predictor=tage"],
    ] {
        same(REFERENCES, &["-O1", "-static"], options);
        same(
            ELEMENTS,
            &["-O1", "-no-pie", &wide, "-DWITH_FAULTS"],
            options,
        );
        same(FAULTS, &["-O1"], options);
        same(BRANCHES, &["-O1", "-nostdlib", "-static"], options);
    }
}

#[test]
fn more_events_than_a_path_has_room_for_are_refused() {
    if !virtual_pmu() {
        return;
    }
    let events = "loads:u,stores:u,calls:u,returns:u,load-bytes";
    let output = run(&["run", "--calls", "-e", events, "--", "/bin/true"]);
    assert_eq!(code(&output), 2);
    let why = "--calls counts 3 events beside instructions and memory references at most";
    assert!(stderr(&output).contains(why), "{}", stderr(&output));
    let events = "loads:u,stores:u,calls:u,returns:u,branches:u,locked:u";
    let output = run(&["run", "--calls", "-e", events, "--", "/bin/true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = run(&["run", "--memory", "--calls", "--", "/bin/true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stderr(&output);
    let head = text.lines().find(|line| line.ends_with("  path"));
    let head: Vec<&str> = head.unwrap().split_whitespace().collect();
    assert_eq!(head[3..6], ["load-bytes", "store-bytes", "lines-touched"]);
    assert!(text.contains("lines and pages count on the path that touched them first"));
}
