//! The engine's own clock, with [`option::CLOCK`]: every process begins at the same time of day, and its time goes
//! on by one nanosecond an instruction that it executes and by what it waits. So identical runs read identical
//! times, as long as nothing else differs. The time stamp counter goes with it, at 1 GHz.
//!
//! An instruction's time is counted when its thread next looks at the clock. Waits with a limit are as long as they
//! are natively; when the limit is reached, the clock is set on to it. A wait that something ends early takes no time, nor
//! does one without a limit. To keep a program from waiting for ever for a time that does not come (a timer's, another
//! process's), the clock is never more than half a minute behind the real one; the launcher is told when it had to follow.
//!
//! What the kernel says that a process used (`struct rusage`) differs from run to run in every field: of it there is the
//! executed time of the process itself, and nothing else.
//!
//! Facts: `clock_gettime(2)`, `clock_nanosleep(2)`, `futex(2)`, `poll(2)`, `select(2)`, `epoll_wait(2)`,
//! `timerfd_settime(2)`, `timer_settime(2)`, `times(2)`, `getrusage(2)`; include/linux/posix-timers.h (clocks of
//! processes and devices); Intel SDM volume 2 (`RDTSC`, `RDTSCP`).

use crate::layout::{Context, option};
use crate::program_memory::{self, Plain};
use crate::syscall_table as nr;
use crate::{counts, entry, machine, slots, sys, turns};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

pub const SECOND: u64 = 1_000_000_000;
/// The time of day at which a process begins: 2033-05-18, 03:33:20 UTC. Not in the past: files would be from the future.
const EPOCH: u64 = 2_000_000_000 * SECOND;
/// What clocks that count from the machine's start say then.
const BOOT: u64 = 1000 * SECOND;
/// TAI is ahead of UTC by as much (since 2017).
const LEAP: u64 = 37 * SECOND;
/// Looks at the clock until the real one is looked at.
const LOOKS: u64 = 64;
/// A clock tick of `times(2)`.
const TICK: u64 = SECOND / 100;

const ETIMEDOUT: i64 = 110;

static ON: AtomicBool = AtomicBool::new(false);
/// Nanoseconds since the process began, waits included. (With the scheduler the whole run has one clock.)
static NOW: AtomicU64 = AtomicU64::new(0);

fn clock() -> &'static AtomicU64 {
    turns::clock().unwrap_or(&NOW)
}
/// Nanoseconds that the process executed.
static RAN: AtomicU64 = AtomicU64::new(0);
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Seconds and a fraction, as `struct timespec` and `struct timeval`.
type Pair = [u64; 2];

/// At the start of an image.
pub fn init() {
    if slots::header().options & option::CLOCK != 0 {
        ON.store(true, Relaxed);
        follow();
    }
}

/// The clock is the engine's.
pub fn on() -> bool {
    ON.load(Relaxed)
}

