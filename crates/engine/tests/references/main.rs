//! Noted memory references: by hand, and one by one equal to those of a single-stepping tracer.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used, clippy::unwrap_used)] // helpers of tests

mod anywhere;
mod by_hand;
mod filtered;
mod masked;
mod nodes;
mod recent;
mod state;
#[path = "../support/mod.rs"]
mod support;
mod tails;
mod tracer;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use support::{built, fixed_layout, launch, same_references};
use truecount_engine::virt::references::{Access, Executed, References, Sink, Thread, Unknown};
use truecount_engine::virt::{self, Options};

/// One reference: the instruction's address, the operand's, bytes, what for.
type Reference = (u64, u64, u32, char);

/// Everything that a run referenced.
#[derive(Default)]
struct All {
    references: BTreeMap<Thread, Vec<Reference>>,
    instructions: u64,
    unknown: BTreeMap<Unknown, u64>,
    lost: u32,
}

impl Sink for All {
    fn executed(&mut self, thread: Thread, executed: &Executed<'_>) {
        self.instructions += executed.done as u64;
        let references = self.references.entry(thread).or_default();
        for (at, instruction) in executed.instructions() {
            if let Some(unknown) = instruction.unknown {
                *self.unknown.entry(unknown).or_default() += 1;
            }
            let first = references.len();
            executed.references(at, |_, operand, run| {
                let kind = match operand.access {
                    Access::Load => 'r',
                    Access::Store => 'w',
                    Access::Modify => 'm',
                };
                for time in 0..run.times {
                    let address = run.address + time * u64::from(run.size);
                    references.push((instruction.pc, address, run.size, kind));
                }
            });
            references[first..].sort_unstable();
        }
    }

    fn lost(&mut self, parts: u32) {
        self.lost += parts;
    }
}

/// Runs a program with its references noted.
fn noted(program: &Path, arguments: &[&str]) -> Option<(All, virt::Outcome)> {
    let mut command = Command::new(program);
    command.args(arguments);
    same_references(&mut command);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    fixed_layout(&mut command);
    let all = Arc::new(Mutex::new(All::default()));
    let sink: Arc<Mutex<dyn Sink>> = all.clone();
    let options = Options::default().references(Some(References::new(sink)));
    let outcome = launch(&mut command, &options)?
        .wait()
        .expect("it ends well");
    let all = std::mem::take(&mut *all.lock().unwrap());
    assert_eq!(all.lost, 0);
    Some((all, outcome))
}

/// The references of a program with one thread are those that a tracer sees.
fn as_traced(program: &Path, arguments: &[&str]) -> Option<All> {
    let (all, outcome) = noted(program, arguments)?;
    assert!(outcome.status.success(), "{}", outcome.status);
    assert_eq!(all.instructions, outcome.totals.instructions());
    let mut command = Command::new(program);
    command.args(arguments);
    same_references(&mut command);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    fixed_layout(&mut command);
    let traced = tracer::trace(command)?;
    assert_eq!(all.references.len(), 1);
    assert!(all.unknown.is_empty(), "{:?}", all.unknown);
    let ours = all.references.values().next().unwrap();
    for (at, (one, other)) in ours.iter().zip(&traced).enumerate() {
        assert_eq!(one, other, "reference {at}: noted, traced");
    }
    assert_eq!(ours.len(), traced.len());
    Some(all)
}

fn assemble(name: &str, body: &str) -> Option<std::path::PathBuf> {
    let source = format!(
        ".intel_syntax noprefix\n.globl _start\n_start:\n{body}\nmov eax, 60\nxor edi, edi\nsyscall\n\
         .data\n.balign 4096\ndata: .fill 8192, 1, 1\n.bss\n.balign 64\nroom: .skip 65536\n"
    );
    built(&format!("{name}.s"), &source, &["-nostdlib", "-static"])
}

