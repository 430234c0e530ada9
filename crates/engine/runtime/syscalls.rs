//! System calls that mean something to the engine. The rest never comes here.

use crate::layout::{Context, state as slot_state};
use crate::{
    cache_file, clock, images, memory_calls, perf, proc_maps, signals, state, sys, threads,
};
use core::sync::atomic::Ordering::*;

/// Executes the call that the program is about to make. Its registers are in
/// the context; RCX and R11 are already what the kernel leaves.
pub fn special(context: &mut Context, next: u64) {
    let number = context.regs[0];
    let a = arguments(context);
    context.pc = next;
    let result = match number {
        9..=12 | 25 | 30 | 67 | 329 => memory_calls::run(number, a),
        13 => signals::sigaction(context, a),
        14 => signals::sigprocmask(context, a),
        15 => signals::sigreturn(context),
        131 => signals::sigaltstack(context, a),
        56..=58 | 435 => threads::clone(context, number, a),
        59 | 322 => images::execve(context, number, a),
        60 | 231 => end(context, number, a),
        0 | 8 | 16 | 17 | 19 | 295 | 327 => perf::call(context.event, number, a),
        298 => perf::open(context, a),
        _ if clock::answers(number, &a) => clock::call(context, number, a),
        // The kernel cannot see that a thread is inside a critical section of translated code, and
        // would not send it to the abort handler: so there are none (see DESIGN.md).
        334 => -sys::ENOSYS,
        158 => arch_prctl(context, a),
        2 | 257 => {
            // SAFETY: passed through as the program made it.
            let result = unsafe { sys::call(number, a) };
            proc_maps::opened(number, a, result);
            result
        }
        5 | 262 => {
            // SAFETY: passed through as the program made it.
            let result = unsafe { sys::call(number, a) };
            proc_maps::asked(number, a, result);
            result
        }
        // SAFETY: passed through as the program made it.
        _ => unsafe { sys::call(number, a) },
    };
    context.regs[0] = result as u64;
}

/// The six arguments of the call.
pub fn arguments(context: &Context) -> [u64; 6] {
    let r = &context.regs;
    [r[7], r[6], r[2], r[10], r[8], r[9]]
}

fn end(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    if number == 231 || u64::from(state::slot_of(context)) == u64::from(context.leader) {
        cache_file::save(context);
    }
    context.state.store(slot_state::ENDED, Release);
    perf::ended(context);
    if number == 60 {
        threads::leave(context);
    }
    // SAFETY: does not return.
    unsafe { sys::call(number, a) }
}

/// GS is the engine's; the program's wish is remembered, and an instruction
/// that would use it ends the run (see `unsupported`).
fn arch_prctl(context: &mut Context, a: [u64; 6]) -> i64 {
    match a[0] {
        0x1001 => {
            context.start[3] = a[1];
            0
        }
        0x1004 => {
            if sys::write_program(a[1], &context.start[3]) {
                0
            } else {
                -sys::EFAULT
            }
        }
        // SAFETY: FS and features are the program's own.
        _ => unsafe { sys::call(158, a) },
    }
}
