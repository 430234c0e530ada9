//! Waiting for children with what they used (`struct rusage`), which is the kernel's word and another one in every run: with
//! the engine's own clock it is nothing, as in `getrusage(RUSAGE_CHILDREN)`.
//!
//! Facts: `wait4(2)`; `kernel_waitid` in kernel/exit.c (what is written when there is no child that has ended).

use crate::layout::Context;
use crate::syscall_table as nr;
use crate::{clock, entry, schedule, sys};

const WNOHANG: u64 = 1;
const EINTR: i64 = 4;

/// Whether a call is answered here.
pub fn answers(number: u64, a: &[u64; 6]) -> bool {
    let usage = match number {
        nr::WAIT4 => a[3],
        nr::WAITID => a[4],
        _ => 0,
    };
    usage != 0 && clock::on()
}

/// The answer to a call that [`answers`].
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    let (options, usage) = match number {
        nr::WAIT4 => (a[2], a[3]),
        _ => (a[3], a[4]),
    };
    let result = if options & WNOHANG != 0 || schedule::on() {
        // SAFETY: as the program made it; it does not wait: with the scheduler there is a child that has ended.
        unsafe { sys::call(number, a) }
    } else {
        // SAFETY: as the program made it.
        unsafe { entry::rt_wait(number, a.as_ptr()) }
    };
    if result == -EINTR && schedule::restarts(context) {
        context.pc = context.pc.wrapping_sub(2);
        return number as i64;
    }
    // Where no child has ended nothing is written, but by waitid, which then writes zeros.
    match result {
        result if result < 0 || result == 0 && number == nr::WAIT4 => result,
        result => clock::used(usage, 0, result),
    }
}
