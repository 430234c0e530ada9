//! What a block adds to which counter: the instructions to a running total, or
//! one execution to the block's own counter, from which every static event of
//! the block follows (`xlate::facts`).
//!
//! An early exit corrects what the whole block has added or is going to add: the
//! running total by a number, the block's counter by a counter of its own. A block that was translated for one exit
//! takes over what the exit had to add to the running total, and adds it with its own number: an addition that waits
//! for the one before costs more than all else in a block.

use super::{Builder, record};
use crate::layout::COUNTERS;
use crate::xlate::emit::{Buffer, SCRATCH};
use crate::xlate::entry::Offsets;

/// What an early exit corrects, with its own counter: the instructions `from` to
/// `to` of the block are added (or taken away) once for each time it is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// First instruction.
    pub from: u8,
    /// Behind the last.
    pub to: u8,
    /// Added, else taken away.
    pub add: bool,
}

/// An addition to a word of the context's region.
#[derive(Clone, Copy, Debug, Default)]
pub struct Added {
    /// Which word.
    pub offset: u32,
    /// How much.
    pub value: i32,
}

impl Added {
    /// One more execution.
    fn one(counter: u32) -> Self {
        Self {
            offset: COUNTERS.wrapping_add(counter.wrapping_mul(8)),
            value: 1,
        }
    }
}

/// Counts anywhere, keeping whatever is alive.
pub fn count_keeping(code: &mut Buffer<'_>, offsets: &Offsets, added: Added, live: u8) {
    if added.value == 0 {
    } else if live == 0 {
        code.add_gs(added.offset, added.value);
    } else {
        code.store_gs(offsets.spill, SCRATCH);
        code.count_through(SCRATCH, added.offset, added.value);
        code.load_gs(offsets.spill, SCRATCH);
    }
}

impl Builder<'_, '_> {
    /// What the whole block adds, and where.
    pub(super) fn whole(&self) -> Added {
        match self.config.counter {
            Some(counter) => Added::one(counter),
            None => Added {
                offset: self.config.offsets.count,
                value: self.config.pending + self.count as i32,
            },
        }
    }

    /// What the running total lacks after `done` instructions.
    pub(super) fn pending(&self, done: usize, counted: bool) -> i32 {
        match counted {
            true => done as i32 - self.count as i32,
            false => self.config.pending + done as i32,
        }
    }

    /// What an exit after `done` instructions adds: they were counted with the
    /// whole block already, or not yet.
    pub(super) fn early(&mut self, done: usize, counted: bool) -> Added {
        let Some(counter) = self.config.counter else {
            return Added {
                offset: self.config.offsets.count,
                value: self.pending(done, counted),
            };
        };
        let part = match counted {
            true => Part {
                from: done as u8,
                to: self.count as u8,
                add: false,
            },
            false => Part {
                from: 0,
                to: done as u8,
                add: true,
            },
        };
        if let Some(place) = self.block.parts.get_mut(self.block.part_count) {
            *place = part;
            self.block.part_count += 1;
        }
        Added::one(counter.wrapping_add(self.block.part_count as u32))
    }

    /// The count where flags are alive and no register is free.
    pub(super) fn count_spilling(&mut self, total: Added) {
        let offsets = self.config.offsets;
        let here = self.hot.here();
        self.hot.store_gs(offsets.spill, SCRATCH);
        self.hot.count_through(SCRATCH, total.offset, total.value);
        self.hot.load_gs(offsets.spill, SCRATCH);
        self.record(here, record::COUNTS);
    }
}
