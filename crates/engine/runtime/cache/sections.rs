//! Sections: the parts that code areas are filled and emptied by.
//!
//! When the code in use comes near the bound of the run (`Header::code_cache`), the section that was begun first
//! is *retired*: nothing leads to its blocks or on from them any more, so a thread that is in one comes to the
//! runtime at the block's end. Its memory and its numbers are used again once every thread has been here since
//! (`threads`). Blocks and exits are numbered in *chunks*, each of one section.

use super::areas::{Area, HOT, MISSES};
use super::{Cache, Exit};
use crate::block::{Block, NONE, Near};
use crate::own_memory::AREA;
use crate::pages::Pages;
use crate::slots;
use crate::sys;
use crate::syscall_table as nr;
use crate::xlate::block::MAX_EXITS;

/// Blocks and exits of a chunk.
pub(super) const CHUNK_BLOCKS: usize = 128;
pub(super) const CHUNK_EXITS: usize = 384;

/// Numbers of one section's blocks, from the chunk's number on, in the order of their addresses.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    /// Host address of the first block.
    pub(super) first: u64,
    pub(super) area: u32,
    /// Next of the section, or of the free ones.
    pub(super) next: u32,
    blocks: u16,
    pub(super) exits: u16,
    padding: u32,
}

/// Nothing in it.
const FREE: u8 = 0;
pub(super) const LIVE: u8 = 1;
/// Unreachable; threads may still be inside.
const RETIRED: u8 = 2;
/// Its memory is the program's now.
pub(super) const LOST: u8 = 3;

/// A part of an area: hot code and the cold code that belongs to it. `hot` and `cold` are the next free addresses.
#[derive(Clone, Copy)]
pub(super) struct Section {
    pub(super) hot: u64,
    pub(super) cold: u64,
    hot_start: u64,
    cold_start: u64,
    hot_end: u64,
    cold_end: u64,
    /// The next free place in a line of return addresses; 0: there is no such line.
    pub(super) literal: u64,
    pub(super) first_chunk: u32,
    last_chunk: u32,
    area: u32,
    pub(super) state: u8,
    /// It came from disk: not emptied.
    kept: bool,
    /// Which one of all it is, as sections were begun.
    begun: u64,
    /// The epoch from which on a thread cannot be in it.
    pub(super) retired: u64,
}

/// Bytes that a translation may need of either half.
const ROOM: u64 = 0x8000;
/// The bound where none was asked for.
const DEFAULT_BOUND: u64 = 512 << 20;
const MIN_SECTION: u64 = 256 << 10;
const MAX_SECTION: u64 = 32 << 20;

/// Bytes that translated code may take.
pub(super) fn bound() -> u64 {
    match slots::header().code_cache {
        0 => DEFAULT_BOUND,
        bytes => bytes.max(4 * MIN_SECTION),
    }
}

/// Hot and cold bytes of a section, and how many an area has.
fn shape() -> (u64, u64, u64) {
    let section = (bound() / 16).clamp(MIN_SECTION, MAX_SECTION) & !0xffff;
    let eighth = section / 8;
    let (hot, cold) = ((5 * eighth) & !0xfff, (3 * eighth) & !0xfff);
    (hot, cold, (HOT / hot).min(Area::SECTIONS as u64))
}

/// Over how many sections' places of an area so many bytes of hot and cold code reach, with something left over for what
/// must be written ([`Section::has_room`]); `None`: it has not so many.
pub(super) fn places_of(hot: u64, cold: u64) -> Option<u64> {
    let (hot_size, cold_size, count) = shape();
    let places = hot
        .div_ceil(hot_size)
        .max((cold + ROOM / 4).div_ceil(cold_size));
    (places <= count).then_some(places)
}

impl Section {
    /// Room in both halves for a translation.
    pub(super) fn is_open(&self) -> bool {
        self.state == LIVE && self.hot + ROOM < self.hot_end && self.has_room()
    }
    /// Room in the cold half for a translation, or for anything smaller with some left over: what
    /// must be written (`far_jump`, to take a block out) finds place in the rest.
    pub(super) fn has_room(&self) -> bool {
        self.cold + ROOM < self.cold_end
    }
    pub(super) fn area(&self) -> usize {
        self.area as usize
    }
    pub(super) fn cold_end(&self) -> u64 {
        self.cold_end
    }
    /// Whether all bytes of a range are code of one of its halves.
    pub(super) fn is_filled(&self, start: u64, end: u64) -> bool {
        let inside = |from: u64, to: u64| from <= start && end <= to;
        self.state == LIVE
            && (inside(self.hot_start, self.hot) || inside(self.cold_start, self.cold))
    }
    fn used(&self) -> u64 {
        match self.state {
            FREE | LOST => 0,
            _ => self.hot - self.hot_start + self.cold - self.cold_start,
        }
    }
}

