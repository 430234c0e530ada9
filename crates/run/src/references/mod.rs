//! What a run referenced of its memory, under the virtual PMU: exact facts, and a model of caches and branch
//! predictors where one is wanted.

mod gathering;

use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use truecount_engine::virt::references::{References, Sink};
use truecount_memory::{Machine, Totals};

use gathering::Gathering;

/// What is wanted beside the facts.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Caches and branch predictors of this machine are modelled.
    pub model: Option<Machine>,
    /// Lines that several threads use are looked for.
    pub sharing: bool,
}

/// Exact facts about a run's memory references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// References that read (one that modifies is both a load and a store).
    pub loads: u64,
    /// References that write.
    pub stores: u64,
    /// Bytes read.
    pub load_bytes: u64,
    /// Bytes written.
    pub store_bytes: u64,
    /// Distinct lines (64 bytes) read or written; those of each process count.
    pub lines_touched: u64,
    /// Distinct lines read.
    pub lines_read: u64,
    /// Distinct lines written.
    pub lines_written: u64,
    /// Distinct pages (4,096 bytes) read or written.
    pub pages_touched: u64,
    /// References across the end of a line.
    pub line_splits: u64,
    /// References across the end of a page.
    pub page_splits: u64,
    /// References whose address is no multiple of their size.
    pub unaligned: u64,
    /// Branches that were taken: jumps, calls, returns, conditional ones.
    pub taken_branches: u64,
    /// How many references had each size; 65 stands for all that are longer than 64 bytes.
    pub sizes: Vec<Size>,
}

/// References of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Bytes.
    pub bytes: u32,
    /// References.
    pub references: u64,
}

/// References that the facts lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// Of what.
    pub what: String,
    /// How many instructions.
    pub instructions: u64,
}

/// References and misses of one sort, as a model has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Level {
    /// References.
    pub references: u64,
    /// That missed the first level.
    pub l1_misses: u64,
    /// That missed the last level, too.
    pub ll_misses: u64,
}

/// Branches and wrong predictions, as a model has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Predicted {
    /// Branches.
    pub branches: u64,
    /// Predicted wrongly.
    pub mispredicted: u64,
}

/// What a model of caches and branch predictors made of the same references. No count of anything that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    /// Always `model`.
    pub source: &'static str,
    /// Whose rules it follows.
    pub rules: &'static str,
    /// Instruction cache: bytes, ways, bytes of a line.
    pub i1: String,
    /// Data cache.
    pub d1: String,
    /// Last level.
    pub ll: String,
    /// Instructions.
    pub instructions: Level,
    /// Data read (modified included).
    pub reads: Level,
    /// Data written.
    pub writes: Level,
    /// Conditional branches.
    pub conditional: Predicted,
    /// Indirect jumps and calls.
    pub indirect: Predicted,
}

/// A line that several threads use and one writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedLine {
    /// Address of its first byte.
    pub address: u64,
    /// The line is shared, the data is not (but for one reference in a hundred).
    pub false_sharing: bool,
    /// References of all threads.
    pub references: u64,
    /// What each thread did.
    pub threads: Vec<SharedBy>,
}

/// What a thread did with a shared line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedBy {
    /// Thread.
    pub tid: u32,
    /// Bytes that it read, a bit each.
    pub read: u64,
    /// Bytes that it wrote, a bit each.
    pub written: u64,
    /// References.
    pub references: u64,
}

/// A run's memory references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Exact, but for what is missing.
    pub facts: Facts,
    /// Instructions whose references are not in the facts, by their sort.
    pub missing: Vec<Missed>,
    /// Parts of what threads noted that are missing; 0, or the facts are not whole.
    pub lost: u32,
    /// The model, where one was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Lines that threads share, those with the most references first, where they were wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Vec<SharedLine>>,
}

impl Facts {
    fn add(&mut self, totals: &Totals) {
        self.loads += totals.loads;
        self.stores += totals.stores;
        self.load_bytes += totals.load_bytes;
        self.store_bytes += totals.store_bytes;
        self.line_splits += totals.line_splits;
        self.page_splits += totals.page_splits;
        self.unaligned += totals.unaligned;
    }
}

/// What is gathered while a program runs.
pub struct Noted(Arc<Mutex<Gathering>>);

impl Noted {
    /// Nothing yet.
    pub fn new(wanted: Wanted) -> Self {
        Self(Arc::new(Mutex::new(Gathering::new(wanted))))
    }

    /// Where the engine gives references to.
    pub(crate) fn sink(&self) -> References {
        let gathering: Arc<Mutex<Gathering>> = Arc::clone(&self.0);
        let sink: Arc<Mutex<dyn Sink>> = gathering;
        References::new(sink)
    }

    /// What it came to; `tids` are the threads by their slots.
    pub fn finish(&self, tids: impl Fn(u32) -> u32) -> Memory {
        let gathering = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gathering.memory(&tids)
    }
}
