//! What can be wrong with a profile: errors that end reading, and losses that do not.

use std::fmt;
use std::path::PathBuf;

/// Why a profile could not be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be opened or read.
    #[error("{}: cannot read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Neither the path nor the path with `.mm_profdata` appended exists.
    #[error("{}: no such file, and no {}.mm_profdata either", path.display(), path.display())]
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// A directory without a profile in it.
    #[error("{}: no .mm_profdata file in this directory", path.display())]
    EmptyDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The old format of three files (measureme 0.7 or older).
    #[error(
        "{}: a profile of the old three-file format (.events, .string_data, .string_index) is too old: record it again with rustc 1.50 or newer",
        path.display()
    )]
    ThreeFiles {
        /// The path as given.
        path: PathBuf,
    },
    /// Bytes that must be there are not.
    #[error("{}: offset {offset}: expected {expected}, found {found}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Offset in the file, in bytes.
        offset: u64,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The version is older than 8.
    #[error(
        "{}: offset 4: version {version} is too old (versions 8 and 9 are read): record it again with a newer rustc",
        path.display()
    )]
    TooOld {
        /// The file.
        path: PathBuf,
        /// The version it has.
        version: u32,
    },
    /// The version is newer than 9.
    #[error(
        "{}: offset 4: version {version} is too new (versions 8 and 9 are read): use a newer truecount",
        path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The version it has.
        version: u32,
    },
    /// Profiles that cannot be put together.
    #[error("{0}")]
    Mismatch(String),
    /// A number that does not fit what the analysis keeps.
    #[error("{}: {what}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is too large, and the limit.
        what: &'static str,
    },
    /// An export could not be written.
    #[error("cannot write the export: {0}")]
    Write(#[from] std::io::Error),
}

/// Something in the file that could not be used; the rest was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The file ends inside a page, as after a crash while writing.
    Truncated {
        /// Offset of the page's header in the file.
        offset: u64,
        /// Payload bytes that the header announced.
        expected: u64,
        /// Payload bytes that are there (and used).
        found: u64,
    },
    /// Bytes that are no page header; everything behind them is skipped.
    BadPage {
        /// Offset in the file.
        offset: u64,
        /// What is wrong with it.
        what: &'static str,
        /// Bytes that are skipped.
        skipped: u64,
    },
    /// A stream has no page.
    MissingStream {
        /// Name of the stream.
        stream: &'static str,
    },
    /// A stream ends inside an event or an index entry.
    PartialRecord {
        /// Name of the stream.
        stream: &'static str,
        /// Bytes left over.
        bytes: u64,
    },
    /// The metadata is missing or is no JSON; process, command and counter are unknown.
    Metadata {
        /// What is wrong with it.
        what: String,
    },
    /// Index entries that point outside the string data.
    BadIndexEntries {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated {
                offset,
                expected,
                found,
            } => write!(
                f,
                "offset {offset}: the file ends inside a page: {found} of {expected} bytes are there (was the process killed?)"
            ),
            Self::BadPage {
                offset,
                what,
                skipped,
            } => {
                write!(
                    f,
                    "offset {offset}: {what}; the {skipped} bytes from here are skipped"
                )
            }
            Self::MissingStream { stream } => write!(f, "there is no {stream} in the file"),
            Self::PartialRecord { stream, bytes } => {
                write!(
                    f,
                    "the {stream} end inside a record: the last {bytes} bytes are skipped"
                )
            }
            Self::Metadata { what } => {
                write!(
                    f,
                    "metadata: {what}; command, start and counter are unknown"
                )
            }
            Self::BadIndexEntries { count } => {
                write!(
                    f,
                    "{count} entries of the string index point outside the string data"
                )
            }
        }
    }
}
