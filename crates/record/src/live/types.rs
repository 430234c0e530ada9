//! What the parts of live sampling hand to each other.

use std::sync::Arc;
use std::time::Duration;
pub use truecount_sample::profile::Weight;

use rustc_hash::FxHashMap;
use truecount_sample::spaces::MappedFile;

/// What rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// Functions; inlined ones on their own.
    Symbol,
    /// Processes.
    Process,
    /// Threads.
    Thread,
    /// CPUs.
    Cpu,
    /// Source lines.
    Line,
}

impl By {
    /// Its name in documents: `symbol`, `process`, `thread`, `cpu`, `line`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Symbol => "symbol",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Cpu => "cpu",
            Self::Line => "line",
        }
    }

    /// The one after it, around.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Symbol => Self::Process,
            Self::Process => Self::Thread,
            Self::Thread => Self::Cpu,
            Self::Cpu => Self::Line,
            Self::Line => Self::Symbol,
        }
    }
}

/// A place in code, independent of where it was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// Offset in a file.
    File(Arc<MappedFile>, u64),
    /// An address of the kernel.
    Kernel(u64),
    /// An address that belongs to no known mapping.
    Unknown(u64),
}

/// What equal samples have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hit {
    /// Index of the event.
    pub event: u8,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU; `None`: the sample does not say it.
    pub cpu: Option<u32>,
    /// Where it fell.
    pub place: Place,
    /// Where the function was called.
    pub caller: Option<Place>,
}

/// What was sampled between two looks.
#[derive(Debug, Default)]
pub struct Interval {
    /// How long it was.
    pub time: Duration,
    /// Samples by what they have in common.
    pub hits: FxHashMap<Hit, Weight>,
    /// Per event: samples that are in no hit, because there were too many different ones.
    pub crowded: Vec<Weight>,
    /// Names of the threads in `hits`, and of their processes.
    pub names: FxHashMap<u32, Arc<str>>,
    /// Records that the kernel dropped because a ring was full.
    pub lost: u64,
    /// How often the kernel throttled sampling.
    pub throttled: u64,
    /// Records that could not be understood.
    pub broken: u64,
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Function, line, name of the process or thread, CPU.
    pub name: Arc<str>,
    /// File, or the numbers of the process and the thread.
    pub of: Arc<str>,
}

impl Key {
    /// A row's name, and what it belongs to.
    #[must_use]
    pub fn new(name: &str, of: &str) -> Self {
        Self {
            name: name.into(),
            of: of.into(),
        }
    }
}

/// Which of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// The last interval.
    Last,
    /// Since the start.
    Total,
}

/// Which part of a row is looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// Its instructions.
    Code,
    /// Who called it.
    Callers,
    /// What it executed.
    Functions,
}

/// What is to be shown of a row: of this event and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetailRequest {
    /// The row.
    pub key: Key,
    /// Which part of it.
    pub tab: Tab,
    /// Index of the event.
    pub event: usize,
    /// Of which time.
    pub span: Span,
}

/// A line of a detail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DetailLine {
    /// Share of the row's events; `None`: not an instruction, or without samples.
    pub share: Option<f64>,
    /// Samples in it.
    pub samples: u64,
    /// What it says.
    pub text: String,
    /// Source and remarks.
    pub dim: bool,
}

/// What sampling and naming themselves cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnCost {
    /// Share of one CPU in the last interval.
    pub cpu: f64,
    /// Resident memory in bytes.
    pub memory: u64,
}
