//! Ends a run from outside while the tracer is blocked in `waitpid`: on cancellation or at the
//! time limit every live process is killed, through handles that cannot come to mean another one.

use super::sys;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the cancellation flag is looked at.
const TICK: Duration = Duration::from_millis(20);

/// What the tracer and its watch share.
#[derive(Default)]
pub(super) struct Watched {
    live: Mutex<Live>,
    done: Condvar,
    /// Set by the watch.
    pub(super) cancelled: AtomicBool,
    /// Set by the watch.
    pub(super) timed_out: AtomicBool,
}

#[derive(Default)]
struct Live {
    processes: HashMap<i32, OwnedFd>,
    finished: bool,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Live> {
        // Nothing panics under the lock; the map is whole even if something did.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process has started (it has not been waited for, so its id is still its own).
    pub(super) fn started(&self, pid: i32) {
        if let Some(handle) = sys::pidfd(pid) {
            self.lock().processes.insert(pid, handle);
        }
    }

    /// A process has ended.
    pub(super) fn ended(&self, pid: i32) {
        self.lock().processes.remove(&pid);
    }

    /// The run is over: the watch goes home.
    pub(super) fn finish(&self) {
        self.lock().finished = true;
        self.done.notify_all();
    }

    /// Whether the run is being ended from outside.
    pub(super) fn ending(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.timed_out.load(Ordering::Relaxed)
    }

    /// Watches until the run is over. Kills again at every tick, for what forked meanwhile.
    pub(super) fn watch(&self, cancel: Option<&AtomicBool>, timeout: Option<Duration>) {
        let start = Instant::now();
        let mut live = self.lock();
        while !live.finished {
            if !self.ending() {
                if cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
                    self.cancelled.store(true, Ordering::Relaxed);
                } else if timeout.is_some_and(|limit| start.elapsed() >= limit) {
                    self.timed_out.store(true, Ordering::Relaxed);
                }
            }
            if self.ending() {
                live.processes.values().for_each(sys::kill_pidfd);
            }
            live = self
                .done
                .wait_timeout(live, TICK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}
