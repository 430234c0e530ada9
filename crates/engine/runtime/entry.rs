//! The crossing between translated code and the runtime.
//!
//! Translated code arrives with every register the program's own, except RCX
//! after an indirect branch that missed. The crossing saves the general registers, flags
//! and XMM0-15 (all that baseline Rust code can touch; legacy SSE moves keep
//! the upper halves of wider registers), changes to the runtime's stack and
//! calls [`crate::dispatch::rt_dispatch`]. `rt_enter` is restartable: a signal
//! inside it moves the program counter back to its start (see `signals`).

use crate::layout::Context;
use core::arch::global_asm;
use core::mem::offset_of;

/// Which vector was taken: values of `Context::exit_kind`.
pub mod kind {
    pub const EXIT: u32 = 0;
    pub const SYSCALL: u32 = 1;
    pub const SPECIAL: u32 = 2;
    pub const MISS_RET: u32 = 3;
    pub const MISS_MEMORY: u32 = 4;
    /// Continue at `Context::target`.
    pub const GOTO: u32 = 5;
    /// Step over one instruction at `Context::target` without keeping it.
    pub const ONCE: u32 = 6;
    /// The thread's fuel is used up: others have their turn (see `schedule`).
    pub const TURN: u32 = 7;
    /// A call, return or jump that a routine of `call_routines` did not know.
    pub const CALL: u32 = 32;
    pub const RETURN: u32 = 33;
    pub const JUMP: u32 = 34;
    /// The ring of noted references has no room (see `references`).
    pub const REFERENCES: u32 = 8;
    /// The same, in the middle of a block (see `known`).
    pub const NO_ROOM: u32 = 10;
    /// A block with a hook is about to begin (see `collect`).
    pub const HOOK: u32 = 9;
    /// Plus the register's number: a jump or call through it is not in its table.
    pub const MISS_REGISTER: u32 = 16;
}

