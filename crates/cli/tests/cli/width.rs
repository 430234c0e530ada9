//! Every command that prints for people keeps to the width of the window, from 60 columns on.

use std::path::Path;

use crate::support::{compiled, stderr, stdout, truecount, virtual_pmu, whole_cpus};

/// Functions with names that no narrow column holds.
const PROGRAM: &str = r#"
#include <stdio.h>
static volatile unsigned long table[4096];
__attribute__((noinline)) unsigned long look_up(unsigned long i) { return table[i & 4095]; }
__attribute__((noinline)) unsigned long a_function_with_a_name_that_is_rather_long_and_does_little(unsigned long n) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < n; i++) sum += look_up(i);
    return sum;
}
int main(int argc, char **argv) {
    (void)argv;
    unsigned long n = argc > 1 ? 4000000 : 2000;
    return a_function_with_a_name_that_is_rather_long_and_does_little(n) == 42;
}
"#;

/// `P` is the program; a word behind `@` says what must work.
const COMMANDS: &[&str] = &[
    "check",
    "events --cpu skl cache",
    "events --cpu skl -l inst_retired",
    "events --cpu list",
    "events --metrics --cpu spr",
    "events --metrics --cpu skl -l ipc",
    "stat --source software -d -- P",
    "stat --source software -r 3 -- P",
    "stat --source software -M ipc -- P",
    "stat --source software --deterministic -r 2 -- P",
    "stat --source software -e page-faults,instructions -I 50 -- sleep 0.1",
    "stat --source software -a -A -- sleep 0.05",
    "stat --source virtual -e instructions:u,branches:u -- P @virtual",
    "run -- P @virtual",
    "run --functions -- P @virtual",
    "run --functions -- sh -c P @virtual",
    "bench --source software -n 3 -d -- P",
    "noise --source virtual -n 2 --factors env,getrandom -- P @virtual",
    "exactness --seconds 1 --no-save",
    "overhead --model-only",
    "overhead --seconds 2",
    "latency look_up a_function_with_a_name_that_is_rather_long_and_does_little -- P @virtual",
    "report RECORDING @software",
    "report RECORDING --sort comm,dso,symbol @software",
    "report RECORDING --children @software",
    "report RECORDING --tree @software",
    "blocks STACKS",
    "blocks STACKS --block 0x401050",
    "blocks STACKS --compare STACKS",
    "top --once --seconds 200ms -e cpu-clock:u @cpus",
    "top --once --seconds 200ms -e cpu-clock:u --by thread @cpus",
    "system -n 1 -I 50",
    "system -n 1 -I 50 --per cpu",
];

/// What `perf script -F ip,brstack` prints of a loop of one block that takes 20 or 300 cycles.
fn stacks(path: &Path) {
    let cycles = |n: u32| {
        if n.is_multiple_of(5) {
            290 + n % 9
        } else {
            17 + n % 7
        }
    };
    let line = |n: u32| {
        let entries: String = (0..31)
            .map(|k| format!(" 0x401080/0x401050/P/-/-/{}", cycles(n * 31 + k)))
            .collect();
        format!(" 401060{entries}\n")
    };
    std::fs::write(path, (0..200).map(line).collect::<String>()).unwrap();
}

#[test]
fn no_line_is_wider_than_the_window() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), PROGRAM) else {
        return;
    };
    let (recording, text) = (
        directory.path().join("recording"),
        directory.path().join("stacks"),
    );
    stacks(&text);
    let recorded = truecount(&["record", "--call-graph=dwarf", "-e", "cpu-clock:u", "-o"])
        .arg(&recording)
        .arg("--")
        .args([&program, Path::new("long")])
        .output()
        .unwrap();
    if !recorded.status.success() {
        truecount_testing::skip!("software", "{}", stderr(&recorded).trim());
    }
    let mut wrong = Vec::new();
    for line in COMMANDS {
        let (line, needs) = line.split_once(" @").unwrap_or((line, ""));
        let works = match needs {
            "virtual" => virtual_pmu(),
            "software" => recorded.status.success(),
            "cpus" => recorded.status.success() && whole_cpus(),
            _ => true,
        };
        if !works {
            continue;
        }
        let place = |word: &str| match word {
            "P" => program.display().to_string(),
            "RECORDING" => recording.display().to_string(),
            "STACKS" => text.display().to_string(),
            word => word.to_owned(),
        };
        let words: Vec<String> = line.split(' ').map(place).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // What takes long is looked at where it is narrowest.
        let long =
            needs == "virtual" || line.starts_with("overhead --s") || line.starts_with("exact");
        for columns in [60, 80, 200].into_iter().take(if long { 1 } else { 3 }) {
            let output = truecount(&words)
                .env("COLUMNS", columns.to_string())
                .output()
                .unwrap();
            let shown = stdout(&output) + &stderr(&output);
            let own = |each: &&str| !each.starts_with("truecount");
            let lines: Vec<&str> = shown.lines().filter(own).collect();
            assert!(lines.len() > 2, "{line}: {shown}");
            for each in lines {
                // A path or a name alone cannot be broken.
                if each.chars().count() > columns && each.trim().contains(' ') {
                    wrong.push(format!("{line}, {columns}: {each:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
