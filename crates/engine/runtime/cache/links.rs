//! Direct links between blocks, and the indirect-branch tables' buckets: made,
//! published and taken away again.

use super::areas::{code, default_entry};
use super::{Cache, Entry, OFFSETS};
use crate::block::{NONE, Near};
use crate::layout::{TABLE_BYTES, option};
use crate::own_memory::{self, is_runtime};
use crate::slots;
use crate::xlate::block::Side;
use crate::xlate::emit::reaches;
use crate::xlate::entry::{EntryCode, NUMBER, Via, Ways, emit_entry};
use crate::xlate::known::LENT;

impl Cache {
    /// Links an exit to a block, if a displacement reaches.
    pub fn link(&mut self, exit: u32, block: u32) {
        let to = self.blocks.get(block as usize);
        if to.compared {
            return;
        }
        let (body, enter, pending) = (to.body, to.at(to.enter), to.pending);
        let exits = self.exits.get(exit as usize);
        let from = exits.patch;
        if from == 0 || exits.to != NONE {
            return;
        }
        let (owner, side) = (exits.block, exits.side());
        if !self.blocks.get(owner as usize).valid {
            return;
        }
        if let Some(side) = side
            && pending != 0
            && pending == i32::from(side.way.added.value)
            && side.way.lent == [0; LENT]
            && reaches(side.branch + 4, body)
        {
            self.link_directly(exit, block, body);
            return;
        }
        if !reaches(from + 4, enter) && !self.has_room(from) {
            return; // the branch comes to the runtime again
        }
        self.redirect(from, enter);
        let head = self.blocks.get(block as usize).incoming;
        let exits = self.exits.get(exit as usize);
        (exits.next, exits.to) = (head, block);
        self.blocks.get(block as usize).incoming = exit;
    }

    /// Whether a block that was translated for one exit, with what that had pending, had better be translated anew:
    /// a loop, returns, or the cases of a switch come to it. Then it is withdrawn.
    pub fn is_in_the_way(&mut self, block: u32, via: Option<Via>, exit: u32) -> bool {
        let (pc, pending) = {
            let block = self.blocks.get(block as usize);
            (block.pc, block.pending)
        };
        if pending == 0 {
            return false;
        }
        let backwards = exit != NONE && {
            let owner = self.exits.get(exit as usize).block;
            self.blocks.get(owner as usize).pc >= pc
        };
        if via.is_none() && !backwards {
            return false;
        }
        self.invalidate(block);
        self.forget_number(pc, block);
        true
    }

    /// Whether there is room for a detour next to the code at `host`.
    fn has_room(&mut self, host: u64) -> bool {
        let section = self.section_of(host);
        section.is_some_and(|section| self.sections.get(section).has_room())
    }

    /// The correcting branch of an exit that can still be linked.
    pub(super) fn side_of(&mut self, exit: u32) -> Option<Side> {
        if exit == NONE {
            return None;
        }
        let exit = *self.exits.get(exit as usize);
        let side = exit.side()?;
        (exit.to == NONE && self.blocks.get(exit.block as usize).valid).then_some(side)
    }

    /// Sends an exit back to the runtime.
    pub(super) fn unlink(&mut self, exit: u32) {
        let info = self.exits.get(exit as usize);
        match info.side() {
            Some(side) if info.direct => patch(side.branch, side.cold),
            _ => patch(info.patch, info.stub()),
        }
        (info.to, info.direct) = (NONE, false);
    }

    /// Links an exit with a correction of its own to a place of `block` that needs none, or has it in front.
    pub(super) fn link_directly(&mut self, exit: u32, block: u32, at: u64) {
        let head = self.blocks.get(block as usize).incoming;
        let info = self.exits.get(exit as usize);
        let Some(side) = info.side() else { return };
        (info.next, info.to, info.direct) = (head, block, true);
        self.blocks.get(block as usize).incoming = exit;
        patch(side.branch, at);
    }

