//! Where a result goes: a file, stdout or stderr. Styles are dropped where they do not belong.

mod file;

use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use crate::failure::Failure;
use crate::render::width::{self, Folding, Reader};
pub(crate) use file::{LimitOfSize, ResultFile};
use truecount_run::runner::while_stoppable;

/// An opened destination.
pub(crate) struct Output {
    to: Stream,
    /// Sentences fit the reader's window.
    folding: Option<Folding>,
}

enum Stream {
    /// A terminal, a pipe or a redirected stream.
    Stdout(Patient<anstream::AutoStream<io::Stdout>>),
    /// The same, for results that must not mix with the program's output. Line by line: stderr keeps nothing back
    /// itself, so that each piece of a line would be a call.
    Stderr(io::LineWriter<Patient<anstream::AutoStream<io::Stderr>>>),
    /// What was measured, and would be lost with a full disk.
    Buffered(Buffered),
}

impl Output {
    /// Opens `path`, or the standard stream that was chosen, for something that was measured: where it cannot be
    /// written, it is shown on stderr.
    pub(crate) fn open(path: Option<&Path>, stderr: bool) -> Result<Self, Failure> {
        width::is_read_at(match path {
            Some(_) => Reader::File,
            None if stderr => Reader::Stderr,
            None => Reader::Stdout,
        });
        let (to, name) = match path {
            Some(path) => (
                Place::File(ResultFile::open(path)?),
                path.display().to_string(),
            ),
            None if stderr => {
                return Ok(Self::raw_to(Stream::Stderr(io::LineWriter::new(
                    to_stderr(),
                ))));
            }
            None => (Place::Stdout(to_stdout()), "standard output".to_owned()),
        };
        let bytes = Vec::new();
        Ok(Self::raw_to(Stream::Buffered(Buffered { to, name, bytes })))
    }

    /// Opens where a result goes: the file of `--json=FILE` or `--output`; else stdout for a document, and for text the
    /// stream that was chosen.
    pub(crate) fn result(
        json: Option<&Path>,
        output: Option<&Path>,
        stderr: bool,
    ) -> Result<Self, Failure> {
        let file = json.filter(|path| !is_stdout(path));
        let out = Self::open(file.or(output), stderr && json.is_none())?;
        Ok(if json.is_none() { out.text() } else { out })
    }

    /// As [`Output::result`], for what was not measured: nothing is lost when it cannot be written.
    pub(crate) fn shown(json: Option<&Path>) -> Result<Self, Failure> {
        match json.filter(|path| !is_stdout(path)) {
            Some(file) => Self::open(Some(file), false),
            None if json.is_some() => Ok(Self::stdout()),
            None => Ok(Self::stdout().text()),
        }
    }

    /// Standard output.
    pub(crate) fn stdout() -> Self {
        width::is_read_at(Reader::Stdout);
        Self::raw_to(Stream::Stdout(to_stdout()))
    }

    fn raw_to(to: Stream) -> Self {
        Self { to, folding: None }
    }

    /// For people: lines fit their window.
    pub(crate) fn text(mut self) -> Self {
        self.folding = width::columns().map(Folding::to);
        self
    }

    /// For programs, or lines that are as they are (source code).
    pub(crate) fn raw(mut self) -> Self {
        self.folding = None;
        self
    }
}

fn to_stdout() -> Patient<anstream::AutoStream<io::Stdout>> {
    Patient::new(
        anstream::AutoStream::auto(io::stdout()),
        libc::STDOUT_FILENO,
    )
}

fn to_stderr() -> Patient<anstream::AutoStream<io::Stderr>> {
    Patient::new(
        anstream::AutoStream::auto(io::stderr()),
        libc::STDERR_FILENO,
    )
}

/// A stream that may be a pipe whose reader takes nothing: while that is waited for, Ctrl-C ends truecount, which has
/// blocked it otherwise.
pub(crate) struct Patient<W> {
    out: W,
    fd: RawFd,
}

impl<W> Patient<W> {
    /// `out` writes to `fd`, and keeps it open.
    fn new(out: W, fd: RawFd) -> Self {
        Self { out, fd }
    }

