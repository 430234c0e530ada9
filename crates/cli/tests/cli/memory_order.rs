//! `run --memory --locality`, and the model's second level and translations, by hand.

use crate::memory::built;
use crate::support::{json, run, schema, stderr, virtual_pmu};

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
        for part in ["l2d-misses", "dtlb-misses", "and L2", "and TLB"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
