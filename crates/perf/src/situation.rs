//! What was asked of the kernel, of what and on which machine: the facts by which an error is judged.

use std::fmt;
use std::os::fd::RawFd;

use perf_event_open_sys::bindings as abi;

use crate::attr::EventAttr;
use crate::facts::Facts;

/// What an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    /// The calling thread, on whatever CPU it runs.
    CallingThread,
    /// The calling thread while it runs on this CPU.
    CallingThreadOnCpu(u32),
    /// A thread by its id; a process's id is that of its first thread. With `inherit`, also the threads
    /// and children that it makes later. For the threads a process has already, see [`Scope`](crate::Scope).
    Thread(i32),
    /// A thread while it runs on this CPU.
    ThreadOnCpu {
        /// The thread's id.
        tid: i32,
        /// The CPU.
        cpu: u32,
    },
    /// Everything on one CPU. For all CPUs, see [`Scope`](crate::Scope).
    Cpu(u32),
    /// A control group's tasks on one CPU.
    Cgroup {
        /// A descriptor of the group's directory in the cgroup file system.
        fd: RawFd,
        /// The CPU.
        cpu: u32,
    },
}

impl Target {
    /// `pid`, `cpu` and the flag of `perf_event_open(2)`.
    pub(crate) fn arguments(self) -> (i32, i32, u64) {
        // A CPU number above i32::MAX becomes one that no kernel has (EINVAL).
        let number = |cpu: u32| i32::try_from(cpu).unwrap_or(i32::MAX);
        match self {
            Self::CallingThread => (0, -1, 0),
            Self::CallingThreadOnCpu(cpu) => (0, number(cpu), 0),
            Self::Thread(tid) => (tid, -1, 0),
            Self::ThreadOnCpu { tid, cpu } => (tid, number(cpu), 0),
            Self::Cpu(cpu) => (-1, number(cpu), 0),
            Self::Cgroup { fd, cpu } => (fd, number(cpu), u64::from(abi::PERF_FLAG_PID_CGROUP)),
        }
    }

    /// Whether the event counts every task of a CPU.
    #[must_use]
    pub fn is_cpu_wide(self) -> bool {
        matches!(self, Self::Cpu(_) | Self::Cgroup { .. })
    }
}

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// `perf_event_open(2)`
    Open,
    /// `read(2)` of an event
    Read,
    /// `mmap(2)` of an event
    Map,
    /// An `ioctl(2)`, by the name of its request
    Ioctl(&'static str),
    /// `poll(2)` on an event
    Wait,
    /// Looking for CPUs or threads to open events on
    List,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("cannot open the event"),
            Self::Read => f.write_str("cannot read the event"),
            Self::Map => f.write_str("cannot map the event's pages"),
            Self::Ioctl(request) => write!(f, "cannot change the event ({request})"),
            Self::Wait => f.write_str("cannot wait for the event"),
            Self::List => f.write_str("cannot list what to open the event on"),
        }
    }
}

/// All that is known where a system call failed. The table in [`crate::cause`] judges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// What was being done.
    pub operation: Operation,
    /// The event's attributes.
    pub attr: EventAttr,
    /// What the event counts.
    pub target: Target,
    /// The event joins the group of another.
    pub in_group: bool,
    /// The machine: sysctls, capabilities, PMUs.
    pub facts: Facts,
}
