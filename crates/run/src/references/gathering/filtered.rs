//! Where what is known to add nothing is not told: references that may add something, and executions at the end.

use super::super::lines::Lines;
use super::super::site::Site;
use super::{Gathering, Wanted};
use std::ops::Range;
use truecount_engine::virt::references::{Code, Executed, Lies, Line, Thread};
use truecount_memory::{Kind, LINE, Moment};

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

    /// An operand of an instruction made references that are not aligned.
    pub(super) fn lie(&mut self, code: &Code, operand: (usize, usize), lies: &Lies) {
        let known = self.site_of(code);
        if !known.is_some_and(|(site, _)| site.lies(operand, lies)) {
            self.lost += 1;
        }
    }

    /// What all threads of a memory did in a line.
    pub(super) fn all_of_a_line(&mut self, line: &Line) {
        let Some(now) = self.threads.get(self.now) else {
            return;
        };
        let Some(space) = self.spaces.get_mut(now.space) else {
            return;
        };
        let number = line.address / LINE;
        let (loaded, stored) = (
            line.loaded | line.stack_loaded,
            line.stored | line.stack_stored,
        );
        if loaded | line.was_loaded != 0 {
            space.touched.line(number, Kind::Load);
        }
        if stored | line.was_stored != 0 {
            space.touched.line(number, Kind::Store);
        }
        if line.stack_loaded | line.stack_stored | line.was_stack != 0 {
            space.touched.is_stack(number);
        }
        if self.wanted.data {
            // (Behind all that happened to the heap.)
            let when = Moment {
                time: u64::MAX,
                thread: now.thread.slot,
            };
            let touched = u16::from(loaded | stored);
            space
                .allocated
                .used(line.address, touched, stored.into(), when);
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
