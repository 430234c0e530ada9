//! Source lines and inlined functions of the tree of calls: `run --lines`, and lines in `run --callgrind`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{code, run, stderr, stdout, virtual_pmu};
use crate::valgrind::front;

/// 17 instructions: `_start` has 5, `f` 12, of which 5 each on the lines of its loop.
const ASSEMBLY: &str = r#"    .globl _start, f
    .type _start, @function
_start: mov $5, %edi
    call f
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
    .type f, @function
f:  nop
1:  sub $1, %edi
    jnz 1b
    ret
    .size f, . - f
    .section .note.GNU-stack, "", @progbits
"#;

/// `inner` has 3 instructions on line 2 each time, `outer` 2 on line 4: 100 * (2 + 3) in `work`, 3 in `single`.
const INLINED: &str = r#"#define INLINE static inline __attribute__((always_inline))
INLINE void inner(void) { __asm__ volatile("nop\n\tnop\n\tnop"); }
INLINE void outer(void) {
    __asm__ volatile("nop\n\tnop");
    inner();
}
__attribute__((noinline)) void single(void) { inner(); }
__attribute__((noinline)) void work(void) {
    for (int i = 0; i < 100; i++)
        outer();
    single();
    __asm__ volatile("");
}
void _start(void) {
    work();
    __asm__ volatile("syscall" :: "a"(60), "D"(0));
}
"#;

/// A program without the C library, with debug information: its counts depend on nothing.
fn bare(directory: &Path, name: &str, source: &str) -> Option<String> {
    let (file, program) = (directory.join(name), directory.join("p"));
    std::fs::write(&file, source).unwrap();
    built(
        "cc",
        Command::new("cc")
            .args(["-O2", "-g", "-nostdlib", "-static", "-o"])
            .arg(&program)
            .arg(&file),
        &program,
    )
}

/// The path of a program that a compiler makes; `None`: there is no such compiler.
fn built(need: &str, compiler: &mut Command, program: &Path) -> Option<String> {
    if !compiler.status().is_ok_and(|status| status.success()) {
        truecount_testing::skip!(need, "no compiler");
        return None;
    }
    Some(program.to_str().unwrap().to_owned())
}

/// The tree of a run with `--lines`: every function's lines, and what is inlined in it, sum to its own cost of each event.
fn told(args: &[&str]) -> Value {
    let output = run(&[&["run", "--json", "--no-cache", "--lines"], args].concat());
    let document: Value = serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    crate::schemas::check("run.json", &document);
    let sums = document["calls"]["sums"].as_array().unwrap();
    for sum in sums {
        let events = sum["events"].as_array().map_or(0, Vec::len);
        for rows in ["lines", "inlined"] {
            let Some(rows) = sum[rows].as_array() else {
                assert!(rows == "inlined" || sum["self"] == 0, "{sum}");
                continue;
            };
            let total = |of: &dyn Fn(&Value) -> i64| rows.iter().map(of).sum::<i64>();
            assert_eq!(
                Some(total(&|row| row["self"].as_i64().unwrap())),
                sum["self"].as_i64()
            );
            for event in 0..events {
                let rows = total(&|row| row["events"][event].as_i64().unwrap());
                assert_eq!(Some(rows), sum["events"][event]["self"].as_i64(), "{sum}");
            }
        }
    }
    document["calls"].clone()
}

/// The sums of a function.
fn of<'c>(calls: &'c Value, name: &str) -> &'c Value {
    let functions = calls["functions"].as_array().unwrap();
    let number = functions
        .iter()
        .position(|function| function["name"] == name);
    let number = number.unwrap_or_else(|| panic!("no {name}: {functions:?}"));
    let sums = calls["sums"].as_array().unwrap();
    sums.iter().find(|sum| sum["function"] == number).unwrap()
}

/// Instructions by line and by what is inlined there.
fn lines(sum: &Value) -> BTreeMap<(u64, String), i64> {
    let rows = sum["lines"].as_array().unwrap().iter();
    rows.map(|row| {
        let inlined = row["inlined"].as_array().into_iter().flatten();
        let inlined: Vec<&str> = inlined.map(|name| name.as_str().unwrap()).collect();
        let line = row["line"].as_u64().unwrap_or(0);
        ((line, inlined.join(" ")), row["self"].as_i64().unwrap())
    })
    .collect()
}

/// The same by what is inlined alone.
fn inlined(sum: &Value) -> BTreeMap<String, i64> {
    let rows = sum["inlined"].as_array().unwrap().iter();
    rows.map(|row| {
        let functions = row["functions"].as_array().unwrap().iter();
        let functions: Vec<&str> = functions.map(|name| name.as_str().unwrap()).collect();
        (functions.join(" "), row["self"].as_i64().unwrap())
    })
    .collect()
}

