//! Memory operands: their registers, and registers that are free beside them.
//!
//! Facts: Intel SDM volume 2, section 2.1 (`ModRM`, SIB); volume 1, 3.7.5 (which operands a segment prefix concerns).

use crate::xlate::decode::{Insn, prefix};

/// The registers of a memory operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// The base.
    pub base: Option<u8>,
    /// The index, and the binary logarithm of its factor.
    pub index: Option<(u8, u8)>,
}

impl Operand {
    /// Of an instruction with these bytes; without registers where it has no such operand.
    pub fn of(insn: &Insn, code: &[u8]) -> Self {
        if !insn.has_memory_operand() || insn.is_rip_relative() {
            return Self::default();
        }
        let low = insn.modrm & 7;
        if low != 4 {
            return Self {
                base: Some(low | (insn.rex & 1) << 3),
                index: None,
            };
        }
        let sib = code
            .get(usize::from(insn.modrm_at) + 1)
            .copied()
            .unwrap_or(0);
        let no_base = sib & 7 == 5 && insn.modrm < 0x40;
        let index = (sib >> 3 & 7) | (insn.rex & 2) << 2;
        Self {
            base: (!no_base).then_some((sib & 7) | (insn.rex & 1) << 3),
            index: (index != 4).then_some((index, sib >> 6)),
        }
    }
}

/// `mov` between the accumulator and an address in the instruction.
pub fn is_absolute(insn: &Insn) -> bool {
    insn.space == 0 && matches!(insn.opcode, 0xa0..=0xa3)
}

/// Whether GS takes part in what the instruction does.
pub(super) fn uses_gs(insn: &Insn) -> bool {
    let implied =
        implied_base(insn).is_some() || insn.space == 0 && matches!(insn.opcode, 0x6e | 0x6f);
    let address_only = match insn.space {
        0 => insn.opcode == 0x8d,
        1 => matches!(insn.opcode, 0x18..=0x1f),
        _ => false,
    };
    insn.prefixes & prefix::GS != 0
        && (insn.has_memory_operand() && !address_only || implied || is_absolute(insn))
}

/// The register that an instruction takes an address from without naming it, which a segment prefix concerns: RSI in string
/// instructions, RBX in `xlat`.
pub fn implied_base(insn: &Insn) -> Option<u8> {
    match (insn.space, insn.opcode) {
        (0, 0xa4..=0xa7 | 0xac | 0xad) => Some(6),
        (0, 0xd7) => Some(3),
        _ => None,
    }
}

/// A register among RSI, RDI, RBX and RBP that an instruction does not name.
pub fn far_register(insn: &Insn, code: &[u8]) -> u8 {
    match implied_base(insn) {
        Some(6) => return 3,
        Some(_) => return 6,
        None => {}
    }
    let operand = Operand::of(insn, code);
    let named = [
        Some(insn.reg()),
        Some(insn.vvvv),
        operand.base,
        operand.index.map(|(index, _)| index),
    ];
    [6u8, 7, 3, 5]
        .into_iter()
        .find(|&register| !named.contains(&Some(register)))
        .unwrap_or(3)
}
