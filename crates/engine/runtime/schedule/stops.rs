//! Processes that a signal stops (`SIGSTOP`, or `SIGTSTP`, `SIGTTIN`, `SIGTTOU` by default), and those that another one
//! traces.
//!
//! Who stops its own process has the token and cannot move it on any more: it lets a thread of another process send the
//! signal, under the lock, so that nobody who is stopped holds that. The threads of a stopped process keep what they
//! wait for and their places, and are passed over until `SIGCONT`.
//!
//! A tracer decides when its tracee executes: a traced process goes on beside the others, which the result says.
//!
//! Facts: `signal(7)`, `wait(2)`, `ptrace(2)`; `do_signal_stop` in kernel/signal.c.

use super::run::{Guard, lock, tell, word_of};
use super::token::{self, kernel_state};
use super::{Step, charge, run};
use crate::action::{self, OPEN};
use crate::layout::Context;
use crate::schedule_state::{Thread, cause, now, why, word};
use crate::syscall_table as nr;
use crate::{clock, lines, signal_calls, sys, turns};
use core::sync::atomic::Ordering::*;

pub const SIGSTOP: u64 = 19;
pub const SIGCONT: u64 = 18;
const SIGCHLD: u64 = 17;
/// SIGTSTP, SIGTTIN, SIGTTOU.
const BY_DEFAULT: u64 = 1 << 19 | 1 << 20 | 1 << 21;

/// It sleeps until it has the token.
fn is_parked(thread: &Thread) -> bool {
    let sleeps = matches!(thread.now, now::READY | now::FUTEX | now::SLEEP | now::TRY);
    sleeps && thread.tid != 0 && thread.stopped == 0
}

/// Something that does not take long, or does not come.
fn soon(mut so: impl FnMut() -> bool) -> bool {
    for turn in 0..400 {
        if so() {
            return true;
        }
        if turn < 200 {
            // SAFETY: no arguments.
            unsafe { sys::call(nr::SCHED_YIELD, [0; 6]) };
        } else {
            sys::futex_wait(&core::sync::atomic::AtomicU32::new(0), 0, 1);
        }
    }
    false
}

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

/// A thread of another process: stops that of the token's owner, which asked for it, and moves the token on.
pub fn carry_out(context: &mut Context) {
    let mut state = lock();
    let owner = state.owner;
    if owner == 0 || state.thread(owner).now != now::STOPPING {
        return;
    }
    let (pid, signal) = (state.thread(owner).pid, state.thread(owner).key[0]);
    // SAFETY: a signal that the program sends itself.
    unsafe { sys::call(nr::KILL, [pid.into(), signal, 0, 0, 0, 0]) };
    if !stopped(&mut state, pid) {
        // The kernel ignores these signals in a process group without a parent.
        state.edit(owner).now = now::RUN;
        drop(state);
        return tell(owner, word::TOKEN);
    }
    state.ends_turn(owner);
    token::move_on(context, state);
}

/// Waits until all threads of a process have stopped, and notes it.
pub fn stopped(state: &mut Guard, pid: u32) -> bool {
    let stands = |number: u32| {
        let thread = state.thread(number);
        let there = thread.pid == pid && thread.tid != 0 && thread.now != now::GONE;
        !there || matches!(kernel_state(pid, thread.tid), b'T' | b't')
    };
    if !soon(|| state.numbers().all(stands)) {
        return false;
    }
    let mut parent = 0;
    for number in state.numbers() {
        let thread = state.edit(number);
        if thread.pid == pid {
            thread.stopped = 1;
            parent = parent.max(thread.ppid);
        }
    }
    state.epoch += 1;
    state.look(parent, 0);
    // It has stopped a moment before its parent has the signal for it (if it wants one).
    if state.find(|thread| thread.pid == parent).is_some() {
        for _ in 0..50 {
            if is_told(parent) {
                break;
            }
            // SAFETY: no arguments.
            unsafe { sys::call(nr::SCHED_YIELD, [0; 6]) };
        }
    }
    true
}

/// Whether SIGCHLD has come to a process (proc(5), status: the digits of `ShdPnd` are hexadecimal).
fn is_told(pid: u32) -> bool {
    use core::fmt::Write;
    let mut path = crate::report::Text::new();
    let _ = write!(path, "/proc/{pid}/status\0");
    let mut set = 0;
    if let Ok(path) = core::ffi::CStr::from_bytes_with_nul(path.bytes()) {
        lines::of(path, |line| {
            let digits = line.strip_prefix(b"ShdPnd:")?.trim_ascii();
            let text = core::str::from_utf8(digits).ok()?;
            set = u64::from_str_radix(text, 16).ok()?;
            Some(())
        });
    }
    set >> (SIGCHLD - 1) & 1 != 0
}

/// A process is about to be continued by one of the run.
pub fn continues(state: &mut Guard, pid: u32) {
    for number in state.numbers() {
        if state.thread(number).pid == pid {
            state.edit(number).stopped = 0;
        }
    }
    state.epoch += 1;
}

/// This thread executes, so its process is not stopped any more. True: it was, and nobody of the run continued it.
pub fn continued(context: &Context, state: &mut Guard) -> bool {
    let was = state.thread(context.turn).stopped != 0;
    if was {
        continues(state, context.pid);
        state.note(cause::SIGNAL, 0);
    }
    was
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

/// This process takes no part in the schedule any more; its clock goes on from the run's.
fn goes_free(time: u64) {
    clock::goes_on_from(time);
    turns::off();
}

/// The thread was told so.
pub fn freed() {
    let time = run::lock().time;
    goes_free(time);
}
