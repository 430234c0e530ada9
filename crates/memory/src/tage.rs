//! A small predictor of conditional branches after Seznec's and Michaud's TAGE ("A case for (partially) TAgged GEometric
//! history length branch prediction", Journal of Instruction-Level Parallelism 8, 2006).
//!
//! - Base: 4,096 two-bit counters by the low bits of the address, at first weakly not taken.
//! - Four tables of 1,024 entries behind histories of 4, 12, 36 and 108 outcomes. An entry has a tag of 9 bits, a
//!   three-bit counter (taken from 4 on) and a two-bit number of its use. `fold(n, w)` is the exclusive or of the last
//!   `n` outcomes in pieces of `w` bits, the newest lowest. Place: `address ^ address >> 10 ^ fold(n, 10)`, 10 bits. Tag:
//!   `address ^ fold(n, 9) ^ fold(n, 8) << 1`, 9 bits.
//! - The prediction is the entry's whose tag fits and whose history is the longest; the next longest one's, or the
//!   base's, is the alternative. An entry of no use whose counter is weak (3 or 4) gives way to the alternative while a
//!   four-bit counter, at first 8, is at least 8: that one learns, where both differ, which was right.
//! - Then the entry's counter, or the base's where there is none, goes towards the outcome. Where entry and alternative
//!   differ, the entry's use goes up if it was right, and down if not.
//! - Wrong prediction: of the tables behind longer histories the first whose entry is of no use gets a new one (tag,
//!   counter 4 if taken, else 3, no use); if all are of use, the use of each goes down.
//! - Each 262,144 branches all uses are halved.
//!
//! The original chooses among tables for a new entry at random, and has path history; this one repeats exactly.

const BASE: usize = 4096;
const ENTRIES: usize = 1024;
const TABLES: usize = 4;
const HISTORIES: [u32; TABLES] = [4, 12, 36, 108];
const INDEX: u32 = 10;
const TAG: u32 = 9;
const PERIOD: u64 = 1 << 18;

#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u16,
    counter: u8,
    used: u8,
}

/// A history of `length` outcomes, folded to `width` bits as it grows.
#[derive(Clone, Copy, Debug)]
struct Folded {
    bits: u32,
    length: u32,
    width: u32,
}

impl Folded {
    fn new(length: u32, width: u32) -> Self {
        Self {
            bits: 0,
            length,
            width,
        }
    }

    /// An outcome comes in, and the one that was the oldest leaves.
    fn push(&mut self, new: bool, oldest: bool) {
        let mask = (1 << self.width) - 1;
        let moved = self.bits << 1 | u32::from(new);
        let moved = moved ^ u32::from(oldest) << (self.length % self.width);
        self.bits = (moved ^ moved >> self.width) & mask;
    }
}

/// The predictor.
#[derive(Clone, Debug)]
pub(crate) struct Tage {
    base: Box<[u8]>,
    tables: [Box<[Entry]>; TABLES],
    /// The newest outcome is the lowest bit.
    history: u128,
    /// For each table: of the place, of the tag, and the narrower one of the tag.
    folded: [[Folded; 3]; TABLES],
    /// At least 8: new entries are not trusted.
    alternative: u8,
    branches: u64,
}

/// Where an address leads in one table.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    index: usize,
    tag: u16,
}

impl Tage {
    pub(crate) fn new() -> Self {
        let empty = Entry {
            // No tag has so many bits.
            tag: u16::MAX,
            counter: 0,
            used: 0,
        };
        Self {
            base: vec![1; BASE].into_boxed_slice(),
            tables: [(); TABLES].map(|()| vec![empty; ENTRIES].into_boxed_slice()),
            history: 0,
            folded: HISTORIES.map(|length| [INDEX, TAG, TAG - 1].map(|w| Folded::new(length, w))),
            alternative: 8,
            branches: 0,
        }
    }

    fn places(&self, address: u64) -> [Place; TABLES] {
        let low = address as u32;
        self.folded.map(|[index, tag, narrow]| Place {
            index: (low ^ (address >> INDEX) as u32 ^ index.bits) as usize % ENTRIES,
            tag: ((low ^ tag.bits ^ narrow.bits << 1) & ((1 << TAG) - 1)) as u16,
        })
    }

    fn entry(&mut self, table: usize, place: &[Place; TABLES]) -> Option<&mut Entry> {
        let index = place.get(table)?.index;
        self.tables.get_mut(table)?.get_mut(index)
    }

