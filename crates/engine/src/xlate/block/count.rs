//! What a block adds to which counter: the instructions to a running total, or
//! one execution to the block's own counter, from which every static event of
//! the block follows (`xlate::facts`).
//!
//! An early exit corrects what the whole block has added or is going to add: the
//! running total by a number, the block's counter by a counter of its own. A block that was translated for one exit
//! takes over what the exit had to add to the running total, and adds it with its own number: an addition that waits
//! for the one before costs more than all else in a block.

use super::{Builder, Item, record};
use crate::calls::{EVENTS, FEW};
use crate::layout::COUNTERS;
use crate::xlate::emit::{Buffer, SCRATCH};
use crate::xlate::entry::Offsets;
use crate::xlate::facts::Facts;
use crate::xlate::known::{Filter, simple};

/// What an early exit corrects, with its own counter: the instructions `from` to
/// `to` of the block are added (or taken away) once for each time it is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// First instruction.
    pub from: u8,
    /// Behind the last.
    pub to: u8,
    /// Added, else taken away.
    pub add: bool,
    /// What the counter says of a branch.
    pub branch: Branch,
}

impl Part {
    /// One that says nothing.
    pub const NONE: Self = Self::of_branch(Branch::None);

    /// One that has no instructions, and says this of a branch.
    pub const fn of_branch(branch: Branch) -> Self {
        Self {
            from: 0,
            to: 0,
            add: true,
            branch,
        }
    }

    /// What its counter at `value` adds, modulo 2⁶⁴.
    pub const fn times(&self, value: u64) -> u64 {
        if self.add {
            value
        } else {
            value.wrapping_neg()
        }
    }
}

/// What a counter says of one of its block's instructions, a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Branch {
    /// Nothing.
    #[default]
    None,
    /// How often it was taken …
    Taken(u8),
    /// … or predicted wrongly.
    Mispredicted(u8),
}

/// An addition to a word of the context's region.
#[derive(Clone, Copy, Debug, Default)]
pub struct Added {
    /// Which word.
    pub offset: u32,
    /// How much.
    pub value: i16,
    /// Where something goes by the running total (a tree of calls, the engine's clock): instructions that it goes on by
    /// beside a counter …
    pub clock: i8,
    /// … and what the other events of a tree go on by.
    pub events: [i16; EVENTS],
}

impl Added {
    /// One more execution.
    fn one(counter: u32) -> Self {
        Self {
            offset: COUNTERS.wrapping_add(counter.wrapping_mul(8)),
            value: 1,
            ..Self::default()
        }
    }

    /// Nothing is added.
    pub fn is_nothing(self) -> bool {
        self.value == 0 && self.clock == 0 && self.events == [0; EVENTS]
    }

    /// What is added to the tree's other events, if it is [`FEW`] numbers that are short.
    pub fn few(&self) -> Option<[i8; FEW]> {
        let (few, rest) = self.events.split_at(FEW);
        let mut short = [0; FEW];
        for (short, &event) in short.iter_mut().zip(few) {
            *short = i8::try_from(event).ok()?;
        }
        rest.iter().all(|&event| event == 0).then_some(short)
    }

    /// The words of the tree's other events, with what is added to each.
    fn others(self, offsets: &Offsets) -> impl Iterator<Item = (u32, i32)> {
        let words = (offsets.events..).step_by(8).zip(self.events);
        words
            .filter(|&(_, value)| value != 0)
            .map(|(word, value)| (word, i32::from(value)))
    }

    /// Where flags are dead.
    pub(super) fn plainly(self, code: &mut Buffer<'_>, offsets: &Offsets) {
        code.add_gs(self.offset, self.value.into());
        if self.clock != 0 {
            code.add_gs(offsets.lanes, self.clock.into());
        }
        for (word, value) in self.others(offsets) {
            code.add_gs(word, value);
        }
    }

    /// Through a register that is free, flags untouched.
    pub(super) fn through(self, reg: u8, code: &mut Buffer<'_>, offsets: &Offsets) {
        code.count_through(reg, self.offset, self.value.into());
        if self.clock != 0 {
            code.count_through(reg, offsets.lanes, self.clock.into());
        }
        for (word, value) in self.others(offsets) {
            code.count_through(reg, word, value);
        }
    }
}

/// Counts anywhere, keeping whatever is alive.
pub fn count_keeping(code: &mut Buffer<'_>, offsets: &Offsets, added: Added, live: u8) {
    if added.is_nothing() {
    } else if live == 0 {
        added.plainly(code, offsets);
    } else {
        code.store_gs(offsets.spill, SCRATCH);
        added.through(SCRATCH, code, offsets);
        code.load_gs(offsets.spill, SCRATCH);
    }
}

impl Builder<'_, '_> {
    /// What the whole block adds, and where.
    pub(super) fn whole(&self) -> Added {
        match self.config.counter {
            Some(counter) => Added {
                clock: self.clock(self.count as i32),
                events: self.events(0, self.count),
                ..Added::one(counter)
            },
            None => Added {
                offset: self.config.offsets.count,
                value: (self.config.pending + self.count as i32) as i16,
                ..Added::default()
            },
        }
    }

