//! Per-block counts of a run, read from the shared file: sums of every event for
//! each thread, and the executed blocks with where their code came from.
//!
//! The format is in [`crate::log`]. The file was writable by the program, so
//! nothing in it is believed without a check of its bounds.

mod marks;
mod noted;

pub use marks::Mark;
use marks::Marked;

use super::bytes::field;
use super::shared::Shared;
use crate::layout::{COUNTERS, Context, LOG, MAX_COUNTERS, MAX_SLOTS, REGION};
use crate::log::{self, Entry};
use crate::xlate::facts::{Counts, Facts};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::offset_of;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Executable memory of a process image at some time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// Where `start` is in the file, bytes.
    pub offset: u64,
    /// Device number as in `/proc/PID/maps`, the colon left out.
    pub device: u64,
    /// Inode; 0 where no file is mapped (`[vdso]`, memory of a JIT).
    pub inode: u64,
    /// Path as the kernel showed it; empty for anonymous memory.
    pub path: PathBuf,
}

/// A block, or an early exit's part of one, and how often it was executed.
#[derive(Clone, Copy, Debug)]
pub struct Executed<'a> {
    /// The process image: slot of its first thread (`ThreadTotals::leader`).
    pub image: u32,
    /// The thread: its slot; 0 where threads are not told apart ([`super::Options::regions`]).
    pub thread: u32,
    /// How many marks of the process there were before ([`Blocks::marks`]).
    pub part: u32,
    /// Where the code is mapped from, where that is known.
    pub mapping: Option<&'a Mapping>,
    /// Address of the first instruction.
    pub pc: u64,
    /// One an instruction, in order.
    pub facts: &'a [Facts],
    /// Executions; modulo 2⁶⁴, as parts that were counted too much are negative.
    pub times: u64,
}

/// What a counter counts.
#[derive(Clone, Copy)]
struct Described {
    /// Place of the entry in the space's words.
    at: usize,
    /// Number of the mapping, in a block's entry.
    mapping: Option<u32>,
}

#[derive(Clone, Default)]
struct Space {
    base: u32,
    base_counters: u32,
    counters: u32,
    words: Vec<u64>,
    /// Of the counters from `base_counters` on.
    described: Vec<Described>,
    /// Live mappings when the log began; then those it tells: (place, number).
    before: BTreeMap<u64, u32>,
    maps: Vec<(usize, u32)>,
    /// Slot, first word and words of each segment.
    segments: Vec<(u32, usize, usize)>,
    /// Where blocks are described that note references, by their counters: see [`Entry::Described`].
    noted: FxHashMap<u32, u64>,
}

/// Counts of one process image in one space.
#[derive(Clone)]
struct Counted {
    image: u32,
    thread: u32,
    part: u32,
    space: u32,
    values: Vec<u64>,
}

/// Every block that a run executed.
#[derive(Clone)]
pub struct Blocks {
    mappings: Vec<Mapping>,
    spaces: HashMap<u32, Space>,
    counted: Vec<Counted>,
    marks: Vec<Mark>,
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Blocks {{ images: {}, mappings: {} }}",
            self.counted.len(),
            self.mappings.len()
        )
    }
}

/// Reads threads one after the other, in the order of their slots.
pub(super) struct Reader<'a> {
    shared: &'a Shared,
    blocks: Blocks,
    marked: Vec<Marked>,
}

fn word32(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(page, at))
}

