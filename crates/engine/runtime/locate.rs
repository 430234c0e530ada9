//! From where a signal found a thread to where its program is.

use crate::block::Block;
use crate::counts;
use crate::engine::{self, Engine};
use crate::entry::{self, address};
use crate::frames::Ucontext;
use crate::known;
use crate::layout::Context;
use crate::machine;
use crate::own_memory::{NOWHERE, in_code};
use crate::pages::Pages;
use crate::predictor;
use crate::recent;
use crate::references;
use crate::unfinished;
use crate::xlate::block::record;
use crate::xlate::block::{far_register, implied_base};
use crate::xlate::decode::{Kind, MAX_LEN, decode};
use crate::xlate::emit::{RAX, SCRATCH};
use crate::xlate::known::LENT;

/// Where a signal found a thread.
pub enum Found {
    /// At an instruction boundary (of the program's) or at a fault: the state in
    /// the frame has been made the program's.
    Program,
    /// In an insertion: step on.
    Between,
    /// In the runtime.
    Runtime,
}

/// Whether an address is none (non-canonical): the branch there faults, not what lies there.
pub fn is_wild(pc: u64) -> bool {
    pc != NOWHERE && pc >> 47 != 0 && pc >> 47 != 0x1ffff
}

/// Makes the frame's registers the program's, and the count exact, if the
/// thread was at a place where that is possible.
pub fn locate(context: &mut Context, frame: &mut Ucontext, fault: bool) -> Found {
    let rip = frame.rip;
    if rip == context.native_pc {
        return Found::Program;
    }
    if rip == address(entry::rt_unmasked) && !fault {
        if matches!(
            context.exit_kind,
            entry::kind::CALL | entry::kind::RETURN | entry::kind::JUMP | entry::kind::NO_ROOM
        ) {
            return Found::Between; // in the middle of the branch, or in front of a reference
        }
        frame.set_registers(&context.regs);
        frame.eflags = context.rflags;
        frame.rip = context.pc;
        if context.resume_counted() {
            uncount_call(context);
        }
        return Found::Program;
    }
    // The branch to an address that is none, in the runtime's place.
    let enters = address(entry::rt_enter)..address(entry::rt_enter_end);
    if fault && is_wild(context.native_pc) && enters.contains(&rip) {
        frame.set_registers(&context.regs);
        frame.rip = context.pc;
        return Found::Program;
    }
    if !in_code(rip) {
        return Found::Runtime;
    }
    locate_in_block(context, frame, rip, fault)
}

/// Translated code faulted at `rip`, where it looks into the shadow: where it goes with what is not known.
pub fn unknown(rip: u64) -> Option<u64> {
    if !known::on() {
        return None;
    }
    let mut engine = engine::lock();
    let number = engine.cache.block_at(rip)?;
    let block = *engine.cache.blocks.get(number as usize);
    let mut at = block.body;
    let record = engine.cache.records(&block).iter().find(|record| {
        at += u64::from(record.host);
        rip < at
    })?;
    if record.guest != record::HEAD {
        return None;
    }
    // The next conditional jump.
    let mut pc = rip;
    while pc < at {
        // SAFETY: code of the cache's, behind which there is more of it.
        let bytes = unsafe { *(pc as *const [u8; MAX_LEN]) };
        let insn = decode(&bytes).ok()?;
        pc += u64::from(insn.len);
        if insn.kind == Kind::Jcc {
            return Some(pc.wrapping_add_signed(i64::from(insn.rel)));
        }
    }
    None
}

/// The call at `rip`, counted already, is going to be counted once more.
pub fn uncount(context: &Context, rip: u64) {
    let mut engine = engine::lock();
    if let Some(number) = engine.cache.block_at(rip) {
        let block = *engine.cache.blocks.get(number as usize);
        counts::correct(context, &block, block.insns.saturating_sub(1), true);
        references::left(context, &block, block.insns.saturating_sub(1));
    }
}

/// The call that a thread resumes in front of, or has come to the runtime with, was counted already.
pub fn uncount_call(context: &Context) {
    let mut engine = engine::lock();
    let exit = *engine.cache.exits.get(context.exit_id as usize);
    let block = *engine.cache.blocks.get(exit.block as usize);
    counts::correct(context, &block, block.insns.saturating_sub(1), true);
    references::left(context, &block, block.insns.saturating_sub(1));
}

