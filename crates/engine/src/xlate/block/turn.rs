//! Threads in turn: a thread's fuel goes down by one at every backward branch, and faster at `pause`; when it is used
//! up, the runtime lets another thread execute. So loops that wait for another thread end.
//!
//! It is looked at where the arithmetic flags are dead, in front of a block that ends by such a branch: all but a few
//! loops compare or count.

use super::count::{Added, count_keeping};
use super::{Builder, Item};
use crate::xlate::decode::{Kind, flag};

/// What a thread may execute at a time, in backward branches.
pub const FUEL: i64 = 100_000;
/// `pause` instructions that are as much.
const PAUSES: i64 = 64;

impl Builder<'_, '_> {
    /// The block branches backwards at its end: looks at the fuel in front of instruction `at`, where flags are dead.
    pub(super) fn fuel(&mut self, at: usize, item: &Item) {
        let last = self.item(self.count.wrapping_sub(1));
        let backward = last.is_some_and(|last| {
            matches!(last.insn.kind, Kind::Jcc | Kind::Jmp | Kind::Loop) && last.insn.rel < 0
        });
        if !self.config.in_turn || !backward {
            return;
        }
        let offsets = self.config.offsets;
        let here = self.hot.here();
        self.hot.add_gs(offsets.fuel, -1);
        let stub = self.cold.here();
        // Also in front of the first instruction: the block may have taken over what an exit to it corrects.
        if self.config.counter.is_none() || at > 0 {
            let added = self.early(at, false);
            count_keeping(self.cold, &offsets, added, 0);
        }
        self.note_left(at);
        let number = self.first_exit + self.block.exit_count as u32;
        self.cold.set_gs32(offsets.exit_id, number);
        self.cold.jump_gs(offsets.vector_turn);
        self.hot.jcc(8, stub); // js
        self.exit(item.pc, 0, 0, None);
        self.record(here, 0);
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
