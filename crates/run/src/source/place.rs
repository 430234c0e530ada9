//! Where kernel counters are opened: for each target of a run the threads or CPUs.

use truecount_model::Reason;
use truecount_perf::probe::Root;
use truecount_perf::{Scope, Target as Where};

use super::Target;
use crate::error::{Error, ErrorKind};

/// What the counters watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A process that waits before `execve`: counting starts there, children included.
    NewProcess(i32),
    /// A running process with all its threads: counting starts at once.
    Process(i32),
    /// A running thread: counting starts at once.
    Thread(i32),
    /// These CPUs: counting starts at once.
    Cpus(&'static [u32]),
    /// Every CPU: counting starts at once.
    Machine,
}

impl Place {
    pub fn of(target: Target) -> Self {
        match target {
            Target::Process(pid) => Self::Process(pid),
            Target::Thread(tid) => Self::Thread(tid),
            Target::Cpus(cpus) => Self::Cpus(cpus),
            Target::Machine | Target::Command => Self::Machine,
        }
    }

    /// Where to open each event.
    pub(super) fn targets(self) -> Result<Vec<Where>, Error> {
        let gone = |what| Error::unavailable(Reason::new(format!("there is no {what}")));
        let scope = match self {
            Self::NewProcess(pid) => Scope::NewProcess(pid),
            Self::Process(pid) => Scope::Process(pid),
            Self::Thread(tid) => {
                let there = std::path::Path::new(&format!("/proc/{tid}")).exists();
                let one = there.then(|| vec![Where::Thread(tid)]);
                return one
                    .ok_or_else(|| gone(format!("thread {tid}")).hint("look it up with: ps -L"));
            }
            Self::Cpus(cpus) => Scope::Cpus(cpus.to_vec()),
            Self::Machine => Scope::Machine,
        };
        scope.targets(&Root::system()).map_err(|_| match self {
            Self::NewProcess(id) | Self::Process(id) | Self::Thread(id) => {
                gone(format!("process {id}")).hint("look it up with: pgrep -l NAME")
            }
            Self::Machine | Self::Cpus(_) => {
                let cause = "cannot read /sys/devices/system/cpu/online";
                Error::new(ErrorKind::Unavailable, cause)
            }
        })
    }
}
