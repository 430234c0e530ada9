//! Programs that once went wrong under the virtual PMU: each does under it what it does natively.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod support;

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch};
use truecount_engine::virt::{Options, Outcome};

/// What a program did.
#[derive(Debug, PartialEq, Eq)]
struct Did {
    code: Option<i32>,
    signal: Option<i32>,
    output: String,
}

fn did(status: std::process::ExitStatus, output: String) -> Did {
    Did {
        code: status.code(),
        signal: status.signal(),
        output,
    }
}

/// Runs a program under the virtual PMU; `None` (and a printed reason) where the machine forbids ptrace.
fn under_virtual_pmu(mut command: Command, options: &Options) -> Option<(Did, Outcome)> {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    command.stdout(writer).stderr(Stdio::inherit());
    fixed_layout(&mut command);
    let running = launch(&mut command, options)?;
    // The command holds an end of the pipe.
    drop(command);
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = reader.read_to_string(&mut text);
        text
    });
    let outcome = running.wait().expect("the engine ends well");
    let output = reading.join().expect("reads");
    Some((did(outcome.status, output), outcome))
}

/// Builds a program of `tests/trust` and runs it natively and under the virtual PMU, `rounds` times with either way of
/// counting: it must do the same.
fn same_as_native(name: &str, source: &str, arguments: &[&str], rounds: usize) -> Option<Did> {
    let arguments = [&["-O1", "-pthread"], arguments].concat();
    let program = built(&format!("trust-{name}.c"), source, &arguments)?;
    let native = Command::new(&program).output().expect("it was just built");
    let native = did(
        native.status,
        String::from_utf8_lossy(&native.stdout).into_owned(),
    );
    for round in 0..rounds {
        for per_block in [false, true] {
            let options = Options::default().per_block(per_block);
            let (under, _) = under_virtual_pmu(Command::new(&program), &options)?;
            assert_eq!(
                under, native,
                "{name}, round {round}, per block: {per_block}"
            );
        }
    }
    Some(native)
}

fn good(name: &str, source: &str, arguments: &[&str], rounds: usize) {
    if let Some(native) = same_as_native(name, source, arguments, rounds) {
        assert_eq!(
            (native.code, native.output.as_str()),
            (Some(0), "good\n"),
            "{name}"
        );
    }
}

#[test]
fn threads_after_vfork_children_that_ended_by_exit_have_stacks_of_their_own() {
    good("vfork_exit", include_str!("trust/vfork_exit.c"), &[], 4);
}

#[test]
fn a_child_that_shares_memory_keeps_its_stack_while_it_runs() {
    good("shared_child", include_str!("trust/shared_child.c"), &[], 2);
}