    pub(super) fn add_entry(&mut self, block: u32, via: Via, code: EntryCode) -> u32 {
        let next = self.blocks.get(block as usize).first_entry;
        let entry = Entry::new(block, via.number(), code.at, code.patch, next);
        let number = if self.free_entry == NONE {
            self.entries.push(entry) as u32
        } else {
            let number = self.free_entry;
            let place = self.entries.get(number as usize);
            self.free_entry = place.next;
            *place = entry;
            number
        };
        self.blocks.get(block as usize).first_entry = number;
        // SAFETY: in front of the entry's code; whoever emitted it left the room (`NUMBER`).
        unsafe { ((code.at - NUMBER.len() as u64) as *mut u32).write_unaligned(number) };
        number
    }

    /// Makes `block` reachable by indirect branches of one sort.
    pub fn publish(&mut self, block: u32, via: Via) {
        let way = via.number();
        let info = *self.blocks.get(block as usize);
        if info.compared {
            return;
        }
        let mut number = info.first_entry;
        while number != NONE && usize::from(self.entries.get(number as usize).way) != way {
            number = self.entries.get(number as usize).next;
        }
        if number == NONE {
            let Some(section) = self.section_of(info.body) else {
                return;
            };
            let miss = self.miss(info.body, way);
            if self.entries.room() == 0 && self.free_entry == NONE {
                return; // the branch comes to the runtime again
            }
            let section = self.sections.get(section);
            if !section.has_room() {
                return;
            }
            let mut cold = code(section.cold, 256);
            let entry = emit_entry(&mut cold, &OFFSETS, ways(), via, info.pc, miss);
            cold.jmp(info.at(info.enter));
            section.cold = cold.here();
            number = self.add_entry(block, via, entry);
        }
        let entry = *self.entries.get(number as usize);
        let index = (info.pc & 0xffff) as usize;
        if entry.published || !self.seldom.is_worth_it(way, index) {
            return;
        }
        let chain = first_entry(way, index);
        let onward = match chain {
            NONE => self.miss(entry.at, way),
            head => self.entries.get(head as usize).at,
        };
        self.redirect(entry.patch(), onward);
        let info = self.entries.get(number as usize);
        (info.chain, info.published) = (chain, true);
        set_table(way, index, entry.at);
    }

    /// Where an entry goes that is the last of its bucket.
    pub(super) fn miss(&self, host: u64, way: usize) -> u64 {
        let area = self.area_of(host).and_then(|at| self.areas.slice().get(at));
        area.map_or(0, |area| area.miss(way))
    }

    /// Patches a branch to go to `to`, through a longer one if need be.
    fn redirect(&mut self, from: u64, to: u64) {
        let to = if reaches(from + 4, to) {
            to
        } else {
            self.far_jump(from, to)
        };
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
        if info.copy == Near::NONE {
            self.forget(info.pc);
        }
        self.blocks.get(number as usize).incoming = NONE;
        let mut exit = info.incoming;
        while exit != NONE {
            let e = *self.exits.get(exit as usize);
            self.unlink(exit);
            exit = e.next;
        }
        let mut number = info.first_entry;
        while number != NONE {
            self.withdraw(number, (info.pc & 0xffff) as usize);
            number = self.entries.get(number as usize).next;
        }
    }

    /// Takes the exits of withdrawn blocks (see `Block::gone`) out of the list that an exit is in, and leads them
    /// to the runtime.
    pub(super) fn strike_exit(&mut self, exit: u32) {
        let to = self.exits.get(exit as usize).to;
        if to == NONE {
            return;
        }
        let mut at = core::mem::replace(&mut self.blocks.get(to as usize).incoming, NONE);
        let mut last = NONE;
        while at != NONE {
            let info = *self.exits.get(at as usize);
            if self.blocks.get(info.block as usize).gone {
                self.unlink(at);
                self.exits.get(at as usize).next = NONE;
            } else {
                match last {
                    NONE => self.blocks.get(to as usize).incoming = at,
                    last => self.exits.get(last as usize).next = at,
                }
                last = at;
            }
            at = info.next;
        }
        if last != NONE {
            self.exits.get(last as usize).next = NONE;
        }
    }

