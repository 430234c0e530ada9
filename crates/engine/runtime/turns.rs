//! Whether the threads of the run execute in turn, and where the state of that is.

use crate::layout::{EVENT_PAGES, SCHEDULE, TOTALS_BASE, option};
use crate::regions::texts;
use crate::schedule_state::{MAX_THREADS, State};
use crate::slots;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The state of a run.
pub type Run = State<MAX_THREADS>;
const _: () = assert!(SCHEDULE + size_of::<Run>() as u64 <= TOTALS_BASE + texts::AT);
const _: () = assert!(TOTALS_BASE + texts::AT + texts::BYTES <= EVENT_PAGES);

/// 0: not known, 1: off, 2: on.
static ON: AtomicU32 = AtomicU32::new(0);

/// The run is scheduled.
pub fn on() -> bool {
    match ON.load(Relaxed) {
        0 => {
            let on = slots::header().options & option::SCHEDULE != 0;
            ON.store(1 + u32::from(on), Relaxed);
            on
        }
        known => known == 2,
    }
}

/// This process takes no part in it any more.
pub fn off() {
    ON.store(1, Relaxed);
}

/// Where the state is.
pub fn state() -> *mut Run {
    SCHEDULE as *mut Run
}

/// The run's clock, where there is one.
pub fn clock() -> Option<&'static AtomicU64> {
    // SAFETY: mapped for good; a word that is only used as an atomic one while the token's owner looks at it.
    on().then(|| unsafe { AtomicU64::from_ptr(&raw mut (*state()).time) })
}
