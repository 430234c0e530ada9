//! The first levels of a model of caches, and what it is told (`xlate::recent`). `core` only.

/// Bits of an address within a line of data: caches with other lines are fed with all references.
pub const LINE_BITS: u32 = 6;
/// Most sets of a first level: others are fed with all references.
pub const SETS: u32 = 1024;
/// Most lines of a set that are known to translated code: those that were used last.
pub const WAYS: u32 = 16;

/// The first levels of a model.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Sets {
    /// Sets of data …
    pub data: u32,
    /// … and of instructions.
    pub code: u32,
    /// Bits of an address within a line of instructions.
    pub code_bits: u32,
    /// Lines of a set of data …
    pub data_ways: u32,
    /// … and of instructions.
    pub code_ways: u32,
    /// Bytes that a reference to data counts for at most.
    pub longest: u32,
}

/// First levels, where translated code looks: one less than there are sets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    /// Of data.
    pub mask: u32,
    /// Of instructions.
    pub code_mask: u32,
    /// Bits of an address within a line of instructions.
    pub code_bits: u32,
    /// Branches are noted …
    pub branches: bool,
    /// … but conditional ones only where translated code predicts them wrongly …
    pub predicted: bool,
    /// References to data are of the model …
    pub data: bool,
    /// … and instructions are.
    pub fetches: bool,
    /// Where the thread's clock is (`xlate::recent::TICKS`).
    pub clock: u32,
    /// Entry of the runtime for instructions in another line …
    pub vector_code: u32,
    /// … and for room in the ring alone.
    pub vector_ring: u32,
}

/// What a record of the model's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// A conditional branch; whether it was taken.
    Conditional(bool),
    /// An indirect branch.
    Indirect,
    /// An instruction in another line.
    Fetch,
    /// Which lines of a set were used last: as many words follow.
    Known(Known),
}

/// Lines of a set that were used last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// They are of instructions, else of data.
    pub code: bool,
    /// Which set.
    pub set: u32,
    /// How many.
    pub lines: usize,
}

/// A line that came in: it goes out where the instruction was not executed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Came {
    /// The block's counter then; 0: none did.
    pub seen: u64,
    /// The line …
    pub line: u64,
    /// … the one that made room for it, 0: there was room …
    pub went: u64,
    /// … and when that was used last.
    pub time: u64,
    /// The number of its place in its set's row.
    pub place: u32,
    /// Nothing.
    pub rest: [u32; 7],
}
const _: () = assert!(size_of::<Came>() == 64);
