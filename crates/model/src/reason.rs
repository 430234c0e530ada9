//! Why something is not available, and what to do.

use std::fmt;

/// Why a source or an event is not available, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What failed and why, in one line.
    pub cause: String,
    /// What to do about it, where something can be done.
    pub hint: Option<String>,
}

impl Reason {
    /// A cause without anything to do about it.
    pub fn new(cause: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            hint: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<String> for Reason {
    fn from(cause: String) -> Self {
        Self::new(cause)
    }
}

impl From<&str> for Reason {
    fn from(cause: &str) -> Self {
        Self::new(cause)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}
