//! Entries for indirect branches: a check that the branch meant this block.
//!
//! A table indexed by the low 16 bits of the target holds entry addresses; the
//! entry compares the full target and goes on to the next block of the same
//! bucket where it differs. So a table slot is one word and needs no lock.

use super::emit::{Buffer, RAX, RCX};

/// Offsets of context fields that translated code uses.
#[derive(Clone, Copy, Debug)]
pub struct Offsets {
    /// The count.
    pub count: u32,
    /// The eight words whose sum is the count, for `rdpmc`.
    pub lanes: u32,
    /// RAX's place.
    pub spill_rax: u32,
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
    /// Return not in the table.
    pub vector_miss_ret: u32,
    /// Jump not in the table.
    pub vector_miss_jump: u32,
}

/// Which table an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A `ret`: the target is just below the stack pointer.
    Ret,
    /// A jump or call: the target is in the context.
    Jump,
}

/// Writes an entry that checks for `pc`; where it differs, it goes to `miss`
/// with RAX still spilled. Returns the address of the displacement to `miss`.
pub fn emit_entry(
    code: &mut Buffer<'_>,
    offsets: &Offsets,
    via: Via,
    pc: u64,
    flags_live: bool,
    miss: u64,
) -> u64 {
    if flags_live {
        code.store_gs(offsets.spill_2, RCX);
        code.mov_imm(RCX, pc.wrapping_neg());
        match via {
            Via::Ret => code.put(&[0x48, 0x8b, 0x44, 0x24, 0xf8]), // mov rax, [rsp-8]
            Via::Jump => code.load_gs(offsets.target, RAX),
        }
        code.put(&[0x48, 0x8d, 0x0c, 0x01]); // lea rcx, [rcx+rax]
        code.put(&[0xe3]); // jrcxz found
        let displacement = code.here();
        code.put(&[0]);
        code.load_gs(offsets.spill_2, RCX);
        let patch = code.jmp(miss);
        let found = code.here().wrapping_sub(displacement + 1) as u8;
        code.patch8(displacement, found);
        code.load_gs(offsets.spill_2, RCX);
        code.load_gs(offsets.spill_rax, RAX);
        patch
    } else {
        if let Ok(small) = i32::try_from(pc as i64) {
            match via {
                Via::Ret => code.put(&[0x48, 0x81, 0x7c, 0x24, 0xf8]), // cmp [rsp-8], imm
                Via::Jump => {
                    code.put(&[0x65, 0x48, 0x81, 0x3c, 0x25]); // cmp gs:[target], imm
                    code.put(&offsets.target.to_le_bytes());
                }
            }
            code.put(&small.to_le_bytes());
        } else {
            code.mov_imm(RAX, pc);
            match via {
                Via::Ret => code.put(&[0x48, 0x39, 0x44, 0x24, 0xf8]), // cmp [rsp-8], rax
                Via::Jump => {
                    code.put(&[0x65, 0x48, 0x39, 0x04, 0x25]); // cmp gs:[target], rax
                    code.put(&offsets.target.to_le_bytes());
                }
            }
        }
        let patch = code.jcc(5, miss); // jne
        code.load_gs(offsets.spill_rax, RAX);
        patch
    }
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
