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
//! What tracing changes for the program, as it does under any debugger: SIGTRAP cannot be blocked
//! (trying to undoes the program's handler for it) or used to single-step itself; a signal that it ignores still interrupts a call that is never
//! restarted (`epoll_wait` gives EINTR; a restarted one is not counted twice); programs with restartable
//! sequences of their own find none (rseq(2) gives ENOSYS, or none would ever end); a set-user-id program runs without its
//! privileges unless the tracer has CAP_SYS_PTRACE; `r11` shows the trap flag after a system call
//! (`pushf` does not: it is repaired). `int1` is not supported. A child made with
//! `CLONE_UNTRACED` is not followed ([`StepTotals::unfollowed`] says so).

#[cfg(target_arch = "x86_64")]
mod decode;
#[cfg(target_arch = "x86_64")]
mod launch;
#[cfg(target_arch = "x86_64")]
mod sys;
#[cfg(target_arch = "x86_64")]
mod thread;
mod totals;
#[cfg(target_arch = "x86_64")]
mod tracer;
#[cfg(target_arch = "x86_64")]
mod watch;

pub use totals::{Exit, ProcessTotals, Progress, StepTotals, ThreadTotals};

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
    /// Code that is not 64-bit is not stepped.
    #[error("{program} is a 32-bit program; only 64-bit programs can be single-stepped")]
    NotSixtyFourBit {
        /// The program.
        program: String,
    },
    /// The tracer could not be set up.
    #[error("cannot start a thread to trace from: {source}")]
    Thread {
        /// What the system said.
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
    /// Set it (from another thread or a signal handler) to stop: every traced process is killed,
    /// and what was counted is returned.
    pub cancel: Option<&'a AtomicBool>,
    /// Kill everything after this much time.
    pub timeout: Option<Duration>,
    /// Called about ten times a second while instructions retire.
    pub progress: Option<&'a mut (dyn FnMut(Progress) + Send)>,
    /// Called for every retired instruction with the thread id and the instruction's address, in
    /// order.
    pub retired: Option<&'a mut (dyn FnMut(i32, u64) + Send)>,
    /// Keep address-space randomisation on. Off by default: addresses change counts.
    pub aslr: bool,
    /// What every program finds as its 16 random bytes (`AT_RANDOM`, see `getauxval(3)`) instead of
    /// the kernel's.
    pub at_random: Option<[u8; 16]>,
    /// Programs do not find the vDSO (`vdso(7)`) and read clocks by system calls: its loops depend on
    /// the time, which single steps stretch, and on the kernel's updates of it.
    pub hide_vdso: bool,
}

/// Runs `command` to its end, one instruction at a time, and counts what it retires.
///
/// Arguments, environment, directory and standard streams are those of `command`, by default the
/// caller's own. Nobody reads a stream that is `Stdio::piped()`: pass a file or a pipe's end.
/// Returns when the program and everything that it started has ended. The work is done on a thread
/// of its own, so other children of the caller are not disturbed.
///
/// # Errors
/// [`StepError`]; a program that starts and then fails or is killed is not an error, see [`StepTotals::exit`].
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
        let watched = watch::Watched::default();
        let (cancel, timeout) = (options.cancel, options.timeout);
        std::thread::scope(|scope| {
            let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
            let failed = |source| StepError::Thread { source };
            if cancel.is_some() || timeout.is_some() {
                let watch = || watched.watch(cancel, timeout);
                named("step-watch")
                    .spawn_scoped(scope, watch)
                    .map_err(failed)?;
            }
            let trace = || {
                let tracee = launch::start(command, options.aslr)?;
                tracer::Tracer::new(tracee, options, &watched).run()
            };
            let outcome = named("step")
                .spawn_scoped(scope, trace)
                .map_err(failed)
                .map(std::thread::ScopedJoinHandle::join);
            watched.finish();
            match outcome? {
                Ok(outcome) => outcome,
                // A callback panicked: that is its caller's.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
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
