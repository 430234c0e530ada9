//! The lock over the run's state, and the words that its threads sleep on.

use super::kernel::kernel_state;
use super::{Run, state};
use crate::syscall_table as nr;
use crate::{slots, sys};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Who holds it changes the state.
pub struct Guard(());

impl Deref for Guard {
    type Target = Run;
    fn deref(&self) -> &Run {
        // SAFETY: mapped for good; only who has the lock looks at it.
        unsafe { &*state() }
    }
}

impl DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Run {
        // SAFETY: as above.
        unsafe { &mut *state() }
    }
}

fn lock_word() -> &'static AtomicU32 {
    // SAFETY: an atomic word, mapped for good.
    unsafe { &(*state()).lock }
}

pub fn bell() -> &'static AtomicU32 {
    // SAFETY: as above.
    unsafe { &(*state()).bell }
}

/// The word that a thread of the schedule sleeps on.
pub fn word_of(number: u32) -> &'static AtomicU32 {
    // SAFETY: as above.
    unsafe { &*Run::word_at(state(), number) }
}

/// Whether a thread was killed: its process may be a zombie as long as its parent waits for the token.
fn is_gone(tid: u32) -> bool {
    // SAFETY: signal 0 only asks whether the thread exists.
    let nobody = unsafe { sys::call(nr::TKILL, [u64::from(tid), 0, 0, 0, 0, 0]) == -3 };
    nobody || matches!(kernel_state(tid, tid), b'Z' | b'X')
}

/// Takes the lock. One whose holder was killed is taken over.
pub fn lock() -> Guard {
    // SAFETY: this thread's context, whose numbers it has noted.
    let own = unsafe { (*slots::current()).tid };
    let mut turns = 0u32;
    loop {
        match lock_word().compare_exchange(0, own, Acquire, Relaxed) {
            Ok(_) => return Guard(()),
            Err(holder) => {
                turns += 1;
                if turns > 100 {
                    sys::futex_wait(lock_word(), holder, 1);
                }
                let gone = turns % 500 == 499 && is_gone(holder);
                if gone
                    && lock_word()
                        .compare_exchange(holder, own, Acquire, Relaxed)
                        .is_ok()
                {
                    return Guard(());
                }
            }
        }
        core::hint::spin_loop();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        lock_word().store(0, Release);
    }
}

/// Sets a thread's word and wakes it.
pub fn tell(number: u32, what: u32) {
    let word = word_of(number);
    word.store(what, Release);
    sys::futex_wake(word);
}
