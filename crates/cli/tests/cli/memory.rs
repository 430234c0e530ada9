//! `truecount run --memory`, `--model`, `--sharing`, `--locality`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{code, fails, json, run, stderr, virtual_pmu};
use truecount_testing::schemas::schema;

/// A program from C; `None` without a compiler that makes one.
pub(crate) fn built(directory: &Path, source: &str, arguments: &[&str]) -> Option<PathBuf> {
    built_by("cc", "program.c", directory, source, arguments)
}

/// As [`built`], by this compiler from a file of this name.
pub(crate) fn built_by(
    compiler: &str,
    file: &str,
    directory: &Path,
    source: &str,
    arguments: &[&str],
) -> Option<PathBuf> {
    let (file, program) = (directory.join(file), directory.join("program"));
    std::fs::write(&file, source).unwrap();
    let status = Command::new(compiler)
        .arg("-o")
        .arg(&program)
        .arg(&file)
        .args(arguments)
        .status();
    if status.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    truecount_testing::skip!("cc", "{compiler} does not make this program");
    None
}

/// 10 lines written, all of them read again; one reference in two lines, one in two pages.
const BY_HAND: &str = r#"
__attribute__((aligned(4096))) char room[8192];
__attribute__((naked, noreturn)) void _start(void) {
    __asm__ volatile(
        "lea room(%rip), %rbx\n"
        "mov $10, %ecx\n"
        "1: movq $1, (%rbx)\n"          // 10 stores of 8
        "mov 4(%rbx), %eax\n"           // 10 loads of 4
        "add $64, %rbx\n"
        "dec %ecx\n"
        "jnz 1b\n"                      // taken 9 times
        "lea room(%rip), %rbx\n"
        "mov 62(%rbx), %eax\n"          // two lines
        "addq $1, 4092(%rbx)\n"         // two pages, read and written
        "lea room+4160(%rip), %rdi\n"
        "xor %eax, %eax\n"
        "mov $100, %ecx\n"
        "rep stosb\n"                   // 100 stores of 1 in 2 lines
        "mov $60, %eax\n"
        "xor %edi, %edi\n"
        "syscall\n");
}
"#;

#[test]
fn facts_by_hand() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), BY_HAND, &["-O1", "-nostdlib", "-static"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let document = json(&[
        "run",
        "--json",
        "--model=cachegrind",
        "--sharing",
        "--",
        program,
    ]);
    let facts = &document["memory"]["facts"];
    let expected = [
        ("loads", 12),
        ("load_bytes", 40 + 4 + 8),
        ("stores", 10 + 1 + 100),
        ("store_bytes", 80 + 8 + 100),
        // 10, those around the end of the page, 2
        ("lines_touched", 14),
        ("lines_written", 14),
        ("lines_read", 12),
        ("pages_touched", 2),
        ("line_splits", 2),
        ("page_splits", 1),
        ("unaligned", 2),
        ("taken_branches", 9),
    ];
    for (name, value) in expected {
        assert_eq!(facts[name], value, "{name}: {facts}");
    }
    let memory = &document["memory"];
    assert_eq!(memory["missing"], serde_json::json!([]));
    let model = &memory["model"];
    assert_eq!(model["source"], "model");
    assert_eq!(model["reads"]["references"], 12);
    // What is read first was written before, but for the ends of the pages.
    assert_eq!(model["reads"]["l1_misses"], 1);
    assert_eq!(model["writes"]["l1_misses"], 12);
    assert_eq!(model["conditional"]["branches"], 10);
    assert_eq!(memory["sharing"], serde_json::json!([]));
    assert_eq!(document["counters"][0]["source"], "virtual");
    let validator = jsonschema::validator_for(&schema("run.json")).unwrap();
    assert!(validator.is_valid(&document), "{document}");
}

#[test]
fn without_the_option_nothing_is_said_of_memory() {
    if !virtual_pmu() {
        return;
    }
    let document = json(&["run", "--json", "--", "true"]);
    assert!(document.get("memory").is_none());
    let document = json(&["run", "--json", "--memory", "--", "true"]);
    assert!(document["memory"].get("model").is_none());
    assert!(document["memory"].get("sharing").is_none());
}

const SHARES: &str = r#"
#include <pthread.h>
static struct { volatile long one __attribute__((aligned(SPACE))); volatile long two __attribute__((aligned(SPACE))); }
    counters __attribute__((aligned(64)));
static void *count(void *at) { for (int i = 0; i < 50000; i++) ++*(volatile long *)at; return 0; }
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, count, (void *)&counters.one);
    count((void *)&counters.two);
    pthread_join(other, 0);
    return counters.one + counters.two != 100000;
}
"#;

