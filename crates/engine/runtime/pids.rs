//! Numbers of threads and processes, where they are held constant: each gets the next one of a row of its own, by `clone3`
//! with `set_tid`, whatever numbers other programs of the machine take meanwhile.
//!
//! Facts: `clone(2)` (`set_tid`: EEXIST, EPERM, EINVAL), `kernel.pid_max`.

use crate::layout::Context;
use crate::syscall_table as nr;
use crate::{slots, sys};
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

/// The number that the first program is told of its parent. That is the launcher, whose own number is any: one beside the
/// program's, then, which has as many digits. `None`: its parent is in the run, or numbers are the kernel's.
fn parent(context: &Context) -> Option<u32> {
    let launcher = slots::header().launcher;
    if !given() || context.parent != launcher {
        return None;
    }
    // SAFETY: no arguments.
    let now = unsafe { sys::call(nr::GETPPID, [0; 6]) };
    if now != i64::from(launcher) {
        return None;
    }
    Some(context.pid ^ 1).filter(|&number| number > 1)
}

/// Whether a call is answered here.
pub fn answers(context: &Context, number: u64, a: &[u64; 6]) -> bool {
    match number {
        nr::GETPPID => parent(context).is_some(),
        nr::KILL => parent(context) == Some(a[0] as u32),
        _ => false,
    }
}

/// The answer to a call that [`answers`]: a signal is for the one who has the number in this run.
pub fn call(context: &Context, number: u64, a: [u64; 6]) -> i64 {
    let parent = parent(context);
    match (number, parent) {
        (nr::GETPPID, Some(parent)) => parent.into(),
        (nr::KILL, Some(_)) => {
            let launcher = u64::from(slots::header().launcher);
            // SAFETY: kill of whom the program means.
            unsafe { sys::call(number, [launcher, a[1], 0, 0, 0, 0]) }
        }
        // SAFETY: passed through as the program made it.
        _ => unsafe { sys::call(number, a) },
    }
}
