//! Blocks of the heap by where they were allocated, in `run --memory`, `--model` and `--sharing`.

use std::path::Path;

use serde_json::Value;

use crate::memory::{built, built_by};
use crate::support::{json, run, stderr, virtual_pmu};
use truecount_testing::schemas::schema;

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("{of} is no number"))
}

/// What a run of the program says of memory; its document follows the schema.
fn memory_of(option: &[&str], program: &Path) -> Value {
    let program = program.to_str().unwrap();
    let document = json(&[&["run", "--json"], option, &["--", program]].concat());
    let validator = jsonschema::validator_for(&schema("run.json")).unwrap();
    assert!(validator.is_valid(&document), "{document}");
    assert_eq!(document["exit"]["code"], 0, "{document}");
    assert_eq!(document["memory"]["lost"], 0);
    document["memory"].clone()
}

/// The row of the blocks that a function allocated.
fn row<'a>(memory: &'a Value, function: &str) -> &'a Value {
    let rows = memory["data"].as_array().unwrap();
    let mut found = rows
        .iter()
        .filter(|row| row["allocated"]["function"] == function);
    let row = found.next();
    assert!(found.next().is_none(), "{function} twice in {rows:?}");
    row.unwrap_or_else(|| panic!("no {function} in {rows:?}"))
}

fn numbers<const N: usize>(of: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| number(&of[name]))
}

/// Lines of the file by what is written at their ends: `// here: NAME`.
fn line_of(source: &str, name: &str) -> u64 {
    let mark = format!("// here: {name}");
    let line = source.lines().position(|line| line.ends_with(&mark));
    line.unwrap_or_else(|| panic!("no {mark}")) as u64 + 1
}

/// Nothing is left out: what is by data is what there is, but for lines that several sites used.
pub(crate) fn check_sums(memory: &Value) {
    let rows = memory["data"].as_array().unwrap();
    let sum = |name: &str| rows.iter().map(|row| number(&row[name])).sum::<u64>();
    for (name, again) in [
        ("lines_touched", "touched_again"),
        ("lines_written", "written_again"),
    ] {
        let of_rows = sum(name) - number(&memory["heap"][again]);
        assert_eq!(of_rows, number(&memory["facts"][name]), "{name}: {rows:?}");
    }
    let Some(model) = memory["model"].as_object() else {
        return;
    };
    for (name, level) in [("l1d_misses", "l1_misses"), ("lld_misses", "ll_misses")] {
        let sum: u64 = rows.iter().map(|row| number(&row["model"][name])).sum();
        let all = number(&model["reads"][level]) + number(&model["writes"][level]);
        assert_eq!(sum, all, "{name}");
    }
}

