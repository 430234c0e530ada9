//! Directories of kept translations that cannot be executed from, written to, or hold enough: output and count are the
//! same, and what can be kept is.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::memory::{built, built_by};
use crate::support::{code, stderr, stdout, truecount, virtual_pmu};

/// Three runs, the first without kept translations, on a file system that is mounted as the first argument says and
/// before the last run again as the second one does.
const RUNS: &str = r#"
    mount -t tmpfs -o "$1" cache cache || exit 99
    export XDG_CACHE_HOME=$PWD/cache
    run() { "$TRUECOUNT" run --deterministic --json="$@" -- env expr 1 = 2 || echo "status $?"; }
    run none --no-cache
    run first
    test -z "$2" || mount -o "$2" cache cache || exit 99
    run second
"#;

/// How it is mounted first and later, and whether the last run finds translations of the first one.
const MOUNTED: &[(&str, &str, bool)] = &[
    ("mode=700,noexec", "", true),
    ("mode=700,nosuid,nodev,noexec", "remount,ro,noexec", true),
    ("mode=700,size=64k", "", false),
    ("mode=700,nr_inodes=2", "", false),
    ("mode=700,ro", "", false),
];

#[test]
fn the_file_system_of_kept_translations_is_in_no_count() {
    if !virtual_pmu() {
        return;
    }
    for (first, later, kept) in MOUNTED {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("cache")).unwrap();
        let output = Command::new("unshare")
            .args(["-Urm", "sh", "-c", RUNS, "sh", first, later])
            .current_dir(directory.path())
            .env("TRUECOUNT", truecount(&[]).get_program())
            .env_remove("TRUECOUNT_NO_CACHE")
            .output();
        let output = match output {
            Ok(output) if code(&output) == 0 => output,
            Ok(output) => {
                truecount_testing::skip!("remedies", "{}", stderr(&output));
                return;
            }
            Err(error) => {
                truecount_testing::skip!("remedies", "unshare: {error}");
                return;
            }
        };
        assert_eq!(stdout(&output), "0\nstatus 1\n".repeat(3), "{first}");
        assert_eq!(stderr(&output), "", "{first}");
        let [none, before, after] = ["none", "first", "second"].map(|name| {
            let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap()
        });
        for document in [&none, &before, &after] {
            assert_eq!(document["counters"][0]["precision"], "exact", "{first}");
            let value = |of: &serde_json::Value| of["counters"][0]["value"].as_u64();
            assert_eq!(value(document), value(&none), "{first}");
        }
        let cached = after["cached_blocks"].as_u64().unwrap();
        assert_eq!(cached > 0, *kept, "{first}: {cached} blocks");
        // Where the directory cannot be made it is said.
        let notes = before["notes"].to_string();
        let said = notes.contains("translations are not kept");
        assert_eq!(said, first.contains("ro"), "{first}: {notes}");
    }
}

/// Runs truecount with translations kept in this directory; its standard output.
fn kept_in(cache: &Path, arguments: &[&str]) -> String {
    let output = truecount(arguments)
        .env("XDG_CACHE_HOME", cache)
        .env_remove("TRUECOUNT_NO_CACHE")
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// What a run with translations kept there says as JSON, and how many blocks it translated and found there.
fn told_by(cache: &Path, arguments: &[&str]) -> (serde_json::Value, [u64; 2]) {
    let document: serde_json::Value = serde_json::from_str(&kept_in(cache, arguments)).unwrap();
    let blocks = ["translated_blocks", "cached_blocks"];
    let blocks = blocks.map(|name| document[name].as_u64().unwrap());
    (document, blocks)
}

/// An empty directory that translations can be kept in.
fn empty(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    path
}

/// Code that adds to one event of the tree's nodes is not taken for code that adds to another one.
#[test]
fn each_event_of_the_tree_has_translations_of_its_own() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let cache = empty(directory.path(), "cache");
    let events = [
        "branches:u",
        "conditional-branches:u",
        "indirect-branches:u",
        "calls:u",
        "returns:u",
        "loads:u",
        "stores:u",
        "vector-instructions:u",
    ];
    for event in events {
        let events = format!("--event=instructions:u,{event}");
        let tree = |how: &[&str]| {
            let words = ["run", "--deterministic", "--json", &events];
            let text = kept_in(
                &cache,
                &[&words[..], how, &["--", "expr", "1", "=", "1"]].concat(),
            );
            let document: serde_json::Value = serde_json::from_str(&text).unwrap();
            document["calls"].clone()
        };
        let fresh = tree(&["--calls", "--no-cache"]);
        assert!(
            fresh["functions"]
                .as_array()
                .is_some_and(|all| all.len() > 10),
            "{event}"
        );
        for _ in 0..2 {
            assert!(tree(&["--calls"]) == fresh, "{event}");
        }
    }
}

