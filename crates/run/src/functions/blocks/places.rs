//! Where the instructions of a run are, by their addresses.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::costs::Place;
use crate::references::Costs;

/// Where instructions are.
#[derive(Default)]
pub(super) struct Places {
    /// By number.
    all: Vec<Place>,
    numbers: FxHashMap<Place, u32>,
    /// What is of no image's code.
    nowhere: u32,
    /// Those of each image: there may be many of them, which are looked at by turns.
    known: Vec<Image>,
    images: FxHashMap<u32, usize>,
    /// The image that was asked for last, and its place there.
    image: (u32, usize),
    /// The number of the place that was asked for last: mostly it is the same.
    last: u32,
}

/// Places of an image's instructions.
#[derive(Default)]
struct Image {
    /// Addresses and numbers, in order of addresses once one was asked for; of several of an address the last counts.
    all: Vec<(u64, u32)>,
    is_sorted: bool,
    /// Which was asked for last: mostly it is one of the next.
    last: usize,
}

impl Image {
    fn get(&mut self, pc: u64) -> Option<u32> {
        /// An instruction and those of its block that may be between it and the next that is asked for.
        const NEAR: usize = 4;
        if !self.is_sorted {
            self.all.reverse();
            self.all.sort_by_key(|(pc, _)| *pc);
            self.all.dedup_by_key(|(pc, _)| *pc);
            self.is_sorted = true;
        }
        let near = self.all.get(self.last..).unwrap_or(&[]).iter().take(NEAR);
        let at = match near.map(|(pc, _)| *pc).position(|known| known == pc) {
            Some(far) => self.last + far,
            None => self.all.binary_search_by_key(&pc, |(pc, _)| *pc).ok()?,
        };
        self.last = at;
        self.all.get(at).map(|(_, number)| *number)
    }
}

impl Places {
    fn number(&mut self, place: Place) -> u32 {
        if self.all.get(self.last as usize) != Some(&place) {
            let next = self.all.len() as u32;
            self.last = *self.numbers.entry(place.clone()).or_insert(next);
            if self.last == next {
                self.all.push(place);
            }
        }
        self.last
    }

    /// An image's place.
    fn image(&mut self, image: u32) -> Option<&mut Image> {
        if self.image.0 != image || self.known.is_empty() {
            let next = self.known.len();
            let place = *self.images.entry(image).or_insert(next);
            if place == next {
                self.known.push(Image::default());
            }
            self.image = (image, place);
        }
        self.known.get_mut(self.image.1)
    }

    /// An instruction is there.
    pub(super) fn set(&mut self, image: u32, pc: u64, place: Place) {
        let number = self.number(place);
        if let Some(image) = self.image(image) {
            image.all.push((pc, number));
            image.is_sorted = false;
        }
    }

    /// Where an instruction is of which nothing is known.
    pub(super) fn is_nowhere(&mut self, place: Place) {
        self.nowhere = self.number(place);
    }

    fn get(&mut self, image: u32, pc: u64) -> u32 {
        let known = self.image(image).and_then(|image| image.get(pc));
        known.unwrap_or(self.nowhere)
    }

    /// Where an instruction is.
    pub(super) fn at(&mut self, image: u32, pc: u64) -> Option<&Place> {
        let number = self.get(image, pc);
        self.all.get(number as usize)
    }

    /// Adds what an instruction cost to its place's sum.
    pub(super) fn add(
        &mut self,
        sums: &mut Vec<Option<Costs>>,
        (image, pc): (u32, u64),
        costs: &Costs,
    ) {
        let place = self.get(image, pc) as usize;
        if sums.len() <= place {
            sums.resize_with(self.all.len(), || None);
        }
        if let Some(sum) = sums.get_mut(place) {
            sum.get_or_insert_default().add(costs);
        }
    }

    /// The sums, in order.
    pub(super) fn by_place(&self, sums: Vec<Option<Costs>>) -> BTreeMap<Place, Costs> {
        let sums = self.all.iter().zip(sums);
        sums.filter_map(|(place, costs)| Some((place.clone(), costs?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_was_said_of_an_address_counts() {
        let place = |function| Place {
            function,
            file: 0,
            line: 0,
            chain: 0,
        };
        let mut places = Places::default();
        places.is_nowhere(place(9));
        for (image, pc, function) in [(1, 20, 0), (1, 10, 1), (2, 10, 2), (1, 20, 3), (1, 24, 3)] {
            places.set(image, pc, place(function));
        }
        let at = |places: &mut Places, image, pc| places.at(image, pc).unwrap().function;
        let asked = [
            (1, 10),
            (1, 20),
            (2, 10),
            (1, 24),
            (1, 10),
            (1, 11),
            (3, 10),
        ];
        let found = asked.map(|(image, pc)| at(&mut places, image, pc));
        assert_eq!(found, [1, 3, 2, 3, 1, 9, 9]);
        // What is said later counts, too.
        places.set(1, 10, place(4));
        assert_eq!(at(&mut places, 1, 10), 4);
        assert_eq!(at(&mut places, 1, 24), 3);
    }
}
