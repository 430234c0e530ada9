//! Names of new files that somebody else has. Temporary files are named by random numbers, or by the clock and the PID
//! (`mkstemp(3)`, `mkdtemp(3)`); where those are the same in every run, so are the names, and a run beside this one has
//! just these files. The next name would do, but takes instructions: so the other one's file is waited for, for a while,
//! with the token, as are locks of files. What stays is named.
//!
//! Facts: `open(2)`, `mkdir(2)`; permissions of temporary files: POSIX, `mkstemp`, `mkdtemp`.

use super::places::name_of;
use super::{DIRECTORY, REGULAR, note};
use crate::inputs::kind;
use crate::layout::Context;
use crate::syscall_table as nr;
use crate::{clock, machine, slots, sys, turns};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// For how long a run waits for names.
const PATIENCE: u64 = 10 * clock::SECOND;
/// What has not been changed for so long was left behind.
const OLD: u64 = 60 * clock::SECOND;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const AT_FDCWD: u64 = -100i64 as u64;

/// A file that is to be made, if there is none of its name.
struct New {
    directory: u64,
    path: u64,
    /// Its type and permissions, if it is temporary.
    mode: u32,
}

impl New {
    fn of(number: u64, a: &[u64; 6]) -> Option<Self> {
        let (directory, path, mode) = match number {
            nr::OPEN if a[1] & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL => {
                (AT_FDCWD, a[0], REGULAR | 0o600)
            }
            nr::OPENAT if a[2] & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL => {
                (a[0], a[1], REGULAR | 0o600)
            }
            nr::MKDIR if a[1] & 0o777 == 0o700 => (AT_FDCWD, a[0], DIRECTORY | 0o700),
            nr::MKDIRAT if a[2] & 0o777 == 0o700 => (a[0], a[1], DIRECTORY | 0o700),
            _ => return None,
        };
        Some(Self {
            directory,
            path,
            mode,
        })
    }

    /// `struct stat`, as words.
    fn there(&self) -> Option<[u64; 18]> {
        const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
        let mut stat = [0u64; 18];
        let to = stat.as_mut_ptr() as u64;
        let a = [self.directory, self.path, to, AT_SYMLINK_NOFOLLOW, 0, 0];
        // SAFETY: newfstatat into struct stat's 144 bytes.
        let result = unsafe { sys::call(nr::NEWFSTATAT, a) };
        (result == 0).then_some(stat)
    }
}

/// Whether a call makes a file whose name may be the same in every run.
pub fn concerns(number: u64, a: &[u64; 6]) -> bool {
    (machine::own_getrandom() || turns::on()) && New::of(number, a).is_some()
}

/// Makes the call. `is_called`: whether a signal ends a wait.
pub fn make(
    context: &mut Context,
    number: u64,
    a: [u64; 6],
    is_called: fn(&mut Context) -> bool,
) -> i64 {
    const MONOTONIC: u64 = 1;
    const REALTIME: u64 = 0;
    const PAUSE: u64 = 1;
    let waited = &slots::header().inputs.names_waited;
    let Some(new) = New::of(number, &a) else {
        // SAFETY: as the program made it.
        return unsafe { sys::call(number, a) };
    };
    loop {
        // SAFETY: as the program made it.
        let result = unsafe { sys::call(number, a) };
        if result >= 0 {
            if let Some(stat) = new.there() {
                add(&stat);
            }
            return result;
        }
        if result != -sys::EEXIST {
            return result;
        }
        let since = clock::real(MONOTONIC);
        let there = new.there();
        if let Some(stat) = &there {
            let temporary = stat[3] as u32 & 0o170_777 == new.mode;
            if !temporary || is_own(stat) {
                return result;
            }
            let changed = stat[13].wrapping_mul(clock::SECOND).wrapping_add(stat[14]);
            let old = clock::real(REALTIME).saturating_sub(changed) > OLD;
            let waits = turns::on() && !old && waited.load(Relaxed) < PATIENCE;
            if !waits || is_called(context) {
                if !super::has_ended() {
                    note(context, kind::TAKEN_NAME, name_of(number));
                }
                return result;
            }
        }
        sys::futex_wait(&AtomicU32::new(0), 0, PAUSE);
        let more = clock::real(MONOTONIC).saturating_sub(since);
        waited.fetch_add(more, Relaxed);
    }
}

/// Device and inode; never 0.
fn key(stat: &[u64; 18]) -> u64 {
    crate::shown::mixed(stat[0] ^ stat[1].rotate_left(20)) | 1
}

/// Places that are looked at for one file.
const TRIES: usize = 32;

/// Notes a file of the run's.
fn add(stat: &[u64; 18]) {
    let key = key(stat);
    let made = &slots::header().inputs.made;
    for n in 0..TRIES {
        let Some(place) = made.get((key as usize >> 1).wrapping_add(n) % made.len()) else {
            return;
        };
        let free = place.compare_exchange(0, key, AcqRel, Acquire);
        if free.is_ok() || free == Err(key) {
            return;
        }
    }
}

/// Whether the run has made it. (Where too many are known, as if.)
fn is_own(stat: &[u64; 18]) -> bool {
    let key = key(stat);
    let made = &slots::header().inputs.made;
    for n in 0..TRIES {
        match made
            .get((key as usize >> 1).wrapping_add(n) % made.len())
            .map_or(0, |place| place.load(Acquire))
        {
            0 => return false,
            found if found == key => return true,
            _ => {}
        }
    }
    true
}
