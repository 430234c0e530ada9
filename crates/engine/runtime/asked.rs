//! Instructions that ask the machine, answered for the one that is shown: `cpuid`, `xgetbv`, `rdpid`, `rdrand`, `rdseed`.
//!
//! Facts: Intel SDM volume 2 (these instructions); their results are zero-extended but for 16-bit operands.

use crate::layout::Context;
use crate::shown::mixed;
use crate::xlate::decode::{Insn, prefix};
use crate::{machine, slots};
use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::Ordering::*;

/// Arithmetic flags, and the carry among them.
const FLAGS: u64 = 0x8d5;
const CARRY: u64 = 1;

/// `rdrand`, `rdseed`.
pub fn is_random(insn: &Insn) -> bool {
    insn.opcode == 0xc7 && !insn.has(prefix::REP)
}

/// Answers the instruction: registers and flags of the context are those after it.
pub fn answer(context: &mut Context, insn: &Insn) {
    match (insn.opcode, insn.modrm >> 3 & 7) {
        (0xa2, _) => {
            // RAX and RCX in, RAX, RBX, RCX, RDX out.
            let [leaf, subleaf, ..] = context.regs.map(|value| value as u32);
            let [a, b, c, d] = cpuid(leaf, subleaf);
            for (register, value) in [(0, a), (3, b), (1, c), (2, d)] {
                context.regs[register] = u64::from(value);
            }
        }
        (0x01, _) => {
            let components = u64::from(machine::shown().components);
            // Without a state to save, the instruction is not there at all: what every CPU has.
            context.regs[0] = if components == 0 { 3 } else { components };
            context.regs[2] = 0;
        }
        (_, 7) if insn.has(prefix::REP) => set(context, insn, 0),
        (_, which) => {
            let (value, carry) = random(which == 7);
            set(context, insn, value);
            context.rflags = context.rflags & !FLAGS | if carry { CARRY } else { 0 };
        }
    }
}

fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    if machine::on() {
        return machine::shown().cpuid(leaf, subleaf);
    }
    let found = __cpuid_count(leaf, subleaf);
    [found.eax, found.ebx, found.ecx, found.edx]
}

/// Writes the register that the instruction names.
fn set(context: &mut Context, insn: &Insn, value: u64) {
    let register = usize::from(insn.modrm & 7 | (insn.rex & 1) << 3);
    let Some(place) = context.regs.get_mut(register) else {
        return;
    };
    *place = if insn.rex & 8 != 0 {
        value
    } else if insn.has(prefix::OPSIZE) {
        *place & !0xffff | value & 0xffff
    } else {
        value & 0xffff_ffff
    };
}

/// A random number, and whether there was one.
fn random(seed: bool) -> (u64, bool) {
    if machine::own_random() {
        let number = slots::header().random_uses.fetch_add(1, Relaxed);
        return (mixed(number), true);
    }
    let (leaf, bit) = if seed { (7, 18) } else { (1, 30) };
    let found = __cpuid_count(leaf, 0);
    let has = if seed { found.ebx } else { found.ecx } >> bit & 1 != 0;
    if !has {
        return (0, false);
    }
    let (value, carry): (u64, u8);
    // SAFETY: the CPU has the instruction, which writes a register and flags.
    unsafe {
        if seed {
            core::arch::asm!("rdseed {}", "setc {}", out(reg) value, out(reg_byte) carry, options(nomem, nostack));
        } else {
            core::arch::asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) carry, options(nomem, nostack));
        }
    }
    (value, carry != 0)
}
