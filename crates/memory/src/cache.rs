//! Set-associative caches with the least recently used line replaced, two levels.
//!
//! The rules are Cachegrind's (Valgrind's manual, "Simulation details" and "Cache simulation specifics"): a write
//! misses and allocates as a read does; a reference that modifies counts as a read; one that lies in two lines is one
//! miss if either misses; the last level sees what missed the first. An address chooses its set by the bits above
//! those of the line.

use crate::geometry::{Beside, Geometry, Machine};
use crate::prefetch::Prefetcher;
use crate::replacement::{Replacement, Sets};
use crate::{By, Kind, Reference};

/// One cache.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The most recently used block of each set; 0: none (block 0 is never referenced by programs).
    front: Box<[u64]>,
    /// The others of each, more recently used ones first.
    behind: Box<[u64]>,
    /// How many those are.
    others: usize,
    line_bits: u32,
    set_mask: u64,
    /// Another line goes than the least recently used one: all is here, and nothing in front or behind.
    other: Option<Box<Sets>>,
}

impl Cache {
    /// An empty one.
    pub fn new(geometry: Geometry) -> Self {
        let sets = geometry.sets();
        let others = (geometry.ways as usize).saturating_sub(1);
        Self {
            front: vec![0; sets as usize].into_boxed_slice(),
            behind: vec![0; (sets as usize).saturating_mul(others)].into_boxed_slice(),
            others,
            line_bits: geometry.line.trailing_zeros(),
            set_mask: sets.saturating_sub(1),
            other: match geometry.replacement {
                Replacement::Lru => None,
                policy => {
                    let sets = Sets::new(policy, sets as usize, geometry.ways as usize);
                    Some(Box::new(sets))
                }
            },
        }
    }

    /// A block is referenced; whether it missed.
    #[inline]
    fn block(&mut self, block: u64) -> bool {
        !self.is_in_front(block) && self.block_behind(block)
    }

    /// Its set's most recently used one: referenced again, it leaves everything as it is.
    #[inline]
    fn is_in_front(&self, block: u64) -> bool {
        self.front.get((block & self.set_mask) as usize) == Some(&block)
    }

    /// As [`Cache::block`], for one that is not in front.
    fn block_behind(&mut self, block: u64) -> bool {
        let set = (block & self.set_mask) as usize;
        if let Some(other) = &mut self.other {
            return other.reference(set, block);
        }
        let start = set * self.others;
        let others = self.behind.get_mut(start..start + self.others);
        let (Some(front), Some(others)) = (self.front.get_mut(set), others) else {
            return false;
        };
        // Those that were in front of it move back by one.
        let mut moved = std::mem::replace(front, block);
        for place in others {
            std::mem::swap(place, &mut moved);
            if moved == block {
                return false;
            }
        }
        true
    }

    /// The blocks of a set that were used last, and before that.
    fn know(&mut self, set: u32, blocks: &[u64]) {
        let set = set as usize;
        let start = set * self.others;
        let others = self.behind.get_mut(start..start + self.others);
        let (Some(front), Some(others)) = (self.front.get_mut(set), others) else {
            return;
        };
        let all = std::iter::once(front).chain(others);
        all.zip(blocks).for_each(|(place, block)| *place = *block);
    }

    /// A block is there; nothing moves.
    fn has(&self, block: u64) -> bool {
        let set = (block & self.set_mask) as usize;
        if let Some(other) = &self.other {
            return other.has(set, block);
        }
        let start = set * self.others;
        let others = self.behind.get(start..start + self.others);
        self.is_in_front(block) || others.is_some_and(|others| others.contains(&block))
    }

    /// Bytes are referenced; whether any of their lines missed.
    #[inline]
    pub fn reference(&mut self, address: u64, size: u32) -> bool {
        let first = address >> self.line_bits;
        let last = address.wrapping_add(u64::from(size.max(1) - 1)) >> self.line_bits;
        let mut missed = self.block(first);
        if last != first {
            missed |= self.block(last);
        }
        missed
    }
}

/// References and misses of one sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// References.
    pub references: u64,
    /// That missed the first level.
    pub first: u64,
    /// That missed the last level, too.
    pub last: u64,
}

impl Misses {
    fn count(&mut self, level: Level) {
        self.references += 1;
        self.first += u64::from(level != Level::First);
        self.last += u64::from(level == Level::Memory);
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            references: self.references + other.references,
            first: self.first + other.first,
            last: self.last + other.last,
        }
    }
}

/// Where a reference was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// In the first level.
    First,
    /// In the second, where there is one in between.
    Second,
    /// In the last level.
    Last,
    /// In none.
    Memory,
}

/// What was not in the second level, which pages not in the tables of translations, and what was prefetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BesideMisses {
    /// Instructions, by the second level.
    pub l2_instructions: u64,
    /// Data, by the second level.
    pub l2_data: u64,
    /// Data, by the translations.
    pub tlb: u64,
    /// Instructions, by theirs.
    pub itlb: u64,
    /// Lines that the prefetcher brought into the first level …
    pub prefetched: u64,
    /// … and those of them that no level had.
    pub prefetched_memory: u64,
}

