//! What a model has to know, as the engine tells it: where references to lines that were used last are left out.

use super::super::costs::place;
use super::super::paths::{OfNode as _, Paths};
use super::super::site::Told;
use super::{Gathering, Table};
use truecount_engine::virt::references::{Batch, Code, Meaning, Next};
use truecount_memory::{By, Level};

/// What a table's blocks met, by the numbers of that: from one number on, as processes that come later have others.
#[derive(Default)]
pub(super) struct Mets {
    from: usize,
    all: Vec<Met>,
}

impl Mets {
    /// What has this number.
    #[inline]
    fn place(&mut self, number: usize, numbers: &[Number]) -> Option<&mut Met> {
        if number.wrapping_sub(self.from) >= self.all.len() {
            self.reach(number, numbers);
        }
        self.all.get_mut(number.wrapping_sub(self.from))
    }

    /// There is a place for this number, if that was given.
    #[cold]
    fn reach(&mut self, number: usize, numbers: &[Number]) {
        if self.all.is_empty() {
            self.from = number;
        }
        let new = |numbers: &[Number]| -> Vec<Met> { numbers.iter().map(Met::new).collect() };
        if number < self.from {
            // (At least as many more as there are: it may come again and again.)
            let from = number.min(self.from.saturating_sub(self.all.len()));
            let mut all = new(numbers.get(from..self.from).unwrap_or(&[]));
            all.append(&mut self.all);
            *self = Self { from, all };
        } else {
            let known = self.from + self.all.len();
            self.all.extend(new(numbers.get(known..).unwrap_or(&[])));
        }
    }

