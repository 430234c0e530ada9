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
    /// Numbers of places by address, for each image: there may be many of them, which are looked at by turns.
    known: Vec<FxHashMap<u64, u32>>,
    images: FxHashMap<u32, usize>,
    /// The image that was asked for last, and its place there.
    image: (u32, usize),
    /// The number of the place that was asked for last: mostly it is the same.
    last: u32,
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
    fn image(&mut self, image: u32) -> usize {
        if self.image.0 != image || self.known.is_empty() {
            let next = self.known.len();
            let place = *self.images.entry(image).or_insert(next);
            if place == next {
                self.known.push(FxHashMap::default());
            }
            self.image = (image, place);
        }
        self.image.1
    }

    /// An instruction is there.
    pub(super) fn set(&mut self, image: u32, pc: u64, place: Place) {
        let number = self.number(place);
        let image = self.image(image);
        if let Some(at) = self.known.get_mut(image) {
            at.insert(pc, number);
        }
    }

    /// Where an instruction is of which nothing is known.
    pub(super) fn is_nowhere(&mut self, place: Place) {
        self.nowhere = self.number(place);
    }

    fn get(&mut self, image: u32, pc: u64) -> u32 {
        let image = self.image(image);
        let known = self.known.get(image).and_then(|known| known.get(&pc));
        known.copied().unwrap_or(self.nowhere)
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
