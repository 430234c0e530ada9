//! Who of a run executes, and who waits for what: the state machine of the deterministic scheduler.
//!
//! One thread of the whole run has the token. It moves at points that are facts of the program (a system call that
//! waits, an end, so and so many branches), never by real time. This file makes no system call: launcher, runtime and
//! tests compile the same source. All zero is the state before a run's first thread. Whoever changes it holds the
//! run's lock (`runtime/schedule`).
//!
//! Threads are found by walking through all of them; order follows from numbers that grow. Moves are rare compared
//! with that: each is a switch from one thread of the kernel's to another.

mod futex;
mod look;
#[cfg(test)]
mod tests;
pub mod timers;

use core::sync::atomic::AtomicU32;
use timers::{Timer, Timers};

/// Threads that a run can have at the same time.
pub const MAX_THREADS: usize = 8192;
/// No deadline.
pub const NEVER: u64 = u64::MAX;
/// Causes of [`State::outside`] that are told apart.
pub const CAUSES: usize = 32;

/// What a thread is doing: values of [`Thread::now`].
pub mod now {
    /// No thread.
    pub const GONE: u32 = 0;
    /// Has the token.
    pub const RUN: u32 = 1;
    /// Waits for the token only.
    pub const READY: u32 = 2;
    /// Waits for a wake of its key, or its deadline.
    pub const FUTEX: u32 = 3;
    /// Waits for its deadline.
    pub const SLEEP: u32 = 4;
    /// Waits until its call can succeed, which it tries again after others have done something.
    pub const TRY: u32 = 5;
    /// Made a child by `vfork`, and waits for its `execve` or end.
    pub const VFORK: u32 = 6;
    /// Ends; the token moves on when it is gone.
    pub const LEAVING: u32 = 7;
    /// In a call that the scheduler does not know: the kernel decides when it comes back.
    pub const OUTSIDE: u32 = 8;
    /// Has the token, and waits until somebody else stops its process by the signal `key[0]`.
    pub const STOPPING: u32 = 9;
}

/// Why a thread became ready: values of [`Thread::why`].
pub mod why {
    /// It is new, or gave the token up itself.
    pub const TURN: u32 = 0;
    /// Somebody woke it.
    pub const WOKEN: u32 = 1;
    /// Its deadline is over.
    pub const TIMEOUT: u32 = 2;
    /// A signal came.
    pub const INTERRUPTED: u32 = 3;
    /// Its call may succeed now.
    pub const AGAIN: u32 = 4;
    /// A signal was sent that may be for it: it looks, and waits on if not.
    pub const LOOK: u32 = 5;
}

/// What a thread is to do when its word is set: values of [`Thread::word`].
pub mod word {
    /// Nothing: it sleeps.
    pub const NONE: u32 = 0;
    /// Go on: it has the token.
    pub const TOKEN: u32 = 1;
    /// Wait for the end of who is leaving, then move the token on.
    pub const MOVE: u32 = 2;
    /// Stop the process of who has the token, then move it on.
    pub const STOP: u32 = 3;
    /// Go on without the token, for good.
    pub const FREE: u32 = 4;
}

/// By what a futex is known: a memory and an address in it, or a file and an offset.
pub type Key = [u64; 2];

/// One thread.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Thread {
    /// See [`now`].
    pub now: u32,
    /// See [`why`].
    pub why: u32,
    /// Its slot.
    pub slot: u32,
    /// Process id; 0 as long as it has not begun.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Bits of a wait by `FUTEX_WAIT_BITSET`.
    pub bits: u32,
    /// Something from outside the run can end its wait.
    pub outside: u32,
    /// Whose `vfork` this thread is (the parent's number).
    pub parent: u32,
    /// What it waits for.
    pub key: Key,
    /// Its place: who came first has the lower one.
    pub sequence: u64,
    /// When its wait is over, on the run's clock.
    pub deadline: u64,
    /// What had been done by others when it last tried.
    pub epoch: u64,
    /// Its place among those who look whether a signal is for them; 0: it does not.
    pub look: u64,
    /// What it waits for goes on if none is: see [`now`]; 0: it does not look.
    pub was: u32,
    /// Its process's parent.
    pub ppid: u32,
    /// Until when, then.
    was_deadline: u64,
    /// See [`word`]. A futex.
    pub word: AtomicU32,
    /// It is about to be another program.
    pub exec: u32,
    /// Its process is stopped by a signal: it keeps its place, and does not get the token.
    pub stopped: u32,
}

