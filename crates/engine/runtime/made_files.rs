//! Files in memory that stand in for the kernel's.
//!
//! The program's limit of the size of files (`ulimit -f`, RLIMIT_FSIZE) holds for files in memory, too: a longer write
//! brings SIGXFSZ, which the program would not get natively. Where a content is longer it comes from a pipe.

use crate::sys;
use crate::syscall_table as nr;

const O_CLOEXEC: u64 = 0o2_000_000;
const O_NONBLOCK: u64 = 0o4_000;

/// Bytes that a file may have.
pub fn limit() -> u64 {
    const RLIMIT_FSIZE: u64 = 1;
    let mut limit = [u64::MAX; 2];
    // SAFETY: RLIMIT_FSIZE into a local.
    unsafe {
        sys::call(
            nr::GETRLIMIT,
            [RLIMIT_FSIZE, limit.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    };
    limit[0]
}

/// A descriptor that gives this content from its start; negative: the error. What a pipe has no room for is left out.
pub fn with(content: &[u8], close_on_exec: bool) -> i64 {
    let cloexec = u64::from(close_on_exec);
    let name = c"machine".as_ptr() as u64;
    // SAFETY: memfd_create(name, flags); write and lseek of what it gives.
    unsafe {
        if content.len() as u64 > limit() {
            return piped(content, cloexec * O_CLOEXEC);
        }
        let fd = sys::call(nr::MEMFD_CREATE, [name, cloexec, 0, 0, 0, 0]);
        if fd >= 0 {
            sys::write(fd as u64, content);
            sys::call(nr::LSEEK, [fd as u64, 0, 0, 0, 0, 0]);
        }
        fd
    }
}

fn piped(content: &[u8], flags: u64) -> i64 {
    const F_SETFL: u64 = 4;
    let mut ends = [0u32; 2];
    // SAFETY: pipe2 into a local; its ends are ours.
    unsafe {
        let made = sys::call(
            nr::PIPE2,
            [ends.as_mut_ptr() as u64, flags | O_NONBLOCK, 0, 0, 0, 0],
        );
        if made != 0 {
            return made;
        }
        let [from, to] = ends.map(u64::from);
        sys::write(to, content);
        sys::call(nr::CLOSE, [to, 0, 0, 0, 0, 0]);
        sys::call(nr::FCNTL, [from, F_SETFL, 0, 0, 0, 0]);
        from as i64
    }
}
