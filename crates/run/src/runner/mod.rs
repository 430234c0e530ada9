//! Runs one command and says how it ended: wall time, resources, status.
//!
//! The command is started by a *launcher*: a process forked from truecount before truecount grows
//! (see `launcher`). It is needed for two reasons. `ru_maxrss` of a program starts at the peak of
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

pub use crate::result::{Exit, Usage};
pub use launcher::{Hook, Launcher};
pub use program::{exec_failure, known_format, resolve};
pub use signals::{Signals, Stop, Stopping, while_stoppable};
pub(crate) use signals::{name as signal_name, stop_pending};
pub use words::{command_line, split};

/// What to start, and how.
#[derive(Default)]
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
