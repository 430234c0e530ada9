//! What programs can do out of the engine's sight: it is followed all the same, or said.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch, run, stepped};
use truecount_engine::machine::Machine;
use truecount_engine::step;
use truecount_engine::virt::{Options, Totals};

fn program() -> Option<PathBuf> {
    // Each test builds its own: they run at the same time.
    let name = format!("beyond-{:?}.c", std::thread::current().id());
    let arguments = ["-O1", "-w", "-static", "-no-pie"];
    built(&name, include_str!("beyond/beyond.c"), &arguments)
}

fn command(program: &PathBuf, case: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(case).env_clear().stdin(Stdio::null());
    fixed_layout(&mut command);
    command
}

/// The same output and status as natively, either way of counting and in turn; the counts of the first run.
fn same(program: &PathBuf, case: &str) -> Option<Totals> {
    let native = command(program, case).output().expect("it was just built");
    let expected = String::from_utf8_lossy(&native.stdout).into_owned();
    let mut first = None;
    let ways = [
        Options::default(),
        Options::default().per_block(true),
        Options::default().in_turn(true),
    ];
    for (way, options) in ways.iter().enumerate() {
        let (status, output, totals) = run(command(program, case), options)?;
        assert!(totals.failure.is_none(), "{case}: {:?}", totals.failure);
        assert_eq!(output, expected, "{case}, way {way}");
        assert_eq!(status, native.status, "{case}, way {way}");
        first.get_or_insert(totals);
    }
    first
}

/// The same, and nothing of it is out of sight.
fn all_followed(cases: &[&str]) {
    let Some(program) = program() else {
        return;
    };
    for case in cases {
        let Some(totals) = same(&program, case) else {
            return;
        };
        assert_eq!(totals.unfollowed, 0, "{case}");
        assert_eq!(totals.unseen_writes, 0, "{case}");
    }
}

/// The run ends with a report that says this.
fn ends_with(program: &PathBuf, case: &str, reason: &str) {
    let mut command = command(program, case);
    command.stdout(Stdio::null());
    let Some(running) = launch(&mut command, &Options::default()) else {
        return;
    };
    let error = running.wait().expect_err("it cannot go on").to_string();
    assert!(error.contains(reason), "{case}: {error}");
}

/// Memory, children and programs by the 32-bit calls were nobody's, and the run was called exact.
#[test]
fn calls_by_interrupt_are_followed() {
    all_followed(&[
        "int80_memory",
        "int80_read",
        "int80_children",
        "int80_wait",
        "int80_plain",
        "int80_exec",
        "int80_exit",
    ]);
}

#[test]
fn calls_by_interrupt_are_counted_once() {
    let Some(program) = program() else {
        return;
    };
    let (at_random, hide_vdso) = (Some([7; 16]), true);
    for case in ["int80_memory", "int80_children", "int80_exit"] {
        let options = Options::default().at_random(at_random).hide_vdso(hide_vdso);
        let mut counted = command(&program, case);
        counted.stdout(Stdio::null());
        let Some(running) = launch(&mut counted, &options) else {
            return;
        };
        let totals = running.wait().expect("the engine ends well").totals;
        let mut command = command(&program, case);
        command.stdout(Stdio::null());
        let options = step::StepOptions {
            at_random,
            hide_vdso,
            ..step::StepOptions::default()
        };
        let Some(steps) = stepped(step::run(command, options)) else {
            return;
        };
        assert_eq!(totals.instructions(), steps.instructions(), "{case}");
    }
}

#[test]
fn calls_by_interrupt_that_are_not_followed_are_named() {
    let Some(program) = program() else {
        return;
    };
    let Some(totals) = same(&program, "int80_trace") else {
        return;
    };
    assert_eq!(totals.unfollowed, 1);
    assert_eq!(totals.unfollowed_first.as_deref(), Some("int 0x80: ptrace"));
    ends_with(&program, "int80_action", "int 0x80");
}

/// Linux looks at half of RAX: calls with something in the other half were made past the engine, and a `fork` hung.
#[test]
fn numbers_of_calls_are_the_kernels() {
    all_followed(&["upper", "x32"]);
}

#[test]
fn handlers_cannot_return_to_32_bit_code_unnoticed() {
    if let Some(program) = program() {
        ends_with(&program, "sigreturn32", "code segment 0x23");
    }
}

#[test]
fn sysenter_faults_where_the_cpu_does_not_have_it() {
    let vendor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !vendor.contains("AuthenticAMD") && !vendor.contains("HygonGenuine") {
        truecount_testing::skip!("cpu-features", "sysenter is a system call on this CPU");
        return;
    }
    all_followed(&["sysenter"]);
}

/// Code was executed as it had been, or a call failed because code was watched.
#[test]
fn code_that_calls_move_or_seal_runs_as_it_is() {
    all_followed(&[
        "remap",
        "process_madvise",
        "secret",
        "grows",
        "seal",
        "implied",
        "populate",
        "move",
    ]);
}

#[test]
fn shared_code_that_a_child_writes_runs_as_it_is() {
    all_followed(&["shm"]);
}

/// The kernel could not read into watched code, as it does without a call of ours.
#[test]
fn the_kernel_writes_code_later() {
    all_followed(&["uring", "aio"]);
}

/// The kernel would hold the engine to it.
#[test]
fn memory_that_must_not_become_executable_does_not() {
    all_followed(&["mdwe"]);
}

#[test]
fn calls_are_dispatched_however_they_are_made() {
    all_followed(&["dispatch"]);
}

#[test]
fn a_machine_that_is_shown_cannot_make_cpuid_fault() {
    let Some(program) = program() else {
        return;
    };
    let options =
        Options::default().machine(Some(Machine::named("x86-64-v2").expect("a known one")));
    if let Some((_, output, _)) = run(command(&program, "arch"), &options) {
        assert_eq!(output, "1 -19\n");
    }
}

#[test]
fn registers_that_a_tracer_sets_are_not_called_exact() {
    let Some(program) = program() else {
        return;
    };
    let Some((_, _, totals)) = run(command(&program, "poke"), &Options::default()) else {
        return;
    };
    assert!(totals.unfollowed > 0);
}
