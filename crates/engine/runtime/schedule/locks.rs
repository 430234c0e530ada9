//! Locks of files: `flock(2)`, `fcntl_locking(2)`. Who asks for one that another of the run has is tried again when its turn
//! comes.
//!
//! One that somebody outside has (cargo's of its cache, apt's) is waited for, for a while, with the token, and also by
//! calls that would not wait: no time passes in the run, which is then the same as if it had begun later. Whoever keeps
//! it longer is named, and the call says so.

use super::signals::{deliverable, shut};
use super::tries::{Tried, wait_for};
use super::{Step, run};
use crate::layout::Context;
use crate::outside::locks::{
    F_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETLK, F_SETLKW, Holder, LOCK_NB, holder, is_refused,
    note_held,
};
use crate::program_memory;
use crate::syscall_table as nr;
use crate::{clock, slots, sys};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// For how long a run waits for locks that others have.
const PATIENCE: u64 = 10 * clock::SECOND;

/// The calls of this file; `None`: another.
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> Option<Step> {
    let mut now = a;
    match (number, a[1]) {
        (nr::FLOCK, how) => now[1] = how | LOCK_NB,
        (nr::FCNTL, F_SETLKW) => return Some(lock_record(context, a)),
        (nr::FCNTL, F_OFD_SETLKW) => now[1] = F_OFD_SETLK,
        (nr::FCNTL, F_SETLK | F_OFD_SETLK) => {}
        _ => return None,
    }
    if now == a {
        return Some(Step::Done(ask(context, number, a, &mut false)));
    }
    let mut noted = false;
    let attempt = |context: &mut Context| match ask(context, number, now, &mut noted) {
        result if is_refused(number, result) => Tried::NotYet,
        result => Tried::Step(Step::Done(result)),
    };
    Some(wait_for(context, true, || true, attempt))
}

/// Asks for a lock, and once more when somebody outside has released it. `noted`: that somebody did not is noted already.
fn ask(context: &mut Context, number: u64, a: [u64; 6], noted: &mut bool) -> i64 {
    const MONOTONIC: u64 = 1;
    const PAUSE: u64 = 1;
    /// Without anybody who has it.
    const MOST: u32 = 10;
    let waited = &slots::header().inputs.lock_waited;
    let mut nobody = 0;
    loop {
        // SAFETY: as the program made it, but that it does not wait.
        let result = unsafe { sys::call(number, a) };
        if !is_refused(number, result) {
            return result;
        }
        let held = holder(number, &a);
        nobody += u32::from(held == Holder::Nobody);
        let waits = match held {
            Holder::Run => return result,
            Holder::Nobody => nobody < MOST,
            Holder::Outside => waited.load(Relaxed) < PATIENCE,
            Holder::Stays => false,
        };
        let since = clock::real(MONOTONIC);
        if !waits || shut(context) && deliverable(context) != 0 {
            if !core::mem::replace(noted, true) {
                note_held(context, number);
            }
            return result;
        }
        sys::futex_wait(&AtomicU32::new(0), 0, PAUSE);
        let more = clock::real(MONOTONIC).saturating_sub(since);
        waited.fetch_add(more, Relaxed);
    }
}

/// fcntl(F_SETLKW): a wait for one who waits for this process would never end, and is refused as by the kernel
/// (`posix_locks_deadlock` in fs/locks.c), which sees nobody wait.
fn lock_record(context: &mut Context, a: [u64; 6]) -> Step {
    const EDEADLK: i64 = 35;
    const F_UNLCK: u64 = 2;
    let (own, mut noted) = (context.turn, false);
    let step = wait_for(
        context,
        true,
        || true,
        |context| {
            let now = [a[0], F_SETLK, a[2], 0, 0, 0];
            let result = ask(context, nr::FCNTL, now, &mut noted);
            if !is_refused(nr::FCNTL, result) {
                return Tried::Step(Step::Done(result));
            }
            // struct flock: type and whence, start, length, PID.
            let Some(mut lock) = program_memory::read::<[u64; 4]>(a[2]) else {
                return Tried::Step(Step::Done(-sys::EFAULT));
            };
            let at = lock.as_mut_ptr() as u64;
            // SAFETY: into our copy.
            let asked = unsafe { sys::call(nr::FCNTL, [a[0], F_GETLK, at, 0, 0, 0]) };
            let [kind, _, _, holder] = lock;
            if asked != 0 || kind & 0xffff == F_UNLCK {
                return Tried::NotYet;
            }
            let mut state = run::lock();
            if state.locks_wait_for(holder as u32, context.pid) {
                return Tried::Step(Step::Done(-EDEADLK));
            }
            state.waits_for_lock(context.turn, holder as u32);
            Tried::NotYet
        },
    );
    run::lock().waits_for_lock(own, 0);
    step
}