impl<'a> Reader<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            blocks: Blocks {
                mappings: Vec::new(),
                spaces: HashMap::new(),
                counted: Vec::new(),
                marks: Vec::new(),
            },
            marked: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> Blocks {
        self.blocks
    }

    /// Events of the thread in `slot`, whose context is `page`.
    pub(super) fn thread(&mut self, slot: u32, image: u32, page: &[u8]) -> Counts {
        let mut sums = Counts::default();
        let number = word32(page, offset_of!(Context, space));
        if number == 0 || number > slot {
            return sums;
        }
        if !self.blocks.spaces.contains_key(&number) {
            let space = self.space(number);
            self.blocks.spaces.insert(number, space);
        }
        let blocks = &mut self.blocks;
        let Some(space) = blocks.spaces.get(&number) else {
            return sums;
        };
        let count = space.counters.min(MAX_COUNTERS) as usize;
        let Ok(values) = self.shared.words(slot, u64::from(COUNTERS), count) else {
            return sums;
        };
        for (counter, &value) in values.iter().enumerate() {
            if value != 0
                && let Some((entry, _)) = blocks.entry(number, counter as u32)
            {
                entry.add(value, &mut sums);
            }
        }
        if self.shared.regions.is_some() {
            self.apart(slot, image, number, &values);
            return sums;
        }
        match blocks
            .counted
            .iter_mut()
            .find(|counted| (counted.image, counted.space) == (image, number))
        {
            Some(known) => {
                let len = known.values.len().max(values.len());
                known.values.resize(len, 0);
                for (sum, value) in known.values.iter_mut().zip(values) {
                    *sum = sum.wrapping_add(value);
                }
            }
            None => blocks.counted.push(Counted {
                image,
                thread: 0,
                part: 0,
                space: number,
                values,
            }),
        }
        sums
    }

    /// Reads the log that begins in `slot`.
    fn space(&mut self, slot: u32) -> Space {
        let mut space = Space::default();
        let Ok(page) = self.shared.context(slot) else {
            return space;
        };
        let page = page.as_slice();
        space.counters = word32(page, offset_of!(Context, counters));
        // A parent's slot is older than its child's.
        space.base = match word32(page, offset_of!(Context, base)) {
            base if base < slot => base,
            _ => 0,
        };
        if space.base != 0 {
            space.base_counters = word32(page, offset_of!(Context, base_counters));
            let at = offset_of!(Context, base_log);
            let log = (word32(page, at), word32(page, at + 4));
            if !self.blocks.spaces.contains_key(&space.base) {
                let base = self.space(space.base);
                self.blocks.spaces.insert(space.base, base);
            }
            if let Some(base) = self.blocks.spaces.get(&space.base) {
                space.before = base.mapped_at(log, &self.blocks.mappings);
            }
        }
        let mut segment = slot;
        while let Ok(page) = self.shared.context(segment) {
            let len = word32(page.as_slice(), offset_of!(Context, log_len));
            let len = u64::from(len).min(REGION - LOG) as usize / 8;
            let first = space.words.len();
            let words = &mut space.words;
            if self.shared.append_words(segment, LOG, len, words).is_err() {
                break;
            }
            space.segments.push((segment, first, len));
            let more = word32(page.as_slice(), offset_of!(Context, log_more));
            if more <= segment || more >= MAX_SLOTS {
                break;
            }
            segment = more;
        }
        space.index(&mut self.blocks.mappings);
        space
    }
}

/// Puts a mapping in the place of those that it covers.
fn map(live: &mut BTreeMap<u64, u32>, mappings: &[Mapping], number: u32) {
    let of = |number: u32| mappings.get(number as usize);
    let Some(new) = of(number) else { return };
    let covered: Vec<u64> = live
        .range(..new.end)
        .rev()
        .take_while(|&(&start, &old)| {
            start >= new.start || of(old).is_some_and(|old| old.end > new.start)
        })
        .map(|(&start, _)| start)
        .collect();
    for start in covered {
        live.remove(&start);
    }
    live.insert(new.start, number);
}

impl Space {
    /// The mappings live when the log was at (segment, bytes).
    fn mapped_at(&self, log: (u32, u32), mappings: &[Mapping]) -> BTreeMap<u64, u32> {
        let end = self
            .segments
            .iter()
            .find(|&&(slot, ..)| slot == log.0)
            .map_or(usize::MAX, |&(_, first, _)| first + log.1 as usize / 8);
        let mut live = self.before.clone();
        for &(_, number) in self.maps.iter().take_while(|&&(at, _)| at < end) {
            map(&mut live, mappings, number);
        }
        live
    }

    /// Finds the entries in the words.
    fn index(&mut self, mappings: &mut Vec<Mapping>) {
        let mut live = self.before.clone();
        for &(_, first, len) in &self.segments {
            let mut at = first;
            while let Some((entry, used)) = self.words.get(at..first + len).and_then(log::entry) {
                let (counter, mapping) = match entry {
                    Entry::Map {
                        start,
                        end,
                        offset,
                        device,
                        inode,
                        path,
                    } => {
                        let mut bytes: Vec<u8> =
                            path.iter().flat_map(|word| word.to_le_bytes()).collect();
                        bytes.truncate(bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len()));
                        let number = mappings.len() as u32;
                        mappings.push(Mapping {
                            start,
                            end,
                            offset,
                            device,
                            inode,
                            path: PathBuf::from(std::ffi::OsString::from_vec(bytes)),
                        });
                        map(&mut live, mappings, number);
                        self.maps.push((at, number));
                        at += used;
                        continue;
                    }
                    Entry::Block { counter, pc, .. } => {
                        let found = live.range(..=pc).next_back().map(|(_, &number)| number);
                        let holds = |&number: &u32| {
                            mappings.get(number as usize).is_some_and(|m| pc < m.end)
                        };
                        (counter, found.filter(holds))
                    }
                    Entry::Part { counter, .. } => (counter, None),
                    Entry::Described { counter, at: place } => {
                        self.noted.insert(counter, place);
                        at += used;
                        continue;
                    }
                };
                // In the order of the log, but for what came from earlier runs.
                let place = counter.checked_sub(self.base_counters).map(|p| p as usize);
                if let Some(place) = place.filter(|_| counter < self.counters.min(MAX_COUNTERS)) {
                    let unknown = Described {
                        at: usize::MAX,
                        mapping: None,
                    };
                    if self.described.len() <= place {
                        self.described.resize(place + 1, unknown);
                    }
                    if let Some(described) = self.described.get_mut(place)
                        && described.at == usize::MAX
                    {
                        *described = Described { at, mapping };
                    }
                }
                at += used;
            }
        }
    }
}