const MODES: &str = "
    mov eax, [rip+data]
    mov [rip+data+4], rax
    lea rbx, [rip+data]
    mov cl, [rbx]
    mov cx, [rbx+1]
    mov ecx, 62
    mov rdx, [rbx+rcx]
    mov rdx, [rbx+rcx*8-100]
    mov rdx, [rcx*4+data]
    mov edx, [data]
    movabs al, [data]
    movabs [data+8], rax
    lea r12, [rbx+128]
    lea r13, [rbx+256]
    mov rax, [r12]
    mov rax, [r13]
    mov edx, 64
    mov rax, [r13+rdx*2-300]
    mov [rdx+rbx], r15
    mov rcx, [rbx+8]
    mov rdx, [rbx+8]
    mov rcx, rbx
    mov rdx, 3
    mov rcx, [rcx+rdx*8]
    mov rdx, rbx
    add [rdx], rdx
    add qword ptr [rbx], 1
    inc byte ptr [rbx+7]
    neg dword ptr [rbx+60]
    lock xadd [rbx], eax
    xchg [rbx+16], rax
    cmpxchg [rbx+24], rcx
    lock cmpxchg16b [rbx+32]
    lea rax, [rbx+rcx*2]
    nop dword ptr [rax]
    prefetcht0 [rbx]
    mov ebx, offset data
    mov eax, [ebx+16]
    mov edx, 8
    mov eax, [ebx+edx*2+1]
    mov r9, -8
    mov eax, [ebx+r9d]
    push rax
    push 5
    push qword ptr [rbx]
    push qword ptr [rsp+8]
    pop qword ptr [rbx+8]
    pop qword ptr [rsp+8]
    pop rax
    pop rcx
    pushf
    popf
    push ax
    pop ax
    mov rbp, rsp
    push rbp
    mov rbp, rsp
    leave
    mov rbp, rsp
    enter 32, 0
    enter 16, 1
    enter 24, 4
    mov rsp, rbp
    leave
    call 1f
    call 1f
    lea rax, [rip+1f]
    call rax
    mov [rbx], rax
    call [rbx]
    jmp 2f
 1: ret
 2: lea rax, [rip+3f]
    mov [rbx+40], rax
    mov ecx, 5
    jmp [rbx+rcx*8]
 3: sub rsp, 16
    call 4f
    jmp 5f
 4: ret 8
 5: bt dword ptr [rbx], 35
    mov ecx, 1000
    bts [rbx], ecx
    mov rcx, -70
    btr [rbx+64], rcx
    bt [rbx+64], cx
    xlatb
    mov ecx, 63
    mov eax, 1
    cmovz eax, [rbx+4]
    cmovnz eax, [rbx+8]
    setz [rbx+100]
    movzx eax, byte ptr [rbx+3]
    movsxd rax, dword ptr [rbx+61]
    imul eax, [rbx], 3
    mul qword ptr [rbx]
    mov dword ptr [rbx], 7
    movbe eax, [rbx+2]
    movnti [rbx+200], rax
    crc32 eax, word ptr [rbx]
    test byte ptr [rbx], 1
    cmp word ptr [rbx+4094], 1
";

#[test]
fn every_addressing_mode() {
    let Some(program) = assemble("modes", MODES) else {
        return;
    };
    let Some(all) = as_traced(&program, &[]) else {
        return;
    };
    assert!(all.unknown.is_empty(), "{:?}", all.unknown);
    let noted = all.references.values().next().unwrap().len();
    assert!(noted > 70, "{noted}");
}

#[test]
fn strings() {
    let body = "
    lea rsi, [rip+data]
    lea rdi, [rip+room]
    mov ecx, 1000
    rep movsb
    mov ecx, 0
    rep movsb
    mov ecx, 77
    rep movsq
    movsd
    lodsb
    stosw
    mov ecx, 20
    std
    rep movsd
    mov ecx, 3
    rep stosb
    cld
    mov ecx, 100
    rep stosq
    lea rsi, [rip+data]
    lea rdi, [rip+data]
    mov ecx, 50
    repe cmpsb
    lea rdi, [rip+room+5000]
    mov ecx, 50
    mov al, 1
    repne scasb
    lea rsi, [rip+data]
    lea rdi, [rip+room]
    mov ecx, 50
    repe cmpsq
    scasb
    cmpsw
    mov ecx, 4
    rep lodsb
";
    let Some(program) = assemble("strings", body) else {
        return;
    };
    let Some(all) = as_traced(&program, &[]) else {
        return;
    };
    assert!(all.unknown.is_empty(), "{:?}", all.unknown);
}