global_asm!(
    ".pushsection .text.start, \"ax\", @progbits",
    ".globl _start",
    "_start: jmp rt_boot",
    ".balign 8",
    "jmp rt_miss_ret",
    ".balign 8",
    "jmp rt_miss_memory",
    ".balign 8",
    "jmp rt_miss_rax",
    ".balign 8",
    "jmp rt_miss_rcx",
    ".balign 8",
    "jmp rt_miss_rdx",
    ".popsection",
    ".text",
    "rt_boot:",
    "movabs rsp, {boot}",
    "mov rdi, rsp",
    "xor ebp, ebp",
    "call rt_start",
    // The launcher, which traces us until here, lets go.
    "int3",
    "jmp rt_enter",
    //
    ".globl rt_exit",
    "rt_exit: mov dword ptr gs:[{kind}], 0",
    "jmp rt_save",
    ".globl rt_syscall",
    "rt_syscall: mov dword ptr gs:[{kind}], 1",
    "jmp rt_save",
    ".globl rt_special",
    "rt_special: mov dword ptr gs:[{kind}], 2",
    "jmp rt_save",
    ".globl rt_turn",
    "rt_turn: mov dword ptr gs:[{kind}], 7",
    "jmp rt_save",
    ".globl rt_hook",
    "rt_hook: mov dword ptr gs:[{kind}], 9",
    "jmp rt_save",
    ".globl rt_references",
    "rt_references: mov dword ptr gs:[{kind}], 8",
    "jmp rt_save",
    ".globl rt_miss_ret",
    "rt_miss_ret: mov rcx, [rsp-8]",
    "mov gs:[{target}], rcx",
    "mov rcx, gs:[{spill}]",
    "mov dword ptr gs:[{kind}], 3",
    "jmp rt_save",
    ".globl rt_miss_memory",
    "rt_miss_memory: mov rcx, gs:[{spill}]",
    "mov dword ptr gs:[{kind}], 4",
    "jmp rt_save",
    // The register holds the target.
    ".globl rt_miss_rax",
    "rt_miss_rax: mov rcx, gs:[{spill}]",
    "mov gs:[{target}], rax",
    "mov dword ptr gs:[{kind}], 16",
    "jmp rt_save",
    ".globl rt_miss_rcx",
    "rt_miss_rcx: mov rcx, gs:[{target}]",
    "mov dword ptr gs:[{kind}], 17",
    "jmp rt_save",
    ".globl rt_miss_rdx",
    "rt_miss_rdx: mov rcx, gs:[{spill}]",
    "mov gs:[{target}], rdx",
    "mov dword ptr gs:[{kind}], 18",
    "jmp rt_save",
    ".globl rt_once",
    "rt_once: mov dword ptr gs:[{kind}], 6",
    "jmp rt_save",
    ".globl rt_goto",
    "rt_goto: mov dword ptr gs:[{kind}], 5",
    //
    ".globl rt_save",
    "rt_save:",
    "mov gs:[{regs}+0], rax",
    "mov gs:[{regs}+8], rcx",
    "mov gs:[{regs}+16], rdx",
    "mov gs:[{regs}+24], rbx",
    "mov gs:[{regs}+32], rsp",
    "mov gs:[{regs}+40], rbp",
    "mov gs:[{regs}+48], rsi",
    "mov gs:[{regs}+56], rdi",
    "mov gs:[{regs}+64], r8",
    "mov gs:[{regs}+72], r9",
    "mov gs:[{regs}+80], r10",
    "mov gs:[{regs}+88], r11",
    "mov gs:[{regs}+96], r12",
    "mov gs:[{regs}+104], r13",
    "mov gs:[{regs}+112], r14",
    "mov gs:[{regs}+120], r15",
    "mov rsp, gs:[{stack}]",
    "pushfq",
    "pop qword ptr gs:[{rflags}]",
    "cld",
    // A program may have set alignment checking; we do not live with it.
    "test dword ptr gs:[{rflags}], 0x40000",
    "jz 6f",
    "push 0x202",
    "popfq",
    "6:",
    "movaps gs:[{xmm}+0], xmm0",
    "movaps gs:[{xmm}+16], xmm1",
    "movaps gs:[{xmm}+32], xmm2",
    "movaps gs:[{xmm}+48], xmm3",
    "movaps gs:[{xmm}+64], xmm4",
    "movaps gs:[{xmm}+80], xmm5",
    "movaps gs:[{xmm}+96], xmm6",
    "movaps gs:[{xmm}+112], xmm7",
    "movaps gs:[{xmm}+128], xmm8",
    "movaps gs:[{xmm}+144], xmm9",
    "movaps gs:[{xmm}+160], xmm10",
    "movaps gs:[{xmm}+176], xmm11",
    "movaps gs:[{xmm}+192], xmm12",
    "movaps gs:[{xmm}+208], xmm13",
    "movaps gs:[{xmm}+224], xmm14",
    "movaps gs:[{xmm}+240], xmm15",
    "mov rdi, gs:[{this}]",
    "call rt_dispatch",
    //
    ".globl rt_enter",
    "rt_enter:",
    "mov rsp, gs:[{stack}]",
    "movaps xmm0, gs:[{xmm}+0]",
    "movaps xmm1, gs:[{xmm}+16]",
    "movaps xmm2, gs:[{xmm}+32]",
    "movaps xmm3, gs:[{xmm}+48]",
    "movaps xmm4, gs:[{xmm}+64]",
    "movaps xmm5, gs:[{xmm}+80]",
    "movaps xmm6, gs:[{xmm}+96]",
    "movaps xmm7, gs:[{xmm}+112]",
    "movaps xmm8, gs:[{xmm}+128]",
    "movaps xmm9, gs:[{xmm}+144]",
    "movaps xmm10, gs:[{xmm}+160]",
    "movaps xmm11, gs:[{xmm}+176]",
    "movaps xmm12, gs:[{xmm}+192]",
    "movaps xmm13, gs:[{xmm}+208]",
    "movaps xmm14, gs:[{xmm}+224]",
    "movaps xmm15, gs:[{xmm}+240]",
    "cmp dword ptr gs:[{pending}], 0",
    "jne rt_unmask",
    "push qword ptr gs:[{rflags}]",
    "popfq",
    "mov rax, gs:[{regs}+0]",
    "mov rcx, gs:[{regs}+8]",
    "mov rdx, gs:[{regs}+16]",
    "mov rbx, gs:[{regs}+24]",
    "mov rbp, gs:[{regs}+40]",
    "mov rsi, gs:[{regs}+48]",
    "mov rdi, gs:[{regs}+56]",
    "mov r8, gs:[{regs}+64]",
    "mov r9, gs:[{regs}+72]",
    "mov r10, gs:[{regs}+80]",
    "mov r11, gs:[{regs}+88]",
    "mov r12, gs:[{regs}+96]",
    "mov r13, gs:[{regs}+104]",
    "mov r14, gs:[{regs}+112]",
    "mov r15, gs:[{regs}+120]",
    "mov rsp, gs:[{regs}+32]",
    "jmp qword ptr gs:[{resume}]",
    ".globl rt_enter_end",
    "rt_enter_end:",
    // Deferred signals: the program's state is complete in the context (and in
    // the vector registers). They arrive right after this system call.
    ".globl rt_unmask",
    "rt_unmask:",
    "mov dword ptr gs:[{pending}], 0",
    "mov eax, 14",
    "mov edi, 2",
    "mov rsi, gs:[{this}]",
    "add rsi, {mask}",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    ".globl rt_unmasked",
    "rt_unmasked: jmp rt_enter",
    //
    // Signal handler: the kernel put its frame on the runtime's signal stack.
    ".globl rt_signal",
    "rt_signal:",
    "push 0x202",
    "popfq",
    "push rbp",
    "mov rbp, rsp",
    "and rsp, -64",
    "call rt_host_signal",
    "mov rsp, rbp",
    "pop rbp",
    "ret",
    ".globl rt_restorer",
    "rt_restorer: mov eax, 15",
    "syscall",
    "ud2",
    // rt_sigreturn with a frame we made: rdi = its ucontext.
    ".globl rt_sigreturn_to",
    "rt_sigreturn_to: mov rsp, rdi",
    "mov eax, 15",
    "syscall",
    "ud2",
    // rt_copy(to, from, len) -> 0, or 1 after a fault
    ".globl rt_copy",
    "rt_copy: mov rcx, rdx",
    ".globl rt_copy_insn",
    "rt_copy_insn: rep movsb",
    "xor eax, eax",
    "ret",
    ".globl rt_copy_fault",
    "rt_copy_fault: mov eax, 1",
    "ret",
    // rt_fetch(to, from): the 15 bytes of an instruction -> 0, or 1 after a fault
    ".globl rt_fetch",
    "rt_fetch:",
    ".globl rt_fetch_insn",
    "rt_fetch_insn: mov rax, [rsi]",
    ".globl rt_fetch_insn_2",
    "rt_fetch_insn_2: mov rdx, [rsi+7]",
    "mov [rdi], rax",
    "mov [rdi+7], rdx",
    "xor eax, eax",
    "ret",
    // rt_differs(a, b, len) -> 0 for the same bytes, 1 for others or after a fault
    ".globl rt_differs",
    "rt_differs: mov rcx, rdx",
    "cmp rcx, rcx",
    ".globl rt_differs_insn",
    "rt_differs_insn: repe cmpsb",
    "setne al",
    "movzx eax, al",
    "ret",
    // rt_wait(number, arguments): a call that waits, and that a signal which came before it ends, too.
    ".globl rt_wait",
    "rt_wait: cmp dword ptr gs:[{pending}], 0",
    "jne rt_wait_stopped",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11+8]",
    "mov rdx, [r11+16]",
    "mov r10, [r11+24]",
    "mov r8, [r11+32]",
    "mov r9, [r11+40]",
    ".globl rt_wait_call",
    "rt_wait_call: syscall",
    "ret",
    ".globl rt_wait_stopped",
    "rt_wait_stopped: mov rax, -4",
    "ret",
    // rt_interrupt(registers): `int 0x80` with the program's registers (encoding order), and those of ours behind them;
    // -512: a signal came first, or the call is to be made again after it; -513: the CPU refused.
    ".globl rt_interrupt",
    "rt_interrupt: mov [rdi+128], rbx",
    "mov [rdi+136], rbp",
    "mov [rdi+144], r12",
    "mov r12, rdi",
    ".globl rt_interrupt_begins",
    "rt_interrupt_begins: cmp dword ptr gs:[{pending}], 0",
    "jne rt_interrupt_stopped",
    "mov rax, [r12]",
    "mov rcx, [r12+8]",
    "mov rdx, [r12+16]",
    "mov rbx, [r12+24]",
    "mov rbp, [r12+40]",
    "mov rsi, [r12+48]",
    "mov rdi, [r12+56]",
    "mov r8, [r12+64]",
    "mov r9, [r12+72]",
    "mov r10, [r12+80]",
    "mov r11, [r12+88]",
    ".globl rt_interrupt_insn",
    "rt_interrupt_insn: int 0x80",
    "mov [r12+64], r8",
    "mov [r12+72], r9",
    "mov [r12+80], r10",
    "mov [r12+88], r11",
    "jmp 7f",
    ".globl rt_interrupt_fault",
    "rt_interrupt_fault: mov rax, -513",
    "jmp 7f",
    ".globl rt_interrupt_stopped",
    "rt_interrupt_stopped: mov rax, -512",
    "7: mov rbx, [r12+128]",
    "mov rbp, [r12+136]",
    "mov rcx, r12",
    "mov r12, [rcx+144]",
    "ret",
    // rt_clone(number, a1, a2, a3, a4, a5, child context): the child, forked or
    // on a new stack, finds its context in a register that the call preserves.
    ".globl rt_clone",
    "rt_clone: push r12",
    "mov r12, [rsp+16]",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "pop r12",
    "ret",
    "2: mov rdi, r12",
    "and rsp, -16",
    "xor ebp, ebp",
    "call rt_child",
    "jmp rt_enter",
    // Named by unwinding tables of the precompiled core library; never called.
    ".globl rust_eh_personality",
    "rust_eh_personality: ud2",
    ".globl memcpy",
    "memcpy: mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".globl memset",
    "memset: mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".globl memmove",
    "memmove: mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 3f",
    "rep movsb",
    "ret",
    "3: lea rdi, [rdi+rcx-1]",
    "lea rsi, [rsi+rcx-1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".globl memcmp",
    ".globl bcmp",
    "memcmp:",
    "bcmp: xor eax, eax",
    "xor ecx, ecx",
    "4: cmp rcx, rdx",
    "je 5f",
    "movzx eax, byte ptr [rdi+rcx]",
    "movzx r8d, byte ptr [rsi+rcx]",
    "inc rcx",
    "sub eax, r8d",
    "jz 4b",
    "5: ret",
    boot = const crate::layout::BOOT_STACK,
    kind = const offset_of!(Context, exit_kind),
    target = const offset_of!(Context, target),
    spill = const offset_of!(Context, spill),
    regs = const offset_of!(Context, regs),
    stack = const offset_of!(Context, stack),
    rflags = const offset_of!(Context, rflags),
    xmm = const offset_of!(Context, xmm),
    this = const offset_of!(Context, this),
    pending = const offset_of!(Context, pending),
    resume = const offset_of!(Context, resume),
    mask = const offset_of!(Context, pending_mask),
);

