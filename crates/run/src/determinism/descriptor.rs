//! Copies of other processes' and threads' descriptors: `pidfd_open(2)`, `pidfd_getfd(2)` (Linux 5.6 or later).

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

/// A copy of descriptor `fd` of a thread, which may have descriptors of its own.
pub(super) fn copy_of(thread: i32, fd: RawFd) -> io::Result<OwnedFd> {
    let of_thread = match open(thread, PIDFD_THREAD) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(sharing(thread)?, 0),
        opened => opened,
    };
    get(&of_thread?, fd)
}

/// `PIDFD_THREAD` of pidfd_open(2): Linux 6.9 or later; before, only processes can be opened.
const PIDFD_THREAD: i32 = libc::O_EXCL;

/// The process of a thread that has the same descriptors.
fn sharing(thread: i32) -> io::Result<i32> {
    const KCMP_FILES: i32 = 2;
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    let process: i32 = process
        .and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| io::Error::other("the kernel does not tell the process of a thread"))?;
    // SAFETY: no memory is involved.
    match unsafe { libc::syscall(libc::SYS_kcmp, process, thread, KCMP_FILES, 0, 0) } {
        0 => Ok(process),
        -1 => Err(io::Error::last_os_error()),
        _ => Err(io::Error::other("a thread has descriptors of its own")),
    }
}

/// `pidfd_open(2)`.
pub(super) fn open(pid: i32, flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) })
}

/// `pidfd_getfd(2)`.
pub(super) fn get(process: &OwnedFd, fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// A descriptor that a system call has just made.
fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: fresh: nobody else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_a_thread_are_had_with_and_without_threads_as_files() {
        let file = std::fs::File::open("/").unwrap();
        let fd = file.as_raw_fd();
        let same = |copy: &OwnedFd| {
            let of = |fd: RawFd| std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
            of(copy.as_raw_fd()) == of(fd)
        };
        let thread = || {
            // SAFETY: asks for a number.
            let number = unsafe { libc::syscall(libc::SYS_gettid) };
            i32::try_from(number).unwrap()
        };
        let me = std::process::id().cast_signed();
        let shared = std::thread::spawn(move || {
            assert_ne!(thread(), me);
            (copy_of(thread(), fd), sharing(thread()))
        });
        let (copy, process) = shared.join().unwrap();
        assert!(same(&copy.unwrap()));
        assert_eq!(process.unwrap(), me);
        let own = std::thread::spawn(move || {
            // SAFETY: this thread gets descriptors of its own.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
            sharing(thread())
        });
        assert!(own.join().unwrap().is_err());
        assert_eq!(
            copy_of(me, i32::MAX).unwrap_err().raw_os_error(),
            Some(libc::EBADF)
        );
    }
}
