//! `prctl(PR_SET_MDWE)`: memory that was not executable does not become so. The kernel would hold the engine to it, whose
//! code is written and executed, so the runtime holds the program to it (mm/mprotect.c, `map_deny_write_exec`). The next
//! image of the process has the kernel's.

use crate::engine;
use crate::pages::{EXEC, WRITE};
use crate::sys;
use crate::syscall_table as nr;
use core::sync::atomic::{AtomicU64, Ordering::*};

pub const SET: u64 = 65;
pub const GET: u64 = 66;
const REFUSE_GAIN: u64 = 1;
const NO_INHERIT: u64 = 2;
const EACCES: i64 = 13;

/// What the program asked for; 0: nothing.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// The two calls of `prctl` about it.
pub fn call(a: [u64; 6]) -> i64 {
    // SAFETY: only asks.
    let native = unsafe { sys::call(nr::PRCTL, [GET, 0, 0, 0, 0, 0]) };
    // Not known to this kernel, or the kernel's from before.
    if native != 0 {
        // SAFETY: as the program made it.
        return unsafe { sys::call(nr::PRCTL, a) };
    }
    let before = ASKED.load(Relaxed);
    if a[0] == GET {
        return match a[1] | a[2] | a[3] | a[4] {
            0 => before as i64,
            _ => -sys::EINVAL,
        };
    }
    let bits = a[1];
    let valid = bits & !(REFUSE_GAIN | NO_INHERIT) == 0 && bits != NO_INHERIT;
    if a[2] | a[3] | a[4] != 0 || !valid {
        return -sys::EINVAL;
    }
    if before != 0 && before != bits {
        return -sys::EPERM;
    }
    ASKED.store(bits, Relaxed);
    0
}

/// What `mmap` and `mprotect` of the program's answer where it is not allowed.
pub fn refuses(number: u64, a: [u64; 6]) -> Option<i64> {
    let (write, exec) = (u64::from(WRITE), u64::from(EXEC));
    if ASKED.load(Relaxed) == 0 || a[2] & exec == 0 {
        return None;
    }
    let gains = || {
        let end = a[0].saturating_add(a[1]);
        let mut engine = engine::lock();
        engine.pages.lacks_execution(a[0], end)
    };
    let refused = a[2] & write != 0 || number != nr::MMAP && gains();
    refused.then_some(-EACCES)
}

/// In a child that `fork` made.
pub fn forked() {
    if ASKED.load(Relaxed) & NO_INHERIT != 0 {
        ASKED.store(0, Relaxed);
    }
}

/// The next image is held to it by the kernel.
pub fn before_exec() {
    let bits = ASKED.load(Relaxed);
    if bits & (REFUSE_GAIN | NO_INHERIT) == REFUSE_GAIN {
        // SAFETY: from here on only what the engine maps anew fails.
        unsafe { sys::call(nr::PRCTL, [SET, bits, 0, 0, 0, 0]) };
    }
}
