//! The workloads for x86-64 (System V ABI: turns in `rdi`, memory in `rsi`, the stride in `rdx`; only registers that a
//! callee may change are changed).

use super::{Length, Loop, Needs, plain};
use std::arch::global_asm;

workloads! {
    super::EMPTY, "a return", "" x 1: 1 + 0 instructions, 1 + 0 branches;
    truecount_lab_empty ["ret"]
    "plain", "dec, jnz", "turn" x 100_000: 1 + 2 instructions, 1 + 1 branches;
    truecount_lab_plain ["2: dec rdi", "jnz 2b", "ret"]
    "calls", "call, ret, dec, jnz", "call" x 50_000: 1 + 4 instructions, 1 + 3 branches;
    truecount_lab_calls ["2: call 3f", "dec rdi", "jnz 2b", "ret", "3: ret"]
    // Bump a shared pointer, write a header where it stood, read it back.
    "alloc", "as an allocator: lock xadd, a header written and read", "locked instruction" x 20_000:
        1 + 7 instructions, 1 + 1 branches;
    truecount_lab_alloc [
        "2: mov eax, 16", "lock xadd qword ptr [rsi], rax", "and eax, 0xff0", "mov qword ptr [rsi + rax + 64], rdi",
        "mov rcx, qword ptr [rsi + rax + 64]", "dec rdi", "jnz 2b", "ret"
    ]
    // getpid
    "syscalls", "getpid by syscall", "system call" x 2_000: 1 + 4 instructions, 0 + 0 branches, branches = None;
    truecount_lab_syscalls ["2: mov eax, 39", "syscall", "dec rdi", "jnz 2b", "ret"]
    // Exceptions count as far branches on some CPUs.
    "faults", "a write to a page that is not there", "page fault" x 128: 1 + 4 instructions, 0 + 0 branches,
        branches = None, page_faults = Length::new(0, 1), needs = Needs::FreshPages;
    truecount_lab_faults ["2: mov byte ptr [rsi], 1", "add rsi, rdx", "dec rdi", "jnz 2b", "ret"]
    "rep", "rep stosq of 512 bytes, one instruction", "rep instruction" x 5_000: 3 + 5 instructions, 1 + 1 branches;
    truecount_lab_rep [
        "mov r8, rdi", "xor eax, eax", "2: mov rdi, rsi", "mov ecx, 64", "rep stosq", "dec r8", "jnz 2b", "ret"
    ]
    "x87", "fld1, fldpi, faddp, fstp", "turn" x 20_000: 1 + 6 instructions, 1 + 1 branches;
    truecount_lab_x87 ["2: fld1", "fldpi", "faddp", "fstp qword ptr [rsi]", "dec rdi", "jnz 2b", "ret"]
    "sse", "sqrtsd, addpd and a store", "turn" x 10_000: 1 + 6 instructions, 1 + 1 branches;
    truecount_lab_sse [
        "2: movsd xmm0, qword ptr [rsi]", "sqrtsd xmm0, xmm0", "addpd xmm0, xmm0", "movsd qword ptr [rsi], xmm0",
        "dec rdi", "jnz 2b", "ret"
    ]
    "avx", "256-bit add, multiply and store", "turn" x 10_000: 2 + 6 instructions, 1 + 1 branches, unavailable = avx;
    truecount_lab_avx [
        "2: vmovups ymm0, ymmword ptr [rsi]", "vaddps ymm0, ymm0, ymm0", "vmulps ymm0, ymm0, ymm0",
        "vmovups ymmword ptr [rsi], ymm0", "dec rdi", "jnz 2b", "vzeroupper", "ret"
    ]
    "contended", "lock xadd on a cache line that another thread fights for", "locked instruction" x 5_000:
        2 + 3 instructions, 1 + 1 branches, needs = Needs::Contender;
    truecount_lab_locked ["mov eax, 1", "2: lock xadd qword ptr [rsi], rax", "dec rdi", "jnz 2b", "ret"]
}

fn avx() -> Option<&'static str> {
    (!std::arch::is_x86_feature_detected!("avx")).then_some("this CPU has no AVX")
}

global_asm!(
    ".pushsection .text.truecount_lab,\"ax\",@progbits",
    // Frames with frame pointers: depth in rdi, then rsi is called with rdx.
    ".p2align 6",
    ".globl truecount_lab_framed",
    ".hidden truecount_lab_framed",
    "truecount_lab_framed:",
    "push rbp",
    "mov rbp, rsp",
    "test rdi, rdi",
    "jz 2f",
    "dec rdi",
    "call truecount_lab_framed",
    "pop rbp",
    "ret",
    "2: mov rdi, rdx",
    "call rsi",
    "pop rbp",
    "ret",
    ".popsection",
);
