//! Targets of indirect branches that are met once or twice: a program that is done soon would copy a page of a table
//! for most of them (a page is 512 addresses of 65,536), which costs more than some visits to the runtime.

use crate::layout::{TABLE_BYTES, TABLES};

/// How often a target is met before a page is copied for it.
const OFTEN: u8 = 8;
const PAGES: usize = (TABLES * TABLE_BYTES) as usize / 0x1000;
const COUNTS: usize = 2048;

pub(super) struct Seldom {
    /// Pages of the tables that are copied already, a bit each.
    copied: [u64; PAGES.div_ceil(64)],
    /// How often targets were met, shared by some.
    met: [u8; COUNTS],
}

impl Seldom {
    pub(super) const fn new() -> Self {
        Self {
            copied: [0; PAGES.div_ceil(64)],
            met: [0; COUNTS],
        }
    }

    /// Whether a place of a table is to be written; whoever asks has just met its target.
    pub(super) fn is_worth_it(&mut self, way: usize, index: usize) -> bool {
        let page = (way * TABLE_BYTES as usize + index * 8) / 0x1000;
        let (Some(word), bit) = (self.copied.get_mut(page / 64), 1 << (page % 64)) else {
            return true;
        };
        if *word & bit != 0 {
            return true;
        }
        let Some(met) = self.met.get_mut((index ^ way << 8) % COUNTS) else {
            return true;
        };
        *met = met.saturating_add(1);
        if *met < OFTEN {
            return false;
        }
        *word |= bit;
        true
    }
}
