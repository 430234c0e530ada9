//! What a model has to know, as the engine tells it: where references to lines that were used last are left out.

use super::super::site::Told;
use super::Gathering;
use truecount_engine::virt::references::{Batch, Code, Meaning, Next};
use truecount_memory::{By, Level};

/// What something with a number came to in a table's blocks.
pub(super) struct Met {
    told: Told,
    /// Misses of the first level; branches: taken …
    first: u64,
    /// … and of the last; predicted wrongly.
    last: u64,
}

/// Something that the engine tells by its number.
pub(super) struct Number {
    told: Told,
    /// Number of its block …
    block: u32,
    /// … and of its step there.
    step: u32,
}

impl Gathering {
    /// Gives what an instruction does a number.
    pub(super) fn give_number(&mut self, code: &Code, at: usize, what: Meaning) -> Option<u32> {
        let now = self.threads.get(self.now)?;
        let table = self.tables.get_mut(now.table)?;
        let (step, told) = table.site(code, &self.wanted)?.told(at, what)?;
        let (block, step) = (code.number, step as u32);
        let next = self.numbers.len() as u32;
        let number = *self.numbered.entry((block, step)).or_insert(next);
        if number == next {
            self.numbers.push(Number { told, block, step });
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
        // (Beside what is counted, so that one place is looked at.)
        let new = self.numbers.iter().skip(table.met.len());
        table.met.extend(new.map(|number| Met {
            told: number.told,
            first: 0,
            last: 0,
        }));
        let facts = self.wanted.facts;
        let mut touched = facts.then(|| space.lines(&self.wanted, when));
        let before = modelled.caches.beside;
        for next in batch {
            let (Next::Reference(number, _)
            | Next::Branch(number, _)
            | Next::Jump(number, _)
            | Next::Fetch(number)) = next;
            let Some(Met { told, first, last }) = table.met.get_mut(number as usize) else {
                self.lost += 1;
                continue;
            };
            match next {
                Next::Branch(_, taken) => {
                    *first += u64::from(taken);
                    *last += u64::from(modelled.branches.conditional(told.pc, taken));
                }
                Next::Jump(_, target) => {
                    *first += 1;
                    *last += u64::from(modelled.branches.indirect(told.pc, target));
                }
                Next::Reference(_, address) => {
                    let by = By {
                        pc: told.pc,
                        operand: told.operand,
                    };
                    let level = modelled.caches.meet_data(address, told.size, by);
                    if level != Level::First {
                        *first += 1;
                        *last += u64::from(level == Level::Memory);
                        if let Some(touched) = &mut touched {
                            touched.missed(address, level == Level::Memory);
                        }
                    }
                }
                Next::Fetch(_) => {
                    let level = modelled.caches.meet_fetch(told.pc, told.size);
                    *first += u64::from(level != Level::First);
                    *last += u64::from(level == Level::Memory);
                }
            }
        }
        table.beside.add_since(&before, &modelled.caches.beside);
    }

    /// What was told by numbers goes to the blocks.
    pub(super) fn spread(&mut self) {
        for table in &mut self.tables {
            for (number, met) in self.numbers.iter().zip(std::mem::take(&mut table.met)) {
                let met = [met.first, met.last];
                if met == [0; 2] {
                    continue;
                }
                let site = table.sites.place(number.block as usize);
                let site = site.and_then(Option::as_mut);
                let known = site.is_some_and(|site| site.adds(number.step as usize, met));
                self.lost += u32::from(!known);
            }
        }
    }
}