#[test]
fn every_line_has_its_count() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = bare(directory.path(), "p.s", ASSEMBLY) else {
        return;
    };
    let calls = told(&["-e", "instructions:u,branches:u", "--", &program]);
    let line = |line: u64, count: i64| ((line, String::new()), count);
    let start = [3, 4, 5, 6, 7].map(|number| line(number, 1));
    assert_eq!(lines(of(&calls, "_start")), BTreeMap::from(start));
    let f = [line(10, 1), line(11, 5), line(12, 5), line(13, 1)];
    assert_eq!(lines(of(&calls, "f")), BTreeMap::from(f));
    let rows = of(&calls, "f")["lines"].as_array().unwrap();
    let branches: i64 = rows
        .iter()
        .map(|row| row["events"][0].as_i64().unwrap())
        .sum();
    assert_eq!(branches, 6);
    let file = rows[0]["file"].as_str().unwrap();
    assert!(file.ends_with("/p.s"), "{file}");
    // The same as text.
    let text = stderr(&run(&["run", "--lines", "--", &program]));
    let row = text.lines().find(|line| line.contains("p.s:11"));
    let words: Vec<&str> = row
        .unwrap_or_else(|| panic!("{text}"))
        .split_whitespace()
        .collect();
    assert_eq!(words, ["5", "29.41", "%", "p.s:11", "f"]);
    assert!(
        text.contains("source lines are known of 17 instructions (100.00 %)"),
        "{text}"
    );
}

#[test]
fn inlined_functions_have_their_counts() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = bare(directory.path(), "p.c", INLINED) else {
        return;
    };
    let calls = told(&["--", &program]);
    let work = of(&calls, "work");
    let found = lines(work);
    let count = |line: u64, inlined: &str| found.get(&(line, inlined.to_owned())).copied();
    assert_eq!(count(2, "outer inner"), Some(300), "{found:?}");
    assert_eq!(count(4, "outer"), Some(200), "{found:?}");
    let by_function = inlined(work);
    let own = work["self"].as_i64().unwrap() - 500;
    // The loop itself is the compiler's: an instruction a round at least.
    assert!(own > 100, "{work}");
    let expected = [("", own), ("outer", 200), ("outer inner", 300)];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(by_function, BTreeMap::from(expected));
    // Its three instructions, and the return.
    let expected = [("", 1), ("inner", 3)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(inlined(of(&calls, "single")), BTreeMap::from(expected));
    let text = stderr(&run(&["run", "--lines", "--", &program]));
    let row = |end: &str| {
        let row = text.lines().find(|line| line.ends_with(end));
        let row = row.unwrap_or_else(|| panic!("no {end}: {text}"));
        row.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(row("  inner (inlined) in outer (inlined)"), "300");
    assert_eq!(row("  outer (inlined)"), "200");
    assert_eq!(row("  not inlined"), own.to_string());
    assert_eq!(row("inner (inlined) in outer (inlined) in work"), "300");
}

/// `inner` has 4 instructions each time, in `outer` 50 times, which is inlined in a function that is not.
const RUST: &str = r#"use std::arch::asm;
#[inline(always)]
fn inner() { unsafe { asm!("nop", "nop", "nop", "nop") } }
#[inline(always)]
fn outer() {
    for _ in 0..50 { inner() }
}
#[inline(never)]
pub fn worker() -> i32 { outer(); 7 }
fn main() { std::process::exit(worker() - 7) }
"#;

#[test]
fn inlined_functions_of_rust_have_their_names() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, program) = (directory.path().join("p.rs"), directory.path().join("p"));
    std::fs::write(&file, RUST).unwrap();
    let mut compiler = Command::new("rustc");
    compiler
        .args(["-g", "-C", "opt-level=2", "-o"])
        .arg(&program)
        .arg(&file);
    let Some(program) = built("rustc", &mut compiler, &program) else {
        return;
    };
    let calls = told(&["-e", "instructions:u,loads:u,branches:u", "--", &program]);
    let worker = of(&calls, "p::worker");
    let by_function = inlined(worker);
    assert_eq!(
        by_function.get("p::outer p::inner"),
        Some(&200),
        "{by_function:?}"
    );
}

