//! Loads of the GS selector (`mov gs`, `pop gs`, `lgs`). The segment is the engine's; what the program gets is its base.
//!
//! Facts: Intel SDM volume 2, `MOV`, `POP`, `LGS`, `VERR`; AMD APM volume 2, 4.5.3 (a null selector may leave the base as it
//! was). What the kernel does with selectors: `arch_prctl`(2).

use crate::check;
use crate::layout::Context;
use crate::operand_address::operand_address;
use crate::program_memory;
use crate::sys;
use crate::syscall_table as nr;
use crate::xlate::decode::{Insn, prefix};
use core::arch::asm;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_GET_GS: u64 = 0x1004;

/// Does what the instruction in front of `next` does, with the bytes `code`.
pub fn load(context: &mut Context, insn: &Insn, code: &[u8], next: u64) {
    let pops = insn.space == 1 && insn.opcode == 0xa9;
    let from = match pops {
        true => Some(context.regs[4]),
        false => insn
            .has_memory_operand()
            .then(|| operand_address(context, insn, code, next)),
    };
    let register = usize::from(insn.modrm & 7 | (insn.rex & 1) << 3);
    let far = insn.space == 1 && insn.opcode == 0xb5;
    let offset_bytes = if insn.has(prefix::OPSIZE) { 2 } else { 4 };
    let selector = match from {
        Some(at) if far => program_memory::read::<u16>(at.wrapping_add(offset_bytes)),
        Some(at) => program_memory::read::<u16>(at),
        None => context.regs.get(register).map(|&value| value as u16),
    };
    let usable = selector.filter(|&selector| selector < 4 || is_readable(selector));
    let offset = match from {
        Some(at) if far => offset_at(at, offset_bytes),
        _ => Some(0),
    };
    let (Some(selector), Some(offset)) = (usable, offset) else {
        crate::report::fail(format_args!(
            "a load of the GS selector in front of {next:#x} that faults is not supported by the virtual PMU"
        ))
    };
    if pops {
        let bytes = if insn.has(prefix::OPSIZE) { 2 } else { 8 };
        context.regs[4] = context.regs[4].wrapping_add(bytes);
    }
    if far && let Some(register) = context.regs.get_mut(usize::from(insn.reg())) {
        *register = match offset_bytes {
            2 => *register & !0xffff | offset,
            _ => offset,
        };
    }
    let base = base_of(selector, context.this);
    // Some CPUs leave the base as it is with a null selector.
    if base != context.this {
        context.program_gs = base;
    }
}

/// The offset of a far pointer.
fn offset_at(at: u64, bytes: u64) -> Option<u64> {
    match bytes {
        2 => program_memory::read::<u16>(at).map(u64::from),
        _ => program_memory::read::<u32>(at).map(u64::from),
    }
}

/// Whether a load of this selector succeeds.
fn is_readable(selector: u16) -> bool {
    let readable: u8;
    // SAFETY: changes flags only.
    unsafe {
        asm!("verr {0:x}", "setz {1}", in(reg) selector, out(reg_byte) readable, options(nomem, nostack));
    }
    readable != 0
}

/// The base that the segment has. `own`: what GS is for the engine.
fn base_of(selector: u16, own: u64) -> u64 {
    let mut base = 0u64;
    let at = &raw mut base as u64;
    // A signal's handler wants GS.
    let mask = sys::set_mask(u64::MAX);
    // SAFETY: a selector that can be loaded; nothing in between uses GS, which is the engine's again then.
    let back = unsafe {
        asm!("mov gs, {0:x}", in(reg) selector, options(nostack));
        sys::call(nr::ARCH_PRCTL, [ARCH_GET_GS, at, 0, 0, 0, 0]);
        sys::call(nr::ARCH_PRCTL, [ARCH_SET_GS, own, 0, 0, 0, 0])
    };
    sys::set_mask(mask);
    check!(back == 0, "GS cannot be set (errno {})", -back);
    base
}
