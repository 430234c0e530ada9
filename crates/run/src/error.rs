//! Why something could not be done: what kind of failure it is, its cause, and what to do about it.

use std::fmt;
use std::io;
use std::path::Path;

use truecount_model::Reason;

/// What kind of failure it is; the command makes its exit status from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// What was asked for contradicts itself, or names what does not exist.
    Usage,
    /// The machine, the kernel or the rights of the user do not allow it, or a file of the user cannot be read.
    Unavailable,
    /// A command was measured that fails, where that was not allowed.
    ProgramFailed,
    /// An internal check of the virtual PMU failed: the counts are void.
    EngineCheck,
    /// The run exceeded its time limit.
    Timeout,
    /// The run could not be set up.
    Setup,
    /// The program was found but cannot be executed.
    NotExecutable,
    /// The program was not found.
    NotFound,
    /// The user stopped it, by this signal.
    Interrupted(i32),
    /// A result could not be written.
    Output,
}

/// Something could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// One line: what went wrong and why.
    pub cause: String,
    /// What the user can do about it, when something can be done.
    pub hint: Option<String>,
}

impl Error {
    /// An error with its cause in one line.
    pub fn new(kind: ErrorKind, cause: impl Into<String>) -> Self {
        Self {
            kind,
            cause: cause.into(),
            hint: None,
        }
    }

    /// What was asked for is not available, for this reason.
    #[must_use]
    pub fn unavailable(reason: Reason) -> Self {
        Self {
            kind: ErrorKind::Unavailable,
            cause: reason.cause,
            hint: reason.hint,
        }
    }

    /// A file cannot be written.
    pub fn cannot_write(path: &Path, error: &io::Error) -> Self {
        let cause = format!("cannot write {}: {error}", path.display());
        let new = Self::new(ErrorKind::Output, cause);
        match error.kind() {
            io::ErrorKind::NotFound => new.hint("make its directory first"),
            io::ErrorKind::StorageFull => new.hint("free space on that file system"),
            io::ErrorKind::PermissionDenied => new.hint("choose another path"),
            _ => new,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
