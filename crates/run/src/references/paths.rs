//! What a model made of each path of functions.

use super::costs::Simulated;
use rustc_hash::FxHashMap;
use std::collections::HashMap;

/// What is counted for the node that a thread is in, where there are nodes.
pub(super) trait OfNode {
    /// Adds to what it met.
    fn meet(&mut self, node: Option<u32>, place: usize, times: u64);
}

impl OfNode for Option<Paths> {
    #[inline]
    fn meet(&mut self, node: Option<u32>, place: usize, times: u64) {
        let sums = self.as_mut().zip(node);
        let sums = sums.and_then(|(paths, node)| paths.sums.get_mut(node as usize));
        if let Some(sum) = sums.and_then(|sums| sums.get_mut(place)) {
            *sum += times;
        }
    }
}

/// Nodes found lately, chosen by bits of their addresses, which are multiples of 64.
const RECENT: usize = 1 << 12;

/// Sums by node of the tree of calls.
pub(super) struct Paths {
    numbers: FxHashMap<u64, u32>,
    recent: Box<[(u64, u32)]>,
    sums: Vec<Simulated>,
}

impl Paths {
    pub(super) fn new() -> Self {
        Self {
            numbers: FxHashMap::default(),
            recent: vec![(u64::MAX, 0); RECENT].into_boxed_slice(),
            sums: Vec::new(),
        }
    }

    /// The number of the node at an address.
    pub(super) fn number(&mut self, address: u64) -> u32 {
        let recent = self.recent.get_mut((address >> 6) as usize % RECENT);
        if let Some(&mut (known, number)) = recent
            && known == address
        {
            return number;
        }
        let next = self.sums.len() as u32;
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            self.sums.push(Simulated::default());
        }
        if let Some(place) = self.recent.get_mut((address >> 6) as usize % RECENT) {
            *place = (address, number);
        }
        number
    }

    /// Adds to a node what was met since, which begins anew.
    pub(super) fn take(&mut self, number: u32, met: &mut Simulated) {
        if let Some(sums) = self.sums.get_mut(number as usize) {
            for (sum, met) in sums.iter_mut().zip(met) {
                *sum += std::mem::take(met);
            }
        }
    }

    /// By address.
    pub(super) fn all(&self) -> HashMap<u64, Simulated> {
        let all = self.numbers.iter();
        all.filter_map(|(&address, &number)| Some((address, *self.sums.get(number as usize)?)))
            .collect()
    }
}
