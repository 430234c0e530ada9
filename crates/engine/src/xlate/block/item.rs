//! An instruction of a block, at its place in the program.

use crate::xlate::decode::{Insn, MAX_LEN, prefix};

#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) insn: Insn,
    pub(super) bytes: [u8; MAX_LEN],
    pub(super) pc: u64,
    /// Bytes in the program: the instruction's own, but for client requests.
    pub(super) len: u8,
}

impl Item {
    pub(super) fn new(insn: Insn, bytes: [u8; MAX_LEN], pc: u64) -> Self {
        Self {
            insn,
            bytes,
            pc,
            len: insn.len,
        }
    }
    pub(super) fn next(&self) -> u64 {
        self.pc.wrapping_add(u64::from(self.len))
    }
    pub(super) fn target(&self) -> u64 {
        self.next().wrapping_add_signed(i64::from(self.insn.rel))
    }
    pub(super) fn code(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.insn.len)).unwrap_or(&[])
    }
    pub(super) fn operand(&self) -> u64 {
        let at = usize::from(self.insn.modrm_at) + 1;
        let mut disp = [0u8; 4];
        for (to, from) in disp.iter_mut().zip(self.bytes.iter().skip(at)) {
            *to = *from;
        }
        let address = self
            .next()
            .wrapping_add_signed(i64::from(i32::from_le_bytes(disp)));
        match self.insn.has(prefix::ADDRSIZE) {
            true => address & 0xffff_ffff,
            false => address,
        }
    }
}

/// Bytes that are no instruction in 64-bit mode, for sure: they fault.
pub(super) fn surely_invalid(byte: u8) -> bool {
    matches!(
        byte,
        0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f | 0x27 | 0x2f | 0x37 | 0x3f
    ) || matches!(
        byte,
        0x60 | 0x61 | 0x82 | 0x9a | 0xce | 0xd4 | 0xd5 | 0xd6 | 0xea
    )
}
