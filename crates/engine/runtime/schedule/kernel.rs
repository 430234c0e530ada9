//! What the kernel tells of threads.

use crate::syscall_table as nr;
use crate::{lines, slots, sys};

/// The letter that the kernel gives a thread (proc(5)).
pub fn kernel_state(pid: u32, tid: u32) -> u8 {
    use core::fmt::Write;
    let mut path = crate::report::Text::new();
    let _ = write!(path, "/proc/{pid}/task/{tid}/stat\0");
    let mut text = [0u8; 256];
    // SAFETY: open, read and close with our own buffers.
    let got = unsafe {
        let at = path.bytes().as_ptr() as u64;
        let fd = sys::call(nr::OPEN, [at, 0o2_000_000, 0, 0, 0, 0]);
        if fd < 0 {
            return 0;
        }
        let got = sys::call(
            nr::READ,
            [fd as u64, text.as_mut_ptr() as u64, 256, 0, 0, 0],
        );
        sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
        got
    };
    let text = text.get(..got.max(0) as usize).unwrap_or(&[]);
    let end = text.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    text.get(end + 2).copied().unwrap_or(0)
}

/// A number in what the kernel tells of a process (proc(5), status), behind a name such as `TracerPid:`.
fn status(pid: u32, name: &[u8], base: u32) -> Option<u64> {
    use core::fmt::Write;
    let mut path = crate::report::Text::new();
    let _ = write!(path, "/proc/{pid}/status\0");
    let mut found = None;
    if let Ok(path) = core::ffi::CStr::from_bytes_with_nul(path.bytes()) {
        lines::of(path, |line| {
            let digits = line.strip_prefix(name)?.trim_ascii();
            let text = core::str::from_utf8(digits).ok()?;
            found = u64::from_str_radix(text, base).ok();
            Some(())
        });
    }
    found
}

/// The parent of a process; `None`: there is no such process.
pub fn parent_of(pid: u32) -> Option<u32> {
    status(pid, b"PPid:", 10).map(|parent| parent as u32)
}

/// Whether a thread that sleeps waits for the launcher, or for another thread of the runtime's: it is traced by the launcher,
/// lists a directory, which that one orders, or waits for a word. (The program's own waits for words are the scheduler's.)
pub fn waits_for_truecount(pid: u32, tid: u32) -> bool {
    use core::fmt::Write;
    if tracer_of(pid) == Some(slots::header().launcher) {
        return true;
    }
    let mut path = crate::report::Text::new();
    let _ = write!(path, "/proc/{pid}/task/{tid}/syscall\0");
    let mut found = false;
    if let Ok(path) = core::ffi::CStr::from_bytes_with_nul(path.bytes()) {
        lines::of(path, |line| {
            let digits = line.split(|&byte| byte == b' ').next()?;
            let number = core::str::from_utf8(digits).ok()?.parse().ok()?;
            found = matches!(number, nr::GETDENTS | nr::GETDENTS64 | nr::FUTEX);
            Some(())
        });
    }
    found
}

/// The process of which a thread traces another one (proc(5) tells the thread).
fn tracer_of(pid: u32) -> Option<u32> {
    let thread = status(pid, b"TracerPid:", 10).filter(|&tracer| tracer != 0)?;
    status(thread as u32, b"Tgid:", 10).map(|process| process as u32)
}

/// Whether SIGCHLD has come to a process.
pub fn is_told(pid: u32) -> bool {
    const SIGCHLD: u64 = 17;
    status(pid, b"ShdPnd:", 16).is_some_and(|set| set >> (SIGCHLD - 1) & 1 != 0)
}

/// Whether somebody traces a process who is not truecount: what ends in it stays until that one has waited for it.
pub fn is_traced(pid: u32) -> bool {
    let launcher = slots::header().launcher;
    tracer_of(pid).is_some_and(|tracer| tracer != launcher)
}
