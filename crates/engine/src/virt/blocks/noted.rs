//! How often a thread executed blocks that note references.

use super::{Blocks, Reader, word32};
use crate::layout::{COUNTERS, Context, MAX_COUNTERS};
use crate::log::Entry;
use crate::virt::bytes::field;
use crate::xlate::block::Branch;
use crate::xlate::known::described;
use std::mem::offset_of;
use std::ops::Range;

/// What a counter says of a block.
pub(in crate::virt) struct Noted {
    /// Where the block is described: offset in the totals file, in words.
    pub(in crate::virt) described: u64,
    /// The instructions that were executed.
    pub(in crate::virt) instructions: Range<usize>,
    /// How often, modulo 2⁶⁴.
    pub(in crate::virt) times: u64,
    /// What happened to a branch, and how often, modulo 2⁶⁴.
    pub(in crate::virt) branch: (Branch, u64),
}

impl Blocks {
    fn described(&self, space: u32, counter: u32) -> Option<u64> {
        let mut space = self.spaces.get(&space)?;
        while counter < space.base_counters {
            space = self.spaces.get(&space.base)?;
        }
        space.noted.get(&counter).copied()
    }

    /// What a counter of a space says with this value; `base`: of its process' descriptions.
    fn noted(&self, (space, base): (u32, u64), counter: u32, value: u64) -> Option<Noted> {
        match self.entry(space, counter)?.0 {
            Entry::Block { .. } => Some(Noted {
                described: described(self.described(space, counter)?, base),
                instructions: 0..usize::MAX,
                times: value,
                branch: (Branch::None, 0),
            }),
            Entry::Part { of, part, .. } => Some(Noted {
                described: described(self.described(space, of)?, base),
                instructions: usize::from(part.from)..usize::from(part.to),
                times: part.times(value),
                branch: (part.branch, value),
            }),
            _ => None,
        }
    }
}

impl Reader<'_> {
    /// Calls `see` for every counter of the thread in `slot` that is not 0, in each part of its profile.
    pub(in crate::virt) fn noted(
        &mut self,
        slot: u32,
        page: &[u8],
        see: &mut dyn FnMut(u32, Noted),
    ) {
        let number = word32(page, offset_of!(Context, space));
        if number == 0 || number > slot {
            return;
        }
        if !self.blocks.spaces.contains_key(&number) {
            let space = self.space(number);
            self.blocks.spaces.insert(number, space);
        }
        let base = u64::from_le_bytes(field(page, offset_of!(Context, noted.base)));
        let blocks = &self.blocks;
        let counters = blocks.spaces.get(&number).map_or(0, |space| space.counters);
        let count = counters.min(MAX_COUNTERS) as usize;
        let Ok(values) = self.shared.words(slot, u64::from(COUNTERS), count) else {
            return;
        };
        for (part, values) in self.parts(slot, &values) {
            for (counter, &value) in (0u32..).zip(&values).filter(|(_, value)| **value != 0) {
                if let Some(noted) = self.blocks.noted((number, base), counter, value) {
                    see(part, noted);
                }
            }
        }
    }
}