/// `inside` is in the middle of `outer`.
const PARTS: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
volatile long sum;
static volatile char bytes[1 << 16];
__attribute__((noinline)) void add(int n) { for (int i = 0; i < n; i++) sum += i; }
__attribute__((noinline)) void touch(int n) { for (int i = 0; i < n; i += 64) bytes[i]++; }
void outer(void);
__asm__(".globl outer, inside\n .type outer, @function\n .type inside, @function\n"
        "outer: push %rax\n mov sum(%rip), %rcx\n"
        "inside: inc %rcx\n mov %rcx, sum(%rip)\n pop %rax\n ret\n"
        ".size inside, .-inside\n .size outer, .-outer\n");
int main(int count, char **words) {
    add(100); touch(5000);
    for (int i = 0; i < 10; i++) outer();
    if (count > 1) {
        pid_t child = fork();
        if (!child) { touch(300); add(7); execl(words[0], words[0], NULL); }
        waitpid(child, NULL, 0);
        child = fork();
        if (!child) { add(77); touch(777); _exit(0); }
        waitpid(child, NULL, 0);
    }
    printf("%ld\n", sum);
    return 0;
}
"#;

/// What noted references name is kept with the code, and code that was translated where other functions were chosen
/// is used without their questions, and with those of the ones that are chosen now.
#[test]
fn references_and_chosen_functions_are_the_same_with_kept_translations() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), PARTS, &["-O1", "-no-pie"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let warm = empty(directory.path(), "warm");
    // Of references that change nothing there are no notes; with lines of 128 bytes there are.
    let all = ["--cache-sim=yes", "--D1=65536,4,128"];
    let children = [
        "--cache-sim=yes",
        "--branch-sim=yes",
        "--trace-children=yes",
    ];
    let cases = [
        &["--cache-sim=yes"][..],
        &children,
        &["--cache-sim=yes", "--D1=2048,2,64", "--I1=1024,1,32"],
        &["--cache-sim=yes", "--toggle-collect=add"],
        &["--cache-sim=yes", "--toggle-collect=outer"],
        &["--cache-sim=yes", "--toggle-collect=inside"],
        &all,
        &[&all[..], &children].concat(),
        &[&all[..], &["--toggle-collect=add"]].concat(),
        &["--toggle-collect=touch"],
    ];
    // What a run leaves, whatever the order of functions: that of their translations.
    let files = |cache: &Path, case: &[&str], words: &[&str]| {
        let left = empty(directory.path(), "left");
        let out = format!("--callgrind-out-file={}/%p", left.display());
        let tool = [
            "valgrind",
            "-q",
            "--tool=callgrind",
            "--compress-strings=no",
        ];
        let plain = ["--compress-pos=no", &out, program];
        kept_in(cache, &[&tool[..], case, &plain, words].concat());
        let mut found = Vec::new();
        for entry in std::fs::read_dir(left).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.retain(|line| !line.starts_with("pid:"));
            lines.sort();
            found.push(lines.join("\n"));
        }
        found.sort();
        found
    };
    for round in 0..2 {
        for case in cases {
            for words in [&[][..], &["children"]] {
                let cold = files(&empty(directory.path(), "cold"), case, words);
                assert!(!cold.is_empty(), "{case:?}");
                let same = files(&warm, case, words) == cold;
                assert!(same, "{case:?} {words:?}, round {round}");
            }
        }
        let kept = std::fs::read_dir(warm.join("truecount")).unwrap();
        let names = kept.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // By what is told: without a simulation, of all, without and with branches, of other sizes.
        assert_eq!(
            names
                .filter(|name| name.starts_with("translation-"))
                .count(),
            5
        );
    }
}

/// Blocks of the heap from two places, `strdup` among them, a child, and references of several sorts.
const HEAP: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
struct list { struct list *next; char *text; };
static volatile unsigned long sum;
// Where it returns to from `malloc` it goes on without that, too.
char *maybe(int wanted);
__asm__("maybe: push %rbx\n xor %eax, %eax\n test %edi, %edi\n jz 1f\n mov $4000, %edi\n"
        "call malloc@PLT\n 1: pop %rbx\n ret\n");
