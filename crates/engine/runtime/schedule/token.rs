//! Who has the token: waiting for it, moving it on, and what if a thread that has it is gone, sleeps in the kernel, or
//! executes for ever.

use super::kernel::{is_traced, kernel_state, waits_for_truecount};
use super::run::{Guard, bell, lock, tell, word_of};
use super::signals::{deliverable, shut};
use super::{charge, signals, state, stops, timers};
use crate::entry;
use crate::layout::Context;
use crate::schedule_state::{Move, NEVER, cause, now, why, word};
use crate::syscall_table as nr;
use crate::{check, clock, sys};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// The thread goes on only if it has the token: it may have been made to go on beside others.
pub fn own(context: &mut Context) {
    // SAFETY: a word that is this thread's number as long as it has the token.
    if unsafe { (&raw const (*state()).owner).read_volatile() } == context.turn {
        return;
    }
    let mut state = lock();
    if state.owner != context.turn {
        if state.thread(context.turn).now != now::READY {
            state.ready(context.turn, why::TURN);
        }
        come_back(context, state);
    }
}

/// A thread is ready that was outside. Where all wait, one of them has to know.
pub fn come_back(context: &mut Context, state: Guard) {
    shut(context);
    go_on(context, state);
    park(context);
}

/// Tells who waits for all that somebody is ready.
fn ring(state: Guard) {
    drop(state);
    bell().fetch_add(1, AcqRel);
    sys::futex_wake(bell());
}

/// The thread has noted that it waits: the token moves on, and it goes on when it comes round again. Why it does.
pub fn give_up(context: &mut Context, mut state: Guard) -> u32 {
    // What has come by now ends the wait before it begins; what comes later is looked at when it is sent.
    if shut(context) && deliverable(context) != 0 {
        state.interrupt(context.turn);
    }
    move_on(context, state);
    park(context);
    lock().thread(context.turn).why
}

/// Moves the token on, which nobody has.
pub fn move_on(context: &mut Context, mut state: Guard) {
    if let Err(what) = state.check() {
        drop(state);
        check!(false, "schedule: {what}");
        return;
    }
    match timers::move_on(&mut state) {
        Some(next) => {
            state.idler = 0;
            drop(state);
            tell(next, word::TOKEN);
        }
        None => {
            state.idler = context.turn;
            drop(state);
            idle(context);
        }
    }
}

/// How long one sleeps before it is looked whether who has the token is still there, milliseconds.
const TICK: u64 = 100;

/// Sleeps until the thread has the token.
pub fn park(context: &mut Context) {
    let own = word_of(context.turn);
    let mut stuck = Stuck::default();
    shut(context);
    loop {
        match own.swap(word::NONE, AcqRel) {
            word::TOKEN if looked(context) => continue,
            word::TOKEN => break,
            word::MOVE => {
                relieve(context);
                continue;
            }
            word::STOP => {
                stop(context);
                continue;
            }
            word::FREE => return stops::freed(),
            _ => {}
        }
        let leaving = {
            let state = lock();
            state.owner != 0 && state.thread(state.owner).now == now::LEAVING && is_gone(&state)
        };
        if leaving {
            relieve(context);
            continue;
        }
        sys::futex_wait(own, word::NONE, TICK);
        if own.load(Acquire) == word::NONE {
            stuck.look(context);
            let mut state = lock();
            if stops::continued(context, &mut state) {
                go_on(context, state);
            } else {
                drop(state);
            }
            notice(context);
        }
    }
    timers::write(context);
}

/// The thread has the token: whether only to look for a signal, which there was not.
fn looked(context: &mut Context) -> bool {
    let mut state = lock();
    if state.thread(context.turn).was == 0 {
        return false;
    }
    if deliverable(context) != 0 {
        state.stops_waiting(context.turn);
        return false;
    }
    state.waits_on(context.turn);
    move_on(context, state);
    true
}

/// A signal came to this thread from outside the run: what it waits for is over. (Those of the run's own are looked at in
/// the order of sending.)
fn notice(context: &mut Context) {
    if deliverable(context) == 0 {
        return;
    }
    let mut state = lock();
    let own = state.thread(context.turn);
    // Whose parent has a signal for it that ended just now is dealt with first.
    let ends =
        state.owner != 0 && (state.thread(state.owner).now == now::LEAVING || is_gone(&state));
    if own.look != 0 || ends || !state.interrupt(context.turn) {
        return;
    }
    state.note(cause::SIGNAL, 0);
    go_on(context, state);
}

