//! Branch stacks: the `perf_branch_entry` of `include/uapi/linux/perf_event.h`, read in place.

use crate::bytes::U64s;

/// One taken branch. Entries of a stack are newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BranchEntry {
    /// Address of the branch instruction.
    pub from: u64,
    /// Address of its target.
    pub to: u64,
    /// The bit field: flags, cycles, type.
    pub bits: u64,
}

/// `cycles` of an entry that does not fit 16 bits: "at least".
pub const SATURATED: u16 = u16::MAX;

impl BranchEntry {
    /// Reads one entry of 24 bytes.
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 24]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| words.get(i).map_or(0, |w| u64::from_le_bytes(*w));
        Self {
            from: word(0),
            to: word(1),
            bits: word(2),
        }
    }

    /// The branch was mispredicted.
    #[inline]
    #[must_use]
    pub fn mispredicted(self) -> bool {
        self.bits & 1 != 0
    }

    /// The branch was predicted. Neither bit set means: the hardware does not say.
    #[inline]
    #[must_use]
    pub fn predicted(self) -> bool {
        self.bits & 2 != 0
    }

    /// The branch ended a transaction by an abort.
    #[inline]
    #[must_use]
    pub fn aborted(self) -> bool {
        self.bits & 8 != 0
    }

    /// Core clocks since the previous taken branch retired; 0 = unknown, [`SATURATED`] = at least that.
    #[inline]
    #[must_use]
    pub fn cycles(self) -> u16 {
        (self.bits >> 4) as u16
    }

    /// `PERF_BR_*` (0 = unknown): 1 conditional, 2 unconditional, 3 indirect, 4 call, 5 indirect call, 6 return …
    #[inline]
    #[must_use]
    pub fn kind(self) -> u8 {
        ((self.bits >> 20) & 0xf) as u8
    }

    /// Speculation (`PERF_BR_SPEC_*`): 0 not said, 1 wrong path, 2 correct path but not speculative, 3 correct path.
    #[inline]
    #[must_use]
    pub fn speculation(self) -> u8 {
        ((self.bits >> 24) & 3) as u8
    }

    /// `from` or `to` lies in the upper half of the address space: the kernel on x86-64 and aarch64.
    #[inline]
    #[must_use]
    pub fn crosses_ring(self) -> bool {
        (self.from ^ self.to) >> 63 != 0
    }
}

/// A branch stack inside a sample, newest entry first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BranchStack<'a> {
    entries: &'a [[u8; 24]],
    /// Index of the newest entry in the hardware's ring, when recorded (`PERF_SAMPLE_BRANCH_HW_INDEX`).
    pub hw_index: Option<u64>,
    /// One word of event counts per entry (`PERF_SAMPLE_BRANCH_COUNTERS`).
    pub counters: U64s<'a>,
}

impl<'a> BranchStack<'a> {
    pub(crate) fn new(bytes: &'a [u8], hw_index: Option<u64>, counters: U64s<'a>) -> Self {
        let (entries, _) = bytes.as_chunks::<24>();
        Self {
            entries,
            hw_index,
            counters,
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the stack is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, newest first.
    #[inline]
    pub fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = BranchEntry> + ExactSizeIterator + Clone + use<'a> {
        self.entries.iter().map(BranchEntry::from_bytes)
    }
}
