//! Direct links between blocks, and the indirect-branch tables' buckets: made,
//! published and taken away again.

use super::areas::code;
use super::{Cache, NONE, OFFSETS};
use crate::entry::{self, address};
use crate::layout::{JUMP_TABLE, RET_TABLE};
use crate::xlate::emit::reaches;
use crate::xlate::entry::{Via, emit_entry};

impl Cache {
    /// Links an exit to a block, if a displacement reaches.
    pub fn link(&mut self, exit: u32, block: u32) {
        let body = self.blocks.get(block as usize).body;
        let exits = self.exits.get(exit as usize);
        let from = exits.patch;
        if from == 0 || exits.linked {
            return;
        }
        let owner = exits.block;
        if !self.blocks.get(owner as usize).valid {
            return;
        }
        self.redirect(from, body);
        let head = self.blocks.get(block as usize).incoming;
        let exits = self.exits.get(exit as usize);
        (exits.next, exits.linked) = (head, true);
        self.blocks.get(block as usize).incoming = exit;
    }

    /// Makes `block` reachable by indirect branches of one sort.
    pub fn publish(&mut self, block: u32, via: Via) {
        let way = if via == Via::Ret { 0 } else { 1 };
        let info = *self.blocks.get(block as usize);
        if info.entries[way] == 0 {
            let at = self.area_of(info.body);
            let Some(Some(area)) = self.areas.get_mut(at) else { return };
            let miss = if way == 0 { area.miss_ret } else { area.miss_jump };
            let mut cold = code(area.cold, 256);
            let start = cold.here();
            let patch = emit_entry(&mut cold, &OFFSETS, via, info.pc, info.live_in != 0, miss);
            cold.jmp(info.body);
            area.cold = cold.here();
            let target = self.blocks.get(block as usize);
            target.entries[way] = start;
            target.patches[way] = patch;
        }
        let info = *self.blocks.get(block as usize);
        let index = (info.pc & 0xffff) as usize;
        let head = *self.bucket[way].get(index);
        // Already in the bucket?
        let mut at = head;
        while at != 0 {
            if at - 1 == block {
                return;
            }
            let next = self.blocks.get(at as usize - 1).chain[way];
            at = if next == NONE { 0 } else { next + 1 };
        }
        let onward = match head {
            0 => self.miss(info.body, way),
            head => self.blocks.get(head as usize - 1).entries[way],
        };
        self.blocks.get(block as usize).chain[way] = if head == 0 { NONE } else { head - 1 };
        self.redirect(info.patches[way], onward);
        *self.bucket[way].get(index) = block + 1;
        set_table(way, index, info.entries[way]);
    }

    /// Where an entry goes that is the last of its bucket.
    pub(super) fn miss(&self, body: u64, way: usize) -> u64 {
        let area = self.areas.get(self.area_of(body)).copied().flatten();
        area.map_or(0, |a| if way == 0 { a.miss_ret } else { a.miss_jump })
    }

    /// Patches a branch to go to `to`, through a longer one if need be.
    fn redirect(&mut self, from: u64, to: u64) {
        let to = if reaches(from + 4, to) { to } else { self.far_jump(from, to) };
        patch(from, to);
    }

    /// Takes a block out of every table and unlinks what leads to it. It stays
    /// findable where its bytes can be compared: it may be *dormant* only.
    pub fn invalidate(&mut self, number: u32) {
        let info = *self.blocks.get(number as usize);
        if !info.valid {
            return;
        }
        self.blocks.get(number as usize).valid = false;
        if info.copy == 0 {
            self.forget(info.pc);
        }
        self.blocks.get(number as usize).incoming = NONE;
        let mut exit = info.incoming;
        while exit != NONE {
            let e = *self.exits.get(exit as usize);
            patch(e.patch, e.stub);
            self.exits.get(exit as usize).linked = false;
            exit = e.next;
        }
        for way in 0..2 {
            if info.entries[way] == 0 {
                continue;
            }
            let index = (info.pc & 0xffff) as usize;
            let head = *self.bucket[way].get(index);
            let next = info.chain[way];
            if head == number + 1 {
                *self.bucket[way].get(index) = if next == NONE { 0 } else { next + 1 };
                let onward = match next {
                    NONE => default_entry(way),
                    next => self.blocks.get(next as usize).entries[way],
                };
                set_table(way, index, onward);
                continue;
            }
            let mut at = head;
            while at != 0 {
                let before = *self.blocks.get(at as usize - 1);
                if before.chain[way] == number {
                    let onward = match next {
                        NONE => self.miss(before.body, way),
                        next => self.blocks.get(next as usize).entries[way],
                    };
                    self.redirect(before.patches[way], onward);
                    self.blocks.get(at as usize - 1).chain[way] = next;
                    break;
                }
                at = if before.chain[way] == NONE { 0 } else { before.chain[way] + 1 };
            }
        }
    }
}

/// Redirects a branch: one aligned-enough store of its displacement.
pub(super) fn patch(at: u64, to: u64) {
    let displacement = to.wrapping_sub(at + 4) as u32;
    // SAFETY: emission keeps the four bytes in an aligned quadword, so that
    // threads that run there see the old or the new branch.
    unsafe { (at as *mut u32).write_volatile(displacement) };
}

pub(super) fn default_entry(way: usize) -> u64 {
    address(if way == 0 { entry::rt_miss_ret } else { entry::rt_miss_jump })
}

pub(super) fn set_table(way: usize, index: usize, value: u64) {
    let base = if way == 0 { RET_TABLE } else { JUMP_TABLE };
    // SAFETY: index < 65536; one aligned word.
    unsafe { ((base as *mut u64).add(index)).write_volatile(value) };
}
