//! Where what is known to add nothing is not told: references that may add something, and executions at the end.

use super::super::lines::Lines;
use super::super::modelled::Modelled;
use super::super::paths::{OfNode as _, PathFacts};
use super::super::site::Site;
use super::{Gathering, Of, Wanted};
use std::ops::Range;
use truecount_engine::virt::references::{
    Code, Elements, Executed, Facts, Levels, Lies, Line, MOST_SETS, Thread,
};
use truecount_memory::{Beside, Extent, Kind, LINE, Moment, Predictor, Prefetch, Replacement};

impl Gathering {
    /// A block of the thread whose turn it is, and the lines that it may touch.
    #[inline]
    fn site_of(&mut self, code: &Code) -> Option<(&mut Site, Lines<'_>)> {
        let now = self.threads.get_mut(self.now)?;
        let table = self.tables.get_mut(now.table)?;
        let space = self.spaces.get_mut(now.space)?;
        let touched = space.lines(&self.wanted, now.moment());
        Some((table.site(code, &self.wanted)?, touched))
    }

    /// Nothing else is wanted than what references that are known to add nothing do not change.
    pub(in crate::references) fn can_be_filtered(&self) -> bool {
        let Wanted {
            facts,
            data: _,
            without: _,
            threads: _,
            model,
            cpu: _,
            beside: _,
            sharing,
            locality,
            paths: _,
            emptied: _,
            off_at_first: _,
            modifies_as_store: _,
        } = &self.wanted;
        let modelled = self.levels().is_some();
        let wanted = if model.is_some() { modelled } else { *facts };
        wanted && !sharing && !locality
    }

    /// The facts that are asked for.
    pub(in crate::references) fn facts(&self) -> Facts {
        let Wanted { facts, without, .. } = &self.wanted;
        Facts {
            lines: self.wanted.keeps_lines(),
            bytes: *facts && !without.bytes,
            taken: *facts && !without.taken,
        }
    }

    /// The model's first levels, if a reference to the line that was used last in its set changes nothing in the model,
    /// nor in what else is wanted.
    pub(in crate::references) fn levels(&self) -> Option<Levels> {
        /// Bytes of the shortest lines.
        const SHORTEST: u32 = 32;
        let Wanted {
            model,
            beside,
            without,
            off_at_first,
            ..
        } = &self.wanted;
        if *off_at_first {
            return None;
        }
        let Beside {
            l2,
            tlb,
            itlb,
            prefetch,
            predictor,
        } = beside;
        let machine = model.as_ref()?;
        let caches = [machine.i1, machine.d1, machine.ll];
        let caches = caches.into_iter().chain(*l2);
        // (References count for at most a line of the smallest.)
        let longest = caches.map(|cache| cache.line).min()?;
        let first = [machine.i1, machine.d1];
        let lru = first.map(|cache| cache.replacement) == [Replacement::Lru; 2];
        let looked = lru && machine.d1.line == LINE as u32 && longest >= SHORTEST;
        let ordered = tlb.is_some() || itlb.is_some() || *prefetch != Prefetch::None;
        let sets = |sets: u64| u32::try_from(sets).ok().filter(|sets| *sets <= MOST_SETS);
        let levels = Levels {
            data_sets: sets(machine.d1.sets())?,
            code_sets: sets(machine.i1.sets())?,
            data_ways: machine.d1.ways,
            code_ways: machine.i1.ways,
            code_line: machine.i1.line,
            longest,
            data: !without.data,
            instructions: !without.instructions,
            branches: !without.branches,
            predicted: *predictor == Predictor::Cachegrind,
        };
        (looked && !ordered).then_some(levels)
    }

    /// An operand of an instruction referenced an address.
    pub(super) fn reference(
        &mut self,
        code: &Code,
        operand: (usize, usize),
        address: u64,
        hint: &mut u32,
    ) {
        let before = self.extent();
        if let Some((site, mut touched)) = self.site_of(code)
            && !site.reference(operand, address, &mut touched, hint)
        {
            self.lost += 1;
        }
        self.told(before, |facts| facts.lies(code, operand, address));
    }

    /// How much of its memory the thread whose turn it is has touched with others; `None`: nobody asks.
    fn extent(&self) -> Option<Extent> {
        let now = self.threads.get(self.now)?;
        self.paths.as_ref().filter(|paths| paths.has_facts())?;
        Some(self.spaces.get(now.space)?.touched.extent())
    }

    /// That thread touched something since then: it is of the node that it is in, as what `what` adds is.
    fn told(&mut self, before: Option<Extent>, what: impl FnOnce(&mut PathFacts)) {
        if let (Some(before), Some(after)) = (before, self.extent())
            && let Some(now) = self.threads.get(self.now)
            && let Some(facts) = self.paths.facts(now.node)
        {
            facts.extent.add_since(&before, &after);
            what(facts);
        }
    }

    /// An operand of an instruction made references that are not aligned.
    pub(super) fn lie(&mut self, code: &Code, operand: (usize, usize), lies: &Lies) {
        let known = self.site_of(code);
        if !known.is_some_and(|(site, _)| site.lies(operand, lies)) {
            self.lost += 1;
        }
    }

