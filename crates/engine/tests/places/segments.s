# Selectors of GS, and addresses of 32 bits. Ends with the number of the check that failed, or 0.
.globl _start
.data
.balign 8
data: .quad 0x1111, 0x2222, answer
ds: .word 0x2b, 0
far32: .long 0x12345678
    .word 0x2b
far16: .word 0x9abc, 0x2b
.balign 32
indexes: .quad 8, 16, 0, 8
copied: .quad 0, 0, 0
.text
answer: mov $42, %eax
    ret
_start:
    mov $1, %edi
    # arch_prctl(ARCH_SET_GS, data); a null selector (the base may stay); the flat one: base 0.
    mov $0x1001, %edi
    lea data(%rip), %rsi
    mov $158, %eax
    syscall
    mov $2, %edi
    cmpq $0x2222, %gs:8
    jne out
    mov $0x2b, %eax
    mov %eax, %gs
    mov $3, %edi
    lea data(%rip), %rbx
    cmpq $0x2222, %gs:8(%rbx)
    jne out
    # From memory, of several forms, and from the stack.
    mov $0x1001, %edi
    lea data(%rip), %rsi
    mov $158, %eax
    syscall
    movw ds(%rip), %gs
    mov $4, %edi
    cmpq $0x1111, %gs:(%rbx)
    jne out
    mov $2, %ecx
    movw 20(%rbx,%rcx,2), %gs
    movw ds-data(%rbx), %gs
    movw ds(,%rcx,1), %gs
    movw ds-2(,%rcx,1), %gs
    mov $5, %edi
    cmpq $0x1111, %gs:(%rbx)
    jne out
    pushq $0x2b
    mov %rsp, %rbp
    pop %gs
    add $-8, %rbp
    add $16, %rbp
    mov $6, %edi
    cmp %rsp, %rbp
    jne out
    cmpq $0x1111, %gs:(%rbx)
    jne out
    # Flags stay.
    stc
    mov %eax, %ecx
    mov $0x2b, %eax
    mov %eax, %gs
    mov $7, %edi
    jnc out
    # Addresses relative to EIP, also with FS, and as targets.
    mov $8, %edi
    mov data(%eip), %rax
    cmp $0x1111, %rax
    jne out
    lea data(%eip), %rax
    mov $9, %edi
    cmp %rbx, %rax
    jne out
    addq $1, data+8(%eip)
    mov $10, %edi
    cmpq $0x2223, data+8(%rip)
    jne out
    cmpq $0x2223, %fs:data+8(%eip)
    jne out
    call *data+16(%eip)
    mov $11, %edi
    cmp $42, %eax
    jne out
    call *%fs:data+16(%rip)
    cmp $42, %eax
    jne out
    movaps %xmm1, %xmm2
    movq data(%eip), %xmm1
    movq %xmm1, %rax
    cmp $0x1111, %rax
    jne out
    # lgs: the offset goes to a register, the selector is the flat one. Base 0 again.
    mov $12, %edi
    mov $-1, %rcx
    lgs far32(%rip), %ecx
    cmp $0x12345678, %rcx
    jne out
    mov $-1, %rcx
    stc
    lgsw far16-data(%rbx), %cx
    jnc out
    cmp $0xffffffffffff9abc, %rcx
    jne out
    cmpq $0x1111, %gs:(%rbx)
    jne out
    # Strings, with the base at data.
    mov $0x1001, %edi
    lea data(%rip), %rsi
    mov $158, %eax
    syscall
    mov $13, %edi
    mov %rdi, %r8
    mov $8, %esi
    mov $99, %ebx
    stc
    lodsq %gs:(%rsi), %rax
    jnc out
    cmp $0x2223, %rax
    jne out
    cmp $16, %rsi
    jne out
    cmp $99, %ebx
    jne out
    mov $14, %r8d
    xor %esi, %esi
    lea copied(%rip), %rdi
    mov $16, %ecx
    rep movsb %gs:(%rsi), %es:(%rdi)
    xchg %rdi, %r8
    jrcxz 1f
    jmp out
