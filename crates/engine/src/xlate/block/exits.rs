//! Direct exits of a block: branches that are patched once their target is translated, and the stubs they lead to
//! until then.

use super::count::{Added, count_keeping};
use super::{Builder, Exit, Item, Side, Source};
use crate::xlate::emit::Buffer;
use crate::xlate::entry::Offsets;
use crate::xlate::known::{Filter, LENT};

/// What an exit in the middle of a block does on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// Registers that come back, by the slot that each was lent in: one more than its number; 0: none …
    pub lent: [u8; LENT],
    /// … the correction of the count …
    pub added: Added,
    /// … and the flags alive there.
    pub live: u8,
}

impl Way {
    /// Writes it.
    pub fn emit(self, code: &mut Buffer<'_>, offsets: &Offsets, filter: Option<&Filter>) {
        for (slot, register) in (0..).zip(self.lent) {
            if let (Some(filter), Some(register)) = (filter, register.checked_sub(1)) {
                code.load_gs(filter.slot(slot), register);
            }
        }
        count_keeping(code, offsets, self.added, self.live);
    }
}

impl Builder<'_, '_> {
    /// A conditional branch in the middle of the block, from `here` on: where it is taken the block is left.
    pub(super) fn side_exit(
        &mut self,
        source: &mut dyn Source,
        item: &Item,
        (at, here): (usize, u64),
        counted: bool,
    ) {
        let live = source.live_flags(item.target());
        let stub = self.cold.here();
        let mut added = self.early(at + 1, counted);
        self.is_taken(at, &mut added);
        let way = Way {
            added,
            ..self.way(live)
        };
        let filter = self.filtering();
        way.emit(self.cold, &self.config.offsets, filter.as_ref());
        self.note_left(at + 1);
        let leaves = self.leaves(source, item);
        if leaves {
            self.note_jump_cold(item.target());
        }
        let unlinked_jump = self.cold.here();
        if unlinked_jump == stub {
            self.exit_jcc(item.insn.opcode, item.target());
        } else {
            let side = Side {
                branch: self.hot.jcc(item.insn.opcode, stub),
                cold: stub,
                way,
            };
            // What the exit notes is in the stub only.
            let all = self
                .config
                .noting
                .is_some_and(|noting| noting.filter.is_none());
            let noted = leaves || all;
            let side = Some(side).filter(|_| !noted);
            self.cold_exit(item.target(), side);
        }
        self.record(here, item.insn.len);
    }

    /// What an exit does that adds nothing, with what is lent now.
    pub(super) fn way(&self, live: u8) -> Way {
        let lent = |slot| self.lent(slot).map_or(0, |register| register + 1);
        Way {
            lent: core::array::from_fn(lent),
            live,
            ..Way::default()
        }
    }

    /// In cold code, behind what an exit to `target` does on its way.
    pub(super) fn cold_exit(&mut self, target: u64, side: Option<Side>) {
        self.cold.align_patch(1);
        let unlinked = self.cold.here() + 5;
        let patch = self.cold.jmp(unlinked);
        let stub = self.stub();
        self.exit(target, patch, stub, side);
    }

    /// A stub for an exit to `target`, whose displacement is at `patch`.
    pub(super) fn exit(&mut self, target: u64, patch: u64, stub: u64, side: Option<Side>) {
        if let Some(place) = self.block.exits.get_mut(self.block.exit_count) {
            *place = Exit {
                target,
                patch,
                stub,
                side,
            };
            self.block.exit_count += 1;
        }
    }

    pub(super) fn stub(&mut self) -> u64 {
        let stub = self.cold.here();
        let number = self.first_exit + self.block.exit_count as u32;
        self.cold.set_gs32(self.config.offsets.exit_id, number);
        self.cold.jump_gs(self.config.offsets.vector_exit);
        stub
    }

    pub(super) fn exit_jmp(&mut self, target: u64) {
        let stub = self.stub();
        let patch = self.hot.jmp(stub);
        self.exit(target, patch, stub, None);
    }

    /// As [`Self::exit_jcc`], with something added where the branch is taken.
    pub(super) fn exit_jcc_counting(&mut self, condition: u8, target: u64, added: Added, live: u8) {
        let cold = self.cold.here();
        count_keeping(self.cold, &self.config.offsets, added, live);
        self.hot.jcc(condition, cold);
        self.cold_exit(target, None);
    }

    pub(super) fn exit_jcc(&mut self, condition: u8, target: u64) {
        let stub = self.stub();
        let patch = self.hot.jcc(condition, stub);
        self.exit(target, patch, stub, None);
    }
}
