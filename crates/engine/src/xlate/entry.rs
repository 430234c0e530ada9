//! Entries for indirect branches: a check that the branch meant this block.
//!
//! A table indexed by the low 16 bits of the target holds entry addresses; the
//! entry compares the full target and goes on to the next block of the same
//! bucket where it differs. So a table slot is one word and needs no lock.

use super::decode::{Insn, Kind};
use super::emit::{Buffer, RCX, SCRATCH};

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
    /// A thread whose fuel is used up.
    pub vector_turn: u32,
    /// In front of a block with a hook.
    pub vector_hook: u32,
    /// Backward branches until then.
    pub fuel: u32,
    /// Not 0 during system calls.
    pub whole: u32,
    /// What is counted for a tree of calls beside instructions: consecutive words.
    pub events: u32,
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
/// with the register spoilt as it came. Returns the address of the displacement
/// to `miss`.
///
/// Flags stay as they are: after a miss they are those of a block that may want
/// them. The table's index was the low word of the target, so the 32 bits above
/// it decide; what is above bit 48 is zero in any address that can be executed.
///
/// The load begins where the whole address was stored: some CPUs (Zen 4) forward a store to a load inside of it that
/// begins elsewhere only after it has left for the cache, and every return then waits. `rotates`: the CPU has `rorx`
/// (BMI2), which takes the word out of such a load and leaves the flags.
pub fn emit_entry(
    code: &mut Buffer<'_>,
    offsets: &Offsets,
    rotates: bool,
    via: Via,
    pc: u64,
    miss: u64,
) -> u64 {
    // Where RCX is not the register that was spoilt on the way, that one keeps it.
    let keeper = match via {
        Via::Register(reg) if reg != RCX => Some(reg),
        _ => None,
    };
    if let Some(keeper) = keeper {
        code.move_register(keeper, RCX);
    }
    match (via, rotates) {
        // rorx rcx, [rsp-8], 16
        (Via::Ret, true) => code.put(&[0xc4, 0xe3, 0xfb, 0xf0, 0x4c, 0x24, 0xf8, 16]),
        (Via::Ret, false) => code.put(&[0x8b, 0x4c, 0x24, 0xfa]), // mov ecx, [rsp-6]
        (_, true) => {
            // rorx rcx, gs:[target], 16
            code.put(&[0x65, 0xc4, 0xe3, 0xfb, 0xf0, 0x0c, 0x25]);
            code.put(&offsets.target.to_le_bytes());
            code.put(&[16]);
        }
        (_, false) => code.load_gs32(offsets.target + 2, RCX),
    }
    code.put(&[0x8d, 0x89]); // lea ecx, [rcx+displacement]
    code.put(&((pc >> 16) as u32).wrapping_neg().to_le_bytes());
    code.put(&[0xe3]); // jrcxz found
    let displacement = code.here();
    code.put(&[0]);
    if let Some(keeper) = keeper {
        code.move_register(RCX, keeper);
    }
    let patch = code.jmp(miss);
    let found = code.here().wrapping_sub(displacement + 1) as u8;
    code.patch8(displacement, found);
    match via {
        Via::Ret | Via::Memory => code.load_gs(offsets.spill, SCRATCH),
        Via::Register(reg) => {
            if let Some(keeper) = keeper {
                code.move_register(RCX, keeper);
            }
            code.mov_imm(reg, pc);
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of an entry, and its length.
    fn entry(via: Via, rotates: bool) -> ([u8; 64], usize) {
        let offsets = Offsets {
            count: 0,
            lanes: 0,
            spill: 0x40,
            target: 0x48,
            spill_2: 0x50,
            exit_id: 0,
            vector_exit: 0,
            vector_syscall: 0,
            vector_special: 0,
            vector_turn: 0,
            vector_hook: 0,
            fuel: 0,
            whole: 0,
            events: 0,
        };
        let mut bytes = [0; 64];
        let mut code = Buffer::new(&mut bytes, 0x1000);
        emit_entry(&mut code, &offsets, rotates, via, 0x7fff_f7d1_2345, 0x2000);
        assert!(!code.overflowed());
        let len = code.len();
        (bytes, len)
    }

    #[test]
    fn an_address_is_loaded_from_where_it_was_stored() {
        // rorx rcx, [rsp-8], 16 and rorx rcx, gs:[0x48], 16
        let (bytes, _) = entry(Via::Ret, true);
        assert_eq!(bytes[..8], [0xc4, 0xe3, 0xfb, 0xf0, 0x4c, 0x24, 0xf8, 0x10]);
        let (bytes, _) = entry(Via::Memory, true);
        assert_eq!(
            bytes[..12],
            [
                0x65, 0xc4, 0xe3, 0xfb, 0xf0, 0x0c, 0x25, 0x48, 0, 0, 0, 0x10
            ]
        );
        // mov ecx, [rsp-6]
        let (bytes, _) = entry(Via::Ret, false);
        assert_eq!(bytes[..4], [0x8b, 0x4c, 0x24, 0xfa]);
    }

    #[test]
    fn an_entry_goes_on_behind_its_way_to_the_next() {
        for rotates in [false, true] {
            for via in [Via::Ret, Via::Memory, Via::Register(0), Via::Register(1)] {
                let (bytes, len) = entry(via, rotates);
                let branch = bytes.iter().position(|&byte| byte == 0xe9).unwrap();
                // (0xe3 is in the encoding of `rorx`, too.)
                let jump = bytes[..branch].iter().rposition(|&byte| byte == 0xe3);
                let jump = jump.unwrap();
                let target = jump + 2 + usize::from(bytes[jump + 1]);
                assert!(target == branch + 5 && target < len, "{via:?} {bytes:02x?}");
            }
        }
    }
}
