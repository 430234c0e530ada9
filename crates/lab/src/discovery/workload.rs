//! What runs while counters count: the same work, again and again.

use serde::{Deserialize, Serialize};
use truecount_perf::{Error, EventAttr};

/// A part of a run that is counted by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// What a turn of it holds one of (a "page fault").
    pub turn: String,
    /// Turns of a run; `None` where nobody knows (a command).
    pub turns: Option<u64>,
}

/// What one phase counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// One for each event, in the order asked; `None`: not on the PMU all the time.
    pub events: Vec<Option<u64>>,
    /// Interrupts of the CPU, by `/proc/interrupts`, where they were asked for and can be told.
    pub interrupts: Option<u64>,
}

/// Why a run gave no counts.
#[derive(Debug)]
pub enum Problem {
    /// The counters could not be had this time.
    Counters(Error),
    /// The user stopped it.
    Stopped,
    /// The work cannot be done.
    Broken(truecount_run::Error),
}

/// Work that can be repeated.
pub trait Workload {
    /// Its phases, in their order; at least one.
    fn phases(&self) -> &[Phase];

    /// Runs once, with these events counted (the first leads their group), and tells what each phase counted.
    ///
    /// # Errors
    /// [`Problem`].
    fn run(&mut self, events: &[EventAttr], interrupts: bool) -> Result<Vec<Counts>, Problem>;

    /// What the reader should know of it.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
