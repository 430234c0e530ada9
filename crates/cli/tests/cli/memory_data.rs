//! Whose data it is, in `run --memory`, `--model` and `--sharing`; children by `vfork` and many threads.

use serde_json::Value;

use crate::memory::built;
use crate::support::{json, run, stderr, virtual_pmu};
use truecount_testing::schemas::schema;

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("{of} is no number"))
}

fn valid(document: &Value) {
    let validator = jsonschema::validator_for(&schema("run.json")).unwrap();
    assert!(validator.is_valid(document), "{document}");
}

const DATA: &str = r"
#include <pthread.h>
#include <stdlib.h>
__attribute__((aligned(64))) int columns[512][512];
__attribute__((aligned(64))) static int rows[1024] = {1};
__attribute__((aligned(64))) static volatile struct { long one, two, rest[6]; } both;
static void *count(void *at) { for (int i = 0; i < 50000; i++) ++*(volatile long *)at; return 0; }
int main(void) {
    volatile int *heap = malloc(64 * 1000);
    for (int at = 0; at < 512; at++)
        for (int other = 0; other < 512; other++) columns[other][at]++;
    for (int at = 0; at < 1024; at++) ((volatile int *)rows)[at];
    for (int at = 0; at < 16 * 1000; at += 16) heap[at] = at;
    pthread_t other;
    pthread_create(&other, 0, count, (void *)&both.one);
    count((void *)&both.two);
    pthread_join(other, 0);
    return 0;
}
";

