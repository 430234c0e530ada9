//! What translated code notes about the memory that a program references, with `option::REFERENCES`.
//!
//! In front of an instruction that touches memory, translated code writes the values of the registers that its
//! addresses are made of ([`Words`]) into a ring in the thread's region; displacements, sizes and what is done follow
//! from the instruction's bytes, and are added by who reads the ring (`virt::references`). A block begins with a
//! *head* word, which says where its code is described (low 48 bits, see [`described`]) and, in the
//! high 16 bits, how it was left: 0 as a whole, else one more than the instructions executed.
//!
//! The ring has [`CHUNKS`] parts of [`CHUNK`] words. A block begins only where bits 8 to 15 of the word's number are
//! not 0: what begins near the end of a part ends in the first 256 words of the next, where none begins. So one byte
//! says whether there is room; where there is none, the thread comes to the runtime, which publishes the part.
//!
//! Both sides follow [`Words::of`]. `core` only.

use super::block::Operand;
use super::insn::{Insn, Kind, prefix};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Words of a part of the ring.
pub const CHUNK: u32 = 65_536;
/// Parts of the ring.
pub const CHUNKS: u32 = 4;
/// Words at the start of a part where no block begins, and more than a block can have.
pub const APART: u32 = 256;
/// Words of a short part, which is the end of a long one. Where threads that wait for who reads their rings wait for each
/// other, too, each time takes as long as a part takes to be read.
pub const SHORT: u32 = CHUNK / 32;
// (It begins where a block can, and has room for several.)
const _: () = assert!(SHORT.is_multiple_of(APART) && SHORT >= 4 * APART && SHORT < CHUNK);
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
    /// While the thread does not collect: where what it notes begins, which nobody reads; 0: it collects.
    pub idle: u32,
    /// Parts that have been filled …
    pub filled: AtomicU32,
    /// … and read, a futex …
    pub read: AtomicU32,
    /// … and where what was filled ends, by the part's number.
    pub ends: [AtomicU32; CHUNKS as usize],
    /// Where each part begins, if that is not its first word where a block can begin.
    pub begins: [AtomicU32; CHUNKS as usize],
    /// Where its process' first descriptions are: offset in the totals file, in words.
    pub base: u64,
    /// Entry of the runtime for a ring without room.
    pub vector: u64,
    /// With `option::FILTERED`: what its tables need.
    pub known: super::known::Known,
}

/// Where blocks begin in a part of a ring, which says so in its context ([`Ring::begins`]).
pub const fn begin(part: u32, said: u32) -> u32 {
    let first = part % CHUNKS * CHUNK + APART;
    if said > first { said } else { first }
}

/// The launcher's reading of all rings: in the header of the totals file.
#[repr(C)]
pub struct Readers {
    /// Incremented, and woken as a futex, when a part of a ring is full.
    pub bell: AtomicU32,
    /// Parts of rings that nobody read.
    pub lost: AtomicU32,
    /// What happened to heaps so far (`heap`): the time that their marks tell.
    pub time: AtomicU64,
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
/// A mark with this bit, none of the heap's, says where the thread would have gone on without a signal: that address is in
/// its bits below [`MARK`]'s.
pub const RESUMES: u64 = 1 << 50;

/// The program's FS base, among the registers.
pub const FS: u8 = 16;
/// The program's GS base.
pub const GS: u8 = 17;

const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const RBX: u8 = 3;
const RSP: u8 = 4;
const RBP: u8 = 5;
const RSI: u8 = 6;
const RDI: u8 = 7;

/// Behind an instruction that saved or restored the extended state: the first word of the header in its memory …
pub const HEADER: u8 = 18;
/// … and the second.
pub const HEADER_2: u8 = 19;
/// Where that header is in the memory of the state.
pub const HEADER_AT: u32 = 512;

/// A register of more than a word, or one that chooses elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    /// Which instructions store it.
    pub sort: Sort,
    /// Its number.
    pub register: u8,
    /// Words.
    pub words: u8,
}

/// What stores a [`Wide`] register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// MMX.
    Mmx,
    /// SSE.
    Sse,
    /// AVX.
    Avx,
    /// AVX-512.
    Avx512,
    /// A mask of AVX-512's.
    Mask,
    /// The configuration of AMX's tiles.
    Tiles,
}

/// Registers whose values are noted for an instruction, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    registers: [u8; 10],
    before: u8,
    after: u8,
    /// Noted in front of it, behind the others.
    wide: [Option<Wide>; 2],
}

