//! Writes of more than there is room for: what fits is written, others go on, then the rest.

use super::descriptors::{
    FIFO, OUT, REGULAR, SOCKET, from_outside, is_ready, kind, never_waits, set_waits,
};
use super::tries::{DONTWAIT, Tried, until, writable};
use super::{EAGAIN, Step, interrupted, run};
use crate::layout::Context;
use crate::program_memory;
use crate::schedule_state::NEVER;
use crate::sys;
use crate::syscall_table as nr;

/// What a pipe takes at once or not at all (`PIPE_BUF`).
const ATOMIC: u64 = 4096;
/// Most entries of a vector (`UIO_MAXIOV`).
const ENTRIES: u64 = 1024;

/// A longer write: as much as there is room for each time.
pub fn write(context: &mut Context, a: [u64; 6]) -> Step {
    if a[2] == 0 {
        return Step::Native;
    }
    if a[2] <= ATOMIC {
        return writable(context, a[0]);
    }
    match kind(a[0]) {
        REGULAR => Step::Native,
        _ if never_waits(a[0], OUT) => Step::Native,
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
pub fn send(context: &mut Context, a: [u64; 6]) -> Step {
    if never_waits(a[0], OUT) {
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
                    run::lock().epoch += 1;
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

/// Address and length of every part of a vector.
fn entry(vector: u64, at: u64) -> Option<[u64; 2]> {
    program_memory::read::<[u64; 2]>(vector.wrapping_add(16 * at))
}

/// Bytes of a vector; `None`: the kernel says what is wrong with it.
fn bytes_of(vector: u64, count: u64) -> Option<u64> {
    if count > ENTRIES {
        return None;
    }
    (0..count).try_fold(0u64, |sum, at| sum.checked_add(entry(vector, at)?[1]))
}

/// What is left of the entry of a vector in which a byte is.
fn rest(vector: u64, count: u64, done: u64) -> Option<[u64; 2]> {
    let mut left = done;
    for at in 0..count {
        let [address, length] = entry(vector, at)?;
        if left < length {
            return Some([address.wrapping_add(left), length - left]);
        }
        left -= length;
    }
    None
}

/// Writes the rest of a vector piece by piece, once `first` has begun.
fn pieces(
    context: &mut Context,
    fd: u64,
    vector: [u64; 2],
    mut first: impl FnMut() -> i64,
    piece: impl Fn(u64, [u64; 2]) -> i64,
) -> Step {
    let [at, count] = vector;
    let Some(all) = bytes_of(at, count) else {
        return Step::Native;
    };
    in_parts(context, [fd, 0, all, 0, 0, 0], |_, done| {
        if done == 0 {
            return first();
        }
        match rest(at, count, done) {
            Some(part) => piece(fd, part),
            None => -sys::EFAULT,
        }
    })
}

/// A piece of a pipe's.
fn pipe_piece(fd: u64, [address, length]: [u64; 2]) -> i64 {
    if !is_ready(fd, OUT) {
        return -EAGAIN;
    }
    // SAFETY: a part of what the program writes.
    unsafe { sys::call(nr::WRITE, [fd, address, length.min(ATOMIC), 0, 0, 0]) }
}

/// A piece of a stream's.
fn socket_piece(fd: u64, [address, length]: [u64; 2]) -> i64 {
    // SAFETY: as above.
    unsafe { sys::call(nr::SENDTO, [fd, address, length, DONTWAIT, 0, 0]) }
}

/// writev and pwritev2.
pub fn vector(context: &mut Context, a: [u64; 6]) -> Step {
    let [fd, at, count, ..] = a;
    let (all, kind) = (bytes_of(at, count), kind(fd));
    if all.is_none_or(|all| all == 0) || kind == REGULAR || never_waits(fd, OUT) {
        return Step::Native;
    }
    match kind {
        FIFO if all.is_some_and(|all| all > ATOMIC) => {
            let first = || rest(at, count, 0).map_or(-sys::EFAULT, |part| pipe_piece(fd, part));
            pieces(context, fd, [at, count], first, pipe_piece)
        }
        SOCKET => {
            // struct msghdr: a message is one whatever its parts.
            let header = [0, 0, at, count, 0, 0, 0];
            let first = || {
                let header = header.as_ptr() as u64;
                // SAFETY: sendmsg of the program's vector.
                unsafe { sys::call(nr::SENDMSG, [fd, header, DONTWAIT, 0, 0, 0]) }
            };
            pieces(context, fd, [at, count], first, socket_piece)
        }
        _ => writable(context, fd),
    }
}

/// sendmsg.
pub fn message(context: &mut Context, a: [u64; 6]) -> Step {
    let Some([_, _, at, count, ..]) = program_memory::read::<[u64; 7]>(a[1]) else {
        return Step::Native;
    };
    if bytes_of(at, count).is_none_or(|all| all == 0) || never_waits(a[0], OUT) {
        return writable(context, a[0]);
    }
    // What is sent beside the bytes goes with the first.
    let first = || {
        let part = [a[0], a[1], a[2] | DONTWAIT, 0, 0, 0];
        // SAFETY: as the program made it, but that it does not wait.
        unsafe { sys::call(nr::SENDMSG, part) }
    };
    pieces(context, a[0], [at, count], first, socket_piece)
}

/// sendfile.
pub fn file(context: &mut Context, a: [u64; 6]) -> Step {
    let [to, from, offset, all, ..] = a;
    if kind(to) == REGULAR || all == 0 || never_waits(to, OUT) {
        return Step::Native;
    }
    let mut done = 0;
    let result = until(
        context,
        NEVER,
        || from_outside(to, true),
        |_| {
            loop {
                set_waits(to, false);
                let part = [to, from, offset, all - done, 0, 0];
                // SAFETY: as the program made it, but that it does not wait; the kernel moves the offset on.
                let result = unsafe { sys::call(nr::SENDFILE, part) };
                set_waits(to, true);
                match result {
                    result if result == -EAGAIN => {
                        run::lock().epoch += 1;
                        return Tried::NotYet;
                    }
                    result if result < 0 && done == 0 => return Tried::Step(Step::Done(result)),
                    more if more > 0 => done += more as u64,
                    // The end of the file, or what the next call is told.
                    _ => return Tried::Step(Step::Done(done as i64)),
                }
                if done >= all {
                    return Tried::Step(Step::Done(done as i64));
                }
            }
        },
    );
    match result {
        Ok(step) => step,
        Err(_) if done > 0 => Step::Done(done as i64),
        Err(_) => interrupted(context, true),
    }
}
