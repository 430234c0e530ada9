//! What was used of a heap in all.

use super::{Heap, HeapSite};
use crate::{LINE, PAGE};

/// What a page's lines are.
#[derive(Clone, Copy, Debug)]
pub struct HeapLines {
    /// The site.
    pub site: u32,
    /// Lines of the page that its blocks were used in, a bit each.
    pub touched: u64,
    /// Those that were written.
    pub written: u64,
}

impl Heap {
    /// Sites by their numbers; of those that nothing was said of there may be none.
    pub fn sites(&self) -> &[HeapSite] {
        &self.sites
    }

    /// Blocks that there was no room for.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Every page's lines, by site: the page's number, and what its sites used.
    pub fn lines(&self) -> impl Iterator<Item = (u64, Vec<HeapLines>)> + '_ {
        self.pages.iter().map(|page| {
            let mut lines: Vec<HeapLines> = Vec::new();
            for used in page.all_used(false) {
                match lines.iter_mut().find(|lines| lines.site == used.site) {
                    Some(lines) => {
                        lines.touched |= used.touched;
                        lines.written |= used.written;
                    }
                    None => lines.push(HeapLines {
                        site: used.site,
                        touched: used.touched,
                        written: used.written,
                    }),
                }
            }
            (page.number, lines)
        })
    }

    /// The blocks that were used in the line at an address, where they are told apart: site, address and bytes of
    /// each, by address.
    pub fn blocks_in(&self, line: u64) -> Vec<(u32, u64, u64)> {
        let place = self.places.get(&(line / PAGE));
        let Some(page) = place.and_then(|&place| self.pages.get(place as usize)) else {
            return Vec::new();
        };
        let bit = 1 << (line % PAGE / LINE);
        let mut blocks: Vec<(u32, u64, u64)> = page
            .all_used(self.apart)
            .iter()
            .filter(|used| used.touched & bit != 0)
            .map(|used| (used.site, used.block.0, used.block.1))
            .collect();
        blocks.sort_unstable_by_key(|&(site, block, size)| (block, site, size));
        blocks
    }
}
