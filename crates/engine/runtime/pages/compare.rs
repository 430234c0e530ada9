//! Pages whose code is compared whenever it is entered, because watching them costs more, or cannot be.

use super::watch::MANY_FAULTS;
use super::{Pages, WRITE};
use crate::cache::Cache;

/// Comparisons without a change after which it is watched again.
const MANY_QUIET: u16 = 4096;

impl Pages {
    /// From now on no page is watched: a fault of a write may not reach us.
    pub fn compare_everything(&mut self, cache: &mut Cache) {
        self.never_watch = true;
        self.each(0, 1 << 47, |pages, number| {
            pages.leave_writable(cache, number);
        });
        self.last = (0, 0);
    }

    /// A child is about to have the shared memory as well: nobody tells us what it writes there.
    pub fn has_children(&mut self, cache: &mut Cache) {
        self.many = true;
        if !self.any_shared {
            return;
        }
        self.each(0, 1 << 47, |pages, number| {
            if pages.existing(number).is_some_and(|page| page.shared) {
                pages.leave_writable(cache, number);
            }
        });
        self.last = (0, 0);
    }

    /// From now on this page is not watched.
    pub fn leave_writable(&mut self, cache: &mut Cache, number: u64) {
        let Some(page) = self.existing(number) else {
            return;
        };
        let (watched, shared) = (page.watched, page.shared);
        if shared || page.prot & WRITE != 0 {
            page.compared = true;
            self.drop_blocks(cache, number);
        }
        if watched {
            self.write_fault(cache, number << 12);
        }
    }

    /// Whether code in a range is compared whenever it is entered.
    pub fn is_compared(&mut self, start: u64, len: u64) -> bool {
        let last = start.wrapping_add(len.max(1) - 1);
        [start >> 12, last >> 12]
            .into_iter()
            .any(|number| self.existing(number).is_some_and(|page| page.compared))
    }

    /// A comparison found what was translated, or not. Where nothing changes any more, the page is
    /// watched again, so that its code can run without coming here.
    pub fn compared(&mut self, cache: &mut Cache, start: u64, same: bool) {
        let number = start >> 12;
        let never_watch = self.never_watch || crate::rseq::writes_to(number);
        let many = self.many;
        let Some(page) = self.existing(number).filter(|page| page.compared) else {
            return;
        };
        let never_watch = never_watch || many && page.shared;
        page.quiet = if same {
            page.quiet.saturating_add(1)
        } else {
            0
        };
        if !never_watch && page.quiet > MANY_QUIET && page.faults >= MANY_FAULTS {
            (page.compared, page.quiet, page.faults) = (false, 0, 0);
            self.last = (0, 0);
            self.drop_blocks(cache, number);
        }
    }
}
