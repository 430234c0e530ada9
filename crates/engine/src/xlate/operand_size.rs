//! How long the memory operand of an instruction is, where the opcode says it: of common instructions.
//!
//! Facts: Intel SDM volume 2 (each instruction's page); the tests compare every encoding with iced-x86. `core` only.

use super::insn::{Insn, prefix};

/// Bytes of the memory operand in `ModRM`: a power of two up to 32, and all of them are referenced whatever a mask or
/// another register says. `None`: not known here.
pub fn operand_size(insn: &Insn, code: &[u8]) -> Option<u8> {
    if !insn.has_memory_operand() || !insn.is_load() && !insn.is_store() {
        return None;
    }
    match insn.space {
        0 => one_byte(insn),
        1 => two_bytes(insn),
        2 => three_bytes_38(insn),
        3 => three_bytes_3a(insn),
        4 => vex(insn, code),
        _ => None,
    }
}

/// As REX.W and the prefix 66 say.
fn by_width(insn: &Insn) -> u8 {
    match (insn.rex & 8 != 0, insn.has(prefix::OPSIZE)) {
        (true, _) => 8,
        (false, true) => 2,
        (false, false) => 4,
    }
}

/// Four bytes, or eight with REX.W.
fn four_or_eight(insn: &Insn) -> u8 {
    if insn.rex & 8 != 0 { 8 } else { 4 }
}

fn one_byte(insn: &Insn) -> Option<u8> {
    let which = insn.modrm >> 3 & 7;
    // (Repeated without effect, or hints of transactions: 66, F2 and F3 mean nothing else here.)
    Some(match insn.opcode {
        opcode @ 0x00..=0x3f if opcode & 7 < 4 => {
            if opcode & 1 == 0 {
                1
            } else {
                by_width(insn)
            }
        }
        0x63 if !insn.has(prefix::OPSIZE) => 4,
        0x69 | 0x6b | 0x81 | 0x83 | 0x85 | 0x87 | 0x89 | 0x8b | 0xc1 | 0xd1 | 0xd3 | 0xf7 => {
            by_width(insn)
        }
        0x80 | 0x84 | 0x86 | 0x88 | 0x8a | 0xc0 | 0xd0 | 0xd2 | 0xf6 => 1,
        0xc6 if which == 0 => 1,
        0xc7 if which == 0 => by_width(insn),
        0xd8 => 4,
        0xd9 => match which {
            0 | 2 | 3 => 4,
            5 | 7 => 2,
            _ => return None,
        },
        0xda => 4,
        0xdb if which < 4 => 4,
        0xdc => 8,
        0xdd => match which {
            0..=3 => 8,
            7 => 2,
            _ => return None,
        },
        0xde => 2,
        0xdf => match which {
            0..=3 => 2,
            5 | 7 => 8,
            _ => return None,
        },
        0xfe if which < 2 => 1,
        0xff if which < 2 => by_width(insn),
        // Near calls and jumps; `push`.
        0xff if matches!(which, 2 | 4 | 6) && !insn.has(prefix::OPSIZE) => 8,
        _ => return None,
    })
}

/// Prefixes that choose between opcodes.
#[derive(PartialEq, Eq)]
enum Chosen {
    None,
    P66,
    F3,
    F2,
}

fn chosen(insn: &Insn) -> Chosen {
    if insn.has(prefix::REPNE) {
        Chosen::F2
    } else if insn.has(prefix::REP) {
        Chosen::F3
    } else if insn.has(prefix::OPSIZE) {
        Chosen::P66
    } else {
        Chosen::None
    }
}

