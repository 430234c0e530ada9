//! What the engine says, as it comes.

use super::super::paths::OfNode as _;
use super::super::shared::share;
use super::{Gathering, Of};
use std::ops::Range;
use truecount_engine::virt::references::{
    Batch, Code, Elements, Executed, Heap, Lies, Line, Marked, Meaning, Sink, Thread,
};
use truecount_memory::Beside;

impl Sink for Gathering {
    fn turn(&mut self, thread: Thread) {
        if let Some(now) = self.threads.get(self.now)
            && now.thread.memory != thread.memory
            && let Some(space) = self.spaces.get_mut(now.space)
        {
            space.touched.pause();
        }
        self.now = self.number(thread);
    }

    fn marked(&mut self, thread: Thread, marked: Marked) {
        let part = match marked {
            Marked::Part(part) => part,
            Marked::Node(address) => {
                if let (Some(paths), Some(now)) = (&mut self.paths, self.threads.get_mut(self.now))
                {
                    now.leave_node(paths);
                    now.node = Some(paths.number(address));
                }
                return;
            }
            _ => return,
        };
        let table = self.table(thread, part.part, !part.collects);
        let Some(now) = self.threads.get_mut(self.now) else {
            return;
        };
        let before = std::mem::replace(&mut now.table, table);
        let begins = std::mem::replace(&mut now.off, !part.counts) && part.counts;
        if let (true, Some(model), Some(modelled)) = (
            begins && self.wanted.emptied,
            &self.wanted.model,
            &mut now.modelled,
        ) {
            modelled.empty(model, &self.wanted.beside);
        }
        let number = |table: usize| self.tables.get(table).map(|table| table.part.part);
        if number(before) != number(table) {
            self.leave_parts(part.part);
        }
    }

    fn heap(&mut self, thread: Thread, heap: &Heap, ahead: bool) {
        let number = self.number(thread);
        let Some(of) = self.threads.get_mut(number) else {
            return;
        };
        let place = of.space;
        if ahead {
            if let Some(space) = self.spaces.get_mut(place) {
                space.allocated.expect(heap, thread.slot);
            }
            return;
        }
        of.time = heap.time;
        let Some(space) = self.spaces.get_mut(place) else {
            return;
        };
        // Before this time none of the memory's threads is going to be.
        if space.behind.is_none_or(|behind| behind == number) {
            let threads = self.threads.iter().enumerate();
            let threads = threads.filter(|(_, of)| of.space == place);
            let behind = threads.min_by_key(|(_, of)| of.time);
            space.behind = behind.map(|(behind, _)| behind);
            space
                .allocated
                .heap
                .forget(behind.map_or(0, |(_, of)| of.time));
        }
        space.allocated.happens(heap, thread.slot);
    }

    fn executed(&mut self, _thread: Thread, executed: &Executed<'_>) {
        let Some(now) = self.threads.get_mut(self.now) else {
            return;
        };
        if now.off {
            return;
        }
        let (Some(table), Some(space)) = (
            self.tables.get_mut(now.table),
            self.spaces.get_mut(now.space),
        ) else {
            return;
        };
        let Some(site) = table.site(executed.code, &self.wanted) else {
            return;
        };
        if self.is_plain
            && let Some(modelled) = &mut now.modelled
            && site.goes_on(executed, modelled)
        {
            return;
        }
        let when = now.moment();
        let facts = self.wanted.facts;
        let extent = space.touched.extent();
        let touched = facts.then(|| space.lines(&self.wanted, when));
        let misses = |now: &Of| now.modelled.as_ref().map(|modelled| modelled.caches.beside);
        let before = misses(now);
        site.execute(executed, touched, now.modelled.as_mut());
        if let Some(facts) = self.paths.facts(now.node) {
            facts.extent.add_since(&extent, &space.touched.extent());
            facts.block(executed);
        }
        if self.wanted.beside != Beside::default()
            && let (Some(before), Some(after)) = (before, misses(now))
        {
            table.beside.add_since(&before, &after);
            if let Some(facts) = self.paths.facts(now.node) {
                facts.beside.add_since(&before, &after);
            }
        }
        if self.wanted.sharing {
            let slot = now.thread.slot;
            share(executed, slot, &mut space.sharing, &mut self.runs);
        }
        if let Some(order) = &mut now.order {
            order.execute(executed, &mut self.runs);
        }
    }

    fn number(&mut self, code: &Code, at: usize, what: Meaning) -> Option<u32> {
        self.give_number(code, at, what)
    }

    fn batch(&mut self, _thread: Thread, batch: &mut Batch<'_>) {
        self.take(batch);
    }

    fn finished(&mut self) {
        self.spread();
    }

    fn referenced(
        &mut self,
        _thread: Thread,
        code: &Code,
        operand: (usize, usize),
        address: u64,
        hint: &mut u32,
    ) {
        self.reference(code, operand, address, hint);
    }

    fn masked(
        &mut self,
        _thread: Thread,
        code: &Code,
        (at, _): (usize, usize),
        elements: Elements,
        hint: &mut u32,
    ) {
        self.masked(code, at, &elements, hint);
    }

    fn elements(&mut self, _thread: Thread, code: &Code, (at, _): (usize, usize), times: u64) {
        self.elements(code, at, times);
    }

    fn lies(&mut self, _thread: Thread, code: &Code, operand: (usize, usize), lies: Lies) {
        self.lie(code, operand, &lies);
    }

    fn line(&mut self, _thread: Thread, line: &Line) {
        self.all_of_a_line(line);
    }

    fn noted(&mut self, _thread: Thread, executed: &Executed<'_>, at: usize) {
        self.references(executed, at);
    }

    fn counted(
        &mut self,
        (thread, part): (Thread, u32),
        code: &Code,
        instructions: Range<usize>,
        times: u64,
    ) {
        self.count((thread, part), code, instructions, times);
    }

    fn taken(&mut self, of: (Thread, u32), code: &Code, at: usize, times: u64) {
        self.count_taken(of, code, at, times);
    }

    fn mispredicted(&mut self, of: (Thread, u32), code: &Code, at: usize, times: u64) {
        self.count_mispredicted(of, code, at, times);
    }

    fn ended(&mut self, thread: Thread) {
        let number = self.number(thread);
        if let Some(of) = self.threads.get_mut(number) {
            of.time = u64::MAX;
            if let Some(space) = self.spaces.get_mut(of.space) {
                space.behind = None;
            }
        }
    }

    fn lost(&mut self, parts: u32) {
        self.lost += parts;
    }
}
