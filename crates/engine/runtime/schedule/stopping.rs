//! A thread stops its own process, or becomes a tracer or a tracee. What it means for the others: `stops`.

use super::run::{lock, tell, word_of};
use super::stops::{SIGSTOP, goes_free, is_parked};
use super::{Step, charge, futex, token};
use crate::action::{self, OPEN};
use crate::layout::Context;
use crate::schedule_state::{Thread, cause, now, why, word};
use crate::syscall_table as nr;
use crate::{signal_calls, sys};
use core::sync::atomic::Ordering::*;

/// SIGTSTP, SIGTTIN, SIGTTOU.
const BY_DEFAULT: u64 = 1 << 19 | 1 << 20 | 1 << 21;

/// A signal to the own process stops it.
fn stops_own(context: &Context, signal: u64) -> bool {
    if signal == SIGSTOP {
        return true;
    }
    let bit = 1u64
        .checked_shl((signal as u32).wrapping_sub(1))
        .unwrap_or(0);
    BY_DEFAULT & bit & !signal_calls::real_mask(context) != 0
        && action::get(context, signal as u32).handler == 0
}

/// The thread sends its own process a signal. `None`: one that does not stop it, or there is nobody else.
pub fn own(context: &mut Context, signal: u64) -> Option<Step> {
    if !stops_own(context, signal) {
        return None;
    }
    charge(context);
    let mut state = lock();
    let next = state.find(|thread| thread.pid != context.pid && is_parked(thread))?;
    let thread = state.edit(context.turn);
    (thread.now, thread.key) = (now::STOPPING, [signal, 0]);
    drop(state);
    tell(next, word::STOP);
    // Only that one comes in.
    let before = sys::set_mask(!OPEN & !(1 << (signal - 1)));
    while lock().thread(context.turn).now == now::STOPPING {
        sys::futex_wait(word_of(context.turn), word::NONE, 1);
    }
    sys::set_mask(before);
    token::park(context);
    Some(Step::Done(0))
}

/// `ptrace(2)`: who is traced from now on goes on beside the others.
pub fn traces(context: &mut Context, a: [u64; 6]) -> Step {
    const TRACEME: u64 = 0;
    const ATTACH: u64 = 16;
    const SEIZE: u64 = 0x4206;
    let mut state = lock();
    let tid = a[1] as u32;
    let pid = match a[0] {
        TRACEME => context.pid,
        ATTACH | SEIZE => state
            .find(|thread| thread.tid == tid)
            .map_or(0, |number| state.thread(number).pid),
        _ => return Step::Native,
    };
    let of_it: fn(&Thread, u32) -> bool = |thread, pid| thread.pid == pid && thread.tid != 0;
    if pid == 0 || pid == context.pid && a[0] != TRACEME {
        return Step::Native;
    }
    state.note(cause::CALL, nr::PTRACE);
    // What is known of this memory is known of its parent, too: it stays until it is another program (`ends::becomes`).
    if pid == context.pid && futex::memory() != u64::from(pid) {
        return Step::Native;
    }
    for number in state.numbers() {
        let thread = state.thread(number);
        if thread.now == now::GONE || !of_it(thread, pid) {
            continue;
        }
        state.wait_other(number, now::OUTSIDE);
        let thread = state.edit(number);
        (thread.stopped, thread.why) = (0, why::INTERRUPTED);
        if number != context.turn {
            thread.word.store(word::FREE, Release);
            sys::futex_wake(&thread.word);
        }
    }
    if pid == context.pid {
        goes_free(state.time);
        token::move_on_without(context, state);
    }
    Step::Native
}
