//! Saving and restoring the extended state on a machine that is shown fewer components than the CPU has enabled.
//!
//! A program asks `cpuid` how large the state is and gives `xsave` that much memory; the CPU saves what is enabled *and*
//! in the mask EDX:EAX, wherever that lies. So the mask loses what is hidden (no component above bit 31 exists on a CPU
//! that runs programs). Flags stay as they are: `pext` and `pdep` write none, and a machine with a state to save has them.
//!
//! Facts: Intel SDM volume 1, chapter 13 (components, standard form), volume 2 (`XSAVE`, `XRSTOR`, `PEXT`, `PDEP`).

use super::{Builder, Item, record};
use crate::xlate::decode::prefix;
use crate::xlate::emit::{RAX, SCRATCH};

impl Builder<'_, '_> {
    /// In front of an instruction: vectors are in use where it saves the state. What is not in use (`XINUSE`) it leaves out, and
    /// whether that is so is not the same in every run: the runtime uses vectors, and a hypervisor or kernel that saves and
    /// restores them at any time may leave them in use.
    pub(super) fn use_vectors(&mut self, item: &Item) {
        let insn = &item.insn;
        let which = insn.modrm >> 3 & 7;
        let saves = match insn.opcode {
            0xae => matches!(which, 4 | 6),
            0xc7 => which == 4,
            _ => false,
        };
        if insn.space == 1 && saves && insn.modrm < 0xc0 {
            let here = self.hot.here();
            self.hot.put(&[0x66, 0x0f, 0xeb, 0xc0]); // por xmm0, xmm0
            self.record(here, 0);
        }
    }

    /// Copies the instruction with its mask narrowed. The record has [`record::FAR`]: RAX is in the second spill slot, RCX in
    /// the first.
    pub(super) fn xsave(&mut self, item: &Item, start: u64, mark: u8) {
        let offsets = self.config.offsets;
        let insn = &item.insn;
        if insn.prefixes & (prefix::FS | prefix::GS) != 0 {
            // Nobody saves it relative to FS or GS; as it is.
            self.copy(item, start, mark);
            return;
        }
        self.hot.store_gs(offsets.spill, SCRATCH);
        self.hot.store_gs(offsets.spill_2, RAX);
        if insn.is_rip_relative() {
            self.hot.mov_imm(SCRATCH, item.operand());
        } else {
            if insn.prefixes & prefix::ADDRSIZE != 0 {
                self.hot.put(&[0x67]);
            }
            // lea rcx, [the operand]
            self.hot
                .put(&[0x48 | insn.rex & 3, 0x8d, insn.modrm & 0xc7 | 0x08]);
            let rest = item.code().get(usize::from(insn.modrm_at) + 1..);
            self.hot.put(rest.unwrap_or(&[]));
        }
        let literal = self.cold.here();
        self.cold.put(&self.config.components.to_le_bytes());
        // pext eax, eax, [literal]; pdep eax, eax, [literal]
        for pp in [0x7a, 0x7b] {
            let end = self.hot.here() + 9;
            self.hot.put(&[0xc4, 0xe2, pp, 0xf5, 0x05]);
            self.hot
                .put(&(literal.wrapping_sub(end) as u32).to_le_bytes());
        }
        // The same operation on [rcx].
        self.hot.put(&[
            0x40 | insn.rex & 8,
            0x0f,
            insn.opcode,
            insn.modrm & 0x38 | SCRATCH,
        ]);
        self.hot.load_gs(offsets.spill_2, RAX);
        self.hot.load_gs(offsets.spill, SCRATCH);
        self.note_behind(item);
        self.record(start, mark | record::FAR | insn.len);
    }
}
