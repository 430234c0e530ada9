//! Where an instruction's operand in memory is.
//!
//! Facts: Intel SDM volume 1, 3.7.5 (addresses); `arch_prctl`(2).

use crate::layout::Context;
use crate::sys;
use crate::syscall_table as nr;
use crate::xlate::block::Operand;
use crate::xlate::decode::{Insn, prefix};

const ARCH_GET_FS: u64 = 0x1003;

/// The address of a memory operand; `next`: that of the next instruction.
pub fn operand_address(context: &Context, insn: &Insn, code: &[u8], next: u64) -> u64 {
    let sum = operand_sum((insn, code), &context.regs, next, 1);
    let segment = match insn.prefixes & (prefix::FS | prefix::GS) {
        0 => 0,
        prefix::GS => context.program_gs,
        _ => {
            let mut base = 0u64;
            let to = &raw mut base as u64;
            // SAFETY: the kernel writes to a local.
            unsafe { sys::call(nr::ARCH_PRCTL, [ARCH_GET_FS, to, 0, 0, 0, 0]) };
            base
        }
    };
    sum.wrapping_add(segment)
}

/// The same without a segment, with these registers; a displacement of a byte is multiplied by `factor`.
pub fn operand_sum(
    (insn, code): (&Insn, &[u8]),
    registers: &[u64; 16],
    next: u64,
    factor: i32,
) -> u64 {
    let operand = Operand::of(insn, code);
    let value = |register: u8| registers.get(usize::from(register)).copied();
    let has_sib = insn.modrm & 7 == 4;
    let at = usize::from(insn.modrm_at) + 1 + usize::from(has_sib);
    let wide = insn.modrm >= 0x80 || insn.modrm < 0x40 && operand.base.is_none();
    let byte = |n: usize| code.get(at + n).copied().unwrap_or(0);
    let displacement = match insn.modrm & 0xc0 {
        0x40 => i64::from(factor) * i64::from(byte(0) as i8),
        _ if wide => i64::from(i32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])),
        _ => 0,
    };
    let mut sum = match insn.is_rip_relative() {
        true => next,
        false => operand.base.and_then(value).unwrap_or(0),
    };
    if let Some((index, factor)) = operand.index {
        sum = sum.wrapping_add(value(index).unwrap_or(0) << factor);
    }
    sum = sum.wrapping_add_signed(displacement);
    if insn.has(prefix::ADDRSIZE) {
        sum &= 0xffff_ffff;
    }
    sum
}
