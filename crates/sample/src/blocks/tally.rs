//! The pass over the entries: one worker's counts of blocks, of which block follows which, and of loop
//! iterations. Nothing is decoded or resolved here; a block is two addresses.
//!
//! A program runs few distinct blocks (177 in 2.97 million entries of a real file), so each block remembers the
//! two blocks that last followed it, and most entries need no hash table.

use rustc_hash::FxHashMap;

use super::clean::Cleaning;
use crate::branch::{BranchEntry, SATURATED};
use crate::spaces::{KERNEL_SPACE, is_kernel_address};

pub(crate) const NONE: u32 = u32::MAX;

/// Longer straight lines do not occur: a branch is missing.
const MAX_BLOCK: u64 = 1 << 16;
/// Longest backward branch that may close a loop.
const MAX_LOOP: u64 = 1 << 20;
/// Distinct bodies kept per loop.
const MAX_BODIES: usize = 16;

/// Counts of cycles.
#[derive(Debug, Clone, Default)]
pub(crate) struct HistogramTally {
    dense: Vec<u32>,
    sparse: FxHashMap<u16, u32>,
}

impl HistogramTally {
    #[inline]
    fn add(&mut self, cycles: u16) {
        match self.dense.get_mut(usize::from(cycles)) {
            Some(slot) => *slot = slot.saturating_add(1),
            None => self.add_slow(cycles, 1),
        }
    }

    #[cold]
    fn add_slow(&mut self, cycles: u16, n: u32) {
        if cycles < 64 {
            self.dense
                .resize((usize::from(cycles) + 1).next_power_of_two(), 0);
            if let Some(slot) = self.dense.get_mut(usize::from(cycles)) {
                *slot = slot.saturating_add(n);
            }
        } else {
            let slot = self.sparse.entry(cycles).or_default();
            *slot = slot.saturating_add(n);
        }
    }

    fn absorb(&mut self, other: &Self) {
        for (c, n) in other.bins() {
            match self.dense.get_mut(usize::from(c)) {
                Some(slot) => *slot = slot.saturating_add(n),
                None => self.add_slow(c, n),
            }
        }
    }

    pub(crate) fn bins(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        let dense = self.dense.iter().enumerate().map(|(c, n)| (c as u16, *n));
        dense
            .filter(|(_, n)| *n > 0)
            .chain(self.sparse.iter().map(|(c, n)| (*c, *n)))
    }
}

/// One way of arriving at a block: after a predicted, or after a mispredicted branch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Side {
    pub(crate) cycles: HistogramTally,
    pub(crate) unknown: u64,
    pub(crate) saturated: u64,
}

/// Which block follows, how often, and the loop whose back edge leads there.
#[derive(Debug, Clone, Copy)]
struct Successor {
    block: u32,
    back: u32,
    count: u64,
}

const NO_SUCCESSOR: Successor = Successor {
    block: NONE,
    back: NONE,
    count: 0,
};

/// Where a block is: the space (or, once resolved, the file), and its first and last instruction's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) place: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct BlockTally {
    pub(crate) key: Key,
    /// A virtual address range, to show where no file is known.
    pub(crate) seen_at: (u64, u64),
    /// After predicted, after mispredicted branches.
    pub(crate) sides: [Side; 2],
    recent: [Successor; 2],
}

/// Iterations of one loop: arrivals at its header by one backward branch, twice in a row.
#[derive(Debug, Clone)]
pub(crate) struct LoopTally {
    pub(crate) place: u32,
    /// Address of the backward branch and of its target.
    pub(crate) from: u64,
    pub(crate) header: u64,
    pub(crate) bodies: Vec<Body>,
    /// Iterations with bodies beyond [`MAX_BODIES`].
    pub(crate) other_bodies: u64,
    /// Row and position of the last arrival.
    last: (u64, usize),
}

/// One way through a loop's body.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) blocks: Vec<u32>,
    pub(crate) count: u64,
    pub(crate) cycles: HistogramTally,
}

/// One worker's counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) blocks: Vec<BlockTally>,
    index: FxHashMap<Key, u32>,
    pub(crate) follows: FxHashMap<(u32, u32), u64>,
    pub(crate) loops: Vec<LoopTally>,
    loop_index: FxHashMap<(u32, u64, u64), u32>,
    pub(crate) cleaning: Cleaning,
    /// The blocks of the current row, oldest first, with their cycles (0: not known).
    row: Vec<(u32, u16)>,
    /// Number of the current row.
    row_number: u64,
}