unsafe extern "C" {
    pub fn rt_exit();
    pub fn rt_syscall();
    pub fn rt_special();
    pub fn rt_turn();
    pub fn rt_hook();
    pub fn rt_references();
    pub fn rt_miss_ret();
    pub fn rt_miss_memory();
    pub fn rt_miss_rax();
    pub fn rt_miss_rcx();
    pub fn rt_miss_rdx();
    pub fn rt_goto();
    pub fn rt_once();
    pub fn rt_enter();
    pub fn rt_enter_end();
    pub fn rt_unmask();
    pub fn rt_unmasked();
    pub fn rt_signal();
    pub fn rt_restorer();
    pub fn rt_sigreturn_to(ucontext: *const u8) -> !;
    pub fn rt_copy(to: u64, from: u64, len: u64) -> u64;
    pub fn rt_copy_insn();
    pub fn rt_copy_fault();
    pub fn rt_fetch(to: u64, from: u64) -> u64;
    pub fn rt_fetch_insn();
    pub fn rt_fetch_insn_2();
    pub fn rt_differs(a: u64, b: u64, len: u64) -> u64;
    pub fn rt_differs_insn();
    pub fn rt_wait(number: u64, arguments: *const u64) -> i64;
    pub fn rt_wait_call();
    pub fn rt_wait_stopped();
    pub fn rt_interrupt(registers: *mut u64) -> i64;
    pub fn rt_interrupt_begins();
    pub fn rt_interrupt_insn();
    pub fn rt_interrupt_fault();
    pub fn rt_interrupt_stopped();
    pub fn rt_clone(number: u64, a1: u64, a2: u64, a3: u64, a4: u64, a5: u64, child: u64) -> i64;
}

/// Whether a fault at `rip` is one of those that `rt_fetch` and `rt_differs` answer.
pub fn reads_code(rip: u64) -> bool {
    [rt_fetch_insn, rt_fetch_insn_2, rt_differs_insn]
        .into_iter()
        .any(|label| address(label) == rip)
}

/// The address of one of the labels above.
pub fn address(label: unsafe extern "C" fn()) -> u64 {
    label as usize as u64
}
