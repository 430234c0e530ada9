//! Sleeps, and calls that wait for descriptors, locks and signals: each is tried without waiting, and again when others
//! have done something.

use super::descriptors::{
    FIFO, IN, OUT, REGULAR, SOCKET, from_outside, is_ready, kind, never_waits, set_waits,
};
use super::{EAGAIN, Step, charge, interrupted, pending, token};
use crate::layout::Context;
use crate::program_memory::{self, Plain};
use crate::schedule_state::{NEVER, cause, why};
use crate::syscall_table as nr;
use crate::{clock, sys};

const MILLISECOND: u64 = 1_000_000;
const DONTWAIT: u64 = 0x40;
/// What a pipe takes at once or not at all (`PIPE_BUF`).
const ATOMIC: u64 = 4096;

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
                let mut state = token::lock();
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
        let mut state = token::lock();
        state.wait_try(context.turn, deadline, outside);
        let why = token::give_up(context, state);
        if why == why::INTERRUPTED {
            return Err(Over::Signal);
        }
    }
}

/// Tries, without a limit; a signal ends it, or the call is made again.
fn wait_for(
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
    let mut state = token::lock();
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
    let result = token::outside(context, number, a);
    if result == -super::EINTR {
        return interrupted(context, restarts);
    }
    Step::Done(result)
}

/// The calls of this file.
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> Step {
    match number {
        nr::READ | nr::READV | nr::PREADV2 => readable(context, a[0]),
        nr::RECVFROM | nr::RECVMSG if a[flags_at(number)] & DONTWAIT == 0 => {
            readable(context, a[0])
        }
        nr::RECVMMSG if a[3] & DONTWAIT == 0 => by_the_kernel(context, number, a, true),
        nr::ACCEPT | nr::ACCEPT4 => readable(context, a[0]),
        nr::WRITE => write(context, a),
        nr::WRITEV | nr::PWRITEV2 | nr::SENDFILE => writable(context, a[0]),
        nr::SENDTO if a[3] & DONTWAIT == 0 => send(context, a),
        nr::SENDMSG if a[2] & DONTWAIT == 0 => writable(context, a[0]),
        nr::SENDMMSG if a[3] & DONTWAIT == 0 => writable(context, a[0]),
        nr::CONNECT => connect(context, a),
        nr::SPLICE | nr::TEE | nr::VMSPLICE => splice(context, number, a),
        nr::FLOCK => attempt(context, number, a, a[1] & 4 != 0, |a| a[1] |= 4),
        nr::FCNTL if matches!(a[1], 7 | 38) => attempt(context, number, a, false, |a| a[1] -= 1),
        nr::POLL | nr::PPOLL => poll(context, number, a),
        nr::SELECT | nr::PSELECT6 => select(context, number, a),
        nr::EPOLL_WAIT | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => epoll(context, number, a),
        nr::PAUSE => wait_for(context, false, || true, |_| Tried::NotYet),
        nr::RT_SIGSUSPEND => suspend(context, a),
        nr::RT_SIGTIMEDWAIT => wait_signal(context, a),
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

/// Made as ever once there is something to read.
fn readable(context: &mut Context, fd: u64) -> Step {
    ready(context, fd, IN)
}

/// Made as ever once there is room.
fn writable(context: &mut Context, fd: u64) -> Step {
    ready(context, fd, OUT)
}

fn ready(context: &mut Context, fd: u64, events: u64) -> Step {
    if is_ready(fd, events) || never_waits(fd) {
        return Step::Native;
    }
    let outside = || from_outside(fd, true);
    wait_for(context, true, outside, |_| match is_ready(fd, events) {
        true => Tried::Step(Step::Native),
        false => Tried::NotYet,
    })
}

/// A longer write: as much as there is room for each time.
fn write(context: &mut Context, a: [u64; 6]) -> Step {
    if a[2] <= ATOMIC {
        return writable(context, a[0]);
    }
    match kind(a[0]) {
        REGULAR => Step::Native,
        _ if never_waits(a[0]) => Step::Native,
        FIFO => in_parts(context, a, |a, done| {
            if !is_ready(a[0], OUT) {
                return -EAGAIN;
            }
            let length = (a[2] - done).min(ATOMIC);
            // SAFETY: a part of what the program writes.
            unsafe { sys::call(nr::WRITE, [a[0], a[1] + done, length, 0, 0, 0]) }
        }),
        SOCKET => in_parts(context, a, |a, done| {
            let part = [a[0], a[1] + done, a[2] - done, DONTWAIT, 0, 0];
            // SAFETY: as above.
            unsafe { sys::call(nr::SENDTO, part) }
        }),
        _ => writable(context, a[0]),
    }
}

/// sendto.
fn send(context: &mut Context, a: [u64; 6]) -> Step {
    if never_waits(a[0]) {
        return Step::Native;
    }
    in_parts(context, a, |a, done| {
        let part = [a[0], a[1] + done, a[2] - done, a[3] | DONTWAIT, a[4], a[5]];
        // SAFETY: as the program made it, but for what is written already.
        unsafe { sys::call(nr::SENDTO, part) }
    })
}

/// Writes until all is written.
fn in_parts(
    context: &mut Context,
    a: [u64; 6],
    mut part: impl FnMut(&[u64; 6], u64) -> i64,
) -> Step {
    let mut done = 0;
    let outside = || from_outside(a[0], true);
    let result = until(context, NEVER, outside, |_| {
        loop {
            match part(&a, done) {
                result if result == -EAGAIN => {
                    token::lock().epoch += 1;
                    return Tried::NotYet;
                }
                // What a part cannot do after others could is told the next time.
                result if result < 0 => {
                    let result = if done > 0 { done as i64 } else { result };
                    return Tried::Step(Step::Done(result));
                }
                more => done += more as u64,
            }
            if done >= a[2] {
                return Tried::Step(Step::Done(done as i64));
            }
        }
    });
    match result {
        Ok(step) => step,
        Err(_) if done > 0 => Step::Done(done as i64),
        Err(_) => interrupted(context, true),
    }
}

fn connect(context: &mut Context, a: [u64; 6]) -> Step {
    const EINPROGRESS: i64 = 115;
    const SO_ERROR: u64 = 4;
    if never_waits(a[0]) {
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
    const EACCES: i64 = 13;
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
                result if result == -EAGAIN || result == -EACCES && number == nr::FCNTL => {
                    Tried::NotYet
                }
                result => Tried::Step(Step::Done(result)),
            }
        },
    )
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

/// A mask that holds while the call waits: with a signal that it lets through, the call is the kernel's.
fn lets_through(mask: u64) -> bool {
    mask != 0 && program_memory::read::<u64>(mask).is_some_and(|mask| pending() & !mask != 0)
}

/// A wait with a limit for one of `attempt`'s events. What is left is noted where the kernel does.
fn limited(
    context: &mut Context,
    mask: u64,
    deadline: u64,
    outside: impl Fn() -> bool,
    mut attempt: impl FnMut() -> i64,
) -> Step {
    let result = until(context, deadline, outside, |_| {
        if lets_through(mask) {
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
        || true,
        |_| match lets_through(mask) {
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
        || true,
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
