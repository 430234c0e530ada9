//! Calls that are tried without waiting, and again when others have done something.

use super::descriptors::{IN, OUT, SOCKET, from_outside, is_ready, kind, listens, never_waits};
use super::{Step, charge, interrupted, run, token};
use crate::layout::Context;
use crate::schedule_state::{NEVER, cause, why};

pub const DONTWAIT: u64 = 0x40;

/// What a try gave.
pub enum Tried {
    /// The call is over, or will not wait.
    Step(Step),
    /// Not yet.
    NotYet,
}

/// A wait is over without what it was for.
pub enum Over {
    /// Its time is.
    Timeout,
    /// By a signal.
    Signal,
}

/// Tries until something comes of it. `outside`: something that is not of this run can.
pub fn until(
    context: &mut Context,
    deadline: u64,
    outside: impl Fn() -> bool,
    mut attempt: impl FnMut(&mut Context) -> Tried,
) -> Result<Step, Over> {
    let mut waited = None;
    loop {
        if let Tried::Step(step) = attempt(context) {
            if waited.is_some() {
                let mut state = run::lock();
                if state.idle_rounds > 0 {
                    state.note(cause::CAME, context.regs[0]);
                    state.idle_rounds = 0;
                }
            }
            return Ok(step);
        }
        if charge(context) >= deadline {
            return Err(Over::Timeout);
        }
        let outside = *waited.get_or_insert_with(&outside);
        let mut state = run::lock();
        state.wait_try(context.turn, deadline, outside);
        let why = token::give_up(context, state);
        if why == why::INTERRUPTED {
            return Err(Over::Signal);
        }
    }
}

/// Tries, without a limit; a signal ends it, or the call is made again.
pub fn wait_for(
    context: &mut Context,
    restarts: bool,
    outside: impl Fn() -> bool,
    attempt: impl FnMut(&mut Context) -> Tried,
) -> Step {
    match until(context, NEVER, outside, attempt) {
        Ok(step) => step,
        Err(_) => interrupted(context, restarts),
    }
}

/// Made as ever once there is something to read.
pub fn readable(context: &mut Context, fd: u64) -> Step {
    ready(context, fd, IN, false)
}

/// The same, of sockets only.
pub fn received(context: &mut Context, fd: u64) -> Step {
    if kind(fd) != SOCKET {
        return Step::Native;
    }
    readable(context, fd)
}

/// Made as ever once somebody connects.
pub fn accepted(context: &mut Context, fd: u64) -> Step {
    ready(context, fd, IN, true)
}

/// Made as ever once there is room.
pub fn writable(context: &mut Context, fd: u64) -> Step {
    ready(context, fd, OUT, false)
}

fn ready(context: &mut Context, fd: u64, events: u64, accepts: bool) -> Step {
    if is_ready(fd, events) || never_waits(fd, events) || listens(fd) != accepts {
        return Step::Native;
    }
    let outside = || from_outside(fd, true);
    wait_for(context, true, outside, |_| match is_ready(fd, events) {
        true => Tried::Step(Step::Native),
        false => Tried::NotYet,
    })
}
