//! `truecount run --calls`: the tree adds up, and every form of it says the same.

use crate::lines::{built, of, told};
use crate::support::{run, stderr, stdout, virtual_pmu};
use std::process::Command;

/// The tree of a run; the sum of the nodes' own costs is what was counted.
fn tree(args: &[&str]) -> serde_json::Value {
    let output = run(&[&["run", "--json", "--no-cache", "--calls"], args].concat());
    let document: serde_json::Value = serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let total = document["counters"][0]["value"].as_u64().unwrap();
    let calls = document["calls"].clone();
    let own = |nodes: &serde_json::Value| -> u64 {
        let nodes = nodes.as_array().unwrap();
        nodes
            .iter()
            .map(|node| node["self"].as_u64().unwrap())
            .sum()
    };
    assert_eq!(own(&calls["nodes"]), total);
    assert_eq!(own(&calls["sums"]), total);
    assert_eq!(calls["total"], total);
    crate::schemas::check("run.json", &document);
    calls
}

#[test]
fn a_tree_adds_up() {
    if !virtual_pmu() {
        return;
    }
    let calls = tree(&["--", "sh", "-c", "ls / >/dev/null; exit 0"]);
    let names: Vec<&str> = calls["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|function| function["name"].as_str())
        .collect();
    // The shell, and what it became or started.
    assert!(names.contains(&"ls"), "{names:?}");
    let threads = tree(&["--per-thread", "--", "true"]);
    let first = threads["functions"][0]["name"].as_str().unwrap();
    assert!(first.contains("thread"), "{first}");
    let sites = run(&["run", "--no-cache", "--calls=sites", "--", "true"]);
    assert!(stderr(&sites).contains("inclusive"), "{sites:?}");
}

/// Other events of every path sum to what was counted of them.
#[test]
fn events_beside_instructions_add_up() {
    if !virtual_pmu() {
        return;
    }
    let events = ["instructions:u", "loads:u", "branches:u"];
    let joined = events.join(",");
    let options = ["run", "--json", "--no-cache", "-e", &joined];
    for how in ["--calls", "--calls=sites"] {
        let output = run(&[&options[..], &[how, "--", "true"]].concat());
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        crate::schemas::check("run.json", &document);
        let calls = &document["calls"];
        assert_eq!(calls["events"], serde_json::json!(events[1..]));
        for (number, reading) in document["counters"].as_array().unwrap().iter().enumerate() {
            for list in ["nodes", "sums"] {
                let own = |node: &serde_json::Value| match number.checked_sub(1) {
                    None => node["self"].as_u64().unwrap(),
                    Some(event) => node["events"][event]["self"].as_u64().unwrap(),
                };
                let sum: u64 = calls[list].as_array().unwrap().iter().map(own).sum();
                assert_eq!(Some(sum), reading["value"].as_u64(), "{list} {number}");
            }
        }
        let first = &calls["nodes"][0];
        assert_eq!(
            first["events"][0]["inclusive"],
            document["counters"][1]["value"]
        );
    }
    let all = "branches:u,conditional-branches:u,indirect-branches:u,calls:u,returns:u,loads:u,stores:u,locked:u,\
               vector-instructions:u";
    crate::support::fails(
        &["run", "--calls", "-e", all, "--", "true"],
        2,
        &["--calls counts 8"],
    );
}

/// Folded stacks sum to the total, as does the profile in Callgrind's format; the others are there.
#[test]
fn every_export_has_the_whole() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let files = ["folded", "pprof", "callgrind", "firefox", "flamegraph"];
    let options: Vec<String> = files
        .iter()
        .map(|name| format!("--{name}={}", path(name)))
        .collect();
    let mut all: Vec<&str> = options.iter().map(String::as_str).collect();
    all.extend(["--", "true"]);
    let total = tree(&all)["total"].as_u64().unwrap();
    let text = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    let folded: u64 = text("folded")
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(folded, total);
    assert!(text("callgrind").contains(&format!("\nsummary: {total}\n")));
    assert!(text("flamegraph").contains("<svg"));
    let firefox: serde_json::Value = serde_json::from_str(&text("firefox")).unwrap();
    let weights = firefox["threads"][0]["samples"]["weight"].as_array();
    let weights = weights.unwrap().iter().map(serde_json::Value::as_f64);
    assert_eq!(weights.flatten().sum::<f64>() as u64, total);
    assert!(std::fs::metadata(path("pprof")).unwrap().len() > 100);
}

/// What the text leaves out is told, and is what it does not show of the total.
#[test]
fn small_paths_are_folded_in_the_text() {
    if !virtual_pmu() {
        return;
    }
    let text = |limit: &[&str]| {
        let output = run(&[&["run", "--no-cache"], limit, &["--", "true"]].concat());
        stderr(&output)
    };
    let shown = |text: &str| -> [u64; 3] {
        let line = text.lines().find(|line| line.contains(" paths shown; "));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        let words: Vec<u64> = line
            .split_whitespace()
            .filter_map(|word| word.replace(',', "").parse().ok())
            .collect();
        [words[0], words[1], words[2]]
    };
    let some = text(&["--percent-limit", "20"]);
    let [lines, paths, hidden] = shown(&some);
    assert!(0 < lines && lines < paths && hidden > 0, "{some}");
    // Own costs of what is shown, and what is hidden, are all.
    let rows = some.lines().filter(|line| line.contains(" % "));
    let tree: Vec<Vec<u64>> = rows
        .take(lines as usize)
        .map(|row| {
            row.split_whitespace()
                .filter_map(|word| word.replace(',', "").parse().ok())
                .collect()
        })
        .collect();
    let own: u64 = tree.iter().map(|row| row[1]).sum();
    assert_eq!(own + hidden, tree[0][0], "{some}");
    let [default, ..] = shown(&text(&["--calls"]));
    assert!(default > lines);
    // All of them: nothing is left to tell, and no other bound.
    assert!(!text(&["--percent-limit", "0"]).contains(" paths shown; "));
    crate::support::fails(
        &["run", "--percent-limit", "101", "--", "true"],
        2,
        &["from 0 to 100"],
    );
}

/// `worker` has 1 + 5 × 2 + 1 instructions, behind a jump from `caller`.
const TAIL: &str = r#"use std::arch::global_asm;
global_asm!(
    ".globl caller", ".type caller, @function",
    "caller:", "mov $5, %ecx", "jmp worker", ".size caller, . - caller",
    ".globl worker", ".type worker, @function",
    "worker:", "nop", "2:", "dec %ecx", "jnz 2b", "ret", ".size worker, . - worker",
    options(att_syntax)
);
unsafe extern "C" { fn caller(); }
fn main() { unsafe { caller() } }
"#;

/// rustc's linker lets two segments share a page of the file: functions are where the executable one has them.
#[test]
fn tail_calls_where_segments_share_a_page() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, program) = (directory.path().join("p.rs"), directory.path().join("p"));
    std::fs::write(&file, TAIL).unwrap();
    let mut compiler = Command::new("rustc");
    compiler
        .args(["--edition=2024", "-o"])
        .args([&program, &file]);
    let Some(program) = built("rustc", &mut compiler, &program) else {
        return;
    };
    let calls = told(&["--", &program]);
    let own = |name| of(&calls, name)["self"].as_u64();
    assert_eq!([own("caller"), own("worker")], [Some(2), Some(12)]);
}
