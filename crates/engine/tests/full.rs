//! The code cache with a small bound: the oldest code is taken out, with threads inside and signals on their way,
//! and translated again where it is needed.
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

/// The least bound.
const SMALL: u64 = 1 << 20;

#[test]
fn code_that_is_translated_again_counts_the_same() {
    // A directory that nobody changes meanwhile.
    let Some(program) = built("again.c", include_str!("trust/again.c"), &["-O1"]) else {
        return;
    };
    let words = [program.to_str().unwrap()];
    {
        for per_block in [false, true] {
            let options = Options::default().per_block(per_block);
            let Some(whole) = run(&words, &options) else {
                return;
            };
            let Some(small) = run(&words, &options.code_cache(SMALL)) else {
                return;
            };
            let [whole, small] = [whole.unwrap(), small.unwrap()];
            assert_eq!(whole.status.code(), Some(0), "{}", whole.status);
            assert_eq!(small.status.code(), Some(0), "{}", small.status);
            assert_eq!(small.totals.instructions(), whole.totals.instructions());
            let translated = |outcome: &Outcome| -> u64 {
                outcome
                    .totals
                    .threads
                    .iter()
                    .map(|thread| thread.translated)
                    .sum()
            };
            assert!(translated(&small) > 2 * translated(&whole));
        }
    }
}

#[test]
fn children_empty_their_own_code() {
    let words = [
        "sh",
        "-c",
        "(ls / | sort; exit 3); x=$?; for i in 1 2; do : $i; done; exit $x",
    ];
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block);
        if let Some(small) = run(&words, &options.code_cache(SMALL)) {
            assert_eq!(small.unwrap().status.code(), Some(3));
        }
    }
}

/// Functions written and called without end: the code cache stays within its bound, and counts are what they are
/// where nothing is taken out.
#[test]
fn a_compiler_that_never_stops_stays_within_the_bound() {
    let Some(program) = built(
        "for-ever.c",
        include_str!("trust/for_ever.c"),
        &["-O1", "-pthread"],
    ) else {
        return;
    };
    let program = program.to_str().unwrap();
    for way in ["rwx", "flip"] {
        let words = [program, way, "100000"];
        let Some(whole) = run(&words, &Options::default()) else {
            return;
        };
        let Some(small) = run(&words, &Options::default().code_cache(SMALL)) else {
            return;
        };
        let [whole, small] = [whole.unwrap(), small.unwrap()];
        // 5: every function gave its number.
        assert_eq!(whole.status.code(), Some(5), "{way}: {}", whole.status);
        assert_eq!(small.status.code(), Some(5), "{way}: {}", small.status);
        assert_eq!(
            small.totals.instructions(),
            whole.totals.instructions(),
            "{way}"
        );
        // 7: and the process stayed below 40 MB.
        let words = [program, way, "100000", "resident"];
        let Some(resident) = run(&words, &Options::default().code_cache(SMALL)) else {
            return;
        };
        assert_eq!(resident.unwrap().status.code(), Some(7), "{way}");
    }
}

/// Beside the compiler: threads that sleep in a call, that run without ever coming to the runtime, and that handle a
/// timer's signals; children that are forked.
#[test]
fn threads_and_signals_are_in_code_that_is_taken_out() {
    let arguments = ["-O1", "-pthread"];
    let Some(program) = built(
        "in-the-way.c",
        include_str!("trust/in_the_way.c"),
        &arguments,
    ) else {
        return;
    };
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block).code_cache(SMALL);
        let Some(small) = run(&[program.to_str().unwrap()], &options) else {
            return;
        };
        assert_eq!(
            small.unwrap().status.code(),
            Some(5),
            "per block: {per_block}"
        );
    }
}
