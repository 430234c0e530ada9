//! Signals of a process whose system calls a filter (seccomp) restricts.
//!
//! A filter may send a call to the program's handler of SIGSYS (`SECCOMP_RET_TRAP`), also one that the runtime makes for
//! the program, and it may forbid the call by which the runtime queues a signal again with all that belongs to it. So
//! here the signal is sent by `tgkill`, which sandboxes allow to a process itself (`raise`, `abort`), and what belongs to
//! it waits in a table. A trapped call that only the runtime makes is no affair of the program's: it has failed.

use crate::entry::kind;
use crate::frames::{Info, Ucontext};
use crate::layout::Context;
use crate::sys;
use crate::syscall_table as nr;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

const SIGSYS: u32 = 31;
const SYS_SECCOMP: i32 = 1;
const SI_TKILL: i32 = -6;

static ON: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A signal under way to a thread.
struct Kept {
    /// The thread, 0 where the place is free, or what nobody is while the place is being written.
    owner: AtomicU32,
    what: UnsafeCell<What>,
}

#[derive(Clone, Copy)]
struct What {
    order: u32,
    signal: u32,
    info: Info,
}

// SAFETY: `what` is used by the thread that `owner` names alone, and by who has just made it `WRITTEN`.
unsafe impl Sync for Kept {}

const WRITTEN: u32 = u32::MAX;
const PLACES: usize = 64;

static KEPT: [Kept; PLACES] = [const {
    Kept {
        owner: AtomicU32::new(0),
        what: UnsafeCell::new(What {
            order: 0,
            signal: 0,
            info: Info::NONE,
        }),
    }
}; PLACES];

/// A filter may be there from now on.
pub fn begins() {
    ON.store(true, Relaxed);
}

/// Whether a filter may be there: then nothing is called that need not be.
pub fn on() -> bool {
    ON.load(Relaxed)
}

/// Signals that stay open where all others are blocked, lest a trapped call end the process.
pub fn open() -> u64 {
    match ON.load(Relaxed) {
        true => 1 << (SIGSYS - 1),
        false => 0,
    }
}

/// The process is a new one: what its parent's threads wait for does not come here.
pub fn forked() {
    for kept in &KEPT {
        kept.owner.store(0, Relaxed);
    }
}

/// A filter trapped a call that the runtime made: whether the program is to know. The call has failed.
pub fn concerns(context: &Context, frame: &mut Ucontext, info: &mut Info) -> bool {
    ON.store(true, Relaxed);
    frame.set_register(0, (-sys::ENOSYS).cast_unsigned());
    let made = info.value() & 0xffff_ffff;
    // What the runtime makes of it.
    let family = |number: u64| match number {
        nr::FORK | nr::VFORK => nr::CLONE,
        nr::GETRLIMIT | nr::SETRLIMIT => nr::PRLIMIT64,
        other => other,
    };
    let number = context.regs[0] & 0xffff_ffff;
    if context.exit_kind != kind::SYSCALL || family(made) != family(number) {
        return false;
    }
    info.set_value(info.value() & !0xffff_ffff | number);
    true
}

/// Whether a filter sent this signal.
pub fn is_trap(signal: u32, info: &Info) -> bool {
    signal == SIGSYS && info.code == SYS_SECCOMP
}

/// Sends a signal again to this thread, which blocks all; false: somebody else has to.
pub fn queue(signal: u32, info: &Info) -> bool {
    if !ON.load(Relaxed) {
        return false;
    }
    let (process, thread) = (sys::getpid(), sys::gettid());
    let free = |kept: &&Kept| {
        kept.owner
            .compare_exchange(0, WRITTEN, Acquire, Relaxed)
            .is_ok()
    };
    let Some(kept) = KEPT.iter().find(free) else {
        return false;
    };
    let order = NEXT.fetch_add(1, Relaxed);
    // SAFETY: the place is ours.
    unsafe {
        *kept.what.get() = What {
            order,
            signal,
            info: *info,
        };
    }
    kept.owner.store(thread, Release);
    let to = [process.into(), thread.into(), signal.into(), 0, 0, 0];
    // SAFETY: a signal to ourselves.
    unsafe { sys::call(nr::TGKILL, to) };
    true
}

/// A signal came: what belongs to it, if it was sent by [`queue`]. The first of its number that was kept.
pub fn arrived(signal: u32, info: &mut Info) {
    if !ON.load(Relaxed) || info.code != SI_TKILL {
        return;
    }
    let thread = sys::gettid();
    let mut first: Option<(&Kept, What)> = None;
    for kept in &KEPT {
        if kept.owner.load(Acquire) != thread {
            continue;
        }
        // SAFETY: ours.
        let what = unsafe { *kept.what.get() };
        let earlier = |&(_, other): &(&Kept, What)| other.order.wrapping_sub(what.order) as i32 > 0;
        if what.signal == signal && first.as_ref().is_none_or(earlier) {
            first = Some((kept, what));
        }
    }
    let Some((kept, what)) = first else {
        return;
    };
    kept.owner.store(0, Release);
    *info = what.info;
}
