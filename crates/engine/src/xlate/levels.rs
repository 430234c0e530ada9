//! The first levels of a model of caches, and what it is told (`xlate::recent`). `core` only.

/// Bits of an address within a line of data: caches with other lines are fed with all references.
pub const LINE_BITS: u32 = 6;
/// Most sets of a first level: others are fed with all references.
pub const SETS: u32 = 1024;

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
    /// … and it is counted how often they are taken.
    pub taken: bool,
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
}
