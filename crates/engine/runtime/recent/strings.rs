//! What a string instruction is about to reference.

use crate::known;
use crate::layout::Context;
use crate::xlate::decode::{Insn, MAX_LEN, decode, prefix};

use crate::xlate::known::{Literal, Record};

const RCX: usize = 1;
const RSI: usize = 6;
const RDI: usize = 7;
/// Of the flags: downwards.
const DIRECTION: u64 = 1 << 10;

/// First and last bytes that the instruction of a literal references, and maybe others behind the first one of each; `None`:
/// it is no string instruction.
pub(super) fn of(context: &Context, literal: &Literal) -> Option<[Option<(u64, u64)>; 2]> {
    let record = Record(literal.record);
    let insn = instruction(context, record)?;
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

/// The instruction that a record names.
fn instruction(context: &Context, record: Record) -> Option<Insn> {
    let at = known::description(context, record)?;
    // SAFETY: a description, which is never taken away: the block's address, its counts, its bytes.
    let counts = unsafe { ((at + 8) as *const u64).read() };
    let (start, end) = (at + 16, at + 16 + (counts >> 32 & 0xffff));
    let mut next = start;
    for number in 0..=record.number() {
        let mut bytes = [0; MAX_LEN];
        for (to, from) in bytes.iter_mut().zip(next..end) {
            // SAFETY: as above.
            *to = unsafe { *(from as *const u8) };
        }
        let insn = decode(&bytes).ok()?;
        if number == record.number() {
            return Some(insn);
        }
        next += u64::from(insn.len);
    }
    None
}