/// Somebody may be ready: where all wait, the token moves on.
fn go_on(context: &mut Context, state: Guard) {
    match (state.owner, state.idler) {
        (0, 0) => move_on(context, state),
        (0, _) => ring(state),
        _ => drop(state),
    }
}

/// All wait: until something comes from outside, or until time has passed.
fn idle(context: &mut Context) {
    const MONOTONIC: u64 = 1;
    loop {
        let value = bell().load(Acquire);
        let mut state = lock();
        if state.owner != 0 || state.idler != context.turn {
            return;
        }
        // (The run's own, as its timers', are looked at in the order of sending.)
        let from_outside = state.thread(context.turn).look == 0 && deliverable(context) != 0;
        if from_outside && state.interrupt(context.turn) {
            state.note(cause::SIGNAL, 0);
        }
        let real = clock::real(MONOTONIC);
        if state.idle_rounds == 0 {
            state.idle_since = real;
        }
        let passed = real.saturating_sub(state.idle_since);
        match state.move_on() {
            Move::Run(next) => {
                state.idler = 0;
                drop(state);
                tell(next, word::TOKEN);
                return;
            }
            Move::Fire(timer) => timers::fire(&mut state, &timer),
            Move::Idle { deadline, outside } => {
                let left = deadline.saturating_sub(state.time);
                if deadline != NEVER && passed >= left {
                    state.time = deadline;
                    state.idle_rounds = 0;
                    continue;
                }
                let rounds = state.idle_rounds;
                if rounds % 16 == 15 {
                    forget_the_gone(&mut state);
                }
                if rounds == 50 && !outside {
                    state.note(cause::DEADLOCK, 0);
                }
                drop(state);
                let pause = 1 << rounds.min(4);
                let most = (left.saturating_sub(passed) / 1_000_000 + 1).min(pause);
                sys::futex_wait(bell(), value, most);
                let mut state = lock();
                if state.owner == 0 && state.idler == context.turn {
                    state.look_outside();
                }
            }
        }
    }
}

/// Threads that were killed, or went on natively and have ended, are no reason to wait.
fn forget_the_gone(state: &mut Guard) {
    let numbers = state.numbers();
    for number in numbers {
        let thread = state.thread(number);
        let known = thread.now != now::GONE && thread.tid != 0;
        if known && is_over(thread.pid, thread.tid) {
            state.remove(number);
        }
    }
}

/// Whether a thread has ended.
pub fn is_over(pid: u32, tid: u32) -> bool {
    // SAFETY: signal 0 only asks whether the thread exists.
    let gone = unsafe { sys::call(nr::TGKILL, [pid.into(), tid.into(), 0, 0, 0, 0]) } == -3;
    gone || is_process_over(pid)
}

/// Whether a process has ended: it may be a zombie.
pub fn is_process_over(pid: u32) -> bool {
    // SAFETY: pidfd_open, poll of the one descriptor that it gives, without waiting, and its close.
    unsafe {
        let fd = sys::call(nr::PIDFD_OPEN, [u64::from(pid), 0, 0, 0, 0, 0]);
        if fd < 0 {
            return fd == -3;
        }
        let poll = fd as u64 & 0xffff_ffff | 1 << 32;
        let over = sys::call(nr::POLL, [&raw const poll as u64, 1, 0, 0, 0, 0]) == 1;
        sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
        over
    }
}

/// Whether the owner is there no more.
fn is_gone(state: &Guard) -> bool {
    let owner = state.thread(state.owner);
    owner.tid != 0 && is_over(owner.pid, owner.tid)
}

/// Waits until something is so that does not take long.
fn patiently(mut so: impl FnMut() -> bool) {
    for turn in 0u32.. {
        if so() {
            return;
        }
        if turn < 200 {
            // SAFETY: no arguments.
            unsafe { sys::call(nr::SCHED_YIELD, [0; 6]) };
        } else {
            sys::futex_wait(&AtomicU32::new(0), 0, 1);
        }
    }
}

/// Waits until a process that was killed has ended. False: it is traced, and its threads end for their tracer only.
pub fn wait_for_end(pid: u32) -> bool {
    let mut over = false;
    patiently(|| {
        over = is_process_over(pid);
        over || is_traced(pid)
    });
    over
}