impl Cache {
    /// The section that serves code at `pc`: of an area within reach, with room.
    pub(super) fn section(&mut self, pages: &mut Pages, pc: u64) -> usize {
        let within =
            |area: &Area| pc.wrapping_sub(area.base).wrapping_add(0x7000_0000) < 0xd000_0000;
        for at in 0..self.area_count {
            let area = self.areas.get(at);
            if within(area)
                && self
                    .sections
                    .slice()
                    .get(area.current as usize)
                    .is_some_and(Section::is_open)
            {
                return area.current as usize;
            }
        }
        self.make_room(pages);
        for at in 0..self.area_count {
            if within(self.areas.get(at))
                && let Some(section) = self.begin_section(at)
            {
                return section;
            }
        }
        let near = match self.crowded == pc >> 30 {
            true => None,
            false => self.new_area(pc),
        };
        near.and_then(|at| self.begin_section(at))
            .or_else(|| self.far_section(pc))
            .unwrap_or_else(|| self.full(pc))
    }

    /// A new section in an area, if there is a free place.
    pub(super) fn begin_section(&mut self, at: usize) -> Option<usize> {
        let (hot, cold, count) = shape();
        let base = self.areas.get(at).base;
        for place in 0..count {
            let known = *self.areas.get(at).sections.get(place as usize)?;
            let free = match self.sections.slice().get(known as usize) {
                Some(section) => section.state == FREE,
                None => true,
            };
            if !free {
                continue;
            }
            let first = if place == 0 { MISSES } else { 0 };
            let number = if known == NONE {
                self.sections.len() as u32
            } else {
                known
            };
            let section = Section {
                hot: base + place * hot,
                cold: base + HOT + place * cold + first,
                hot_start: base + place * hot,
                cold_start: base + HOT + place * cold + first,
                hot_end: base + (place + 1) * hot,
                cold_end: base + HOT + (place + 1) * cold,
                literal: 0,
                first_chunk: NONE,
                last_chunk: NONE,
                area: at as u32,
                state: LIVE,
                kept: false,
                begun: self.begun,
                retired: 0,
            };
            if known == NONE {
                if self.sections.room() == 0 {
                    return None;
                }
                self.sections.push(section);
            } else {
                *self.sections.get(known as usize) = section;
            }
            self.begun += 1;
            let area = self.areas.get(at);
            *area.sections.get_mut(place as usize)? = number;
            area.current = number;
            return Some(number as usize);
        }
        None
    }

    /// A section for what came from disk: it is added to, and never emptied.
    pub(super) fn keep_section(&mut self, at: usize, hot: u64, cold: u64) {
        let (hot_size, cold_size, _) = shape();
        let (Some(places), Some(number)) = (places_of(hot, cold), self.begin_section(at)) else {
            return;
        };
        let base = self.areas.get(at).base;
        let section = self.sections.get(number);
        section.hot = base + hot;
        section.cold = (base + HOT + cold).max(section.cold_start);
        section.hot_end = base + places * hot_size;
        section.cold_end = base + HOT + places * cold_size;
        section.kept = true;
        for place in self.areas.get(at).sections.iter_mut().take(places as usize) {
            *place = number as u32;
        }
    }

    /// Numbers for the next block of a section and for its first exit.
    pub(super) fn next_numbers(&mut self, section: usize) -> Option<(u32, u32)> {
        let last = self.sections.get(section).last_chunk;
        let fits = last != NONE && {
            let chunk = self.chunks.get(last as usize);
            usize::from(chunk.blocks) < CHUNK_BLOCKS
                && usize::from(chunk.exits) + MAX_EXITS <= CHUNK_EXITS
        };
        let number = if fits { last } else { self.new_chunk(section)? };
        let chunk = self.chunks.get(number as usize);
        Some((
            number * CHUNK_BLOCKS as u32 + u32::from(chunk.blocks),
            number * CHUNK_EXITS as u32 + u32::from(chunk.exits),
        ))
    }

