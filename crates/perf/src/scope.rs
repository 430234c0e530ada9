//! A process or a machine as a whole: the threads and CPUs to open events on.
//!
//! An event of a process counts one thread, and with `inherit` what that thread makes later; the threads that exist
//! already need events of their own. An inheriting event can have a ring only when it is bound to a CPU (`perf_mmap` in
//! `kernel/events/core.c`), so for sampling every thread is opened once a CPU.

use crate::attr::EventAttr;
use crate::errno::Errno;
use crate::error::Error;
use crate::event::{Event, OpenOptions};
use crate::kernel::SharedKernel;
use crate::probe::Root;
use crate::situation::{Operation, Target};

/// What is watched as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A process that stands before its `execve`: one thread, and what it makes later.
    NewProcess(i32),
    /// A running process with the threads that it has.
    Process(i32),
    /// Every CPU that is online.
    Machine,
    /// Everything on these CPUs.
    Cpus(Vec<u32>),
}

impl Scope {
    /// Where each event is opened for counting. `root` is where `/proc` and `/sys` are found.
    ///
    /// # Errors
    /// `ESRCH`: there is no such process; `ENOENT`: the machine does not tell its CPUs.
    pub fn targets(&self, root: &Root) -> Result<Vec<Target>, Errno> {
        match self {
            Self::NewProcess(_) | Self::Process(_) => Ok(self
                .threads(root)?
                .into_iter()
                .map(Target::Thread)
                .collect()),
            Self::Machine | Self::Cpus(_) => {
                Ok(self.cpus(root)?.into_iter().map(Target::Cpu).collect())
            }
        }
    }

    /// Where each event is opened for sampling: by CPU, whose events share a ring.
    ///
    /// # Errors
    /// As [`Scope::targets`].
    pub fn targets_by_cpu(&self, root: &Root) -> Result<Vec<(u32, Vec<Target>)>, Errno> {
        let threads = self.threads(root)?;
        let on = |cpu| match self {
            Self::Machine | Self::Cpus(_) => vec![Target::Cpu(cpu)],
            Self::NewProcess(_) | Self::Process(_) => threads
                .iter()
                .map(|&tid| Target::ThreadOnCpu { tid, cpu })
                .collect(),
        };
        Ok(self
            .cpus(root)?
            .into_iter()
            .map(|cpu| (cpu, on(cpu)))
            .collect())
    }

    /// Whether an error of opening on one of the targets says only that a thread has ended since it was listed.
    #[must_use]
    pub fn is_ended_thread(&self, errno: Option<Errno>) -> bool {
        matches!(self, Self::Process(_)) && errno == Some(Errno::ESRCH)
    }

    /// One event on each of the targets; threads that ended meanwhile are left out.
    ///
    /// # Errors
    /// [`Error`] where there is no such process, or of the first target where the event cannot be opened.
    pub fn open(
        &self,
        kernel: &SharedKernel,
        root: &Root,
        attr: &EventAttr,
    ) -> Result<Vec<Event>, Error> {
        let listing = |errno| {
            let target = match self {
                Self::NewProcess(pid) | Self::Process(pid) => Target::Thread(*pid),
                Self::Machine | Self::Cpus(_) => Target::Cpu(0),
            };
            Error::new(&**kernel, errno, Operation::List, attr, target, false)
        };
        let mut events = Vec::new();
        for target in self.targets(root).map_err(listing)? {
            match Event::open_with(kernel, attr, target, OpenOptions::default()) {
                Ok(event) => events.push(event),
                Err(error) if self.is_ended_thread(error.errno()) => {}
                Err(error) => return Err(error),
            }
        }
        if events.is_empty() {
            return Err(listing(Errno::ESRCH));
        }
        Ok(events)
    }

    fn threads(&self, root: &Root) -> Result<Vec<i32>, Errno> {
        match self {
            Self::NewProcess(pid) => Ok(vec![*pid]),
            Self::Process(pid) => root
                .threads_of(*pid)
                .filter(|threads| !threads.is_empty())
                .ok_or(Errno::ESRCH),
            Self::Machine | Self::Cpus(_) => Ok(Vec::new()),
        }
    }

    fn cpus(&self, root: &Root) -> Result<Vec<u32>, Errno> {
        match self {
            Self::Cpus(cpus) => Ok(cpus.clone()),
            _ => root
                .online_cpus()
                .filter(|cpus| !cpus.is_empty())
                .ok_or(Errno::ENOENT),
        }
    }
}
