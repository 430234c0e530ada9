//! Why regions cannot be recorded.

use std::fmt;
use std::path::PathBuf;

/// Why regions cannot be recorded, or not all of them were.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecorderError {
    /// None or too many counters were named.
    Counters {
        /// How many.
        found: usize,
    },
    /// A counter cannot be opened (on the creating thread, or later on another).
    Counter(crate::Error),
    /// This process is a forked child of the one whose file it is; its regions are not recorded.
    Forked,
    /// A file cannot be created.
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file cannot be written: what stands in it is valid up to here, the rest is lost.
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
        /// Bytes that are in the file.
        written: u64,
    },
}

impl fmt::Display for RecorderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counters { found } => {
                write!(
                    f,
                    "{found} counters for a recorder: name one to {}",
                    super::MAX_COUNTERS
                )
            }
            Self::Counter(error) => error.fmt(f),
            Self::Forked => f.write_str(
                "the recorder is the parent's: regions of a forked child are not recorded; make a Recorder of its own in it",
            ),
            Self::Create { path, source } => {
                write!(f, "{}: cannot create the profile: {source}", path.display())
            }
            Self::Write {
                path,
                source,
                written,
            } => write!(
                f,
                "{}: cannot write: {source}; the {written} bytes before are a valid profile, later regions are lost",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RecorderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Counters { .. } | Self::Forked => None,
            Self::Counter(error) => Some(error),
            Self::Create { source, .. } | Self::Write { source, .. } => Some(source),
        }
    }
}
