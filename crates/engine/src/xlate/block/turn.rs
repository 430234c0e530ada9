//! Threads in turn: a thread's fuel goes down by one at every backward branch, and faster at `pause`; when it is used
//! up, the runtime lets another thread execute. So loops that wait for another thread end.
//!
//! It is looked at where the arithmetic flags are dead, in front of a block that ends by such a branch: all but a few
//! loops compare or count. In the others (`jmp .`, carries of long numbers) the flags are kept. Interpreters jump from
//! one operation to the next indirectly: that counts, too, where flags are dead.

use super::count::{Added, count_keeping};
use super::{Builder, Item};
use crate::xlate::decode::{Kind, flag};
use crate::xlate::emit::RAX;

/// What a thread may execute at a time on average, in backward branches.
pub const FUEL: i64 = 100_000;
/// `pause` instructions that are as much.
const PAUSES: i64 = 64;

impl Builder<'_, '_> {
    /// The block's end may close a loop: a branch backwards, or (where flags are dead) an indirect one.
    fn may_loop(&self, flags_dead: bool) -> bool {
        let last = self.item(self.count.wrapping_sub(1));
        self.config.in_turn
            && last.is_some_and(|last| match last.insn.kind {
                Kind::Jcc | Kind::Jmp | Kind::Loop => last.insn.rel < 0,
                Kind::JmpInd => flags_dead,
                _ => false,
            })
    }

    /// Looks at the fuel in front of instruction `at`, where flags are dead, of a block that may be a loop's last.
    pub(super) fn fuel(&mut self, at: usize, item: &Item) {
        if self.may_loop(true) {
            // The block may be left here.
            self.give_back();
            let here = self.hot.here();
            self.look(at, item, 0);
            self.record(here, 0);
        }
    }

    /// The same in front of a block in which flags are dead nowhere.
    pub(super) fn fuel_keeping_flags(&mut self, item: &Item) {
        if !self.may_loop(false) {
            return;
        }
        let spill = self.config.offsets.spill;
        let here = self.hot.here();
        self.hot.store_gs(spill, RAX);
        self.hot.flags_to_rax();
        self.look(0, item, flag::ALL);
        self.hot.flags_from_rax();
        self.hot.load_gs(spill, RAX);
        self.record(here, 0);
    }

    /// One less; none left: exits in front of instruction `at`. Where flags are alive they are in RAX.
    fn look(&mut self, at: usize, item: &Item, live: u8) {
        let offsets = self.config.offsets;
        self.hot.add_gs(offsets.fuel, -1);
        let stub = self.cold.here();
        if live != 0 {
            self.cold.flags_from_rax();
            self.cold.load_gs(offsets.spill, RAX);
        }
        // Also in front of the first instruction: the block may have taken over what an exit to it corrects.
        if self.config.counter.is_none() || at > 0 {
            let added = self.early(at, false);
            count_keeping(self.cold, &offsets, added, live);
        }
        self.note_left(at);
        let number = self.first_exit + self.block.exit_count as u32;
        self.cold.set_gs32(offsets.exit_id, number);
        self.cold.jump_gs(offsets.vector_turn);
        self.hot.jcc(8, stub); // js
        self.exit(item.pc, 0, 0, None);
    }

    /// In front of a `pause`, which says that the program waits for somebody.
    pub(super) fn pause(&mut self, item: &Item) {
        if self.config.in_turn && item.code() == [0xf3, 0x90] {
            let offsets = self.config.offsets;
            let less = Added {
                offset: offsets.fuel,
                value: -(FUEL / PAUSES) as i16,
                ..Added::default()
            };
            count_keeping(self.hot, &offsets, less, flag::ALL);
        }
    }
}
