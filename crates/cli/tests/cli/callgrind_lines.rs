//! Lines in the files of `run --callgrind`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::lines::{INLINED, bare, built, lines, of, told};
use crate::support::{code, stderr, stdout, virtual_pmu};
use crate::valgrind::front;

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

/// `g` jumps into the middle of `f`: in the tree it has 3 instructions, 2 of them on lines of `f`, as `f` has.
const MIDDLE: &str = r#"    .globl _start, f, g
    .type _start, @function
_start: call f
    call g
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
    .type f, @function
f:  nop
1:  nop
    ret
    .size f, . - f
    .type g, @function
g:  jmp 1b
    .size g, . - g
    .section .note.GNU-stack, "", @progbits
"#;

#[test]
fn what_others_execute_of_a_function_is_taken_off_its_lines() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = bare(directory.path(), "p.s", MIDDLE) else {
        return;
    };
    let out = directory.path().join("out").to_str().unwrap().to_owned();
    let option = format!("--callgrind={out}");
    let calls = told(&[&option, "--", &program]);
    let expected = |rows: &[(u64, i64)]| -> BTreeMap<(u64, String), i64> {
        let rows = rows.iter();
        rows.map(|&(line, count)| ((line, String::new()), count))
            .collect()
    };
    let (f, g) = (of(&calls, "f"), of(&calls, "g"));
    assert_eq!([&f["self"], &g["self"]], [3, 3]);
    assert_eq!(lines(f), expected(&[(10, 1), (11, 2), (12, 2), (0, -2)]));
    assert_eq!(lines(g), expected(&[(15, 1), (0, 2)]));
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(
        text.contains("desc: Lines: 3 instructions are without"),
        "{text}"
    );
    assert!(text.contains("\nsummary: 11\n"), "{text}");
    let read = read(&text, &program);
    let own = |name: &str| {
        let own = read.own.iter().filter(|((of, ..), _)| of == name);
        own.map(|(_, cost)| cost).sum::<u64>()
    };
    assert_eq!([own("_start"), own("f"), own("g")], [5, 3, 3]);
    let of_f = read.own.keys().filter(|(of, ..)| of == "f");
    assert!(of_f.map(|(.., line)| line).eq([&0]), "{text}");
}