/// Variables are told by name, where the program is at its own addresses and where it is placed anywhere.
#[test]
fn variables_heap_and_stack() {
    if !virtual_pmu() {
        return;
    }
    for arguments in [&["-O1", "-static", "-pthread"][..], &["-O1", "-pthread"]] {
        let directory = tempfile::tempdir().unwrap();
        let Some(program) = built(directory.path(), DATA, arguments) else {
            return;
        };
        let program = program.to_str().unwrap();
        let words = ["run", "--json", "--model=cachegrind", "--sharing", "--"];
        let document = json(&[&words[..], &[program]].concat());
        valid(&document);
        let memory = &document["memory"];
        let data = memory["data"].as_array().unwrap();
        let of = |symbol: &str| {
            let found = data.iter().find(|one| one["symbol"] == symbol);
            found.unwrap_or_else(|| panic!("{symbol} in {data:?}"))
        };
        assert_eq!(data[0]["symbol"], "columns", "{}", data[0]);
        let misses = number(&data[0]["model"]["l1d_misses"]);
        assert_eq!(misses, 512 * 512);
        assert_eq!(number(&data[0]["lines_written"]), 512 * 512 * 4 / 64);
        assert_eq!(number(&of("rows")["lines_touched"]), 1024 * 4 / 64);
        assert_eq!(number(&of("rows")["lines_written"]), 0);
        for symbol in ["columns", "rows", "both"] {
            assert_eq!(of(symbol)["module"], program, "{symbol}");
        }
        let place = |module: &str| {
            let mut all = data.iter();
            let found = all.find(|one| one["module"] == module && one["symbol"] == "");
            found.map_or(0, |one| number(&one["lines_written"]))
        };
        let heap = data
            .iter()
            .find(|one| one["allocated"]["function"] == "main");
        let heap = heap.unwrap_or_else(|| panic!("no heap of main's in {data:?}"));
        assert_eq!(heap["allocated"]["bytes"], 64 * 1000);
        assert!(number(&heap["lines_written"]) >= 1000, "{heap}");
        assert!((1..1000).contains(&place("[other]")), "{data:?}");
        assert!((1..1000).contains(&place("[stack]")), "{data:?}");
        crate::memory_heap::check_sums(memory);
        let shared = memory["sharing"].as_array().unwrap();
        assert_eq!(shared[0]["symbols"], serde_json::json!(["both"]));
        assert_eq!(shared[0]["module"], program);
        assert_eq!(shared[0]["false_sharing"], true);
        let text = stderr(&run(&[
            "run",
            "--model=cachegrind",
            "--sharing",
            "--",
            program,
        ]));
        for part in ["columns  program", "both  program", "lld-misses", "[other]"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

/// A child by `vfork` has its parent's memory until it executes another program: every reference is counted once, the
/// parent's behind it, too.
#[test]
fn children_by_vfork() {
    const VFORK: &str = r#"
__attribute__((aligned(4096))) long cells[1024];
char *arguments[3];
__attribute__((naked, noreturn)) void _start(void) {
    __asm__ volatile(
        "lea cells(%rip), %rbx\n"
        "cmpq $1, (%rsp)\n"             // load of 8: argc
        "jne 9f\n"
        "mov 8(%rsp), %r12\n"           // load: argv[0]
        "mov $3, %r13d\n"
        "1: mov $58, %eax\n"            // vfork
        "syscall\n"
        "test %eax, %eax\n"
        "jnz 3f\n"
        "mov $100, %ecx\n"
        "2: mov %rcx, (%rbx)\n"         // the child: 100 stores
        "dec %ecx\n"
        "jnz 2b\n"
        "mov %r12, arguments(%rip)\n"   // 2 stores
        "mov %r12, arguments+8(%rip)\n"
        "mov $59, %eax\n"               // execve
        "mov %r12, %rdi\n"
        "lea arguments(%rip), %rsi\n"
        "xor %edx, %edx\n"
        "syscall\n"
        "ud2\n"
        "3: mov $200, %ecx\n"
        "4: mov 4096(%rbx), %rax\n"     // the parent: 200 loads
        "dec %ecx\n"
        "jnz 4b\n"
        "mov $61, %eax\n"               // wait4
        "mov $-1, %rdi\n"
        "xor %esi, %esi\n"
        "xor %edx, %edx\n"
        "xor %r10d, %r10d\n"
        "syscall\n"
        "dec %r13d\n"
        "jnz 1b\n"
        "jmp 8f\n"
        "9: mov $50, %ecx\n"            // what it executes: 50 loads
        "7: mov (%rbx), %rax\n"
        "dec %ecx\n"
        "jnz 7b\n"
        "8: mov $231, %eax\n"
        "xor %edi, %edi\n"
        "syscall\n");
}
"#;
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), VFORK, &["-O1", "-nostdlib", "-static"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let (loads, stores) = (2 + 3 * 200 + 3 * (1 + 50), 3 * (100 + 2));
    for option in ["--memory", "--model=cachegrind", "--sharing", "--locality"] {
        let document = json(&["run", "--json", option, "--", program]);
        assert_eq!(document["exit"]["code"], 0, "{document}");
        let memory = &document["memory"];
        assert_eq!(memory["facts"]["loads"], loads, "{option}");
        assert_eq!(memory["facts"]["stores"], stores, "{option}");
        assert_eq!(memory["facts"]["load_bytes"], 8 * loads, "{option}");
        assert_eq!(memory["lost"], 0);
    }
}

/// 64 threads at once, each with lines of its own and one that all write.
#[test]
fn many_threads() {
    const THREADS: &str = r"
#include <pthread.h>
static pthread_barrier_t barrier;
__attribute__((aligned(4096))) static volatile long own[64][512];
__attribute__((aligned(64))) static volatile long common[64];
__attribute__((noinline)) static void work(long number) {
    for (int turn = 0; turn < 1000; turn++) own[number][turn % 512] = turn;
    for (int turn = 0; turn < 100; turn++) common[number] = turn;
}
static void *thread(void *number) {
    pthread_barrier_wait(&barrier);
    work((long)number);
    return 0;
}
int main(void) {
    pthread_t threads[64];
    pthread_barrier_init(&barrier, 0, 64);
    for (long number = 0; number < 64; number++)
        if (pthread_create(&threads[number], 0, thread, (void *)number)) return 1;
    for (int number = 0; number < 64; number++) pthread_join(threads[number], 0);
    return 0;
}
";
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-O1", "-static", "-pthread"];
    let Some(program) = built(directory.path(), THREADS, &arguments) else {
        return;
    };
    let program = program.to_str().unwrap();
    for option in ["--memory", "--model=cachegrind", "--sharing"] {
        let document = json(&["run", "--json", option, "--", program]);
        valid(&document);
        assert_eq!(document["exit"]["code"], 0);
        let memory = &document["memory"];
        assert_eq!(memory["lost"], 0, "{option}");
        let functions = memory["functions"].as_array().unwrap();
        let work = functions.iter().find(|one| one["function"] == "work");
        let work = work.unwrap_or_else(|| panic!("{option}: no work in {functions:?}"));
        assert_eq!(number(&work["stores"]), 64 * 1100, "{option}");
        // Its return, 64 times.
        assert_eq!(number(&work["loads"]), 64, "{option}");
        let data = memory["data"].as_array().unwrap();
        let lines = |symbol: &str| {
            let found = data.iter().find(|one| one["symbol"] == symbol);
            number(&found.unwrap()["lines_written"])
        };
        assert_eq!([lines("own"), lines("common")], [64 * 64, 8], "{option}");
        let Some(shared) = memory["sharing"].as_array() else {
            continue;
        };
        let common: Vec<&Value> = shared
            .iter()
            .filter(|line| {
                line["symbols"][0]
                    .as_str()
                    .is_some_and(|name| name.starts_with("common"))
            })
            .collect();
        assert_eq!(common.len(), 8, "{shared:?}");
        for line in common {
            assert_eq!(line["threads"].as_array().unwrap().len(), 8, "{line}");
            assert_eq!(line["false_sharing"], true);
            assert_eq!(number(&line["references"]), 800);
        }
    }
}

/// Two threads that meet in front of each line, and then read it and write it at the same moment.
const MEETING: &str = r"
#include <pthread.h>
#include <sched.h>
#define LINES 50000
__attribute__((aligned(4096))) volatile long lines[LINES * 8];
static int arrived;
static void meet(int at) {
    __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
    for (int turns = 0; __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2 * (at + 1); turns++)
        if (turns > 2000) sched_yield(); // (where there is one CPU)
}
static void *load(void *sum) {
    for (int at = 0; at < LINES; at++) { meet(at); *(long *)sum += lines[at * 8]; }
    return 0;
}
int main(void) {
    long sum = 0;
    pthread_t other;
    pthread_create(&other, 0, load, &sum);
    for (int at = 0; at < LINES; at++) { meet(at); lines[at * 8] = at; }
    pthread_join(other, 0);
    return 0;
}
";

/// What two threads do to the same eight bytes at once is all known.
#[test]
fn threads_that_meet() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), MEETING, &["-O1", "-pthread"]) else {
        return;
    };
    let document = json(&["run", "--json", "--memory", "--", program.to_str().unwrap()]);
    let data = document["memory"]["data"].as_array().unwrap();
    let lines = data.iter().find(|one| one["symbol"] == "lines").unwrap();
    assert_eq!(number(&lines["lines_written"]), 50_000);
    // (By all data.)
    let read = number(&document["memory"]["facts"]["lines_read"]);
    assert!((50_000..60_000).contains(&read), "{read}");
}

