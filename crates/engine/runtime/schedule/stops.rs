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

use super::kernel::{is_told, kernel_state};
use super::run::{self, Guard, tell};
use crate::layout::Context;
use crate::schedule_state::{Thread, cause, now, word};
use crate::syscall_table as nr;
use crate::{clock, sys, turns};

pub const SIGSTOP: u64 = 19;
pub const SIGCONT: u64 = 18;
/// It sleeps until it has the token.
pub fn is_parked(thread: &Thread) -> bool {
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

/// For a thread of another process: stops that of the token's owner, which asked for it. True: the token is to be moved on.
pub fn carry_out(state: &mut Guard) -> bool {
    let owner = state.owner;
    if owner == 0 || state.thread(owner).now != now::STOPPING {
        return false;
    }
    let (pid, signal) = (state.thread(owner).pid, state.thread(owner).key[0]);
    // SAFETY: a signal that the program sends itself.
    unsafe { sys::call(nr::KILL, [pid.into(), signal, 0, 0, 0, 0]) };
    if stopped(state, pid) {
        state.ends_turn(owner);
        return true;
    }
    // The kernel ignores these signals in a process group without a parent.
    state.edit(owner).now = now::RUN;
    tell(owner, word::TOKEN);
    false
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

/// This process takes no part in the schedule any more; its clock goes on from the run's.
pub fn goes_free(time: u64) {
    clock::goes_on_from(time);
    turns::off();
}

/// The thread was told so.
pub fn freed() {
    let time = run::lock().time;
    goes_free(time);
}
