//! What was noted, or entered, of an instruction that was not executed: it is taken back.

use crate::block::Block;
use crate::known::{byte, lies_of, pc_of, word};
use crate::layout::{Context, RING, option};
use crate::operand_address::operand_sum;
use crate::ring;
use crate::slots;
use crate::xlate::decode::{Insn, MAX_LEN, decode};
use crate::xlate::known::{Is, Lies, Literal, Made, Record, alone, simple};
use crate::xlate::masked::masked;
use crate::xlate::operand_size::displacement_factor;
use crate::xlate::references::Words;
use core::sync::atomic::Ordering::*;

/// What is noted of an instruction that is no reference looked up: an instruction's words, or elements.
enum Noted {
    Words(Words),
    Masked,
}

/// Instruction `done` of a block, and its bytes.
fn instruction(block: &Block, done: u16) -> Option<(Insn, [u8; MAX_LEN])> {
    let mut pc = block.pc;
    for number in 0..=done {
        let mut bytes = [0u8; MAX_LEN];
        let all = pc..block.pc + u64::from(block.guest_len);
        for (to, from) in bytes.iter_mut().zip(all) {
            // SAFETY: a block's bytes; it is being executed.
            *to = unsafe { *(from as *const u8) };
        }
        let insn = decode(&bytes).ok()?;
        if number == done {
            return Some((insn, bytes));
        }
        pc += u64::from(insn.len);
    }
    None
}

/// What is noted of such an instruction, if it is not its references.
fn noted_of(insn: &Insn, bytes: &[u8]) -> Option<Noted> {
    let reads_fs = slots::header().options & option::READS_FS != 0;
    let references = insn.is_load() || insn.is_store();
    let noted = references && simple(insn, bytes, reads_fs).is_none();
    noted.then(|| match masked(insn, bytes, reads_fs) {
        Some(_) => Noted::Masked,
        None => Noted::Words(Words::of(insn, bytes)),
    })
}

/// Instruction `done` of `block` was noted and not executed: what was noted is cancelled. `registers`: those in front of
/// it. `begun`: if it is one that repeats it may have been interrupted in its middle. Whether its words are noted, and not
/// its references.
pub fn cancel(
    context: &Context,
    block: &Block,
    done: u16,
    (registers, begun): (&[u64; 16], bool),
) -> bool {
    let Some((insn, bytes)) = instruction(block, done) else {
        return false;
    };
    // Marks may have been written since.
    let marks = match context.noted.marked == context.noted.position {
        true => context.noted.marks,
        false => 0,
    };
    let this = context.this;
    let mut end = context.noted.position.wrapping_sub(marks);
    let is_ours = |record: Record| {
        pc_of(context, record) == Some(block.pc) && record.number() == usize::from(done)
    };
    let start = ring::begin(context);
    if let Some(noted) = noted_of(&insn, &bytes) {
        // An instruction's record: nothing else of this thread's is behind it.
        let long = match &noted {
            Noted::Words(words) => words.len() as u32 + 1,
            Noted::Masked => 3,
        };
        if matches!(noted, Noted::Masked) && elements_back(context, block, is_ours) {
            return true;
        }
        if end < start + long {
            return true;
        }
        let head = word(context, end - long);
        // SAFETY: words of the thread's ring.
        let record = Record(unsafe { head.read() });
        let words = match (noted, record.is()) {
            (Noted::Words(words), Some(Is::Instruction(many))) if many == words.len() => words,
            (Noted::Masked, Some(Is::Masked(_))) => Words::default(),
            _ => return true,
        };
        if !is_ours(record) {
            return true;
        }
        let repeats = words.after().next().is_some_and(|register| register < 16);
        let flag = match begun && repeats {
            true => {
                let first = end - words.after().count() as u32;
                for (place, register) in (first..).zip(words.after()) {
                    let value = registers.get(usize::from(register)).copied().unwrap_or(0);
                    // SAFETY: words of that record.
                    unsafe { word(context, place).write(value) };
                }
                Record::INTERRUPTED
            }
            false => Record::CANCELLED,
        };
        // SAFETY: as above.
        unsafe { head.write(record.0 | flag) };
        return true;
    }
    // Its references: those that were entered by this execution of the block …
    let counter = block.executions(context);
    let known = &context.noted.known;
    let entered = if counter == known.seen {
        known.since.min(2)
    } else {
        0
    };
    for back in 1..=entered {
        let place = (known.since - back) as usize % 2;
        let Some(made) = known.made.get(place) else {
            return false;
        };
        let record = made.record.load(Relaxed);
        if record == 0 || !is_ours(Record(record)) {
            if back == 1 {
                break;
            }
            return false;
        }
        made.record.store(0, Relaxed);
        if made.many == 0 || made.told != 0 && known.recent == 0 {
            // It is in the ring.
            if end < start + 2 {
                return false;
            }
            let head = (this + RING + u64::from(end - 2) * 8) as *mut u64;
            // SAFETY: words of the thread's ring.
            unsafe { head.write(head.read() | Record::CANCELLED) };
            end -= 2;
        }
        if made.many != 0 {
            take_back(this, made, Record(record));
        }
        if back == entered {
            return false;
        }
    }
    // … or one that was counted only.
    count_back(context, (&insn, &bytes), registers, is_ours);
    false
}

