//! The code cache, with areas made small so that they fill: more areas are taken, and the end is a
//! clear one.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch};
use truecount_engine::virt::{LaunchError, Options, Outcome};

/// Without address randomisation; `None` (and a printed reason) where ptrace is forbidden.
fn run(words: &[&str], options: &Options) -> Option<Result<Outcome, LaunchError>> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdout(Stdio::null());
    fixed_layout(&mut command);
    Some(launch(&mut command, options)?.wait())
}

#[test]
fn code_in_many_areas_counts_the_same() {
    // A directory that nobody changes meanwhile.
    let words = ["ls", "-l", "/usr"];
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block);
        let Some(whole) = run(&words, &options) else {
            return;
        };
        let Some(split) = run(&words, &options.area_limit(160 << 10)) else {
            return;
        };
        let [whole, split] = [whole.unwrap(), split.unwrap()];
        assert_eq!(whole.status.code(), Some(0), "{}", whole.status);
        assert_eq!(split.status.code(), Some(0), "{}", split.status);
        assert_eq!(split.totals.instructions(), whole.totals.instructions());
    }
}

#[test]
fn children_take_areas_of_their_own() {
    let words = [
        "sh",
        "-c",
        "(ls / | sort; exit 3); x=$?; for i in 1 2; do : $i; done; exit $x",
    ];
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block);
        if let Some(split) = run(&words, &options.area_limit(512 << 10)) {
            assert_eq!(split.unwrap().status.code(), Some(3));
        }
    }
}

/// A compiler that never stops: every call is of code just written, over and over in 64 KiB.
#[test]
fn new_code_for_ever_ends_with_a_report() {
    let source = "#include <string.h>\n#include <sys/mman.h>\n#include <stdlib.h>\n\
         int main(int argc, char **argv) {\n\
           unsigned char *at = mmap(0, 1 << 16, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
           unsigned sum = 0, n = atoi(argv[argc - 1]);\n\
           for (unsigned i = 0; i < n; i++) {\n\
             unsigned char *code = at + i % 4096 * 16;\n\
             code[0] = 0xb8; memcpy(code + 1, &i, 4); code[5] = 0xc3;\n\
             sum += ((unsigned (*)(void))code)() == i;\n\
           }\n\
           return sum == n ? 5 : 6;\n\
         }\n";
    let Some(program) = built("for-ever.c", source, &["-O1"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let small = Options::default().area_limit(512 << 10);
    let Some(short) = run(&[program, "3000"], &small) else {
        return;
    };
    assert_eq!(short.unwrap().status.code(), Some(5));
    let Some(long) = run(&[program, "2000000000"], &small) else {
        return;
    };
    let error = long.expect_err("it cannot hold all that");
    let LaunchError::Internal { report } = &error else {
        panic!("{error}");
    };
    assert!(report.contains("the code cache is full"), "{report}");
}
