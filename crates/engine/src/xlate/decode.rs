//! The instruction decoder: lengths and operand positions.
//!
//! Facts: Intel SDM volume 2, chapter 2 (formats) and appendix A (opcode maps);
//! AMD APM volume 3 (XOP, `EXTRQ`). Lengths are decided here, control flow in
//! `classify`, the properties come from the generated
//! `table`; all are checked against iced-x86 on random bytes in
//! `tests/decode.rs`. Uses `core` only: the same source is compiled into the
//! runtime that lives in the target.

use super::classify::classify;
pub use super::insn::{DecodeError, Insn, Kind, MAX_LEN, flag, prefix};
use super::table;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Imm {
    None,
    Byte,
    Word,
    /// Two bytes with 66, else four.
    Z,
    /// As `Z`, eight with REX.W (`mov r, imm`).
    V,
    /// `enter`: a word and a byte.
    WordByte,
    /// `mov al/eax, [moffs]`.
    Moffs,
    Rel8,
    Rel32,
    Dword,
}

/// Opcodes of the one-byte map with `ModRM`, a bit each.
const MODRM_0: [u32; 8] = [
    0x0f0f_0f0f, // 00-1f
    0x0f0f_0f0f, // 20-3f
    0x0000_0000, // 40-5f
    0x0000_0a08, // 60-7f: 63 69 6b
    0x0000_ffff, // 80-9f: 80-8f
    0x0000_0000, // a0-bf
    0xff0f_00c3, // c0-df: c0 c1 c6 c7 d0-d3 d8-df
    0xc0c0_0000, // e0-ff: f6 f7 fe ff
];

/// Opcodes of the 0F map without `ModRM`, a bit each.
const NO_MODRM_1: [u32; 8] = [
    0x0000_4bf0, // 04-09 0b 0e: 05 syscall 06 clts 07 sysret 08 invd 09 wbinvd 0b ud2 0e femms
    0x00ff_0000, // 30-37
    0,
    0x0080_0000, // 77
    0x0000_ffff, // 80-8f
    0x0000_0707, // a0-a2 a8-aa
    0x0000_ff00, // c8-cf
    0,
];

fn bit(map: &[u32; 8], opcode: u8) -> bool {
    map[usize::from(opcode >> 5)] >> (opcode & 31) & 1 != 0
}

fn imm_one_byte(opcode: u8, modrm: u8) -> Imm {
    match opcode {
        0x00..=0x3f => match opcode & 7 {
            4 => Imm::Byte,
            5 => Imm::Z,
            _ => Imm::None,
        },
        0x68 | 0x69 | 0x81 | 0xa9 | 0xc7 => Imm::Z,
        0x6a | 0x6b | 0x80 | 0x83 | 0xa8 | 0xb0..=0xb7 | 0xc0 | 0xc1 | 0xc6 | 0xcd => Imm::Byte,
        0xe4..=0xe7 => Imm::Byte,
        0x70..=0x7f | 0xe0..=0xe3 | 0xeb => Imm::Rel8,
        0xa0..=0xa3 => Imm::Moffs,
        0xb8..=0xbf => Imm::V,
        0xc2 | 0xca => Imm::Word,
        0xc8 => Imm::WordByte,
        0xe8 | 0xe9 => Imm::Rel32,
        0xf6 if modrm & 0x38 < 0x10 => Imm::Byte,
        0xf7 if modrm & 0x38 < 0x10 => Imm::Z,
        _ => Imm::None,
    }
}

fn imm_two_byte(opcode: u8, prefixes: u8) -> Imm {
    match opcode {
        0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => Imm::Byte,
        0x78 if prefixes & (prefix::OPSIZE | prefix::REPNE) != 0 => Imm::Word,
        0x80..=0x8f => Imm::Rel32,
        _ => Imm::None,
    }
}

/// Not an instruction in 64-bit mode.
fn invalid_one_byte(opcode: u8) -> bool {
    matches!(
        opcode,
        0x06 | 0x07
            | 0x0e
            | 0x16
            | 0x17
            | 0x1e
            | 0x1f
            | 0x27
            | 0x2f
            | 0x37
            | 0x3f
            | 0x60
            | 0x61
            | 0x82
            | 0x9a
            | 0xce
            | 0xd4
            | 0xd5
            | 0xd6
            | 0xea
    )
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn next(&mut self) -> Result<u8, DecodeError> {
        if self.at >= MAX_LEN {
            return Err(DecodeError::Long);
        }
        let byte = *self.bytes.get(self.at).ok_or(DecodeError::Short)?;
        self.at += 1;
        Ok(byte)
    }
}

