//! What is told of data.

use serde::Serialize;

/// Whose data a line is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DataPlace {
    /// Path of the file whose data it is, `[stack]` (pages that a stack pointer led to) or `[other]` (heaps, mapped
    /// memory).
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
}

/// What a model made of a piece of data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DataModel {
    /// Misses of the first level.
    pub l1d_misses: u64,
    /// Of the last level.
    pub lld_misses: u64,
}
