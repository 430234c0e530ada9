//! Signals under the scheduler. Those who wait have all of them blocked natively, so that the kernel gives a signal to the
//! thread with the token or keeps it: who sends one inside the run notes who may be meant, and those look when their
//! turn comes. What comes from outside the run is named.
//!
//! Facts: `signal(7)`, `sigaction(2)` (si_code), `kill(2)`; `complete_signal` in kernel/signal.c (who gets a signal).

use super::{Step, on, token};
use crate::action::{self, OPEN};
use crate::frames::Info;
use crate::layout::Context;
use crate::program_memory;
use crate::schedule_state::cause;
use crate::syscall_table as nr;
use crate::turns::state;
use crate::{signal_calls, sys};
use core::sync::atomic::{AtomicU32, Ordering::*};

const SIGKILL: u64 = 9;
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

/// The thread has the token: whether only to look for a signal, which there was not.
pub fn looked(context: &mut Context) -> bool {
    let mut state = token::lock();
    if state.thread(context.turn).was == 0 {
        return false;
    }
    if deliverable(context) != 0 {
        state.stops_waiting(context.turn);
        return false;
    }
    state.waits_on(context.turn);
    token::move_on(context, state);
    true
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

/// Whom a call is about to send a signal to: processes, as `kill(2)` names them, or a thread.
fn target(number: u64, a: [u64; 6]) -> Option<(i32, u32, u64)> {
    Some(match number {
        nr::KILL | nr::RT_SIGQUEUEINFO => (a[0] as i32, 0, a[1]),
        nr::TGKILL | nr::RT_TGSIGQUEUEINFO => (a[0] as i32, a[1] as u32, a[2]),
        nr::TKILL => {
            let tid = a[0] as u32;
            let found = token::lock().find(|thread| thread.tid == tid);
            let pid = found.map_or(0, |number| token::lock().thread(number).pid);
            (pid as i32, tid, a[1])
        }
        nr::PIDFD_SEND_SIGNAL => (pid_of(a[0])?, 0, a[1]),
        _ => return None,
    })
}

/// Of a pidfd (proc(5), fdinfo).
fn pid_of(fd: u64) -> Option<i32> {
    super::descriptors::number_in(fd, b"Pid:").map(|pid| pid as i32)
}

/// Process group of a process.
fn group_of(pid: u32) -> i64 {
    // SAFETY: no memory.
    unsafe { sys::call(nr::GETPGID, [pid.into(), 0, 0, 0, 0, 0]) }
}

/// Calls that send signals: those who are meant look. A process that is killed has ended when the call returns.
pub fn call(context: &Context, number: u64, a: [u64; 6]) -> Option<Step> {
    let (who, tid, signal) = target(number, a)?;
    let own_group = group_of(0);
    let meant = |pid: u32| match who {
        0 => group_of(pid) == own_group,
        -1 => true,
        1.. => pid == who.cast_unsigned(),
        group => group_of(pid) == -i64::from(group),
    };
    let mut state = token::lock();
    let mut killed = [0u32; 64];
    let mut last = 0;
    for at in state.numbers() {
        let (pid, ppid) = (state.thread(at).pid, state.thread(at).ppid);
        let new = pid != 0 && pid != last && !killed.contains(&pid);
        if state.thread(at).now == crate::schedule_state::now::GONE || !new || !meant(pid) {
            continue;
        }
        last = pid;
        if signal & 0xffff_ffff != SIGKILL {
            state.look(pid, tid);
        } else if pid != context.pid {
            state.look(ppid, 0);
            if let Some(place) = killed.iter_mut().find(|place| **place == 0) {
                *place = pid;
            }
        }
    }
    drop(state);
    if killed[0] == 0 {
        return Some(Step::Native);
    }
    // SAFETY: as the program made it.
    let result = unsafe { sys::call(number, a) };
    if result == 0 {
        for pid in killed.into_iter().filter(|&pid| pid != 0) {
            token::wait_for_end(pid);
            token::lock().remove_process(pid, 0);
        }
        parents_are_told();
    }
    Some(Step::Done(result))
}

/// Whether a mask lets a signal through that has come.
pub fn lets_through(context: &Context, mask: u64) -> bool {
    let through = |mask: u64| heeded(context, pending() & !mask) != 0;
    mask != 0 && program_memory::read::<u64>(mask).is_some_and(through)
}