impl BesideMisses {
    /// Adds what came since `before`.
    pub fn add_since(&mut self, before: &Self, now: &Self) {
        self.l2_instructions += now.l2_instructions - before.l2_instructions;
        self.l2_data += now.l2_data - before.l2_data;
        self.tlb += now.tlb - before.tlb;
        self.itlb += now.itlb - before.itlb;
        self.prefetched += now.prefetched - before.prefetched;
        self.prefetched_memory += now.prefetched_memory - before.prefetched_memory;
    }
}

/// I1, D1 and LL, and what they counted.
#[derive(Clone, Debug)]
pub struct Caches {
    i1: Cache,
    d1: Cache,
    l2: Option<Cache>,
    ll: Cache,
    tlb: Option<Cache>,
    itlb: Option<Cache>,
    prefetcher: Option<Prefetcher>,
    /// What the second level and the translations had not, and what was prefetched.
    pub beside: BesideMisses,
    /// Data references are at most a line of the smallest cache long.
    longest: u32,
    /// Instructions fetched.
    pub instructions: Misses,
    /// Data read, modified included.
    pub reads: Misses,
    /// Data written.
    pub writes: Misses,
}

impl Caches {
    /// Empty ones, with nothing beside them.
    pub fn new(machine: &Machine) -> Self {
        Self::with(machine, &Beside::default())
    }

    /// Empty ones.
    pub fn with(machine: &Machine, beside: &Beside) -> Self {
        let lines = [machine.i1.line, machine.d1.line, machine.ll.line];
        let lines = lines.into_iter().chain(beside.l2.map(|l2| l2.line));
        Self {
            i1: Cache::new(machine.i1),
            d1: Cache::new(machine.d1),
            l2: beside.l2.map(Cache::new),
            ll: Cache::new(machine.ll),
            tlb: beside.tlb.map(Cache::new),
            itlb: beside.itlb.map(Cache::new),
            prefetcher: Prefetcher::new(beside.prefetch, machine.d1.line.trailing_zeros()),
            beside: BesideMisses::default(),
            longest: lines.min().unwrap_or(16),
            instructions: Misses::default(),
            reads: Misses::default(),
            writes: Misses::default(),
        }
    }

    /// An instruction is executed.
    #[inline]
    pub fn fetch(&mut self, address: u64, length: u32) -> Level {
        let level = self.meet_fetch(address, length);
        self.instructions.count(level);
        level
    }

    /// Data is referenced.
    #[inline]
    pub fn data(&mut self, reference: Reference, by: By) -> Level {
        let level = self.meet_data(reference.address, reference.size, by);
        match reference.kind {
            Kind::Store => self.writes.count(level),
            Kind::Load | Kind::Modify => self.reads.count(level),
        }
        level
    }

    /// As [`Caches::fetch`], for who counts by himself.
    #[inline]
    pub fn meet_fetch(&mut self, address: u64, length: u32) -> Level {
        if let Some(itlb) = &mut self.itlb {
            self.beside.itlb += u64::from(itlb.reference(address, length));
        }
        match self.i1.reference(address, length) {
            false => Level::First,
            true => self.meet_missed_fetch(address, length),
        }
    }

    /// As [`Caches::data`], for who counts by himself.
    #[inline]
    pub fn meet_data(&mut self, address: u64, size: u32, by: By) -> Level {
        let size = size.min(self.longest);
        if let Some(tlb) = &mut self.tlb {
            self.beside.tlb += u64::from(tlb.reference(address, size));
        }
        let level = match self.d1.reference(address, size) {
            false => Level::First,
            true => self.meet_missed_data(address, size),
        };
        if self.prefetcher.is_some() {
            self.prefetch(address, size, by);
        }
        level
    }

    /// Whether a line of instructions is the most recently used one of its set in the first level: executed again, it
    /// leaves everything as it is where nothing is beside the two levels.
    #[inline]
    pub fn is_next(&self, line: u64) -> bool {
        self.i1.is_in_front(line)
    }

    /// The same for a reference to data that is in one line.
    #[inline]
    pub fn is_in_front(&self, address: u64, size: u32) -> bool {
        let bits = self.d1.line_bits;
        let last = address.wrapping_add(u64::from(size.max(1) - 1)) >> bits;
        address >> bits == last && self.d1.is_in_front(last)
    }

    /// The lines of a set of the first level of data (of instructions, with `code`) that were used last, and before that:
    /// where less than all of the set's are said, the same ones as here, in any order.
    pub fn know(&mut self, code: bool, set: u32, lines: &[u64]) {
        match code {
            true => self.i1.know(set, lines),
            false => self.d1.know(set, lines),
        }
    }

    /// As [`Caches::meet_fetch`], for what the first level is known not to have; it is not entered there.
    #[inline]
    pub fn meet_missed_fetch(&mut self, address: u64, length: u32) -> Level {
        let level = behind(&mut self.l2, &mut self.ll, address, length);
        self.beside.l2_instructions += u64::from(self.l2.is_some() && level != Level::Second);
        level
    }

