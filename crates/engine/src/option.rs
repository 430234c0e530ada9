//! Bits of [`crate::layout::Header::options`]: what translated code and the runtime do. `core` only; both sides follow them.

/// Blocks count their executions instead of adding to the running total: several events, profiles.
pub const BLOCKS: u32 = 1;
/// Runtime writes a line a block and system call to stderr (debugging).
pub const TRACE: u32 = 2;
/// Clocks and the time stamp counter are the engine's own.
pub const CLOCK: u32 = 4;
/// Programs are shown another machine ([`crate::shown`]).
pub const MACHINE: u32 = 8;
/// The random devices and instructions are the engine's own.
pub const RANDOM: u32 = 16;
/// What `getrandom` gives is the engine's own.
pub const GETRANDOM: u32 = 1 << 23;
/// One thread of the whole run executes at a time (`schedule`); with [`CLOCK`].
pub const SCHEDULE: u32 = 64;
/// Client requests are answered (`runtime/requests.rs`).
pub const REQUESTS: u32 = 256;
/// A calling-context tree (`calls`); with [`BLOCKS`].
pub const CALLS: u32 = 128;
/// Call sites have nodes of their own in it.
pub const SITES: u32 = 1 << 22;
/// References of memory are noted (`xlate::references`); with [`BLOCKS`].
pub const REFERENCES: u32 = 1 << 20;
/// Calls of the program's allocator are noted, too (`heap`); with [`REFERENCES`].
pub const ALLOCATIONS: u32 = 1 << 24;
/// References that are known to add nothing are not noted, nor are blocks (`xlate::known`); with [`REFERENCES`].
pub const FILTERED: u32 = 1 << 25;
/// What changes nothing in a model of caches is not noted, and what does is (`xlate::recent`); with [`FILTERED`].
pub const RECENT: u32 = 1 << 28;
/// Nobody asks for lines, pages and how references lie; with [`FILTERED`].
pub const NO_LINES: u32 = 1 << 29;
/// Nobody asks for references and their bytes; with [`FILTERED`] and [`NO_LINES`].
pub const NO_BYTES: u32 = 1 << 5;
/// Nobody asks how often branches were taken; with [`FILTERED`].
pub const NO_TAKEN: u32 = 1 << 9;
/// References that the shadow does not know, and those that are not aligned, are noted in the ring, too: they are of the node
/// that the thread is in; with [`FILTERED`] and [`CALLS`].
pub const BY_PATH: u32 = 1 << 12;
/// References to data are none of the model; with [`RECENT`].
pub const NO_DATA: u32 = 1 << 10;
/// Instructions are none of the model; with [`RECENT`].
pub const NO_FETCHES: u32 = 1 << 11;
/// Branches are none of the model; with [`RECENT`].
pub const NO_BRANCHES: u32 = 1 << 30;
/// Translated code predicts conditional branches, and notes those that are predicted wrongly (`xlate::predictor`); with
/// [`RECENT`], not [`NO_BRANCHES`].
pub const PREDICTED: u32 = 1 << 31;
/// Programs may read their FS base (`rdfsbase`).
pub const READS_FS: u32 = 1 << 21;
/// Masks of AVX-512 have 64 bits (AVX512BW), not 16; with [`REFERENCES`].
pub const WIDE_MASKS: u32 = 1 << 27;
/// The CPU has `rorx` (BMI2): see `xlate::entry::emit_entry`.
pub const ROTATES: u32 = 1 << 16;
/// The CPU's `loop` is fast: see there, too.
pub const LOOPS: u32 = 1 << 26;

// No two share a bit.
const _: () = {
    let mut rest: &[u32] = &[
        BLOCKS,
        TRACE,
        CLOCK,
        MACHINE,
        RANDOM,
        GETRANDOM,
        SCHEDULE,
        REQUESTS,
        CALLS,
        SITES,
        REFERENCES,
        ALLOCATIONS,
        FILTERED,
        RECENT,
        NO_LINES,
        NO_BYTES,
        NO_TAKEN,
        NO_DATA,
        NO_FETCHES,
        NO_BRANCHES,
        PREDICTED,
        READS_FS,
        WIDE_MASKS,
        ROTATES,
        LOOPS,
    ];
    let mut taken = 0;
    while let [first, others @ ..] = rest {
        assert!(first.is_power_of_two() && taken & *first == 0);
        taken |= *first;
        rest = others;
    }
};
