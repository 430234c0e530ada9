//! Signals under the scheduler. Those who wait have all of them blocked natively, so that the kernel gives a signal to the
//! thread with the token or keeps it: who sends one inside the run notes who may be meant (`sending`), and those look when
//! their turn comes (`token`). What comes from outside the run is named.
//!
//! Facts: `signal(7)`, `sigaction(2)` (si_code), `kill(2)`; `complete_signal` in kernel/signal.c (who gets a signal).

use super::on;
use crate::action::{self, OPEN};
use crate::frames::Info;
use crate::layout::Context;
use crate::program_memory;
use crate::schedule_state::cause;
use crate::syscall_table as nr;
use crate::turns::state;
use crate::{signal_calls, sys};
use core::sync::atomic::{AtomicU32, Ordering::*};

const SIGCHLD: u32 = 17;
/// Ignored by default: SIGCHLD, SIGCONT, SIGURG, SIGWINCH.
const UNIMPORTANT: u64 = 1 << 16 | 1 << 17 | 1 << 22 | 1 << 27;

fn pending_word(context: &Context) -> u32 {
    // SAFETY: a field; the handler of a signal changes it meanwhile.
    unsafe { (&raw const context.pending).read_volatile() }
}

/// Blocks all signals until the thread is about to execute the program again. True where some may have come before.
pub fn shut(context: &mut Context) -> bool {
    if pending_word(context) != 0 {
        return true;
    }
    let mask = sys::set_mask(!OPEN | action::native_mask(context.virtual_mask));
    if pending_word(context) != 0 {
        return true;
    }
    context.pending_mask = mask;
    context.pending = 1;
    false
}

/// A new thread or process has the mask that its parent left in its context.
pub fn born(context: &mut Context) {
    if on() {
        sys::set_mask(!OPEN | action::native_mask(context.virtual_mask));
        context.pending = 1;
    } else {
        sys::set_mask(context.pending_mask);
    }
}

/// Signals that have come, blocked or not.
pub fn pending() -> u64 {
    let mut set = 0u64;
    // SAFETY: writes to a local.
    unsafe {
        sys::call(
            nr::RT_SIGPENDING,
            [core::ptr::from_mut(&mut set) as u64, 8, 0, 0, 0, 0],
        )
    };
    set
}

/// Signals that have come to this thread, are not blocked by the program, and do something.
pub fn deliverable(context: &Context) -> u64 {
    heeded(context, pending() & !signal_calls::real_mask(context))
}

/// Those of `signals` that are not ignored. (The kernel keeps those, too, while they are blocked natively.)
fn heeded(context: &Context, mut signals: u64) -> u64 {
    let mut left = signals;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        left &= !bit;
        let ignored = match action::get(context, bit.trailing_zeros() + 1).handler {
            0 => bit & UNIMPORTANT != 0,
            handler => handler == 1,
        };
        if ignored {
            signals &= !bit;
        }
    }
    signals
}

/// A child's end is visible a moment before its parent has the signal; both happen under a lock of the kernel's, which
/// this call waits for (`exit_notify` in kernel/exit.c).
pub fn parents_are_told() {
    const WNOHANG: u64 = 1;
    const WEXITED: u64 = 4;
    const WNOWAIT: u64 = 0x0100_0000;
    let mut info = [0u64; 16];
    let to = info.as_mut_ptr() as u64;
    // SAFETY: waitid(P_ALL) into a siginfo_t of ours, which changes nothing and does not wait.
    unsafe { sys::call(nr::WAITID, [0, 0, to, WNOHANG | WEXITED | WNOWAIT, 0, 0]) };
}

/// A signal is about to go to the program.
pub fn came(signal: u32, info: &Info) {
    const SI_KERNEL: i32 = 0x80;
    // SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH.
    const TERMINAL: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 19 | 1 << 20 | 1 << 21 | 1 << 27;
    if !on() || signal == SIGCHLD {
        return;
    }
    let outside = match info.code {
        SI_KERNEL => TERMINAL >> (signal - 1) & 1 != 0,
        // SI_USER, SI_QUEUE, SI_TKILL: si_pid. (Without the lock, which this thread may have: bits are only ever set.)
        // SAFETY: mapped for good.
        0 | -1 | -6 => !unsafe { (*state()).known(info.address as u32) },
        _ => false,
    };
    if outside {
        // SAFETY: as above; a word that is only ever incremented.
        let count = unsafe { AtomicU32::from_ptr(&raw mut (*state()).outside[cause::SIGNAL]) };
        count.fetch_add(1, Relaxed);
    }
}

/// Whether a mask lets a signal through that has come.
pub fn lets_through(context: &Context, mask: u64) -> bool {
    let through = |mask: u64| heeded(context, pending() & !mask) != 0;
    mask != 0 && program_memory::read::<u64>(mask).is_some_and(through)
}
