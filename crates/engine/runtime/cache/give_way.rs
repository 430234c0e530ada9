//! Memory of the cache that the program wants: code areas are given up, what has to be low moves. Only while one thread
//! alone executes this memory, and is in the runtime.

use super::Cache;
use super::areas::Area;
use super::huge;
use super::kept::{FRESH, SPENT};
use super::sections::{CHUNK_EXITS, LIVE, LOST, Section};
use crate::block::NONE;
use crate::check;
use crate::layout::{ARENA_BASE, LOW, LOW_BYTES, TOTALS_BASE};
use crate::own_memory::{self, AREA, in_code};
use crate::pages::Pages;
use crate::sys;
use crate::syscall_table as nr;
use crate::xlate::low::{JUMP, LOAD, LOAD_FOR_EVENTS, Reference};

impl Cache {
    /// Gives up the code areas that a range touches.
    pub fn give_up_areas(&mut self, pages: &mut Pages, start: u64, end: u64) {
        for at in 0..self.area_count {
            let base = self.areas.get(at).base;
            if base == Area::NOWHERE || base >= end || start >= base + AREA {
                continue;
            }
            self.lose_sections(pages, at);
            // What came from disk and is not in use yet may lie there as well.
            for state in &mut self.kept.active {
                if *state == FRESH {
                    *state = SPENT;
                }
            }
            let area = self.areas.get(at);
            (area.base, area.current) = (Area::NOWHERE, NONE);
            area.sections = [NONE; Area::SECTIONS];
            own_memory::lose_area(at, Area::NOWHERE);
            // SAFETY: ours, and nothing refers to it.
            unsafe { sys::call(nr::MUNMAP, [base, AREA, 0, 0, 0, 0]) };
        }
    }

    /// Takes all blocks of an area out, for good: its memory is about to be the program's. Nobody is inside.
    fn lose_sections(&mut self, pages: &mut Pages, area: usize) {
        for at in 0..self.sections.len() {
            let section = *self.sections.get(at);
            if section.area() != area {
                continue;
            }
            if section.state == LIVE {
                self.empty(pages, at);
            }
            let mut chunk = section.first_chunk;
            while chunk != NONE {
                let info = *self.chunks.get(chunk as usize);
                let from = chunk as usize * CHUNK_EXITS;
                for number in from..from + usize::from(info.exits) {
                    // Who came from there is not linked on.
                    let exit = self.exits.get(number);
                    exit.lose();
                }
                chunk = info.next;
            }
            self.sections.get(at).state = LOST;
        }
        self.epoch += 1;
    }

    /// A section out of reach, for code that has no free addresses near it: its operands relative to RIP are
    /// addressed through a register there.
    pub(super) fn far_section(&mut self, pc: u64) -> Option<usize> {
        self.crowded = pc >> 30;
        for at in 0..self.area_count {
            let area = *self.areas.get(at);
            if area.base < ARENA_BASE || area.base >= TOTALS_BASE {
                continue;
            }
            let current = self.sections.slice().get(area.current as usize);
            if current.is_some_and(Section::is_open) {
                return Some(area.current as usize);
            }
            if let Some(section) = self.begin_section(at) {
                return Some(section);
            }
        }
        let number = self.area_at(own_memory::addresses(AREA))?;
        self.begin_section(number)
    }

    /// Moves what has to be low out of a range; false where there is no other place.
    pub fn move_low(&mut self, start: u64, end: u64) -> bool {
        let everywhere = (0x10_0000..0x7f00_0000).step_by(4 << 20);
        let place = LOW.into_iter().chain(everywhere).find(|&at| {
            let inside = at < end && start < at + LOW_BYTES;
            !inside && own_memory::map(at, LOW_BYTES)
        });
        let Some(place) = place else {
            return false;
        };
        let old = own_memory::low();
        let split = huge::split(old);
        let parts = [(0, split), (split, LOW_BYTES - split)];
        // MREMAP_MAYMOVE | MREMAP_FIXED
        // SAFETY: from memory of ours to memory of ours; code is told below, before any is executed.
        let moves = |from: u64, to: u64, bytes: u64| unsafe {
            bytes == 0 || sys::call(nr::MREMAP, [from, bytes, bytes, 3, to, 0]) == to as i64
        };
        for (done, &(at, bytes)) in parts.iter().enumerate() {
            if moves(old + at, place + at, bytes) {
                continue;
            }
            for &(at, bytes) in parts.iter().take(done) {
                check!(
                    moves(place + at, old + at, bytes),
                    "the tables of branches are lost"
                );
            }
            own_memory::give_back(place, LOW_BYTES);
            return false;
        }
        own_memory::set_low(place);
        for number in 0..self.blocks.len() {
            let block = *self.blocks.get(number);
            // (What was given up is not there any more.)
            let (end, syscall) = (block.at(block.host_end), block.at(block.syscall));
            if end != 0 && in_code(end - 1) {
                readdress(end, JUMP, old, place);
                if syscall != 0 {
                    readdress(syscall, LOAD, old, place);
                    readdress(syscall, LOAD_FOR_EVENTS, old, place);
                }
            }
        }
        true
    }
}

/// Changes the low address that code in front of `mark` names, if it names one.
fn readdress(mark: u64, reference: Reference, old: u64, new: u64) {
    let from = mark - reference.reach();
    // SAFETY: code of ours, and what is in front of it in its area; nobody executes it.
    let bytes = unsafe { (from as *const [u8; 8]).read_unaligned() };
    if let Some(address) = reference.address(bytes)
        && let Some(offset) = u64::from(address).checked_sub(old)
        && offset < LOW_BYTES
    {
        // SAFETY: as above.
        unsafe { ((from + 4) as *mut u32).write_unaligned((new + offset) as u32) };
    }
}