/// A clock of the kernel's, nanoseconds.
pub fn real(clock: u64) -> u64 {
    let mut time: Pair = [0; 2];
    // SAFETY: fills our structure.
    unsafe {
        sys::call(
            nr::CLOCK_GETTIME,
            [clock, time.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    };
    from_pair(time, 1)
}

/// Keeps the clock from standing still. (The scheduler sets it on when all wait.)
fn follow() {
    if turns::on() {
        return;
    }
    let header = slots::header();
    let gone = real(1).saturating_sub(header.started);
    let least = gone.saturating_sub(header.clock_behind);
    if clock().fetch_max(least, Relaxed) < least {
        header.clock_followed.fetch_add(1, Relaxed);
    }
}

/// The time now.
pub fn now(context: &mut Context) -> u64 {
    if LOOKED.fetch_add(1, Relaxed) % LOOKS == LOOKS - 1 {
        follow();
    }
    let executed = counts::instructions(slots::slot_of(context));
    let more = executed.saturating_sub(context.clock_seen);
    context.clock_seen = executed;
    RAN.fetch_add(more, Relaxed);
    clock().fetch_add(more, Relaxed) + more
}

/// The process's own clock goes on from this time.
pub fn goes_on_from(time: u64) {
    NOW.fetch_max(time, Relaxed);
}

/// What the process executed, nanoseconds, as far as its threads have looked.
pub fn ran() -> u64 {
    RAN.load(Relaxed)
}

pub fn pair(time: u64, parts: u64) -> Pair {
    [time / SECOND, time % SECOND / parts]
}

/// `parts`: nanoseconds of the second word's unit. Too long a time is as long as can be.
pub fn from_pair(pair: Pair, parts: u64) -> u64 {
    pair[0]
        .saturating_mul(SECOND)
        .saturating_add(pair[1].saturating_mul(parts))
}

/// A time that the program wrote; `None` where the kernel would say what is wrong with it.
pub fn read(at: u64, parts: u64) -> Option<u64> {
    let pair = program_memory::read::<Pair>(at)?;
    let sound = (pair[0] as i64) >= 0 && pair[1] < SECOND / parts;
    sound.then(|| from_pair(pair, parts))
}

/// What a clock of `clock_gettime(2)` says when the process begins; `None` for one that does not go on by itself: of
/// executed time, or a device's.
pub fn base(clock: u64) -> Option<u64> {
    match clock as i32 {
        0 | 5 | 8 => Some(EPOCH),
        11 => Some(EPOCH + LEAP),
        1 | 4 | 6 | 7 | 9 => Some(BOOT),
        _ => None,
    }
}

/// Clocks of the time that a process or thread executed; all but the calling thread's own are taken for the process's.
fn is_executed(clock: u64) -> bool {
    match clock as i32 {
        2 | 3 => true,
        other => other < 0 && other & 3 != 3,
    }
}

/// `rdtsc`, `rdtscp`.
pub fn stamp(context: &mut Context, with_cpu: bool) {
    let time = if on() {
        BOOT + now(context)
    } else {
        // SAFETY: reads the time stamp counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    };
    context.regs[0] = time & 0xffff_ffff;
    context.regs[2] = time >> 32;
    if with_cpu && machine::on() {
        context.regs[1] = 0;
    } else if with_cpu {
        let cpu: u32;
        // SAFETY: reads the time stamp counter and the CPU's number.
        unsafe {
            core::arch::asm!("rdtscp", out("eax") _, out("edx") _, out("ecx") cpu, options(nomem, nostack));
        };
        context.regs[1] = u64::from(cpu);
    }
}

/// Whether a call is answered here: it asks for the time, or waits with a limit.
pub fn answers(number: u64, a: &[u64; 6]) -> bool {
    if !on() {
        return false;
    }
    let absolute = a[1] & 1 != 0;
    match number {
        nr::GETTIMEOFDAY | nr::GETRUSAGE | nr::TIMES | nr::TIME | nr::NANOSLEEP => true,
        nr::CLOCK_GETTIME => base(a[0]).is_some() || is_executed(a[0]),
        nr::CLOCK_NANOSLEEP => base(a[0]).is_some(),
        nr::POLL => (a[2] as i32) > 0,
        nr::EPOLL_WAIT => (a[3] as i32) > 0,
        // Calls that change the signal mask for as long as they wait are the kernel's.
        nr::EPOLL_PWAIT => (a[3] as i32) > 0 && a[4] == 0,
        nr::EPOLL_PWAIT2 => a[3] != 0 && a[4] == 0,
        nr::PPOLL => a[2] != 0 && a[3] == 0,
        nr::SELECT => a[4] != 0,
        nr::PSELECT6 => a[4] != 0 && (a[5] == 0 || program_memory::read::<u64>(a[5]) == Some(0)),
        nr::FUTEX => a[3] != 0 && matches!(a[1] & 0x7f, 0 | 9),
        nr::TIMER_SETTIME | nr::TIMERFD_SETTIME => absolute,
        _ => false,
    }
}

/// The answer to a call that [`answers`].
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    match number {
        nr::CLOCK_GETTIME => {
            let now = now(context);
            let time = match base(a[0]) {
                Some(base) => base + now,
                None if a[0] as i32 == 3 => context.clock_seen,
                None => RAN.load(Relaxed),
            };
            written(a[1], &pair(time, 1), 0)
        }
        nr::GETTIMEOFDAY => {
            let time = EPOCH + now(context);
            let zone = [0u32; 2];
            if a[0] != 0 && written(a[0], &pair(time, 1000), 0) != 0 {
                return -sys::EFAULT;
            }
            if a[1] == 0 {
                0
            } else {
                written(a[1], &zone, 0)
            }
        }
        nr::TIME => {
            let seconds = (EPOCH + now(context)) / SECOND;
            if a[0] == 0 {
                seconds as i64
            } else {
                written(a[0], &seconds, seconds as i64)
            }
        }
        nr::TIMES => {
            let since = ((BOOT + now(context)) / TICK) as i64;
            let ran = RAN.load(Relaxed) / TICK;
            if a[0] == 0 {
                since
            } else {
                written(a[0], &[ran, 0, 0, 0], since)
            }
        }
        nr::GETRUSAGE => {
            // SAFETY: as the program made it; then what it says.
            let result = unsafe { sys::call(nr::GETRUSAGE, a) };
            now(context);
            let own = if (a[0] as i32) < 0 {
                0
            } else {
                RAN.load(Relaxed)
            };
            if result == 0 {
                used(a[1], own, 0)
            } else {
                result
            }
        }
        nr::TIMER_SETTIME | nr::TIMERFD_SETTIME => timer(context, number, a),
        _ => {
            follow();
            wait(context, number, a)
        }
    }
}

fn written<T: Plain>(at: u64, value: &T, result: i64) -> i64 {
    if program_memory::write(at, value) {
        result
    } else {
        -sys::EFAULT
    }
}

/// Writes a `struct rusage` with as much executed time.
pub fn used(at: u64, executed: u64, result: i64) -> i64 {
    let mut usage = [0u64; 18];
    [usage[0], usage[1]] = pair(executed, 1000);
    if at == 0 {
        return result;
    }
    written(at, &usage, result)
}

/// A wait with a limit.
fn wait(context: &mut Context, number: u64, mut a: [u64; 6]) -> i64 {
    let mut limit: Pair = [0; 2];
    let place = limit.as_mut_ptr() as u64;
    let before = now(context);
    let millisecond = SECOND / 1000;
    // How long, and what says that it was as long.
    let (length, reached) = match number {
        nr::POLL => (Some(u64::from(a[2] as u32) * millisecond), 0),
        nr::EPOLL_WAIT | nr::EPOLL_PWAIT => (Some(u64::from(a[3] as u32) * millisecond), 0),
        nr::EPOLL_PWAIT2 => (read(a[3], 1), 0),
        nr::PPOLL => (read(a[2], 1), 0),
        nr::SELECT => (read(a[4], 1000), 0),
        nr::PSELECT6 => (read(a[4], 1), 0),
        nr::NANOSLEEP => {
            remains(a[0], a[1]);
            (read(a[0], 1), 0)
        }
        nr::CLOCK_NANOSLEEP if a[1] & 1 == 0 => {
            remains(a[2], a[3]);
            (read(a[2], 1), 0)
        }
        nr::CLOCK_NANOSLEEP => {
            let Some(left) = until(a[2], base(a[0]), before) else {
                // SAFETY: the kernel says what is wrong.
                return unsafe { sys::call(number, a) };
            };
            limit = pair(left, 1);
            a = [1, 0, place, 0, 0, 0];
            (Some(left), 0)
        }
        nr::FUTEX if a[1] & 0x7f == 0 => (read(a[3], 1), -ETIMEDOUT),
        // With a bit set: until a time of one of two clocks.
        _ => {
            let clock = u64::from(a[1] & 0x100 == 0);
            let Some(left) = until(a[3], base(clock), before) else {
                // SAFETY: the kernel says what is wrong.
                return unsafe { sys::call(number, a) };
            };
            limit = pair(real(clock).saturating_add(left).min(i64::MAX as u64), 1);
            a[3] = place;
            (Some(left), -ETIMEDOUT)
        }
    };
    // SAFETY: as the program made it, but for a limit of ours.
    let result = unsafe { entry::rt_wait(number, a.as_ptr()) };
    core::hint::black_box(&limit);
    if let Some(length) = length.filter(|_| result == reached) {
        clock().fetch_max(before.saturating_add(length), Relaxed);
    }
    result
}

/// What a sleep that is interrupted before it begins leaves.
fn remains(asked: u64, left: u64) {
    if left != 0
        && let Some(pair) = program_memory::read::<Pair>(asked)
    {
        // Where it cannot be written, the kernel says so.
        let _ = program_memory::write(left, &pair);
    }
}

/// How long it is until a time of a clock.
fn until(at: u64, base: Option<u64>, now: u64) -> Option<u64> {
    let deadline = read(at, 1)?;
    Some(deadline.saturating_sub(base?.saturating_add(now)))
}

/// Timers that go off at a time: after as long as it is until then.
fn timer(context: &mut Context, number: u64, mut a: [u64; 6]) -> i64 {
    let now = now(context);
    // Interval, and first time. Which clock it was made for is not known here: one that says so early a time counts
    // from the machine's start.
    let Some(mut spec) = program_memory::read::<[u64; 4]>(a[2]) else {
        return -sys::EFAULT;
    };
    let at = from_pair([spec[2], spec[3]], 1);
    let base = if at < EPOCH / 2 { BOOT } else { EPOCH };
    if at != 0 && (spec[2] as i64) >= 0 && spec[3] < SECOND {
        let left = at.saturating_sub(base + now).max(1);
        [spec[2], spec[3]] = pair(left, 1);
        a[1] &= !1;
        a[2] = spec.as_mut_ptr() as u64;
    }
    // SAFETY: as the program made it, but for a time of ours.
    let result = unsafe { sys::call(number, a) };
    core::hint::black_box(&spec);
    result
}