impl Words {
    /// For an instruction with these bytes.
    pub fn of(insn: &Insn, code: &[u8]) -> Self {
        let mut words = Self::default();
        if !insn.is_load() && !insn.is_store() {
            return words;
        }
        if insn.has_memory_operand() {
            let operand = Operand::of(insn, code);
            let index = operand.index.map(|(index, _)| index);
            let index = index.filter(|_| !has_vector_index(insn));
            for register in [operand.base, index].into_iter().flatten() {
                words.note(register);
            }
            words.segment(insn);
            // The bit may lie in another word than the operand's.
            if insn.space == 1 && matches!(insn.opcode, 0xa3 | 0xab | 0xb3 | 0xbb) {
                words.note(insn.reg());
            }
            words.chosen(insn, code);
        }
        match (insn.space, insn.opcode) {
            (0, 0x50..=0x5f | 0x68 | 0x6a | 0x8f | 0x9c | 0x9d | 0xc2 | 0xc3 | 0xe8)
            | (1, 0xa0 | 0xa1 | 0xa8 | 0xa9) => words.note(RSP),
            (0, 0xff) if matches!(insn.modrm >> 3 & 7, 2 | 6) => words.note(RSP),
            (0, 0xc9) => words.note(RBP),
            // enter: with levels it reads through RBP
            (0, 0xc8) => {
                words.note(RSP);
                words.note(RBP);
            }
            (0, 0xa0..=0xa3) => words.segment(insn),
            (0, 0xd7) => {
                words.note(RBX);
                words.note(RAX);
                words.segment(insn);
            }
            (0, 0xa4..=0xa7 | 0xaa..=0xaf) => words.string(insn),
            // maskmovq, maskmovdqu
            (1 | 4, 0xf7) => {
                words.note(RDI);
                words.segment(insn);
                let (sort, long) = match insn.space {
                    4 => (Sort::Avx, 2),
                    _ if insn.has(prefix::OPSIZE) => (Sort::Sse, 2),
                    _ => (Sort::Mmx, 1),
                };
                words.note_wide(sort, (insn.modrm & 7) | (insn.rex & 1) << 3, long);
            }
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

    fn note_wide(&mut self, sort: Sort, register: u8, words: u8) {
        if let Some(place) = self.wide.iter_mut().find(|place| place.is_none()) {
            *place = Some(Wide {
                sort,
                register,
                words,
            });
        }
    }

    /// What chooses among an operand's elements, or where they are.
    fn chosen(&mut self, insn: &Insn, code: &[u8]) {
        let byte = |at: usize| code.get(at).copied().unwrap_or(0);
        // The last byte of VEX and EVEX.
        let last = byte(usize::from(insn.opcode_at).wrapping_sub(1));
        let sib = byte(usize::from(insn.modrm_at) + 1);
        let index = (sib >> 3 & 7) | (insn.rex & 2) << 2;
        match (insn.space, insn.opcode) {
            (7..=11, _) => {
                if has_vector_index(insn) {
                    let index = index | (!last & 8) << 1;
                    self.note_wide(Sort::Avx512, index, (2 << (last >> 5 & 3)).min(8));
                }
                if last & 7 != 0 {
                    self.note_wide(Sort::Mask, last & 7, 1);
                }
            }
            (5, 0x90..=0x93) => {
                let words = 2 << (last >> 2 & 1);
                self.note_wide(Sort::Avx, index, words);
                self.note_wide(Sort::Avx, insn.vvvv, words);
            }
            // vmaskmovps, vmaskmovpd, vpmaskmovd, vpmaskmovq
            (5, 0x2c..=0x2f | 0x8c | 0x8e) => {
                self.note_wide(Sort::Avx, insn.vvvv, 2 << (last >> 2 & 1));
            }
            // tileloadd, tileloaddt1, tilestored
            (5, 0x4b) => self.note_wide(Sort::Tiles, 0, 8),
            (1, 0xae | 0xc7) if moves_state(insn) => {
                self.note(RAX);
                self.note(RDX);
                for register in [HEADER, HEADER_2] {
                    self.note_behind(register);
                }
            }
            _ => {}
        }
    }

    fn note_behind(&mut self, register: u8) {
        let at = usize::from(self.before + self.after);
        if let Some(place) = self.registers.get_mut(at) {
            *place = register;
            self.after += 1;
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
                self.note_behind(register);
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

    /// Noted in front of it, too, behind those: how many words are before each, and which it is.
    pub fn wide(&self) -> impl Iterator<Item = (usize, Wide)> + '_ {
        let mut at = usize::from(self.before);
        self.wide.iter().flatten().map(move |&wide| {
            let place = at;
            at += usize::from(wide.words);
            (place, wide)
        })
    }

    /// How many are noted in front of it.
    pub fn in_front(&self) -> usize {
        let wide = self.wide.iter().flatten();
        usize::from(self.before) + wide.map(|wide| usize::from(wide.words)).sum::<usize>()
    }

    /// Noted behind it: of a repeated string instruction RCX, and RDI or RSI; of one that saves or restores the
    /// extended state [`HEADER`] and [`HEADER_2`].
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
        self.in_front() + usize::from(self.after)
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Saves or restores the extended state, and what it saved or restored is known behind it: `xsave`, `xsavec`, `xrstor`.
/// (What `xsaveopt` leaves out nobody can tell.)
pub(super) fn moves_state(insn: &Insn) -> bool {
    let which = insn.modrm >> 3 & 7;
    let plain = !insn.has(prefix::OPSIZE | prefix::REP | prefix::REPNE | prefix::FS | prefix::GS);
    let moves = match insn.opcode {
        0xae => matches!(which, 4 | 5),
        0xc7 => which == 4,
        _ => false,
    };
    insn.space == 1 && insn.has_memory_operand() && plain && moves
}

/// Gathers and scatters: the index is a vector.
pub(super) fn has_vector_index(insn: &Insn) -> bool {
    match insn.space {
        5 | 8 => matches!(insn.opcode, 0x90..=0x93 | 0xa0..=0xa3 | 0xc6 | 0xc7),
        _ => false,
    }
}

/// In a head: what follows is an offset in the totals file. Without it, it is one from [`Ring::base`] on: so code that is
/// kept for other runs names its descriptions.
pub const ABSOLUTE: u64 = 1 << 46;

/// Where the block of a head is described: offset in the totals file, in words.
pub fn described(head: u64, base: u64) -> u64 {
    let place = head & ((1 << 48) - 1);
    match place & ABSOLUTE {
        0 => base + place,
        _ => place & !ABSOLUTE,
    }
}

/// How a run notes references.
#[derive(Clone, Copy, Debug)]
pub struct Noting {
    /// Where the block is going to be described, as a head says it ([`described`]).
    pub described: u64,
    /// Where the ring is in the thread's region.
    pub ring: u32,
    /// Where the number of the next word is in the context.
    pub position: u32,
    /// Entry of the runtime for a ring without room.
    pub vector: u32,
    /// The CPU and the kernel let programs read their FS base.
    pub reads_fs: bool,
    /// Masks have 64 bits (AVX512BW), not 16.
    pub wide_masks: bool,
    /// What is known to add nothing is left out.
    pub filter: Option<super::known::Filter>,
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
            (&[0x66, 0x0f, 0xf7, 0xc1], &[RDI], &[]), // maskmovdqu xmm0, xmm1
            (&[0x0f, 0xae, 0x26], &[RSI, RAX, RDX], &[HEADER, HEADER_2]), // xsave [rsi]
            (&[0x0f, 0xc7, 0x20], &[RAX, RDX], &[HEADER, HEADER_2]), // xsavec [rax]
            (&[0x0f, 0xae, 0x36], &[RSI], &[]),       // xsaveopt [rsi]
            (&[0x64, 0x0f, 0xae, 0x26], &[RSI, FS], &[]), // xsave fs:[rsi]
        ];
        for (code, before, after) in rows {
            let expected = (before.to_vec(), after.to_vec());
            assert_eq!(words(code), expected, "{code:02x?}");
        }
    }

    #[test]
    fn registers_that_choose() {
        let wide = |sort, register, words| Wide {
            sort,
            register,
            words,
        };
        type Row<'a> = (&'a [u8], &'a [(usize, Wide)]);
        let rows: &[Row<'_>] = &[
            // vpgatherdd ymm2, [rbx+ymm9*4], ymm0
            (
                &[0xc4, 0xa2, 0x7d, 0x90, 0x14, 0x8b],
                &[(1, wide(Sort::Avx, 9, 4)), (5, wide(Sort::Avx, 0, 4))],
            ),
            // vpscatterdd [rbx+zmm20*4]{k3}, zmm1
            (
                &[0x62, 0xf2, 0x7d, 0x43, 0xa0, 0x0c, 0xa3],
                &[(1, wide(Sort::Avx512, 20, 8)), (9, wide(Sort::Mask, 3, 1))],
            ),
            // vmaskmovps [rbx], ymm3, ymm1
            (
                &[0xc4, 0xe2, 0x65, 0x2e, 0x0b],
                &[(1, wide(Sort::Avx, 3, 4))],
            ),
            // vmovdqu8 zmm1{k7}, [rbx]; without a mask
            (
                &[0x62, 0xf1, 0x7f, 0x4f, 0x6f, 0x0b],
                &[(1, wide(Sort::Mask, 7, 1))],
            ),
            (&[0x62, 0xf1, 0x7f, 0x48, 0x6f, 0x0b], &[]),
            (&[0x66, 0x0f, 0xf7, 0xc1], &[(1, wide(Sort::Sse, 1, 2))]),
            (&[0x0f, 0xf7, 0xc1], &[(1, wide(Sort::Mmx, 1, 1))]),
            // tileloadd tmm1, [rax+rbx]
            (
                &[0xc4, 0xe2, 0x7b, 0x4b, 0x0c, 0x18],
                &[(2, wide(Sort::Tiles, 0, 8))],
            ),
        ];
        for (code, expected) in rows {
            let words = Words::of(&decode(code).unwrap(), code);
            let found: Vec<(usize, Wide)> = words.wide().collect();
            assert_eq!(found, *expected, "{code:02x?}");
            let long: usize = found.iter().map(|(_, wide)| usize::from(wide.words)).sum();
            assert_eq!(words.len(), words.before().count() + long);
        }
    }
}
