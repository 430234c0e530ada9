//! `run --memory --locality`, and what the model has beside Cachegrind's caches, by hand.

use crate::memory::built;
use crate::support::{json, run, stderr, virtual_pmu};
use truecount_testing::schemas::schema;

/// 100 lines, read in order ten times; then two operands that go through memory each in its way.
const ORDER: &str = r#"
__attribute__((aligned(4096))) char room[65536];
__attribute__((naked, noreturn)) void _start(void) {
    __asm__ volatile(
        "mov $10, %ecx\n"
        "1: lea room(%rip), %rbx\n"
        "mov $100, %edx\n"
        "2: mov (%rbx), %eax\n"        // 1000 loads, 64 bytes from each other
        "add $64, %rbx\n"
        "dec %edx\n"
        "jnz 2b\n"
        "dec %ecx\n"
        "jnz 1b\n"
        "lea room+16384(%rip), %rbx\n"
        "mov $128, %ecx\n"
        "3: movl $1, (%rbx)\n"         // 128 stores next to each other, in 8 lines
        "add $4, %rbx\n"
        "dec %ecx\n"
        "jnz 3b\n"
        "mov $60, %eax\n"
        "xor %edi, %edi\n"
        "syscall\n");
}
"#;

#[test]
fn the_order_of_references_by_hand() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), ORDER, &["-O1", "-nostdlib", "-static"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let document = json(&["run", "--json", "--locality", "--", program]);
    let validator = jsonschema::validator_for(&schema("run.json")).unwrap();
    assert!(validator.is_valid(&document), "{document}");
    let locality = &document["memory"]["locality"];
    assert_eq!(locality["touches"], 1128);
    assert_eq!(locality["first_touches"], 108);
    let reuse: Vec<(u64, u64, u64)> = locality["reuse"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| ["from", "to", "touches"].map(|name| one[name].as_u64().unwrap()))
        .map(|[from, to, touches]| (from, to, touches))
        .filter(|(.., touches)| *touches != 0)
        .collect();
    // Within a line at once; a line of the loop again after 99 others.
    assert_eq!(reuse, [(0, 0, 120), (64, 127, 900)]);
    let strides = serde_json::json!({
        "first": 2,
        "same": 0,
        "next": 127,
        // In each round after the first stride; back to the beginning is another one, and on from there.
        "constant": 98 * 10,
        "changing": 1 + 9 * 2,
    });
    assert_eq!(locality["strides"], strides);
    let functions = locality["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 1, "{functions:?}");
    assert_eq!(functions[0]["function"], "_start");
    for name in ["touches", "first_touches", "reuse", "strides"] {
        assert_eq!(functions[0][name], locality[name], "{name}");
    }
    let set = &locality["working_sets"][0];
    assert_eq!(set["lines"], serde_json::json!([108]));
    assert_eq!(set["pages"], serde_json::json!([3]));
    let text = stderr(&run(&["run", "--locality", "--", program]));
    for part in [
        "64 to 127 lines ago",
        "8 KiB",
        "never before",
        "whole windows of",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Each function's part of the order: who goes through columns comes back to a line after 512 others, who goes through
/// rows at once; a function that two threads execute is one.
#[test]
fn the_order_by_function() {
    const MATRIX: &str = r"
#include <pthread.h>
static volatile int numbers[513][512] __attribute__((aligned(64)));
__attribute__((noinline)) int rows(void) {
    int sum = 0;
    for (int at = 0; at < 513; at++)
        for (int other = 0; other < 512; other++) sum += numbers[at][other];
    return sum;
}
__attribute__((noinline)) int columns(void) {
    int sum = 0;
    for (int at = 0; at < 512; at++)
        for (int other = 0; other < 513; other++) sum += numbers[other][at];
    return sum;
}
static void *both(void *none) { rows(); columns(); return none; }
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, both, 0);
    both(0);
    pthread_join(other, 0);
    return 0;
}
";
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-O1", "-static", "-pthread"];
    let Some(program) = built(directory.path(), MATRIX, &arguments) else {
        return;
    };
    let program = program.to_str().unwrap();
    let document = json(&["run", "--json", "--locality", "--", program]);
    let validator = jsonschema::validator_for(&schema("run.json")).unwrap();
    assert!(validator.is_valid(&document), "{document}");
    let locality = &document["memory"]["locality"];
    let functions = locality["functions"].as_array().unwrap();
    let number = |of: &serde_json::Value| of.as_u64().unwrap();
    for name in ["touches", "first_touches"] {
        let sum: u64 = functions.iter().map(|one| number(&one[name])).sum();
        assert_eq!(sum, number(&locality[name]), "{name}");
    }
    for name in ["first", "same", "next", "constant", "changing"] {
        let sum: u64 = functions
            .iter()
            .map(|one| number(&one["strides"][name]))
            .sum();
        assert_eq!(sum, number(&locality["strides"][name]), "{name}");
    }
    assert_eq!(functions[0]["function"], "columns", "{}", functions[0]);
    let of = |name: &str| functions.iter().find(|one| one["function"] == name);
    let (rows, columns) = (of("rows").unwrap(), of("columns").unwrap());
    let far = |one: &serde_json::Value| -> u64 {
        let reuse = one["reuse"].as_array().unwrap().iter();
        let far = reuse.filter(|reuse| number(&reuse["from"]) >= 512);
        far.map(|reuse| number(&reuse["touches"])).sum()
    };
    // (The return address and the stack are a few touches more.)
    let near = |value: u64, expected: u64| value.abs_diff(expected) < 40;
    let references = 2 * 513 * 512;
    for one in [rows, columns] {
        assert!(near(number(&one["touches"]), references), "{one}");
    }
    assert!(near(far(columns), references), "{columns}");
    assert!(near(far(rows), 0), "{rows}");
    assert!(near(number(&rows["strides"]["next"]), references), "{rows}");
    // Down a column: all but the first step of each.
    let constant = number(&columns["strides"]["constant"]);
    assert!(near(constant, 2 * 512 * 511), "{columns}");
    let text = stderr(&run(&["run", "--locality", "--", program]));
    for part in ["beyond 32 KiB", "columns", "as before"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// One load in each of 100 pages, 20 times: all pages miss each time where 64 are covered, none again where 128 are.
#[test]
fn a_second_level_and_translations_by_hand() {
    const PAGES: &str = r#"
__attribute__((aligned(4096))) char room[409600];
__attribute__((naked, noreturn)) void _start(void) {
    __asm__ volatile(
        "mov $20, %ecx\n"
        "1: lea room(%rip), %rbx\n"
        "mov $100, %edx\n"
        "2: mov (%rbx), %eax\n"
        "add $4096, %rbx\n"
        "dec %edx\n"
        "jnz 2b\n"
        "dec %ecx\n"
        "jnz 1b\n"
        "mov $60, %eax\n"
        "xor %edi, %edi\n"
        "syscall\n");
}
"#;
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), PAGES, &["-O1", "-nostdlib", "-static"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    // All are in one set of the first level. A second level of 1 MiB has 16 sets for them, one of 64 KiB has one.
    for (tlb, l2, dtlb_misses, l2_misses) in [
        ("--TLB=262144,64,4096", "--L2=1048576,16,64", 2000, 100),
        ("--TLB=524288,128,4096", "--L2=65536,16,64", 100, 2000),
    ] {
        let words = [
            "run",
            "--json",
            "--model=cachegrind",
            tlb,
            l2,
            "--",
            program,
        ];
        let document = json(&words);
        let validator = jsonschema::validator_for(&schema("run.json")).unwrap();
        assert!(validator.is_valid(&document), "{document}");
        let model = &document["memory"]["model"];
        assert_eq!(model["reads"]["l1_misses"], 2000, "{tlb} {l2}");
        assert_eq!(model["tlb"]["data_misses"], dtlb_misses, "{tlb}");
        assert_eq!(model["l2"]["data_misses"], l2_misses, "{l2}");
        assert_eq!(model["reads"]["ll_misses"], 100);
        let text = stderr(&run(&["run", "--model=cachegrind", tlb, l2, "--", program]));
        for part in ["l2d-misses", "dtlb-misses", ", L2 ", ", TLB "] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

/// The sizes of a CPU by name, a walk that prefetchers follow, a pattern that TAGE learns.
#[test]
fn a_named_cpu_its_prefetcher_and_its_predictor_by_hand() {
    // 64 KiB read in order; then 2,000 branches that leave a loop after 20 times, which counters behind seven outcomes do
    // not learn.
    const WALK: &str = r#"
__attribute__((aligned(4096))) char room[65536];
__attribute__((naked, noreturn)) void _start(void) {
    __asm__ volatile(
        "lea room(%rip), %rbx\n"
        "mov $8192, %ecx\n"
        "1: mov (%rbx), %eax\n"
        "add $8, %rbx\n"
        "dec %ecx\n"
        "jnz 1b\n"
        "mov $100, %edx\n"
        "2: mov $20, %ecx\n"
        "3: dec %ecx\n"
        "jnz 3b\n"
        "dec %edx\n"
        "jnz 2b\n"
        "mov $60, %eax\n"
        "xor %edi, %edi\n"
        "syscall\n");
}
"#;
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), WALK, &["-O1", "-nostdlib", "-static"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let model = |options: &[&str]| {
        let words = [&["run", "--json"], options, &["--", program]].concat();
        let document = json(&words);
        let validator = jsonschema::validator_for(&schema("run.json")).unwrap();
        assert!(validator.is_valid(&document), "{document}");
        document["memory"]["model"].clone()
    };
    let zen4 = model(&["--model=zen4"]);
    assert_eq!(zen4["cpu"], "zen4");
    assert_eq!(zen4["d1"], "32768,8,64");
    assert_eq!(zen4["l2"]["geometry"], "1048576,8,64");
    assert_eq!(zen4["reads"]["l1_misses"], 1024);
    assert_eq!(zen4["l2"]["data_misses"], 1024);
    assert_eq!(zen4["tlb"]["data_misses"], 16);
    assert_eq!(zen4["itlb"]["instruction_misses"], 1);
    assert_eq!(zen4["predictor"], "cachegrind");
    assert!(zen4.get("prefetch").is_none());
    let wrong = |model: &serde_json::Value| model["conditional"]["mispredicted"].as_u64().unwrap();
    // The end of each round of 20.
    assert!((100..=130).contains(&wrong(&zen4)), "{zen4}");
    // The next line is there at the first byte of the one before; a page's first line is nobody's next one.
    let next = model(&["--model=zen4", "--prefetch=next-line", "--predictor=tage"]);
    assert_eq!(next["reads"]["l1_misses"], 16);
    assert_eq!(next["prefetch"]["lines"], 1024 - 16);
    assert_eq!(next["prefetch"]["from_memory"], 1024 - 16);
    assert!(wrong(&next) < 50, "{next}");
    // The stride is known at the third reference, in the first line.
    let stride = model(&["--model=zen4", "--prefetch=stride", "--L2=none"]);
    assert_eq!(stride["reads"]["l1_misses"], 16);
    assert_eq!(stride["prefetch"]["lines"], 1024 - 16);
    assert!(stride.get("l2").is_none());
    let options = ["--model=zen4", "--prefetch=stride", "--predictor=tage"];
    let text = stderr(&run(&[&["run"], &options[..], &["--", program]].concat()));
    for part in [
        "zen4: I1 32768,8,64",
        "ITLB 262144,64,4096",
        "prefetcher stride",
        "predictor tage",
        "prefetched-lines",
        "1,008 from memory",
        "itlb-misses",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // By name, and in a model of this CPU, whose second level the kernel tells where there is one.
    let words = ["run", "--json", "--model=zen4", "-e"];
    let events = "l2-misses,dtlb-misses,itlb-misses";
    let document = json(&[&words[..], &[events, "--", program]].concat());
    let counters = document["counters"].as_array().unwrap();
    let told: Vec<_> = counters.iter().map(|one| one["value"].as_u64()).collect();
    let code = zen4["l2"]["instruction_misses"].as_u64().unwrap();
    assert_eq!(told, [Some(1024 + code), Some(16), Some(1)]);
    for one in counters {
        let said = ["source", "precision"].map(|name| one[name].as_str().unwrap());
        assert_eq!(said, ["model", "modelled"]);
    }
    let levels = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter();
    let levels = levels.flatten().flatten();
    let level = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path().join("level")).ok()?;
        text.trim().parse::<u32>().ok()
    };
    let most = levels.filter_map(level).max();
    if most.is_some() {
        let this = model(&["--model"]);
        assert_eq!(this.get("l2").is_some(), most > Some(2), "{this}");
    }
}
