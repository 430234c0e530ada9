//! Whether the program's vectors are as in a new program: the CPU keeps track (`XINUSE`), and `xsave`, `xsavec` and frames of
//! signals show it. The runtime uses vectors of its own; behind it they are again what they were (`rt_save`, `rt_enter`).
//!
//! Source: Intel SDM volume 1, 13.6 (`XINUSE`); `CPUID` leaf 0DH, subleaf 1, EAX bit 2 (`xgetbv` with ECX 1).

use crate::layout::Context;
use core::arch::x86_64::{__cpuid, __cpuid_count};

/// A program begins, with the state that the kernel gives to a new one.
pub fn begins(context: &mut Context) {
    let saves = __cpuid(1).ecx >> 27 & 1 != 0;
    let tells = saves && __cpuid_count(0xd, 1).eax >> 2 & 1 != 0;
    context.tells_unused = u32::from(tells);
    context.vectors_unused = u32::from(tells);
}