impl Blocks {
    /// What a counter of a space counts, and the mapping of a block.
    fn entry(&self, space: u32, counter: u32) -> Option<(Entry<'_>, Option<u32>)> {
        self.entry_in(self.spaces.get(&space)?, counter)
    }

    /// As [`Self::entry`], where the space is known.
    fn entry_in<'a>(
        &'a self,
        mut space: &'a Space,
        counter: u32,
    ) -> Option<(Entry<'a>, Option<u32>)> {
        // Bases are older and older slots: this ends.
        while counter < space.base_counters {
            space = self.spaces.get(&space.base)?;
        }
        let at = counter.checked_sub(space.base_counters)?;
        let described = space.described.get(at as usize)?;
        let (entry, _) = log::entry(space.words.get(described.at..)?)?;
        Some((entry, described.mapping))
    }

    /// Slots of the threads of a process image, in order of appearance, where they are told apart.
    pub fn threads(&self, image: u32) -> BTreeSet<u32> {
        let counted = self.counted.iter().filter(|counted| counted.image == image);
        counted.map(|counted| counted.thread).collect()
    }

    /// Where parts of the processes' profiles end, in order.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Calls `see` for every block that was translated, once for each process image that knows it: executed or not,
    /// collected or not. `times` is 0.
    pub fn each_translated(&self, see: &mut dyn FnMut(Executed<'_>)) {
        let mut largest: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for counted in &self.counted {
            let known = largest.entry((counted.image, counted.space)).or_default();
            *known = counted.values.len().max(*known);
        }
        let mut facts = Vec::new();
        for ((image, space), counters) in largest {
            let Some(space) = self.spaces.get(&space) else {
                continue;
            };
            for counter in 0..counters {
                let Some((Entry::Block { pc, facts: all, .. }, mapping)) =
                    self.entry_in(space, counter as u32)
                else {
                    continue;
                };
                facts.clear();
                facts.extend(all.iter());
                see(Executed {
                    image,
                    thread: 0,
                    part: 0,
                    mapping: mapping.and_then(|number| self.mappings.get(number as usize)),
                    pc,
                    facts: &facts,
                    times: 0,
                });
            }
        }
    }

    /// Calls `see` for every block and part of one that was executed.
    pub fn each(&self, see: &mut dyn FnMut(Executed<'_>)) {
        let mut facts = Vec::new();
        for counted in &self.counted {
            let Some(space) = self.spaces.get(&counted.space) else {
                continue;
            };
            for (counter, &value) in counted.values.iter().enumerate() {
                if value == 0 {
                    continue;
                }
                let Some((entry, mapping)) = self.entry_in(space, counter as u32) else {
                    continue;
                };
                let (block, range, times) = match entry {
                    Entry::Block { .. } => (Some((entry, mapping)), 0..usize::MAX, value),
                    Entry::Part { of, part, .. } => {
                        let range = usize::from(part.from)..usize::from(part.to);
                        (self.entry_in(space, of), range, part.times(value))
                    }
                    Entry::Map { .. } | Entry::Described { .. } => continue,
                };
                let Some((Entry::Block { pc, facts: all, .. }, mapping)) = block else {
                    continue;
                };
                facts.clear();
                facts.extend(all.iter());
                let end = range.end.min(facts.len());
                let Some(executed) = facts.get(range.start..end) else {
                    continue;
                };
                let skipped: u64 = facts
                    .iter()
                    .take(range.start)
                    .map(|facts| facts.len())
                    .sum();
                see(Executed {
                    image: counted.image,
                    thread: counted.thread,
                    part: counted.part,
                    mapping: mapping.and_then(|number| self.mappings.get(number as usize)),
                    pc: pc.wrapping_add(skipped),
                    facts: executed,
                    times,
                });
            }
        }
    }
}
