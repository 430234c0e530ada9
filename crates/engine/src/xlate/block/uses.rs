//! Which general registers an instruction reads and writes, of common instructions; all of them where it is not known here.
//!
//! Facts: Intel SDM volume 2 (each instruction's page); volume 1, 3.4.1.1 (a result of 32 bits sets a whole register).

use super::Item;
use super::operand::Operand;
use crate::xlate::decode::{Insn, Kind, prefix};
use crate::xlate::operand_size::operand_size;

/// Registers, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) reads: u16,
    pub(super) writes: u16,
    /// Those of [`Uses::writes`] that are overwritten as a whole, and not read.
    pub(super) sets: u16,
}

impl Default for Uses {
    fn default() -> Self {
        Self::ALL
    }
}

const RAX: u16 = 1;
const RCX: u16 = 1 << 1;
const RDX: u16 = 1 << 2;
const RSP: u16 = 1 << 4;

impl Uses {
    pub(super) const ALL: Self = Self {
        reads: u16::MAX,
        writes: u16::MAX,
        sets: 0,
    };
    const NONE: Self = Self::reads(0);

    const fn reads(reads: u16) -> Self {
        Self {
            reads,
            writes: 0,
            sets: 0,
        }
    }

    /// Reads some, and reads and writes others.
    const fn changes(reads: u16, writes: u16) -> Self {
        Self {
            reads: reads | writes,
            writes,
            sets: 0,
        }
    }

    /// Reads some, and overwrites others.
    const fn sets(reads: u16, sets: u16) -> Self {
        Self {
            reads,
            writes: sets,
            sets,
        }
    }

    /// Of an instruction.
    pub(super) fn of(item: &Item) -> Self {
        let insn = &item.insn;
        if !matches!(insn.kind, Kind::Plain | Kind::Jcc) || insn.has(prefix::GS) {
            return Self::ALL;
        }
        let Operand { base, index } = Operand::of(insn, item.code());
        let address = base.into_iter().chain(index.map(|(index, _)| index));
        let address = address.fold(0u16, |all, register| all | 1 << (register & 15));
        let own = match insn.space {
            0 if insn.has(prefix::REP | prefix::REPNE) => Self::ALL,
            0 => one_byte(insn),
            1 => two_bytes(insn),
            4 => vex(insn),
            // (Of those whose operand's size is known here, no other one uses a register beside its address.)
            5..=9 if insn.modrm < 0xc0 && size_of_vector(insn, item.code()) => Self::NONE,
            7..=9 => evex(insn),
            _ => Self::ALL,
        };
        let reads = own.reads | address;
        Self {
            reads,
            sets: own.sets & !reads,
            ..own
        }
    }
}

/// Whether an instruction, of common ones, neither reads nor writes flags.
pub(super) fn keeps_flags(insn: &Insn) -> bool {
    // What may write them, or not, is in no table.
    let known = match insn.space {
        0 => matches!(
            insn.opcode,
            0x50..=0x5f | 0x63 | 0x68 | 0x6a | 0x88..=0x8b | 0x8d | 0x90 | 0xb0..=0xbf | 0xc6 | 0xc7 | 0xc9
        ),
        1 => {
            insn.is_vector()
                || matches!(insn.opcode, 0x18..=0x1f | 0xb6 | 0xb7 | 0xbe | 0xbf | 0xc8..=0xcf)
        }
        _ => insn.is_vector(),
    };
    known && insn.kind == Kind::Plain && insn.flags_read() | insn.flags_written() == 0
}

/// The register in `ModRM.reg`.
fn reg(insn: &Insn) -> u16 {
    1 << insn.reg()
}

/// The one in `ModRM.rm`; memory: none.
fn low(insn: &Insn) -> u16 {
    match insn.modrm >= 0xc0 {
        true => 1 << ((insn.modrm & 7) | (insn.rex & 1) << 3),
        false => 0,
    }
}

/// Of a byte: AH to BH are of the first four.
const fn byte(registers: u16) -> u16 {
    registers | ((registers >> 4) & 0xf)
}

/// The one in the opcode.
fn last(insn: &Insn) -> u16 {
    1 << ((insn.opcode & 7) | (insn.rex & 1) << 3)
}

/// What an instruction overwrites as a whole, unless its operands have 16 bits.
fn whole(insn: &Insn, reads: u16, sets: u16) -> Uses {
    match insn.has(prefix::OPSIZE) {
        true => Uses::changes(reads, sets),
        false => Uses::sets(reads, sets),
    }
}

