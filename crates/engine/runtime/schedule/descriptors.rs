//! What a descriptor is, and whether a call on it would wait: `poll(2)`, `fstat(2)`, `fcntl(2)`.

use super::run;
use crate::schedule_state::INHERITED;
use crate::syscall_table as nr;
use crate::{lines, sys};

/// Types of files (`inode(7)`).
pub const FIFO: u32 = 0o010_000;
pub const REGULAR: u32 = 0o100_000;
pub const SOCKET: u32 = 0o140_000;
const DEVICE: u32 = 0o020_000;

pub const IN: u64 = 1;
pub const OUT: u64 = 4;
const NONBLOCK: i64 = 0o4000;

/// Whether a call on a descriptor would not wait for `events`; an error or an end is something, too.
pub fn is_ready(fd: u64, events: u64) -> bool {
    let poll = fd & 0xffff_ffff | events << 32;
    // SAFETY: one struct pollfd of ours, without waiting.
    unsafe { sys::call(nr::POLL, [&raw const poll as u64, 1, 0, 0, 0, 0]) != 0 }
}

/// `struct stat`, as words.
fn stat(fd: u64) -> Option<[u64; 18]> {
    let mut stat = [0u64; 18];
    // SAFETY: fstat into struct stat's 144 bytes.
    let result = unsafe { sys::call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    (result == 0).then_some(stat)
}

fn type_of(stat: &[u64; 18]) -> u32 {
    stat[3] as u32 & 0o170_000
}

fn identity(stat: &[u64; 18]) -> u64 {
    stat[0] << 40 ^ stat[1]
}

/// The type of the file.
pub fn kind(fd: u64) -> u32 {
    stat(fd).map_or(0, |stat| type_of(&stat))
}

/// Pipes and sockets that are open, and the device of pipes.
pub fn inherited() -> ([u64; INHERITED], u64) {
    let mut all = [0; INHERITED];
    for (fd, place) in all.iter_mut().enumerate() {
        *place = stat(fd as u64)
            .filter(|stat| matches!(type_of(stat), FIFO | SOCKET))
            .map_or(0, |stat| identity(&stat));
    }
    let mut ends = [0u32; 2];
    // SAFETY: a pipe of ours, and its closing.
    let pipes = unsafe {
        if sys::call(nr::PIPE, [ends.as_mut_ptr() as u64, 0, 0, 0, 0, 0]) < 0 {
            return (all, 0);
        }
        let [read, write] = ends.map(u64::from);
        let pipes = stat(read).map_or(0, |stat| stat[0]);
        sys::call(nr::CLOSE, [read, 0, 0, 0, 0, 0]);
        sys::call(nr::CLOSE, [write, 0, 0, 0, 0, 0]);
        pipes
    };
    (all, pipes)
}

/// Whether something that is not of this run can end a wait for this descriptor. `deep`: it may be a set of others.
pub fn from_outside(fd: u64, deep: bool) -> bool {
    let Some(stat) = stat(fd) else {
        return false;
    };
    match type_of(&stat) {
        FIFO | SOCKET if is_inherited(&stat) => true,
        FIFO => stat[0] != run::lock().pipes,
        SOCKET => !is_connected_inside(fd),
        DEVICE => true,
        0 => event_from_outside(fd, deep),
        _ => false,
    }
}

fn is_inherited(stat: &[u64; 18]) -> bool {
    run::lock().inherited.contains(&identity(stat))
}

/// A local socket whose other end a process of the run made.
fn is_connected_inside(fd: u64) -> bool {
    const SO_PEERCRED: u64 = 17;
    let (mut who, mut size) = ([0u32; 3], 12u32);
    let to = [&raw mut who as u64, &raw mut size as u64];
    // SAFETY: getsockopt(SOL_SOCKET, SO_PEERCRED) into locals.
    let result = unsafe { sys::call(nr::GETSOCKOPT, [fd, 1, SO_PEERCRED, to[0], to[1], 0]) };
    let [pid, ..] = who;
    result == 0 && pid != 0 && run::lock().find(|thread| thread.pid == pid).is_some()
}

/// Of eventfd, epoll, timerfd and the like, as /proc/self/fdinfo (proc(5)) describes them.
fn event_from_outside(fd: u64, deep: bool) -> bool {
    use core::fmt::Write;
    let mut path = crate::report::Text::new();
    let _ = write!(path, "/proc/thread-self/fdinfo/{fd}\0");
    let Ok(path) = core::ffi::CStr::from_bytes_with_nul(path.bytes()) else {
        return true;
    };
    // Nothing but these: a set that is empty, or one that is not known.
    let (mut known, mut outside) = (false, false);
    lines::of(path, |line| {
        let inside: [&[u8]; 3] = [b"eventfd-count:", b"Pid:", b"sigmask:"];
        if inside.iter().any(|start| line.starts_with(start)) {
            known = true;
        } else if let Some(rest) = line.strip_prefix(b"tfd:") {
            known = true;
            let digits = rest.iter().skip_while(|byte| **byte == b' ');
            let member = digits
                .take_while(|byte| byte.is_ascii_digit())
                .fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
            outside |= !deep || from_outside(member, false);
        }
        Some(())
    });
    !known || outside
}

/// A decimal number in what /proc/self/fdinfo says of a descriptor, behind its name.
pub fn number_in(fd: u64, name: &[u8]) -> Option<u64> {
    use core::fmt::Write;
    let mut path = crate::report::Text::new();
    let _ = write!(path, "/proc/thread-self/fdinfo/{fd}\0");
    let path = core::ffi::CStr::from_bytes_with_nul(path.bytes()).ok()?;
    let mut found = None;
    lines::of(path, |line| {
        let rest = line.strip_prefix(name)?;
        let digits = rest.iter().skip_while(|byte| !byte.is_ascii_digit());
        let digits = digits.take_while(|byte| byte.is_ascii_digit());
        found = Some(digits.fold(0u64, |value, digit| {
            value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
        }));
        Some(())
    });
    found
}

/// Calls on it that do `what` ([`IN`] or [`OUT`]) never wait: `O_NONBLOCK`, or it is an error (no descriptor, not open for
/// that), which `poll` does not tell.
pub fn never_waits(fd: u64, what: u64) -> bool {
    const F_GETFL: u64 = 3;
    const PATH: i64 = 0o10_000_000;
    // SAFETY: no memory.
    let flags = unsafe { sys::call(nr::FCNTL, [fd, F_GETFL, 0, 0, 0, 0]) };
    let refused = match flags & 3 {
        0 => OUT,
        1 => IN,
        _ => 0,
    };
    flags < 0 || flags & (NONBLOCK | PATH) != 0 || refused == what
}

/// A socket that takes connections (`listen(2)`): who reads or writes it gets an error, and only it can be accepted from.
pub fn listens(fd: u64) -> bool {
    const SO_ACCEPTCONN: u64 = 30;
    let (mut value, mut size) = (0u32, 4u32);
    let to = [&raw mut value as u64, &raw mut size as u64];
    // SAFETY: getsockopt(SOL_SOCKET, SO_ACCEPTCONN) into locals.
    let result = unsafe { sys::call(nr::GETSOCKOPT, [fd, 1, SO_ACCEPTCONN, to[0], to[1], 0]) };
    result == 0 && value != 0
}

/// Sets or clears `O_NONBLOCK`.
pub fn set_waits(fd: u64, waits: bool) {
    const F_GETFL: u64 = 3;
    const F_SETFL: u64 = 4;
    // SAFETY: no memory.
    unsafe {
        let flags = sys::call(nr::FCNTL, [fd, F_GETFL, 0, 0, 0, 0]);
        if flags >= 0 {
            let flags = if waits {
                flags & !NONBLOCK
            } else {
                flags | NONBLOCK
            };
            sys::call(nr::FCNTL, [fd, F_SETFL, flags as u64, 0, 0, 0]);
        }
    }
}