/// Two threads of which each waits for the other one, all the time.
const TURNS: &str = r"
#include <pthread.h>
#include <sched.h>
static volatile int turn;
static volatile long sum[2];
__attribute__((noinline)) static void work(int me) { sum[me] += 1; turn = !me; }
static void *run(void *which) {
    int me = (int)(long)which;
    for (int at = 0; at < 20000; at++) {
        for (int turns = 0; turn != me; turns++)
            if (turns > 2000) sched_yield(); // (where there is one CPU)
        work(me);
    }
    return 0;
}
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, run, (void *)1);
    run(0);
    pthread_join(other, 0);
    return !(sum[0] == 20000 && sum[1] == 20000);
}
";

/// Each reference is noted, and while a thread waits for who reads that, the other makes more of them: where each turn took as
/// long as a whole part of a ring takes to be read, this took minutes.
#[test]
fn threads_that_wait_for_each_other_go_on() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-O1", "-static", "-pthread"];
    let Some(program) = built(directory.path(), TURNS, &arguments) else {
        return;
    };
    let document = json(&[
        "run",
        "--json",
        "--sharing",
        "--",
        program.to_str().unwrap(),
    ]);
    assert_eq!(document["exit"]["code"], 0);
    let memory = &document["memory"];
    assert_eq!(memory["lost"], 0);
    let functions = memory["functions"].as_array().unwrap();
    let work = functions.iter().find(|one| one["function"] == "work");
    let work = work.unwrap_or_else(|| panic!("no work in {functions:?}"));
    // Both stores, the sum and the return, each time.
    let counts = ["stores", "loads"].map(|what| number(&work[what]));
    assert_eq!(counts, [2 * 40_000, 2 * 40_000]);
}