fn locate_in_block(context: &mut Context, frame: &mut Ucontext, rip: u64, fault: bool) -> Found {
    let mut engine = engine::lock();
    let Engine { cache, pages, .. } = &mut *engine;
    let Some(number) = cache.block_at(rip) else {
        return Found::Between;
    };
    let block = *cache.blocks.get(number as usize);
    let syscall = block.at(block.syscall);
    if syscall != 0 && rip >= syscall - 5 {
        let next = block.pc + u64::from(block.guest_len);
        if rip > syscall {
            frame.rip = next;
            frame.regs_rcx(next);
        } else {
            // Not made, or made and to be made again: the kernel left its mark.
            frame.rip = next - 2;
            if frame.rcx() == syscall + 2 {
                frame.regs_rcx(next);
            } else {
                counts::correct(context, &block, block.insns.saturating_sub(1), true);
                references::left(context, &block, block.insns.saturating_sub(1));
            }
        }
        return Found::Program;
    }
    let (mut at, mut done, mut pc) = (block.body, 0u16, block.pc);
    let (mut counted, mut spilled, mut noted, mut branched) = (false, false, false, false);
    // The same, where the instruction begins.
    let mut before = false;
    // Registers that are in slots; whether RAX has the flags.
    let (mut lent, mut flags) = ([None; LENT], false);
    for record in cache.records(&block) {
        let end = at + u64::from(record.host);
        let head = record.guest & record::HEAD != 0;
        let length = if head { 0 } else { record.guest & record::LEN };
        if rip < end {
            if rip != at && !fault {
                return Found::Between;
            }
            if spilled {
                frame.set_register(SCRATCH, context.spill);
            }
            if rip != at && record.guest & record::FAR != 0 && length != 0 {
                let mut bytes = [0u8; 15];
                pages.fetch(pc, &mut bytes);
                if let Ok(insn) = decode(&bytes)
                    && insn.kind == Kind::Xsave
                    && machine::on()
                {
                    frame.set_register(RAX, context.spill_2);
                    frame.set_register(SCRATCH, context.spill);
                } else if let Ok(insn) = decode(&bytes) {
                    let register = far_register(&insn, &bytes);
                    frame.set_register(register, context.spill_2);
                    // The program's base was added to it for the time of the instruction.
                    if let Some(base) = implied_base(&insn) {
                        let sum = frame.registers()[usize::from(base)];
                        frame.set_register(base, sum.wrapping_sub(context.program_gs));
                    }
                }
            }
            if flags {
                take_flags_back(context, frame);
            }
            for (lent, value) in lent.into_iter().zip(context.noted.known.lent) {
                if let Some(register) = lent {
                    frame.set_register(register, value);
                }
            }
            frame.rip = pc;
            if known::on() && noted && context.probing == 0 {
                let registers = (&frame.registers(), length != 0);
                let unfinished = unfinished::cancel(context, &block, done, registers);
                if branched && predictor::on() {
                    let is_conditional = is_conditional(pages, pc);
                    branched = prediction_back(context, &block, (done, pc), is_conditional);
                }
                if !unfinished {
                    let counts = u64::from(counted && !before);
                    recent::take_back(context, &block, done, branched, counts);
                }
            }
            counts::correct(context, &block, done, counted);
            if noted && !known::on() {
                references::left(context, &block, done);
                if length != 0 {
                    references::interrupted(context, &block, done, &frame.registers());
                }
            }
            return Found::Program;
        }
        if length != 0 {
            done += 1;
            pc += u64::from(length);
            // With tables of what is known: this instruction's.
            noted &= !known::on();
            branched = false;
            before = counted | (record.guest & record::COUNTS != 0);
        }
        at = end;
        let slot = usize::from(record.guest & record::FAR != 0);
        match record.guest & !(record::LEN | record::FAR) {
            record::LENT => lent[slot] = Some(record.guest & record::LEN),
            record::BACK => lent[slot] = None,
            record::FLAGS => flags = record.guest & 1 == 0,
            _ => {
                counted |= record.guest & record::COUNTS != 0;
                spilled |= record.guest & record::SPILLS != 0;
                noted |= head;
                branched |= record.guest == record::BRANCH;
            }
        }
    }
    Found::Between
}

/// From RAX, as `flags_to_rax` puts them there: AH by `lahf`, AL says whether there was an overflow.
fn take_flags_back(context: &Context, frame: &mut Ucontext) {
    let held = frame.registers()[0];
    frame.set_register(RAX, context.noted.known.spill[0]);
    frame.eflags = frame.eflags & !(LAHF | OF) | held >> 8 & LAHF | (held & 1) << 11;
}

/// The flags that `lahf` loads, in their places: sign, zero, adjust, parity, carry.
const LAHF: u64 = 0xd5;
/// Overflow.
const OF: u64 = 1 << 11;

/// The branch at `pc` was predicted, and not executed; whether that is in the ring: a prediction that was right is not, nor
/// what is counted.
fn prediction_back(
    context: &mut Context,
    block: &Block,
    (done, pc): (u16, u64),
    is_conditional: bool,
) -> bool {
    let was_wrong = match is_conditional {
        true => predictor::take_back(context, pc),
        false => predictor::take_target_back(context, pc),
    };
    if was_wrong && counts::counts_mispredicted() {
        counts::was_predicted(context, block, done);
        return false;
    }
    was_wrong
}

fn is_conditional(pages: &mut Pages, pc: u64) -> bool {
    let mut bytes = [0u8; 15];
    pages.fetch(pc, &mut bytes);
    decode(&bytes).is_ok_and(|insn| insn.kind == Kind::Jcc)
}

/// Whether the program is stopped in the runtime's service at a call already
/// counted (it resumes in front of a native `syscall`).
impl Context {
    fn resume_counted(&self) -> bool {
        self.exit_kind == entry::kind::SYSCALL && in_code(self.resume) && self.start[2] == 1
    }
}