/// The whole run.
#[repr(C)]
#[derive(Debug)]
pub struct State<const N: usize> {
    /// Thread id of who changes this; 0: nobody. A futex.
    pub lock: AtomicU32,
    /// Who has the token; 0: all wait.
    pub owner: u32,
    /// Who waits for all the others then.
    pub idler: u32,
    /// Incremented, and woken as a futex, when somebody is ready while all wait.
    pub bell: AtomicU32,
    /// Highest number in use.
    high: u32,
    /// Whose turn ended; 0: nobody's. What it did while it had the token comes before it.
    ended: u32,
    /// Rounds of waiting for the outside since something happened.
    pub idle_rounds: u32,
    /// When all began to wait, on the kernel's clock.
    pub idle_since: u64,
    /// Last place given out.
    sequence: u64,
    /// Counts what can make a call of others succeed.
    pub epoch: u64,
    /// The run's clock, nanoseconds.
    pub time: u64,
    /// How often the token moved.
    pub moves: u64,
    /// How often the outside decided, by [`cause`].
    pub outside: [u32; CAUSES],
    /// Number of the last system call of each cause.
    pub outside_call: [u32; CAUSES],
    /// Pipes and sockets that the run began with (device and inode mixed): others may have them, too.
    pub inherited: [u64; INHERITED],
    /// The device of pipes without a name.
    pub pipes: u64,
    /// Timers of the run's clock.
    pub timers: Timers,
    /// Process ids that the run has had, a bit each (the lower half of their bits).
    pids: [u64; 1024],
    threads: [Thread; N],
}

/// Descriptors looked at for [`State::inherited`].
pub const INHERITED: usize = 64;

/// Why a run is not known to repeat: indices of [`State::outside`].
pub mod cause {
    /// A call that the scheduler does not know waited.
    pub const CALL: usize = 0;
    /// Something came from outside the run while all waited.
    pub const CAME: usize = 1;
    /// A thread was made to go on beside others, because it executed too long without giving way.
    pub const FORCED: usize = 2;
    /// A timer of the kernel's.
    pub const TIMER: usize = 3;
    /// A process goes on natively.
    pub const NATIVE: usize = 4;
    /// All threads waited for each other.
    pub const DEADLOCK: usize = 5;
    /// A signal came from outside the run.
    pub const SIGNAL: usize = 6;
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// This thread has the token.
    Run(u32),
    /// This timer goes off: somebody sends its signal, and moves on.
    Fire(Timer),
    /// Nobody can go on before something comes from outside, or the deadline (of the run's clock) is over.
    Idle {
        /// The earliest one.
        deadline: u64,
        /// Whether anything can come.
        outside: bool,
    },
}

impl<const N: usize> Default for State<N> {
    fn default() -> Self {
        Self {
            lock: AtomicU32::new(0),
            owner: 0,
            idler: 0,
            bell: AtomicU32::new(0),
            high: 0,
            ended: 0,
            idle_rounds: 0,
            idle_since: 0,
            sequence: 0,
            epoch: 0,
            time: 0,
            moves: 0,
            outside: [0; CAUSES],
            outside_call: [0; CAUSES],
            inherited: [0; INHERITED],
            pipes: 0,
            timers: Timers::default(),
            pids: [0; 1024],
            threads: core::array::from_fn(|_| Thread::default()),
        }
    }
}

fn waits(now: u32) -> bool {
    matches!(now, now::FUTEX | now::SLEEP | now::TRY)
}

impl<const N: usize> State<N> {
    /// A thread. (Number 0 is nobody's.)
    pub fn thread(&self, number: u32) -> &Thread {
        &self.threads[number as usize % N]
    }

