//! A lock with its value inside: who holds the guard is the only one to see it.
//!
//! `engine::ENGINE` comes first, others are taken inside of it or alone; `fork` holds all that another
//! thread could hold, because the child has only the thread that forked.

use crate::sys;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// A value that one thread at a time may use.
pub struct Mutex<T> {
    /// 0: free, 1: taken, 2: taken, and somebody sleeps. A futex.
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, and there is one guard at a time.
unsafe impl<T> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        let mut spins = 0;
        while self
            .word
            .compare_exchange_weak(0, 1, Acquire, Relaxed)
            .is_err()
        {
            spins += 1;
            if spins > 100 {
                if self.word.swap(2, Acquire) == 0 {
                    break;
                }
                sys::futex_wait(&self.word, 2, 1000);
            }
            core::hint::spin_loop();
        }
        Guard(self)
    }

    /// Frees the lock in a child made by `fork`.
    ///
    /// # Safety
    /// The forking thread held it, and nothing of its guard is used in the child.
    pub unsafe fn free_in_child(&self) {
        self.word.store(0, Release);
    }
}

/// The lock is held as long as this lives.
pub struct Guard<'a, T>(&'a Mutex<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this is the only guard.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only guard, borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.0.word.swap(0, Release) == 2 {
            sys::futex_wake(&self.0.word);
        }
    }
}
