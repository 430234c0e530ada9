//! Where a result goes: a file, stdout or stderr. Styles are dropped where they do not belong.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::failure::Failure;

/// An opened destination.
pub(crate) enum Output {
    /// A file; without styles.
    File(BufWriter<anstream::StripStream<File>>),
    /// The terminal or a pipe.
    Stdout(anstream::AutoStream<io::Stdout>),
    /// The same, for results that must not mix with the program's output.
    Stderr(anstream::AutoStream<io::Stderr>),
}

impl Output {
    /// Opens `path`, or the standard stream that was chosen.
    pub(crate) fn open(path: Option<&Path>, stderr: bool) -> Result<Self, Failure> {
        match path {
            Some(path) => {
                let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
                Ok(Self::File(BufWriter::new(anstream::StripStream::new(file))))
            }
            None if stderr => Ok(Self::Stderr(anstream::AutoStream::auto(io::stderr()))),
            None => Ok(Self::stdout()),
        }
    }

    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::Stdout(anstream::AutoStream::auto(io::stdout()))
    }
}

/// The failure for a file that cannot be written.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(1, format!("cannot write {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::NotFound => failure.mend("make its folder first"),
        io::ErrorKind::StorageFull => failure.mend("free space on that file system"),
        io::ErrorKind::PermissionDenied => failure.mend("choose another path"),
        _ => failure,
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(out) => out.write(bytes),
            Self::Stdout(out) => out.write(bytes),
            Self::Stderr(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(out) => out.flush(),
            Self::Stdout(out) => out.flush(),
            Self::Stderr(out) => out.flush(),
        }
    }
}
