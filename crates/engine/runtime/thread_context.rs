//! A thread's context: its fixed fields, and GS at it.

use crate::entry::{self, address};
use crate::layout::{Context, state as slot_state};
use crate::own_memory::NOWHERE;
use crate::slots::{self, SIGNAL_STACK, STACK};
use crate::syscall_table as nr;
use crate::{
    allocations, call_tree, check, collect, counts, own_memory, references, signal_calls, sys,
};
use core::sync::atomic::Ordering::*;

/// Fills the fixed fields of a context, gives it stacks, points GS at it.
pub fn prepare(context: &mut Context, slot: u32) {
    context.this = slots::context_at(slot);
    context.native_pc = NOWHERE;
    context.vector_exit = address(entry::rt_exit);
    context.vector_syscall = address(entry::rt_syscall);
    context.vector_special = address(entry::rt_special);
    context.vector_turn = address(entry::rt_turn);
    context.vector_hook = address(entry::rt_hook);
    call_tree::prepare(context);
    references::prepare(context);
    if context.stack == 0 {
        context.stack = own_memory::reserve(SIGNAL_STACK + STACK) + SIGNAL_STACK + STACK;
        own_memory::provide(context.stack - 0x3000, context.stack);
    }
    context.space = counts::space();
    identify(context);
    set_gs(context);
    collect::begins(context);
    allocations::time(context);
    signal_calls::set_stack(context);
    context.whole.store(1, Relaxed);
    context.state.store(slot_state::LIVE, Release);
}

/// Notes who runs here.
fn identify(context: &mut Context) {
    context.tid = sys::gettid();
    context.pid = sys::getpid();
    // SAFETY: no arguments.
    context.parent = unsafe { sys::call(nr::GETPPID, [0; 6]) as u32 };
    if context.parent == 0 {
        // The parent is in another namespace of process ids.
        slots::header().strangers.store(1, Release);
    }
}

/// Points GS at the context (ARCH_SET_GS: works without user FSGSBASE too).
fn set_gs(context: &Context) {
    // SAFETY: GS is the engine's.
    let result = unsafe { sys::call(nr::ARCH_PRCTL, [0x1001, context.this, 0, 0, 0, 0]) };
    check!(result == 0, "GS cannot be set (errno {})", -result);
}
