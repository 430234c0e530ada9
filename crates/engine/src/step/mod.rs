//! `step`: exact user-mode instruction counts by single-stepping (`PTRACE_SINGLESTEP`).
//!
//! Slow (hundreds of thousands of instructions a second) but simple, so it is the first exact
//! source on a machine without a PMU and the oracle of the virtual PMU. What counts is what
//! hardware counts as `instructions:u` with `enable_on_exec`: from the first instruction after
//! `execve` to the system call that exits, in every thread and child; a repeated string
//! instruction once; an instruction that faults not until it completes.
//!
//! Facts: ptrace(2); Linux `arch/x86/kernel/step.c`, `kernel/entry/common.c` (a step over a system
//! call is reported when the call returns, with `TRAP_BRKPT`; a plain step with `TRAP_TRACE`) and
//! `kernel/signal.c` (`signal_setup_done` reports the first instruction of a handler, not executed).
//!
//! Known limits: the instruction after `mov ss`/`pop ss` traps together with it and is counted
//! with it as one; `pushf` shows the program the trap flag; a set-user-id program runs without its
//! privileges, as under any debugger.

mod decode;
mod launch;
mod sys;
mod totals;
mod tracer;

pub use totals::{Exit, ProcessTotals, StepTotals, ThreadTotals};

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Why a program could not be single-stepped.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// This architecture has no single-stepper here.
    #[error("single-stepping is available on x86-64 only")]
    UnsupportedArchitecture,
    /// The program could not be started; the source says why (`NotFound`, `PermissionDenied`, …).
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program as it was asked for.
        program: String,
        /// The error of `execve` (or of the steps before it).
        source: std::io::Error,
    },
    /// The kernel refused to trace the program.
    #[error(
        "tracing is refused ({source}): a debugger holds it already, a seccomp filter (container) forbids \
         ptrace (allow it with --cap-add=SYS_PTRACE), or kernel.yama.ptrace_scope is 3"
    )]
    Refused {
        /// What `ptrace(PTRACE_SEIZE)` said.
        source: std::io::Error,
    },
    /// A system call of the tracer failed in a way that ends the count.
    #[error("{call} failed while stepping: {source}")]
    Trace {
        /// The call.
        call: &'static str,
        /// Its error.
        source: std::io::Error,
    },
}

/// What to do while stepping.
#[derive(Default)]
pub struct StepOptions<'a> {
    /// Set it to stop: every traced process is killed, and what was counted is returned.
    pub cancel: Option<&'a AtomicBool>,
    /// Kill everything after this much time.
    pub timeout: Option<Duration>,
    /// Called about ten times a second with the instructions counted so far.
    pub progress: Option<&'a mut dyn FnMut(u64)>,
    /// Called for every retired instruction with the thread id and the instruction's address, in order.
    pub retired: Option<&'a mut dyn FnMut(i32, u64)>,
    /// Keep address-space randomisation on. Off by default: addresses change counts.
    pub aslr: bool,
}

/// Runs `command` to its end, one instruction at a time, and counts what it retires.
///
/// Arguments, environment, folder and standard streams are those of `command`. The calling thread
/// must have no other children: it waits for all of its own.
///
/// # Errors
/// [`StepError`]; a program that starts and then fails or is killed is no error, see [`StepTotals::exit`].
///
/// # Example
/// ```no_run
/// # fn main() -> Result<(), truecount_engine::step::StepError> {
/// use truecount_engine::step::{StepOptions, run};
/// let totals = run(std::process::Command::new("true"), StepOptions::default())?;
/// println!("{} instructions:u, exact", totals.instructions());
/// # Ok(())
/// # }
/// ```
pub fn run(command: Command, options: StepOptions<'_>) -> Result<StepTotals, StepError> {
    #[cfg(target_arch = "x86_64")]
    {
        let tracee = launch::start(command, options.aslr)?;
        tracer::Tracer::new(tracee, options).run()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (command, options);
        Err(StepError::UnsupportedArchitecture)
    }
}

/// Whether a program can be single-stepped here at all.
///
/// # Errors
/// The reason why not.
pub fn available() -> Result<(), StepError> {
    if cfg!(target_arch = "x86_64") {
        Ok(())
    } else {
        Err(StepError::UnsupportedArchitecture)
    }
}
