//! System calls that mean something to the engine. The rest never comes here.

use crate::engine::{self, Engine};
use crate::layout::{Context, state as slot_state};
use crate::syscall_table::{self as nr, Answer};
use crate::{
    cache_file, clock, code_writes, confine, ended, fault_signals, images, machine, memory_calls,
    memory_limits, memory_locks, outside, perf, pids, proc_maps, program_memory, rseq, schedule,
    signal_calls, slots, sys, threads,
};
use core::sync::atomic::Ordering::*;

/// Executes the call that the program is about to make. Its registers are in
/// the context; RCX and R11 are already what the kernel leaves.
pub fn special(context: &mut Context, number: u64, next: u64) {
    let a = arguments(context);
    context.pc = next;
    let result = make(context, number, a);
    context.regs[0] = result as u64;
}

/// Executes a call with these arguments; `Context::pc` is what follows it.
pub fn make(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    let result = match nr::answer(number) {
        // The machine that is shown does not have it.
        _ if number >= nr::NEWER && machine::answers(number, &a) => machine::call(number, a),
        _ if outside::names::concerns(number, &a) => {
            outside::names::make(context, number, a, schedule::is_called)
        }
        Answer::Mapping => memory_calls::run(context, number, a),
        Answer::Limit => memory_limits::call(number, a),
        Answer::Lock => memory_locks::call(number, a),
        Answer::Action => signal_calls::sigaction(context, a),
        Answer::Mask => signal_calls::sigprocmask(context, a),
        Answer::Return => signal_calls::sigreturn(context),
        Answer::Stack => signal_calls::sigaltstack(context, a),
        Answer::Clone => threads::clone(context, number, a),
        Answer::Exec => images::execve(context, number, a),
        Answer::Exit => end(context, number, a),
        Answer::Event => perf::call(context.event, number, a),
        Answer::Counter => perf::open(context, a),
        _ if machine::answers(number, &a) => machine::call(number, a),
        _ if pids::answers(context, number, &a) => pids::call(context, number, a),
        Answer::Clock if ended::answers(number, &a) => ended::call(context, number, a),
        Answer::Clock if clock::answers(number, &a) => clock::call(context, number, a),
        Answer::Sequences => {
            if let Some(pages) = rseq::pages_to_leave(a) {
                memory_calls::leave_writable(pages);
            }
            rseq::call(a)
        }
        Answer::Segments => arch_prctl(context, a),
        Answer::Open => {
            // SAFETY: passed through as the program made it.
            let result = unsafe { sys::call(number, a) };
            proc_maps::opened(number, a, result);
            code_writes::opened(number, a, result);
            result
        }
        Answer::Status => {
            // SAFETY: passed through as the program made it.
            let result = unsafe { sys::call(number, a) };
            proc_maps::asked(number, a, result);
            result
        }
        Answer::Signals => {
            fault_signals::descriptor(context, a);
            // SAFETY: passed through as the program made it.
            unsafe { sys::call(number, a) }
        }
        Answer::Confine => confine::call(context, number, a),
        Answer::Write => code_writes::write(context, number, a),
        Answer::Remote => code_writes::remote(context, number, a),
        Answer::Later => {
            {
                let mut engine = engine::lock();
                let Engine { cache, pages, .. } = &mut *engine;
                pages.expects(cache, number, a);
            }
            // SAFETY: passed through as the program made it.
            unsafe { sys::call(number, a) }
        }
        // SAFETY: passed through as the program made it.
        Answer::Forward | Answer::Kernel | Answer::Clock | Answer::Machine => unsafe {
            sys::call(number, a)
        },
    };
    outside::after(context, number, a, result);
    result
}

/// The six arguments of the call.
pub fn arguments(context: &Context) -> [u64; 6] {
    let r = &context.regs;
    [r[7], r[6], r[2], r[10], r[8], r[9]]
}

fn end(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    if number == nr::EXIT_GROUP || slots::slot_of(context) == context.leader {
        cache_file::save(context);
    }
    context.state.store(slot_state::ENDED, Release);
    perf::ended(context);
    if number == nr::EXIT {
        threads::leave(context);
    }
    schedule::leaves(context, number);
    // SAFETY: does not return.
    unsafe { sys::call(number, a) }
}

/// GS is the engine's; the program's base is a word that translated code adds.
fn arch_prctl(context: &mut Context, a: [u64; 6]) -> i64 {
    match a[0] {
        // ARCH_SET_GS
        0x1001 if a[1] < ADDRESSES_END => {
            context.program_gs = a[1];
            0
        }
        0x1001 => -sys::EPERM,
        // ARCH_GET_GS
        0x1004 if program_memory::write(a[1], &context.program_gs) => 0,
        0x1004 => -sys::EFAULT,
        // ARCH_GET_CPUID, ARCH_SET_CPUID: the machine that is shown answers, and cannot fault.
        0x1011 if machine::on() => 1,
        0x1012 if machine::on() => -ENODEV,
        // ARCH_ENABLE_TAGGED_ADDR: the runtime does not look for tags in addresses. (ARCH_GET_UNTAG_MASK)
        0x4002 if knows(0x4001) => -ENODEV,
        // ARCH_SHSTK_ENABLE: returns are jumps here, and the shadow stack would not be what the program knows.
        // (ARCH_SHSTK_STATUS)
        0x5001 if knows(0x5005) => -EOPNOTSUPP,
        // ARCH_MAP_VDSO_X32, ARCH_MAP_VDSO_32, ARCH_MAP_VDSO_64
        0x2001..=0x2003 => {
            // SAFETY: a new mapping of the program's.
            let result = unsafe { sys::call(nr::ARCH_PRCTL, a) };
            engine::lock().pages.changed_somewhere();
            result
        }
        // SAFETY: FS and features are the program's own.
        _ => unsafe { sys::call(nr::ARCH_PRCTL, a) },
    }
}

/// Whether the kernel knows a call of `arch_prctl` that writes a word.
fn knows(which: u64) -> bool {
    let mut word = 0u64;
    // SAFETY: the kernel writes to a local.
    let result = unsafe { sys::call(nr::ARCH_PRCTL, [which, &raw mut word as u64, 0, 0, 0, 0]) };
    result != -sys::EINVAL
}

const ENODEV: i64 = 19;
const EOPNOTSUPP: i64 = 95;
/// `TASK_SIZE_MAX` with four levels of pages.
const ADDRESSES_END: u64 = (1 << 47) - 0x1000;
