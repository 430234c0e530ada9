//! What several tests need to run programs under the virtual PMU.
#![allow(dead_code)] // each takes its part
#![allow(clippy::expect_used)] // helpers of tests

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use truecount_engine::step;
use truecount_engine::virt::{self, LaunchError, Options, Running, Totals};

/// Without address randomisation.
pub fn fixed_layout(command: &mut Command) {
    // SAFETY: one system call without memory arguments.
    unsafe {
        command.pre_exec(|| {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        });
    }
}

/// An environment in which two runs make the same references.
pub fn same_references(command: &mut Command) {
    command.env_clear();
    // The virtual PMU does not let the C library register a restartable sequence.
    command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    // Binding lazily, the loader executes an `xsavec` each time. It leaves out what is not in use; a tracer sees what natively is,
    // which a hypervisor or kernel that restores vectors may change at any time.
    command.env("LD_BIND_NOW", "1");
}

/// Starts it under the virtual PMU; `None` (and a printed reason) where the machine forbids ptrace.
pub fn launch(command: &mut Command, options: &Options) -> Option<Running> {
    match virt::launch(command, options) {
        Ok(running) => Some(running),
        Err(LaunchError::PtraceForbidden { error }) => {
            truecount_testing::skip!("virtual", "ptrace is not permitted: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Status, output and counts; `None` (and a printed reason) where the machine forbids ptrace.
pub fn run(mut command: Command, options: &Options) -> Option<(ExitStatus, String, Totals)> {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    // (What `Command::output` gives a program that is run natively, whatever these tests have there.)
    command.stdin(Stdio::null()).stdout(writer);
    fixed_layout(&mut command);
    let running = launch(&mut command, options)?;
    // The command holds an end of the pipe.
    drop(command);
    let mut output = String::new();
    reader.read_to_string(&mut output).expect("text");
    let outcome = running.wait().expect("the engine ends well");
    Some((outcome.status, output, outcome.totals))
}

/// What was stepped; `None` (a skip) where the machine forbids it. Any other error is one.
pub fn stepped<T>(result: Result<T, step::StepError>) -> Option<T> {
    match result {
        Ok(totals) => Some(totals),
        Err(
            error @ (step::StepError::Refused { .. } | step::StepError::UnsupportedArchitecture),
        ) => {
            truecount_testing::skip("step", error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A program from C or assembly (`name` with its ending) in the tests' own directory; `None` (and a printed reason) where
/// there is no compiler.
pub fn built(name: &str, source: &str, arguments: &[&str]) -> Option<PathBuf> {
    let source_file = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&source_file, source).expect("the tests' directory is writable");
    let program = source_file.with_extension("");
    let _ = std::fs::remove_file(&program);
    let status = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(&source_file)
        .args(arguments)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        truecount_testing::skip!("cc", "no working C compiler");
        return None;
    }
    Some(program)
}
