//! What is told of data.

use serde::Serialize;

/// Whose data a line is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DataPlace {
    /// Path of the file whose data it is, `[heap]` (blocks of an allocator), `[stack]` (pages that a stack pointer led
    /// to) or `[other]` (what no allocator's call tells, mapped memory).
    pub module: String,
    /// The variables with bytes in the line that were used, in order of addresses; `name+0x40` where it begins inside
    /// one.
    pub symbols: Vec<String>,
}

/// What was touched of a variable, or of a piece of memory without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DataMemory {
    /// As in [`DataPlace`].
    pub module: String,
    /// The variable: the first one of each line; empty where there is none.
    pub symbol: String,
    /// Lines of it that were touched.
    pub lines_touched: u64,
    /// That were written.
    pub lines_written: u64,
    /// What the model made of it, where one was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<DataModel>,
    /// Where it was allocated, of blocks of the heap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<AllocationSite>,
}

/// Blocks that were allocated in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AllocationSite {
    /// Path of the file with the code that called the allocator.
    pub module: String,
    /// Name of its symbol.
    pub function: String,
    /// Source file; empty: not known.
    pub file: String,
    /// Line of the call; 0: not known.
    pub line: u32,
    /// Where the call returns to: offset in the module's file.
    pub offset: u64,
    /// Blocks.
    pub blocks: u64,
    /// Bytes that were asked for, of all of them …
    pub bytes: u64,
    /// … of the smallest …
    pub smallest: u64,
    /// … and of the largest.
    pub largest: u64,
}

/// What is known of a run's heaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeapMemory {
    /// Blocks that calls of an allocator told of.
    pub blocks: u64,
    /// Blocks that are not among those by site, as there were too many at the same time: they are `[other]`.
    pub beyond: u64,
    /// How often lines are in the rows by data beside their first one: blocks of several sites were in them.
    pub touched_again: u64,
    /// The same of lines that were written.
    pub written_again: u64,
}

/// What a model made of a piece of data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DataModel {
    /// Misses of the first level.
    pub l1d_misses: u64,
    /// Of the last level.
    pub lld_misses: u64,
}