fn one_byte(insn: &Insn) -> Uses {
    let (reg, low, last) = (reg(insn), low(insn), last(insn));
    let which = insn.modrm >> 3 & 7;
    match insn.opcode {
        // cmp
        0x38 | 0x3a => Uses::reads(byte(reg | low)),
        0x39 | 0x3b => Uses::reads(reg | low),
        0x3c | 0x3d | 0xa8 | 0xa9 => Uses::reads(RAX),
        // xor, sub of a register with itself
        0x29 | 0x2b | 0x31 | 0x33 if reg == low => whole(insn, 0, reg),
        // add, or, adc, sbb, and, sub, xor
        0x00..=0x37 => match insn.opcode & 7 {
            0 => Uses::changes(byte(reg), byte(low)),
            1 => Uses::changes(reg, low),
            2 => Uses::changes(byte(low), byte(reg)),
            3 => Uses::changes(low, reg),
            4 | 5 => Uses::changes(0, RAX),
            _ => Uses::ALL,
        },
        // push, pop
        0x50..=0x57 => Uses::changes(last, RSP),
        0x58..=0x5f if last == RSP => Uses::changes(0, RSP),
        0x58..=0x5f => Uses {
            reads: RSP,
            ..whole(insn, RSP, last).also(RSP)
        },
        0x68 | 0x6a => Uses::changes(0, RSP),
        // movsxd, imul
        0x63 | 0x69 | 0x6b => whole(insn, low, reg),
        0x70..=0x7f => Uses::NONE,
        0x80 if which == 7 => Uses::reads(byte(low)),
        0x81 | 0x83 if which == 7 => Uses::reads(low),
        0x80 | 0xc0 | 0xd0 => Uses::changes(0, byte(low)),
        0x81 | 0x83 | 0xc1 | 0xd1 => Uses::changes(0, low),
        0xd2 => Uses::changes(RCX, byte(low)),
        0xd3 => Uses::changes(RCX, low),
        // test
        0x84 => Uses::reads(byte(reg | low)),
        0x85 => Uses::reads(reg | low),
        // mov, lea
        0x88 => Uses::changes(byte(reg), byte(low)),
        0x89 => whole(insn, reg, low),
        0x8a => Uses::changes(byte(low), byte(reg)),
        0x8b => whole(insn, low, reg),
        0x8d => whole(insn, 0, reg),
        // mov between RAX and an address
        0xa0 => Uses::changes(0, RAX),
        0xa1 => whole(insn, 0, RAX),
        0xa2 | 0xa3 => Uses::reads(RAX),
        0xb0..=0xb7 => Uses::changes(0, byte(last)),
        0xb8..=0xbf => whole(insn, 0, last),
        0xc6 if which == 0 => Uses::changes(0, byte(low)),
        0xc7 if which == 0 => whole(insn, 0, low),
        0x90 if insn.rex & 1 == 0 => Uses::NONE,
        // cdqe, cqo
        0x98 => Uses::changes(0, RAX),
        0x99 => Uses::changes(RAX, RDX),
        0xf6 if which < 2 => Uses::reads(byte(low)),
        0xf7 if which < 2 => Uses::reads(low),
        // not, neg
        0xf6 if which < 4 => Uses::changes(0, byte(low)),
        0xf7 if which < 4 => Uses::changes(0, low),
        // mul, div
        0xf6 | 0xf7 => Uses::changes(byte(low), RAX | RDX),
        // inc, dec, push
        0xfe if which < 2 => Uses::changes(0, byte(low)),
        0xff if which < 2 => Uses::changes(0, low),
        0xff if which == 6 => Uses::changes(low, RSP),
        _ => Uses::ALL,
    }
}

fn two_bytes(insn: &Insn) -> Uses {
    let (reg, low) = (reg(insn), low(insn));
    match insn.opcode {
        0x1f | 0x80..=0x8f => Uses::NONE,
        // cmov, imul, bsf, bsr
        0x40..=0x4f | 0xaf | 0xbc | 0xbd => Uses::changes(low, reg),
        0x90..=0x9f => Uses::changes(0, byte(low)),
        // movzx, movsx
        0xb6 | 0xbe => whole(insn, byte(low), reg),
        0xb7 | 0xbf => whole(insn, low, reg),
        // movmsk, pmovmskb; cvtsi2sd, movd
        0x50 | 0xd7 => Uses::changes(0, reg),
        0x2a | 0x6e => Uses::reads(low),
        _ => vectors(insn.opcode),
    }
}

