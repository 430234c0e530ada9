//! Entries for indirect branches: a check that the branch meant this block.
//!
//! A table indexed by the low 16 bits of the target holds entry addresses; the
//! entry compares the full target and goes on to the next block of the same
//! bucket where it differs. So a table slot is one word and needs no lock.

use super::decode::{Insn, Kind};
use super::emit::{Buffer, R11, RCX, SCRATCH};

/// Offsets of context fields that translated code uses.
#[derive(Clone, Copy, Debug)]
pub struct Offsets {
    /// The count.
    pub count: u32,
    /// The eight words whose sum is the count, for `rdpmc`.
    pub lanes: u32,
    /// Place of a spilled register, mostly RCX.
    pub spill: u32,
    /// Target in flight.
    pub target: u32,
    /// Second spilled register's place.
    pub spill_2: u32,
    /// Exit taken.
    pub exit_id: u32,
    /// Runtime entries.
    pub vector_exit: u32,
    /// System calls.
    pub vector_syscall: u32,
    /// Other instructions.
    pub vector_special: u32,
}

/// Bytes of one table: 65,536 addresses.
pub const TABLE_BYTES: u32 = 65_536 * 8;

/// How an indirect branch finds its target: each way has a table of its own,
/// and entries of its own, because they find the target in different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A `ret`: the target is just below the stack pointer; the scratch
    /// register is spilled.
    Ret,
    /// A jump or call through memory or another register: the target is in the context; the scratch
    /// register is spilled.
    Memory,
    /// A jump or call through RAX, RCX or RDX: the target is in the context, and
    /// the register, spoilt on the way, is to hold it.
    Register(u8),
}

impl Via {
    /// How many there are.
    pub const COUNT: usize = 5;
    /// Number of the table, counted from 0.
    pub fn number(self) -> usize {
        match self {
            Self::Ret => 0,
            Self::Memory => 1,
            Self::Register(reg) => 2 + usize::from(reg & 3),
        }
    }
    /// The way that an indirect branch goes.
    pub fn of(insn: &Insn) -> Option<Self> {
        match insn.kind {
            Kind::Ret if insn.opcode == 0xc3 => Some(Self::Ret),
            // `ret n` leaves its target too far below the stack pointer.
            Kind::Ret => Some(Self::Memory),
            Kind::JmpInd | Kind::CallInd => {
                let reg = (insn.modrm & 7) | (insn.rex & 1) << 3;
                // Switches and calls mostly use these; a table a register has its price.
                if insn.modrm >= 0xc0 && reg < 3 {
                    Some(Self::Register(reg))
                } else {
                    Some(Self::Memory)
                }
            }
            _ => None,
        }
    }
}

/// Writes an entry that checks for `pc`; where it differs, it goes to `miss`
/// with the register as it came. Returns the address of the displacement to
/// `miss`.
pub fn emit_entry(
    code: &mut Buffer<'_>,
    offsets: &Offsets,
    via: Via,
    pc: u64,
    flags_live: bool,
    miss: u64,
) -> u64 {
    let reg = match via {
        Via::Ret | Via::Memory => SCRATCH,
        Via::Register(reg) => reg,
    };
    if flags_live {
        // RCX decides; where it is the register itself, R11 carries the target.
        let (kept, carrier) = if reg == RCX { (R11, R11) } else { (RCX, reg) };
        code.store_gs(offsets.spill_2, kept);
        match via {
            // mov r11, [rsp-8]
            Via::Ret => code.put(&[0x4c, 0x8b, 0x5c, 0x24, 0xf8]),
            _ => code.load_gs(offsets.target, carrier),
        }
        code.mov_imm(RCX, pc.wrapping_neg());
        // lea rcx, [rcx+carrier]
        code.put(&[
            0x48 | (carrier >> 3) << 1,
            0x8d,
            0x0c,
            0x01 | (carrier & 7) << 3,
        ]);
        code.put(&[0xe3]); // jrcxz found
        let displacement = code.here();
        code.put(&[0]);
        code.load_gs(offsets.spill_2, kept);
        let patch = code.jmp(miss);
        let found = code.here().wrapping_sub(displacement + 1) as u8;
        code.patch8(displacement, found);
        code.load_gs(offsets.spill_2, kept);
        match via {
            Via::Ret | Via::Memory => code.load_gs(offsets.spill, SCRATCH),
            Via::Register(RCX) => code.mov_imm(RCX, pc),
            // It holds what was compared.
            Via::Register(_) => {}
        }
        return patch;
    }
    code.mov_imm(reg, pc);
    match via {
        Via::Ret => code.put(&[0x48, 0x39, 0x4c, 0x24, 0xf8]), // cmp [rsp-8], rcx
        _ => code.compare_gs(offsets.target, reg),
    }
    let patch = code.jcc(5, miss); // jne
    if !matches!(via, Via::Register(_)) {
        code.load_gs(offsets.spill, SCRATCH);
    }
    patch
}

/// System calls that mean something to an event's descriptor: read, lseek,
/// ioctl, pread64, readv, preadv, preadv2. Plain ones on any other.
pub fn is_descriptor_syscall(number: u64) -> bool {
    matches!(number, 0 | 8 | 16 | 17 | 19 | 295 | 327)
}

/// System calls that pass through untouched: none of those that the runtime
/// must see (threads, images, signals, mappings, GS, counters).
pub fn is_plain_syscall(number: u64) -> bool {
    !matches!(
        number,
        2 | 5 | 257 | 262 // open fstat openat newfstatat: the list of mappings
            | 9 | 10 | 11 | 12 | 13 | 14 | 15 | 25 // mmap mprotect munmap brk rt_sig* mremap
            | 29..=31 | 67                   // shmat shmget shmctl shmdt
            | 56..=60                        // clone fork vfork execve exit
            | 131                            // sigaltstack
            | 157 | 158                      // prctl arch_prctl
            | 231                            // exit_group
            | 298                            // perf_event_open
            | 317                            // seccomp
            | 322                            // execveat
            | 329                            // pkey_mprotect
            | 334                            // rseq
            | 435                            // clone3
            | 453                            // map_shadow_stack
    ) && number < 512
}
