//! What an instruction is about to reference that is not looked up: of strings, and of common others.

use crate::known;
use crate::layout::Context;
use crate::operand_address::operand_address;
use crate::xlate::decode::{Insn, MAX_LEN, decode, prefix};
use crate::xlate::known::{Literal, Record};

const RCX: usize = 1;
const RSP: usize = 4;
const RSI: usize = 6;
const RDI: usize = 7;
/// Of the flags: downwards.
const DIRECTION: u64 = 1 << 10;

/// First and last bytes that the instruction of a literal references, and maybe others behind the first one of each; `None`:
/// it is not known here.
pub(super) fn of(context: &Context, literal: &Literal) -> Option<[Option<(u64, u64)>; 2]> {
    let record = Record(literal.record);
    let (insn, code, next) = instruction(context, record)?;
    if let Some(size) = long_operand(&insn) {
        let at = operand_address(context, &insn, &code, next);
        // (`pop`: from the stack, too.)
        let stack = context.regs[RSP];
        let stack = (insn.space == 0 && insn.opcode == 0x8f).then_some((stack, stack + 7));
        // (Relative to the stack pointer it is worked out behind that.)
        return Some([Some((at, at.saturating_add(size - 1 + 8))), stack]);
    }
    if insn.space != 0 || insn.has(prefix::ADDRSIZE | prefix::FS | prefix::GS) {
        return None;
    }
    let (source, destination) = match insn.opcode {
        0xa4..=0xa7 => (true, true),
        0xaa | 0xab | 0xae | 0xaf => (false, true),
        0xac | 0xad => (true, false),
        _ => return None,
    };
    let size = match insn.opcode & 1 {
        0 => 1,
        _ if insn.rex & 8 != 0 => 8,
        _ if insn.has(prefix::OPSIZE) => 2,
        _ => 4,
    };
    let [many, from, to] = [RCX, RSI, RDI].map(|number| context.regs[number]);
    let many = match insn.has(prefix::REP | prefix::REPNE) {
        true => many,
        false => 1,
    };
    let more = many.checked_sub(1).map(|more| more.saturating_mul(size));
    let bytes = |is: bool, at: u64| {
        let more = more.filter(|_| is)?;
        Some(match context.rflags & DIRECTION {
            0 => (at, at.saturating_add(more).saturating_add(size - 1)),
            _ => (at.saturating_sub(more), at.saturating_add(size - 1)),
        })
    };
    Some([bytes(source, from), bytes(destination, to)])
}

/// Bytes of an operand in memory that has no size to look it up by: numbers of the x87, `pop`, `cmpxchg16b`.
fn long_operand(insn: &Insn) -> Option<u64> {
    let which = insn.modrm >> 3 & 7;
    if !insn.has_memory_operand() || insn.has(prefix::ADDRSIZE | prefix::FS | prefix::GS) {
        return None;
    }
    match (insn.space, insn.opcode) {
        (0, 0xdb) if matches!(which, 5 | 7) => Some(10),
        (0, 0xdf) if matches!(which, 4 | 6) => Some(10),
        (0, 0x8f) if which == 0 => Some(8),
        (1, 0xc7) if which == 1 => Some(16),
        _ => None,
    }
}

/// The instruction that a record names, its bytes, and the address of the next one.
fn instruction(context: &Context, record: Record) -> Option<(Insn, [u8; MAX_LEN], u64)> {
    let at = known::description(context, record)?;
    // SAFETY: a description, which is never taken away: the block's address, its counts, its bytes.
    let counts = unsafe { ((at + 8) as *const u64).read() };
    let (start, end) = (at + 16, at + 16 + (counts >> 32 & 0xffff));
    // SAFETY: as above.
    let pc = unsafe { (at as *const u64).read() };
    let mut next = start;
    for number in 0..=record.number() {
        let mut bytes = [0; MAX_LEN];
        for (to, from) in bytes.iter_mut().zip(next..end) {
            // SAFETY: as above.
            *to = unsafe { *(from as *const u8) };
        }
        let insn = decode(&bytes).ok()?;
        if number == record.number() {
            let behind = next - start + u64::from(insn.len);
            return Some((insn, bytes, pc.wrapping_add(behind)));
        }
        next += u64::from(insn.len);
    }
    None
}