/// What a file in Callgrind's format says: own costs by function, source file and line, and calls with what they cost by
/// caller, callee and the line of the call.
#[derive(Default, Debug, PartialEq)]
struct Read {
    own: BTreeMap<(String, String, u64), u64>,
    calls: BTreeMap<(String, String, u64), (u64, u64)>,
}

/// Reads a file with compressed names and positions, of one program.
fn read(text: &str, object: &str) -> Read {
    let mut read = Read::default();
    let mut names: BTreeMap<(char, String), String> = BTreeMap::new();
    let (mut ob, mut file, mut function, mut callee) =
        (String::new(), String::new(), String::new(), String::new());
    let mut line = 0u64;
    let mut calls: Option<u64> = None;
    for text in text.lines() {
        if let Some((key, value)) = text.split_once('=')
            && key != "calls"
        {
            let space = key.chars().last().unwrap().to_ascii_lowercase();
            // fl, fi, fe and cfi name files.
            let space = if "lie".contains(space) { 'f' } else { space };
            let (number, name) = value.split_once(' ').unwrap_or((value, ""));
            let known = names
                .entry((space, number.to_owned()))
                .or_insert_with(|| name.to_owned());
            match key {
                "ob" => ob = known.clone(),
                "fl" | "fi" | "fe" => file = known.clone(),
                "fn" => function = known.clone(),
                "cfn" => callee = known.clone(),
                _ => {}
            }
        } else if let Some(rest) = text.strip_prefix("calls=") {
            calls = rest.split(' ').next().and_then(|count| count.parse().ok());
        } else if text.starts_with([
            '+', '-', '*', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9',
        ]) {
            let (position, cost) = text.split_once(' ').unwrap();
            line = match position.split_at(1) {
                ("*", _) => line,
                ("+", more) => line + more.parse::<u64>().unwrap(),
                ("-", less) => line - less.parse::<u64>().unwrap(),
                _ => position.parse().unwrap(),
            };
            let cost: u64 = cost.split(' ').next().unwrap().parse().unwrap();
            let call = calls.take();
            if ob != object {
                continue;
            }
            match call {
                Some(calls) => {
                    let key = (function.clone(), callee.clone(), line);
                    let sum = read.calls.entry(key).or_default();
                    *sum = (sum.0 + calls, sum.1 + cost);
                }
                None => {
                    let key = (function.clone(), file.clone(), line);
                    *read.own.entry(key).or_default() += cost;
                }
            }
        }
    }
    read
}

/// A program with the C library, a recursion, calls from two lines, and code of a header.
const TWO_FILES: &str = r#"#include <stdlib.h>
#include "p.h"
__attribute__((noinline)) int down(int n) { return n ? twice(down(n - 1)) + 1 : 0; }
__attribute__((noinline)) int leaf(int n) { return twice(n) * 3; }
int main(int argc, char **argv) {
    volatile int sum = 0;
    for (int i = 0; i < 20; i++)
        sum += leaf(i);
    sum += leaf(argc);
    sum += down(argc + 8);
    return sum == 1;
}
"#;
const HEADER: &str = r#"static inline __attribute__((always_inline)) int twice(int n) {
    __asm__ volatile("add %0, %0" : "+r"(n));
    return n;
}
"#;

