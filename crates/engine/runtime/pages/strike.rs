//! Blocks that are withdrawn for good leave the lists of their pages.

use super::Pages;
use crate::block::NONE;
use crate::cache::Cache;

impl Pages {
    /// Takes withdrawn blocks (see `Block::gone`) out of the lists of one's pages.
    pub fn strike(&mut self, cache: &mut Cache, number: u32) {
        let block = *cache.blocks.get(number as usize);
        let last = block.pc.wrapping_add(u64::from(block.guest_len.max(1)) - 1);
        for (way, page_number) in [block.pc >> 12, last >> 12].into_iter().enumerate() {
            if !cache.blocks.get(number as usize).listed[way] {
                continue;
            }
            let Some(page) = self.existing(page_number) else {
                continue;
            };
            let mut at = core::mem::replace(&mut page.head, NONE);
            let mut last = NONE;
            while at != NONE {
                let info = cache.blocks.get(at as usize);
                let own = usize::from(info.pc >> 12 != page_number);
                let next = info.page_next[own];
                if info.gone {
                    info.listed[own] = false;
                } else if last == NONE {
                    page.head = at;
                    last = at;
                } else {
                    let before = cache.blocks.get(last as usize);
                    let own = usize::from(before.pc >> 12 != page_number);
                    before.page_next[own] = at;
                    last = at;
                }
                at = next;
            }
            if last != NONE {
                let end = cache.blocks.get(last as usize);
                let own = usize::from(end.pc >> 12 != page_number);
                end.page_next[own] = NONE;
            }
        }
    }
}