__attribute__((noinline)) static struct list *first(struct list *next) {
    struct list *one = malloc(sizeof *one);
    one->next = next; one->text = strdup("one of the first");
    return one;
}
__attribute__((noinline)) static struct list *second(struct list *next) {
    struct list *one = calloc(3, sizeof *one);
    one->next = next; one->text = realloc(0, 77);
    memset(one->text, 'x', 76); one->text[76] = 0;
    return one;
}
int main(int count, char **words) {
    struct list *all = 0;
    char *room = maybe(words[1][1] == 'b');
    if (room) memset(room, 1, 4000);
    for (int i = 0; i < 300; i++) all = words[1][i & 1] == 'a' ? first(all) : second(all);
    if (words[1][2] == 'c') {
        pid_t child = fork();
        if (!child) { all = second(all); _exit(strlen(all->text) != 76); }
        waitpid(child, NULL, 0);
    }
    while (all) {
        struct list *next = all->next;
        sum += strlen(all->text) + *(unsigned *)(all->text + 1) % 3;
        free(all->text); free(all);
        all = next;
    }
    return sum == 0;
}
"#;

/// What translations that were kept look up, and where they ask for the heap's blocks, is this run's: also where the run
/// that left them came to other places that allocate.
#[test]
fn facts_model_and_heap_are_the_same_with_kept_translations() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), HEAP, &["-O1", "-g"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let warm = empty(directory.path(), "warm");
    let run = |cache: &Path, how: &[&str], word: &str| {
        let words = [&["run", "--deterministic", "--json"], how].concat();
        let (mut document, blocks) = told_by(cache, &[&words[..], &["--", program, word]].concat());
        (
            ["counters", "memory"].map(|part| document[part].take()),
            blocks,
        )
    };
    for how in [
        &["--memory"][..],
        &["--model=cachegrind"],
        &["--sharing"],
        &["-e", "lines-touched,unaligned"],
        &["-e", "l1d-misses,mispredicts"],
    ] {
        // The same lengths: the stack lies where it lay.
        for (number, word) in ["aa-", "bb-", "abc"].into_iter().enumerate() {
            let (cold, [translated, cached]) = run(&warm, &[how, &["--no-cache"]].concat(), word);
            assert_eq!(cached, 0, "{how:?}");
            let [counters, memory] = &cold;
            let counted = counters.as_array().is_some_and(|all| !all.is_empty());
            let facts = how[0] == "-e" || memory["facts"]["loads"].as_u64() > Some(1000);
            assert!(counted && facts, "{how:?}");
            for turn in 0..2 {
                let (told, [again, cached]) = run(&warm, how, word);
                assert!(told == cold, "{how:?} {word} {turn}");
                let mostly = (number, turn) == (0, 0) || again * 4 < translated && cached > 0;
                assert!(mostly, "{how:?} {word}: {again} of {translated}");
            }
        }
    }
}

/// Code that fills a whole area, most of it what references lead to that are new.
#[test]
fn an_area_that_was_filled_is_taken_over() {
    const MANY: &str = ".rept 48000\n\
        mov rax, [rdi+8]\nadd [rsi+16], rax\nmov rbx, [rdi+rcx*8+32]\nadd [rsi+rcx*8+64], rbx\n\
        adc rdx, [rdi+rcx+128]\nadc rdx, [rsi+rcx+256]\njmp 1f\n1:\n.endr\n";
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = format!(
        ".intel_syntax noprefix\n.globl _start\n_start:\nlea rdi, [rip+room]\nlea rsi, [rip+room+2048]\n\
         xor ecx, ecx\n{MANY}mov eax, 60\nxor edi, edi\nsyscall\n.bss\n.balign 64\nroom: .skip 8192\n"
    );
    let arguments = ["-nostdlib", "-static"];
    let Some(program) = built_by("cc", "many.s", directory.path(), &source, &arguments) else {
        return;
    };
    let program = program.to_str().unwrap();
    let cache = empty(directory.path(), "cache");
    let words = [
        "run",
        "--deterministic",
        "--json",
        "--memory",
        "--",
        program,
    ];
    let run = || {
        let (mut document, blocks) = told_by(&cache, &words);
        (document["memory"]["facts"].take(), blocks)
    };
    let (facts, [all, _]) = run();
    assert!(all > 48_000, "{all}");
    // More than an area of 64 MB, and what describes the blocks: else nothing was filled, and this needs more of them.
    let kept = std::fs::read_dir(cache.join("truecount")).unwrap();
    let bytes = kept.map(|entry| entry.unwrap().metadata().unwrap().len());
    assert!(bytes.sum::<u64>() > 90 << 20);
    for _ in 0..2 {
        assert_eq!(run(), (facts.clone(), [0, all]));
    }
}
