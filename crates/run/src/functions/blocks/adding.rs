//! Sums by place while they are added up: a run executes tens of thousands of instructions, most of them on the line of
//! the one before and at the address behind it.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use truecount_engine::virt::Counts;

use super::costs::Place;
use crate::references::Simulated;

/// By place and address (0 where instructions are not kept apart).
pub(super) type Sums = BTreeMap<(Place, u64), (Counts, Simulated)>;

/// Places with addresses, each with a number.
#[derive(Default)]
pub(super) struct Met {
    numbers: FxHashMap<(Place, u64), u32>,
    all: Vec<(Place, u64)>,
    /// That of the one that was asked for last.
    last: u32,
}

impl Met {
    pub(super) fn number(&mut self, place: Place, address: u64) -> u32 {
        let key = (place, address);
        if self.all.get(self.last as usize) == Some(&key) {
            return self.last;
        }
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(key.clone()).or_insert(next);
        if number == next {
            self.all.push(key);
        }
        self.last = number;
        number
    }
}

/// [`Sums`] of a piece of the run, by numbers of [`Met`].
#[derive(Default)]
pub(super) struct Adding {
    /// Where each number's costs are.
    places: FxHashMap<u32, u32>,
    costs: Vec<(u32, (Counts, Simulated))>,
    /// Where those are that were added to last.
    last: u32,
}

impl Adding {
    /// What is added up for a number.
    pub(super) fn at(&mut self, number: u32) -> Option<&mut (Counts, Simulated)> {
        let last = self.costs.get(self.last as usize);
        if last.is_none_or(|last| last.0 != number) {
            let next = self.costs.len() as u32;
            self.last = *self.places.entry(number).or_insert(next);
            if self.last == next {
                self.costs.push((number, Default::default()));
            }
        }
        let (_, costs) = self.costs.get_mut(self.last as usize)?;
        Some(costs)
    }

    pub(super) fn finish(self, met: &Met) -> Sums {
        let costs = self.costs.iter();
        let costs = costs.filter_map(|(number, costs)| {
            let key = met.all.get(*number as usize)?;
            Some((key, costs))
        });
        let mut costs: Vec<_> = costs.collect();
        costs.sort_unstable_by_key(|(key, _)| *key);
        let costs = costs.into_iter();
        costs.map(|(key, costs)| (key.clone(), *costs)).collect()
    }
}

/// Addresses that have room together.
const TOGETHER: usize = 64;

/// Numbers of [`Met`] by image and address.
#[derive(Default)]
pub(super) struct Instructions {
    pages: FxHashMap<(u32, u64), u32>,
    numbers: Vec<[u32; TOGETHER]>,
    /// The page that was asked for last.
    last: Option<((u32, u64), u32)>,
}

/// No number.
const NONE: u32 = u32::MAX;

impl Instructions {
    fn page(&self, key: (u32, u64)) -> Option<u32> {
        match self.last {
            Some((last, page)) if last == key => Some(page),
            _ => self.pages.get(&key).copied(),
        }
    }

    pub(super) fn insert(&mut self, image: u32, pc: u64, number: u32) {
        let key = (image, pc / TOGETHER as u64);
        let page = self.page(key).unwrap_or_else(|| {
            self.numbers.push([NONE; TOGETHER]);
            let page = self.numbers.len() as u32 - 1;
            self.pages.insert(key, page);
            page
        });
        self.last = Some((key, page));
        let page = self.numbers.get_mut(page as usize);
        if let Some(place) = page.and_then(|page| page.get_mut(pc as usize % TOGETHER)) {
            *place = number;
        }
    }

    pub(super) fn get(&mut self, image: u32, pc: u64) -> Option<u32> {
        let key = (image, pc / TOGETHER as u64);
        let page = self.page(key)?;
        self.last = Some((key, page));
        let number = self.numbers.get(page as usize)?.get(pc as usize % TOGETHER);
        number.copied().filter(|number| *number != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: usize, line: u32) -> Place {
        Place {
            function,
            file: 0,
            line,
            chain: 0,
        }
    }

    #[test]
    fn sums_are_by_place_whatever_came_before() {
        let mut met = Met::default();
        let (mut one, mut other) = (Adding::default(), Adding::default());
        for (function, line, count) in [(2, 5, 1), (2, 5, 2), (1, 9, 4), (2, 5, 8), (1, 3, 16)] {
            let number = met.number(place(function, line), 0);
            one.at(number).unwrap().0[0] += count;
            other.at(number).unwrap().1[0] += 2 * count;
        }
        let told = |sums: Sums| -> Vec<(usize, u32, u64, u64)> {
            let sums = sums.into_iter();
            sums.map(|((at, _), (counts, simulated))| {
                (at.function, at.line, counts[0], simulated[0])
            })
            .collect()
        };
        let expected = [(1, 3, 16, 0), (1, 9, 4, 0), (2, 5, 11, 0)];
        assert_eq!(told(one.finish(&met)), expected);
        let expected = [(1, 3, 0, 32), (1, 9, 0, 8), (2, 5, 0, 22)];
        assert_eq!(told(other.finish(&met)), expected);
    }

    #[test]
    fn addresses_are_of_their_images() {
        let mut known = Instructions::default();
        for (image, pc, number) in [
            (1, 0x1000, 1),
            (2, 0x1000, 2),
            (1, 0x103f, 3),
            (1, 0x1040, 4),
        ] {
            known.insert(image, pc, number);
        }
        known.insert(1, 0x1000, 5);
        let found = [(1, 0x1000), (1, 0x103f), (1, 0x1040), (2, 0x1000)];
        assert_eq!(
            found.map(|(image, pc)| known.get(image, pc)),
            [5, 3, 4, 2].map(Some)
        );
        for (image, pc) in [
            (1, 0x1001),
            (2, 0x103f),
            (2, 0x1040),
            (3, 0x1000),
            (1, u64::MAX),
        ] {
            assert_eq!(known.get(image, pc), None);
        }
    }
}
