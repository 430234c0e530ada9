//! Threads that follow: kept for the next, because making one costs as much as what it does.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that have followed somebody through an `execve`, and wait for the next.
#[derive(Default)]
pub(super) struct Followers {
    state: Mutex<Waiting>,
    work: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Threads that wait, less those that have been given something since.
    idle: usize,
    slots: Vec<u32>,
    over: bool,
}

impl Followers {
    /// As many may wait.
    const MOST: usize = 4;

    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a slot to one that waits; false: none does.
    pub(super) fn give(&self, slot: u32) -> bool {
        let mut state = self.state();
        let Some(fewer) = state.idle.checked_sub(1) else {
            return false;
        };
        state.idle = fewer;
        state.slots.push(slot);
        drop(state);
        self.work.notify_one();
        true
    }

    /// Waits for a slot to follow; `None`: there is no more to do, or enough others wait.
    pub(super) fn next(&self) -> Option<u32> {
        let mut state = self.state();
        if state.idle >= Self::MOST {
            return None;
        }
        state.idle += 1;
        while state.slots.is_empty() && !state.over {
            let woken = self.work.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.slots.pop()
    }

    /// Nobody waits any more.
    pub(super) fn end(&self) {
        let mut state = self.state();
        (state.over, state.idle) = (true, 0);
        drop(state);
        self.work.notify_all();
    }
}
