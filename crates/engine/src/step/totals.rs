//! What a single-stepped run counted, and how far it has come.

use std::time::Duration;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this exit status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The instructions of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTotals {
    /// Its process.
    pub pid: i32,
    /// Its thread id (as when it started).
    pub tid: i32,
    /// User-mode instructions retired, exact.
    pub instructions: u64,
}

/// The instructions of one process, over all its threads and the programs that it executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTotals {
    /// Its process id.
    pub pid: i32,
    /// User-mode instructions retired, exact.
    pub instructions: u64,
    /// How it ended; none when it was still running as the count ended.
    pub exit: Option<Exit>,
}

/// What a run counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepTotals {
    /// How the program itself ended.
    pub exit: Exit,
    /// Processes, in the order in which they started; the first is the program itself.
    pub processes: Vec<ProcessTotals>,
    /// Threads, in the order in which they started.
    pub threads: Vec<ThreadTotals>,
    /// From the start of the program to the end of the last process.
    pub elapsed: Duration,
    /// Children that were made with `CLONE_UNTRACED` (clone(2)): they ran, and were not counted.
    pub unfollowed: u32,
    /// The run was ended early by [`super::StepOptions::cancel`].
    pub cancelled: bool,
    /// The run was ended early by [`super::StepOptions::timeout`].
    pub timed_out: bool,
}

impl StepTotals {
    /// User-mode instructions retired by the program and all its children; of the whole run where
    /// [`StepTotals::is_whole`].
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.threads.iter().map(|t| t.instructions).sum()
    }

    /// Whether everything was counted to its own end: nobody ended the run early, the program was not
    /// killed from outside (SIGKILL), every process was followed and seen to end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.cancelled
            && !self.timed_out
            && self.unfollowed == 0
            && self.exit != Exit::Signal(libc::SIGKILL)
            && self.processes.iter().all(|process| process.exit.is_some())
    }
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Instructions retired so far, over all processes.
    pub instructions: u64,
    /// Time since the program started.
    pub elapsed: Duration,
    /// Instructions a second since the last report.
    pub per_second: f64,
    /// Threads alive.
    pub threads: usize,
}
