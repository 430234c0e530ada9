//! What the engine tells by numbers, and what it came to.

use super::super::site::Told;
use truecount_engine::virt::references::Meaning;

/// What a table's blocks met, by the numbers of that: from one number on, as processes that come later have others.
#[derive(Default)]
pub(super) struct Mets {
    from: usize,
    all: Vec<Met>,
}

impl Mets {
    /// What has this number.
    #[inline]
    pub(super) fn place(&mut self, number: usize, numbers: &[Number]) -> Option<&mut Met> {
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
    pub(super) fn leave(&mut self) -> impl Iterator<Item = (u32, [u64; 2])> + use<> {
        let Self { from, all } = std::mem::take(self);
        let met = all.into_iter().map(|met| [met.first, met.last]);
        (from as u32..).zip(met).filter(|(_, met)| *met != [0; 2])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// What something with a number came to in a table's blocks.
pub(super) struct Met {
    pub(super) told: Told,
    /// Misses of the first level; branches: taken …
    pub(super) first: u64,
    /// … and of the last; predicted wrongly.
    pub(super) last: u64,
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
    pub(super) told: Told,
    /// Number of its block …
    pub(super) block: u32,
    /// … and of its instruction there …
    pub(super) at: usize,
    /// … and which of what that does it is.
    pub(super) what: Meaning,
}
