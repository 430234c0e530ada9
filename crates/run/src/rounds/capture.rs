//! What a command printed, kept in memory to be shown when it fails.
//!
//! A memory file (memfd_create(2)) takes the writes of the command without a reader that would have
//! to run beside it. It is opened for appending, so cutting it is safe while somebody writes.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::error::Error;
use crate::session::memory_file;

/// No more of the end than this is shown.
const SHOWN: u64 = 16 * 1024;

/// A file in memory.
pub(super) struct Capture {
    file: OwnedFd,
}

impl Capture {
    pub(super) fn new() -> Result<Self, Error> {
        let file = memory_file()?;
        // SAFETY: our descriptor.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) };
        Ok(Self { file })
    }

    /// To be the output of a command.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.file
    }

    /// Forgets what was printed.
    fn clear(&self) {
        // SAFETY: our descriptor.
        unsafe { libc::ftruncate(self.file.as_raw_fd(), 0) };
    }

    /// Forgets it only when something was printed: one system call instead of a truncation.
    pub(super) fn clear_if_used(&self) {
        let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: our descriptor and a place for the result.
        let size = unsafe {
            if libc::fstat(self.file.as_raw_fd(), status.as_mut_ptr()) != 0 {
                1
            } else {
                status.assume_init().st_size
            }
        };
        if size > 0 {
            self.clear();
        }
    }

    /// What was printed, to stand after a failure.
    pub(super) fn shown(&self) -> String {
        let output = self.text();
        match output.trim_end() {
            "" => ", printing nothing".to_owned(),
            output => format!("; it printed:\n{output}\n"),
        }
    }

    /// The end of what was printed.
    fn text(&self) -> String {
        let mut bytes = Vec::new();
        let read = || -> std::io::Result<(u64, Vec<u8>)> {
            let mut file = File::from(self.file.try_clone()?);
            let size = file.metadata()?.len();
            file.seek(SeekFrom::Start(size.saturating_sub(SHOWN)))?;
            file.take(SHOWN).read_to_end(&mut bytes)?;
            Ok((size, bytes))
        };
        match read() {
            Ok((size, bytes)) if size > SHOWN => {
                format!("[…]\n{}", String::from_utf8_lossy(&bytes))
            }
            Ok((_, bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("[its output cannot be read: {error}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn keeps_the_end_and_forgets() {
        let capture = Capture::new().unwrap();
        let mut file = File::from(capture.fd().try_clone().unwrap());
        file.write_all(b"hello\n").unwrap();
        assert_eq!(capture.text(), "hello\n");
        capture.clear_if_used();
        assert_eq!(capture.text(), "");
        file.write_all(b"again").unwrap();
        assert_eq!(capture.text(), "again");
        file.write_all(&vec![b'x'; 40_000]).unwrap();
        assert!(capture.text().starts_with("[…]\nx"));
        assert!(capture.text().len() < 17_000);
    }
}
