//! Timers of the run's clock: `setitimer(2)`, `alarm(2)`, `timer_create(2)`, `timerfd_create(2)`. They go off at a move of
//! the token; the kernel's own are never set.

use super::NEVER;

/// Timers that a run can have at the same time.
pub const MAX_TIMERS: usize = 256;

/// Whose timer it is: values of [`Timer::kind`].
pub mod kind {
    /// No timer.
    pub const NONE: u32 = 0;
    /// `ITIMER_REAL`, `ITIMER_VIRTUAL`, `ITIMER_PROF`: [`INTERVAL`] and the number of `setitimer(2)`.
    pub const INTERVAL: u32 = 1;
    /// Of `timer_create(2)`.
    pub const MADE: u32 = 4;
    /// Of `timerfd_create(2)`.
    pub const DESCRIPTOR: u32 = 5;
}

/// One timer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    /// See [`kind`].
    pub kind: u32,
    /// Its process.
    pub pid: u32,
    /// What its process knows it by: the number of `timer_create(2)`, the descriptor.
    pub id: u32,
    /// The signal that it sends; 0: none.
    pub signal: u32,
    /// The thread that the signal is for; 0: the process.
    pub tid: u32,
    /// It counts what its process executes.
    pub executed: u32,
    /// What is sent with the signal.
    pub value: u64,
    /// Its clock, as the program named it.
    pub clock: u64,
    /// The number of the eventfd that is read in its place (proc(5), fdinfo).
    pub event: u64,
    /// When it goes off; [`NEVER`]: it is not set.
    pub due: u64,
    /// How long after that again; 0: never.
    pub interval: u64,
    /// Times it would have gone off besides, when it last did.
    pub missed: u64,
    /// Times it went off that its process has not written to the eventfd yet.
    pub unwritten: u64,
}

/// All timers of a run.
#[repr(C)]
#[derive(Debug)]
pub struct Timers {
    all: [Timer; MAX_TIMERS],
    /// Behind the last one in use.
    used: usize,
    /// Some have something to be written.
    pub unwritten: u32,
    /// Those set that count what is executed.
    pub executed: u32,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            all: [Timer::default(); MAX_TIMERS],
            used: 0,
            unwritten: 0,
            executed: 0,
        }
    }
}

impl Timers {
    fn those(&self) -> impl Iterator<Item = (usize, &Timer)> {
        let used = self.all.iter().enumerate().take(self.used);
        used.filter(|(_, timer)| timer.kind != kind::NONE)
    }

    /// The place of the first one of which something is so.
    pub fn find(&self, so: impl Fn(&Timer) -> bool) -> Option<usize> {
        let found = self.those().find(|(_, timer)| so(timer));
        found.map(|(at, _)| at)
    }

    /// A timer.
    pub fn get(&self, at: usize) -> Timer {
        self.all.get(at).copied().unwrap_or_default()
    }

    /// Changes a timer.
    pub fn put(&mut self, at: usize, timer: Timer) {
        let Some(place) = self.all.get_mut(at) else {
            return;
        };
        *place = timer;
        self.used = self.used.max(at + 1);
        self.note();
    }

    /// A new timer. `None`: there are too many.
    pub fn add(&mut self, timer: Timer) -> Option<usize> {
        let at = self.all.iter().position(|timer| timer.kind == kind::NONE)?;
        self.put(at, timer);
        Some(at)
    }

    /// Forgets those of which something is so.
    pub fn forget(&mut self, so: impl Fn(&Timer) -> bool) {
        for timer in self.all.iter_mut().take(self.used) {
            if timer.kind != kind::NONE && so(timer) {
                *timer = Timer::default();
            }
        }
        self.note();
    }

    fn note(&mut self) {
        let counts = |timer: &Timer| timer.executed != 0 && timer.due != NEVER;
        self.executed = self.those().filter(|(_, timer)| counts(timer)).count() as u32;
        self.unwritten = self
            .those()
            .filter(|(_, timer)| timer.unwritten > 0)
            .count() as u32;
        while self.used > 0 && self.get(self.used - 1).kind == kind::NONE {
            self.used -= 1;
        }
    }

    /// When the next one of the run's clock goes off.
    pub fn next(&self) -> u64 {
        let due = self
            .those()
            .filter(|(_, timer)| timer.executed == 0)
            .map(|(_, timer)| timer.due);
        due.min().unwrap_or(NEVER)
    }

    /// One of the run's clock that goes off now, as it was then. It is set again, or not.
    pub fn due(&mut self, now: u64) -> Option<Timer> {
        self.goes_off(now, |timer| timer.executed == 0)
    }

    /// One of a process that counts what it executes, and goes off.
    pub fn due_executed(&mut self, pid: u32, executed: u64) -> Option<Timer> {
        self.goes_off(executed, |timer| timer.executed != 0 && timer.pid == pid)
    }

    fn goes_off(&mut self, now: u64, which: impl Fn(&Timer) -> bool) -> Option<Timer> {
        let (at, _) = self
            .those()
            .filter(|(_, timer)| which(timer) && timer.due <= now)
            .min_by_key(|(at, timer)| (timer.due, *at))?;
        let mut timer = self.get(at);
        timer.missed = match timer.interval {
            0 => 0,
            interval => (now - timer.due) / interval,
        };
        timer.due = match timer.interval {
            0 => NEVER,
            interval => timer
                .due
                .saturating_add((timer.missed + 1).saturating_mul(interval)),
        };
        if timer.kind == kind::DESCRIPTOR {
            timer.unwritten = timer.unwritten.saturating_add(timer.missed + 1);
        }
        self.put(at, timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(pid: u32, due: u64, interval: u64) -> Timer {
        Timer {
            kind: kind::MADE,
            pid,
            due,
            interval,
            ..Timer::default()
        }
    }

    #[test]
    fn timers_go_off_in_the_order_of_their_times() {
        let mut timers = Timers::default();
        assert_eq!(timers.next(), NEVER);
        for (pid, due, interval) in [(1, 50, 0), (2, 30, 100), (3, 50, 0)] {
            assert!(timers.add(timer(pid, due, interval)).is_some());
        }
        assert_eq!(timers.next(), 30);
        assert_eq!(timers.due(29), None);
        // 30, 130 and 230 are over: one signal, two missed.
        let order: Vec<(u32, u64)> =
            std::iter::from_fn(|| timers.due(299).map(|timer| (timer.pid, timer.missed))).collect();
        assert_eq!(order, [(2, 2), (1, 0), (3, 0)]);
        assert_eq!(timers.next(), 330);
        timers.forget(|timer| timer.pid == 2);
        assert_eq!(timers.next(), NEVER);
        timers.forget(|_| true);
        assert_eq!(timers.used, 0);
    }

    #[test]
    fn what_counts_executed_time_is_no_deadline_of_the_run() {
        let mut timers = Timers::default();
        let executed = Timer {
            executed: 1,
            ..timer(1, 50, 0)
        };
        assert!(timers.add(executed).is_some());
        assert_eq!((timers.next(), timers.due(100)), (NEVER, None));
        assert_eq!(timers.executed, 1);
        assert_eq!(timers.due_executed(2, 100), None);
        assert_eq!(timers.due_executed(1, 100).map(|timer| timer.pid), Some(1));
        assert_eq!(timers.executed, 0);
    }

    #[test]
    fn there_is_an_end_of_places() {
        let mut timers = Timers::default();
        for pid in 0..MAX_TIMERS as u32 {
            assert!(timers.add(timer(pid, NEVER, 0)).is_some());
        }
        assert_eq!(timers.add(timer(1, 1, 1)), None);
    }
}
