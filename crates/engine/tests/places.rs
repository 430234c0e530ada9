//! Programs that take addresses where the virtual PMU's memory is: it gives way, and they do what they do natively.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod support;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use support::{built, fixed_layout};
use truecount_engine::step;
use truecount_engine::virt::{Cache, Options, Totals};

/// The program with nothing in its environment.
fn run(
    program: &Path,
    argument: Option<&str>,
    options: &Options,
) -> Option<(ExitStatus, String, Totals)> {
    let mut command = Command::new(program);
    command.args(argument).env_clear();
    support::run(command, options)
}

/// The same output as natively, and the same count either way of counting and with translations that were kept.
fn same(name: &str, source: &str, arguments: &[&str], argument: Option<&str>) {
    let Some(program) = built(&format!("places-{name}.c"), source, arguments) else {
        return;
    };
    let mut native = Command::new(&program);
    native.args(argument).env_clear().stderr(Stdio::inherit());
    fixed_layout(&mut native);
    let native = native.output().expect("it was just built");
    let expected = String::from_utf8_lossy(&native.stdout).into_owned();
    assert!(native.status.success(), "natively: {expected}");
    let directory =
        truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("places-{name}-kept"));
    let _ = std::fs::remove_dir_all(&directory);
    let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
    made.expect("the tests' directory is writable");
    let mut counts = Vec::new();
    for per_block in [false, true] {
        for keep in [false, true, true] {
            let cache = keep.then(|| Cache::open(&directory).expect("it was just made"));
            let options = Options::default().per_block(per_block).cache(cache);
            let Some((status, output, totals)) = run(&program, argument, &options) else {
                return;
            };
            assert!(status.success(), "{name}: {status}");
            assert_eq!(output, expected, "{name}, per block: {per_block}");
            counts.push(totals.instructions());
        }
    }
    let first = counts.first().copied();
    assert!(counts.iter().all(|&c| Some(c) == first), "{counts:?}");
}

#[test]
fn the_engine_gives_way_to_programs_loaded_anywhere() {
    let source = include_str!("places/moves.c");
    same("moves", source, &["-O1", "-fpie", "-pie"], None);
}

#[test]
fn the_engine_gives_way_to_programs_at_low_addresses() {
    let source = include_str!("places/moves.c");
    same(
        "moves-low",
        source,
        &["-O1", "-no-pie", "-static"],
        Some("low"),
    );
}

/// Whatever a program is linked to: where the engine usually is, too.
#[test]
fn programs_are_linked_to_any_address() {
    let source = "#include <stdio.h>\nint main(void) { puts(\"good\"); return 0; }";
    for at in [
        "0x10000",
        "0x7e800000",
        "0x7e400000",
        "0x7ea00000",
        "0x6ec80000",
        "0x5c000000",
        "0x7d400000",
    ] {
        let name = format!("at-{at}");
        let placed = format!("-Wl,-Ttext-segment={at}");
        let arguments = ["-O1", "-no-pie", "-static", &placed];
        same(&name, source, &arguments, None);
    }
}

/// What docs/virtual-pmu.md says of addresses that are not given up.
#[test]
fn what_cannot_be_given_up_is_refused_and_the_program_goes_on() {
    let source = include_str!("places/refused.c");
    let arguments = ["-O1", "-fpie", "-pie", "-pthread", "-w"];
    let Some(program) = built("places-refused.c", source, &arguments) else {
        return;
    };
    let mut native = Command::new(&program);
    fixed_layout(native.env_clear());
    let native = native.output().expect("it was just built").stdout;
    assert_eq!(native, b"alone: 0\ntwo: 0 0\nelsewhere: 0\n", "natively");
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block);
        let Some((status, output, totals)) = run(&program, None, &options) else {
            return;
        };
        assert!(status.success(), "{status}");
        let enomem = libc::ENOMEM;
        assert_eq!(
            output,
            format!("alone: {enomem}\ntwo: {enomem} {enomem}\nelsewhere: 0\n")
        );
        assert!(totals.failure.is_none() && totals.instructions() > 0);
    }
}

/// Every instruction that names GS's selector or an address of 32 bits does what it does natively, and is counted once.
#[test]
fn selectors_and_short_addresses_are_served() {
    let source = include_str!("places/segments.s");
    let Some(program) = built("places-segments.s", source, &["-nostdlib", "-static"]) else {
        return;
    };
    let native = Command::new(&program).status().expect("it was just built");
    assert_eq!(native.code(), Some(0), "natively");
    let mut command = Command::new(&program);
    command.env_clear();
    let stepped = step::run(command, step::StepOptions::default());
    let Some(stepped) = support::stepped(stepped) else {
        return;
    };
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block);
        let Some((status, _, totals)) = run(&program, None, &options) else {
            return;
        };
        assert_eq!(status.code(), Some(0), "per block: {per_block}");
        assert_eq!(totals.instructions(), stepped.instructions());
    }
}

