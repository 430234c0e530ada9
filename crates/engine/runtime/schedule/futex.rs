//! Futexes: `futex(2)`. Nobody waits in the kernel: queues are in the order of arrival.

use super::{EAGAIN, Step, charge, interrupted, run, token};
use crate::clock;
use crate::layout::Context;
use crate::program_memory;
use crate::schedule_state::{Key, NEVER, why};
use crate::sys;
use crate::syscall_table as nr;
use core::sync::atomic::{AtomicU32, Ordering::*};

const EINVAL: i64 = 22;
const ETIMEDOUT: i64 = 110;
const PRIVATE: u64 = 128;
const REALTIME: u64 = 256;

/// The process that this memory began with: those that share it (`vfork`, CLONE_VM) have its. Programs that begin at the
/// same addresses, as all do on a reference machine, have futexes of the same address, which are not the same.
static MEMORY: AtomicU32 = AtomicU32::new(0);

/// A program begins here, or a copy of the parent's memory.
pub fn memory_begins() {
    MEMORY.store(sys::getpid(), Relaxed);
}

/// The first word of the keys of this memory's futexes.
pub fn memory() -> u64 {
    MEMORY.load(Relaxed).into()
}

/// By what a futex is known: shared memory by its file, other by the memory it is in.
fn key(at: u64, private: bool) -> Key {
    match (!private).then(|| shared(at)).flatten() {
        Some(key) => key,
        None => [memory(), at],
    }
}

/// Device, inode and offset of shared memory.
fn shared(at: u64) -> Option<Key> {
    let mut found = None;
    crate::lines::of(c"/proc/thread-self/maps", |line| {
        // START-END rwxs OFFSET MAJOR:MINOR INODE PATH
        let mut words = line
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty());
        let mut range = words.next()?.split(|&byte| byte == b'-');
        let (start, end) = (number(range.next()?, 16)?, number(range.next()?, 16)?);
        if !(start..end).contains(&at) {
            return None;
        }
        let is_shared = words.next()?.get(3) == Some(&b's');
        let offset = number(words.next()?, 16)?;
        let mut device = words.next()?.split(|&byte| byte == b':');
        let device = number(device.next()?, 16)? << 20 | number(device.next()?, 16)?;
        let inode = number(words.next()?, 10)?;
        if is_shared {
            found = Some([1 << 63 | device << 40 ^ inode, offset + (at - start)]);
        }
        Some(())
    });
    found
}

/// A number of this base.
fn number(text: &[u8], base: u32) -> Option<u64> {
    text.iter().try_fold(0u64, |value, &digit| {
        let digit = char::from(digit).to_digit(base)?;
        Some(value.wrapping_mul(u64::from(base)) + u64::from(digit))
    })
}

pub fn call(context: &mut Context, a: [u64; 6]) -> Step {
    let command = a[1] & 0x7f;
    let private = a[1] & PRIVATE != 0;
    let plain = matches!(command, 0 | 1 | 3 | 4 | 5 | 9 | 10);
    if !plain {
        // Locks that hand down priorities: the kernel's.
        return super::waits::by_the_kernel(context, nr::FUTEX, a, true);
    }
    if a[0] & 3 != 0 {
        return Step::Done(-EINVAL);
    }
    match command {
        0 => wait(context, a, u32::MAX, private),
        9 if a[5] as u32 == 0 => Step::Done(-EINVAL),
        9 => wait(context, a, a[5] as u32, private),
        10 if a[5] as u32 == 0 => Step::Done(-EINVAL),
        1 | 10 => {
            let bits = if command == 10 { a[5] as u32 } else { u32::MAX };
            let key = key(a[0], private);
            let most = (a[2] as u32).max(1);
            Step::Done(run::lock().wake(key, bits, most).into())
        }
        3 | 4 => requeue(a, private, command == 4),
        _ => wake_op(a, private),
    }
}

