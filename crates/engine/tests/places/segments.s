# Selectors of GS, and addresses of 32 bits. Ends with the number of the check that failed, or 0.
.globl _start
.data
.balign 8
data: .quad 0x1111, 0x2222, answer
ds: .word 0x2b, 0
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
    # Far returns: iret sets the stack and the flags, too.
    mov $12, %edi
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
    mov $13, %edi
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
    mov $14, %edi
    lea 64(%rsp), %rcx
    cmp %rcx, %rbp
    jne out
    push %rax
    push %rax
    lea 1f(%rip), %rcx
    push %rcx
    lretq $8
1:  mov $15, %edi
    lea 64(%rsp), %rcx
    cmp %rcx, %rbp
    jne out
    sub $8, %rsp
    movl $1f, (%rsp)
    mov %eax, 4(%rsp)
    lretl
1:  mov $16, %edi
    lea 64(%rsp), %rcx
    cmp %rcx, %rbp
    jne out
    xor %edi, %edi
out: mov $231, %eax
    syscall
