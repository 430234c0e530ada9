//! `open(2)` of a FIFO, by its path or as `/dev/fd/N`, which waits for its other end (fifo(7)). It is made without
//! waiting; a reader's descriptor is there meanwhile, as its number is natively, so that a writer finds it.

use super::descriptors::{FIFO, IN, is_ready, set_waits};
use super::tries::{Tried, wait_for};
use super::{Step, run};
use crate::layout::Context;
use crate::syscall_table as nr;
use crate::{own_memory, program_memory, sys};
use core::sync::atomic::{AtomicU64, Ordering::*};

const ENXIO: i64 = 6;
const O_ACCMODE: u64 = 3;
const O_WRONLY: u64 = 1;
const O_RDWR: u64 = 2;
const O_NONBLOCK: u64 = 0o4000;
const O_PATH: u64 = 0o10_000_000;

/// A call that opens something.
struct Opening {
    number: u64,
    a: [u64; 6],
    /// Of `openat2`: flags, mode, how paths are resolved.
    how: [u64; 3],
}

impl Opening {
    fn of(number: u64, a: [u64; 6]) -> Option<Self> {
        let how = match number {
            nr::OPEN => [a[1], a[2], 0],
            nr::OPENAT => [a[2], a[3], 0],
            nr::OPENAT2 if a[3] == size_of::<[u64; 3]>() as u64 => program_memory::read(a[2])?,
            _ => return None,
        };
        Some(Self { number, a, how })
    }

    fn is_fifo(&self) -> bool {
        const AT_FDCWD: u64 = -100i64 as u64;
        let (directory, path) = match self.number {
            nr::OPEN => (AT_FDCWD, self.a[0]),
            _ => (self.a[0], self.a[1]),
        };
        let mut stat = [0u64; 18];
        let to = stat.as_mut_ptr() as u64;
        // SAFETY: newfstatat into a buffer of struct stat's 144 bytes.
        let result = unsafe { sys::call(nr::NEWFSTATAT, [directory, path, to, 0, 0, 0]) };
        result == 0 && stat[3] as u32 & 0o170_000 == FIFO
    }

    /// Makes it, without waiting.
    fn make(&self) -> i64 {
        let ([flags, mode, resolve], a) = (self.how, self.a);
        let flags = flags | O_NONBLOCK;
        let how = [flags, mode, resolve];
        let arguments = match self.number {
            nr::OPEN => [a[0], flags, mode, 0, 0, 0],
            nr::OPENAT => [a[0], a[1], flags, mode, 0, 0],
            _ => [a[0], a[1], how.as_ptr() as u64, a[3], 0, 0],
        };
        // SAFETY: as the program made it, but that it does not wait.
        unsafe { sys::call(self.number, arguments) }
    }
}

/// An address where there is nothing.
fn nowhere() -> u64 {
    static AT: AtomicU64 = AtomicU64::new(0);
    match AT.load(Relaxed) {
        0 => {
            let at = own_memory::addresses(0x1000);
            AT.store(at, Relaxed);
            at
        }
        at => at,
    }
}

/// Whether somebody has opened the other end for writing since `fd` was opened. A read into nowhere takes nothing:
/// it is the end of the file (0), EAGAIN where there are writers, EFAULT where they have written.
fn has_writer(fd: u64) -> bool {
    // SAFETY: nothing is written anywhere.
    is_ready(fd, IN) || unsafe { sys::call(nr::READ, [fd, nowhere(), 1, 0, 0, 0]) } != 0
}

/// open and the like.
pub fn open(context: &mut Context, number: u64, a: [u64; 6]) -> Step {
    let Some(opening) = Opening::of(number, a) else {
        return Step::Native;
    };
    let flags = opening.how[0];
    // O_RDWR of a FIFO does not wait.
    let waits = flags & (O_NONBLOCK | O_PATH) == 0 && flags & O_ACCMODE != O_RDWR;
    if !waits || !opening.is_fifo() {
        return Step::Native;
    }
    let done = |fd: i64| {
        if fd >= 0 {
            set_waits(fd as u64, true);
        }
        Tried::Step(Step::Done(fd))
    };
    if flags & O_ACCMODE == O_WRONLY {
        return wait_for(
            context,
            true,
            || true,
            |_| match opening.make() {
                result if result == -ENXIO => Tried::NotYet,
                result => done(result),
            },
        );
    }
    let fd = opening.make();
    if fd < 0 {
        return Step::Done(fd);
    }
    // Writers that tried in vain try again.
    run::lock().epoch += 1;
    let step = wait_for(
        context,
        true,
        || true,
        |_| match has_writer(fd as u64) {
            true => done(fd),
            false => Tried::NotYet,
        },
    );
    if !matches!(step, Step::Done(opened) if opened == fd) {
        // SAFETY: what was just opened.
        unsafe { sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
    }
    step
}
