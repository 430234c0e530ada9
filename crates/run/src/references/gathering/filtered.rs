//! Where what is known to add nothing is not told: references that may add something, and executions at the end.

use super::super::lines::Lines;
use super::super::site::Site;
use super::{Gathering, Wanted};
use std::ops::Range;
use truecount_engine::virt::references::{Code, Executed, Thread};
use truecount_memory::Moment;

impl Gathering {
    /// A block of the thread whose turn it is, and the lines that it may touch.
    #[inline]
    fn site_of(&mut self, code: &Code) -> Option<(&mut Site, Lines<'_>)> {
        let now = self.threads.get_mut(self.now)?;
        let table = self.tables.get_mut(now.table)?;
        let space = self.spaces.get_mut(now.space)?;
        let site = table.sites.place(code.number as usize)?;
        let site = site.get_or_insert_with(|| Box::new(Site::new(code, None, true)));
        let touched = Lines {
            touched: &mut space.touched,
            heap: self.wanted.data.then_some(&mut space.allocated.heap),
            when: Moment {
                time: now.time,
                thread: now.thread.slot,
            },
        };
        Some((site, touched))
    }

    /// Nothing else is wanted than what references that are known to add nothing do not change.
    pub(in crate::references) fn can_be_filtered(&self) -> bool {
        let Wanted {
            facts,
            data: _,
            without_branches: _,
            threads: _,
            model,
            cpu: _,
            beside: _,
            sharing,
            locality,
            paths,
        } = &self.wanted;
        *facts && model.is_none() && !sharing && !locality && !paths
    }

    /// An operand of an instruction referenced an address.
    pub(super) fn reference(
        &mut self,
        code: &Code,
        operand: (usize, usize),
        address: u64,
        hint: &mut u32,
    ) {
        if let Some((site, mut touched)) = self.site_of(code)
            && !site.reference(operand, address, &mut touched, hint)
        {
            self.lost += 1;
        }
    }

    /// An instruction made its references.
    pub(super) fn references(&mut self, executed: &Executed<'_>, at: usize) {
        if let Some((site, mut touched)) = self.site_of(executed.code) {
            site.references(executed, at, &mut touched);
        }
    }

    /// Instructions were executed so often.
    pub(super) fn count(
        &mut self,
        thread: Thread,
        code: &Code,
        instructions: Range<usize>,
        times: u64,
    ) {
        self.now = self.number(thread);
        if let Some((site, _)) = self.site_of(code) {
            site.count(instructions, times);
        }
    }

    /// A conditional branch was taken so often.
    pub(super) fn count_taken(&mut self, thread: Thread, code: &Code, at: usize, times: u64) {
        self.now = self.number(thread);
        if let Some((site, _)) = self.site_of(code) {
            site.taken(at, times);
        }
    }
}