    /// What the running total lacks after `done` instructions.
    pub(super) fn pending(&self, done: usize, counted: bool) -> i32 {
        match counted {
            true => done as i32 - self.count as i32,
            false => self.config.pending + done as i32,
        }
    }

    /// What an exit after `done` instructions adds: they were counted with the
    /// whole block already, or not yet.
    pub(super) fn early(&mut self, done: usize, counted: bool) -> Added {
        let Some(counter) = self.config.counter else {
            return Added {
                offset: self.config.offsets.count,
                value: self.pending(done, counted) as i16,
                ..Added::default()
            };
        };
        let part = match counted {
            true => Part {
                from: done as u8,
                to: self.count as u8,
                add: false,
                branch: Branch::None,
            },
            false => Part {
                from: 0,
                to: done as u8,
                add: true,
                branch: Branch::None,
            },
        };
        let events = match counted {
            true => self.events(done, self.count).map(|value| -value),
            false => self.events(0, done),
        };
        Added {
            clock: self.clock(self.pending(done, counted)),
            events,
            ..self.part(counter, part)
        }
    }

    /// One more counter behind the block's.
    fn part(&mut self, counter: u32, part: Part) -> Added {
        if let Some(place) = self.block.parts.get_mut(self.block.part_count) {
            *place = part;
            self.block.part_count += 1;
        }
        Added::one(counter.wrapping_add(self.block.part_count as u32))
    }

    /// The last part counts how often conditional branch `at` is taken: what a tree of calls adds, too, to what is added there.
    pub(super) fn is_taken(&mut self, at: usize, added: &mut Added) {
        for (sum, taken) in added.events.iter_mut().zip(self.taken_events()) {
            *sum += taken;
        }
        let last = self.block.part_count.checked_sub(1);
        if let (Some(_), Some(part)) = (
            self.config.counter,
            last.and_then(|last| self.block.parts.get_mut(last)),
        ) {
            part.branch = Branch::Taken(at as u8);
        }
    }

    /// What such a branch adds to the tree's events, where it is not noted each time.
    fn taken_events(&self) -> [i16; EVENTS] {
        let filter = self.filtering().filter(Filter::counts_taken);
        let calls = self.config.calls.filter(|_| filter.is_some());
        calls.map_or([0; EVENTS], |calls| calls.taken())
    }

    /// What counts how often the conditional branch at the block's end is taken, where that is asked for.
    pub(super) fn taken_at_end(&mut self) -> Option<Added> {
        let counter = self.config.counter?;
        let filter = self.config.noting.and_then(|noting| noting.filter)?;
        if !filter.counts_taken() {
            return None;
        }
        let branch = Branch::Taken((self.count - 1) as u8);
        Some(Added {
            events: self.taken_events(),
            ..self.part(counter, Part::of_branch(branch))
        })
    }

    /// In cold code where the branch at the block's end is taken: counts that, where it is asked for.
    pub(super) fn count_taken(&mut self, live: u8) {
        if let Some(taken) = self.taken_at_end() {
            count_keeping(self.cold, &self.config.offsets, taken, live);
        }
    }

    /// What counts how often the branch at `at` is predicted wrongly; `None`: that is noted each time, as a tree of calls
    /// has to know where.
    pub(super) fn mispredicted(&mut self, at: usize) -> Option<Added> {
        let counter = self.config.counter.filter(|_| self.counts_mispredicted())?;
        Some(self.part(counter, Part::of_branch(Branch::Mispredicted(at as u8))))
    }

    /// So many instructions, if they are counted beside the counters, too.
    fn clock(&self, instructions: i32) -> i8 {
        let config = self.config;
        match config.calls.is_some() || config.own_clock || config.in_turn {
            true => instructions as i8,
            false => 0,
        }
    }

    /// What an instruction adds, where that is counted by block.
    pub(super) fn facts_of(&self, item: &Item) -> Facts {
        let config = self.config;
        if config.counter.is_none() {
            return Facts(0);
        }
        let facts = Facts::of(&item.insn);
        let filter = config.noting.and_then(|noting| noting.filter);
        match filter.filter(|_| config.calls.is_some()) {
            Some(filter) => facts.with_references(simple(&item.insn, item.code(), filter.reads_fs)),
            None => facts,
        }
    }

    /// The other events of a tree of calls in some instructions of the block.
    fn events(&self, from: usize, to: usize) -> [i16; EVENTS] {
        let facts = self.block.facts.get(from..to).unwrap_or(&[]);
        let of = |calls: super::CallOffsets| calls.events_of(facts);
        self.config.calls.map_or([0; EVENTS], of)
    }

    /// The count where flags are alive and no register is free.
    pub(super) fn count_spilling(&mut self, total: Added) {
        let offsets = self.config.offsets;
        let here = self.hot.here();
        self.hot.store_gs(offsets.spill, SCRATCH);
        total.through(SCRATCH, self.hot, &offsets);
        self.hot.load_gs(offsets.spill, SCRATCH);
        self.record(here, record::COUNTS);
    }
}
