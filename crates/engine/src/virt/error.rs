//! Why a program cannot run under the virtual PMU.

use std::io;

/// One variant a cause; the message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A reference machine has what this CPU has not.
    #[error(
        "this CPU lacks {feature}, which the reference machine {machine} has: features can only be hidden"
    )]
    Machine {
        /// The machine's name.
        machine: String,
        /// The feature.
        feature: &'static str,
    },
    /// Not built for this machine.
    #[error("the virtual PMU works on x86-64 Linux only")]
    Unavailable,
    /// The command itself cannot be started.
    #[error("cannot run {program}: {error}")]
    Spawn {
        /// The program's name.
        program: String,
        /// The system's reason.
        error: io::Error,
    },
    /// ptrace is not permitted.
    #[error(
        "the virtual PMU needs ptrace to start a program, and it is refused ({error}): \
         allow it (docker: --cap-add=SYS_PTRACE; systemd: no SystemCallFilter on ptrace) \
         or use another --source"
    )]
    PtraceForbidden {
        /// The system's reason.
        error: io::Error,
    },
    /// A 32-bit program.
    #[error("{program} is not a 64-bit x86 program; the virtual PMU cannot run it")]
    NotX86_64 {
        /// The program's name.
        program: String,
    },
    /// A set-user-id program: traced, it would lose its privilege.
    #[error(
        "{program} is set-user-id or set-group-id, and would lose its privilege under the virtual PMU"
    )]
    Privileged {
        /// The program's name.
        program: String,
    },
    /// The program ended before the engine was in it.
    #[error("{program} ended before the virtual PMU could start in it")]
    Vanished {
        /// The program's name.
        program: String,
    },
    /// The runtime cannot set itself up in the program, of which nothing has been executed.
    #[error(
        "the virtual PMU cannot start in the program: {reason} (limits of memory, ulimit -v and -d, \
         must leave 0.5 GB beside what the program uses, or be such that they can be raised)"
    )]
    Start {
        /// What it needs and does not get.
        reason: String,
    },
    /// A limit of the system's is in the way.
    #[error("the virtual PMU needs {what}: the limit is {limit} ({how})")]
    Limit {
        /// What is needed.
        what: &'static str,
        /// The limit that there is.
        limit: u64,
        /// How it is set.
        how: &'static str,
    },
    /// A step of putting the runtime into the program failed.
    #[error("the virtual PMU cannot be put into the program: {what}: {error}")]
    Inject {
        /// The step.
        what: &'static str,
        /// The system's reason.
        error: io::Error,
    },
    /// Anything else of the system's.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// The system's reason.
        error: io::Error,
    },
    /// A bug: a check inside the engine failed. The run's effects are void.
    #[error("the virtual PMU ended the run: {report}")]
    Internal {
        /// The report.
        report: String,
    },
}
