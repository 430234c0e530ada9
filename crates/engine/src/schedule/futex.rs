//! Waits for a word of memory: `futex(2)`.

use super::{Key, State, Thread, now, why};

impl<const N: usize> State<N> {
    /// Wakes at most `count` of those that wait for `key` with one of `bits`, in the order in which they came; how many.
    pub fn wake(&mut self, key: Key, bits: u32, count: u32) -> u32 {
        for woken in 0..count {
            let meant = |thread: &Thread| {
                thread.now == now::FUTEX && thread.key == key && thread.bits & bits != 0
            };
            let Some(number) = self.earliest(meant) else {
                return woken;
            };
            self.ready(number, why::WOKEN);
        }
        count
    }

    /// Wakes some, then lets others wait for another key instead, behind those who are there already. How many were
    /// woken, and moved.
    pub fn requeue(&mut self, from: Key, to: Key, wake: u32, moved: u32) -> (u32, u32) {
        let woken = self.wake(from, u32::MAX, wake);
        if from == to {
            let waiting = self.those(|thread| thread.now == now::FUTEX && thread.key == from);
            return (woken, (waiting.count() as u32).min(moved));
        }
        for done in 0..moved {
            let meant = |thread: &Thread| thread.now == now::FUTEX && thread.key == from;
            let Some(number) = self.earliest(meant) else {
                return (woken, done);
            };
            let sequence = self.place();
            let thread = self.edit(number);
            thread.key = to;
            thread.sequence = sequence;
        }
        (woken, moved)
    }
}
