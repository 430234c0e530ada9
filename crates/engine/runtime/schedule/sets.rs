//! Waits for one of several descriptors, with a limit and perhaps another signal mask: `poll(2)`, `select(2)`,
//! `epoll_wait(2)`; and waits for signals.

use super::descriptors::from_outside;
use super::signals::{lets_through, pending};
use super::tries::{Over, Tried, until, wait_for};
use super::{EAGAIN, Step, interrupted};
use crate::layout::Context;
use crate::program_memory::{self, Plain};
use crate::schedule_state::NEVER;
use crate::syscall_table as nr;
use crate::{clock, sys};

const MILLISECOND: u64 = 1_000_000;

/// The calls of this file; `None`: another.
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> Option<Step> {
    Some(match number {
        nr::POLL | nr::PPOLL => poll(context, number, a),
        nr::SELECT | nr::PSELECT6 => select(context, number, a),
        nr::EPOLL_WAIT | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => epoll(context, number, a),
        nr::PAUSE => wait_for(context, false, || false, |_| Tried::NotYet),
        nr::RT_SIGSUSPEND => suspend(context, a),
        nr::RT_SIGTIMEDWAIT => wait_signal(context, a),
        _ => return None,
    })
}

/// Where a wait of so long ends.
fn after(context: &mut Context, length: Option<u64>) -> u64 {
    match length {
        None => NEVER,
        Some(length) => clock::now(context).saturating_add(length),
    }
}

/// A limit in memory, where there is one; or the kernel says what is wrong with it.
fn limit(at: u64, parts: u64) -> Result<Option<u64>, ()> {
    match at {
        0 => Ok(None),
        at => clock::read(at, parts).map(Some).ok_or(()),
    }
}

/// A wait with a limit for one of `attempt`'s events. What is left is noted where the kernel does.
fn limited(
    context: &mut Context,
    mask: u64,
    deadline: u64,
    outside: impl Fn() -> bool,
    mut attempt: impl FnMut() -> i64,
) -> Step {
    let result = until(context, deadline, outside, |context| {
        if lets_through(context, mask) {
            return Tried::Step(Step::Native);
        }
        match attempt() {
            0 => Tried::NotYet,
            result => Tried::Step(Step::Done(result)),
        }
    });
    match result {
        Ok(step) => step,
        Err(Over::Timeout) => Step::Done(0),
        Err(Over::Signal) => interrupted(context, false),
    }
}

fn note_rest<T: Plain>(context: &mut Context, deadline: u64, at: u64, rest: impl Fn(u64) -> T) {
    if at != 0 && deadline != NEVER {
        let left = deadline.saturating_sub(clock::now(context));
        // Where it cannot be written, the kernel would not say so either.
        let _ = program_memory::write(at, &rest(left));
    }
}

/// poll and its kin.
fn poll(context: &mut Context, number: u64, a: [u64; 6]) -> Step {
    let (length, mask) = match number {
        nr::POLL => {
            let length = a[2] as i32;
            (
                u64::try_from(length)
                    .ok()
                    .map(|length| length * MILLISECOND),
                0,
            )
        }
        _ => match limit(a[2], 1) {
            Ok(length) => (length, a[3]),
            Err(()) => return Step::Native,
        },
    };
    let deadline = after(context, length);
    let outside = || {
        (0..a[1]).any(|at| {
            let fd = program_memory::read::<u32>(a[0] + 8 * at);
            fd.is_some_and(|fd| fd.cast_signed() >= 0 && from_outside(fd.into(), true))
        })
    };
    let step = limited(context, mask, deadline, outside, || {
        // SAFETY: poll as the program made it, but that it does not wait.
        unsafe { sys::call(nr::POLL, [a[0], a[1], 0, 0, 0, 0]) }
    });
    if number == nr::PPOLL && matches!(step, Step::Done(_)) {
        note_rest(context, deadline, a[2], |left| clock::pair(left, 1));
    }
    step
}

