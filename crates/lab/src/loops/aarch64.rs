//! The workloads for AArch64 (AAPCS64: turns in `x0`, memory in `x1`, the stride in `x2`; only registers that a callee
//! may change are changed). Atomic instructions are those of LSE: a loop of exclusive loads and stores may go round
//! again, so its length would not be known.

use super::{Length, Loop, Needs, always, plain};
use std::arch::global_asm;

global_asm!(
    ".pushsection .text.truecount_lab,\"ax\",@progbits",
    ".arch_extension lse",
    ".p2align 6",
    ".globl truecount_lab_empty",
    ".hidden truecount_lab_empty",
    "truecount_lab_empty:",
    "ret",
    ".p2align 6",
    ".globl truecount_lab_plain",
    ".hidden truecount_lab_plain",
    "truecount_lab_plain:",
    "2: subs x0, x0, #1",
    "b.ne 2b",
    "ret",
    ".p2align 6",
    ".globl truecount_lab_calls",
    ".hidden truecount_lab_calls",
    "truecount_lab_calls:",
    "mov x9, x30",
    "2: bl 3f",
    "subs x0, x0, #1",
    "b.ne 2b",
    "ret x9",
    "3: ret",
    // Bump a shared pointer, write a header where it stood, read it back.
    ".p2align 6",
    ".globl truecount_lab_alloc",
    ".hidden truecount_lab_alloc",
    "truecount_lab_alloc:",
    "mov x3, #16",
    "2: ldaddal x3, x4, [x1]",
    "and x4, x4, #0xff0",
    "add x4, x4, x1",
    "str x0, [x4, #64]",
    "ldr x5, [x4, #64]",
    "subs x0, x0, #1",
    "b.ne 2b",
    "ret",
    // getpid
    ".p2align 6",
    ".globl truecount_lab_syscalls",
    ".hidden truecount_lab_syscalls",
    "truecount_lab_syscalls:",
    "mov x9, x0",
    "2: mov x8, #172",
    "svc #0",
    "subs x9, x9, #1",
    "b.ne 2b",
    "ret",
    ".p2align 6",
    ".globl truecount_lab_faults",
    ".hidden truecount_lab_faults",
    "truecount_lab_faults:",
    "2: strb w0, [x1]",
    "add x1, x1, x2",
    "subs x0, x0, #1",
    "b.ne 2b",
    "ret",
    ".p2align 6",
    ".globl truecount_lab_scalar",
    ".hidden truecount_lab_scalar",
    "truecount_lab_scalar:",
    "fmov d1, #1.0",
    "2: fsqrt d0, d1",
    "fadd d0, d0, d1",
    "str d0, [x1]",
    "subs x0, x0, #1",
    "b.ne 2b",
    "ret",
    ".p2align 6",
    ".globl truecount_lab_neon",
    ".hidden truecount_lab_neon",
    "truecount_lab_neon:",
    "2: ldr q0, [x1]",
    "fadd v0.4s, v0.4s, v0.4s",
    "fmul v0.4s, v0.4s, v0.4s",
    "str q0, [x1]",
    "subs x0, x0, #1",
    "b.ne 2b",
    "ret",
    ".p2align 6",
    ".globl truecount_lab_locked",
    ".hidden truecount_lab_locked",
    "truecount_lab_locked:",
    "mov x3, #1",
    "2: ldaddal x3, x4, [x1]",
    "subs x0, x0, #1",
    "b.ne 2b",
    "ret",
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

unsafe extern "C" {
    fn truecount_lab_empty(times: u64, memory: *mut u8, stride: u64);
    fn truecount_lab_plain(times: u64, memory: *mut u8, stride: u64);
    fn truecount_lab_calls(times: u64, memory: *mut u8, stride: u64);
    fn truecount_lab_alloc(times: u64, memory: *mut u8, stride: u64);
    fn truecount_lab_syscalls(times: u64, memory: *mut u8, stride: u64);
    fn truecount_lab_faults(times: u64, memory: *mut u8, stride: u64);
    fn truecount_lab_scalar(times: u64, memory: *mut u8, stride: u64);
    fn truecount_lab_neon(times: u64, memory: *mut u8, stride: u64);
    fn truecount_lab_locked(times: u64, memory: *mut u8, stride: u64);
}

fn lse() -> Option<&'static str> {
    (!std::arch::is_aarch64_feature_detected!("lse")).then_some("this CPU has no LSE atomics")
}

pub(super) const LOOPS: &[Loop] = &[
    plain(
        super::EMPTY,
        "a return",
        "",
        1,
        Length::new(1, 0),
        Length::new(1, 0),
        truecount_lab_empty,
    ),
    plain(
        "plain",
        "subs, b.ne",
        "turn",
        100_000,
        Length::new(1, 2),
        Length::new(1, 1),
        truecount_lab_plain,
    ),
    plain(
        "calls",
        "bl, ret, subs, b.ne",
        "call",
        50_000,
        Length::new(2, 4),
        Length::new(1, 3),
        truecount_lab_calls,
    ),
    Loop {
        unavailable: lse,
        ..plain(
            "alloc",
            "as an allocator: ldaddal, a header written and read",
            "atomic instruction",
            20_000,
            Length::new(2, 7),
            Length::new(1, 1),
            truecount_lab_alloc,
        )
    },
    Loop {
        branches: None,
        ..plain(
            "syscalls",
            "getpid by svc",
            "system call",
            2_000,
            Length::new(2, 4),
            Length::new(0, 0),
            truecount_lab_syscalls,
        )
    },
    Loop {
        name: "faults",
        about: "a write to a page that is not there",
        turn: "page fault",
        times: 128,
        instructions: Length::new(1, 4),
        branches: None,
        page_faults: Length::new(0, 1),
        needs: Needs::FreshPages,
        body: truecount_lab_faults,
        unavailable: always,
    },
    plain(
        "scalar",
        "fsqrt, fadd and a store",
        "turn",
        10_000,
        Length::new(2, 5),
        Length::new(1, 1),
        truecount_lab_scalar,
    ),
    plain(
        "neon",
        "128-bit add, multiply and store",
        "turn",
        10_000,
        Length::new(1, 6),
        Length::new(1, 1),
        truecount_lab_neon,
    ),
    Loop {
        needs: Needs::Contender,
        unavailable: lse,
        ..plain(
            "contended",
            "ldaddal on a cache line that another thread fights for",
            "atomic instruction",
            5_000,
            Length::new(2, 3),
            Length::new(1, 1),
            truecount_lab_locked,
        )
    },
];
