//! Programs that read counters themselves, under the virtual PMU: `perf_event_open`,
//! its descriptors, `rdpmc`, and Debian's perf counting a child.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod support;

use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use support::{built, fixed_layout, launch};
use truecount_engine::virt;

/// Runs without address randomisation; what it wrote (both streams) and the outcome.
/// `None` (and a printed reason) where the machine forbids ptrace.
fn run(mut command: Command, options: &virt::Options) -> Option<(String, virt::Outcome)> {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    command
        .stdout(writer.try_clone().expect("a descriptor"))
        .stderr(writer)
        .stdin(Stdio::null())
        .env("LC_ALL", "C");
    fixed_layout(&mut command);
    let running = launch(&mut command, options)?;
    drop(command);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    Some((text, running.wait().expect("the engine ends well")))
}

const ARGUMENTS: [&str; 2] = ["-O1", "-pthread"];

/// Compiled once: tests run side by side.
fn counters() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let source = include_str!("inside/counters.c");
    PROGRAM
        .get_or_init(|| built("counters.c", source, &ARGUMENTS))
        .clone()
}

#[test]
fn a_c_program_reads_its_counters() {
    let Some(program) = counters() else { return };
    let mut command = Command::new(program);
    command.arg("exact");
    let Some((text, outcome)) = run(command, &virt::Options::default()) else {
        return;
    };
    assert!(outcome.status.success(), "{}\n{text}", outcome.status);
    // What it counted of the program its child became is the engine's own total.
    let counted: u64 = text.trim().parse().expect("a number");
    let last = outcome.totals.threads.iter().rev();
    let last = last
        .filter(|t| t.name == "counters")
        .map(|t| t.instructions)
        .next();
    assert_eq!(Some(counted), last);
}

/// With a counter for every block nothing can be read by `rdpmc`, and `read`
/// gives the same counts.
#[test]
fn per_block_counters_serve_read() {
    let Some(program) = counters() else { return };
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ";", "-e", "instructions:u,branches:u", "--"]);
    command.arg(program).arg("spin");
    let Ok(_) = Command::new("perf").arg("--version").output() else {
        truecount_testing::skip!("perf", "perf is not installed");
        return;
    };
    let options = virt::Options::default().per_block(true);
    if let Some((text, outcome)) = run(command, &options) {
        agrees(&text, &outcome, "counters");
        // Three million in its loop, and the dynamic loader's.
        let branches = text.lines().find(|l| l.contains("branches:u"));
        let branches = branches.and_then(|l| l.split(';').next()?.parse::<u64>().ok());
        let rest = branches.expect("a count").saturating_sub(3_000_000);
        assert!((1_000..60_000).contains(&rest), "{text}");
    }
}

/// The count that perf printed is the engine's for the process `name`.
fn agrees(text: &str, outcome: &virt::Outcome, name: &str) {
    let line = text.lines().find(|l| l.contains("instructions:u"));
    let counted = line.and_then(|l| l.split(';').next()?.parse::<u64>().ok());
    let of_child = outcome.totals.threads.iter().filter(|t| t.name == name);
    let total: u64 = of_child.map(|t| t.instructions).sum();
    assert!(total > 10_000, "{:?}", outcome.totals.threads);
    assert_eq!(counted, Some(total), "{text}");
}

#[test]
fn perf_stat_counts_its_child() {
    let Ok(_) = Command::new("perf").arg("--version").output() else {
        truecount_testing::skip!("perf", "perf is not installed");
        return;
    };
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ";", "-e", "instructions:u", "--", "true"]);
    if let Some((text, outcome)) = run(command, &virt::Options::default()) {
        agrees(&text, &outcome, "true");
    }
    // With children of its own (a shell's), a group, and an event that is not there.
    let mut command = Command::new("perf");
    command.args([
        "stat",
        "-x",
        ";",
        "-e",
        "{instructions:u,instructions:u},cycles:u,task-clock",
    ]);
    command.args([
        "--",
        "sh",
        "-c",
        "/bin/true; /bin/true & wait; exec /bin/true",
    ]);
    if let Some((text, outcome)) = run(command, &virt::Options::default()) {
        let counts: Vec<&str> = text
            .lines()
            .filter(|l| l.contains("instructions:u"))
            .filter_map(|l| l.split(';').next())
            .collect();
        let inside = outcome.totals.threads.iter().filter(|t| t.name != "perf");
        let total: u64 = inside.map(|t| t.instructions).sum();
        let total = total.to_string();
        assert_eq!(counts, [total.as_str(); 2], "{text}");
        assert!(text.contains("<not supported>"), "{text}");
    }
}

