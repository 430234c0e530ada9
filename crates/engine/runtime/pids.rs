//! Numbers of threads and processes, where they are held constant: each gets the next one of a row of its own, by `clone3`
//! with `set_tid`, whatever numbers other programs of the machine take meanwhile.
//!
//! Facts: `clone(2)` (`set_tid`: EEXIST, EPERM, EINVAL), `kernel.pid_max`.

use crate::slots;
use core::sync::atomic::Ordering::*;

/// The number of the next child; `None`: the kernel chooses.
pub fn next() -> Option<u32> {
    let header = slots::header();
    let inputs = &header.inputs;
    if inputs.next_pid.load(Acquire) == 0 || header.strangers.load(Relaxed) != 0 {
        return None;
    }
    let number = inputs.next_pid.fetch_add(1, AcqRel);
    if number == 0 || number >= inputs.pid_limit.load(Relaxed) {
        give_up();
        return None;
    }
    Some(number)
}

/// From now on the kernel chooses: it does not let this program choose, or numbers mean something else here.
pub fn give_up() {
    slots::header().inputs.next_pid.store(0, Release);
}

/// Numbers are given here.
pub fn given() -> bool {
    slots::header().inputs.next_pid.load(Acquire) != 0
}