    /// An instruction made so many references to elements of its operand that have nothing else to say.
    pub(super) fn elements(&mut self, code: &Code, at: usize, times: u64) {
        let known = self.site_of(code);
        if !known.is_some_and(|(site, _)| site.elements(at, times)) {
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
        let (before, number) = (space.touched.extent(), line.address / LINE);
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
        // (All was told before, but what a thread that was killed had entered last.)
        if let Some(facts) = self.paths.facts(now.node) {
            facts.extent.add_since(&before, &space.touched.extent());
        }
    }

    /// An instruction made its references.
    pub(super) fn references(&mut self, executed: &Executed<'_>, at: usize) {
        let before = self.extent();
        self.noted(executed.code, |site, touched, model| {
            site.references(executed, at, touched, model);
            true
        });
        self.told(before, |facts| facts.references(executed, at));
    }

    /// An instruction made references to elements of its operand.
    pub(super) fn masked(&mut self, code: &Code, at: usize, elements: &Elements, hint: &mut u32) {
        let before = self.extent();
        self.noted(code, |site, touched, model| {
            site.masked(at, elements, (touched, model), hint)
        });
        self.told(before, |facts| facts.elements(code, at, elements));
    }

    /// A block of the thread whose turn it is has noted something. `false`: it could not have.
    fn noted(
        &mut self,
        code: &Code,
        is: impl FnOnce(&mut Site, Option<&mut Lines<'_>>, Option<&mut Modelled>) -> bool,
    ) {
        let Some(now) = self.threads.get_mut(self.now).filter(|now| !now.off) else {
            return;
        };
        let (Some(table), Some(space)) = (
            self.tables.get_mut(now.table),
            self.spaces.get_mut(now.space),
        ) else {
            return;
        };
        let when = now.moment();
        let mut touched = self
            .wanted
            .keeps_lines()
            .then(|| space.lines(&self.wanted, when));
        let beside = |of: &Of| of.modelled.as_ref().map(|modelled| modelled.caches.beside);
        let before = beside(now);
        let site = table.site(code, &self.wanted);
        let known = site.is_some_and(|site| is(site, touched.as_mut(), now.modelled.as_mut()));
        self.lost += u32::from(!known);
        if let (Some(before), Some(after)) = (before, beside(now)) {
            table.beside.add_since(&before, &after);
            if let Some(facts) = self.paths.facts(now.node) {
                facts.beside.add_since(&before, &after);
            }
        }
        if let Some(paths) = &mut self.paths {
            now.leave_node(paths);
        }
    }

    /// Instructions were executed so often.
    pub(super) fn count(
        &mut self,
        of: (Thread, u32),
        code: &Code,
        instructions: Range<usize>,
        times: u64,
    ) {
        self.now = self.number(of.0);
        if let Some(site) = self.site(of, code) {
            site.count(instructions, times);
        }
    }

    /// A conditional branch was taken so often.
    pub(super) fn count_taken(&mut self, of: (Thread, u32), code: &Code, at: usize, times: u64) {
        // (They were told one by one, or nobody asks.)
        let told = self.wanted.model.is_some() && !self.wanted.without.branches;
        if told && !self.is_predicted || !self.facts().taken {
            return;
        }
        if let Some(site) = self.site(of, code) {
            site.taken(at, times);
        }
    }

    /// A branch was predicted wrongly so often.
    pub(super) fn count_mispredicted(
        &mut self,
        of: (Thread, u32),
        code: &Code,
        at: usize,
        times: u64,
    ) {
        if let Some(site) = self.site(of, code) {
            site.mispredicted(at, times);
        }
    }

    /// The block as a thread executed it, in a part of its process' profile.
    fn site(&mut self, (thread, part): (Thread, u32), code: &Code) -> Option<&mut Site> {
        let table = self.table(thread, part, false);
        let table = self.tables.get_mut(table)?;
        table.site(code, &self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of a model's references is left out: with these sizes, and what is beside them.
    fn levels(d1: &str, i1: &str, beside: Beside) -> Option<Levels> {
        let machine = truecount_memory::Machine {
            i1: i1.parse().unwrap(),
            d1: d1.parse().unwrap(),
            ll: "8388608,16,64".parse().unwrap(),
        };
        let wanted = Wanted {
            facts: true,
            model: Some(machine),
            beside,
            ..Wanted::default()
        };
        let gathering = Gathering::new(wanted);
        assert_eq!(gathering.can_be_filtered(), gathering.levels().is_some());
        gathering.levels()
    }

    #[test]
    fn where_the_order_of_all_references_matters_none_is_left_out() {
        let usual = "32768,8,64";
        let known = levels(usual, "2048,1,32", Beside::default()).unwrap();
        assert_eq!(
            (known.data_sets, known.code_sets, known.code_line),
            (64, 64, 32)
        );
        assert!(known.branches);
        let l2 = Some("262144,8,64".parse().unwrap());
        let behind = Beside {
            l2,
            ..Beside::default()
        };
        assert!(levels(usual, usual, behind).is_some());
        assert!(levels("65536,1,64", usual, Beside::default()).is_some());
        assert!(levels("131072,1,64", usual, Beside::default()).is_none());
        assert!(levels("32768,8,128", usual, Beside::default()).is_none());
        let pages = Some("262144,4,4096".parse().unwrap());
        let others = [
            Beside {
                tlb: pages,
                ..Beside::default()
            },
            Beside {
                itlb: pages,
                ..Beside::default()
            },
            Beside {
                prefetch: Prefetch::NextLine,
                ..Beside::default()
            },
        ];
        for beside in others {
            assert!(levels(usual, usual, beside).is_none());
        }
    }
}