/// Decodes the instruction at the start of `bytes` (64-bit mode).
///
/// # Errors
/// [`DecodeError::Short`] where more bytes are needed, [`DecodeError::Unknown`]
/// where they are no known instruction, [`DecodeError::Long`] where they are too many for one.
pub fn decode(bytes: &[u8]) -> Result<Insn, DecodeError> {
    let mut cursor = Cursor { bytes, at: 0 };
    let mut insn = Insn {
        len: 0,
        opcode_at: 0,
        modrm_at: 0,
        imm_at: 0,
        opcode: 0,
        space: 0,
        modrm: 0,
        rex: 0,
        prefixes: 0,
        vvvv: 0xff,
        kind: Kind::Plain,
        rel: 0,
        properties: 0,
    };
    let (first, prefixed) = prefixes(&mut cursor, &mut insn)?;
    let opcode = opcode(&mut cursor, &mut insn, first, prefixed)?;
    let Opcode {
        byte,
        pp,
        has_modrm,
        mut imm,
    } = opcode;
    insn.opcode = byte;
    insn.opcode_at = (cursor.at - 1) as u8;

    if has_modrm {
        modrm(&mut cursor, &mut insn)?;
    }
    if insn.space == 0 {
        imm = imm_one_byte(byte, insn.modrm);
    }
    insn.imm_at = cursor.at as u8;
    let word = insn.prefixes & prefix::OPSIZE != 0 && insn.rex & 8 == 0;
    let size = match imm {
        Imm::None => 0,
        Imm::Byte | Imm::Rel8 => 1,
        Imm::Word => 2,
        Imm::Z if word => 2,
        Imm::Z | Imm::Rel32 | Imm::Dword => 4,
        Imm::V if insn.rex & 8 != 0 => 8,
        Imm::V if word => 2,
        Imm::V => 4,
        Imm::WordByte => 3,
        Imm::Moffs if insn.has(prefix::ADDRSIZE) => 4,
        Imm::Moffs => 8,
    };
    let len = cursor.at + size;
    if len > MAX_LEN {
        return Err(DecodeError::Long);
    }
    if len > bytes.len() {
        return Err(DecodeError::Short);
    }
    insn.len = len as u8;
    let imm_at = usize::from(insn.imm_at);
    insn.rel = match imm {
        Imm::Rel8 => i32::from(bytes[imm_at] as i8),
        Imm::Rel32 => i32::from_le_bytes([
            bytes[imm_at],
            bytes[imm_at + 1],
            bytes[imm_at + 2],
            bytes[imm_at + 3],
        ]),
        _ => 0,
    };

    let memory = usize::from(insn.modrm < 0xc0);
    let row = table::INDEX[usize::from(insn.space) * 256 + usize::from(byte)];
    let column = usize::from(pp) * 16 + memory * 8 + usize::from(insn.modrm >> 3 & 7);
    insn.properties = table::WORDS[usize::from(table::ROWS[usize::from(row)][column])];
    classify(&mut insn, bytes);
    Ok(insn)
}

/// Legacy prefixes and REX; the byte behind them, and the number of the one that chooses between opcodes.
fn prefixes(cursor: &mut Cursor<'_>, insn: &mut Insn) -> Result<(u8, u8), DecodeError> {
    let mut pp = 0u8;
    let mut byte;
    loop {
        byte = cursor.next()?;
        let bit = match byte {
            0x66 => prefix::OPSIZE,
            0x67 => prefix::ADDRSIZE,
            0xf0 => prefix::LOCK,
            0xf3 => {
                insn.prefixes &= !prefix::REPNE;
                prefix::REP
            }
            0xf2 => {
                insn.prefixes &= !prefix::REP;
                prefix::REPNE
            }
            0x64 => {
                insn.prefixes &= !prefix::GS;
                prefix::FS
            }
            0x65 => {
                insn.prefixes &= !prefix::FS;
                prefix::GS
            }
            0x26 | 0x2e | 0x36 | 0x3e => 0,
            0x40..=0x4f => {
                insn.rex = byte & 15;
                // A REX prefix counts only right before the opcode.
                let following = *cursor.bytes.get(cursor.at).ok_or(DecodeError::Short)?;
                if matches!(following, 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x64 | 0x65)
                    || matches!(following, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f)
                {
                    insn.rex = 0;
                    continue;
                }
                byte = cursor.next()?;
                if matches!(byte, 0xc4 | 0xc5 | 0x62) {
                    return Err(DecodeError::Unknown);
                }
                break;
            }
            _ => break,
        };
        insn.prefixes |= bit;
    }
    if insn.has(prefix::REPNE) {
        pp = 3;
    } else if insn.has(prefix::REP) {
        pp = 2;
    } else if insn.has(prefix::OPSIZE) {
        pp = 1;
    }
    Ok((byte, pp))
}

