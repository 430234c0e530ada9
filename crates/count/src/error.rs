//! Why a counter is not available: one variant a cause, each with its hint.

use crate::policy::PolicyKind;
use std::fmt;

/// Why opening, checking or reading failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The expression does not name what can be counted.
    Event(truecount_events::Error),
    /// The expression names several events where one is wanted, or none.
    NotOne {
        /// The expression.
        expression: String,
        /// How many events it names.
        found: usize,
    },
    /// A hybrid machine has a counter of this name on each kind of core.
    Hybrid {
        /// The expression.
        expression: String,
        /// The events, one a kind of core.
        events: Vec<String>,
    },
    /// The event counts a whole package; it cannot be opened for a thread.
    SystemWide {
        /// The event.
        event: String,
    },
    /// The kernel refused; its error says why and what to do.
    Open {
        /// The event.
        event: String,
        /// The kernel's answer, explained.
        source: truecount_perf::Error,
    },
    /// The program runs under truecount's virtual PMU, which has no such event.
    NotVirtual {
        /// The event.
        event: String,
    },
    /// The program runs under truecount's virtual PMU, which sees nothing of the kernel.
    UserModeAlone {
        /// The event.
        event: String,
    },
    /// The event opened, but cannot be read from user space as asked.
    NoUserRead {
        /// The event.
        event: String,
        /// Why.
        reason: &'static str,
    },
    /// No event is known that counts interrupts (or exceptions) on this CPU.
    NothingToSubtract {
        /// What was asked for.
        event: &'static str,
        /// Why there is none.
        reason: &'static str,
    },
    /// The event that should count interrupts did not move while interrupts came in.
    SilentInterrupts {
        /// The event's configuration (`rNNN`).
        config: u64,
        /// How long it was watched, in ms.
        watched_ms: u64,
    },
    /// The policy's instruction does not exist on this CPU.
    Policy(PolicyKind),
    /// A loop of known length, or the kernel's own count, disagreed with what user space read.
    Unverified {
        /// The event.
        event: String,
        /// Instructions (or events) that must have been counted, at least.
        expected: u64,
        /// What was read.
        got: u64,
    },
    /// The counter moved to another register or left the PMU since it was opened: reads are not right.
    Moved {
        /// The event.
        event: String,
    },
    /// The event is not on the PMU now, or was off it for a while.
    Descheduled {
        /// The event.
        event: String,
        /// Nanoseconds enabled.
        enabled_ns: u64,
        /// Nanoseconds on the PMU.
        running_ns: u64,
    },
    /// Reading by system call failed.
    Read {
        /// The event.
        event: String,
        /// The kernel's answer, explained.
        source: truecount_perf::Error,
    },
    /// The kind of counter has no such operation.
    Unsupported {
        /// The event.
        event: String,
        /// What it cannot do, and what can.
        reason: &'static str,
    },
    /// The thread is ending; it has no counters any more.
    ThreadEnds,
}

impl Error {
    /// What to do about it, in one line.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Event(_) => {
                "see perf-list(1) for the grammar, `truecount check` for what this machine has"
                    .into()
            }
            Self::NotOne { .. } => "name one event, or use CounterSet for several".into(),
            Self::Hybrid { events, .. } => format!(
                "keep the thread on the CPUs of one kind (taskset), or name one of {} and do so",
                events.join(", ")
            ),
            Self::SystemWide { .. } => "count it system-wide (`truecount stat -a`)".into(),
            Self::Open { source, .. } | Self::Read { source, .. } => source.hint().to_string(),
            Self::NotVirtual { .. } => {
                "count instructions:u, or branches:u by `truecount run -e branches:u -- PROGRAM`; else run without it on a \
                 machine with a PMU"
                    .into()
            }
            Self::UserModeAlone { .. } => "add :u to the event (instructions:u)".into(),
            Self::NoUserRead { .. } => "use Mode::Auto or Mode::Syscall".into(),
            Self::NothingToSubtract { .. } => "use instructions:u".into(),
            Self::SilentInterrupts { .. } => {
                "use instructions:u, which counts one more per interrupt on x86 CPUs".into()
            }
            Self::Policy(_) => "use the policy Fence".into(),
            Self::Unverified { .. } => {
                "use Mode::Syscall; if that disagrees too, the (virtual) PMU does not count right"
                    .into()
            }
            Self::Moved { .. } => "open the counter with Mode::Safe".into(),
            Self::Descheduled { .. } => format!(
                "count fewer events at once, or free a counter ({})",
                truecount_perf::linux().facts().other_users()
            ),
            Self::Unsupported { .. } => "see the documentation of the kind".into(),
            Self::ThreadEnds => "read before the thread's destructors run".into(),
        }
    }
}

/// One line: what failed, why, and what to do about it.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f)?;
        match self {
            // These say it themselves.
            Self::Event(_) | Self::Open { .. } | Self::Read { .. } => Ok(()),
            _ => write!(f, "; {}", self.hint()),
        }
    }
}

impl Error {
    /// What failed and why.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(error) => write!(f, "{error}"),
            Self::NotOne { expression, found } => {
                write!(f, "{expression:?} names {found} events where one is wanted")
            }
            Self::Hybrid { expression, events } => write!(
                f,
                "{expression:?} means {} on this machine with different kinds of cores",
                events.join(" and ")
            ),
            Self::SystemWide { event } => {
                write!(f, "{event} counts a whole package, not a thread")
            }
            Self::Open { event, source } => write!(f, "cannot count {event}: {source}"),
            Self::NotVirtual { event } => write!(
                f,
                "cannot count {event}: the virtual PMU that this program runs under counts no such event"
            ),
            Self::UserModeAlone { event } => write!(
                f,
                "cannot count {event}: the virtual PMU that this program runs under counts user mode alone"
            ),
            Self::NoUserRead { event, reason } => {
                write!(f, "{event} cannot be read from user space: {reason}")
            }
            Self::NothingToSubtract { event, reason } => {
                write!(f, "{event} is not available: {reason}")
            }
            Self::SilentInterrupts { config, watched_ms } => write!(
                f,
                "the event r{config:04x} should count interrupts, but did not move in {watched_ms} ms of timer interrupts"
            ),
            Self::Policy(kind) => write!(f, "this CPU has no instruction for the policy {kind:?}"),
            Self::Unverified {
                event,
                expected,
                got,
            } => write!(
                f,
                "reading {event} in user space gave {got} where at least {expected} was to be counted"
            ),
            Self::Moved { event } => {
                write!(
                    f,
                    "{event} moved to another counter since it was opened, so reads are wrong"
                )
            }
            Self::Descheduled {
                event,
                running_ns: 0,
                ..
            } => write!(
                f,
                "{event} is not counted: it got no counter, others hold them all"
            ),
            Self::Descheduled {
                event,
                enabled_ns,
                running_ns,
            } => write!(
                f,
                "{event} was not on the PMU all the time: {running_ns} of {enabled_ns} ns"
            ),
            Self::Read { event, source } => write!(f, "cannot read {event}: {source}"),
            Self::Unsupported { event, reason } => write!(f, "{event}: {reason}"),
            Self::ThreadEnds => f.write_str("the thread is ending"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Event(error) => Some(error),
            Self::Open { source, .. } | Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<truecount_events::Error> for Error {
    fn from(error: truecount_events::Error) -> Self {
        Self::Event(error)
    }
}
