//! What benchmarks print, to stderr, where stdout is the document's.

use std::io::{Error, Result, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// While there is one, what is written to stdout is written to stderr.
pub(crate) struct Aside(OwnedFd);

impl Aside {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: a new descriptor, which nobody else has.
        let kept = unsafe {
            let fd = libc::fcntl(libc::STDOUT_FILENO, libc::F_DUPFD_CLOEXEC, 3);
            if fd < 0 {
                return Err(Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        leads_to(libc::STDERR_FILENO)?;
        Ok(Self(kept))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = leads_to(self.0.as_raw_fd());
    }
}

/// Makes stdout another name of `fd`.
fn leads_to(fd: i32) -> Result<()> {
    // What is not written yet goes where it would have gone.
    let _ = std::io::stdout().flush();
    // SAFETY: changes the meaning of descriptor 1, which belongs to the whole process.
    let made = unsafe { libc::dup2(fd, libc::STDOUT_FILENO) };
    if made < 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}
