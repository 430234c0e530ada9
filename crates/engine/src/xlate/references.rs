//! What translated code notes about the memory that a program references, with `option::REFERENCES`.
//!
//! In front of an instruction that touches memory, translated code writes the values of the registers that its
//! addresses are made of ([`Words`]) into a ring in the thread's region; displacements, sizes and what is done follow
//! from the instruction's bytes, and are added by who reads the ring (`virt::references`). A block begins with a
//! *head* word, which says where its code is described (low 48 bits: offset in the totals file, in words) and, in the
//! high 16 bits, how it was left: 0 as a whole, else one more than the instructions executed.
//!
//! The ring has [`CHUNKS`] parts of [`CHUNK`] words. A block begins only where bits 8 to 15 of the word's number are
//! not 0: what begins near the end of a part ends in the first 256 words of the next, where none begins. So one byte
//! says whether there is room; where there is none, the thread comes to the runtime, which publishes the part.
//!
//! Both sides follow [`Words::of`]. `core` only.

use super::block::Operand;
use super::insn::{Insn, Kind, prefix};
use core::sync::atomic::AtomicU32;

/// Words of a part of the ring.
pub const CHUNK: u32 = 65_536;
/// Parts of the ring.
pub const CHUNKS: u32 = 4;
/// Words at the start of a part where no block begins, and more than a block can have.
pub const APART: u32 = 256;
/// Most words of a block, the head included.
pub const MAX_WORDS: usize = 200;
/// Words of the whole ring.
pub const RING: u32 = CHUNK * CHUNKS + APART;
/// Where a thread's ring stands: in its context.
#[repr(C)]
pub struct Ring {
    /// Number of the next word.
    pub position: u32,
    /// The same, behind the last mark of this part (0: there is none) …
    pub marked: u32,
    /// … and how many marks follow each other there.
    pub marks: u32,
    /// Parts that have been filled …
    pub filled: AtomicU32,
    /// … and read, a futex …
    pub read: AtomicU32,
    /// … and where what was filled ends, by the part's number.
    pub ends: [AtomicU32; CHUNKS as usize],
    /// Entry of the runtime for a ring without room.
    pub vector: u64,
}

/// The launcher's reading of all rings: in the header of the totals file.
#[repr(C)]
pub struct Readers {
    /// Incremented, and woken as a futex, when a part of a ring is full.
    pub bell: AtomicU32,
    /// Parts of rings that nobody read.
    pub lost: AtomicU32,
}

/// In the head's high bits: the instruction behind those that were executed is a string instruction that was
/// interrupted; what it did so far counts.
pub const INTERRUPTED: u16 = 0x8000;

/// A word that is no head has this bit: between two blocks it says whether the thread is counted from there on.
pub const MARK: u64 = 1 << 47;
/// In a mark: the thread is counted at all.
pub const COUNTS: u64 = 1;
/// In a mark: it is a part of the profile.
pub const COLLECTS: u64 = 2;
/// In a mark, from this bit on: how many marks of the process' profile were before (32 bits).
pub const PART: u32 = 8;
/// A mark with this bit says which node of the tree of calls the thread is in from there on, with `option::CALLS`: the
/// node's address is in its bits below [`MARK`]'s.
pub const NODE: u64 = 1 << 48;

/// The program's FS base, among the registers.
pub const FS: u8 = 16;
/// The program's GS base.
pub const GS: u8 = 17;

const RAX: u8 = 0;
const RCX: u8 = 1;
const RBX: u8 = 3;
const RSP: u8 = 4;
const RBP: u8 = 5;
const RSI: u8 = 6;
const RDI: u8 = 7;

/// Registers whose values are noted for an instruction, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    registers: [u8; 10],
    before: u8,
    after: u8,
}

impl Words {
    /// For an instruction with these bytes.
    pub fn of(insn: &Insn, code: &[u8]) -> Self {
        let mut words = Self::default();
        if !insn.is_load() && !insn.is_store() {
            return words;
        }
        if insn.has_memory_operand() && !has_vector_index(insn) {
            let operand = Operand::of(insn, code);
            let index = operand.index.map(|(index, _)| index);
            for register in [operand.base, index].into_iter().flatten() {
                words.note(register);
            }
            words.segment(insn);
            // The bit may lie in another word than the operand's.
            if insn.space == 1 && matches!(insn.opcode, 0xa3 | 0xab | 0xb3 | 0xbb) {
                words.note(insn.reg());
            }
        }
        match (insn.space, insn.opcode) {
            (0, 0x50..=0x5f | 0x68 | 0x6a | 0x8f | 0x9c | 0x9d | 0xc2 | 0xc3 | 0xc8 | 0xe8)
            | (1, 0xa0 | 0xa1 | 0xa8 | 0xa9) => words.note(RSP),
            (0, 0xff) if matches!(insn.modrm >> 3 & 7, 2 | 6) => words.note(RSP),
            (0, 0xc9) => words.note(RBP),
            (0, 0xa0..=0xa3) => words.segment(insn),
            (0, 0xd7) => {
                words.note(RBX);
                words.note(RAX);
                words.segment(insn);
            }
            (0, 0xa4..=0xa7 | 0xaa..=0xaf) => words.string(insn),
            _ => {}
        }
        if insn.kind == Kind::CallInd {
            words.note(RSP);
        }
        words
    }

