//! What can be wrong with a recording, each with the place and the reason.

/// An error while reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file does not begin as a recording does.
    #[error("not a perf.data file: it begins with {found} instead of \"PERFILE2\"")]
    Magic {
        /// The first bytes.
        found: String,
    },
    /// The file was written on a big-endian machine.
    #[error(
        "the recording comes from a big-endian machine, which is not supported; convert it there with `perf script`"
    )]
    BigEndian,
    /// The program that was named for the recording is not its program.
    #[error("--binary {path} cannot be used: {what}")]
    Binary {
        /// The file.
        path: String,
        /// Why.
        what: String,
    },
    /// The bytes contradict the format.
    #[error("damaged recording at offset {offset:#x}: {what}")]
    Damaged {
        /// Offset in the file (in the decompressed stream for compressed records).
        offset: u64,
        /// What was expected there.
        what: String,
    },
    /// The recording uses something newer than this reader.
    #[error("unsupported recording: {0}")]
    Unsupported(String),
    /// A compressed record cannot be decompressed.
    #[error("damaged compressed records at offset {offset:#x}: {what}")]
    Compressed {
        /// Offset of the record in the file.
        offset: u64,
        /// What the decompressor said.
        what: String,
    },
}

impl Error {
    pub(crate) fn damaged(offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged {
            offset,
            what: what.into(),
        }
    }
}

/// The result of reading.
pub type Result<T> = std::result::Result<T, Error>;