/// Registers that an operand in GS borrows are the program's again in the frame of its fault.
#[test]
fn faults_in_segments_show_the_programs_registers() {
    let source = include_str!("places/segment_fault.c");
    same("segment-fault", source, &["-O1", "-w"], None);
}

/// What an ordinary user may lock is the program's memory alone, whatever the engine maps beside it.
#[test]
fn all_memory_is_locked_within_the_users_limit() {
    let source = r#"
        #include <stdio.h>
        #include <sys/mman.h>
        #include <sys/resource.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(void) {
            struct { unsigned version; int pid; } header = {0x20080522, 0};
            unsigned none[6] = {0};
            if (syscall(SYS_capset, &header, none)) return 1;
            struct rlimit limit = {8 << 20, 8 << 20};
            if (setrlimit(RLIMIT_MEMLOCK, &limit)) return 2;
            printf("%d ", mlockall(MCL_CURRENT)), munlockall();
            printf("%d ", mlockall(MCL_CURRENT | MCL_FUTURE)), munlockall();
            limit.rlim_cur = 1 << 20, setrlimit(RLIMIT_MEMLOCK, &limit);
            printf("%d\n", mlockall(MCL_CURRENT));
            return 0;
        }"#;
    same("all-locked", source, &["-O1", "-w"], None);
}

/// Random system calls, by seeds: each gives what it gives natively. More of them: `TRUECOUNT_SECONDS=600`,
/// from `TRUECOUNT_SEED=1000001` on.
#[test]
fn random_system_calls_do_what_they_do_natively() {
    let source = include_str!("places/calls.c");
    let Some(program) = built("places-calls.c", source, &["-O1", "-pthread", "-w"]) else {
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("TRUECOUNT_SEED").unwrap_or(4u64);
    let until = number("TRUECOUNT_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    for seed in first.. {
        if until.map_or(seed >= first + 2, |until| Instant::now() > until) {
            println!("seeds {first} to {}", seed - 1);
            break;
        }
        let seed = seed.to_string();
        let mut native = Command::new(&program);
        native.args([&seed, "400", "all"]).env_clear();
        fixed_layout(&mut native);
        let expected = native.output().expect("it was just built").stdout;
        let expected = String::from_utf8_lossy(&expected).into_owned();
        for per_block in [false, true] {
            let options = Options::default().per_block(per_block);
            let mut command = Command::new(&program);
            command.args([&seed, "400", "all"]).env_clear();
            let Some((status, output, _)) = support::run(command, &options) else {
                return;
            };
            let differs = output.lines().zip(expected.lines()).find(|(a, b)| a != b);
            assert_eq!(differs, None, "seed {seed}, per block: {per_block}");
            assert!(status.success(), "seed {seed}: {status}");
            assert_eq!(output.len(), expected.len(), "seed {seed}");
        }
    }
}

/// Memory calls that fail half-way, that move or take away code: what is executed then is what is there.
#[test]
fn calls_that_fail_half_way_leave_what_they_leave_natively() {
    let code = include_str!("trust/code.h");
    let source = include_str!("places/half_done.c").replacen("#include \"code.h\"", code, 1);
    same("half-done", &source, &["-O1", "-w"], None);
}

/// What `mremap` leaves where it is may be several mappings: data among code was taken for code.
#[test]
fn mappings_that_stay_in_place_stay_what_they_are() {
    same(
        "in-place",
        include_str!("places/in_place.c"),
        &["-O1", "-w"],
        None,
    );
}

/// Where pages of code were watched a mapping may stay several ones, which the kernel neither moves nor makes longer.
#[test]
fn mappings_that_were_watched_are_moved_as_one() {
    same(
        "in-parts",
        include_str!("places/in_parts.c"),
        &["-O1", "-w"],
        None,
    );
}

/// Threads execute what another one maps other files over, all the time.
#[test]
fn code_that_is_mapped_over_is_executed_by_no_thread() {
    let code = include_str!("trust/code.h");
    let source = include_str!("places/over.c").replacen("#include \"code.h\"", code, 1);
    good("over", &source);
}

/// Signals that come while the runtime steps to a boundary for others: the thread's mask was lost.
#[test]
fn signals_in_quick_succession_leave_the_mask_as_it_was() {
    good("storm", include_str!("places/storm.c"));
}

/// A program whose threads make what it counts differ from run to run: it says whether it is satisfied.
fn good(name: &str, source: &str) {
    let arguments = ["-O1", "-pthread", "-w"];
    let Some(program) = built(&format!("places-{name}.c"), source, &arguments) else {
        return;
    };
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block);
        let Some((status, output, _)) = run(&program, None, &options) else {
            return;
        };
        assert_eq!(output, "good\n", "{status}, per block: {per_block}");
    }
}

/// A signal that is pending and blocked when a program is replaced is pending in the next one; it ended it.
#[test]
fn pending_signals_survive_execve() {
    let source = include_str!("places/pending.c");
    for signals in ["5", "10", "11", "5,10,11", "10,12,34"] {
        same("pending", source, &["-O1", "-w"], Some(signals));
    }
}