fn vex(insn: &Insn) -> Uses {
    match insn.opcode {
        0x50 | 0xd7 => Uses::changes(0, reg(insn)),
        0x2a | 0x6e => Uses::reads(low(insn)),
        // vzeroupper; masks: kand and others, kmov, kortest, ktest
        0x77 | 0x41..=0x4b | 0x90 | 0x91 | 0x98 | 0x99 => Uses::NONE,
        0x92 => Uses::reads(low(insn)),
        0x93 => Uses::changes(0, reg(insn)),
        opcode => vectors(opcode),
    }
}

/// Whether an operand in memory is a vector's (and not a text's, whose length is in registers: vpcmpestri and others).
fn size_of_vector(insn: &Insn, code: &[u8]) -> bool {
    let is_text = insn.space == 6 && matches!(insn.opcode, 0x60..=0x63);
    !is_text && operand_size(insn, code).is_some_and(|size| size >= 16)
}

fn evex(insn: &Insn) -> Uses {
    match (insn.space, insn.opcode) {
        (7, opcode) => vectors(opcode),
        // vptestm, vptestnm; vpcmp, vpternlog
        (8, 0x26 | 0x27) | (9, 0x1e | 0x1f | 0x25 | 0x3e | 0x3f) => Uses::NONE,
        _ => Uses::ALL,
    }
}

/// Moves and arithmetic of vectors, which have the same opcodes as SSE and as AVX.
fn vectors(opcode: u8) -> Uses {
    match opcode {
        0x10..=0x17 | 0x28 | 0x29 | 0x2e | 0x2f | 0x54..=0x6d | 0x6f | 0x74..=0x76 | 0x7f => {
            Uses::NONE
        }
        0xd4 | 0xd6 | 0xda | 0xdb | 0xdf | 0xeb | 0xef | 0xfa..=0xfe => Uses::NONE,
        _ => Uses::ALL,
    }
}

impl Uses {
    /// Writes these, too.
    const fn also(self, writes: u16) -> Self {
        Self {
            writes: self.writes | writes,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xlate::decode::{MAX_LEN, decode};

    fn of(code: &[u8]) -> Uses {
        let mut bytes = [0x90; MAX_LEN];
        bytes[..code.len()].copy_from_slice(code);
        Uses::of(&Item::new(decode(&bytes).unwrap(), bytes, 0x1000))
    }

    #[test]
    fn results_of_32_bits_set_a_register_and_shorter_ones_do_not() {
        // mov eax, [rbx+8]; mov ax, [rbx]; mov al, [rbx]; mov rbx, [rbx]
        assert_eq!(of(&[0x8b, 0x43, 8]), Uses::sets(1 << 3, RAX));
        assert_eq!(of(&[0x66, 0x8b, 3]), Uses::changes(1 << 3, RAX));
        assert_eq!(of(&[0x8a, 3]), Uses::changes(1 << 3, RAX));
        assert_eq!(of(&[0x48, 0x8b, 0x1b]).sets, 0);
        // movzx r9d, word [rsp+2]; xor ecx, ecx; lea rdx, [rax+rcx]
        assert_eq!(
            of(&[0x44, 0x0f, 0xb7, 0x4c, 0x24, 2]),
            Uses::sets(RSP, 1 << 9)
        );
        assert_eq!(of(&[0x31, 0xc9]), Uses::sets(0, RCX));
        assert_eq!(of(&[0x48, 0x8d, 0x14, 0x08]), Uses::sets(RAX | RCX, RDX));
        // mov ah, [rbx] is of RAX.
        assert_eq!(of(&[0x8a, 0x23]).writes & RAX, RAX);
    }

    #[test]
    fn the_stack_pointer_is_read_and_written() {
        // push rbx; pop r12; pop rsp; pop word
        assert_eq!(of(&[0x53]), Uses::changes(1 << 3, RSP));
        let pop = of(&[0x41, 0x5c]);
        assert_eq!(
            (pop.reads, pop.writes, pop.sets),
            (RSP, RSP | 1 << 12, 1 << 12)
        );
        assert_eq!(of(&[0x5c]), Uses::changes(0, RSP));
        assert_eq!(of(&[0x66, 0x58]).sets, 0);
    }

    #[test]
    fn what_is_not_known_uses_all() {
        // rep movsb; cpuid; xchg rax, r8; cmpxchg [rbx], ecx; bt [rbx], eax; mov rax, gs:[rbx]
        for code in [
            &[0xf3, 0xa4][..],
            &[0x0f, 0xa2],
            &[0x49, 0x90],
            &[0x0f, 0xb1, 0x0b],
            &[0x0f, 0xa3, 0x03],
            &[0x65, 0x48, 0x8b, 0x03],
        ] {
            assert_eq!(of(code), Uses::ALL, "{code:x?}");
        }
    }
}
