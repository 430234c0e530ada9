//! What one retired instruction adds to each event: the static facts that, times
//! the executions of its block, give every count but the taken branches.
//!
//! The events follow Intel's architectural ones, with the kernel's far transfers
//! left out (perfmon event lists, `BR_INST_RETIRED.*`, `MEM_INST_RETIRED.*`):
//!
//! | event | an instruction counts when it is |
//! |---|---|
//! | instructions | any |
//! | branches | a near branch: `jcc`, `loop`, `jrcxz`, `jmp`, `call`, `ret` (no `syscall`) |
//! | conditional-branches | `jcc`, `loop`, `loope`, `loopne`, `jrcxz`, taken or not |
//! | indirect-branches | `jmp` or `call` through a register or memory; no `ret` |
//! | calls | a near `call`, direct or indirect |
//! | returns | a near `ret` |
//! | loads | one that reads data memory: operands, `pop`, `ret`, `leave`; a repeated string instruction is one; prefetches are not |
//! | stores | one that writes data memory: operands, `push`, `call`; read-modify-write is a load and a store |
//! | locked | one with a `lock` prefix, or `xchg` with memory (locked without one) |
//! | vector-instructions | one that names an MMX, SSE, AVX or AVX-512 register |
//!
//! Memory and register facts come from the generated `table`. `core` only.

use super::insn::{Insn, Kind, prefix};
use super::known::{Does, Simple};

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Event {
    /// Every retired instruction.
    Instructions = 0,
    /// Near branches of every kind.
    Branches = 1,
    /// Conditional ones, taken or not.
    ConditionalBranches = 2,
    /// Jumps and calls through a register or memory.
    IndirectBranches = 3,
    /// Near calls.
    Calls = 4,
    /// Near returns.
    Returns = 5,
    /// Instructions that read data memory.
    Loads = 6,
    /// Instructions that write data memory.
    Stores = 7,
    /// Atomic read-modify-writes.
    Locked = 8,
    /// Instructions with a vector register.
    VectorInstructions = 9,
}

/// How many events there are.
pub const EVENTS: usize = 10;

/// One count of each event, in the order of [`Event::ALL`].
pub type Counts = [u64; EVENTS];

impl Event {
    /// All, in order.
    pub const ALL: [Self; EVENTS] = [
        Self::Instructions,
        Self::Branches,
        Self::ConditionalBranches,
        Self::IndirectBranches,
        Self::Calls,
        Self::Returns,
        Self::Loads,
        Self::Stores,
        Self::Locked,
        Self::VectorInstructions,
    ];

    /// The name, without the `:u` that all have.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Branches => "branches",
            Self::ConditionalBranches => "conditional-branches",
            Self::IndirectBranches => "indirect-branches",
            Self::Calls => "calls",
            Self::Returns => "returns",
            Self::Loads => "loads",
            Self::Stores => "stores",
            Self::Locked => "locked",
            Self::VectorInstructions => "vector-instructions",
        }
    }

    /// Whether an instruction with these facts counts.
    pub fn counts(self, facts: Facts) -> bool {
        self == Self::Instructions || facts.0 >> (3 + self as u8) & 1 != 0
    }
}

/// In the place of an event's number, in a tree of calls with `option::RECENT`: references that read, or read and write …
pub const READS: u8 = 64;
/// … and those that write only; of instructions whose references follow from them ([`super::known::simple`]).
pub const WRITES: u8 = 65;
/// As [`READS`], of those that read only …
pub const READS_ONLY: u8 = 66;
/// … and those that write, or read and write.
pub const ALL_WRITES: u8 = 67;

/// Bytes of those that read …
pub const LOAD_BYTES: u8 = 68;
/// … and that write …
pub const STORE_BYTES: u8 = 69;
/// … and branches that are always taken. (Who translates adds conditional ones that are.)
pub const TAKEN: u8 = 70;

/// What an instruction with these facts adds; `number`: of an [`Event`], or one of those above.
pub fn adds(number: u8, facts: Facts) -> u16 {
    match number {
        LOAD_BYTES => facts.bytes(Facts::BYTES[0]),
        STORE_BYTES => facts.bytes(Facts::BYTES[1]),
        _ => counts(number, facts).into(),
    }
}

/// Whether it counts.
fn counts(number: u8, facts: Facts) -> bool {
    let is = |event: Event| event.counts(facts);
    let follows = facts.0 & Facts::FOLLOWS != 0;
    let modifies = facts.0 & Facts::MODIFIES != 0;
    match number {
        READS => follows && is(Event::Loads),
        WRITES => follows && is(Event::Stores) && !modifies,
        READS_ONLY => follows && is(Event::Loads) && !modifies,
        ALL_WRITES => follows && is(Event::Stores),
        TAKEN => is(Event::Branches) && !is(Event::ConditionalBranches),
        _ => Event::ALL
            .get(usize::from(number))
            .is_some_and(|&event| is(event)),
    }
}

/// Facts of one instruction: its length in bits 0 to 3, one bit an event above; then [`Facts::with_references`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Facts(pub u32);

impl Facts {
    /// Its references follow from it alone.
    const FOLLOWS: u32 = 1 << 13;
    /// The operand that it reads is the one that it writes.
    const MODIFIES: u32 = 1 << 14;
    /// Where its bytes are said that it reads, and writes: 0: none, else one more than their binary logarithm.
    const BYTES: [u32; 2] = [15, 18];