/// What an opcode is and what follows it.
struct Opcode {
    byte: u8,
    /// Of its prefixes (legacy, or in VEX, EVEX, XOP): none, 66, F3, F2.
    pp: u8,
    has_modrm: bool,
    imm: Imm,
}

/// The opcode that begins with `byte`: its space, and with VEX, EVEX and XOP what they hold.
fn opcode(
    cursor: &mut Cursor<'_>,
    insn: &mut Insn,
    mut byte: u8,
    mut pp: u8,
) -> Result<Opcode, DecodeError> {
    let mut imm = Imm::None;
    let mut has_modrm = true;
    match byte {
        0x0f => {
            byte = cursor.next()?;
            match byte {
                0x38 => {
                    insn.space = 2;
                    byte = cursor.next()?;
                }
                0x3a => {
                    insn.space = 3;
                    imm = Imm::Byte;
                    byte = cursor.next()?;
                }
                _ => {
                    insn.space = 1;
                    has_modrm = !bit(&NO_MODRM_1, byte);
                    imm = imm_two_byte(byte, insn.prefixes);
                }
            }
        }
        0xc5 => {
            let payload = cursor.next()?;
            insn.rex = (!payload >> 5) & 4;
            insn.vvvv = !payload >> 3 & 15;
            pp = vex_prefix(payload);
            insn.space = 4;
            byte = cursor.next()?;
        }
        0xc4 => {
            let (p0, p1) = (cursor.next()?, cursor.next()?);
            insn.rex = (!p0 >> 5 & 7) | (p1 >> 4 & 8);
            insn.vvvv = !p1 >> 3 & 15;
            pp = vex_prefix(p1);
            insn.space = match p0 & 31 {
                1 => 4,
                2 => 5,
                3 => 6,
                _ => return Err(DecodeError::Unknown),
            };
            byte = cursor.next()?;
        }
        0x62 => {
            let (p0, p1, p2) = (cursor.next()?, cursor.next()?, cursor.next()?);
            if p0 & 8 != 0 || p1 & 4 == 0 {
                return Err(DecodeError::Unknown); // APX
            }
            insn.rex = (!p0 >> 5 & 7) | (p1 >> 4 & 8);
            insn.vvvv = (!p1 >> 3 & 15) | (!p2 & 8) << 1;
            pp = vex_prefix(p1);
            insn.space = match p0 & 7 {
                1 => 7,
                2 => 8,
                3 => 9,
                5 => 10,
                6 => 11,
                _ => return Err(DecodeError::Unknown),
            };
            byte = cursor.next()?;
        }
        0x8f if cursor.bytes.get(cursor.at).is_some_and(|b| b & 0x1f >= 8) => {
            let (p0, p1) = (cursor.next()?, cursor.next()?);
            insn.rex = (!p0 >> 5 & 7) | (p1 >> 4 & 8);
            insn.vvvv = !p1 >> 3 & 15;
            pp = vex_prefix(p1);
            (insn.space, imm) = match p0 & 31 {
                8 => (12, Imm::Byte),
                9 => (13, Imm::None),
                10 => (14, Imm::Dword),
                _ => return Err(DecodeError::Unknown),
            };
            byte = cursor.next()?;
        }
        _ => {
            if invalid_one_byte(byte) {
                return Err(DecodeError::Unknown);
            }
            has_modrm = bit(&MODRM_0, byte);
        }
    }
    match insn.space {
        4 | 7 => {
            if matches!(byte, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) {
                imm = Imm::Byte;
            }
            has_modrm = !(insn.space == 4 && byte == 0x77);
        }
        6 | 9 => imm = Imm::Byte,
        _ => {}
    }
    Ok(Opcode {
        byte,
        pp,
        has_modrm,
        imm,
    })
}

/// `ModRM`, SIB and displacement.
fn modrm(cursor: &mut Cursor<'_>, insn: &mut Insn) -> Result<(), DecodeError> {
    insn.modrm_at = cursor.at as u8;
    let modrm = cursor.next()?;
    insn.modrm = modrm;
    let control = insn.space == 1 && matches!(insn.opcode, 0x20..=0x23);
    if modrm < 0xc0 && !control {
        let mut displacement = match modrm >> 6 {
            1 => 1,
            2 => 4,
            _ => 0,
        };
        if modrm & 7 == 4 {
            let sib = cursor.next()?;
            if sib & 7 == 5 && modrm < 0x40 {
                displacement = 4;
            }
        } else if modrm & 0xc7 == 5 {
            displacement = 4;
        }
        cursor.at += displacement;
    } else if control {
        insn.modrm |= 0xc0;
    }
    Ok(())
}

fn vex_prefix(payload: u8) -> u8 {
    // The table's order is none, 66, F3, F2: the same as VEX.pp.
    payload & 3
}
