//! Signals inside the run: who waits and may be meant looks when its turn comes, in the order of sending. Natively all
//! signals are blocked in those who wait, so that the kernel chooses nobody.

use super::{State, Thread, now, waits, why};

/// First word of the key of who waits for a lock of files: no memory's number.
const LOCK: u64 = u64::MAX;

impl<const N: usize> State<N> {
    /// A signal is about to be sent to a process, or to one of its threads (`tid` not 0): those that wait look.
    pub fn look(&mut self, pid: u32, tid: u32) {
        for number in self.numbers() {
            let thread = self.thread(number);
            let meant = thread.pid == pid && (tid == 0 || thread.tid == tid);
            if meant && waits(thread.now) && thread.look == 0 {
                let place = self.place();
                self.edit(number).look = place;
            }
        }
    }

    /// All waited, and perhaps something came: calls that the outside can let succeed are tried again.
    pub fn look_outside(&mut self) {
        self.idle_rounds = self.idle_rounds.saturating_add(1);
        // Who went outside after a wait began can end it, too.
        let others = self.find(|thread| thread.now == now::OUTSIDE).is_some();
        for number in self.numbers() {
            let thread = self.edit(number);
            if thread.now == now::TRY && (thread.outside != 0 || others) {
                thread.epoch = 0;
                self.epoch = self.epoch.max(1);
            }
        }
    }

    /// Who is next: is ready, or looks.
    pub fn first(&self) -> Option<u32> {
        let is_next = |thread: &Thread| {
            let goes_on = thread.now == now::READY || waits(thread.now) && thread.look != 0;
            goes_on && thread.stopped == 0
        };
        self.those(is_next).min_by_key(|&number| {
            let thread = self.thread(number);
            match thread.now {
                now::READY => thread.sequence,
                _ => thread.look,
            }
        })
    }

    /// Who is about to have the token only looks, if it waits.
    pub(super) fn looks(&mut self, number: u32) {
        let thread = self.edit(number);
        if waits(thread.now) {
            (thread.was, thread.was_deadline) = (thread.now, thread.deadline);
            (thread.look, thread.why) = (0, why::LOOK);
        }
    }

    /// Nothing was for it: it waits on, in its old place.
    pub fn waits_on(&mut self, number: u32) {
        let thread = self.edit(number);
        (thread.now, thread.deadline) = (core::mem::take(&mut thread.was), thread.was_deadline);
        if self.owner == number {
            self.owner = 0;
        }
    }

    /// Something was: what it waited for is over.
    pub fn stops_waiting(&mut self, number: u32) {
        let thread = self.edit(number);
        (thread.was, thread.why, thread.outside) = (0, why::INTERRUPTED, 0);
    }

    /// It waits until a process releases a lock of files; 0: not any more.
    pub fn waits_for_lock(&mut self, number: u32, holder: u32) {
        self.edit(number).key = match holder {
            0 => [0; 2],
            holder => [LOCK, u64::from(holder)],
        };
    }

    /// Whether the holder of a lock waits, directly or through others, for one of `pid`'s.
    pub fn locks_wait_for(&self, holder: u32, pid: u32) -> bool {
        const MOST: usize = 64;
        let mut at = holder;
        for _ in 0..MOST {
            if at == pid {
                return true;
            }
            let waits = |thread: &Thread| {
                thread.pid == at && thread.now == now::TRY && thread.key[0] == LOCK
            };
            match self.find(waits) {
                Some(number) => at = self.thread(number).key[1] as u32,
                None => return false,
            }
        }
        false
    }

    /// A process of this number is, or was, of the run.
    pub fn knows(&mut self, pid: u32) {
        if let Some(word) = self.pids.get_mut(pid as usize / 64 % 1024) {
            *word |= 1 << (pid % 64);
        }
    }

    /// Whether one of this number is, or was.
    pub fn known(&self, pid: u32) -> bool {
        let word = self.pids.get(pid as usize / 64 % 1024);
        word.is_some_and(|word| word >> (pid % 64) & 1 != 0)
    }
}
