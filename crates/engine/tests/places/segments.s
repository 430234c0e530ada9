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
    xor %edi, %edi
out: mov $231, %eax
    syscall
