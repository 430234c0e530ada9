//! The workloads for AArch64 (AAPCS64: turns in `x0`, memory in `x1`, the stride in `x2`; only registers that a callee
//! may change are changed). Atomic instructions are those of LSE: a loop of exclusive loads and stores may go round
//! again, so its length would not be known.

use super::{Length, Loop, Needs, plain};
use std::arch::global_asm;

workloads! {
    super::EMPTY, "a return", "" x 1: 1 + 0 instructions, 1 + 0 branches;
    truecount_lab_empty ["ret"]
    "plain", "subs, b.ne", "turn" x 100_000: 1 + 2 instructions, 1 + 1 branches;
    truecount_lab_plain ["2: subs x0, x0, #1", "b.ne 2b", "ret"]
    "calls", "bl, ret, subs, b.ne", "call" x 50_000: 2 + 4 instructions, 1 + 3 branches;
    truecount_lab_calls ["mov x9, x30", "2: bl 3f", "subs x0, x0, #1", "b.ne 2b", "ret x9", "3: ret"]
    // Bump a shared pointer, write a header where it stood, read it back.
    "alloc", "as an allocator: ldaddal, a header written and read", "atomic instruction" x 20_000:
        2 + 7 instructions, 1 + 1 branches, unavailable = lse;
    truecount_lab_alloc [
        ".arch_extension lse", "mov x3, #16", "2: ldaddal x3, x4, [x1]", "and x4, x4, #0xff0", "add x4, x4, x1",
        "str x0, [x4, #64]", "ldr x5, [x4, #64]", "subs x0, x0, #1", "b.ne 2b", "ret"
    ]
    // getpid
    "syscalls", "getpid by svc", "system call" x 2_000: 2 + 4 instructions, 0 + 0 branches, branches = None;
    truecount_lab_syscalls ["mov x9, x0", "2: mov x8, #172", "svc #0", "subs x9, x9, #1", "b.ne 2b", "ret"]
    "faults", "a write to a page that is not there", "page fault" x 128: 1 + 4 instructions, 0 + 0 branches,
        branches = None, page_faults = Length::new(0, 1), needs = Needs::FreshPages;
    truecount_lab_faults ["2: strb w0, [x1]", "add x1, x1, x2", "subs x0, x0, #1", "b.ne 2b", "ret"]
    "scalar", "fsqrt, fadd and a store", "turn" x 10_000: 2 + 5 instructions, 1 + 1 branches;
    truecount_lab_scalar [
        "fmov d1, #1.0", "2: fsqrt d0, d1", "fadd d0, d0, d1", "str d0, [x1]", "subs x0, x0, #1", "b.ne 2b", "ret"
    ]
    "neon", "128-bit add, multiply and store", "turn" x 10_000: 1 + 6 instructions, 1 + 1 branches;
    truecount_lab_neon [
        "2: ldr q0, [x1]", "fadd v0.4s, v0.4s, v0.4s", "fmul v0.4s, v0.4s, v0.4s", "str q0, [x1]",
        "subs x0, x0, #1", "b.ne 2b", "ret"
    ]
    "contended", "ldaddal on a cache line that another thread fights for", "atomic instruction" x 5_000:
        2 + 3 instructions, 1 + 1 branches, needs = Needs::Contender, unavailable = lse;
    truecount_lab_locked [
        ".arch_extension lse", "mov x3, #1", "2: ldaddal x3, x4, [x1]", "subs x0, x0, #1", "b.ne 2b", "ret"
    ]
}

fn lse() -> Option<&'static str> {
    (!std::arch::is_aarch64_feature_detected!("lse")).then_some("this CPU has no LSE atomics")
}

global_asm!(
    ".pushsection .text.truecount_lab,\"ax\",@progbits",
    // Frames with frame pointers: depth in x0, then x1 is called with x2.
    ".p2align 6",
    ".globl truecount_lab_framed",
    ".hidden truecount_lab_framed",
    "truecount_lab_framed:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "cbz x0, 2f",
    "sub x0, x0, #1",
    "bl truecount_lab_framed",
    "ldp x29, x30, [sp], #16",
    "ret",
    "2: mov x0, x2",
    "blr x1",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".popsection",
);