1:  cmp $16, %rsi
    jne out
    cmpq $0x2223, copied+8(%rip)
    jne out
    mov $15, %r8d
    xor %esi, %esi
    lea copied(%rip), %rdi
    mov $3, %ecx
    repe cmpsq %es:(%rdi), %gs:(%rsi)
    mov %r8, %rdi
    je out
    cmp $0, %rcx
    jne out
    cmp $24, %rsi
    jne out
    # The byte at data+8+1.
    mov $16, %edi
    mov $8, %ebx
    mov $1, %eax
    xlat %gs:(%rbx)
    cmp $0x22, %al
    jne out
    cmp $8, %rbx
    jne out
    # Addresses of 32 bits: what is above them does not count.
    mov $17, %edi
    mov $0xfffffff0, %eax
    mov $3, %ecx
    movabs $0x700000000, %r9
    or %rax, %r9
    mov %gs:(%r9d,%ecx,8), %rdx
    cmp $0x2223, %rdx
    jne out
    mov %gs:24(%eax), %rdx
    cmp $0x2223, %rdx
    jne out
    mov $18, %edi
    mov $8, %ebp
    mov $1, %esi
    stc
    adcq $1, %gs:(%ebp)
    jc out
    cmpq $0x2225, %gs:(%ebp)
    jne out
    subq $2, %gs:-8(%ebp,%esi,8)
    cmpq $0x2223, %gs:0(,%esi,8)
    jne out
    cmpq $0x2223, %gs:0(,%esi,8)
    addr32 mov %gs:8, %rdx
    cmp $0x2223, %rdx
    jne out
    mov $19, %edi
    movss %gs:8(,%r13d,1), %xmm3
    cmpxchg8b %gs:8(%ebp)
    .byte 0x65, 0x67, 0x48, 0xa1
    .long 8
    cmp $0x2223, %rax
    jne out
    # Two prefixes: the last one is it.
    .byte 0x64
    mov %gs:8, %rdx
    cmp $0x2223, %rdx
    jne out
    # Vectors of indexes, where the CPU has them.
    mov %rdi, %r8
    mov $7, %eax
    xor %ecx, %ecx
    cpuid
    mov $20, %edi
    test $32, %ebx
    jz 2f
    mov $8, %esi
    vmovdqu indexes(%rip), %ymm1
    vpcmpeqd %ymm2, %ymm2, %ymm2
    vpgatherqq %ymm2, %gs:-8(%rsi,%ymm1,1), %ymm0
    vmovq %xmm0, %rax
    cmp $0x2223, %rax
    jne out
    vpcmpeqd %ymm2, %ymm2, %ymm2
    vpgatherqq %ymm2, %gs:0(,%ymm1,1), %ymm0
    vmovq %xmm0, %rax
    cmp $0x2223, %rax
    jne out
2:
    # Far returns: iret sets the stack and the flags, too.
    mov $42, %edi
    mov %rsp, %rbp
    mov %ss, %eax
    push %rax
    lea -64(%rbp), %rcx
    push %rcx
    pushq $0xad7
    mov %cs, %eax
    push %rax
    lea 1f(%rip), %rax
    push %rax
    xor %eax, %eax
    iretq
1:  pushfq
    pop %rax
    and $0x8d5, %eax
    cmp $0x8d5, %eax
    jne out
    mov $43, %edi
    lea 64(%rsp), %rax
    cmp %rax, %rbp
    jne out
    mov %cs, %eax
    push %rax
    lea 1f(%rip), %rcx
    push %rcx
    stc
    lretq
1:  jnc out
    mov $44, %edi
    lea 64(%rsp), %rcx
    cmp %rcx, %rbp
    jne out
    push %rax
    push %rax
    lea 1f(%rip), %rcx
    push %rcx
    lretq $8
1:  mov $45, %edi
    lea 64(%rsp), %rcx
    cmp %rcx, %rbp
    jne out
    sub $8, %rsp
    movl $1f, (%rsp)
    mov %eax, 4(%rsp)
    lretl
1:  mov $46, %edi
    lea 64(%rsp), %rcx
    cmp %rcx, %rbp
    jne out
    xor %edi, %edi
out: mov $231, %eax
    syscall