/// `rdpmc` anywhere in a block: straight code, taken and not taken branches,
/// calls, loops; every difference must be what stands between.
#[test]
fn rdpmc_is_exact_at_every_place() {
    let mut state = 12345u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    // Open an event (attr: type 0, size 64, config 1, exclude_kernel), no mapping needed.
    let mut code = String::from(
        ".globl _start\n_start:\nmov $298, %eax\nlea attr(%rip), %rdi\nxor %esi, %esi\n\
         mov $-1, %edx\nmov $-1, %r10\nxor %r8d, %r8d\nsyscall\ntest %eax, %eax\njs bad\n\
         mov $64, %ecx\nlea out(%rip), %rdi\nxor %ebx, %ebx\n",
    );
    let mut expected = Vec::new();
    for round in 0..400 {
        let mut between = 2; // rdpmc and the store
        code.push_str("rdpmc\nmov %eax, (%rdi)\n");
        for part in 0..random(8) {
            let label = format!("l{round}_{part}");
            let (text, executed) = match random(9) {
                0 => ("nop\n".to_owned(), 1),
                1 => ("inc %ebx\n".to_owned(), 1),
                2 => ("stc\n".to_owned(), 1),
                // Not taken, forward: the block goes on.
                3 => (format!("test %edi, %edi\njz {label}\nnop\n{label}:\n"), 3),
                // Taken.
                4 => (format!("test %edi, %edi\njnz {label}\nnop\n{label}:\n"), 2),
                5 => (format!("jmp {label}\nnop\n{label}:\n"), 1),
                6 => (
                    format!("call {label}\njmp {label}e\n{label}: ret\n{label}e:\n"),
                    3,
                ),
                7 => (
                    format!("mov $9, %esi\n{label}: dec %esi\njnz {label}\n"),
                    19,
                ),
                _ => ("adc $0, %ebx\n".to_owned(), 1),
            };
            code.push_str(&text);
            between += executed;
        }
        code.push_str("add $4, %rdi\n");
        expected.push(between + 1);
    }
    let _ = writeln!(
        code,
        "mov $1, %eax\nmov $1, %edi\nlea out(%rip), %rsi\nmov ${}, %edx\nsyscall\n\
         xor %edi, %edi\nmov $60, %eax\nsyscall\nbad: mov $1, %edi\nmov $60, %eax\nsyscall\n\
         .data\nattr: .long 0, 64\n.quad 1, 0, 0, 0, 32\n.zero 64\n.bss\nout: .zero 4096",
        4 * expected.len()
    );
    let Some(program) = built("places.s", &code, &["-nostdlib", "-static"]) else {
        return;
    };
    let mut command = Command::new(program);
    let output = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("places.out");
    let file = std::fs::File::create(&output).expect("a file");
    command.stdout(file);
    let Some(running) = launch(&mut command, &virt::Options::default()) else {
        return;
    };
    let outcome = running.wait().expect("the engine ends well");
    assert!(outcome.status.success(), "{}", outcome.status);
    let bytes = std::fs::read(&output).expect("the output");
    let counts: Vec<u32> = bytes
        .chunks_exact(4)
        .map(|c| u32::from_le_bytes(c.try_into().expect("four bytes")))
        .collect();
    let differences: Vec<u32> = counts.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
    assert_eq!(differences, expected[..expected.len() - 1]);
}

/// The same.
fn clock() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let source = include_str!("inside/clock.c");
    PROGRAM
        .get_or_init(|| built("clock.c", source, &ARGUMENTS))
        .clone()
}

/// A clock of the engine's: everything that a program reads of the time is the same in every run, however it waits.
#[test]
fn a_program_reads_the_same_times_in_every_run() {
    let Some(program) = clock() else { return };
    let mut texts = Vec::new();
    for per_block in [false, true, false] {
        let options = virt::Options::default()
            .per_block(per_block)
            .own_clock(true);
        let Some((text, outcome)) = run(Command::new(&program), &options) else {
            return;
        };
        assert!(outcome.status.success(), "{}\n{text}", outcome.status);
        assert_eq!(outcome.totals.clock_followed, 0);
        texts.push((text, outcome.totals.instructions()));
    }
    let (text, _) = &texts[0];
    assert!(texts.iter().all(|each| each == &texts[0]), "{texts:#?}");
    for line in [
        "bad -22 null 14",
        "system 0 0",
        "nanosleep 0: 30 ms",
        "clock_nanosleep 0: 30 ms",
        "absolute 0: 40 ms",
        "past 0: 0 ms",
        "poll 0: 25 ms",
        "ppoll 0: 30 ms",
        "select 0: 35 ms",
        "pselect 0: 30 ms",
        "epoll 0: 15 ms",
        "no wait 0: 0 ms",
        "futex 110: 30 ms",
        "futex other 11: 0 ms",
        "condition 110, at 1",
        "timer 8",
        "interrupted -1 4, 1",
        "alarms 5",
    ] {
        assert!(text.contains(line), "no `{line}`:\n{text}");
    }
    // A time stamp is as many nanoseconds as instructions lie between.
    let stamps = text.lines().find(|line| line.starts_with("tsc "));
    let between: Vec<u64> = stamps
        .expect("a line")
        .split(' ')
        .skip(2)
        .map(|word| word.parse().expect("a number"))
        .collect();
    assert!(between.iter().all(|&n| (1..20).contains(&n)), "{text}");
    assert_eq!(text.matches("20000000").count(), 5, "{text}");

    let mut command = Command::new(&program);
    command.arg("woken");
    let options = virt::Options::default().own_clock(true);
    let Some((text, _)) = run(command, &options) else {
        return;
    };
    assert_eq!(text, "posted 0, 1\n");
}

/// A timer's time does not come by itself: the clock is set on after the real one, and the run says so.
#[test]
fn a_clock_that_stands_still_follows_the_real_one() {
    let Some(program) = clock() else { return };
    let mut command = Command::new(program);
    command.arg("timer");
    let options = virt::Options::default()
        .own_clock(true)
        .clock_behind(10_000_000);
    let Some((text, outcome)) = run(command, &options) else {
        return;
    };
    assert!(outcome.status.success(), "{}\n{text}", outcome.status);
    assert!(outcome.totals.clock_followed > 0);
}
