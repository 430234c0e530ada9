// Two stacks beside the first one, which go on in turns. `x` is begun by `_start`, `y` by `x_deep`; both are left and gone
// back to while they are two calls deep.
    .text
    .macro function name
    .globl \name
    .type \name, @function
\name:
    .endm
    .macro go from, to
    mov $\from, %edi
    mov \to, %rsi
    call switch
    .endm

function switch
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    ret
    .size switch, .-switch

function leaf
    nop
    ret
    .size leaf, .-leaf

function x
    call x_deep
    go in_x, in_start
    call leaf
    go in_x, in_start
    .size x, .-x

function x_deep
    call leaf
    go in_x, in_y
    call leaf
    go in_x, in_start
    call leaf
    go in_x, in_y
    call leaf
    ret
    .size x_deep, .-x_deep

function y
    call y_deep
    .size y, .-y

function y_deep
    call leaf
    go in_y, in_x
    call leaf
    go in_y, in_x
    .size y_deep, .-y_deep

function again
    go in_start, in_x
    ret
    .size again, .-again

function _start
    go in_start, in_x
    go in_start, in_x
    call again
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, .-_start

    .data
    .balign 16
in_start: .quad 0
in_x: .quad begin_x
in_y: .quad begin_y
    .balign 16
    .skip 4096
#ifdef X_ABOVE
begin_y: .quad y, 0
    .skip 4096
#endif
begin_x: .quad x, 0
    .skip 4096
#ifndef X_ABOVE
begin_y: .quad y, 0
#endif
    .section .note.GNU-stack, "", @progbits
