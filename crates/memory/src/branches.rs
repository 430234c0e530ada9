//! Branch predictors after Cachegrind's rules (Valgrind's manual, "Branch prediction"): conditional branches by
//! 16,384 two-bit counters, chosen by the last seven outcomes and the seven low bits of the branch's address;
//! indirect ones go where the last one at one of 512 places (nine low bits) went. Returns are not predicted.
//!
//! Conditional branches can have another predictor, which Cachegrind has not: see [`Predictor`].

use crate::tage::Tage;
use std::fmt;
use std::str::FromStr;

/// What predicts conditional branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Predictor {
    /// Cachegrind's two-bit counters.
    #[default]
    Cachegrind,
    /// A small TAGE: tagged tables behind histories of 4 to 108 branches.
    Tage,
}

impl fmt::Display for Predictor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cachegrind => "cachegrind",
            Self::Tage => "tage",
        })
    }
}

impl FromStr for Predictor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = [Self::Cachegrind, Self::Tage].into_iter();
        all.find(|one| one.to_string() == text)
            .ok_or_else(|| format!("there is no predictor '{text}': cachegrind and tage are"))
    }
}

/// Branches and wrong predictions of one sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mispredicted {
    /// Branches.
    pub branches: u64,
    /// Predicted wrongly.
    pub wrong: u64,
}

const HISTORY: u32 = 7;
const ADDRESS: u32 = 7;
const TARGETS: usize = 512;
/// What a counter becomes where a branch is not taken, and where it is.
const NEXT: [u8; 8] = [0, 0, 1, 2, 1, 2, 3, 3];

/// The predictors, and what they counted.
#[derive(Clone, Debug)]
pub struct Branches {
    history: usize,
    counters: Box<[u8]>,
    targets: Box<[u64]>,
    /// In place of the counters.
    tage: Option<Box<Tage>>,
    /// Conditional branches.
    pub conditional: Mispredicted,
    /// Indirect jumps and calls.
    pub indirect: Mispredicted,
}

impl Default for Branches {
    fn default() -> Self {
        Self::new()
    }
}

impl Branches {
    /// That have seen nothing yet.
    pub fn new() -> Self {
        Self::with(Predictor::default())
    }

    /// As [`Branches::new`], conditional ones predicted by `predictor`.
    pub fn with(predictor: Predictor) -> Self {
        Self {
            tage: (predictor == Predictor::Tage).then(|| Box::new(Tage::new())),
            history: 0,
            counters: vec![0; 1 << (HISTORY + ADDRESS)].into_boxed_slice(),
            targets: vec![0; TARGETS].into_boxed_slice(),
            conditional: Mispredicted::default(),
            indirect: Mispredicted::default(),
        }
    }

    /// A conditional branch; whether it was predicted wrongly.
    #[inline]
    pub fn conditional(&mut self, address: u64, taken: bool) -> bool {
        if let Some(tage) = &mut self.tage {
            let wrong = tage.branch(address, taken);
            self.conditional.branches += 1;
            self.conditional.wrong += u64::from(wrong);
            return wrong;
        }
        let low = address as usize & ((1 << ADDRESS) - 1);
        let index = self.history << ADDRESS | low;
        self.history = (self.history << 1 | usize::from(taken)) & ((1 << HISTORY) - 1);
        let Some(counter) = self.counters.get_mut(index) else {
            return false;
        };
        let (before, way) = (usize::from(*counter), usize::from(taken));
        let wrong = before >> 1 != way;
        // (A branch here would be predicted as badly as the program's.)
        *counter = NEXT.get(way << 2 | before).copied().unwrap_or(0);
        self.conditional.branches += 1;
        self.conditional.wrong += u64::from(wrong);
        wrong
    }

    /// An indirect jump or call; whether it was predicted wrongly.
    #[inline]
    pub fn indirect(&mut self, address: u64, target: u64) -> bool {
        let Some(place) = self.targets.get_mut(address as usize % TARGETS) else {
            return false;
        };
        let wrong = *place != target;
        *place = target;
        self.indirect.branches += 1;
        self.indirect.wrong += u64::from(wrong);
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_learnt_and_its_end_is_wrong() {
        let mut branches = Branches::new();
        for _ in 0..100 {
            branches.conditional(0x1234, true);
        }
        // Two for each history that is met on the way in: 0, 1, 11, … 1111111.
        assert_eq!(branches.conditional.wrong, 9);
        assert!(branches.conditional(0x1234, false));
    }

    #[test]
    fn an_indirect_branch_goes_where_it_went() {
        let mut branches = Branches::new();
        let wrong: Vec<bool> = [1, 1, 2, 2, 1]
            .into_iter()
            .map(|target| branches.indirect(0x40, target))
            .collect();
        assert_eq!(wrong, [true, false, true, false, true]);
        assert_eq!(branches.indirect.branches, 5);
    }
}