/// A reference that is not aligned was counted, and not entered (`rt_alone`): it is taken back.
fn count_back(
    context: &Context,
    (insn, bytes): (&Insn, &[u8]),
    registers: &[u64; 16],
    is_ours: impl Fn(Record) -> bool,
) {
    let known = &context.noted.known;
    let options = slots::header().options;
    let references = simple(insn, bytes, options & option::READS_FS != 0);
    let one = references.and_then(|references| alone(insn, &references));
    let Some(one) = one.filter(|_| known.vector_alone != known.vector_note) else {
        return;
    };
    // (It is not relative to the next instruction.)
    let factor = displacement_factor(insn, one.size);
    let address = operand_sum((insn, bytes), registers, 0, factor);
    if address & (u64::from(one.size) - 1) == 0 || known.literal == 0 {
        return;
    }
    // It is what the routine was last asked for, then.
    // SAFETY: in code of this block.
    let literal = unsafe { &*(known.literal as *const Literal) };
    let record = Record(literal.record);
    if !is_ours(record) {
        return;
    }
    let record = record.lies().0;
    for place in lies_of(context, record) {
        // SAFETY: in the thread's own table.
        let lies = unsafe { &mut *(place as *mut Lies) };
        if lies.record == record {
            let splits = address % 64 + u64::from(one.size) > 64;
            lies.unaligned = lies.unaligned.wrapping_sub(1);
            lies.line_splits = lies.line_splits.wrapping_sub(splits.into());
            return;
        }
    }
}

/// Elements that a mask chose were counted, and not noted: they are taken back.
fn elements_back(context: &Context, block: &Block, is_ours: impl Fn(Record) -> bool) -> bool {
    let known = &context.noted.known;
    if block.executions(context) != known.seen || known.since == 0 {
        return false;
    }
    let Some(made) = known.made.get((known.since - 1) as usize % 2) else {
        return false;
    };
    let record = Record(made.record.load(Relaxed));
    if !record.is_chosen() || !is_ours(record) {
        return false;
    }
    made.record.store(0, Relaxed);
    take_back(context.this, made, record);
    true
}

/// What was entered was not done.
fn take_back(region: u64, made: &Made, record: Record) {
    if made.bits != 0 {
        let before = made.before.iter().flat_map(|word| word.to_le_bytes());
        for (at, before) in (made.at..made.at + u64::from(made.many)).zip(before) {
            byte(at).fetch_and(!(made.bits as u8 & !before), AcqRel);
        }
    }
    if made.lies != 0 {
        // SAFETY: in the thread's own table, and still this operand's.
        let lies = unsafe { &mut *((region + u64::from(made.lies)) as *mut Lies) };
        if record.is_chosen() {
            lies.unaligned = lies.unaligned.wrapping_sub(made.counted.into());
            return;
        }
        let take = |from: &mut u64, bit: u32| {
            *from = from.wrapping_sub(u64::from(made.counted >> bit & 1));
        };
        take(&mut lies.unaligned, 0);
        take(&mut lies.line_splits, 1);
        take(&mut lies.page_splits, 2);
    }
}