    /// Waits until there is room.
    fn wait_for_room(&self) {
        let poll = |timeout| {
            let mut room = libc::pollfd {
                fd: self.fd,
                events: libc::POLLOUT,
                revents: 0,
            };
            // SAFETY: one valid entry.
            unsafe { libc::poll(&raw mut room, 1, timeout) }
        };
        // What cannot be asked is written to, which tells why.
        if poll(0) == 0 {
            while_stoppable(|| poll(-1));
        }
    }
}

impl<W: Write> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// A pipe with room has it for PIPE_BUF (4096) bytes, of which the standard library's buffer may take 1024.
        const PIECE: usize = 2048;
        self.wait_for_room();
        self.out
            .write(bytes.get(..PIECE.min(bytes.len())).unwrap_or(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.wait_for_room();
        self.out.flush()
    }
}

/// Says before anything is measured that a file cannot be written; it is left as it is. `-` is standard output.
pub(crate) fn can_be_written(path: &Path) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    // A FIFO's reader would take the end of a trial for the end of all.
    if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(());
    }
    let there = path.exists();
    let opened = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    match opened {
        Ok(file) => {
            drop(file);
            if !there {
                // Only what this made, and nobody has written to.
                let empty =
                    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0);
                if empty {
                    let _ = std::fs::remove_file(path);
                }
            }
            Ok(())
        }
        Err(error) => Err(cannot_write(path, &error)),
    }
}

/// Whether `--json` names no file.
fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// What a measured program gets as its standard output: stderr where a document takes stdout, so that the two do not mix;
/// `None` where it keeps truecount's.
pub(crate) fn programs_stdout(
    json: Option<&Path>,
    output: Option<&Path>,
) -> Result<Option<OwnedFd>, Failure> {
    if output.is_some() || !json.is_some_and(is_stdout) {
        return Ok(None);
    }
    let stderr = io::stderr().as_fd().try_clone_to_owned();
    stderr
        .map(Some)
        .map_err(|error| Failure::new(125, format!("cannot copy stderr: {error}")))
}

/// Holds what is written until [`Write::flush`], and shows it on stderr where that fails.
pub(crate) struct Buffered {
    to: Place,
    name: String,
    bytes: Vec<u8>,
}

enum Place {
    File(ResultFile),
    Stdout(Patient<anstream::AutoStream<io::Stdout>>),
}

impl Place {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            // A file has no styles.
            Self::File(file) => file.put(&anstream::adapter::strip_bytes(bytes).into_vec()),
            Self::Stdout(out) => out.write_all(bytes).and_then(|()| out.flush()),
        }
    }
}

impl Buffered {
    fn pass_on(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let error = match self.to.put(&bytes) {
            // Whoever closed a pipe has seen enough.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => error,
            other => return other,
        };
        let mut stderr = to_stderr();
        // With nowhere left to write there is nothing more to do.
        let _ = stderr.write_all(&bytes).and_then(|()| stderr.flush());
        let text = format!("{}: {error}; it stands here instead, above", self.name);
        Err(io::Error::new(error.kind(), text))
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            // An earlier error is on its way to the user.
            let _ = self.pass_on();
        }
    }
}

/// A picture or page beside the result: tried before the measurement, since a wrong path must not cost one, and
/// written after the result, which a failure must not cost either.
pub(crate) struct Picture(ResultFile);

impl Picture {
    /// Tries it, where one is asked for.
    pub(crate) fn create(path: Option<&Path>) -> Result<Option<Self>, Failure> {
        Ok(path.map(ResultFile::open).transpose()?.map(Self))
    }

    /// Writes all of it.
    pub(crate) fn write(mut self, content: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Failure> {
        self.0.write(content.as_ref())
    }
}

/// The failure for a file that cannot be written.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    truecount_run::Error::cannot_write(path, error).into()
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::Stderr(out) => out.write(bytes),
            Self::Buffered(kept) => {
                kept.bytes.extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::Stderr(out) => out.flush(),
            Self::Buffered(kept) => kept.pass_on(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.folding {
            Some(folding) => folding.write(bytes, &mut self.to).map(|()| bytes.len()),
            None => self.to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(folding) = &mut self.folding {
            folding.pass_on(&mut self.to)?;
        }
        self.to.flush()
    }
}
