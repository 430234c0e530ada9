//! Locks of files that programs outside the run hold: `flock(2)`, `fcntl_locking(2)`, `proc_locks(5)`.

use super::{note, stat_of};
use crate::inputs::kind;
use crate::layout::Context;
use crate::outside::places::name_of;
use crate::schedule::kernel::parent_of;
use crate::syscall_table as nr;
use crate::turns::{self, state};
use crate::{lines, program_memory, slots, sys};

const EACCES: i64 = 13;
const EAGAIN: i64 = 11;

/// Commands of `fcntl(2)`.
pub const F_GETLK: u64 = 5;
pub const F_SETLK: u64 = 6;
pub const F_SETLKW: u64 = 7;
pub const F_OFD_GETLK: u64 = 36;
pub const F_OFD_SETLK: u64 = 37;
pub const F_OFD_SETLKW: u64 = 38;

/// Of `flock(2)`.
pub const LOCK_NB: u64 = 4;

const F_UNLCK: u64 = 2;

/// Who has a lock that a call did not get.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// Nobody any more, or the kernel does not tell.
    Nobody,
    /// One of the run.
    Run,
    /// One outside, who may let it go.
    Outside,
    /// One outside, who waits for the run, or is gone: the lock stays.
    Stays,
}

/// A call that asks for a lock and does not wait for it.
pub fn is_asked_once(number: u64, a: &[u64; 6]) -> bool {
    match number {
        nr::FLOCK => a[1] & LOCK_NB != 0,
        nr::FCNTL => matches!(a[1], F_GETLK | F_SETLK | F_OFD_GETLK | F_OFD_SETLK),
        _ => false,
    }
}

/// Whether the call was refused because somebody else has the lock.
pub fn is_refused(number: u64, result: i64) -> bool {
    result == -EAGAIN || result == -EACCES && number == nr::FCNTL
}

/// Who has the lock that a call asked for.
pub fn holder(number: u64, a: &[u64; 6]) -> Holder {
    match number {
        nr::FLOCK => holder_of_file(a[0]),
        _ => {
            let asks = if a[1] >= F_OFD_GETLK {
                F_OFD_GETLK
            } else {
                F_GETLK
            };
            // struct flock: type and whence, start, length, PID.
            let Some(mut lock) = program_memory::read::<[u64; 4]>(a[2]) else {
                return Holder::Nobody;
            };
            let at = lock.as_mut_ptr() as u64;
            // SAFETY: into our copy.
            let asked = unsafe { sys::call(nr::FCNTL, [a[0], asks, at, 0, 0, 0]) };
            let [kind, _, _, pid] = lock;
            match asked == 0 && kind & 0xffff != F_UNLCK {
                true => who(pid as u32),
                false => Holder::Nobody,
            }
        }
    }
}

/// Who has a lock of `flock` on the file of a descriptor; the one that is furthest away.
fn holder_of_file(fd: u64) -> Holder {
    let Some(stat) = stat_of(fd) else {
        return Holder::Nobody;
    };
    let mut found = Holder::Nobody;
    lines::of(c"/proc/locks", |line| {
        // NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END; who waits has an arrow.
        let mut words = line
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty());
        if words.nth(1)? != b"FLOCK" {
            return None;
        }
        let pid = number(words.nth(2)?)?;
        // Not the device: that of a layered file system is not what `stat` tells.
        if number(words.next()?.rsplit(|&byte| byte == b':').next()?)? != stat[1] {
            return None;
        }
        let who = who(pid as u32);
        if matches!(found, Holder::Nobody | Holder::Run) || who == Holder::Outside {
            found = who;
        }
        Some(())
    });
    found
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where a process that has a lock belongs to. (Of locks that are an open file's the kernel does not tell.)
fn who(pid: u32) -> Holder {
    if pid.cast_signed() <= 0 || pid == sys::getpid() {
        return Holder::Run;
    }
    let launcher = slots::header().launcher;
    let of_the_run = match turns::on() {
        // SAFETY: mapped for good; bits that are only ever set.
        true => unsafe { (*state()).known(pid) },
        false => pid != launcher && is_below(pid, launcher),
    };
    if of_the_run {
        return Holder::Run;
    }
    match parent_of(pid).is_none() || is_below(launcher, pid) {
        true => Holder::Stays,
        false => Holder::Outside,
    }
}

/// Whether `ancestor` is a process, or one of its parents.
fn is_below(pid: u32, ancestor: u32) -> bool {
    const MOST: usize = 256;
    let mut at = pid;
    for _ in 0..MOST {
        if at == ancestor {
            return true;
        }
        match parent_of(at) {
            None | Some(0) => return false,
            Some(parent) => at = parent,
        }
    }
    false
}

/// Notes that a lock of somebody outside the run is in the way.
pub fn note_held(context: &Context, number: u64) {
    if !super::has_ended() {
        note(context, kind::FILE_LOCK, name_of(number));
    }
}

/// After a call that asked once, without the scheduler; or after one that asked who has a lock.
pub(super) fn asked(context: &Context, number: u64, a: [u64; 6], result: i64) {
    let asks_who = number == nr::FCNTL && matches!(a[1], F_GETLK | F_OFD_GETLK);
    if asks_who {
        // struct flock: type first, PID in the last word.
        let told = program_memory::read::<u16>(a[2]).filter(|&kind| u64::from(kind) != F_UNLCK);
        let pid = program_memory::read::<u32>(a[2].wrapping_add(24));
        let outside = |pid| matches!(who(pid), Holder::Outside | Holder::Stays);
        if result == 0 && told.is_some() && pid.is_some_and(outside) {
            note_held(context, number);
        }
    } else if !turns::on() && is_refused(number, result) && holder(number, &a) != Holder::Run {
        note_held(context, number);
    }
}
