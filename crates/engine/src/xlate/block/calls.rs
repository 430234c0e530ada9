//! Calls, returns and jumps from function to function: translated code notes them in the tree of calls (`calls`) by
//! routines of the runtime's that keep every register and flag.
//!
//! They stand where the branch's own effect on memory is over and cannot fail any more, and where the block has been
//! counted: what was executed until then belongs to the caller, the branch included.

use super::{Builder, Item, Source};
use crate::calls::EVENTS;
use crate::xlate::decode::Kind;
use crate::xlate::emit::{Buffer, SCRATCH};
use crate::xlate::entry::Offsets;
use crate::xlate::facts::{Facts, TAKEN, adds};

/// Offsets of the context's fields for the tree.
#[derive(Clone, Copy, Debug)]
pub struct CallOffsets {
    /// Place of the scratch register meanwhile.
    pub spill: u32,
    /// Where the routine goes back to.
    pub resume: u32,
    /// Routine for calls, after the push.
    pub vector_call: u32,
    /// Routine for returns, before the pop.
    pub vector_return: u32,
    /// Routine for jumps.
    pub vector_jump: u32,
    /// What is counted beside instructions ([`crate::calls::Tree::events`]).
    pub events: [u8; EVENTS],
}

impl CallOffsets {
    /// What these instructions add to the events beside instructions.
    pub fn events_of(&self, facts: &[Facts]) -> [i16; EVENTS] {
        // (A block adds 4,096 bytes at most.)
        self.events.map(|number| match number {
            0 => 0,
            _ => facts.iter().map(|facts| adds(number, *facts) as i16).sum(),
        })
    }

    /// What a conditional branch that is taken adds to them.
    pub(super) fn taken(&self) -> [i16; EVENTS] {
        self.events.map(|number| i16::from(number == TAKEN))
    }
}

/// Goes through a routine. `target`: where the branch goes, if the context does not have it yet.
fn through(
    code: &mut Buffer<'_>,
    offsets: &Offsets,
    calls: &CallOffsets,
    vector: u32,
    target: Option<u64>,
) {
    code.store_gs(calls.spill, SCRATCH);
    if let Some(target) = target {
        code.mov_imm(SCRATCH, target);
        code.store_gs(offsets.target, SCRATCH);
    }
    resume_behind(code, calls, vector);
}

fn resume_behind(code: &mut Buffer<'_>, calls: &CallOffsets, vector: u32) {
    code.put(&[0x48, 0x8d, 0x0d]); // lea rcx, [rip+…]
    let displacement = code.here();
    code.put(&[0; 4]);
    code.store_gs(calls.resume, SCRATCH);
    code.jump_gs(vector);
    let distance = code.here().wrapping_sub(displacement + 4);
    code.patch32(displacement, distance as u32);
}

impl Builder<'_, '_> {
    /// A call to `target`, or to what the context says; the return address has been pushed.
    pub(super) fn note_call(&mut self, target: Option<u64>) {
        if let Some(calls) = self.config.calls {
            let offsets = &self.config.offsets;
            through(self.hot, offsets, &calls, calls.vector_call, target);
        }
    }

    /// A return, in front of it. A stack that cannot be read faults here, as it would there.
    pub(super) fn note_return(&mut self) {
        if let Some(calls) = self.config.calls {
            self.hot.put(&[0x48, 0x8b, 0x0c, 0x24]); // mov rcx, [rsp]
            self.hot.store_gs(self.config.offsets.target, SCRATCH);
            resume_behind(self.hot, &calls, calls.vector_return);
        }
    }

    /// A jump that may leave its function.
    pub(super) fn note_jump(&mut self, target: Option<u64>) {
        if let Some(calls) = self.config.calls {
            let offsets = &self.config.offsets;
            through(self.hot, offsets, &calls, calls.vector_jump, target);
        }
    }

    /// The same in the cold code.
    pub(super) fn note_jump_cold(&mut self, target: u64) {
        if let Some(calls) = self.config.calls {
            let offsets = &self.config.offsets;
            through(self.cold, offsets, &calls, calls.vector_jump, Some(target));
        }
    }

    /// Whether a direct jump is a tail call.
    pub(super) fn leaves(&self, source: &mut dyn Source, item: &Item) -> bool {
        self.config.calls.is_some()
            && matches!(item.insn.kind, Kind::Jmp | Kind::Jcc)
            && source.is_tail_call(item.pc, item.target())
    }

    /// A conditional branch at the end of a block.
    pub(super) fn jcc_at_end(&mut self, source: &mut dyn Source, item: &Item) {
        if self.leaves(source, item) {
            let live = source.live_flags(item.target());
            self.jcc_leaving(item, live);
        } else if let Some(taken) = self.taken_at_end() {
            let live = source.live_flags(item.target());
            self.exit_jcc_counting(item.insn.opcode, item.target(), taken, live);
        } else {
            self.exit_jcc(item.insn.opcode, item.target());
        }
    }

    /// A conditional tail call at the end of a block.
    pub(super) fn jcc_leaving(&mut self, item: &Item, live: u8) {
        let cold = self.cold.here();
        self.count_taken(live);
        self.note_jump_cold(item.target());
        self.cold.align_patch(1);
        let unlinked = self.cold.here() + 5;
        let patch = self.cold.jmp(unlinked);
        let stub = self.stub();
        self.hot.jcc(item.insn.opcode, cold);
        self.exit(item.target(), patch, stub, None);
    }
}
