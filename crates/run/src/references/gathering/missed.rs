//! Misses of the first levels, and branches that were predicted wrongly, some at a time: what is looked up for each of them
//! (what it is, the levels behind, whose line it is) is far apart in memory, and is asked for while another one waits.

use super::super::costs::place;
use super::super::lines::Lines;
use super::super::paths::{OfNode as _, Paths};
use super::met::{Mets, Number};
use truecount_engine::virt::references::Next;
use truecount_memory::{Caches, Level};

/// So many together.
const TOGETHER: usize = 256;

/// A miss of a first level.
struct Miss {
    /// What the engine calls what it is.
    number: u32,
    /// Bytes.
    size: u32,
    /// The address; of an instruction 0 at first.
    address: u64,
    /// It is one of data.
    data: bool,
    /// No level has it.
    memory: bool,
    /// Where misses of its sort are counted.
    place: u8,
}

/// Those that nobody looked at yet.
#[derive(Default)]
pub(super) struct Misses {
    all: Vec<Miss>,
    /// Numbers of branches.
    wrong: Vec<u32>,
}

/// What misses change.
pub(super) struct Changed<'a, 'b> {
    pub(super) met: &'a mut Mets,
    pub(super) numbers: &'a [Number],
    pub(super) caches: &'a mut Caches,
    pub(super) lines: Option<&'a mut Lines<'b>>,
    pub(super) paths: &'a mut Option<Paths>,
    pub(super) node: Option<u32>,
}

impl Misses {
    /// Keeps it for later, if nothing else follows from it than what is counted; whether there is no room for another one.
    /// `branches`: nothing does from branches that were predicted wrongly.
    #[inline]
    pub(super) fn take(&mut self, next: &Next<'_>, branches: bool) -> Option<bool> {
        match *next {
            Next::MissedReference(number, address) => Some(self.push(number, Some(address))),
            Next::MissedFetch(number) => Some(self.push(number, None)),
            Next::Branch(number, _) | Next::Jump(number, _) if branches => {
                self.wrong.push(number);
                Some(self.wrong.len() >= TOGETHER)
            }
            _ => None,
        }
    }

    /// One more miss, of data where it has an address.
    #[inline]
    fn push(&mut self, number: u32, address: Option<u64>) -> bool {
        self.all.push(Miss {
            number,
            size: 0,
            address: address.unwrap_or(0),
            data: address.is_some(),
            memory: false,
            place: 0,
        });
        self.all.len() >= TOGETHER
    }

    /// Looks at all, in their order; how many were nothing that is known.
    pub(super) fn meet(&mut self, changed: &mut Changed<'_, '_>) -> u32 {
        let mut lost = 0;
        for number in self.wrong.drain(..) {
            match changed.met.place(number as usize, changed.numbers) {
                Some(met) => met.last += 1,
                None => lost += 1,
            }
        }
        if self.all.is_empty() {
            return lost;
        }
        self.all.retain_mut(|miss| {
            let met = changed.met.place(miss.number as usize, changed.numbers);
            let Some(met) = met else {
                lost += 1;
                return false;
            };
            met.first += 1;
            let told = met.told;
            (miss.size, miss.place) = (told.size, told.misses);
            miss.address = if miss.data { miss.address } else { told.pc };
            true
        });
        let caches = &mut *changed.caches;
        for miss in &mut self.all {
            let level = match miss.data {
                true => caches.meet_missed_data(miss.address, miss.size),
                false => caches.meet_missed_fetch(miss.address, miss.size),
            };
            miss.memory = level == Level::Memory;
        }
        for miss in self.all.iter().filter(|miss| miss.memory) {
            let met = changed.met.place(miss.number as usize, changed.numbers);
            if let Some(met) = met {
                met.last += 1;
            }
        }
        if let Some(lines) = &mut changed.lines {
            for miss in self.all.iter().filter(|miss| miss.data) {
                lines.missed(miss.address, miss.memory);
            }
        }
        if changed.paths.is_some() {
            for miss in &self.all {
                let (first, memory) = (usize::from(miss.place), u64::from(miss.memory));
                changed.paths.meet(changed.node, first, 1);
                changed
                    .paths
                    .meet(changed.node, first + place::TO_LAST, memory);
            }
        }
        self.all.clear();
        lost
    }
}
