//! The cache as it goes to disk and comes back: what other parts of `cache` keep
//! private. All of it leaves the cache usable.

use super::areas::{HOT, default_entry};
use super::kept::place;
use super::links::{patch, set_table};
use super::sections::{CHUNK_BLOCKS, CHUNK_EXITS, bound, places_of};
use super::{Cache, Exit};
use crate::block::{Block, NONE};
use crate::snapshot::{AreaFacts, Facts, MAX_AREAS, Piece, Prefix, piece};
use crate::table::Table;
use core::mem::size_of;

/// Puts a table's elements in front; false where they do not fit.
fn adopt_table<T: Copy>(table: &mut Table<T>, fd: u64, piece: Piece) -> bool {
    let (bytes, size) = (piece.bytes as usize, size_of::<T>());
    if bytes % size != 0 || !has_room(table, bytes / size) {
        return false;
    }
    // SAFETY: the table's own memory; nothing has been translated yet.
    if !unsafe { place(fd, piece, table.address(), 3) } {
        return false;
    }
    table.placed(bytes / size);
    true
}

/// Whether a table has room for as much again.
fn has_room<T: Copy>(table: &Table<T>, len: usize) -> bool {
    len <= table.capacity() / 2
}

/// Whether code can be taken over. What comes stays, so it may only be a part of what the code cache can hold, and each
/// area needs some room for what must be written.
fn code_fits(pieces: &[Piece]) -> bool {
    let code = pieces.get(piece::AREAS..).unwrap_or(&[]);
    let all = code.iter().map(|piece| piece.bytes).sum::<u64>();
    let mut areas = code.chunks_exact(2);
    let fits =
        |area: &[Piece]| matches!(area, [hot, cold] if places_of(hot.bytes, cold.bytes).is_some());
    all <= bound() / 2 && areas.all(fits)
}

impl Cache {
    /// Takes over a snapshot, before anything has been translated. False: it does
    /// not fit here, and nothing of it is used.
    pub fn adopt(&mut self, fd: u64, prefix: &Prefix) -> bool {
        let facts = &prefix.facts;
        let code = |at: usize, way: usize| prefix.pieces.get(piece::AREAS + 2 * at + way).copied();
        let areas = || {
            facts
                .areas
                .iter()
                .take(facts.area_count as usize)
                .enumerate()
        };
        if !code_fits(&prefix.pieces) {
            return false;
        }
        for (_, area) in areas() {
            if !self.map_area(area.base) {
                self.drop_areas();
                return false;
            }
        }
        let tables = adopt_table(&mut self.blocks, fd, prefix.pieces[piece::BLOCKS])
            && adopt_table(&mut self.exits, fd, prefix.pieces[piece::EXITS])
            && adopt_table(&mut self.chunks, fd, prefix.pieces[piece::CHUNKS])
            && adopt_table(&mut self.entries, fd, prefix.pieces[piece::ENTRIES])
            && self.blocks.len() as u64 == facts.blocks
            && self.blocks.len() == self.chunks.len() * CHUNK_BLOCKS
            && self.exits.len() == self.chunks.len() * CHUNK_EXITS
            && areas().all(|(at, area)| {
                let (Some(hot), Some(cold)) = (code(at, 0), code(at, 1)) else {
                    return false;
                };
                // SAFETY: an area of ours that nothing runs in yet.
                unsafe { place(fd, hot, area.base, 7) && place(fd, cold, area.base + HOT, 7) }
            });
        if !tables {
            self.blocks.claim(0);
            self.exits.claim(0);
            self.chunks.claim(0);
            self.entries.claim(0);
            self.drop_areas();
            return false;
        }
        for at in 0..self.area_count {
            let (Some(hot), Some(cold)) = (code(at, 0), code(at, 1)) else {
                continue;
            };
            self.keep_section(at, hot.bytes, cold.bytes);
        }
        self.adopt_chunks();
        true
    }

    /// Empties the tables of indirect branches: entries are published again when
    /// they are met.
    pub fn unpublish_all(&mut self) {
        for number in 0..self.entries.len() {
            let entry = *self.entries.get(number);
            if !entry.published {
                continue;
            }
            let way = usize::from(entry.way);
            let pc = self.blocks.get(entry.block as usize).pc;
            set_table(way, (pc & 0xffff) as usize, default_entry(way));
            if entry.chain != NONE {
                let miss = self.miss(entry.at, way);
                patch(entry.patch(), miss);
            }
            let info = self.entries.get(number);
            (info.chain, info.published) = (NONE, false);
        }
    }

    /// Takes back the links of a block that leave the program addresses given:
    /// another process may have the one mapping and not the other.
    pub fn keep_links_inside(&mut self, block: &Block, start: u64, end: u64) {
        for number in block.first_exit..block.first_exit + u32::from(block.exit_count) {
            let exit: Exit = *self.exits.get(number as usize);
            if exit.to == NONE || start <= exit.target && exit.target < end {
                continue;
            }
            self.unlink(number);
            self.exits.get(number as usize).next = NONE;
            let to = exit.to;
            let head = self.blocks.get(to as usize).incoming;
            if head == number {
                self.blocks.get(to as usize).incoming = exit.next;
                continue;
            }
            let mut at = head;
            while at != NONE {
                let next = self.exits.get(at as usize).next;
                if next == number {
                    self.exits.get(at as usize).next = exit.next;
                    break;
                }
                at = next;
            }
        }
    }

    /// Describes tables and code for a request; false if no process would take them over.
    pub fn describe(&self, pieces: &mut [Piece], facts: &mut Facts) -> bool {
        fn whole<T: Copy>(table: &Table<T>) -> Piece {
            Piece {
                at: table.address(),
                bytes: (table.len() * size_of::<T>()) as u64,
            }
        }
        // What is full of holes is not worth it.
        if self.area_count > MAX_AREAS || self.was_emptied() {
            return false;
        }
        let mut set = |at: usize, piece: Piece| {
            if let Some(place) = pieces.get_mut(at) {
                *place = piece;
            }
        };
        set(piece::BLOCKS, whole(&self.blocks));
        set(piece::EXITS, whole(&self.exits));
        set(piece::CHUNKS, whole(&self.chunks));
        set(piece::ENTRIES, whole(&self.entries));
        for (at, area) in self.areas.slice().iter().enumerate() {
            let (mut hot, mut cold) = (area.base, area.base + HOT);
            for section in self.sections.slice().iter().filter(|s| s.area() == at) {
                (hot, cold) = (hot.max(section.hot), cold.max(section.cold));
            }
            let run = |from: u64, to: u64| Piece {
                at: from,
                bytes: to - from,
            };
            set(piece::AREAS + 2 * at, run(area.base, hot));
            set(piece::AREAS + 2 * at + 1, run(area.base + HOT, cold));
            if let Some(place) = facts.areas.get_mut(at) {
                *place = AreaFacts { base: area.base };
            }
        }
        facts.area_count = self.area_count as u64;
        facts.blocks = self.blocks.len() as u64;
        // (What is written and never taken over would be written at each end.)
        code_fits(pieces)
            && has_room(&self.blocks, self.blocks.len())
            && has_room(&self.exits, self.exits.len())
            && has_room(&self.chunks, self.chunks.len())
            && has_room(&self.entries, self.entries.len())
    }
}
