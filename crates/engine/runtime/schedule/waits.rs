//! Sleeps, and calls that wait for descriptors and signals: each is tried without waiting, and again when others
//! have done something.

use super::descriptors::{OUT, is_ready, never_waits, set_waits};
use super::tries::{DONTWAIT, Tried, accepted, readable, received, wait_for, writable};
use super::{EAGAIN, Step, interrupted, run, token, writes};
use crate::layout::Context;
use crate::program_memory;
use crate::schedule_state::why;
use crate::syscall_table as nr;
use crate::{clock, open_pages, sys};

/// nanosleep and clock_nanosleep.
pub fn sleep(context: &mut Context, number: u64, a: [u64; 6]) -> Step {
    let (clock, absolute, at, left) = match number {
        nr::NANOSLEEP => (1, false, a[0], a[1]),
        _ => (a[0], a[1] & 1 != 0, a[2], a[3]),
    };
    let (Some(base), Some(time)) = (clock::base(clock), clock::read(at, 1)) else {
        // The kernel says what is wrong, or sleeps by a clock of executed time.
        return Step::Native;
    };
    let now = clock::now(context);
    let deadline = match absolute {
        true => time.saturating_sub(base),
        false => now.saturating_add(time),
    };
    if deadline <= now && absolute {
        return Step::Done(0);
    }
    let mut state = run::lock();
    state.sleep(context.turn, deadline);
    if token::give_up(context, state) != why::INTERRUPTED {
        return Step::Done(0);
    }
    let rest = deadline.saturating_sub(clock::now(context));
    if !absolute && left != 0 && !program_memory::write(left, &clock::pair(rest, 1)) {
        return Step::Done(-sys::EFAULT);
    }
    interrupted(context, false)
}

/// A call that is not known here: the kernel makes it, while others have the token.
pub fn by_the_kernel(context: &mut Context, number: u64, a: [u64; 6], restarts: bool) -> Step {
    open_pages::before(number, a);
    let result = token::outside(context, number, a);
    if result == -super::EINTR {
        return interrupted(context, restarts);
    }
    Step::Done(result)
}

/// The calls of this file.
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> Step {
    match number {
        nr::READ if a[2] == 0 => Step::Native,
        nr::READ | nr::READV | nr::PREADV2 => readable(context, a[0]),
        nr::RECVFROM | nr::RECVMSG if a[flags_at(number)] & DONTWAIT == 0 => {
            received(context, a[0])
        }
        nr::RECVMMSG if a[3] & DONTWAIT == 0 => by_the_kernel(context, number, a, true),
        nr::ACCEPT | nr::ACCEPT4 => accepted(context, a[0]),
        nr::WRITE => writes::write(context, a),
        nr::WRITEV | nr::PWRITEV2 => writes::vector(context, a),
        nr::SENDFILE => writes::file(context, a),
        nr::SENDTO if a[3] & DONTWAIT == 0 => writes::send(context, a),
        nr::SENDMSG if a[2] & DONTWAIT == 0 => writes::message(context, a),
        nr::SENDMMSG if a[3] & DONTWAIT == 0 => writable(context, a[0]),
        nr::CONNECT => connect(context, a),
        nr::SPLICE | nr::TEE | nr::VMSPLICE => splice(context, number, a),
        nr::SEMOP
        | nr::SEMTIMEDOP
        | nr::MSGSND
        | nr::MSGRCV
        | nr::MQ_TIMEDSEND
        | nr::MQ_TIMEDRECEIVE
        | nr::FUTEX_WAITV
        | nr::FUTEX_WAIT
        | nr::IO_GETEVENTS
        | nr::IO_PGETEVENTS
        | nr::IO_URING_ENTER => by_the_kernel(context, number, a, true),
        _ => Step::Native,
    }
}

fn flags_at(number: u64) -> usize {
    if number == nr::RECVFROM { 3 } else { 2 }
}

fn connect(context: &mut Context, a: [u64; 6]) -> Step {
    const EINPROGRESS: i64 = 115;
    const SO_ERROR: u64 = 4;
    if never_waits(a[0], OUT) {
        return Step::Native;
    }
    let mut under_way = false;
    wait_for(
        context,
        true,
        || true,
        |_| {
            if under_way {
                if !is_ready(a[0], OUT) {
                    return Tried::NotYet;
                }
                let (mut error, mut size) = (0u32, 4u32);
                let to = [&raw mut error as u64, &raw mut size as u64];
                // SAFETY: getsockopt(SOL_SOCKET, SO_ERROR) into locals.
                unsafe { sys::call(nr::GETSOCKOPT, [a[0], 1, SO_ERROR, to[0], to[1], 0]) };
                return Tried::Step(Step::Done(-i64::from(error)));
            }
            set_waits(a[0], false);
            // SAFETY: as the program made it.
            let result = unsafe { sys::call(nr::CONNECT, a) };
            set_waits(a[0], true);
            under_way = result == -EINPROGRESS;
            match result {
                result if under_way || result == -EAGAIN => Tried::NotYet,
                result => Tried::Step(Step::Done(result)),
            }
        },
    )
}

fn splice(context: &mut Context, number: u64, a: [u64; 6]) -> Step {
    const SPLICE_F_NONBLOCK: u64 = 2;
    let flags = if number == nr::SPLICE { 5 } else { 3 };
    let has = a
        .get(flags)
        .is_some_and(|flags| flags & SPLICE_F_NONBLOCK != 0);
    attempt(context, number, a, has, move |a| {
        if let Some(flags) = a.get_mut(flags) {
            *flags |= SPLICE_F_NONBLOCK;
        }
    })
}

/// A call that `changed` makes into one that does not wait.
fn attempt(
    context: &mut Context,
    number: u64,
    a: [u64; 6],
    never_waits: bool,
    changed: impl Fn(&mut [u64; 6]),
) -> Step {
    if never_waits {
        return Step::Native;
    }
    let mut now = a;
    changed(&mut now);
    wait_for(
        context,
        true,
        || true,
        |_| {
            // SAFETY: as the program made it, but that it does not wait.
            match unsafe { sys::call(number, now) } {
                result if result == -EAGAIN => Tried::NotYet,
                result => Tried::Step(Step::Done(result)),
            }
        },
    )
}