const SITES: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
typedef volatile char *Bytes;
#define APART __attribute__((noinline))
APART Bytes table(void) {
    Bytes all = aligned_alloc(64, 64 * 100); // here: table
    for (int at = 0; at < 100; at++) all[64 * at] = 1;
    return all;
}
APART Bytes list(void) {
    Bytes all = 0;
    return posix_memalign((void **)&all, 64, 64 * 50) ? 0 : all; // here: list
}
APART Bytes node(void) {
    Bytes one = malloc(48); // here: node
    one[0] = 1;
    return one;
}
APART Bytes first(void) {
    Bytes all = malloc(1024); // here: first
    return all;
}
APART Bytes second(void) {
    Bytes all = calloc(16, 64); // here: second
    return all;
}
APART Bytes grown(Bytes old) {
    Bytes all = realloc((void *)old, 6400); // here: grown
    return all;
}
APART Bytes small(void) {
    Bytes all = malloc(640); // here: small
    return all;
}
APART Bytes mapped(void) {
    Bytes all = mmap(0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // here: mapped
    return all;
}
APART Bytes copied(void) {
    Bytes all = strdup(__FILE__); // here: copied
    return all;
}
static void use(Bytes all, int bytes) { for (int at = 0; at < bytes; at += 8) *(volatile long *)(all + at) += 1; }
static Bytes volatile nodes[100];
int main(void) {
    Bytes rows = table(), other = list();
    for (int at = 0; at < 50; at++) other[64 * at];
    for (int at = 0; at < 100; at++) nodes[at] = node();
    Bytes again = malloc(8);
    // The same bytes, by one site after the other.
    Bytes before = first();
    use(before, 1024);
    Bytes at = before;
    __asm__ volatile("" : "+r"(at));
    free((void *)before);
    Bytes after = malloc(1024); // here: main
    if (after != at) return 9;
    use(after, 1024);
    Bytes cleared = second();
    use(cleared, 1024);
    Bytes little = small();
    use(little, 640);
    little = grown(little);
    use(little, 6400);
    Bytes map = mapped();
    for (int page = 0; page < 16; page++) map[4096 * page] = 1;
    munmap((void *)map, 1 << 20);
    copied()[0] = 1;
    return !rows || !again;
}
"#;

#[test]
fn sites_of_blocks() {
    if !virtual_pmu() {
        return;
    }
    for arguments in [&["-O1", "-g", "-static"][..], &["-O1", "-g"]] {
        let directory = tempfile::tempdir().unwrap();
        let Some(program) = built(directory.path(), SITES, arguments) else {
            return;
        };
        for option in [&["--memory"][..], &["--model=cachegrind"]] {
            let memory = memory_of(option, &program);
            check_sums(&memory);
            let row = |name: &str| {
                let row = row(&memory, name);
                let site = &row["allocated"];
                assert_eq!(number(&site["line"]), line_of(SITES, name), "{row}");
                assert_eq!(site["file"].as_str().map(base_name), Some("program.c"));
                assert_eq!(site["module"], program.to_str().unwrap());
                assert_eq!(
                    (&row["module"], &row["symbol"]),
                    (&"[heap]".into(), &"".into())
                );
                row
            };
            let sizes = |name: &str| {
                let names = ["blocks", "bytes", "smallest", "largest"];
                numbers(&row(name)["allocated"], names)
            };
            let lines = |name: &str| numbers(row(name), ["lines_touched", "lines_written"]);
            assert_eq!(lines("table"), [100, 100]);
            // (What is written in it is the allocator's: something that it kept there before.)
            assert!(
                lines("list")[0] == 50 && lines("list")[1] <= 1,
                "{}",
                row("list")
            );
            assert_eq!(sizes("table"), [1, 6400, 6400, 6400]);
            assert_eq!(sizes("node"), [100, 4800, 48, 48]);
            // Chunks of 64 bytes.
            assert!((100..=101).contains(&lines("node")[0]), "{}", row("node"));
            for name in ["first", "second"] {
                assert_eq!(sizes(name), [1, 1024, 1024, 1024], "{name}");
                assert!((16..=17).contains(&lines(name)[0]), "{}", row(name));
            }
            assert!((16..=17).contains(&lines("main")[0]), "{}", row("main"));
            assert!(
                number(&memory["heap"]["touched_again"]) >= 16,
                "{}",
                memory["heap"]
            );
            assert_eq!(sizes("small"), [1, 640, 640, 640]);
            assert!((10..=11).contains(&lines("small")[0]), "{}", row("small"));
            assert_eq!(sizes("grown"), [1, 6400, 6400, 6400]);
            assert!((100..=101).contains(&lines("grown")[0]), "{}", row("grown"));
            assert_eq!(sizes("mapped"), [1, 1 << 20, 1 << 20, 1 << 20]);
            assert_eq!(lines("mapped"), [16, 16]);
            assert_eq!(sizes("copied")[0], 1);
            assert_eq!(number(&memory["heap"]["beyond"]), 0);
            if option[0] != "--memory" {
                let misses = |name: &str| number(&row(name)["model"]["l1d_misses"]);
                assert!(misses("table") >= 100 && misses("list") >= 50, "{memory}");
                // What was there before is there for who comes next.
                assert!(misses("first") >= 15, "{}", row("first"));
                assert!(misses("main") <= 2, "{}", row("main"));
                assert_eq!(misses("mapped"), 16);
            }
        }
        let program = program.to_str().unwrap();
        let text = stderr(&run(&["run", "--memory", "--", program]));
        for (function, what) in [("node", "48-byte blocks"), ("table", "6400-byte block")] {
            let line = line_of(SITES, function);
            let part = format!("{what} allocated in {function} (program.c:{line})  [heap]");
            assert!(text.contains(&part), "{part}: {text}");
        }
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

const THREADS: &str = r"
#include <pthread.h>
#include <stdlib.h>
#define APART __attribute__((noinline))
typedef volatile long *Words;
static Words counters;
static Words volatile handed[4];
APART Words make_counters(void) {
    Words all = aligned_alloc(64, 128); // here: make_counters
    all[0] = all[1] = 0;
    return all;
}
APART Words produce(void) {
    Words all = aligned_alloc(64, 640); // here: produce
    return all;
}
APART Words own(void) {
    Words all = malloc(512); // here: own
    return all;
}
APART Words left(void) {
    Words all = malloc(512); // here: left
    return all;
}
APART Words right(void) {
    Words all = malloc(512); // here: right
    return all;
}
static void *work(void *number) {
    for (int turn = 0; turn < 50000; turn++) ++counters[(long)number];
    for (int turn = 0; turn < 1000; turn++) {
        Words mine = own();
        for (int at = 0; at < 64; at++) mine[at] = at;
        free((void *)mine);
        // The same bytes by turns: of one site the first half is used, of the other one the second.
        mine = left();
        for (int at = 0; at < 32; at++) mine[at] = at;
        free((void *)mine);
        mine = right();
        for (int at = 32; at < 64; at++) mine[at] = at;
        free((void *)mine);
    }
    handed[(long)number] = produce();
    return 0;
}
int main(void) {
    counters = make_counters();
    pthread_t threads[4];
    for (long number = 0; number < 4; number++)
        if (pthread_create(&threads[number], 0, work, (void *)number)) return 1;
    for (int number = 0; number < 4; number++) pthread_join(threads[number], 0);
    for (int number = 0; number < 4; number++) {
        for (int at = 0; at < 80; at++) handed[number][at] = at;
        free((void *)handed[number]);
    }
    free((void *)counters);
    return 0;
}
";

/// Blocks that one thread allocates and another one uses, and blocks of the same addresses by one thread after the other.
#[test]
fn blocks_that_threads_hand_over() {
    if !virtual_pmu() {
        return;
    }
    for arguments in [
        &["-O1", "-g", "-static", "-pthread"][..],
        &["-O1", "-g", "-pthread"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let Some(program) = built(directory.path(), THREADS, arguments) else {
            return;
        };
        for option in [&["--memory"][..], &["--model=cachegrind", "--sharing"]] {
            let memory = memory_of(option, &program);
            check_sums(&memory);
            let lines = |name: &str| number(&row(&memory, name)["lines_touched"]);
            let blocks = |name: &str| number(&row(&memory, name)["allocated"]["blocks"]);
            assert_eq!([lines("make_counters"), blocks("make_counters")], [1, 1]);
            // Main alone uses them, after their threads have ended.
            assert_eq!([lines("produce"), blocks("produce")], [40, 4]);
            assert_eq!(blocks("own"), 4000);
            assert!((8..=4 * 9 * 4).contains(&lines("own")), "{}", lines("own"));
            for name in ["left", "right"] {
                assert_eq!(blocks(name), 4000);
                assert!(
                    (4..=4 * 5).contains(&lines(name)),
                    "{name}: {}",
                    lines(name)
                );
            }
            let Some(shared) = memory["sharing"].as_array() else {
                continue;
            };
            let line = line_of(THREADS, "make_counters");
            let expected =
                format!("block of 128 bytes allocated in make_counters (program.c:{line})");
            assert_eq!(
                shared[0]["symbols"],
                serde_json::json!([expected]),
                "{shared:?}"
            );
            assert_eq!(shared[0]["module"], "[heap]");
            assert_eq!(shared[0]["false_sharing"], true);
            assert!(shared[0]["threads"].as_array().unwrap().len() >= 4);
        }
    }
}

const NEW: &str = r"
#include <memory>
#include <vector>
struct Node { long key; char rest[40]; Node *next; };
__attribute__((noinline)) Node *make(Node *next) {
    Node *one = new Node; // here: make
    one->key = 1;
    one->next = next;
    return one;
}
__attribute__((noinline)) long *array(int many) {
    long *all = new long[many]; // here: array
    for (int at = 0; at < many; at++) all[at] = at;
    return all;
}
int main() {
    Node *first = nullptr;
    for (int turn = 0; turn < 100; turn++) first = make(first);
    long sum = first->key;
    while (first) { Node *next = first->next; delete first; first = next; }
    long *all = array(1000);
    sum += all[999];
    delete[] all;
    return sum == 1000 ? 0 : 1;
}
";

/// The site of `new` is where it stands, not in `operator new`.
#[test]
fn operator_new() {
    if !virtual_pmu() {
        return;
    }
    for arguments in [&["-O1", "-g", "-static"][..], &["-O1", "-g"]] {
        let directory = tempfile::tempdir().unwrap();
        let Some(program) = built_by("c++", "program.cc", directory.path(), NEW, arguments) else {
            return;
        };
        let memory = memory_of(&["--memory"], &program);
        check_sums(&memory);
        for (name, function, blocks, size) in [
            ("make", "make(Node*)", 100, 56),
            ("array", "array(int)", 1, 8000),
        ] {
            let site = &row(&memory, function)["allocated"];
            assert_eq!(number(&site["line"]), line_of(NEW, name), "{site}");
            let names = ["blocks", "bytes", "smallest", "largest"];
            assert_eq!(numbers(site, names), [blocks, blocks * size, size, size]);
        }
    }
}

/// Blocks of all sizes that come, grow, shrink and go, and are used here and there.
const MANY: &str = r#"
#include <stdlib.h>
#include <string.h>
static unsigned long state = 1;
static unsigned below(unsigned n) {
    state = state * 6364136223846793005UL + 1;
    return (state >> 33) % n;
}
__attribute__((noinline)) static char *plain(size_t n) { return malloc(n); }
__attribute__((noinline)) static char *cleared(size_t n) { return calloc(1, n); }
__attribute__((noinline)) static char *aligned(size_t n) { return aligned_alloc(64, (n + 63) & ~63ul); }
__attribute__((noinline)) static char *changed(char *p, size_t n) { return realloc(p, n); }
int main(void) {
    enum { N = 100 };
    static char *at[N];
    static size_t size[N];
    volatile long total = 0;
    for (int k = 0; k < 15000; k++) {
        int i = below(N);
        if (!at[i]) {
            size_t n = below(50) ? 1 + below(below(8) ? 300 : 9000) : 200000 + below(400000);
            at[i] = below(3) ? below(2) ? cleared(n) : aligned(n) : plain(n);
            size[i] = n;
        } else if (!below(4)) {
            free(at[i]);
            at[i] = 0;
        } else if (!below(4)) {
            size_t n = size[i] + below(600) - (size[i] > 300 ? below(300) : 0) + 1;
            size[i] = below(100) ? n : n + 300000;
            at[i] = changed(at[i], size[i]);
        } else {
            size_t from = below(size[i]), left = size[i] - from;
            size_t n = 1 + below(left > 200 ? 200 : left);
            if (below(2)) memset(at[i] + from, k, n);
            else for (size_t j = from; j < from + n; j++) total += at[i][j];
        }
    }
    return total == 1;
}
"#;

/// What is kept in the shadow of the memory, and told when blocks end, is what all references say one by one.
#[test]
fn blocks_that_come_and_go_are_used_as_each_reference_says() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), MANY, &["-O1", "-g"]) else {
        return;
    };
    let [some, all] = ["--memory", "--model=cachegrind"]
        .map(|option| memory_of(&[option, "--reproducible"], &program));
    for function in ["plain", "cleared", "aligned", "changed"] {
        let [one, two] = [&some, &all].map(|of| row(of, function));
        for name in ["lines_touched", "lines_written", "allocated"] {
            assert_eq!(one[name], two[name], "{function}: {name}");
        }
    }
    assert_eq!(some["heap"], all["heap"]);
    check_sums(&some);
}