    /// Nobody is there any more: what is not 0, by its number.
    fn leave(&mut self) -> impl Iterator<Item = (u32, [u64; 2])> + use<> {
        let Self { from, all } = std::mem::take(self);
        let met = all.into_iter().map(|met| [met.first, met.last]);
        (from as u32..).zip(met).filter(|(_, met)| *met != [0; 2])
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// What something with a number came to in a table's blocks.
struct Met {
    told: Told,
    /// Misses of the first level; branches: taken …
    first: u64,
    /// … and of the last; predicted wrongly.
    last: u64,
}

impl Met {
    fn new(number: &Number) -> Self {
        Self {
            told: number.told,
            first: 0,
            last: 0,
        }
    }
}

/// Something that the engine tells by its number.
pub(super) struct Number {
    told: Told,
    /// Number of its block …
    block: u32,
    /// … and of its instruction there …
    at: usize,
    /// … and which of what that does it is.
    what: Meaning,
}

impl Gathering {
    /// Gives what an instruction does a number.
    pub(super) fn give_number(&mut self, code: &Code, at: usize, what: Meaning) -> Option<u32> {
        let next = self.numbers.len() as u32;
        let key = (code.number, at, what);
        let number = *self.numbered.entry(key).or_insert(next);
        if number == next {
            self.numbers.push(Number {
                told: Told::new(code, at, what, &self.wanted)?,
                block: code.number,
                at,
                what,
            });
        }
        Some(number)
    }

    /// What the thread whose turn it is did next.
    pub(super) fn take(&mut self, batch: &mut Batch<'_>) {
        let Some(now) = self.threads.get_mut(self.now) else {
            return;
        };
        let when = now.moment();
        let (Some(table), Some(space), Some(modelled), false) = (
            self.tables.get_mut(now.table),
            self.spaces.get_mut(now.space),
            now.modelled.as_mut(),
            now.off,
        ) else {
            return batch.for_each(drop);
        };
        let mut touched = self
            .wanted
            .keeps_lines()
            .then(|| space.lines(&self.wanted, when));
        let before = modelled.caches.beside;
        let mut entered = (before, touched.as_ref().map(|lines| lines.touched.extent()));
        let by_path = self.paths.as_ref().is_some_and(Paths::has_facts);
        for next in batch {
            let number = match next {
                Next::Reference(number, _)
                | Next::Branch(number, _)
                | Next::Jump(number, _)
                | Next::Fetch(number)
                | Next::MissedReference(number, _)
                | Next::MissedFetch(number) => number,
                Next::Known(known, lines) => {
                    modelled.caches.know(known.code, known.set, lines);
                    continue;
                }
                Next::Node(address) => {
                    if by_path {
                        let extent = touched.as_ref().map(|lines| lines.touched.extent());
                        let since =
                            std::mem::replace(&mut entered, (modelled.caches.beside, extent));
                        self.paths.leave(now.node, &since, &entered);
                    }
                    let number = |paths: &mut Paths| paths.number(address);
                    now.node = self.paths.as_mut().map(number);
                    continue;
                }
            };
            // (What it is is beside what is counted, so that one place is looked at.)
            let met = table.met.place(number as usize, &self.numbers);
            let Some(Met { told, first, last }) = met else {
                self.lost += 1;
                continue;
            };
            let level = match next {
                Next::Branch(_, taken) => {
                    // (It is counted elsewhere how often it was taken, then.)
                    *first += u64::from(taken && !self.is_predicted);
                    if let Some(facts) = self.paths.facts(now.node) {
                        facts.taken += u64::from(taken && !self.is_predicted);
                    }
                    if self.is_predicted || modelled.branches.conditional(told.pc, taken) {
                        *last += 1;
                        self.paths.meet(now.node, place::CONDITIONAL_WRONG, 1);
                    }
                    continue;
                }
                Next::Jump(_, target) => {
                    if self.is_predicted || modelled.branches.indirect(told.pc, target) {
                        *last += 1;
                        self.paths.meet(now.node, place::INDIRECT_WRONG, 1);
                    }
                    continue;
                }
                Next::Reference(_, address) => {
                    let by = By {
                        pc: told.pc,
                        operand: told.operand,
                    };
                    let level = modelled.caches.meet_data(address, told.size, by);
                    if level != Level::First
                        && let Some(touched) = &mut touched
                    {
                        touched.missed(address, level == Level::Memory);
                    }
                    level
                }
                Next::MissedReference(_, address) => {
                    let level = modelled.caches.meet_missed_data(address, told.size);
                    if let Some(touched) = &mut touched {
                        touched.missed(address, level == Level::Memory);
                    }
                    level
                }
                Next::MissedFetch(_) => modelled.caches.meet_missed_fetch(told.pc, told.size),
                Next::Fetch(_) => modelled.caches.meet_fetch(told.pc, told.size),
                Next::Node(_) | Next::Known(..) => continue,
            };
            if level != Level::First {
                let of_memory = u64::from(level == Level::Memory);
                *first += 1;
                *last += of_memory;
                let misses = usize::from(told.misses);
                self.paths.meet(now.node, misses, 1);
                self.paths
                    .meet(now.node, misses + place::TO_LAST, of_memory);
            }
        }
        table.beside.add_since(&before, &modelled.caches.beside);
        let extent = touched.as_ref().map(|lines| lines.touched.extent());
        self.paths
            .leave(now.node, &entered, &(modelled.caches.beside, extent));
    }

    /// Parts that no thread is in any more keep what is not 0; others go on with this one.
    pub(super) fn leave_parts(&mut self, part: u32) {
        for (number, table) in self.tables.iter_mut().enumerate() {
            let left = table.part.part != part && !table.met.is_empty();
            if left && self.threads.iter().all(|of| of.table != number) {
                table.leave();
            }
        }
    }

    /// What was told by numbers goes to the blocks, once it is known which were executed.
    pub(super) fn spread(&mut self) {
        for table in &mut self.tables {
            table.leave();
            for (number, met) in std::mem::take(&mut table.left) {
                let Some(number) = self.numbers.get(number as usize) else {
                    continue;
                };
                let site = table.sites.place(number.block as usize);
                let site = site.and_then(Option::as_mut);
                let known = site.is_some_and(|site| site.adds((number.at, number.what), met));
                self.lost += u32::from(!known && !table.dropped);
            }
        }
    }
}

impl Table {
    /// Nobody is here any more.
    fn leave(&mut self) {
        self.left.extend(self.met.leave());
    }
}