/// Waits for the end of the token's owner, which is leaving, and moves the token on.
fn relieve(context: &mut Context) {
    let (leaver, pid, tid, whole) = {
        let state = lock();
        let thread = state.thread(state.owner);
        // Another one may have been quicker: then the token is with somebody who is alive.
        if state.owner == 0 || thread.now != now::LEAVING && !is_gone(&state) {
            return;
        }
        (state.owner, thread.pid, thread.tid, thread.bits != 0)
    };
    patiently(|| match whole {
        true => is_process_over(pid),
        // The first thread stays, dead, as long as there are others (where nobody can tell, that has to do).
        false if pid == tid => matches!(kernel_state(pid, tid), 0 | b'Z' | b'X'),
        false => is_over(pid, tid),
    });
    let whole = whole || is_process_over(pid);
    if whole {
        signals::parents_are_told();
    }
    let mut state = lock();
    let now = state.thread(leaver);
    if state.owner != leaver || (now.pid, now.tid) != (pid, tid) {
        return;
    }
    if whole {
        let parent = now.ppid;
        state.look(parent, 0);
        state.remove_process(pid, 0);
    } else {
        state.remove(leaver);
    }
    state.owner = 0;
    move_on(context, state);
}

/// Stops the process of the token's owner, which asked for it, and moves the token on.
fn stop(context: &mut Context) {
    let mut state = lock();
    if stops::carry_out(&mut state) {
        move_on(context, state);
    }
}

/// Whether the run does not go on although it could.
#[derive(Default)]
struct Stuck {
    moves: u64,
    asleep: u32,
    busy: u32,
    stopped: u32,
}

impl Stuck {
    /// Looks at the token's owner; called about every [`TICK`].
    fn look(&mut self, context: &mut Context) {
        let mut state = lock();
        let owner = state.owner;
        if owner == 0 {
            let idler = state.thread(state.idler);
            let lost = idler.now == now::GONE || idler.tid != 0 && is_over(idler.pid, idler.tid);
            if lost && state.idler != context.turn {
                state.idler = context.turn;
                drop(state);
                idle(context);
            }
            return;
        }
        let (pid, tid, is, becomes) = {
            let thread = state.thread(owner);
            (thread.pid, thread.tid, thread.now, thread.exec != 0)
        };
        if tid != 0 && is_gone(&state) {
            let whole = is_process_over(pid);
            state.edit(owner).bits = u32::from(whole);
            drop(state);
            relieve(context);
            return;
        }
        if self.moves != state.moves || !matches!(is, now::RUN | now::STOPPING) || tid == 0 {
            *self = Self {
                moves: state.moves,
                ..Self::default()
            };
            return;
        }
        let others = state.first().is_some();
        match kernel_state(pid, tid) {
            // The launcher has it, which may have little of a busy machine.
            b'S' | b'T' | b't' if others && (becomes || waits_for_truecount(pid, tid)) => {
                (self.asleep, self.stopped, self.busy) = (0, 0, self.busy + 1);
            }
            b'T' | b't' if pid != context.pid => self.stopped += 1,
            b'S' | b'T' | b't' if others => self.asleep += 1,
            _ if others => (self.asleep, self.busy) = (0, self.busy + 1),
            _ => (self.asleep, self.busy) = (0, 0),
        }
        if is == now::STOPPING {
            // Who was to stop it is gone.
            drop(state);
            return match self.busy + self.asleep {
                0..5 => {}
                _ => stop(context),
            };
        }
        if self.asleep >= 20 || self.busy >= 300 || self.stopped >= 2 {
            let cause = match self.busy >= 300 {
                true => cause::FORCED,
                false => cause::CALL,
            };
            state.note(cause, 0);
            state.wait_other(owner, now::OUTSIDE);
            move_on(context, state);
            *self = Self::default();
        }
    }
}

/// A call of the kernel's during which others have the token.
pub fn outside(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    charge(context);
    let mut state = lock();
    state.note(cause::CALL, number);
    state.wait_other(context.turn, now::OUTSIDE);
    move_on_without(context, state);
    // SAFETY: as the program made it.
    let result = unsafe { entry::rt_wait(number, a.as_ptr()) };
    let mut state = lock();
    state.epoch += 1;
    state.ready(context.turn, why::TURN);
    come_back(context, state);
    result
}

/// The token moves on from a thread that will not sleep here: where all the others wait, one of them has to know.
pub fn move_on_without(_context: &Context, mut state: Guard) {
    state.idler = 0;
    // Where all wait, whoever sleeps and looks first takes over.
    if let Some(next) = timers::move_on(&mut state) {
        drop(state);
        tell(next, word::TOKEN);
    }
}