/// select and its kin.
fn select(context: &mut Context, number: u64, a: [u64; 6]) -> Step {
    const MOST: u64 = 1024;
    let parts = if number == nr::SELECT { 1000 } else { 1 };
    let Ok(length) = limit(a[4], parts) else {
        return Step::Native;
    };
    let mask = match number {
        nr::PSELECT6 if a[5] != 0 => program_memory::read::<u64>(a[5]).unwrap_or(0),
        _ => 0,
    };
    if a[0] > MOST {
        return Step::Native;
    }
    let bytes = a[0].div_ceil(64) as usize * 8;
    let mut sets = [[0u64; 16]; 3];
    let given = [a[1], a[2], a[3]];
    let deadline = after(context, length);
    let none = [0u64; 2];
    let outside = || {
        (0..a[0]).any(|fd| {
            let is_in = |at: &u64| {
                *at != 0
                    && program_memory::read::<u8>(at + fd / 8)
                        .is_some_and(|byte| byte >> (fd % 8) & 1 != 0)
            };
            given.iter().any(is_in) && from_outside(fd, true)
        })
    };
    let step = limited(context, mask, deadline, outside, || {
        // The kernel writes into the sets: it gets copies until there is something.
        let mut copies = [0u64; 3];
        for ((set, &at), copy) in sets.iter_mut().zip(&given).zip(&mut copies) {
            // SAFETY: as many bytes of our words.
            let to =
                unsafe { core::slice::from_raw_parts_mut(set.as_mut_ptr().cast::<u8>(), bytes) };
            if at != 0 && !program_memory::read_bytes(to, at) {
                return -sys::EFAULT;
            }
            *copy = if at == 0 { 0 } else { set.as_mut_ptr() as u64 };
        }
        let [read, write, except] = copies;
        let limit = none.as_ptr() as u64;
        // SAFETY: select on our sets, without waiting (struct timeval and timespec of zero are the same).
        unsafe { sys::call(nr::PSELECT6, [a[0], read, write, except, limit, 0]) }
    });
    let Step::Done(result) = step else {
        return step;
    };
    if result >= 0 {
        for (set, &at) in sets.iter().zip(&given) {
            let set = if result == 0 { &[0; 16] } else { set };
            if at != 0 && !program_memory::copy(at, set.as_ptr() as u64, bytes as u64) {
                return Step::Done(-sys::EFAULT);
            }
        }
    }
    note_rest(context, deadline, a[4], |left| clock::pair(left, parts));
    step
}

/// epoll and its kin.
fn epoll(context: &mut Context, number: u64, a: [u64; 6]) -> Step {
    let (length, mask) = match number {
        nr::EPOLL_PWAIT2 => match limit(a[3], 1) {
            Ok(length) => (length, a[4]),
            Err(()) => return Step::Native,
        },
        _ => {
            let length = u64::try_from(a[3] as i32).ok();
            let mask = if number == nr::EPOLL_PWAIT { a[4] } else { 0 };
            (length.map(|length| length * MILLISECOND), mask)
        }
    };
    let deadline = after(context, length);
    let outside = || from_outside(a[0], true);
    limited(context, mask, deadline, outside, || {
        // SAFETY: epoll_wait as the program made it, but that it does not wait.
        unsafe { sys::call(nr::EPOLL_WAIT, [a[0], a[1], a[2], 0, 0, 0]) }
    })
}

/// rt_sigsuspend: the kernel's, once there is a signal that it lets through.
fn suspend(context: &mut Context, a: [u64; 6]) -> Step {
    let mask = a[0];
    wait_for(
        context,
        false,
        || false,
        |context| match lets_through(context, mask) {
            true => Tried::Step(Step::Native),
            false => Tried::NotYet,
        },
    )
}

/// rt_sigtimedwait.
fn wait_signal(context: &mut Context, a: [u64; 6]) -> Step {
    let (Some(set), Ok(length)) = (program_memory::read::<u64>(a[0]), limit(a[2], 1)) else {
        return Step::Native;
    };
    let deadline = after(context, length);
    let result = until(
        context,
        deadline,
        || false,
        |_| match pending() & set != 0 {
            true => Tried::Step(Step::Native),
            false => Tried::NotYet,
        },
    );
    match result {
        Ok(step) => step,
        Err(Over::Timeout) => Step::Done(-EAGAIN),
        Err(Over::Signal) => interrupted(context, false),
    }
}