/// Where a wait with a limit ends, on the run's clock; or the call's error.
fn deadline(context: &mut Context, a: [u64; 6]) -> Result<u64, i64> {
    if a[3] == 0 {
        return Ok(NEVER);
    }
    if program_memory::read::<[u64; 2]>(a[3]).is_none() {
        return Err(-sys::EFAULT);
    }
    let limit = clock::read(a[3], 1).ok_or(-EINVAL)?;
    let now = clock::now(context);
    if a[1] & 0x7f == 0 {
        return Ok(now.saturating_add(limit));
    }
    let clock = u64::from(a[1] & REALTIME == 0);
    Ok(limit.saturating_sub(clock::base(clock).unwrap_or(0)))
}

fn wait(context: &mut Context, a: [u64; 6], bits: u32, private: bool) -> Step {
    let limit = match deadline(context, a) {
        Ok(limit) => limit,
        Err(error) => return Step::Done(error),
    };
    match program_memory::read::<u32>(a[0]) {
        None => return Step::Done(-sys::EFAULT),
        Some(value) if value != a[2] as u32 => return Step::Done(-EAGAIN),
        Some(_) => {}
    }
    let key = key(a[0], private);
    let time = charge(context);
    if limit <= time {
        return Step::Done(-ETIMEDOUT);
    }
    let mut state = run::lock();
    state.wait_futex(context.turn, key, bits, limit);
    match token::give_up(context, state) {
        why::TIMEOUT => Step::Done(-ETIMEDOUT),
        why::INTERRUPTED => interrupted(context, limit == NEVER),
        _ => Step::Done(0),
    }
}

fn requeue(a: [u64; 6], private: bool, compares: bool) -> Step {
    let (wake, most) = (a[2] as u32, a[3] as u32);
    if (wake as i32) < 0 || (most as i32) < 0 {
        return Step::Done(-EINVAL);
    }
    match program_memory::read::<u32>(a[0]) {
        None if compares => return Step::Done(-sys::EFAULT),
        Some(value) if compares && value != a[5] as u32 => return Step::Done(-EAGAIN),
        _ => {}
    }
    let (from, to) = (key(a[0], private), key(a[4], private));
    let (woken, moved) = run::lock().requeue(from, to, wake, most);
    let moved = if compares || moved > 0 { moved } else { 0 };
    Step::Done(i64::from(woken) + i64::from(moved))
}

/// `FUTEX_WAKE_OP`: changes the second word, wakes those of the first, and, where the comparison says so, of the second.
fn wake_op(a: [u64; 6], private: bool) -> Step {
    let op = a[5] as u32;
    let Some(old) = program_memory::read::<u32>(a[4]) else {
        return Step::Done(-sys::EFAULT);
    };
    let signed = |value: u32| (value << 20).cast_signed() >> 20;
    let mut argument = signed(op >> 12);
    if op >> 31 != 0 {
        argument = 1i32.wrapping_shl(argument.cast_unsigned() & 31);
    }
    let argument = argument.cast_unsigned();
    let new = match op >> 28 & 7 {
        0 => argument,
        1 => old.wrapping_add(argument),
        2 => old | argument,
        3 => old & !argument,
        4 => old ^ argument,
        _ => return Step::Done(-sys::ENOSYS),
    };
    if !program_memory::write(a[4], &new) {
        return Step::Done(-sys::EFAULT);
    }
    let (old, than) = (old.cast_signed(), signed(op));
    let also = match op >> 24 & 15 {
        0 => old == than,
        1 => old != than,
        2 => old < than,
        3 => old <= than,
        4 => old > than,
        5 => old >= than,
        _ => return Step::Done(-sys::ENOSYS),
    };
    let (first, second) = (key(a[0], private), key(a[4], private));
    let mut state = run::lock();
    let mut woken = state.wake(first, u32::MAX, (a[2] as u32).max(1));
    if also {
        woken += state.wake(second, u32::MAX, (a[3] as u32).max(1));
    }
    Step::Done(woken.into())
}
