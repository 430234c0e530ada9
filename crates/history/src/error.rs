//! What can go wrong: one line with the cause, and what to do about it.

use std::fmt;

/// What kind of failure it is; the command makes its exit status of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What was asked for contradicts itself, or names what does not exist.
    Usage,
    /// A file, a repository or a database cannot be read or written, or is not what it should be.
    Unavailable,
}

/// Something could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it is.
    pub kind: Kind,
    /// One line: what went wrong and why.
    pub cause: String,
    /// What the user can do about it, when something can be done.
    pub hint: Option<String>,
}

impl Error {
    /// Something is not available, or is not what it should be.
    pub fn new(cause: impl Into<String>) -> Self {
        Self {
            kind: Kind::Unavailable,
            cause: cause.into(),
            hint: None,
        }
    }

    /// What was asked for is wrong.
    pub fn usage(cause: impl Into<String>) -> Self {
        Self {
            kind: Kind::Usage,
            ..Self::new(cause)
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