impl Tally {
    /// Counts one stack, given newest entry first.
    #[inline]
    pub(crate) fn stack<I>(&mut self, space: u32, entries: I)
    where
        I: DoubleEndedIterator<Item = BranchEntry> + ExactSizeIterator + Clone,
    {
        let n = entries.len();
        if n == 0 {
            return;
        }
        self.cleaning.stacks += 1;
        self.cleaning.entries += n as u64;
        let keep = n - usize::from(self.stale_top(entries.clone(), n));
        self.break_row();
        // The branch before the next entry: where it went, and whether it was mispredicted.
        let mut before: Option<(u64, usize)> = None;
        let mut last_block = NONE;
        for (i, entry) in entries.rev().enumerate() {
            let cycles = entry.cycles();
            self.cleaning.entries_with_cycles += u64::from(cycles != 0);
            self.cleaning.mispredicted += u64::from(entry.mispredicted());
            if i >= keep {
                break;
            }
            if i == 31 {
                // A repeated newest branch was dropped from other full stacks, and those are mostly loops: what
                // follows what counts without the newest entry of every full stack, or trip counts fall short.
                last_block = NONE;
            }
            if entry.from == 0 || entry.to == 0 {
                self.cleaning.zero_address += 1;
                before = None;
                last_block = NONE;
                continue;
            }
            if entry.speculation() == 1 {
                self.cleaning.wrong_path += 1;
                continue;
            }
            if entry.crosses_ring() {
                self.cleaning.ring_transitions += 1;
                self.cleaning.ring_cycles += u64::from(cycles);
                before = Some((entry.to, 0));
                last_block = NONE;
                continue;
            }
            match before {
                None => self.cleaning.without_start += 1,
                Some((start, mispredicted)) => {
                    if entry.from < start || entry.from - start > MAX_BLOCK {
                        self.cleaning.impossible += 1;
                        last_block = NONE;
                    } else {
                        let place = if is_kernel_address(start) {
                            KERNEL_SPACE
                        } else {
                            space
                        };
                        let key = Key {
                            place,
                            start,
                            end: entry.from,
                        };
                        last_block = self.block(last_block, key, mispredicted, cycles);
                    }
                }
            }
            before = Some((entry.to, usize::from(entry.mispredicted())));
            if entry.aborted() {
                self.cleaning.aborted += 1;
                last_block = NONE;
            }
        }
    }

    /// Whether the newest entry's addresses are those of the one before it (Skylake and relatives).
    #[inline]
    fn stale_top<I: Iterator<Item = BranchEntry>>(&mut self, mut entries: I, n: usize) -> bool {
        let (Some(top), Some(next)) = (entries.next(), entries.next()) else {
            return false;
        };
        if (top.from, top.to) != (next.from, next.to) || top.from == 0 {
            return false;
        }
        if top.to > top.from {
            self.cleaning.duplicated_top += 1;
            return true;
        }
        let full = n == 32;
        self.cleaning.ambiguous_top += u64::from(full);
        full
    }

    fn break_row(&mut self) {
        self.row.clear();
        self.row_number += 1;
    }

    /// Counts one block that follows `last` (or begins a row); gives its number.
    #[inline]
    fn block(&mut self, last: u32, key: Key, mispredicted: usize, cycles: u16) -> u32 {
        let mut back = NONE;
        let id = if last == NONE {
            self.break_row();
            self.find(key)
        } else if let Some((id, edge)) = self.predicted(last, key) {
            back = edge;
            id
        } else {
            let (id, edge) = self.new_successor(last, key);
            back = edge;
            id
        };
        if back != NONE {
            self.arrive(back);
        }
        self.cleaning.blocks += 1;
        let timed = cycles != 0 && cycles != SATURATED;
        self.row.push((id, if timed { cycles } else { 0 }));
        if let Some(side) = self
            .blocks
            .get_mut(id as usize)
            .and_then(|b| b.sides.get_mut(mispredicted))
        {
            if timed {
                self.cleaning.timed_blocks += 1;
                side.cycles.add(cycles);
            } else if cycles == 0 {
                self.cleaning.unknown_cycles += 1;
                side.unknown += 1;
            } else {
                self.cleaning.saturated += 1;
                side.saturated += 1;
            }
        }
        id
    }

    /// One of the two blocks that last followed `last`, if it is this one.
    #[inline]
    fn predicted(&mut self, last: u32, key: Key) -> Option<(u32, u32)> {
        let recent = self.blocks.get(last as usize)?.recent;
        let at = recent.iter().position(|s| {
            self.blocks
                .get(s.block as usize)
                .is_some_and(|b| b.key == key)
        })?;
        let slot = self.blocks.get_mut(last as usize)?.recent.get_mut(at)?;
        slot.count += 1;
        Some((slot.block, slot.back))
    }

    fn find(&mut self, key: Key) -> u32 {
        let next = self.blocks.len() as u32;
        let id = *self.index.entry(key).or_insert(next);
        if id == next {
            self.blocks.push(BlockTally {
                key,
                seen_at: (key.start, key.end),
                sides: Default::default(),
                recent: [NO_SUCCESSOR; 2],
            });
        }
        id
    }

    /// A successor that is not among the two recent ones: it takes the place of the older.
    #[cold]
    fn new_successor(&mut self, last: u32, key: Key) -> (u32, u32) {
        let id = self.find(key);
        let from = self.blocks.get(last as usize).map_or(0, |b| b.key.end);
        let back = if key.start <= from && from - key.start <= MAX_LOOP {
            self.find_loop(key.place, from, key.start)
        } else {
            NONE
        };
        if let Some(block) = self.blocks.get_mut(last as usize) {
            let [first, second] = block.recent;
            let new = Successor {
                block: id,
                back,
                count: 1,
            };
            block.recent = [new, first];
            if second.block != NONE {
                *self.follows.entry((last, second.block)).or_default() += second.count;
            }
        }
        (id, back)
    }

