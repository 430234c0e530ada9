//! References that are known to add nothing are left out (`option::FILTERED`): where only lines, pages and how
//! references lie are asked for.
//!
//! What is counted then of a reference that was made before, by whatever instruction, is nothing: another one to the
//! same eight bytes, that lies in them as a whole, is aligned, and reads, or writes, as that one did, touches the same
//! line and the same block of the heap. Such a reference is *known*. In front of an instruction translated code looks
//! up its address in tables of the thread's ([`Class`]): an entry holds the address of the eight bytes (or of the longer
//! operand) that was noted last of those that share it. What is not known is noted in the ring with the number of its
//! instruction, and then is known. What the tables know of a block of the heap is forgotten when it is allocated.
//!
//! How often instructions were executed follows from the counters of their blocks; so blocks are not in the ring, which
//! is a row of records:
//!
//! | record | words |
//! |---|---|
//! | a reference | [`Record`]; the address |
//! | an instruction whose references are worked out from its registers | [`Record`]; the words of `Words::of` |
//! | marks | as without the tables |
//!
//! `core` only.

use super::block::Operand;
use super::insn::{Insn, Kind, prefix};
use super::operand_size::operand_size;

/// Bytes of the table of a class of references of up to eight bytes …
const NARROW: u32 = 1 << 20;
/// … and of longer ones.
const WIDE: u32 = 1 << 19;
/// Classes of up to eight bytes: by what is done, and whether the stack pointer leads there.
const NARROWS: u32 = 6;
/// Classes.
pub const CLASSES: usize = 14;
/// Where a slot's tables are in its region.
pub const AT: u64 = 50 << 20;
/// Where they end.
pub const END: u64 = AT + BYTES;
/// Bytes of all tables.
pub const BYTES: u64 =
    NARROWS as u64 * NARROW as u64 + (CLASSES as u64 - NARROWS as u64) * WIDE as u64;
/// Bytes of a piece of a table that is cleared as a whole.
pub const PIECE: u32 = NARROW / 64;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Read.
    Load,
    /// Written.
    Store,
    /// Both.
    Modify,
}

/// References that are looked up in the same table; the stack's are apart, as their pages are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(pub u8);

impl Class {
    /// Of references of `size` bytes; `None`: none of these is ever known.
    pub const fn of(size: u8, does: Does, stack: bool) -> Option<Self> {
        let stack = stack as u8;
        let wide = match size {
            1 | 2 | 4 | 8 => return Some(Self(does as u8 * 2 + stack)),
            16 => 0,
            32 => 1,
            _ => return None,
        };
        match does {
            Does::Load => Some(Self(NARROWS as u8 + wide * 4 + stack)),
            Does::Store => Some(Self(NARROWS as u8 + wide * 4 + 2 + stack)),
            Does::Modify => None,
        }
    }

    /// Where its table is in a thread's region.
    pub const fn table(self) -> u32 {
        let number = self.0 as u32;
        AT as u32
            + match number.checked_sub(NARROWS) {
                None => number * NARROW,
                Some(wide) => NARROWS * NARROW + wide * WIDE,
            }
    }

    /// Bytes of its table.
    pub const fn bytes(self) -> u32 {
        if (self.0 as u32) < NARROWS {
            NARROW
        } else {
            WIDE
        }
    }

    /// Bits of an address that choose an entry: where it is in the table.
    pub const fn mask(self) -> u32 {
        self.bytes() - 8
    }
}

/// A reference's address and size, as the instruction says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simple {
    /// Where.
    pub at: At,
    /// Bytes.
    pub size: u8,
    /// What is done.
    pub does: Does,
    /// The stack pointer leads there.
    pub stack: bool,
}

/// Where a reference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At the operand in `ModRM`.
    Operand,
    /// So far from the stack pointer.
    Stack(i8),
    /// At RBP (`leave`).
    Frame,
}