    /// As [`Caches::meet_data`], for what the first level is known not to have; it is not entered there.
    #[inline]
    pub fn meet_missed_data(&mut self, address: u64, size: u32) -> Level {
        let size = size.min(self.longest);
        let level = behind(&mut self.l2, &mut self.ll, address, size);
        self.beside.l2_data += u64::from(self.l2.is_some() && level != Level::Second);
        level
    }

    /// As [`Caches::meet_data`], where nothing is beside the two levels.
    #[inline(never)]
    pub fn meet_plain(&mut self, address: u64, size: u32) -> Level {
        let size = size.min(self.longest);
        if !self.d1.reference(address, size) {
            Level::First
        } else if self.ll.reference(address, size) {
            Level::Memory
        } else {
            Level::Last
        }
    }

    /// After a reference to data. What the first level has stays in its place there; what it has not comes in as if it
    /// had been referenced, and none of it is a miss.
    #[inline(never)]
    fn prefetch(&mut self, address: u64, size: u32, by: By) {
        let wanted = self.prefetcher.as_mut();
        let wanted = wanted.and_then(|prefetcher| prefetcher.after(by, address, size));
        let Some(line) = wanted.filter(|&line| !self.d1.has(line)) else {
            return;
        };
        self.d1.block(line);
        self.beside.prefetched += 1;
        let first = line << self.d1.line_bits;
        let level = behind(&mut self.l2, &mut self.ll, first, 1);
        self.beside.prefetched_memory += u64::from(level == Level::Memory);
    }

    /// Both sorts of data references.
    pub fn all_data(&self) -> Misses {
        self.reads.plus(self.writes)
    }
}

/// Where what the first level has not is found.
#[inline]
fn behind(second: &mut Option<Cache>, last: &mut Cache, address: u64, size: u32) -> Level {
    if let Some(second) = second
        && !second.reference(address, size)
    {
        Level::Second
    } else if last.reference(address, size) {
        Level::Memory
    } else {
        Level::Last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(text: &str) -> Cache {
        Cache::new(text.parse().unwrap())
    }

    #[test]
    fn the_least_recently_used_line_of_a_set_goes() {
        // Two ways, four sets of 64-byte lines: 0x100 apart is the same set.
        let mut cache = cache("512,2,64");
        let (a, b, c) = (0x1000, 0x1100, 0x1200);
        let missed: Vec<bool> = [a, b, a, c, a, b, c]
            .into_iter()
            .map(|address| cache.reference(address, 4))
            .collect();
        assert_eq!(missed, [true, true, false, true, false, true, true]);
    }

    #[test]
    fn the_order_of_lines_can_be_told() {
        // Of three ways; 0x40 apart is the same set, and is line 1.
        let mut cache = cache("192,3,64");
        for address in [0x1000, 0x1040, 0x1080] {
            assert!(cache.reference(address, 4));
        }
        // The two that were used last were used again, the other way round.
        cache.know(0, &[0x41, 0x42]);
        assert!(cache.reference(0x10c0, 4), "0x1000 goes");
        assert!(!cache.reference(0x1040, 4) && !cache.reference(0x1080, 4));
        // All that it has.
        cache.know(0, &[1, 2, 3]);
        assert!(
            !cache.reference(0x40, 4) && !cache.reference(0x80, 4) && !cache.reference(0xc0, 4)
        );
        assert!(cache.reference(0x1040, 4));
        assert!(
            cache.reference(0x40, 4),
            "it was used before the two others"
        );
    }

    #[test]
    fn two_lines_are_one_miss_and_both_come_in() {
        let mut cache = cache("512,2,64");
        assert!(cache.reference(0x103e, 4));
        assert!(!cache.reference(0x1000, 4) && !cache.reference(0x1040, 4));
        assert!(cache.reference(0x107e, 4), "the second line is new");
    }

    #[test]
    fn the_last_level_sees_what_missed_the_first() {
        let small = "128,2,64".parse().unwrap();
        let mut caches = Caches::new(&Machine {
            i1: small,
            d1: small,
            ll: "1024,2,64".parse().unwrap(),
        });
        let mut load = |address| {
            let (size, kind) = (8, Kind::Load);
            let reference = Reference {
                address,
                size,
                kind,
            };
            caches.data(reference, By::default())
        };
        assert_eq!(load(0x1000), Level::Memory);
        assert_eq!(load(0x1040), Level::Memory);
        assert_eq!(load(0x1080), Level::Memory);
        assert_eq!(load(0x1000), Level::Last);
        assert_eq!(load(0x1000), Level::First);
        assert_eq!(caches.fetch(0x1000, 3), Level::Last);
        let expected = Misses {
            references: 5,
            first: 4,
            last: 3,
        };
        assert_eq!((caches.reads, caches.all_data()), (expected, expected));
        assert_eq!(caches.instructions.references, 1);
    }
}
