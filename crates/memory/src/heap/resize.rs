//! Blocks that stay where they are and have another size (`realloc`).

use super::{Block, Heap, LARGE, NONE, RECENT};
use crate::PAGE;

impl Block {
    /// It is the same block of another size (`realloc`), kept in the same way.
    pub(super) fn resizes_to(&self, new: &Self) -> bool {
        self.site == new.site && (self.size < LARGE) == (new.size < LARGE)
    }
}

impl Heap {
    /// A block stays where it is, and has another size: costs what that adds or takes away, for programs that make one
    /// byte after the other longer. Pages that it fills before and after are left as they are.
    pub(super) fn resize(&mut self, address: u64, known: Block, new: Block) {
        let ends = [address + known.size, address + new.size];
        let (from, to) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        self.blocks.insert(address, new);
        let large = new.size >= LARGE;
        if large {
            self.large.insert(address, ends[1]);
        }
        if from == to {
            return;
        }
        let changed = from / PAGE..=(to - 1) / PAGE;
        if large {
            self.not_recent(&changed);
        } else {
            for number in changed {
                self.make_page(number);
            }
        }
        for place in self.known(from, to) {
            let before = self.take(place, address);
            let number = self.pages.get(place as usize).map(|page| page.number);
            let stays = number.is_some_and(|number| number * PAGE < ends[1]);
            if let Some(part) = before
                && (!stays || new.from > self.horizon)
            {
                self.over(place, part, new.from);
            }
            if stays {
                self.enter(place, address, new);
                let page = self.pages.get_mut(place as usize);
                let part = page.and_then(|page| page.of(address));
                // (What threads used that are not behind is the block's, which has gone on.)
                if let (Some(part), Some(before)) = (part, before)
                    && new.from <= self.horizon
                {
                    part.touched |= before.touched;
                    part.written |= before.written;
                }
            }
        }
    }

    /// Where these pages are has to be looked up again.
    fn not_recent(&mut self, pages: &std::ops::RangeInclusive<u64>) {
        if pages.end() - pages.start() >= RECENT as u64 {
            return self.recent.clear();
        }
        for number in pages.clone() {
            if let Some(recent) = self.recent.get_mut(number as usize % RECENT) {
                *recent = (u64::MAX, NONE);
            }
        }
    }
}