    /// Where a thread's word is.
    ///
    /// # Safety
    /// `state` points at a state.
    pub unsafe fn word_at(state: *const Self, number: u32) -> *const AtomicU32 {
        // SAFETY: the caller's; the index is inside.
        unsafe { &raw const (*state).threads[number as usize % N].word }
    }

    /// A thread, to be changed.
    pub fn edit(&mut self, number: u32) -> &mut Thread {
        &mut self.threads[number as usize % N]
    }

    /// The numbers of those that are there.
    pub fn numbers(&self) -> core::ops::RangeInclusive<u32> {
        1..=self.high
    }

    /// Those there of which something is so.
    fn those(&self, so: impl Fn(&Thread) -> bool) -> impl Iterator<Item = u32> {
        self.numbers()
            .filter(move |&number| self.thread(number).now != now::GONE && so(self.thread(number)))
    }

    /// The first one there of which something is so.
    pub fn find(&self, so: impl Fn(&Thread) -> bool) -> Option<u32> {
        self.those(so).next()
    }

    /// A new thread, at the end of the queue. `None`: there are too many.
    pub fn add(&mut self, slot: u32) -> Option<u32> {
        let free = (1..N as u32).find(|&number| self.thread(number).now == now::GONE)?;
        self.high = self.high.max(free);
        *self.edit(free) = Thread {
            slot,
            deadline: NEVER,
            ..Thread::default()
        };
        self.ready(free, why::TURN);
        Some(free)
    }

    /// It is gone. Who waited for its `execve` or end by `vfork` goes on.
    pub fn remove(&mut self, number: u32) {
        self.release_parent(number);
        self.edit(number).now = now::GONE;
        let pid = self.thread(number).pid;
        if self.find(|thread| thread.pid == pid).is_none() {
            self.timers.forget(|timer| timer.pid == pid);
        }
        while self.high > 0 && self.thread(self.high).now == now::GONE {
            self.high -= 1;
        }
        self.epoch += 1;
        if self.owner == number {
            self.owner = 0;
        }
    }

    /// All threads of a process are gone, except for one.
    pub fn remove_process(&mut self, pid: u32, except: u32) {
        for number in self.numbers() {
            let thread = self.thread(number);
            if number != except && thread.now != now::GONE && thread.pid == pid {
                self.remove(number);
            }
        }
    }

    /// Who made it by `vfork` goes on.
    pub fn release_parent(&mut self, child: u32) {
        let parent = core::mem::take(&mut self.edit(child).parent);
        if parent != 0 && self.thread(parent).now == now::VFORK {
            self.ready(parent, why::WOKEN);
        }
    }

