//! How long the memory operand of an instruction is, where the opcode says it: of common instructions.
//!
//! Facts: Intel SDM volume 2 (each instruction's page); the tests compare every encoding with iced-x86. `core` only.

use super::insn::{Insn, prefix};

/// Bytes of the memory operand in `ModRM`: a power of two up to 64, and all of them are referenced whatever a mask or
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
        5 => vex_38(insn, code),
        6 => vex_3a(insn, code),
        7..=9 => evex(insn, code),
        _ => None,
    }
}

/// What a displacement of a byte is multiplied by.
///
/// In EVEX it is the operand's size, whatever its tuple (SDM volume 2, 2.7.5), where nothing is broadcast: those have no size here.
pub fn displacement_factor(insn: &Insn, size: u8) -> i32 {
    match insn.space {
        7..=11 => size.into(),
        _ => 1,
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

/// Bytes that `mov` moves between the accumulator and an address in the instruction.
pub fn accumulator_size(insn: &Insn) -> u8 {
    if insn.opcode & 1 == 0 {
        1
    } else {
        by_width(insn)
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

/// The last byte of a prefix in front of the opcode.
fn payload(insn: &Insn, code: &[u8], back: usize) -> Option<u8> {
    let at = usize::from(insn.opcode_at).checked_sub(back)?;
    code.get(at).copied()
}

/// The prefix and the bytes of a vector, by L and pp of VEX.
fn vex_form(insn: &Insn, code: &[u8]) -> Option<(u8, u8)> {
    let last = payload(insn, code, 1)?;
    Some((last & 3, if last & 4 == 0 { 16 } else { 32 }))
}

fn vex(insn: &Insn, code: &[u8]) -> Option<u8> {
    let (pp, long) = vex_form(insn, code)?;
    vector_moves(insn.opcode, pp, long).or(match insn.opcode {
        0x6e | 0x7e if pp == P66 => Some(four_or_eight(insn)),
        0x7e if pp == F3 => Some(8),
        0xd6 if pp == P66 => Some(8),
        0xf0 if pp == F2 => Some(long),
        _ => None,
    })
}

// As VEX and EVEX have them.
const NONE: u8 = 0;
const P66: u8 = 1;
const F3: u8 = 2;
const F2: u8 = 3;

/// What VEX and EVEX have in common in the map of 0F.
fn vector_moves(opcode: u8, pp: u8, long: u8) -> Option<u8> {
    let packed = pp == NONE || pp == P66;
    Some(match opcode {
        0x10 | 0x11 | 0x51 | 0x58 | 0x59 | 0x5c..=0x5f => match pp {
            F3 => 4,
            F2 => 8,
            _ => long,
        },
        0x28 | 0x29 | 0x54..=0x57 | 0x14 | 0x15 | 0xc6 if packed => long,
        0x2e | 0x2f if pp == NONE => 4,
        0x2e | 0x2f if pp == P66 => 8,
        0x6f | 0x7f if pp == P66 || pp == F3 => long,
        0x60..=0x6d | 0x74..=0x76 if pp == P66 => long,
        0xd4 | 0xd5 | 0xd8..=0xe0 | 0xe3..=0xe5 | 0xe7..=0xef | 0xf4..=0xf6 | 0xf8..=0xfe
            if pp == P66 =>
        {
            long
        }
        _ => return None,
    })
}

/// Of the maps of 0F38 of VEX and EVEX, with 66.
fn vector_38(insn: &Insn, long: u8) -> Option<u8> {
    let by_width = if insn.rex & 8 != 0 { 8 } else { 4 };
    Some(match insn.opcode {
        0x00 | 0x04 | 0x0b | 0x1c..=0x1e | 0x28..=0x2a | 0x37..=0x40 | 0x45..=0x47 => long,
        // Extensions, by what they make longer.
        0x20 | 0x23 | 0x25 | 0x30 | 0x33 | 0x35 => long / 2,
        0x21 | 0x24 | 0x31 | 0x34 => long / 4,
        0x22 | 0x32 => long / 8,
        0x18 | 0x58 => 4,
        0x59 => 8,
        0x78 => 1,
        0x79 => 2,
        // Multiplications and additions at once: of vectors, and of one element.
        0x96..=0x98 | 0x9a | 0x9c | 0x9e | 0xa6..=0xa8 | 0xaa | 0xac | 0xae => long,
        0xb6..=0xb8 | 0xba | 0xbc | 0xbe => long,
        0x99 | 0x9b | 0x9d | 0x9f | 0xa9 | 0xab | 0xad | 0xaf => by_width,
        0xb9 | 0xbb | 0xbd | 0xbf => by_width,
        _ => return None,
    })
}

fn vex_38(insn: &Insn, code: &[u8]) -> Option<u8> {
    let (pp, long) = vex_form(insn, code)?;
    match insn.opcode {
        // andn, bzhi, bextr, shlx, sarx, shrx, mulx, pdep, pext
        0xf2 if pp == NONE => Some(four_or_eight(insn)),
        0xf5 if pp != P66 => Some(four_or_eight(insn)),
        0xf6 if pp == F2 => Some(four_or_eight(insn)),
        0xf7 => Some(four_or_eight(insn)),
        0x01..=0x03 | 0x05..=0x0a | 0x41 | 0xdb if pp == P66 => Some(long),
        0x17 | 0x36 | 0x16 if pp == P66 => Some(long),
        0x19 if pp == P66 => Some(8),
        0x1a | 0x5a if pp == P66 => Some(16),
        _ if pp == P66 => vector_38(insn, long),
        _ => None,
    }
}

/// Of the maps of 0F3A of VEX and EVEX, with 66.
fn vector_3a(insn: &Insn, long: u8) -> Option<u8> {
    Some(match insn.opcode {
        0x08 | 0x09 | 0x0f => long,
        0x0a => 4,
        0x0b => 8,
        // Halves: put in, taken out.
        0x18 | 0x19 | 0x38 | 0x39 => 16,
        _ => return None,
    })
}

fn vex_3a(insn: &Insn, code: &[u8]) -> Option<u8> {
    let (pp, long) = vex_form(insn, code)?;
    match insn.opcode {
        // rorx
        0xf0 if pp == F2 => Some(four_or_eight(insn)),
        _ if pp != P66 => None,
        0x00..=0x02 | 0x04..=0x06 | 0x0c..=0x0e | 0x42 | 0x44 | 0x46 => Some(long),
        0x60..=0x63 => Some(16),
        _ => vector_3a(insn, long),
    }
}

/// What EVEX says beside what VEX does.
pub struct Payload {
    /// The prefix: none, 66, F3, F2.
    pub pp: u8,
    /// Bytes of a vector.
    pub bytes: u8,
    /// Something is broadcast, or rounded in a way of its own.
    pub broadcast: bool,
    /// The mask's register; 0: none.
    pub mask: u8,
}

/// Of an instruction with EVEX.
pub fn evex_payload(insn: &Insn, code: &[u8]) -> Option<Payload> {
    let (middle, last) = (payload(insn, code, 2)?, payload(insn, code, 1)?);
    let bytes = match last >> 5 & 3 {
        0 => 16,
        1 => 32,
        2 => 64,
        _ => return None,
    };
    Some(Payload {
        pp: middle & 3,
        bytes,
        broadcast: last & 16 != 0,
        mask: last & 7,
    })
}

/// With no mask, and nothing broadcast.
fn evex(insn: &Insn, code: &[u8]) -> Option<u8> {
    let Payload {
        pp,
        bytes: long,
        broadcast: false,
        mask: 0,
    } = evex_payload(insn, code)?
    else {
        return None;
    };
    match insn.space {
        7 => vector_moves(insn.opcode, pp, long).or(match insn.opcode {
            0x6f | 0x7f if pp == F2 => Some(long),
            0x6e if pp == P66 => Some(four_or_eight(insn)),
            0x7e if pp == P66 => Some(four_or_eight(insn)),
            0x7e if pp == F3 => Some(8),
            0xd6 if pp == P66 => Some(8),
            0x2b if pp == NONE || pp == P66 => Some(long),
            _ => None,
        }),
        8 => match insn.opcode {
            // vptestm, vptestnm
            0x26 | 0x27 if pp == P66 || pp == F3 => Some(long),
            0x16 | 0x1f | 0x36 | 0x64..=0x66 | 0x75..=0x77 | 0x7d..=0x7f | 0x8d if pp == P66 => {
                Some(long)
            }
            0x10..=0x12 | 0x14 | 0x15 if pp == P66 => Some(long),
            0x19 if pp == P66 => Some(8),
            0x1a | 0x5a if pp == P66 => Some(16),
            0x1b | 0x5b if pp == P66 => Some(32),
            _ if pp == P66 => vector_38(insn, long),
            _ => None,
        },
        _ if pp != P66 => None,
        _ => match insn.opcode {
            0x03 | 0x1e | 0x1f | 0x23 | 0x25 | 0x3e | 0x3f | 0x43 => Some(long),
            0x1a | 0x1b | 0x3a | 0x3b => Some(32),
            _ => vector_3a(insn, long),
        },
    }
}