fn two_bytes(insn: &Insn) -> Option<u8> {
    use Chosen::{F2, F3, P66};
    let by = chosen(insn);
    let none = Chosen::None;
    let packed_or_scalar = match by {
        F3 => 4,
        F2 => 8,
        _ => 16,
    };
    Some(match insn.opcode {
        0x10 | 0x11 | 0x51 | 0x58 | 0x59 | 0x5c..=0x5f => packed_or_scalar,
        0x12 if by == F3 => 16,
        0x12 | 0x13 | 0x16 | 0x17 if by == none || by == P66 => 8,
        0x14 | 0x15 | 0x28 | 0x29 | 0x54..=0x57 | 0xc6 if by == none || by == P66 => 16,
        0x2a if by == F3 || by == F2 => four_or_eight(insn),
        0x2c | 0x2d if by == F3 => 4,
        0x2c | 0x2d if by == F2 => 8,
        0x2e | 0x2f if by == none => 4,
        0x2e | 0x2f if by == P66 => 8,
        0x40..=0x4f | 0xaf | 0xb1 | 0xbc | 0xbd | 0xc1 => by_width(insn),
        0x5a => match by {
            F3 => 4,
            P66 => 16,
            _ => 8,
        },
        0x60..=0x6d | 0x74..=0x76 if by == P66 => 16,
        0x6e if by == none || by == P66 => four_or_eight(insn),
        0x7e if by == F3 => 8,
        0x7e if by == none || by == P66 => four_or_eight(insn),
        0x6f | 0x7f if by == P66 || by == F3 => 16,
        0x70 if by == P66 || by == F3 || by == F2 => 16,
        0x90..=0x9f | 0xb0 | 0xb6 | 0xbe | 0xc0 => 1,
        0xa4 | 0xa5 | 0xac | 0xad => by_width(insn),
        0xb7 | 0xbf => 2,
        0xb8 if by == F3 => by_width(insn),
        0xba => by_width(insn),
        0xc2 => packed_or_scalar,
        0xc3 if by == none => four_or_eight(insn),
        0xd6 if by == P66 => 8,
        0xe6 if by == F3 => 8,
        0xd1..=0xd5 | 0xd8..=0xe5 | 0xe7..=0xef | 0xf1..=0xf6 | 0xf8..=0xfe if by == P66 => 16,
        0xf0 if by == F2 => 16,
        _ => return None,
    })
}

fn three_bytes_38(insn: &Insn) -> Option<u8> {
    let by = chosen(insn);
    Some(match insn.opcode {
        0x00..=0x0b | 0x17 | 0x1c..=0x1e | 0x28..=0x2b | 0x37..=0x41 | 0xdb..=0xdf
            if by == Chosen::P66 =>
        {
            16
        }
        0x20 | 0x23 | 0x25 | 0x30 | 0x33 | 0x35 if by == Chosen::P66 => 8,
        0x21 | 0x24 | 0x31 | 0x34 if by == Chosen::P66 => 4,
        0x22 | 0x32 if by == Chosen::P66 => 2,
        // movbe
        0xf0 | 0xf1 if by == Chosen::None || by == Chosen::P66 => by_width(insn),
        _ => return None,
    })
}

fn three_bytes_3a(insn: &Insn) -> Option<u8> {
    if chosen(insn) != Chosen::P66 {
        return None;
    }
    Some(match insn.opcode {
        0x08 | 0x09 | 0x0c..=0x0f | 0x44 | 0x60..=0x63 => 16,
        0x0a => 4,
        0x0b => 8,
        _ => return None,
    })
}

fn vex(insn: &Insn, code: &[u8]) -> Option<u8> {
    // The last byte of VEX: L and pp.
    let last = usize::from(insn.opcode_at).checked_sub(1);
    let last = last.and_then(|at| code.get(at)).copied()?;
    let long = if last & 4 == 0 { 16 } else { 32 };
    let (none, p66, f3, f2) = (last & 3 == 0, last & 3 == 1, last & 3 == 2, last & 3 == 3);
    Some(match insn.opcode {
        0x10 | 0x11 | 0x51 | 0x58 | 0x59 | 0x5c..=0x5f => match last & 3 {
            2 => 4,
            3 => 8,
            _ => long,
        },
        0x28 | 0x29 | 0x54..=0x57 | 0x14 | 0x15 | 0xc6 if none || p66 => long,
        0x2e | 0x2f if none => 4,
        0x2e | 0x2f if p66 => 8,
        0x6f | 0x7f if p66 || f3 => long,
        0x7e if f3 => 8,
        0xd6 if p66 => 8,
        0x60..=0x6d | 0x74..=0x76 if p66 => long,
        0xd4 | 0xd5 | 0xd8..=0xe0 | 0xe3..=0xe5 | 0xe7..=0xef | 0xf4..=0xf6 | 0xf8..=0xfe
            if p66 =>
        {
            long
        }
        0xf0 if f2 => long,
        _ => return None,
    })
}