/// Two counters in one line are found, and are not once they are apart.
#[test]
fn false_sharing_and_its_repair() {
    if !virtual_pmu() {
        return;
    }
    for (space, found) in [("8", true), ("64", false)] {
        let directory = tempfile::tempdir().unwrap();
        let defined = format!("-DSPACE={space}");
        let arguments = ["-O1", "-static", "-pthread", &defined];
        let Some(program) = built(directory.path(), SHARES, &arguments) else {
            return;
        };
        let program = program.to_str().unwrap();
        let document = json(&["run", "--json", "--sharing", "--", program]);
        assert_eq!(document["exit"]["code"], 0);
        let lines = document["memory"]["sharing"].as_array().unwrap();
        // (Apart, `main` still reads what the other thread counted: the data are shared then.)
        let hot: Vec<_> = lines
            .iter()
            .filter(|line| line["references"].as_u64().unwrap() >= 100_000)
            .filter(|line| line["false_sharing"] == true)
            .collect();
        assert_eq!(hot.len(), usize::from(found), "{space}: {lines:?}");
        for line in hot {
            assert_eq!(line["threads"].as_array().unwrap().len(), 2);
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    if !virtual_pmu() {
        return;
    }
    fails(
        &["run", "--model=z80", "--", "true"],
        2,
        &["no model 'z80'", "cachegrind", "zen4"],
    );
    fails(
        &["run", "--prefetch=all", "--", "true"],
        2,
        &["no prefetcher 'all'", "next-line"],
    );
    fails(
        &["run", "--predictor=oracle", "--", "true"],
        2,
        &["no predictor 'oracle'", "tage"],
    );
    fails(
        &["run", "--ITLB=4096,4,16", "--", "true"],
        2,
        &["less than a line"],
    );
    for event in ["l2-misses", "dtlb-misses", "itlb-misses"] {
        fails(
            &["run", "--model=cachegrind", "-e", event, "--", "true"],
            2,
            &[event, "the model has no", "--model=NAME"],
        );
    }
    fails(
        &["run", "--D1=100,3,64", "--", "true"],
        2,
        &["power of two"],
    );
    fails(&["run", "--LL=many", "--", "true"], 2, &["no geometry"]);
}

/// Data misses within one in a hundred of Cachegrind's, with the same sizes of caches.
#[test]
fn misses_are_cachegrinds() {
    const MATRIX: &str = r"
        #include <stdlib.h>
        static int numbers[400][400];
        static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
        int main(void) {
            unsigned sum = 0;
            for (int turn = 0; turn < 3; turn++)
                for (int at = 0; at < 400; at++)
                    for (int other = 0; other < 400; other++) numbers[other][at] += at * 7919 ^ other * 104729;
            qsort(numbers, 20000, sizeof(int), compare);
            for (int at = 0; at < 400; at++) sum += numbers[at * 7 % 400][at];
            return sum == 1;
        }
    ";
    if !virtual_pmu() {
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        truecount_testing::skip("valgrind", "there is no valgrind");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), MATRIX, &["-O2", "-static"]) else {
        return;
    };
    let sizes = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=262144,16,64"];
    let program = program.to_str().unwrap();
    let ours = ["run", "--json", "--machine", "valgrind"];
    let document = json(&[&ours[..], &sizes, &["--", program]].concat());
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes"])
        .arg("--cachegrind-out-file=/dev/null")
        .args(sizes)
        .arg(program)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let theirs = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.contains(name)).unwrap_or("");
        let number = line.split(':').nth(1).unwrap_or("").trim();
        let number = number.split_whitespace().next().unwrap_or("");
        let number = number.replace(',', "").parse();
        number.unwrap_or_else(|_| panic!("{name} in {text}"))
    };
    let model = &document["memory"]["model"];
    let of = |sort: &str, name: &str| model[sort][name].as_f64().unwrap();
    let both = |name: &str| of("reads", name) + of("writes", name);
    let wrong = of("conditional", "mispredicted") + of("indirect", "mispredicted");
    let rows = [
        ("D   refs", both("references")),
        ("D1  misses", both("l1_misses")),
        ("LLd misses", both("ll_misses")),
        ("Mispredicts", wrong),
    ];
    for (name, ours) in rows {
        let theirs = theirs(name);
        let off = (ours - theirs).abs() / theirs;
        assert!(off < 0.01, "{name}: {ours}, Cachegrind has {theirs}");
    }
}

