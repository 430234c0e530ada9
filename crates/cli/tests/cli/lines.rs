//! Source lines and inlined functions of the tree of calls: `run --lines`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{run, stderr, stdout, virtual_pmu};

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
pub(crate) const INLINED: &str = r#"#define INLINE static inline __attribute__((always_inline))
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
pub(crate) fn bare(directory: &Path, name: &str, source: &str) -> Option<String> {
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
pub(crate) fn built(need: &str, compiler: &mut Command, program: &Path) -> Option<String> {
    if !compiler.status().is_ok_and(|status| status.success()) {
        truecount_testing::skip!(need, "no compiler");
        return None;
    }
    Some(program.to_str().unwrap().to_owned())
}

/// The tree of a run with `--lines`: every function's lines, and what is inlined in it, sum to its own cost of each event.
pub(crate) fn told(args: &[&str]) -> Value {
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
pub(crate) fn of<'c>(calls: &'c Value, name: &str) -> &'c Value {
    let functions = calls["functions"].as_array().unwrap();
    let number = functions
        .iter()
        .position(|function| function["name"] == name);
    let number = number.unwrap_or_else(|| panic!("no {name}: {functions:?}"));
    let sums = calls["sums"].as_array().unwrap();
    sums.iter().find(|sum| sum["function"] == number).unwrap()
}

/// Instructions by line and by what is inlined there.
pub(crate) fn lines(sum: &Value) -> BTreeMap<(u64, String), i64> {
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

/// `f` is called on lines 3, 5 and 12, `g` on line 6; each executes 2 instructions itself.
const CALLED_TWICE: &str = r#"    .globl _start, f
    .type _start, @function
_start: call f
    nop
    call f
    call g
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
    .type g, @function
g:  call f
    ret
    .size g, . - g
    .type f, @function
f:  nop
    ret
    .size f, . - f
    .section .note.GNU-stack, "", @progbits
"#;

#[test]
fn call_sites_have_their_lines() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = bare(directory.path(), "p.s", CALLED_TWICE) else {
        return;
    };
    let calls = told(&["--calls=sites", "--", &program]);
    let functions = calls["functions"].as_array().unwrap();
    let nodes = calls["nodes"].as_array().unwrap().iter();
    let sites: BTreeMap<u64, (&str, u64)> = nodes
        .filter_map(|node| {
            let line = node["site_line"]["line"].as_u64()?;
            let file = node["site_line"]["file"].as_str().unwrap();
            assert!(file.ends_with("/p.s") && node["site"].is_u64(), "{node}");
            let function = &functions[node["function"].as_u64().unwrap() as usize];
            Some((line, (function["name"].as_str()?, node["self"].as_u64()?)))
        })
        .collect();
    let expected = [(3, ("f", 2)), (5, ("f", 2)), (6, ("g", 2)), (12, ("f", 2))];
    assert_eq!(sites, BTreeMap::from(expected));
    let text = stderr(&run(&["run", "--calls=sites", "--", &program]));
    for row in ["f (from p.s:3)", "f (from p.s:5)", "g (from p.s:6)"] {
        assert!(text.contains(row), "{row}\n{text}");
    }
    let text = stderr(&run(&["run", "--calls", "--", &program]));
    assert!(!text.contains("(from "), "{text}");
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
