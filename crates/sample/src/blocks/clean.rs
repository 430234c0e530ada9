//! What was cleaned away before timing, and why, with counts.
//!
//! The rules come from real recordings: in three of Skylake servers and laptops 15 to 20 % of the stacks repeat
//! their newest branch, also where it goes forward and so cannot be taken twice in a row (the addresses are stale,
//! the cycles are of the true newest branch). With a user-only filter the way into the kernel is not recorded but
//! the way back is, with the kernel's time in it. `cycles` is 0 where the hardware does not say and 65535 where it
//! says "at least" (Intel SDM vol. 3, "Last Branch Records"; `include/uapi/linux/perf_event.h`).

/// Counts of everything that was seen and of what was left out of the timing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaning {
    /// Samples read.
    pub samples: u64,
    /// Samples with a branch stack of at least one entry.
    pub stacks: u64,
    /// Entries of all stacks.
    pub entries: u64,
    /// Entries with cycles (not 0), before cleaning.
    pub entries_with_cycles: u64,
    /// Entries marked as mispredicted, before cleaning.
    pub mispredicted: u64,
    /// Newest entries that repeat a forward branch, which cannot be: stale addresses, dropped.
    pub duplicated_top: u64,
    /// Newest entries of full 32-deep stacks that repeat a backward branch: stale, or a loop of one block;
    /// dropped as well.
    pub ambiguous_top: u64,
    /// Entries with a zero address: they break the row of blocks.
    pub zero_address: u64,
    /// Entries between user and kernel mode: interruptions, no block ends.
    pub ring_transitions: u64,
    /// Cycles of those entries.
    pub ring_cycles: u64,
    /// Entries from a wrong speculative path, dropped.
    pub wrong_path: u64,
    /// Entries that aborted a transaction: they break the row.
    pub aborted: u64,
    /// Pairs whose block would end before it starts, or be longer than 64 KiB: a branch is missing between.
    pub impossible: u64,
    /// Oldest entries: their cycles have no known start.
    pub without_start: u64,
    /// Entries that the thread's stack before had, too: recorded, and counted, twice.
    pub overlapping: u64,
    /// Blocks with 65535 cycles ("at least"): counted, not timed.
    pub saturated: u64,
    /// Blocks with 0 cycles ("unknown"): counted, not timed.
    pub unknown_cycles: u64,
    /// Blocks counted.
    pub blocks: u64,
    /// Blocks counted and timed.
    pub timed_blocks: u64,
}

impl Cleaning {
    pub(crate) fn add(&mut self, o: &Self) {
        for (mine, theirs) in self.fields_mut().into_iter().zip(o.fields()) {
            *mine = mine.saturating_add(theirs.1);
        }
    }

    /// All counts with their names, in a fixed order.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, u64); 19] {
        [
            ("samples", self.samples),
            ("stacks", self.stacks),
            ("entries", self.entries),
            ("entries_with_cycles", self.entries_with_cycles),
            ("mispredicted", self.mispredicted),
            ("duplicated_top", self.duplicated_top),
            ("ambiguous_top", self.ambiguous_top),
            ("zero_address", self.zero_address),
            ("ring_transitions", self.ring_transitions),
            ("ring_cycles", self.ring_cycles),
            ("wrong_path", self.wrong_path),
            ("aborted", self.aborted),
            ("impossible", self.impossible),
            ("without_start", self.without_start),
            ("overlapping", self.overlapping),
            ("saturated", self.saturated),
            ("unknown_cycles", self.unknown_cycles),
            ("blocks", self.blocks),
            ("timed_blocks", self.timed_blocks),
        ]
    }

    fn fields_mut(&mut self) -> [&mut u64; 19] {
        [
            &mut self.samples,
            &mut self.stacks,
            &mut self.entries,
            &mut self.entries_with_cycles,
            &mut self.mispredicted,
            &mut self.duplicated_top,
            &mut self.ambiguous_top,
            &mut self.zero_address,
            &mut self.ring_transitions,
            &mut self.ring_cycles,
            &mut self.wrong_path,
            &mut self.aborted,
            &mut self.impossible,
            &mut self.without_start,
            &mut self.overlapping,
            &mut self.saturated,
            &mut self.unknown_cycles,
            &mut self.blocks,
            &mut self.timed_blocks,
        ]
    }
}
