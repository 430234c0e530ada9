//! References whose addresses and sizes an instruction says itself.
//!
//! `core` only.

use super::block::{Operand, is_absolute};
use super::insn::{Insn, Kind, prefix};
use super::operand_size::{accumulator_size, operand_size};

/// What was done with eight bytes of memory: bits of their shadow.
pub mod did {
    /// They were read …
    pub const LOADED: u8 = 1;
    /// … or written, or some of them.
    pub const STORED: u8 = 2;
    /// The same, through the stack pointer.
    pub const STACK_LOADED: u8 = 4;
    /// The same, through the stack pointer.
    pub const STACK_STORED: u8 = 8;
    /// They were read before the block of the heap was allocated, or free, that was last …
    pub const WAS_LOADED: u8 = 16;
    /// … or written …
    pub const WAS_STORED: u8 = 32;
    /// … through the stack pointer.
    pub const WAS_STACK: u8 = 64;
    /// They are in a block of the heap that is not large (`heap::LARGE`).
    pub const BLOCK: u8 = 128;
}

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

impl Simple {
    /// What it does: see [`did`].
    pub const fn bits(&self) -> u8 {
        let bits = match self.does {
            Does::Load => did::LOADED,
            Does::Store => did::STORED,
            Does::Modify => did::LOADED | did::STORED,
        };
        if self.stack { bits << 2 } else { bits }
    }
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
    /// At the address in the instruction.
    Absolute,
}

/// The references of an instruction in order, if they are no others: not repeated, nothing chosen by a mask, no address
/// that does not follow from its registers.
pub fn simple(insn: &Insn, code: &[u8], reads_fs: bool) -> Option<[Option<Simple>; 2]> {
    if insn.has(prefix::ADDRSIZE | prefix::GS) || insn.has(prefix::FS) && !reads_fs {
        return None;
    }
    if is_absolute(insn) {
        let one = Simple {
            at: At::Absolute,
            size: accumulator_size(insn),
            does: if insn.opcode & 2 == 0 {
                Does::Load
            } else {
                Does::Store
            },
            stack: false,
        };
        return (!insn.has(prefix::FS)).then_some([Some(one), None]);
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

/// The only reference of an instruction, if its address is the sum of an operand's registers: so it can be worked out again.
pub fn alone(insn: &Insn, references: &[Option<Simple>; 2]) -> Option<Simple> {
    // (What `pop` goes to is worked out with the stack pointer behind it.)
    let pops = insn.space == 0 && insn.opcode == 0x8f;
    match *references {
        [Some(one), None] if one.at == At::Operand => {
            (!pops && !insn.is_rip_relative() && !insn.has(prefix::FS)).then_some(one)
        }
        _ => None,
    }
}