#[test]
fn vectors_and_x87() {
    let body = "
    lea rbx, [rip+data]
    movups xmm0, [rbx+1]
    movaps [rbx+16], xmm0
    movss xmm1, [rbx]
    movsd [rbx+60], xmm1
    movlps xmm0, [rbx+8]
    movq xmm0, [rbx]
    pmovzxbd xmm0, [rbx+3]
    pinsrb xmm0, [rbx+9], 1
    extractps [rbx+10], xmm0, 1
    paddd xmm0, [rbx+32]
    cvtsi2sd xmm0, qword ptr [rbx]
    fld dword ptr [rbx]
    fld qword ptr [rbx+8]
    fld tbyte ptr [rbx+16]
    fstp tbyte ptr [rbx+62]
    fistp word ptr [rbx]
    fild qword ptr [rbx]
    fstp qword ptr [rbx]
    fstp dword ptr [rbx]
    fnstcw [rbx]
    fldcw [rbx]
    fnstenv [rbx+128]
    fldenv [rbx+128]
    fnsave [rbx+256]
    frstor [rbx+256]
    stmxcsr [rbx]
    ldmxcsr [rbx]
    fxsave [rbx+512]
    fxrstor [rbx+512]
    movntdq [rbx+64], xmm0
";
    let Some(program) = assemble("vectors", body) else {
        return;
    };
    let Some(all) = as_traced(&program, &[]) else {
        return;
    };
    assert!(all.unknown.is_empty(), "{:?}", all.unknown);
}

#[test]
fn what_is_not_known_is_named() {
    if !is_x86_feature_detected!("avx512bw") || !is_x86_feature_detected!("xsaveopt") {
        truecount_testing::skip("x86-64", "this CPU has no AVX-512, or no xsaveopt");
        return;
    }
    // The mask of a shuffle concerns its result; what is doubled was not looked at.
    let body = "
    lea rbx, [rip+data]
    mov eax, 5
    kmovd k1, eax
    vpshufb zmm1{k1}, zmm2, [rbx]
    vmovddup zmm1{k1}, [rbx]
    vmovups zmm3, [rbx+7]
    vmovups [rbx+71], zmm3
    xor edx, edx
    lea rbx, [rip+room]
    xsaveopt [rbx]
    vzeroupper
";
    let Some(program) = assemble("unknown", body) else {
        return;
    };
    let Some((all, outcome)) = noted(&program, &[]) else {
        return;
    };
    assert!(outcome.status.success());
    let unknown: Vec<(Unknown, u64)> = all.unknown.into_iter().collect();
    let expected = [Unknown::Masked, Unknown::StateSize];
    assert_eq!(unknown, expected.map(|what| (what, 1)));
    let known = all.references.values().next().unwrap();
    let kinds: Vec<(u32, char)> = known
        .iter()
        .map(|&(_, _, size, kind)| (size, kind))
        .collect();
    assert_eq!(kinds, [(64, 'r'), (64, 'r'), (64, 'w')]);
}

#[test]
fn thread_local_data_and_a_base_of_gs() {
    let body = "
    lea rsi, [rip+data]
    mov edi, 0x1002
    mov eax, 158
    syscall
    mov rax, fs:[0]
    mov ecx, 8
    mov rax, fs:[rcx*2+4]
    add dword ptr fs:[rcx], 1
    push qword ptr fs:[rcx]
    pop rax
    lea rsi, [rip+room]
    mov edi, 0x1001
    mov eax, 158
    syscall
    mov ecx, 8
    mov rax, gs:[16]
    mov gs:[rcx+1], rax
";
    let Some(program) = assemble("segments", body) else {
        return;
    };
    let Some(all) = as_traced(&program, &[]) else {
        return;
    };
    assert!(all.unknown.is_empty(), "{:?}", all.unknown);
}

/// More words than the ring has.
#[test]
fn a_ring_is_read_while_it_is_filled() {
    let body = "
    lea rbx, [rip+room]
    mov ecx, 400000
 1: mov rax, [rbx]
    add [rbx+rax*8+8], ecx
    cmp ecx, 5
    je 2f
    push rcx
    pop rcx
 2: dec ecx
    jnz 1b
";
    let Some(program) = assemble("ring", body) else {
        return;
    };
    let Some((all, outcome)) = noted(&program, &[]) else {
        return;
    };
    assert!(outcome.status.success());
    assert_eq!(all.instructions, outcome.totals.instructions());
    let references = all.references.values().next().unwrap();
    assert_eq!(references.len(), 2 * 400_000 + 2 * 399_999);
}

/// A static program of the C library's, from its first instruction to its last.
#[test]
fn a_whole_program() {
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    int numbers[100];
    char text[300];
    for (int at = 0; at < 100; at++) numbers[at] = at * 7919 % 101;
    qsort(numbers, 100, sizeof *numbers, compare);
    memset(text, 'x', sizeof text - 1);
    text[299] = 0;
    printf("%d %zu %f %s\n", numbers[50], strlen(text), numbers[3] / 3.0, strchr(text + 5, 'x'));
    free(malloc(100000));
    return 0;
}
"#;
    let Some(program) = built("whole.c", source, &["-O2", "-static"]) else {
        return;
    };
    as_traced(&program, &[]);
}
