//! Replacement policies of `run --model`.

use crate::memory::built;
use crate::support::{code, json, run, stderr, virtual_pmu};

/// Loads of five lines of one set: 1 2 3 4 1 5 2 3.
const ONE_SET: &str = r#"
__attribute__((aligned(4096))) char room[6 * 4096];
__attribute__((naked, noreturn)) void _start(void) {
    __asm__ volatile(
        "lea room(%rip), %rbx\n"
        "mov 0x1000(%rbx), %eax\n" "mov 0x2000(%rbx), %eax\n" "mov 0x3000(%rbx), %eax\n" "mov 0x4000(%rbx), %eax\n"
        "mov 0x1000(%rbx), %eax\n" "mov 0x5000(%rbx), %eax\n" "mov 0x2000(%rbx), %eax\n" "mov 0x3000(%rbx), %eax\n"
        "mov $60, %eax\n"
        "xor %edi, %edi\n"
        "syscall\n");
}
"#;

/// Misses of each replacement policy, by hand.
#[test]
fn replacement_policies_by_hand() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), ONE_SET, &["-O1", "-nostdlib", "-static"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    for (policy, misses) in [
        ("", 7),
        (",lru", 7),    // 5 takes the place of 2, 2 that of 3, 3 that of 4
        (",plru", 6),   // 5 that of 3, 3 that of 4
        (",fifo", 5),   // 5 that of 1
        (",random", 6), // 5 that of 2, and 2 that of 5
    ] {
        let d1 = format!("--D1=16384,4,64{policy}");
        let sizes = ["--I1=1024,4,64", &d1, "--LL=65536,4,64,fifo"];
        let document = json(&[&["run", "--json"], &sizes[..], &["--", program]].concat());
        let model = &document["memory"]["model"];
        let (ll, reads) = (&model["ll"], &model["reads"]);
        assert_eq!(
            (ll.as_str(), reads["l1_misses"].as_u64()),
            (Some("65536,4,64,fifo"), Some(misses)),
            "{policy}"
        );
        assert_eq!(reads["references"].as_u64(), Some(8), "{policy}");
    }
    for (option, why) in [
        ("--D1=2048,4,64,mru", "lru, plru, fifo, random"),
        ("--LL=131072,256,64,plru", "at most 128"),
        ("--D1=2048,4,64,lru,1", "geometry"),
    ] {
        let output = run(&["run", option, "--", "true"]);
        assert_eq!(code(&output), 2, "{option}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    let output = run(&[
        "valgrind",
        "--tool=callgrind",
        "--cache-sim=yes",
        "--D1=2048,4,64,fifo",
        "true",
    ]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("lru"), "{}", stderr(&output));
}
