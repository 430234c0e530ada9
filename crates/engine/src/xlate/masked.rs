//! References whose elements a mask of AVX-512 chooses, of common instructions: moves, comparisons, some arithmetic.
//!
//! Facts: Intel SDM volume 2 (each instruction's page), 2.8 (masked elements are not accessed); the tests compare every
//! encoding with iced-x86. `core` only.

use super::insn::{Insn, prefix};
use super::operand_size::evex_payload;
use super::simple::{At, Does, Simple};

/// The elements of an operand that a mask has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masked {
    /// All of the operand.
    pub all: Simple,
    /// Binary logarithm of the bytes of an element.
    pub shift: u8,
    /// The mask's register, K1 to K7.
    pub mask: u8,
}

/// The reference of an instruction, if a mask chooses its elements, which are bits of the mask from the lowest on.
pub fn masked(insn: &Insn, code: &[u8], reads_fs: bool) -> Option<Masked> {
    if insn.has(prefix::ADDRSIZE | prefix::GS) || insn.has(prefix::FS) && !reads_fs {
        return None;
    }
    if !matches!(insn.space, 7..=9) || !insn.has_memory_operand() {
        return None;
    }
    let payload = evex_payload(insn, code)?;
    let mask = payload.mask;
    if mask == 0 || payload.broadcast {
        return None;
    }
    let wide = u8::from(insn.rex & 8 != 0);
    let four_or_eight = 2 + wide;
    let shift = match (insn.space, insn.opcode, payload.pp) {
        // vmovdqa32 and 64, vmovdqu32 and 64, vmovdqu8 and 16
        (7, 0x6f | 0x7f, 1 | 2) => four_or_eight,
        (7, 0x6f | 0x7f, 3) => wide,
        // vmovups, vmovaps; vmovupd, vmovapd
        (7, 0x10 | 0x11 | 0x28 | 0x29, 0) => 2,
        (7, 0x10 | 0x11 | 0x28 | 0x29, 1) => 3,
        // vpcmpgt, vpcmpeq
        (7, 0x64 | 0x74, 1) => 0,
        (7, 0x65 | 0x75, 1) => 1,
        (7, 0x66 | 0x76, 1) => 2,
        // vpminub; vpand, vpandn, vpor, vpxor
        (7, 0xda, 1) => 0,
        (7, 0xdb | 0xdf | 0xeb | 0xef, 1) => four_or_eight,
        // vptestm, vptestnm
        (8, 0x26, 1 | 2) => wide,
        (8, 0x27, 1 | 2) => four_or_eight,
        // vpcmp, vpcmpu; vpternlog
        (9, 0x3e | 0x3f, 1) => wide,
        (9, 0x1e | 0x1f | 0x25, 1) => four_or_eight,
        _ => return None,
    };
    let does = match (insn.is_load(), insn.is_store()) {
        (true, false) => Does::Load,
        (false, true) => Does::Store,
        _ => return None,
    };
    let all = Simple {
        at: At::Operand,
        size: payload.bytes,
        does,
        stack: false,
    };
    Some(Masked { all, shift, mask })
}
