//! What a model has to know, as the engine tells it: where references to lines that were used last are left out.

use super::super::costs::place;
use super::super::paths::{OfNode as _, Paths};
use super::super::site::Told;
use super::met::{Met, Number};
use super::missed::Changed;
use super::{Gathering, Table};
use truecount_engine::virt::references::{Batch, Code, Meaning, Next};
use truecount_memory::{By, Level};

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
        macro_rules! meet_misses {
            () => {
                self.lost += self.misses.meet(&mut Changed {
                    met: &mut table.met,
                    numbers: &self.numbers,
                    caches: &mut modelled.caches,
                    lines: touched.as_mut(),
                    paths: &mut self.paths,
                    node: now.node,
                })
            };
        }
        let branches = self.is_predicted && self.paths.is_none();
        for next in batch {
            if let Some(full) = self.misses.take(&next, branches) {
                if full {
                    meet_misses!();
                }
                continue;
            }
            let number = match next {
                // (In the order of the program for the levels behind the first, and for nodes.)
                Next::Known(known, lines) => {
                    modelled.caches.know(known.code, known.set, lines);
                    continue;
                }
                Next::Node(address) => {
                    meet_misses!();
                    let number = |paths: &mut Paths| paths.number(address);
                    now.node = self.paths.as_mut().map(number);
                    continue;
                }
                Next::Reference(number, _) | Next::Fetch(number) => {
                    meet_misses!();
                    number
                }
                Next::Branch(number, _) | Next::Jump(number, _) => number,
                Next::MissedReference(..) | Next::MissedFetch(_) => continue,
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
                Next::Fetch(_) => modelled.caches.meet_fetch(told.pc, told.size),
                Next::MissedReference(..)
                | Next::MissedFetch(_)
                | Next::Node(_)
                | Next::Known(..) => continue,
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
        meet_misses!();
        table.beside.add_since(&before, &modelled.caches.beside);
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
