//! Signals that are sent inside the run: `kill(2)`, `tgkill(2)`, `sigqueue(3)`, `pidfd_send_signal(2)`.

use super::{Step, descriptors, run, signals, stopping, stops, token};
use crate::layout::Context;
use crate::schedule_state::now;
use crate::sys;
use crate::syscall_table as nr;

const SIGKILL: u64 = 9;

/// Whom a call is about to send a signal to: processes, as `kill(2)` names them, or a thread.
fn target(number: u64, a: [u64; 6]) -> Option<(i32, u32, u64)> {
    let (who, tid, signal) = match number {
        nr::KILL | nr::RT_SIGQUEUEINFO => (a[0] as i32, 0, a[1]),
        nr::TGKILL | nr::RT_TGSIGQUEUEINFO => (a[0] as i32, a[1] as u32, a[2]),
        nr::TKILL => {
            let tid = a[0] as u32;
            let state = run::lock();
            let found = state.find(|thread| thread.tid == tid)?;
            (state.thread(found).pid.cast_signed(), tid, a[1])
        }
        nr::PIDFD_SEND_SIGNAL => (pid_of(a[0])?, 0, a[1]),
        _ => return None,
    };
    // Groups are `kill`'s alone.
    (who > 0 || number == nr::KILL).then_some((who, tid, signal))
}

/// Of a pidfd (proc(5), fdinfo).
fn pid_of(fd: u64) -> Option<i32> {
    descriptors::number_in(fd, b"Pid:").map(|pid| pid as i32)
}

/// Process group of a process.
fn group_of(pid: u32) -> i64 {
    // SAFETY: no memory.
    unsafe { sys::call(nr::GETPGID, [pid.into(), 0, 0, 0, 0, 0]) }
}

/// Calls that send signals: those who are meant look. A process that is killed has ended when the call returns.
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> Option<Step> {
    let (who, tid, signal) = target(number, a)?;
    let signal = signal & 0xffff_ffff;
    if who == context.pid.cast_signed()
        && let Some(step) = stopping::own(context, signal)
    {
        return Some(step);
    }
    let own_group = group_of(0);
    let meant = |pid: u32| match who {
        0 => group_of(pid) == own_group,
        -1 => true,
        1.. => pid == who.cast_unsigned(),
        group => group_of(pid) == -i64::from(group),
    };
    let mut state = run::lock();
    // Those that are killed, or stopped.
    let mut killed = [0u32; 64];
    let (mut last, mut own) = (0, false);
    for at in state.numbers() {
        let (pid, ppid) = (state.thread(at).pid, state.thread(at).ppid);
        let new = pid != 0 && pid != last && !killed.contains(&pid);
        if state.thread(at).now == now::GONE || !new || !meant(pid) {
            continue;
        }
        last = pid;
        own |= pid == context.pid;
        if signal == stops::SIGCONT && state.thread(at).stopped != 0 {
            stops::continues(&mut state, pid);
            state.look(ppid, 0);
        }
        if signal != SIGKILL && signal != stops::SIGSTOP {
            state.look(pid, tid);
        } else if pid != context.pid {
            state.look(ppid, 0);
            if let Some(place) = killed.iter_mut().find(|place| **place == 0) {
                *place = pid;
            }
        }
    }
    if killed[0] == 0 || own && signal == stops::SIGSTOP {
        return Some(Step::Native);
    }
    if signal == stops::SIGSTOP {
        // Under the lock, which nobody who is stopped has then.
        // SAFETY: as the program made it.
        let result = unsafe { sys::call(number, a) };
        for pid in killed.into_iter().filter(|&pid| pid != 0 && result == 0) {
            stops::stopped(&mut state, pid);
        }
        return Some(Step::Done(result));
    }
    drop(state);
    // SAFETY: as the program made it.
    let result = unsafe { sys::call(number, a) };
    if result == 0 {
        for pid in killed.into_iter().filter(|&pid| pid != 0) {
            if token::wait_for_end(pid) {
                run::lock().remove_process(pid, 0);
            }
        }
        signals::parents_are_told();
    }
    Some(Step::Done(result))
}
