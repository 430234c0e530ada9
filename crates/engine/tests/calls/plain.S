// Recursion, mutual recursion, tail calls (direct, conditional, through a register), calls through memory, `ret n`,
// a return used as a jump. Every count can be read off.
.globl _start
.text
.type _start,@function
_start:
    mov $5, %edi          // 1
    call down             // 2
    mov $4, %edi
    call even             // 4
    call first            // 5
    lea leaf(%rip), %rax
    call *%rax            // 7
    call *pointer(%rip)   // 8
    push $1
    push $2
    call takes            // 11
    xor %edi, %edi
    call maybe            // 13
    mov $1, %edi
    call maybe            // 15
    call retpoline        // 16
    mov $231, %eax
    xor %edi, %edi
    syscall               // 19
.size _start, .-_start
.type down,@function
down:
    test %edi, %edi
    je 1f
    dec %edi
    call down
    nop
1:  ret
.size down, .-down
.type even,@function
even:
    test %edi, %edi
    je 1f
    dec %edi
    call odd
1:  ret
.size even, .-even
.type odd,@function
odd:
    test %edi, %edi
    je 1f
    dec %edi
    call even
    nop
1:  ret
.size odd, .-odd
.type first,@function
first:
    nop
    jmp second
.size first, .-first
.type second,@function
second:
    nop
    nop
    lea third(%rip), %rdx
    jmp *%rdx
.size second, .-second
.type third,@function
third:
    call leaf
    ret
.size third, .-third
.type leaf,@function
leaf:
    nop
    ret
.size leaf, .-leaf
.type takes,@function
takes:
    nop
    ret $16
.size takes, .-takes
.type maybe,@function
maybe:
    test %edi, %edi
    jne leaf
    nop
    ret
.size maybe, .-maybe
.type retpoline,@function
retpoline:
    lea third(%rip), %rax
    call 1f
2:  pause
    jmp 2b
1:  mov %rax, (%rsp)
    ret
.size retpoline, .-retpoline
.data
pointer: .quad leaf
