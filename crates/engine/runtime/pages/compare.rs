//! Pages whose code is compared whenever it is entered, because watching them costs more, or cannot be.

use super::{MANY_FAULTS, Pages};
use crate::cache::Cache;

/// Comparisons without a change after which it is watched again.
const MANY_QUIET: u16 = 4096;

impl Pages {
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
        let Some(page) = self.existing(number).filter(|page| page.compared) else {
            return;
        };
        page.quiet = if same {
            page.quiet.saturating_add(1)
        } else {
            0
        };
        if page.quiet > MANY_QUIET && page.faults >= MANY_FAULTS {
            (page.compared, page.quiet, page.faults) = (false, 0, 0);
            self.last = (0, 0);
            self.drop_blocks(cache, number);
        }
    }
}
