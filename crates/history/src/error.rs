//! What can go wrong: the error of `truecount-run`, with its cause in one line and what to do about it.

pub use truecount_run::{Error, ErrorKind};

/// A file, a repository or a database cannot be read or written, or is not what it should be.
#[must_use]
pub fn unavailable(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unavailable, cause)
}

/// What was asked for contradicts itself, or names what does not exist.
#[must_use]
pub fn usage(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, cause)
}
