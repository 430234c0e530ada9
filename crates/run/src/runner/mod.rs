//! Runs one command and says how it ended: wall time, resources, status.
//!
//! The command is started by a *launcher*: a process forked from truecount before truecount grows
//! (see [`launcher`]). It is needed for two reasons. `ru_maxrss` of a program starts at the peak of
//! the memory image that called `execve` (`exec_mmap` in the kernel's `fs/exec.c` folds the old
//! `mm`'s high-water mark into `signal->maxrss`), so the caller must be small. And the launcher can
//! use `vfork` semantics, which costs the same whatever truecount's size. `CLONE_PARENT` makes the
//! command truecount's own child, so waiting, signals and counters need no relay.

mod launcher;
mod program;
mod shrink;
mod signals;
pub mod wait;
mod words;
mod zygote;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::Duration;

use serde::Serialize;

pub use launcher::{Hook, Launcher};
pub use program::{exec_failure, known_format, resolve};
pub use signals::{Signals, Stop, Stopping};
pub use words::{command_line, split};

/// What to start, and how.
pub struct Launch<'a> {
    /// The program as the user wrote it, and its arguments; they reach the program untouched.
    pub argv: &'a [OsString],
    /// Standard input, output and error of the program; `None` hands down truecount's own.
    pub stdio: [Option<&'a OwnedFd>; 3],
    /// CPUs to run on; empty leaves the affinity as it is.
    pub cpus: &'a [usize],
    /// Keep address space randomisation (off by default, so that runs repeat).
    pub keep_aslr: bool,
    /// Give the command its own process group, so that a time limit ends its children too.
    pub own_group: bool,
    /// End the command after this long.
    pub timeout: Option<Duration>,
    /// What else is kept the same in every run.
    pub fixed: Option<&'a crate::determinism::Fixed>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Exit {
    /// Exit status, when it ended by itself.
    pub code: Option<i32>,
    /// Number of the signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// From the status of `wait4`.
    pub fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self {
                code: None,
                signal: Some(libc::WTERMSIG(status)),
            }
        } else {
            Self {
                code: Some(libc::WEXITSTATUS(status)),
                signal: None,
            }
        }
    }

    /// True when the program ended by itself with status 0.
    pub fn success(self) -> bool {
        self.code == Some(0)
    }

    /// The status a shell would report: the code, or 128 + the signal.
    pub fn shell_code(self) -> u8 {
        let code = match (self.code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 125,
        };
        u8::try_from(code & 0xff).unwrap_or(125)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(signal)) => write!(f, "signal {signal} ({})", signals::name(signal)),
            (None, None) => f.write_str("an unknown end"),
        }
    }
}

/// Resources of the command and of the children that it waited for, as `wait4` reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode, nanoseconds (the kernel's granularity: see `docs`).
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Peak resident memory of the largest process, bytes.
    pub max_rss: u64,
    /// Page faults served without input or output.
    pub minor_faults: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// Times it gave up the CPU by itself.
    pub voluntary_switches: u64,
    /// Times the CPU was taken away.
    pub involuntary_switches: u64,
}

impl Usage {
    fn from_rusage(usage: &libc::rusage) -> Self {
        let time = |t: libc::timeval| {
            let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
            let micros = u64::try_from(t.tv_usec).unwrap_or(0);
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(micros.saturating_mul(1000))
        };
        let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
        Self {
            user_ns: time(usage.ru_utime),
            system_ns: time(usage.ru_stime),
            max_rss: count(usage.ru_maxrss).saturating_mul(1024),
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            voluntary_switches: count(usage.ru_nvcsw),
            involuntary_switches: count(usage.ru_nivcsw),
        }
    }
}

/// A command that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Finished {
    /// The number that its process had.
    pub pid: i32,
    /// How it ended.
    pub exit: Exit,
    /// From just before `execve` to its end, nanoseconds of `CLOCK_MONOTONIC`.
    pub wall_ns: u64,
    /// What it used.
    pub usage: Usage,
    /// truecount ended it because of the time limit.
    pub timed_out: bool,
    /// The user interrupted (Ctrl-C or a termination signal to truecount); the signal's number.
    pub interrupted: Option<i32>,
    /// Address space randomisation could not be switched off (errno), or was not asked to be.
    pub aslr_errno: i32,
}

/// Why nothing was run.
#[derive(Debug)]
pub enum LaunchError {
    /// `execve` failed with this errno.
    Exec(i32),
    /// The CPUs of `--cpu` were refused with this errno.
    Affinity(i32),
    /// The launcher could not do its work.
    Setup(std::io::Error),
    /// What was to happen between fork and exec (opening counters) failed.
    Hook(crate::error::Error),
}

impl From<std::io::Error> for LaunchError {
    fn from(error: std::io::Error) -> Self {
        Self::Setup(error)
    }
}
