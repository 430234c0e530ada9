//! A thread in the model: its caches and predictors, and what it met since somebody asked.

use super::Wanted;
use super::costs::{Simulated, place};
use truecount_memory::{Beside, Branches, Caches, Kind, Level, Machine, Prefetch};

/// What one thread meets in the model: its own caches and predictors.
pub(super) struct Modelled {
    pub(super) caches: Caches,
    pub(super) branches: Branches,
    /// Bits of an address inside a line of instructions.
    line_bits: u32,
    /// The line that the last instruction ended in.
    fetched: u64,
    /// What was met since somebody asked.
    pub(super) met: Simulated,
}

impl Modelled {
    pub(super) fn new(machine: &Machine, beside: &Beside) -> Self {
        Self {
            caches: Caches::with(machine, beside),
            branches: Branches::with(beside.predictor),
            line_bits: machine.i1.line.trailing_zeros(),
            fetched: u64::MAX,
            met: Simulated::default(),
        }
    }

    /// Nothing is in its caches any more.
    pub(super) fn empty(&mut self, machine: &Machine, beside: &Beside) {
        self.caches = Caches::with(machine, beside);
        self.fetched = u64::MAX;
    }

    /// Whether lines of instructions that are executed one after the other are all in front of their sets, so that nothing
    /// changes by it but which of them was the last.
    #[inline]
    pub(super) fn goes_on(&mut self, lines: impl Iterator<Item = u64>) -> bool {
        let mut fetched = self.fetched;
        for line in lines {
            if line != fetched && !self.caches.is_next(line) {
                return false;
            }
            fetched = line;
        }
        self.fetched = fetched;
        true
    }

    /// A miss is met: `first` is the place of its first level.
    #[inline]
    pub(super) fn meet(&mut self, first: usize, level: Level) {
        if level != Level::First {
            self.meets(first, 1);
            self.meets(first + place::TO_LAST, u64::from(level == Level::Memory));
        }
    }

    #[inline]
    pub(super) fn meets(&mut self, place: usize, times: u64) {
        if let Some(met) = self.met.get_mut(place) {
            *met += times;
        }
    }

    /// Whether an instruction came from elsewhere. (What is in the line that was fetched last is there, and stays in
    /// its place.)
    #[inline]
    pub(super) fn fetch(&mut self, pc: u64, length: u32) -> Option<Level> {
        let (first, last) = (
            pc >> self.line_bits,
            pc.wrapping_add(u64::from(length.max(1)) - 1) >> self.line_bits,
        );
        if first == self.fetched && last == first {
            return None;
        }
        self.fetched = last;
        Some(self.caches.meet_fetch(pc, length))
    }
}

/// Where references of a kind are counted.
pub(super) fn references(kind: Kind) -> usize {
    match kind {
        Kind::Store => place::WRITES,
        Kind::Load | Kind::Modify => place::READS,
    }
}

/// Where their misses of the first level are.
pub(super) fn misses(kind: Kind) -> usize {
    match kind {
        Kind::Store => place::WRITE_L1,
        Kind::Load | Kind::Modify => place::READ_L1,
    }
}

impl Wanted {
    /// Lines and pages that are touched are kept.
    pub(super) fn keeps_lines(&self) -> bool {
        self.facts && !self.without.lines
    }

    /// A model of nothing but the caches of the first and the last level, and branches; and nothing else.
    pub(super) fn is_plain(&self) -> bool {
        let Beside {
            l2,
            tlb,
            itlb,
            prefetch,
            predictor: _,
        } = &self.beside;
        let two_levels = l2.is_none() && tlb.is_none() && itlb.is_none();
        self.model.is_some()
            && two_levels
            && *prefetch == Prefetch::None
            && !(self.facts || self.sharing || self.locality)
    }
}
