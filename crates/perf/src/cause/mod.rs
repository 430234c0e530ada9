//! One table: errno × situation → cause and hint.
//!
//! Tools that print only `strerror` tell people without a PMU that "permission is denied"; here the errno
//! is kept and judged together with what was asked and what the machine says about itself. The table is
//! [`rows`]; the first row that applies wins, and the last row of an errno applies always.
//! Sources: perf_event_open(2) "ERRORS"; `kernel/events/core.c`, `arch/x86/events/core.c`,
//! `drivers/perf/arm_pmu.c`, `kernel/events/hw_breakpoint.c` (Linux 6.1 to 6.18); Debian's and Ubuntu's
//! patches for `perf_event_paranoid` above 2.

mod table;
mod terms;

use crate::errno::Errno;
use crate::situation::Situation;
pub use table::rows;

/// Why a perf operation failed: one variant a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// The machine has no PMU that the kernel can use.
    NoPmu,
    /// This CPU's PMU does not have the generic event.
    EventNotOnCpu,
    /// No PMU has this type number.
    NoSuchPmu,
    /// The kernel does not know this software event or tracepoint.
    NoSuchEvent,
    /// A filter of system calls refuses perf events (containers).
    Seccomp,
    /// The kernel was built without perf events.
    NoPerfInKernel,
    /// The architecture cannot record user registers or stack.
    NotOnArchitecture,
    /// Kernel lockdown refuses it.
    Lockdown,
    /// `kernel.perf_event_paranoid` is 3 or more: nothing without privilege (Debian, Ubuntu, Android).
    ParanoidForbidsAll,
    /// `kernel.perf_event_paranoid` is 2 or more: no kernel mode without privilege.
    ParanoidForbidsKernel,
    /// `kernel.perf_event_paranoid` is 1 or more: no whole CPUs without privilege.
    ParanoidForbidsCpuWide,
    /// `kernel.perf_event_paranoid` is 0 or more: no raw tracepoints without privilege.
    ParanoidForbidsTracepoint,
    /// What is asked for needs `CAP_PERFMON`, whatever the sysctl says.
    NeedsPerfmon,
    /// The task belongs to someone else.
    NotYourTask,
    /// A security module (SELinux, AppArmor, Landlock …) or another rule refuses it.
    PermissionDenied,
    /// The task or process does not exist (any more).
    NoSuchTask,
    /// The CPU does not exist or is offline.
    NoSuchCpu,
    /// The device behind the PMU is gone or off, or the task has exited.
    DeviceGone,
    /// The attribute uses fields that this kernel does not know.
    KernelTooOld,
    /// `inherit` with group reads, which kernels before 6.12 refuse.
    InheritedGroup,
    /// More events in a group than the PMU can count together.
    GroupTooLarge,
    /// The frequency is above `kernel.perf_event_max_sample_rate`.
    RateTooHigh,
    /// Contradicting flags.
    ContradictingFlags,
    /// PMUs outside the CPU count whole CPUs only, without modes and without samples.
    NotPerTask,
    /// The attribute is wrong in a way the kernel does not tell.
    BadAttribute,
    /// The PMU cannot sample with a branch stack.
    NoBranchStack,
    /// The PMU cannot sample this precisely.
    NotPrecise,
    /// The PMU has no overflow interrupt: it can count, not sample.
    CannotSample,
    /// The PMU cannot do what the attribute asks.
    NotSupported,
    /// All breakpoint registers are taken.
    NoBreakpointLeft,
    /// The buffer for reading the group is too small.
    BufferTooSmall,
    /// All counters of the kind are taken.
    NoCounterLeft,
    /// Someone has the PMU for himself.
    PmuBusy,
    /// The process has too many files open.
    TooManyFiles,
    /// The system has too many files open.
    SystemTooManyFiles,
    /// `sample_max_stack` is above `kernel.perf_event_max_stack`.
    StackTooDeep,
    /// The ring is larger than the memory that may be locked.
    LockedMemory,
    /// The kernel has no memory left.
    NoMemory,
    /// The event that inherits across CPUs cannot be mapped.
    CannotMapInherited,
    /// The number of ring pages is not a power of two, or differs from the mapping that exists.
    RingSize,
    /// An ioctl does not fit the event.
    IoctlUnfit,
    /// The descriptor is not one of a perf event.
    NotAnEvent,
    /// The call was interrupted by a signal.
    Interrupted,
    /// The kernel could not do it right now.
    TryAgain,
    /// A pointer did not point to memory.
    BadAddress,
    /// A pinned event could not be kept on the PMU; its read is at end of file.
    PinnedNotScheduled,
    /// The kernel returned something that cannot be right.
    Malformed,
    /// An errno that the table does not have.
    Unknown,
}

/// One row: errnos, when it applies, and its words.
pub struct Row {
    /// The errnos it is about.
    pub errnos: &'static [Errno],
    /// Whether it applies in this situation.
    pub applies: fn(&Situation) -> bool,
    /// What it means.
    pub cause: Cause,
    /// Why it failed.
    pub reason: fn(&Situation) -> String,
    /// What to do about it.
    pub hint: fn(&Situation) -> String,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row")
            .field("errnos", &self.errnos)
            .field("cause", &self.cause)
            .finish()
    }
}

/// A cause with its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Which row of the table.
    pub cause: Cause,
    /// Why it failed.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

/// Finds the row for an errno in a situation.
#[must_use]
pub fn explain(errno: Errno, situation: &Situation) -> Explanation {
    if let Some(row) = row_for(errno, situation).and_then(|number| rows().nth(number)) {
        return Explanation {
            cause: row.cause,
            reason: (row.reason)(situation),
            hint: (row.hint)(situation),
        };
    }
    Explanation {
        cause: Cause::Unknown,
        reason: std::io::Error::from(errno).to_string(),
        hint: "perf_event_open(2) may know more about this error".to_owned(),
    }
}

/// The number of the first row that applies.
fn row_for(errno: Errno, situation: &Situation) -> Option<usize> {
    rows().position(|row| row.errnos.contains(&errno) && (row.applies)(situation))
}

#[cfg(test)]
mod tests;