    fn place(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// To the end of the queue.
    pub fn ready(&mut self, number: u32, why: u32) {
        let sequence = self.place();
        if self.owner == number {
            self.owner = 0;
        }
        let thread = self.edit(number);
        thread.now = now::READY;
        thread.why = why;
        thread.sequence = sequence;
        thread.deadline = NEVER;
        thread.outside = 0;
        (thread.look, thread.was) = (0, 0);
    }

    /// The owner's turn is over, and it goes on in the next one: behind all who can go on by then.
    pub fn ends_turn(&mut self, number: u32) {
        self.ready(number, why::TURN);
        self.ended = number;
    }

    /// The owner gives the token up for a wait.
    fn wait(&mut self, number: u32, now: u32, deadline: u64) -> &mut Thread {
        let sequence = self.place();
        if self.owner == number {
            self.owner = 0;
        }
        let thread = self.edit(number);
        thread.now = now;
        thread.why = why::TURN;
        thread.sequence = sequence;
        thread.deadline = deadline;
        (thread.look, thread.was) = (0, 0);
        thread
    }

    /// Waits for a wake.
    pub fn wait_futex(&mut self, number: u32, key: Key, bits: u32, deadline: u64) {
        let thread = self.wait(number, now::FUTEX, deadline);
        thread.key = key;
        thread.bits = bits;
    }

    /// Waits for a time.
    pub fn sleep(&mut self, number: u32, deadline: u64) {
        self.wait(number, now::SLEEP, deadline);
    }

    /// Waits until a call may succeed. `outside`: it may by what is not of this run.
    pub fn wait_try(&mut self, number: u32, deadline: u64, outside: bool) {
        let epoch = self.epoch;
        let thread = self.wait(number, now::TRY, deadline);
        thread.epoch = epoch;
        thread.outside = u32::from(outside);
    }

    /// Waits for something else: [`now::VFORK`], [`now::LEAVING`], [`now::OUTSIDE`].
    pub fn wait_other(&mut self, number: u32, now: u32) {
        self.wait(number, now, NEVER);
    }

    /// The token goes from its owner to another.
    pub fn give(&mut self, to: u32) {
        self.owner = to;
        self.moves += 1;
        let thread = self.edit(to);
        thread.now = now::RUN;
        thread.deadline = NEVER;
    }

    /// Whether it waits for something that a signal ends.
    pub fn is_waiting(&self, number: u32) -> bool {
        waits(self.thread(number).now)
    }

    /// A signal came to a thread that waits.
    pub fn interrupt(&mut self, number: u32) -> bool {
        let waiting = self.is_waiting(number);
        if waiting {
            self.ready(number, why::INTERRUPTED);
        }
        waiting
    }

    /// Who has waited longest of which something is so.
    fn earliest(&self, so: impl Fn(&Thread) -> bool) -> Option<u32> {
        self.those(so)
            .min_by_key(|&number| self.thread(number).sequence)
    }

    /// Those whose deadline is over are ready, the earliest first.
    fn expire(&mut self) {
        while let Some(number) = self
            .those(|thread| waits(thread.now) && thread.deadline <= self.time)
            .min_by_key(|&number| (self.thread(number).deadline, self.thread(number).sequence))
        {
            self.ready(number, why::TIMEOUT);
        }
    }

    /// Calls that may succeed now are tried again, in the order in which they were made.
    fn retry(&mut self) {
        while let Some(number) =
            self.earliest(|thread| thread.now == now::TRY && thread.epoch < self.epoch)
        {
            self.ready(number, why::AGAIN);
        }
    }

    /// Moves the token on, which nobody has.
    pub fn move_on(&mut self) -> Move {
        loop {
            if let Some(timer) = self.timers.due(self.time) {
                return Move::Fire(timer);
            }
            self.expire();
            self.retry();
            let ended = core::mem::take(&mut self.ended);
            if ended != 0 && self.thread(ended).now == now::READY {
                self.edit(ended).sequence = self.place();
            }
            if let Some(first) = self.first() {
                self.looks(first);
                self.give(first);
                return Move::Run(first);
            }
            let deadline = self
                .those(|thread| waits(thread.now))
                .map(|number| self.thread(number).deadline)
                .min()
                .unwrap_or(NEVER)
                .min(self.timers.next());
            let outside = self
                .find(|thread| {
                    thread.now == now::TRY && thread.outside != 0
                        || thread.now == now::OUTSIDE
                        || thread.stopped != 0
                })
                .is_some();
            if deadline == NEVER || outside {
                return Move::Idle { deadline, outside };
            }
            self.time = self.time.max(deadline);
        }
    }

    /// Notes that the outside decided something.
    pub fn note(&mut self, cause: usize, call: u64) {
        self.outside[cause % CAUSES] = self.outside[cause % CAUSES].saturating_add(1);
        self.outside_call[cause % CAUSES] = call as u32;
    }

    /// What must be so at every move; else what is not.
    pub fn check(&self) -> Result<(), &'static str> {
        let running = self.those(|thread| thread.now == now::RUN).count();
        let owned = usize::from(self.owner != 0);
        if running != owned {
            return Err("the thread that runs is not the one that has the token");
        }
        if self.owner != 0 && !matches!(self.thread(self.owner).now, now::RUN | now::STOPPING) {
            return Err("the owner of the token waits");
        }
        let late = |thread: &Thread| thread.now == now::FUTEX && thread.bits == 0;
        if self.find(late).is_some() {
            return Err("a thread waits for no wake at all");
        }
        if self
            .find(|thread| thread.sequence > self.sequence)
            .is_some()
        {
            return Err("a thread has a place that was not given out");
        }
        Ok(())
    }
}