/// Threads, children and what they execute: as many references in every run, and the text says what it is.
#[test]
fn children_and_threads_are_in_it() {
    if !virtual_pmu() {
        return;
    }
    let shell = [
        "run",
        "--json",
        "--memory",
        "--",
        "sh",
        "-c",
        "true & wait; exec true",
    ];
    let facts = || {
        json(&shell)["memory"]["facts"]["load_bytes"]
            .as_u64()
            .unwrap()
    };
    let alone = json(&["run", "--json", "--memory", "--", "true"]);
    let alone = alone["memory"]["facts"]["load_bytes"].as_u64().unwrap();
    assert!(facts() > alone);
    let output = run(&["run", "--model=cachegrind", "--", "true"]);
    assert_eq!(code(&output), 0);
    let text = stderr(&output);
    for part in [
        "load-bytes",
        "lines-touched",
        "model",
        "not what this CPU did",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Events of memory by name: facts are exact, what a model says is never called a count; `stat` has the same.
#[test]
fn events_of_memory_by_name() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), BY_HAND, &["-O1", "-nostdlib", "-static"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let facts = "load-bytes,store-bytes:u,lines-touched,taken-branches,l1d-misses,branch-misses";
    let document = json(&["run", "--json", "-e", facts, "--", program]);
    assert!(document.get("memory").is_none(), "{document}");
    let counters = document["counters"].as_array().unwrap();
    let told: Vec<_> = counters
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or("").to_owned();
            (
                text("event"),
                one["value"].as_u64(),
                text("source"),
                text("precision"),
            )
        })
        .collect();
    let (fact, model) = (("virtual", "exact"), ("model", "modelled"));
    let expected = [
        ("load-bytes:u", Some(52), fact),
        ("store-bytes:u", Some(188), fact),
        ("lines-touched:u", Some(14), fact),
        ("taken-branches:u", Some(9), fact),
        // Every line once; the loop, its end and what came before it.
        ("l1d-misses:u", Some(13), model),
        ("branch-misses:u", told.last().unwrap().1, model),
    ];
    for ((event, value, (source, precision)), told) in expected.into_iter().zip(&told) {
        let expected = (
            event.to_owned(),
            value,
            source.to_owned(),
            precision.to_owned(),
        );
        assert_eq!(*told, expected);
    }
    assert!(matches!(told.last().unwrap().1, Some(1..=10)), "{told:?}");
    let stat = json(&[
        "stat",
        "--json",
        "--source",
        "virtual",
        "-e",
        "instructions:u,load-bytes,l1d-misses",
        "--",
        program,
    ]);
    let text = stat.to_string();
    for part in ["\"load-bytes:u\"", "\"modelled\"", "not what this CPU did"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    fails(
        &["run", "-e", "load-bytes:k", "--", "true"],
        2,
        &["user mode only"],
    );
}

/// Misses are told by function and by source line.
#[test]
fn the_line_that_misses_is_found() {
    const COLUMNS: &str = r"
static volatile int numbers[512][512] __attribute__((aligned(64)));
__attribute__((noinline)) int rows(void) {
    int sum = 0;
    for (int at = 0; at < 512; at++)
        for (int other = 0; other < 512; other++) sum += numbers[at][other];
    return sum;
}
__attribute__((noinline)) int columns(void) {
    int sum = 0;
    for (int at = 0; at < 512; at++)
        for (int other = 0; other < 512; other++) sum += numbers[other][at]; // line 12
    return sum;
}
int main(void) { return rows() + columns(); }
";
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), COLUMNS, &["-O1", "-g", "-static"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let document = json(&["run", "--json", "--model=cachegrind", "--", program]);
    let validator = jsonschema::validator_for(&schema("run.json")).unwrap();
    assert!(validator.is_valid(&document), "{document}");
    let memory = &document["memory"];
    let first = &memory["functions"][0];
    assert_eq!(first["function"], "columns", "{first}");
    // Each row is in a line of its own, and 512 of them are more than the cache has.
    let misses = |one: &serde_json::Value| one["model"]["l1d_misses"].as_u64().unwrap();
    let near = |misses: u64, least: u64| (least..least + 10).contains(&misses);
    // (And a few of the stack.)
    assert!(near(misses(first), 512 * 512), "{first}");
    assert!(first["loads"].as_u64().unwrap() >= 512 * 512);
    let line = &memory["lines"][0];
    assert_eq!(
        (&line["line"], &line["function"]),
        (&12.into(), &"columns".into())
    );
    let functions = memory["functions"].as_array().unwrap();
    let sum = |name: &str| -> u64 { functions.iter().filter_map(|one| one[name].as_u64()).sum() };
    for name in [
        "loads",
        "stores",
        "load_bytes",
        "store_bytes",
        "taken_branches",
    ] {
        assert_eq!(Some(sum(name)), memory["facts"][name].as_u64(), "{name}");
    }
    let rows = functions
        .iter()
        .find(|one| one["function"] == "rows")
        .unwrap();
    assert!(near(misses(rows), 512 * 512 * 4 / 64), "{rows}");
    let text = stderr(&run(&["run", "--model=cachegrind", "--", program]));
    assert!(text.contains("program.c:12"), "{text}");
}