    /// Whether a number has been given to a block.
    pub fn is_numbered(&self, number: usize) -> bool {
        let chunk = self.chunks.slice().get(number / CHUNK_BLOCKS);
        chunk.is_some_and(|chunk| number % CHUNK_BLOCKS < usize::from(chunk.blocks))
    }

    fn new_chunk(&mut self, section: usize) -> Option<u32> {
        let chunk = Chunk {
            first: u64::MAX,
            area: self.sections.get(section).area,
            next: NONE,
            blocks: 0,
            exits: 0,
            padding: 0,
        };
        let number = if self.free_chunk != NONE {
            let number = self.free_chunk;
            let place = self.chunks.get(number as usize);
            self.free_chunk = place.next;
            *place = chunk;
            number
        } else {
            if self.chunks.room() == 0 {
                return None;
            }
            let number = self.chunks.push(chunk);
            // Fresh memory is zero: no valid block.
            self.blocks.claim((number + 1) * CHUNK_BLOCKS);
            self.exits.claim((number + 1) * CHUNK_EXITS);
            number as u32
        };
        self.append_chunk(section, number);
        Some(number)
    }

    fn append_chunk(&mut self, section: usize, number: u32) {
        let section = self.sections.get(section);
        let last = section.last_chunk;
        section.last_chunk = number;
        if last == NONE {
            section.first_chunk = number;
        } else {
            self.chunks.get(last as usize).next = number;
        }
    }

    /// Chunks that came from disk go to their sections.
    pub(super) fn adopt_chunks(&mut self) {
        for number in 0..self.chunks.len() {
            let chunk = self.chunks.get(number);
            chunk.next = NONE;
            let area = chunk.area as usize;
            if area < self.area_count {
                let section = self.areas.get(area).current as usize;
                self.append_chunk(section, number as u32);
            }
        }
        // What is added has numbers of its own, behind those that came.
        for at in 0..self.area_count {
            let section = self.areas.get(at).current as usize;
            if self.sections.get(section).last_chunk != NONE {
                self.new_chunk(section);
            }
        }
    }

    /// Notes a block under the number that [`Cache::next_numbers`] gave.
    pub(super) fn note_block(&mut self, number: u32, block: Block, exits: usize) {
        let chunk = self.chunks.get(number as usize / CHUNK_BLOCKS);
        chunk.first = chunk.first.min(block.body);
        chunk.blocks += 1;
        chunk.exits += exits as u16;
        *self.blocks.get(number as usize) = block;
    }

    /// The section that a host address lies in.
    pub(super) fn section_of(&mut self, host: u64) -> Option<usize> {
        let at = self.area_of(host)?;
        let (hot, cold, _) = shape();
        let area = self.areas.get(at);
        let offset = host - area.base;
        let place = if offset < HOT {
            offset / hot
        } else {
            (offset - HOT) / cold
        };
        let number = *area.sections.get(place as usize)?;
        (number != NONE).then_some(number as usize)
    }

    /// The block whose body (entries excluded) holds a host address.
    pub fn block_at(&mut self, host: u64) -> Option<u32> {
        let section = self.section_of(host)?;
        let (mut at, mut chunk) = (self.sections.get(section).first_chunk, NONE);
        while at != NONE {
            let next = *self.chunks.get(at as usize);
            if next.first > host {
                break;
            }
            chunk = at;
            at = next.next;
        }
        if chunk == NONE {
            return None;
        }
        let from = chunk as usize * CHUNK_BLOCKS;
        let count = usize::from(self.chunks.get(chunk as usize).blocks);
        let blocks = self.blocks.slice().get(from..from + count)?;
        let after = blocks.partition_point(|block| block.body <= host);
        let number = after.checked_sub(1)?;
        let block = blocks.get(number)?;
        (host < block.at(block.host_end)).then_some((from + number) as u32)
    }

    /// Whether something has been taken out in this process.
    pub(super) fn was_emptied(&self) -> bool {
        self.epoch != 0
    }

