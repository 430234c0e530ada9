//! Copying one instruction, with a RIP-relative operand adjusted to its new
//! place, or reached through a spilled register where it is too far.
//!
//! Facts: Intel SDM volume 2, sections 2.1 to 2.7 (`ModRM`, REX, VEX, EVEX); AMD
//! APM volume 3 (XOP).

use super::operand::{far_register, uses_gs};
use super::{Builder, Item, record};
use crate::xlate::decode::{Insn, MAX_LEN, prefix};
use crate::xlate::emit::reaches;

impl Builder<'_, '_> {
    /// Copies one instruction, with a RIP-relative operand adjusted. Its record
    /// starts at `start` and has the bits of `mark`.
    pub(super) fn copy(&mut self, item: &Item, start: u64, mark: u8) {
        let here = self.hot.here();
        let mut mark = mark | item.insn.len;
        if uses_gs(&item.insn) {
            mark |= record::FAR;
            self.copy_gs(item);
        } else if item.insn.is_rip_relative() {
            let operand = item.operand();
            let end = here.wrapping_add(u64::from(item.insn.len));
            let near = !item.insn.has(prefix::ADDRSIZE) && reaches(end, operand);
            if near && !self.config.force_far {
                let mut bytes = item.bytes;
                let at = usize::from(item.insn.modrm_at) + 1;
                let disp = (operand.wrapping_sub(end) as u32).to_le_bytes();
                if let Some(place) = bytes.get_mut(at..at + 4) {
                    place.copy_from_slice(&disp);
                }
                self.hot
                    .put(bytes.get(..usize::from(item.insn.len)).unwrap_or(&[]));
            } else {
                mark |= record::FAR;
                self.copy_far(item, operand);
            }
        } else {
            self.hot.put(item.code());
        }
        // One record with the instruction: behind it, what was repeated is known to both.
        self.note_behind(item);
        self.record(start, mark);
    }

    /// `op [rip+x]` with the data out of reach: `op [rsi]` with RSI spilled (or
    /// RDI or RBX where the instruction itself names RSI).
    fn copy_far(&mut self, item: &Item, operand: u64) {
        let offsets = self.config.offsets;
        let code = item.code();
        let reg = far_register(&item.insn, code);
        self.hot.store_gs(offsets.spill_2, reg);
        self.hot.mov_imm(reg, operand);
        let modrm_at = usize::from(item.insn.modrm_at);
        self.put_head(&item.insn, code, 0);
        self.hot.put(&[item.insn.modrm & 0x38 | reg]);
        self.hot.put(code.get(modrm_at + 5..).unwrap_or(&[]));
        self.hot.load_gs(offsets.spill_2, reg);
    }

    /// What is in front of an instruction's `ModRM` byte, for a base among the low eight registers. `taken_out` bytes
    /// of prefixes are not in `code` any more.
    pub(super) fn put_head(&mut self, insn: &Insn, code: &[u8], taken_out: usize) {
        let modrm_at = usize::from(insn.modrm_at) - taken_out;
        let opcode_at = usize::from(insn.opcode_at) - taken_out;
        let mut head = [0u8; MAX_LEN];
        let length = modrm_at.min(MAX_LEN - 1);
        for (to, from) in head.iter_mut().zip(code.iter().take(length)) {
            *to = *from;
        }
        // The base is one of the low eight: clear REX.B (inverted in VEX, EVEX).
        match insn.space {
            0..=3 if insn.rex & 1 != 0 => {
                let at = match insn.space {
                    0 => 1,
                    1 => 2,
                    _ => 3,
                };
                if let Some(rex) = head.get_mut(opcode_at.wrapping_sub(at)) {
                    *rex &= !1;
                }
            }
            4..=14 if insn.rex & 1 != 0 => {
                // Three-byte VEX, XOP or EVEX: B̄ is bit 5 of the first payload.
                let back = if (7..=11).contains(&insn.space) { 3 } else { 2 };
                if let Some(p0) = head.get_mut(opcode_at.wrapping_sub(back)) {
                    *p0 |= 0x20;
                }
            }
            _ => {}
        }
        self.hot.put(head.get(..length).unwrap_or(&[]));
    }
}
