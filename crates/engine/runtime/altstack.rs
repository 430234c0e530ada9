//! The program's alternate signal stack: the kernel has the runtime's.

use crate::layout::Context;

/// Whether a program stack pointer is on its alternate stack.
pub fn is_used(context: &Context, sp: u64) -> bool {
    let [base, _, size] = context.altstack;
    size != 0 && sp > base && sp - base <= size
}

/// The alternate stack as the program sees it.
pub fn view(context: &Context, sp: u64) -> [u64; 3] {
    let [base, flags, size] = context.altstack;
    let flags = if size == 0 {
        2
    } else {
        flags & 0x8000_0000 | u64::from(is_used(context, sp))
    };
    [base, flags, size]
}