    /// Keeps the code in use below the bound: what no thread can be in any more is freed, and the oldest section
    /// retired in time.
    fn make_room(&mut self, pages: &mut Pages) {
        self.free_what_was_left();
        let (hot, cold, _) = shape();
        let all = || self.sections.slice().iter();
        let used: u64 = all().map(Section::used).sum();
        // What was retired is as good as gone; another must be on its way for the next time.
        let live = |section: &&Section| section.state == LIVE;
        let retired = all().any(|s| s.state == RETIRED);
        let in_use: u64 = all().filter(live).map(Section::used).sum();
        let next = 2 * (hot + cold);
        if used + next <= bound() || retired && in_use + next <= bound() {
            return;
        }
        let full_first = |section: &Section| (section.is_open(), section.begun);
        let oldest = (0..self.sections.len())
            .filter(|&at| {
                let section = self.sections.slice().get(at);
                section.is_some_and(|section| section.state == LIVE && !section.kept)
            })
            .min_by_key(|&at| self.sections.slice().get(at).map(full_first));
        if let Some(oldest) = oldest {
            self.retire(pages, oldest);
        }
    }

    /// Takes a section's blocks out: nothing leads to them any more, nor from one to another.
    fn retire(&mut self, pages: &mut Pages, at: usize) {
        self.empty(pages, at);
        self.epoch += 1;
        let epoch = self.epoch;
        let section = self.sections.get(at);
        section.state = RETIRED;
        section.retired = epoch;
        for area in 0..self.area_count {
            let area = self.areas.get(area);
            if area.current == at as u32 {
                area.current = NONE;
            }
        }
        self.threads.call(epoch);
    }

    /// Nothing leads to a section's blocks any more, nor from one to another.
    pub(super) fn empty(&mut self, pages: &mut Pages, at: usize) {
        let mut chunk = self.sections.get(at).first_chunk;
        while chunk != NONE {
            let info = *self.chunks.get(chunk as usize);
            let from = chunk as usize * CHUNK_BLOCKS;
            for number in from..from + usize::from(info.blocks) {
                self.take_out(number as u32);
            }
            chunk = info.next;
        }
        // All of them are known to be out, so one look at each list takes them all from it.
        let mut chunk = self.sections.get(at).first_chunk;
        while chunk != NONE {
            let info = *self.chunks.get(chunk as usize);
            let from = chunk as usize * CHUNK_BLOCKS;
            for number in from..from + usize::from(info.blocks) {
                pages.strike(self, number as u32);
            }
            let from = chunk as usize * CHUNK_EXITS;
            for number in from..from + usize::from(info.exits) {
                self.strike_exit(number as u32);
            }
            chunk = info.next;
        }
        self.once = [(0, NONE); 256];
    }

    /// Withdraws a block, and what is known of it by address.
    fn take_out(&mut self, number: u32) {
        self.invalidate(number);
        let block = self.blocks.get(number as usize);
        block.copy = Near::NONE;
        block.gone = true;
        let (pc, first) = (block.pc, core::mem::replace(&mut block.first_entry, NONE));
        self.forget_number(pc, number);
        self.free_entries(first);
    }

    /// Frees retired sections that no thread can be in.
    fn free_what_was_left(&mut self) {
        for at in 0..self.sections.len() {
            let section = *self.sections.get(at);
            if section.state == RETIRED && !self.is_entered(at) {
                self.free(at);
            }
        }
    }

    fn free(&mut self, at: usize) {
        let section = *self.sections.get(at);
        let mut chunk = section.first_chunk;
        while chunk != NONE {
            let from = chunk as usize * CHUNK_BLOCKS;
            for number in from..from + CHUNK_BLOCKS {
                *self.blocks.get(number) = Block::NONE;
            }
            let from = chunk as usize * CHUNK_EXITS;
            for number in from..from + CHUNK_EXITS {
                *self.exits.get(number) = Exit::NONE;
            }
            let next = self.chunks.get(chunk as usize).next;
            let info = self.chunks.get(chunk as usize);
            (info.blocks, info.exits, info.next) = (0, 0, self.free_chunk);
            self.free_chunk = chunk;
            chunk = next;
        }
        for (start, end) in [
            (section.hot_start, section.hot),
            ((section.cold_start + 0xfff) & !0xfff, section.cold),
        ] {
            if start < end {
                // SAFETY: MADV_DONTNEED on private memory of ours that nobody uses any more.
                unsafe {
                    sys::call(
                        nr::MADVISE,
                        [start, (end - start + 0xfff) & !0xfff, 4, 0, 0, 0],
                    )
                };
            }
        }
        self.sections.get(at).state = FREE;
    }
}

const _: () = assert!(HOT < AREA && Area::SECTIONS >= 8);