    fn find_loop(&mut self, place: u32, from: u64, header: u64) -> u32 {
        let next = self.loops.len() as u32;
        let id = *self.loop_index.entry((place, from, header)).or_insert(next);
        if id == next {
            self.loops.push(LoopTally {
                place,
                from,
                header,
                bodies: Vec::new(),
                other_bodies: 0,
                last: (0, 0),
            });
        }
        id
    }

    /// A backward branch was taken to a loop's header, and the next block of the row begins there.
    #[inline]
    fn arrive(&mut self, id: u32) {
        let at = self.row.len();
        let Some(tally) = self.loops.get_mut(id as usize) else {
            return;
        };
        let (row, since) = std::mem::replace(&mut tally.last, (self.row_number, at));
        if row != self.row_number {
            return;
        }
        let Some(body) = self.row.get(since..at) else {
            return;
        };
        // The header met again on another way: the loop was left and entered anew in between.
        let header = tally.header;
        let reentered = body.iter().skip(1).any(|(b, _)| {
            self.blocks.get(*b as usize).is_some_and(|b| {
                b.key.start <= header && header <= b.key.end && b.key.place == tally.place
            })
        });
        if !reentered {
            tally.iteration(body);
        }
    }

    /// Puts the counts of recent successors into the table.
    pub(crate) fn finish(&mut self) {
        for (id, block) in self.blocks.iter_mut().enumerate() {
            for slot in &mut block.recent {
                if slot.block != NONE && slot.count > 0 {
                    *self.follows.entry((id as u32, slot.block)).or_default() += slot.count;
                }
                *slot = NO_SUCCESSOR;
            }
        }
    }

    /// Adds another worker's counts (finished), with each block put where `place` says.
    pub(crate) fn absorb(&mut self, other: Tally, place: impl Fn(Key) -> Key) {
        self.cleaning.add(&other.cleaning);
        let mut ids = Vec::with_capacity(other.blocks.len());
        for block in &other.blocks {
            let id = self.find(place(block.key));
            ids.push(id);
            if let Some(mine) = self.blocks.get_mut(id as usize) {
                if mine.seen_at == (mine.key.start, mine.key.end) {
                    mine.seen_at = block.seen_at;
                }
                for (mine, theirs) in mine.sides.iter_mut().zip(&block.sides) {
                    mine.cycles.absorb(&theirs.cycles);
                    mine.unknown += theirs.unknown;
                    mine.saturated += theirs.saturated;
                }
            }
        }
        let map = |id: u32| ids.get(id as usize).copied().unwrap_or(NONE);
        for ((a, b), n) in other.follows {
            *self.follows.entry((map(a), map(b))).or_default() += n;
        }
        for theirs in other.loops {
            let at = place(Key {
                place: theirs.place,
                start: theirs.header,
                end: theirs.from,
            });
            let id = self.find_loop(at.place, at.end, at.start);
            let Some(mine) = self.loops.get_mut(id as usize) else {
                continue;
            };
            mine.other_bodies += theirs.other_bodies;
            for body in theirs.bodies {
                let blocks: Vec<u32> = body.blocks.iter().map(|b| map(*b)).collect();
                mine.add_body(&blocks, body.count, |h| h.absorb(&body.cycles));
            }
        }
    }
}

impl LoopTally {
    #[inline]
    fn iteration(&mut self, row: &[(u32, u16)]) {
        let known = row.iter().all(|(_, c)| *c != 0);
        let sum = row.iter().fold(0u32, |sum, (_, c)| sum + u32::from(*c));
        let cycles = u16::try_from(sum).ok().filter(|c| known && *c != SATURATED);
        let same = |body: &Body| {
            body.blocks.len() == row.len() && body.blocks.iter().zip(row).all(|(a, (b, _))| a == b)
        };
        if let Some(body) = self.bodies.iter_mut().find(|b| same(b)) {
            body.count += 1;
            if let Some(cycles) = cycles {
                body.cycles.add(cycles);
            }
            return;
        }
        let blocks: Vec<u32> = row.iter().map(|(b, _)| *b).collect();
        self.add_body(&blocks, 1, |h| {
            if let Some(cycles) = cycles {
                h.add(cycles);
            }
        });
    }

    fn add_body(&mut self, blocks: &[u32], count: u64, cycles: impl FnOnce(&mut HistogramTally)) {
        if let Some(body) = self.bodies.iter_mut().find(|b| b.blocks == blocks) {
            body.count += count;
            cycles(&mut body.cycles);
        } else if self.bodies.len() < MAX_BODIES {
            let mut body = Body {
                blocks: blocks.to_vec(),
                count,
                cycles: HistogramTally::default(),
            };
            cycles(&mut body.cycles);
            self.bodies.push(body);
        } else {
            self.other_bodies += count;
        }
    }
}
