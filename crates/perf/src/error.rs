//! The one error of this crate: errno, operation and situation, with their cause and hint.

use std::fmt;

use crate::attr::EventAttr;
use crate::cause::{self, Cause};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::reading::Malformed;
use crate::situation::{Operation, Situation, Target};

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
        hint: impl Into<String>,
        situation: Situation,
    ) -> Self {
        Self(Box::new(Inner {
            errno: None,
            situation,
            cause,
            reason,
            hint: hint.into(),
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