/// The file of `run` has the lines, the calls with their lines and the costs that the file of `valgrind` has.
#[test]
fn the_file_is_that_of_valgrinds_front() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::write(at.join("p.h"), HEADER).unwrap();
    std::fs::write(at.join("p.c"), TWO_FILES).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-g", "-fno-ipa-icf", "-o", "p", "p.c"])
        .current_dir(at);
    let Some(program) = built("cc", &mut compiler, &at.join("p")) else {
        return;
    };
    let path = |name: &str| at.join(name).to_str().unwrap().to_owned();
    let option = format!("--callgrind={}", path("run.out"));
    let tree = told(&[&option, "--", &program]);
    let text = std::fs::read_to_string(path("run.out")).unwrap();
    let options = ["--tool=callgrind", "--callgrind-out-file=front.out", "-q"];
    let output = front(at, &options, &[&program]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let theirs = std::fs::read_to_string(path("front.out")).unwrap();
    let (ours, mut theirs) = (read(&text, &program), read(&theirs, &program));
    // What stubs executed is their callers'. Starting up takes another way, as there is no vDSO.
    theirs.own.retain(|_, own| *own > 0);
    assert!(
        ours.own.keys().filter(|(_, _, line)| *line > 0).count() > 8,
        "{ours:?}"
    );
    assert_eq!(ours.own, theirs.own);
    let calls = |file: &Read| -> Vec<_> {
        let calls = file.calls.clone().into_iter();
        calls.filter(|(call, _)| call.0 != "_start").collect()
    };
    assert_eq!(calls(&ours), calls(&theirs));
    // Hand-computed: 21 times in `leaf`, 9 times in `down`.
    let header = at.join("p.h").to_str().unwrap().to_owned();
    let twice = |function: &str| {
        ours.own
            .get(&(function.to_owned(), header.clone(), 2))
            .copied()
    };
    assert_eq!((twice("leaf"), twice("down")), (Some(21), Some(9)));
    let from = |line: u64| {
        ours.calls
            .get(&("main".to_owned(), "leaf".to_owned(), line))
            .map(|call| call.0)
    };
    assert_eq!((from(8), from(9)), (Some(20), Some(1)));
    // Own costs are the tree's, and inclusive ones, too: own costs and calls.
    let functions = tree["functions"].as_array().unwrap();
    let modules = functions.iter().map(|function| function["module"].as_str());
    let modules: BTreeSet<&str> = modules.map(|module| module.unwrap_or("???")).collect();
    let files: BTreeMap<&str, Read> = modules
        .into_iter()
        .map(|module| (module, read(&text, module)))
        .collect();
    let sums = tree["sums"].as_array().unwrap();
    assert!(sums.len() > 50, "{}", sums.len());
    for sum in sums {
        let function = &functions[sum["function"].as_u64().unwrap() as usize];
        let name = function["name"].as_str().unwrap();
        let file = &files[function["module"].as_str().unwrap_or("???")];
        let own = file.own.iter().filter(|((of, ..), _)| of == name);
        let own: u64 = own.map(|(_, cost)| cost).sum();
        assert_eq!(Some(own), sum["self"].as_u64(), "{name}");
        let calls = file.calls.iter().filter(|((of, ..), _)| of == name);
        let calls: u64 = calls.map(|(_, (_, cost))| cost).sum();
        assert_eq!(Some(own + calls), sum["inclusive"].as_u64(), "{name}");
    }
}

/// Valgrind's own reader shows counts beside the lines, and the total stays.
#[test]
fn valgrinds_reader_shows_counts_beside_lines() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let Some(program) = bare(at, "p.c", INLINED) else {
        return;
    };
    let out = at.join("out").to_str().unwrap().to_owned();
    let option = format!("--callgrind={out}");
    let events = "instructions:u,branches:u";
    let calls = told(&["-e", events, &option, "--", &program]);
    let text = std::fs::read_to_string(&out).unwrap();
    let branches = &calls["nodes"][0]["events"][0]["inclusive"];
    assert!(
        text.contains("\nevents: instructions_u branches_u\n"),
        "{text}"
    );
    assert!(
        text.contains(&format!("\nsummary: {} {branches}\n", calls["total"])),
        "{text}"
    );
    assert!(
        text.ends_with(&format!("\ntotals: {} {branches}\n", calls["total"])),
        "{text}"
    );
    let shown = Command::new("callgrind_annotate")
        .args(["--show=instructions_u", "--threshold=100", &out])
        .arg(at.join("p.c"))
        .output();
    let Ok(shown) = shown else {
        truecount_testing::skip!("valgrind", "no callgrind_annotate");
        return;
    };
    let shown = stdout(&shown);
    let count = |source: &str| {
        let row = shown.lines().find(|line| line.ends_with(source));
        let row = row.unwrap_or_else(|| panic!("{shown}"));
        row.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(
        count(r#"__asm__ volatile("nop\n\tnop\n\tnop"); }"#),
        "303",
        "{shown}"
    );
    assert_eq!(
        count(r#"    __asm__ volatile("nop\n\tnop");"#),
        "200",
        "{shown}"
    );
}

/// Without debug information, and with several programs: one row a function, which says that lines are not known.
#[test]
fn programs_without_lines_say_so() {
    if !virtual_pmu() {
        return;
    }
    let calls = told(&[
        "-e",
        "instructions:u,loads:u",
        "--",
        "sh",
        "-c",
        "ls / >/dev/null; exit 0",
    ]);
    let sums = calls["sums"].as_array().unwrap();
    let rows = sums.iter().filter_map(|sum| sum["lines"].as_array());
    assert!(rows.flatten().any(|row| row["line"].is_null()));
    let text = stderr(&run(&["run", "--lines", "--", "true"]));
    assert!(
        text.contains("no source lines are known") || text.contains("source lines are known of"),
        "{text}"
    );
    // Not asked for: not there.
    let output = run(&["run", "--calls", "--json", "--", "true"]);
    assert!(!stdout(&output).contains("\"lines\""));
}