    /// A withdrawn block's entries can be used again.
    pub(super) fn free_entries(&mut self, mut number: u32) {
        while number != NONE {
            let entry = self.entries.get(number as usize);
            let next = core::mem::replace(&mut entry.next, self.free_entry);
            self.free_entry = number;
            number = next;
        }
    }

    /// Takes an entry out of its bucket.
    fn withdraw(&mut self, number: u32, index: usize) {
        let entry = *self.entries.get(number as usize);
        let way = usize::from(entry.way);
        if !entry.published {
            return;
        }
        self.entries.get(number as usize).published = false;
        let head = first_entry(way, index);
        let next = entry.chain;
        if head == number {
            let onward = match next {
                NONE => default_entry(way),
                next => self.entries.get(next as usize).at,
            };
            set_table(way, index, onward);
            return;
        }
        let mut at = head;
        while at != NONE {
            let before = *self.entries.get(at as usize);
            if before.chain == number {
                let onward = match next {
                    NONE => self.miss(before.at, way),
                    next => self.entries.get(next as usize).at,
                };
                self.redirect(before.patch(), onward);
                self.entries.get(at as usize).chain = next;
                return;
            }
            at = before.chain;
        }
    }
}

/// What entries may use.
pub(super) fn ways() -> Ways {
    let options = slots::header().options;
    Ways {
        rotates: options & option::ROTATES != 0,
        loops: options & option::LOOPS != 0,
    }
}

/// Redirects a branch. A jump to what follows becomes a `nop` (a branch that is taken costs some cycles where others are
/// near), and a jump again. One store each: of the displacement, or of the quadword that all of the jump lies in.
pub(super) fn patch(at: u64, to: u64) {
    const JMP: u8 = 0xe9;
    /// The first byte of `nop dword [rax+rax+0]`.
    const NOP: u8 = 0x0f;
    let displacement = to.wrapping_sub(at + 4) as u32;
    let (quadword, place) = ((at - 1) & !7, ((at - 1) & 7) as usize);
    // SAFETY: emission keeps the four bytes in an aligned quadword, so that threads that run there see the old or the
    // new branch. (A write that changes nothing would cost a copy of a page that came from disk.)
    unsafe {
        let mut bytes = (quadword as *const u64).read_volatile().to_le_bytes();
        if let Some([code, rest @ ..]) = bytes.get_mut(place..place + 5)
            && (*code == NOP || *code == JMP && displacement == 0)
        {
            let (first, others) = match displacement {
                0 => (NOP, [0x1f, 0x44, 0, 0]),
                _ => (JMP, displacement.to_le_bytes()),
            };
            *code = first;
            rest.copy_from_slice(&others);
            (quadword as *mut u64).write_volatile(u64::from_le_bytes(bytes));
        } else if (at as *const u32).read_volatile() != displacement {
            (at as *mut u32).write_volatile(displacement);
        }
    }
}

/// The entry that a place of a table leads to, if it leads to one.
fn first_entry(way: usize, index: usize) -> u32 {
    let base = own_memory::low() + way as u64 * TABLE_BYTES;
    // SAFETY: index < 65536, the table is mapped; only the lock's holder writes there.
    let at = unsafe { *(base as *const u64).add(index) };
    if is_runtime(at) {
        return NONE;
    }
    // SAFETY: what is not the runtime's is an entry, with its number in front of it.
    unsafe { ((at - NUMBER.len() as u64) as *const u32).read_unaligned() }
}

pub(super) fn set_table(way: usize, index: usize, value: u64) {
    let base = own_memory::low() + way as u64 * TABLE_BYTES;
    // SAFETY: index < 65536, the table is mapped; one aligned word.
    unsafe { ((base as *mut u64).add(index)).write_volatile(value) };
}