    /// With what [`adds`] has to know of its references, if they follow from it alone.
    #[must_use]
    pub fn with_references(self, references: Option<[Option<Simple>; 2]>) -> Self {
        let Some(all) = references else { return self };
        let modifies = |one: &Simple| one.does == Does::Modify;
        let modifies = all.iter().flatten().any(modifies);
        let mut facts = self.0 | Self::FOLLOWS | if modifies { Self::MODIFIES } else { 0 };
        for one in all.iter().flatten() {
            let bytes = one.size.trailing_zeros() + 1;
            let does = [one.does != Does::Store, one.does != Does::Load];
            for (at, _) in Self::BYTES.iter().zip(does).filter(|(_, does)| *does) {
                facts |= bytes << at;
            }
        }
        Self(facts)
    }

    /// Bytes that it reads, or writes, if its references follow from it alone.
    fn bytes(self, at: u32) -> u16 {
        match self.0 >> at & 7 {
            0 => 0,
            one_more => 1 << (one_more - 1),
        }
    }

    /// Of a decoded instruction.
    pub fn of(insn: &Insn) -> Self {
        let near = matches!(
            insn.kind,
            Kind::Jcc
                | Kind::Loop
                | Kind::Jmp
                | Kind::Call
                | Kind::Ret
                | Kind::JmpInd
                | Kind::CallInd
        );
        let exchange =
            insn.space == 0 && matches!(insn.opcode, 0x86 | 0x87) && insn.has_memory_operand();
        let bits = [
            (Event::Branches, near),
            (
                Event::ConditionalBranches,
                matches!(insn.kind, Kind::Jcc | Kind::Loop),
            ),
            (
                Event::IndirectBranches,
                matches!(insn.kind, Kind::JmpInd | Kind::CallInd),
            ),
            (
                Event::Calls,
                matches!(insn.kind, Kind::Call | Kind::CallInd),
            ),
            (Event::Returns, insn.kind == Kind::Ret),
            (Event::Loads, insn.is_load()),
            (Event::Stores, insn.is_store()),
            (Event::Locked, insn.has(prefix::LOCK) || exchange),
            (Event::VectorInstructions, insn.is_vector()),
        ];
        let mut facts = u32::from(insn.len) & 15;
        for (event, holds) in bits {
            facts |= u32::from(holds) << (3 + event as u8);
        }
        Self(facts)
    }

    /// Length in bytes.
    pub fn len(self) -> u64 {
        u64::from(self.0 & 15)
    }

    /// No instruction.
    pub fn is_empty(self) -> bool {
        self.0 & 15 == 0
    }

    /// Adds this instruction, executed `times`, to `sums`.
    pub fn add(self, times: u64, sums: &mut Counts) {
        for (event, sum) in Event::ALL.into_iter().zip(sums) {
            if event.counts(self) {
                *sum = sum.wrapping_add(times);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xlate::decode::decode;

    fn events(bytes: &[u8]) -> Vec<Event> {
        let facts = Facts::of(&decode(bytes).unwrap());
        assert_eq!(facts.len(), bytes.len() as u64, "{bytes:02x?}");
        Event::ALL[1..]
            .iter()
            .copied()
            .filter(|event| event.counts(facts))
            .collect()
    }

    #[test]
    fn what_counts_as_what() {
        use Event::*;
        let rows: &[(&[u8], &[Event])] = &[
            (&[0x90], &[]),
            (&[0x0f, 0x05], &[]),                              // syscall
            (&[0x74, 0], &[Branches, ConditionalBranches]),    // je
            (&[0xe2, 0], &[Branches, ConditionalBranches]),    // loop
            (&[0xe3, 0], &[Branches, ConditionalBranches]),    // jrcxz
            (&[0xeb, 0], &[Branches]),                         // jmp
            (&[0xe8, 0, 0, 0, 0], &[Branches, Calls, Stores]), // call
            (&[0xff, 0xd0], &[Branches, IndirectBranches, Calls, Stores]), // call rax
            (
                &[0xff, 0x10],
                &[Branches, IndirectBranches, Calls, Loads, Stores],
            ), // call [rax]
            (&[0xff, 0xe0], &[Branches, IndirectBranches]),    // jmp rax
            (&[0xff, 0x20], &[Branches, IndirectBranches, Loads]), // jmp [rax]
            (&[0xc3], &[Branches, Returns, Loads]),            // ret
            (&[0x50], &[Stores]),                              // push
            (&[0x58], &[Loads]),                               // pop
            (&[0xff, 0x30], &[Loads, Stores]),                 // push [rax]
            (&[0xc9], &[Loads]),                               // leave
            (&[0x48, 0x8d, 0x00], &[]),                        // lea
            (&[0x0f, 0x1f, 0x00], &[]),                        // nop [rax]
            (&[0x0f, 0x18, 0x08], &[]),                        // prefetcht0
            (&[0xf3, 0xa4], &[Loads, Stores]),                 // rep movsb
            (&[0xf3, 0xaa], &[Stores]),                        // rep stosb
            (&[0x01, 0x00], &[Loads, Stores]),                 // add [rax], eax
            (&[0xf0, 0x01, 0x00], &[Loads, Stores, Locked]),   // lock add
            (&[0x87, 0x00], &[Loads, Stores, Locked]),         // xchg [rax], eax
            (&[0x87, 0xc0], &[]),                              // xchg eax, eax
            (&[0x0f, 0x28, 0x00], &[Loads, VectorInstructions]), // movaps xmm0, [rax]
            (&[0xc5, 0xf8, 0x77], &[VectorInstructions]),      // vzeroupper
        ];
        for (bytes, expected) in rows {
            assert_eq!(events(bytes), *expected, "{bytes:02x?}");
        }
    }
}
