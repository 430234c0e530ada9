//! Descriptors of events: each is an opening of its own of the totals file, read
//! only, whose position says which event it is. So `dup`, `close`, `fork`,
//! close-on-exec, passing to other processes are the kernel's, and nothing has
//! to be kept about descriptor numbers. A lock of the open file on one byte per
//! event (`F_OFD_SETLK`) tells whether anybody still has it open or mapped.

use crate::pmu::errno::ENOENT;
use crate::pmu::page::BYTES;
use crate::pmu::table::MAX_EVENTS;
use crate::report::Text;
use crate::syscall_table as nr;
use crate::{slots, sys};
use core::fmt::Write;
use core::sync::atomic::Ordering::*;

const F_OFD_GETLK: u64 = 36;
const F_OFD_SETLK: u64 = 37;
const O_RDWR: u64 = 2;
const O_CLOEXEC: u64 = 0o2_000_000;

/// Positions of events begin here: past any file's end.
const POSITIONS: u64 = 1 << 44;
/// Locks of events begin here.
const LOCKS: u64 = 1 << 45;

/// `struct flock` (include/uapi/asm-generic/fcntl.h).
#[repr(C)]
struct Flock {
    kind: i16,
    whence: i16,
    start: u64,
    len: u64,
    pid: i32,
}

fn flock(kind: i16, event: u32) -> Flock {
    Flock {
        kind,
        whence: 0,
        start: LOCKS + u64::from(event),
        len: 1,
        pid: 0,
    }
}

/// Device and inode of a descriptor.
fn file_of(fd: u64) -> Option<[u64; 2]> {
    let mut stat = [0u64; 18];
    // SAFETY: fstat into a buffer of struct stat's 144 bytes.
    let result = unsafe { sys::call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    (result == 0).then(|| [stat[0], stat[1]])
}

fn is_totals(fd: u64) -> bool {
    let [device, inode] = &slots::header().events_file;
    file_of(fd) == Some([device.load(Relaxed), inode.load(Relaxed)])
}

/// Notes which file the totals are, while its descriptor is open.
pub fn know_file(fd: u64) {
    if let Some(file) = file_of(fd) {
        for (place, value) in slots::header().events_file.iter().zip(file) {
            place.store(value, Relaxed);
        }
    }
}

fn open_path(path: &Text, flags: u64) -> i64 {
    // SAFETY: a zero-terminated path of ours.
    unsafe { sys::call(nr::OPEN, [path.bytes().as_ptr() as u64, flags, 0, 0, 0, 0]) }
}

pub fn close(fd: u64) {
    // SAFETY: a descriptor of ours.
    unsafe { sys::call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]) };
}

/// A fresh opening of the totals file.
///
/// # Errors
/// EMFILE and ENFILE as they are; ENOENT (no such event here) where the file
/// cannot be reached, as without /proc.
pub fn create(close_on_exec: bool) -> Result<u64, i64> {
    let header = slots::header();
    let mut path = Text::new();
    let _ = write!(path, "/proc/{}/fd/{}\0", header.launcher, header.totals_fd);
    let result = open_path(&path, if close_on_exec { O_CLOEXEC } else { 0 });
    match result {
        -24 | -23 => Err(-result),
        ..0 => Err(ENOENT),
        _ if is_totals(result as u64) => Ok(result as u64),
        _ => {
            close(result as u64);
            Err(ENOENT)
        }
    }
}

/// The same event once more, writable, for a writable mapping. Closed by the caller.
pub fn reopen_writable(fd: u64, event: u32) -> Result<u64, i64> {
    let mut path = Text::new();
    let _ = write!(path, "/proc/thread-self/fd/{fd}\0");
    let result = open_path(&path, O_RDWR | O_CLOEXEC);
    if result < 0 {
        return Err(-result);
    }
    name(result as u64, event);
    Ok(result as u64)
}

/// Makes a fresh opening the event's.
pub fn name(fd: u64, event: u32) {
    let position = POSITIONS + u64::from(event) * BYTES;
    let lock = flock(0, event); // F_RDLCK
    // SAFETY: a descriptor of ours, a structure of ours.
    unsafe {
        sys::call(nr::LSEEK, [fd, position, 0, 0, 0, 0]);
        sys::call(
            nr::FCNTL,
            [fd, F_OFD_SETLK, &raw const lock as u64, 0, 0, 0],
        );
    }
}

/// The event of a descriptor, if it is one of ours.
pub fn identify(fd: u64) -> Option<u32> {
    // SAFETY: asks for the position only.
    let position = unsafe { sys::call(nr::LSEEK, [fd, 0, 1, 0, 0, 0]) } as u64;
    let event = position.wrapping_sub(POSITIONS) / BYTES;
    (position >= POSITIONS
        && event < MAX_EVENTS as u64
        && position.is_multiple_of(BYTES)
        && is_totals(fd))
    .then_some(event as u32)
}

/// Whether an event other than the descriptor's own is open; in doubt it is.
pub fn is_open_beside(fd: u64, event: u32) -> bool {
    let mut lock = flock(1, event); // F_WRLCK
    // SAFETY: a structure of ours.
    let result = unsafe { sys::call(nr::FCNTL, [fd, F_OFD_GETLK, &raw mut lock as u64, 0, 0, 0]) };
    result != 0 || lock.kind != 2 // F_UNLCK
}

/// Asks which events are open.
pub struct Probe(Option<u64>);

impl Probe {
    pub fn new() -> Self {
        Self(create(true).ok())
    }
    /// In doubt they are.
    pub fn is_open(&self, event: u32) -> bool {
        self.0.is_none_or(|fd| is_open_beside(fd, event))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(fd) = self.0 {
            close(fd);
        }
    }
}