    fn note(&mut self, register: u8) {
        let known = self.before().any(|other| other == register);
        if let Some(place) = self.registers.get_mut(usize::from(self.before))
            && !known
        {
            *place = register;
            self.before += 1;
        }
    }

    fn segment(&mut self, insn: &Insn) {
        if insn.has(prefix::FS) {
            self.note(FS);
        } else if insn.has(prefix::GS) {
            self.note(GS);
        }
    }

    fn string(&mut self, insn: &Insn) {
        let (source, target) = match insn.opcode {
            0xa4..=0xa7 => (true, true),
            0xac | 0xad => (true, false),
            _ => (false, true),
        };
        if source {
            self.note(RSI);
            self.segment(insn);
        }
        if target {
            self.note(RDI);
        }
        if insn.has(prefix::REP | prefix::REPNE) {
            self.note(RCX);
            // How often it was repeated, and in which direction.
            for register in [RCX, if target { RDI } else { RSI }] {
                let at = usize::from(self.before + self.after);
                if let Some(place) = self.registers.get_mut(at) {
                    *place = register;
                    self.after += 1;
                }
            }
        }
    }

    /// Noted in front of the instruction.
    pub fn before(&self) -> impl Iterator<Item = u8> + '_ {
        self.registers
            .iter()
            .copied()
            .take(usize::from(self.before))
    }

    /// Noted behind it: of a repeated string instruction RCX, and RDI or RSI.
    pub fn after(&self) -> impl Iterator<Item = u8> + '_ {
        let skip = usize::from(self.before);
        self.registers
            .iter()
            .copied()
            .skip(skip)
            .take(usize::from(self.after))
    }

    /// Words in all.
    pub fn len(&self) -> usize {
        usize::from(self.before + self.after)
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Gathers and scatters: the index is a vector, or a row's address (AMX: Intel SDM volume 1, chapter 18).
pub(super) fn has_vector_index(insn: &Insn) -> bool {
    match insn.space {
        5 | 8 => matches!(insn.opcode, 0x90..=0x93 | 0xa0..=0xa3 | 0xc6 | 0xc7),
        _ => false,
    }
}

/// How a run notes references.
#[derive(Clone, Copy, Debug)]
pub struct Noting {
    /// Where the block is going to be described: offset in the totals file, in words.
    pub described: u64,
    /// Where the ring is in the thread's region.
    pub ring: u32,
    /// Where the number of the next word is in the context.
    pub position: u32,
    /// Entry of the runtime for a ring without room.
    pub vector: u32,
    /// The CPU and the kernel let programs read their FS base.
    pub reads_fs: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xlate::decode::decode;

    fn words(code: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let words = Words::of(&decode(code).unwrap(), code);
        (words.before().collect(), words.after().collect())
    }

    #[test]
    fn registers_of_addresses() {
        let rows: &[(&[u8], &[u8], &[u8])] = &[
            (&[0x8b, 0x04, 0x88], &[0, 1], &[]),    // mov eax, [rax+rcx*4]
            (&[0x48, 0x8d, 0x04, 0x88], &[], &[]),  // lea
            (&[0x8b, 0x05, 0, 0, 0, 0], &[], &[]),  // mov eax, [rip]
            (&[0x64, 0x8b, 0x07], &[RDI, FS], &[]), // mov eax, fs:[rdi]
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0], &[FS], &[]),
            (&[0x41, 0xff, 0x34, 0x24], &[12, RSP], &[]), // push [r12]
            (&[0xff, 0x10], &[0, RSP], &[]),              // call [rax]
            (&[0xff, 0xd0], &[RSP], &[]),                 // call rax
            (&[0xc9], &[RBP], &[]),                       // leave
            (&[0xf3, 0xa4], &[RSI, RDI, RCX], &[RCX, RDI]), // rep movsb
            (&[0xa4], &[RSI, RDI], &[]),                  // movsb
            (&[0xf2, 0xae], &[RDI, RCX], &[RCX, RDI]),    // repne scasb
            (&[0xf3, 0xac], &[RSI, RCX], &[RCX, RSI]),    // rep lodsb
            (&[0x0f, 0xa3, 0x0b], &[RBX, RCX], &[]),      // bt [rbx], ecx
            (&[0x90], &[], &[]),
        ];
        for (code, before, after) in rows {
            let expected = (before.to_vec(), after.to_vec());
            assert_eq!(words(code), expected, "{code:02x?}");
        }
    }
}
