//! Loads of CS by far returns, which 64-bit code uses to set everything at once (Wine's return from a system call).
//!
//! Facts: Intel SDM volume 2, `RET`, `IRET`; Linux' selectors: arch/x86/include/asm/segment.h.

use crate::check;
use crate::layout::Context;
use crate::program_memory;
use crate::xlate::decode::{Insn, prefix};

/// Selectors of 64-bit user code and its data.
pub const CODE: u64 = 0x33;
const DATA: u64 = 0x2b;

/// Flags that `iret` changes in user mode: not the interrupt flag, the I/O level, and the trap flag, which is the
/// engine's.
const CHANGED: u64 = 0x24_0cd5;

/// Does what the far return at `at` does; returns where the program goes on.
pub fn returns(context: &mut Context, insn: &Insn, code: &[u8], at: u64) -> u64 {
    let interrupt = insn.opcode == 0xcf;
    let bytes: u64 = match (insn.rex & 8 != 0, insn.has(prefix::OPSIZE)) {
        (true, _) => 8,
        (_, true) => 2,
        _ => 4,
    };
    let top = context.regs[4];
    let mut words = [0u64; 5];
    let count = if interrupt { 5 } else { 2 };
    for (n, word) in words.iter_mut().enumerate().take(count) {
        let from = top.wrapping_add(n as u64 * bytes);
        *word = match bytes {
            8 => program_memory::read::<u64>(from),
            4 => program_memory::read::<u32>(from).map(u64::from),
            _ => program_memory::read::<u16>(from).map(u64::from),
        }
        .unwrap_or_else(|| {
            crate::report::fail(format_args!(
                "a far return at {at:#x} that faults is not supported by the virtual PMU"
            ))
        });
    }
    let [target, selector, flags, stack, data] = words;
    check!(
        selector & 0xffff == CODE && (!interrupt || data & 0xffff == DATA),
        "a far return at {at:#x} to the selector {selector:#x} (stack {data:#x}), which is not that of 64-bit code, is not supported by the virtual PMU"
    );
    if interrupt {
        context.regs[4] = stack;
        context.rflags = context.rflags & !CHANGED | flags & CHANGED;
    } else {
        let immediate = |n: usize| code.get(usize::from(insn.imm_at) + n).copied().unwrap_or(0);
        let more = match insn.opcode {
            0xca => u16::from_le_bytes([immediate(0), immediate(1)]),
            _ => 0,
        };
        context.regs[4] = top.wrapping_add(2 * bytes + u64::from(more));
    }
    target
}
