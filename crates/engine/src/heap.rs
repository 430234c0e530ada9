//! Calls of a program's allocator, as runtime and launcher both see them (`option::ALLOCATIONS`): `core` only.
//!
//! What was allocated is said in the ring of references (`xlate::references::MARK`), by several words with [`HEAP`]
//! that follow each other: [`word::TIME`] first, what happened last. Times are numbers of a counter that all threads of
//! the run share, so that what one thread allocates can be brought in order with what another one references.

/// In a mark: it says something of the heap.
pub const HEAP: u64 = 1 << 49;
/// In such a mark, from this bit on: see [`word`]. Its value is in the bits below `MARK`.
pub const WHAT: u32 = 50;

/// What a mark of the heap says.
pub mod word {
    /// The thread's time; with what follows it was then.
    pub const TIME: u64 = 0;
    /// Where the call returns to that allocates.
    pub const SITE: u64 = 1;
    /// Bytes …
    pub const SIZE: u64 = 2;
    /// … from here on are allocated: by the last site, of the last size.
    pub const ALLOCATED: u64 = 3;
    /// The block at this address is free.
    pub const FREED: u64 = 4;
    /// Nothing is mapped any more from here on: so many bytes as the last size says.
    pub const UNMAPPED: u64 = 5;
    /// With `option::FILTERED`: from here on …
    pub const FROM: u64 = 6;
    /// … in two lines, so many pairs of lines further on (from bit 32 on), eight bytes each were written (16 bits from
    /// bit 16 on), or read or written (the lowest 16): by any thread, since they were allocated.
    pub const USED: u64 = 7;
}

/// Blocks of so many bytes are large (as `truecount_memory` has it).
pub const LARGE: u64 = 64 * 4096;

/// Calls that one thread can be inside of at the same time, and that are looked at.
pub const DEEPEST: usize = 8;

/// A call of a function that allocates, or of one that calls those in the program's name.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// What it does (`runtime/allocations.rs`).
    pub does: u64,
    /// Where it returns to …
    pub back: u64,
    /// … and the stack pointer at its first instruction, where that address is.
    pub at: u64,
    /// Bytes that it is asked for.
    pub size: u64,
    /// The block that it takes (`realloc`), or the address of the result (`posix_memalign`).
    pub other: u64,
}

/// The calls of a thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// The outermost first.
    pub calls: [Call; DEEPEST],
    /// How many.
    pub depth: u64,
    /// The last time that the thread's ring has.
    pub time: u64,
}
