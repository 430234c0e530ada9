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
    /// A jump or call through RAX or RDX, which holds the target; the scratch register is spilled. Or through
    /// RCX, which is to hold the target again: that is in the context.
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

/// What entries may use on this CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// It has `rorx` (BMI2), which takes a word out of a register or a longer one in memory and leaves the flags.
    pub rotates: bool,
    /// Its `loop` costs no more than another branch that is not taken (AMD since Zen).
    pub loops: bool,
}

/// Where an entry begins, and the address of the displacement to what follows in its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryCode {
    /// The entry.
    pub at: u64,
    /// The displacement.
    pub patch: u64,
}

/// Writes an entry that checks for `pc`, with room for its number in front of it; where the target differs, it goes
/// to `miss` with the register spoilt as it came.
///
/// Flags stay as they are: after a miss they are those of a block that may want
/// them. The table's index was the low word of the target, so the 32 bits above
/// it decide; what is above bit 48 is zero in any address that can be executed.
///
/// The load begins where the whole address was stored: some CPUs (Zen 4) forward a store to a load inside of it that
/// begins elsewhere only after it has left for the cache, and every return then waits.
///
/// `jrcxz` is taken where the target is the right one, and a branch that is taken costs some cycles where others are
/// near. With `loop` the way through is straight.
pub fn emit_entry(
    code: &mut Buffer<'_>,
    offsets: &Offsets,
    ways: Ways,
    via: Via,
    pc: u64,
    miss: u64,
) -> EntryCode {
    let mut patch = 0;
    let onward = code.here();
    if ways.loops {
        patch = code.jmp(miss);
    }
    code.put(&NUMBER);
    let at = code.here();
    match (via, ways.rotates) {
        // rorx rcx, [rsp-8], 16
        (Via::Ret, true) => code.put(&[0xc4, 0xe3, 0xfb, 0xf0, 0x4c, 0x24, 0xf8, 16]),
        (Via::Ret, false) => code.put(&[0x8b, 0x4c, 0x24, 0xfa]), // mov ecx, [rsp-6]
        // rorx rcx, reg, 16
        (Via::Register(reg), true) if reg != RCX => {
            code.put(&[0xc4, 0xe3, 0xfb, 0xf0, 0xc8 | reg & 7, 16]);
        }
        (Via::Register(reg), false) if reg != RCX => {
            code.store_gs(offsets.target, reg);
            code.load_gs32(offsets.target + 2, RCX);
        }
        (_, true) => {
            // rorx rcx, gs:[target], 16
            code.put(&[0x65, 0xc4, 0xe3, 0xfb, 0xf0, 0x0c, 0x25]);
            code.put(&offsets.target.to_le_bytes());
            code.put(&[16]);
        }
        (_, false) => code.load_gs32(offsets.target + 2, RCX),
    }
    let high = (pc >> 16) as u32;
    code.put(&[0x8d, 0x89]); // lea ecx, [rcx+displacement]
    if ways.loops {
        // 1, which `loop` takes down to 0, if it is this one.
        code.put(&1u32.wrapping_sub(high).to_le_bytes());
        let back = onward.wrapping_sub(code.here() + 2) as u8;
        code.put(&[0xe2, back]);
    } else {
        code.put(&high.wrapping_neg().to_le_bytes());
        let found = code.jrcxz();
        patch = code.jmp(miss);
        code.land(found);
    }
    match via {
        Via::Register(RCX) => code.mov_imm(RCX, pc),
        _ => code.load_gs(offsets.spill, SCRATCH),
    }
    EntryCode { at, patch }
}

/// In front of an entry's code: its number, so that the table is all there is to know of a bucket.
pub const NUMBER: [u8; 4] = [0; 4];

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of an entry, and its length.
    fn entry(via: Via, ways: Ways) -> (EntryCode, [u8; 64], usize) {
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
        let at = emit_entry(&mut code, &offsets, ways, via, 0x7fff_f7d1_2345, 0x2000);
        assert!(!code.overflowed());
        let len = code.len();
        (at, bytes, len)
    }

    const ALL: [Ways; 4] = [
        Ways {
            rotates: false,
            loops: false,
        },
        Ways {
            rotates: true,
            loops: false,
        },
        Ways {
            rotates: false,
            loops: true,
        },
        Ways {
            rotates: true,
            loops: true,
        },
    ];

    #[test]
    fn an_address_is_loaded_from_where_it_was_stored() {
        for ways in ALL {
            let code = |via| {
                let (entry, bytes, _) = entry(via, ways);
                let at = (entry.at - 0x1000) as usize;
                assert_eq!(bytes[at - 4..at], NUMBER);
                bytes[at..].to_vec()
            };
            if !ways.rotates {
                // mov ecx, [rsp-6]
                assert_eq!(code(Via::Ret)[..4], [0x8b, 0x4c, 0x24, 0xfa]);
                continue;
            }
            // rorx rcx, [rsp-8], 16; rorx rcx, gs:[0x48], 16; rorx rcx, rdx, 16
            let ret = [0xc4, 0xe3, 0xfb, 0xf0, 0x4c, 0x24, 0xf8, 0x10];
            assert_eq!(code(Via::Ret)[..8], ret);
            let memory = [
                0x65, 0xc4, 0xe3, 0xfb, 0xf0, 0x0c, 0x25, 0x48, 0, 0, 0, 0x10,
            ];
            assert_eq!(code(Via::Memory)[..12], memory);
            assert_eq!(code(Via::Register(1))[..12], memory);
            let register = [0xc4, 0xe3, 0xfb, 0xf0, 0xca, 0x10];
            assert_eq!(code(Via::Register(2))[..6], register);
        }
    }

    #[test]
    fn an_entry_goes_on_behind_its_way_to_the_next() {
        for ways in ALL {
            for via in [Via::Ret, Via::Memory, Via::Register(0), Via::Register(1)] {
                let (entry, bytes, len) = entry(via, ways);
                let (at, patch) = (
                    (entry.at - 0x1000) as usize,
                    (entry.patch - 0x1000) as usize,
                );
                let miss = u32::from_le_bytes(bytes[patch..patch + 4].try_into().unwrap());
                assert_eq!(
                    (bytes[patch - 1], miss),
                    (0xe9, 0x2000 - 0x1004 - patch as u32)
                );
                // Behind `lea ecx, [rcx+…]`.
                let lea = bytes
                    .windows(2)
                    .position(|pair| pair == [0x8d, 0x89])
                    .unwrap();
                let distance = u32::from_le_bytes(bytes[lea + 2..lea + 6].try_into().unwrap());
                let high = 0x7fff_f7d1_u32;
                let [branch, by] = bytes[lea + 6..lea + 8] else {
                    panic!()
                };
                let target = (lea + 8).wrapping_add_signed(isize::from(by as i8));
                if ways.loops {
                    assert_eq!((branch, high.wrapping_add(distance)), (0xe2, 1));
                    assert!(
                        patch < at
                            && target <= patch
                            && bytes[target..patch - 1].iter().all(|&b| b == 0x2e)
                    );
                } else {
                    assert_eq!((branch, high.wrapping_add(distance)), (0xe3, 0));
                    assert!(target == patch + 4 && target < len);
                }
            }
        }
    }
}