/// The references of an instruction in order, if they are no others: not repeated, nothing chosen by a mask, no address
/// that does not follow from its registers.
pub fn simple(insn: &Insn, code: &[u8], reads_fs: bool) -> Option<[Option<Simple>; 2]> {
    if insn.has(prefix::ADDRSIZE | prefix::GS) || insn.has(prefix::FS) && !reads_fs {
        return None;
    }
    let stack = |away, does| Simple {
        at: At::Stack(away),
        size: 8,
        does,
        stack: true,
    };
    let implied = match (insn.space, insn.opcode) {
        _ if insn.has(prefix::OPSIZE) => None,
        (0, 0x50..=0x57 | 0x68 | 0x6a | 0x9c | 0xe8) => Some(stack(-8, Does::Store)),
        (0, 0x58..=0x5f | 0x9d | 0xc2 | 0xc3) => Some(stack(0, Does::Load)),
        (0, 0xc9) => Some(Simple {
            at: At::Frame,
            stack: false,
            ..stack(0, Does::Load)
        }),
        (0, 0xff) if insn.kind == Kind::CallInd || insn.modrm >> 3 & 7 == 6 => {
            Some(stack(-8, Does::Store))
        }
        _ => None,
    };
    if !insn.has_memory_operand() {
        return Some([Some(implied?), None]);
    }
    let size = operand_size(insn, code)?;
    let does = match (insn.is_load(), insn.is_store()) {
        _ if implied.is_some() => Does::Load,
        (true, true) => Does::Modify,
        (false, true) => Does::Store,
        _ => Does::Load,
    };
    let operand = Operand::of(insn, code);
    // Three words make its address: who reads the ring has a form for two.
    if insn.has(prefix::FS) && operand.base.is_some() && operand.index.is_some() {
        return None;
    }
    // The bit may lie in another word.
    if insn.space == 1 && matches!(insn.opcode, 0xa3 | 0xab | 0xb3 | 0xbb) {
        return None;
    }
    let first = Simple {
        at: At::Operand,
        size,
        does,
        stack: operand.base == Some(4),
    };
    Some([Some(first), implied])
}

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record(pub u64);

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// A reference; what it does.
    Reference(Does),
    /// An instruction with so many words.
    Instruction(usize),
}

impl Record {
    const NUMBER: u32 = 48;
    const COUNT: u32 = 54;
    const REFERENCE: u64 = 1 << 60;
    const INSTRUCTION: u64 = 2 << 60;
    /// It was not executed: it says nothing.
    pub const CANCELLED: u64 = 1 << 62;
    /// It is a string instruction that was interrupted; what it did so far counts.
    pub const INTERRUPTED: u64 = 1 << 63;

    /// For a reference of the instruction `number` of the block that is described there.
    pub fn reference(described: u64, number: usize, does: Does) -> Self {
        Self(
            Self::REFERENCE
                | described
                | (number as u64) << Self::NUMBER
                | (does as u64) << Self::COUNT,
        )
    }

    /// For an instruction with so many words.
    pub fn instruction(described: u64, number: usize, words: usize) -> Self {
        Self(
            Self::INSTRUCTION
                | described
                | (number as u64) << Self::NUMBER
                | (words as u64) << Self::COUNT,
        )
    }

    /// Where the block is described.
    pub fn described(self) -> u64 {
        self.0 & ((1 << 47) - 1)
    }

    /// The instruction's number in its block.
    pub fn number(self) -> usize {
        (self.0 >> Self::NUMBER) as usize & 63
    }

    /// What it is; `None`: it makes no sense.
    pub fn is(self) -> Option<Is> {
        let count = (self.0 >> Self::COUNT) as usize & 63;
        match self.0 & (3 << 60) {
            Self::REFERENCE => Some(Is::Reference(match count {
                0 => Does::Load,
                1 => Does::Store,
                _ => Does::Modify,
            })),
            Self::INSTRUCTION => Some(Is::Instruction(count)),
            _ => None,
        }
    }

    /// Words behind it.
    pub fn words(self) -> usize {
        match self.is() {
            Some(Is::Instruction(words)) => words,
            _ => 1,
        }
    }
}

/// What cold code says of a reference to the runtime's routine: in the code itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Literal {
    /// The record's first word.
    pub record: u64,
    /// Where it goes on, from here …
    pub back: i32,
    /// … and where it comes again, once the ring has room.
    pub again: i32,
    /// The block's counter, in the thread's region.
    pub counter: u32,
    /// See [`Class`].
    pub class: u8,
    /// Bits of an address that are 0 where the reference is aligned.
    pub unaligned: u8,
    /// Nothing.
    pub rest: u16,
}

/// Where the pieces for this are in a thread's context.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// The address that is noted.
    pub address: u32,
    /// Address of the [`Literal`].
    pub literal: u32,
    /// Flags' register meanwhile.
    pub spill: u32,
    /// Entry of the runtime for a reference that is not known …
    pub vector_note: u32,
    /// … and for an instruction's record, which needs room.
    pub vector_room: u32,
    /// The program's FS base can be read.
    pub reads_fs: bool,
}

/// The thread's part of it: in its context.
#[repr(C)]
pub struct Known {
    /// See [`Filter`].
    pub address: u64,
    /// See [`Filter`].
    pub literal: u64,
    /// Where the routine goes back to.
    pub resume: u64,
    /// The block's counter when a reference was noted last …
    pub seen: u64,
    /// … and how many were noted since it is so.
    pub since: u64,
    /// Registers on the way.
    pub spill: [u64; 5],
    /// See [`Filter`].
    pub vector_note: u64,
    /// See [`Filter`].
    pub vector_room: u64,
    /// By class: pieces of its table with entries.
    pub used: [u64; CLASSES],
    /// Allocations of the process that this thread's tables know of.
    pub allocations: u64,
}