    /// A branch goes on or not; whether that was predicted wrongly.
    pub(crate) fn branch(&mut self, address: u64, taken: bool) -> bool {
        let places = self.places(address);
        let base = self.base.get(address as usize % BASE).copied().unwrap_or(0) >= 2;
        // The longest and the next longest whose tags fit.
        let (mut provider, mut alternative) = (None, base);
        for (table, place) in places.iter().enumerate() {
            let entry = self.tables.get(table).and_then(|of| of.get(place.index));
            let Some(entry) = entry.filter(|entry| entry.tag == place.tag) else {
                continue;
            };
            if let Some((_, before)) = provider {
                alternative = is_taken(before);
            }
            provider = Some((table, *entry));
        }
        let mut predicted = base;
        if let Some((table, entry)) = provider {
            let said = is_taken(entry);
            let new = entry.used == 0 && matches!(entry.counter, 3 | 4);
            predicted = if new && self.alternative >= 8 {
                alternative
            } else {
                said
            };
            if new && said != alternative {
                self.alternative = step(self.alternative, alternative == taken, 15);
            }
            if let Some(entry) = self.entry(table, &places) {
                entry.counter = step(entry.counter, taken, 7);
                if said != alternative {
                    entry.used = step(entry.used, said == taken, 3);
                }
            }
        } else if let Some(counter) = self.base.get_mut(address as usize % BASE) {
            *counter = step(*counter, taken, 3);
        }
        let wrong = predicted != taken;
        if wrong {
            self.allocate(provider.map_or(0, |(table, _)| table + 1), &places, taken);
        }
        self.remember(taken);
        wrong
    }

    /// A new entry in the first table from here on that has room for one.
    fn allocate(&mut self, from: usize, places: &[Place; TABLES], taken: bool) {
        for table in from..TABLES {
            let tag = places.get(table).map_or(0, |place| place.tag);
            if let Some(entry) = self.entry(table, places)
                && entry.used == 0
            {
                let counter = if taken { 4 } else { 3 };
                *entry = Entry {
                    tag,
                    counter,
                    used: 0,
                };
                return;
            }
        }
        for table in from..TABLES {
            if let Some(entry) = self.entry(table, places) {
                entry.used -= 1;
            }
        }
    }

    fn remember(&mut self, taken: bool) {
        for folded in self.folded.as_flattened_mut() {
            let oldest = self.history >> (folded.length - 1) & 1 != 0;
            folded.push(taken, oldest);
        }
        self.history = self.history << 1 | u128::from(taken);
        self.branches += 1;
        if self.branches.is_multiple_of(PERIOD) {
            for entry in self.tables.iter_mut().flat_map(|table| table.iter_mut()) {
                entry.used /= 2;
            }
        }
    }
}

fn is_taken(entry: Entry) -> bool {
    entry.counter >= 4
}

/// A counter goes up or down.
fn step(counter: u8, up: bool, most: u8) -> u8 {
    match up {
        true => (counter + 1).min(most),
        false => counter.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wrong predictions of the last `after` of 20,000 branches, whose outcomes depend on the number.
    fn wrong(after: usize, mut outcome: impl FnMut(usize) -> (u64, bool)) -> usize {
        let mut tage = Tage::new();
        let mut wrong = 0;
        for turn in 0..20_000 {
            let (address, taken) = outcome(turn);
            let was = tage.branch(address, taken);
            wrong += usize::from(was && turn >= 20_000 - after);
        }
        wrong
    }

    /// SplitMix64's finaliser: no pattern.
    fn random(turn: usize) -> bool {
        let mut z = (turn as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) & 1 != 0
    }

    #[test]
    fn patterns_are_learnt_and_chance_is_not() {
        // What always goes one way, alternates, or leaves a loop after seven times.
        assert_eq!(wrong(10_000, |_| (0x40, true)), 0);
        assert_eq!(wrong(10_000, |turn| (0x40, turn % 2 == 0)), 0);
        assert_eq!(wrong(10_000, |turn| (0x40, turn % 7 != 6)), 0);
        // A loop of 50, which two-bit counters behind seven outcomes do not learn: one wrong in 50.
        assert_eq!(wrong(10_000, |turn| (0x40, turn % 50 != 49)), 0);
        // The second branch goes where the first went, the third where they differ.
        let correlated = |turn: usize| match turn % 3 {
            0 => (0x40, random(turn)),
            1 => (0x55, random(turn - 1)),
            _ => (0x6a, random(turn - 2)),
        };
        let chance = wrong(9_999, correlated);
        assert!(
            (1500..2000).contains(&chance),
            "{chance} of 3,333 at random"
        );
        // Nobody predicts chance.
        let chance = wrong(10_000, |turn| (0x40, random(turn)));
        assert!((4500..5500).contains(&chance), "{chance}");
    }

    #[test]
    fn a_folded_history_is_what_its_pieces_are() {
        let mut folded = Folded::new(12, 5);
        let mut history = 0u128;
        for turn in 0..100 {
            let new = random(turn);
            folded.push(new, history >> 11 & 1 != 0);
            history = (history << 1 | u128::from(new)) & 0xfff;
            let pieces = (history ^ history >> 5 ^ history >> 10) & 31;
            assert_eq!(u128::from(folded.bits), pieces);
        }
    }
}
