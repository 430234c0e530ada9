//! The one error of this crate: errno, operation and situation, with their cause and hint.

use std::fmt;

use crate::attr::EventAttr;
use crate::cause::{self, Cause};
use crate::errno::Errno;
use crate::event::Target;
use crate::facts::Facts;
use crate::kernel::Kernel;
use crate::reading::Malformed;

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

/// A perf operation failed: errno and situation kept, cause and hint found.
///
/// `Display` is one line: what failed, why, and what to do about it.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    errno: Option<Errno>,
    situation: Situation,
    cause: Cause,
    reason: String,
    hint: String,
}

impl Error {
    /// An error of the kernel, explained. Asks the kernel for its facts.
    pub(crate) fn new(
        kernel: &dyn Kernel,
        errno: Errno,
        operation: Operation,
        attr: &EventAttr,
        target: Target,
        in_group: bool,
    ) -> Self {
        let facts = kernel.facts();
        Self::explain(
            errno,
            Situation {
                operation,
                attr: *attr,
                target,
                in_group,
                facts,
            },
        )
    }

    /// Explains an errno in a situation by the table of [`crate::cause`].
    #[must_use]
    pub fn explain(errno: Errno, situation: Situation) -> Self {
        let explanation = cause::explain(errno, &situation);
        Self(Box::new(Inner {
            errno: Some(errno),
            situation,
            cause: explanation.cause,
            reason: explanation.reason,
            hint: explanation.hint,
        }))
    }

    pub(crate) fn without_errno(
        cause: Cause,
        reason: String,
        hint: &str,
        situation: Situation,
    ) -> Self {
        Self(Box::new(Inner {
            errno: None,
            situation,
            cause,
            reason,
            hint: hint.to_owned(),
        }))
    }

    pub(crate) fn malformed(what: Malformed, situation: Situation) -> Self {
        Self::without_errno(
            Cause::Malformed,
            what.to_string(),
            "this is a defect of the kernel or of truecount; please report it with the kernel's version",
            situation,
        )
    }

    /// What the kernel returned; `None` where it returned no error but nothing usable either.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        self.0.errno
    }

    /// Which row of the table this is.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.0.cause
    }

    /// Why it failed, in words.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.0.hint
    }

    /// All that is known about where it failed.
    #[must_use]
    pub fn situation(&self) -> &Situation {
        &self.0.situation
    }

    /// What was being done.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.situation.operation
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation(), self.reason())?;
        if let Some(errno) = self.errno() {
            write!(f, " ({errno})")?;
        }
        write!(f, "; {}", self.hint())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("errno", &self.0.errno)
            .field("cause", &self.0.cause)
            .field("text", &self.to_string())
            .finish()
    }
}

impl std::error::Error for Error {}
