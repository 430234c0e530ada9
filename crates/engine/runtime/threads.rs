//! New threads and processes. A child that shares memory starts on its own
//! context and runtime stack; a forked one takes over a new counting slot.

use crate::dispatch;
use crate::layout::{Context, MAX_SLOTS, REGION, TOTALS_BASE, state as slot_state};
use crate::syscall_table as nr;
use crate::{check, counts, entry, perf, signals, state, sys};
use core::sync::atomic::Ordering::*;

const CLONE_VM: u64 = 0x100;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_NEWPID: u64 = 0x2000_0000;
const ALL: u64 = u64::MAX;

/// Linux `struct clone_args` (include/uapi/linux/sched.h), first version and
/// the two fields added since.
#[repr(C)]
#[derive(Clone, Copy)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Stacks of threads that have ended, for the next ones: (stack, tid).
static FREE: state::Global<[(u64, u32); 64]> = state::Global::new([(0, 0); 64]);

/// A slot nobody used yet.
pub fn new_slot() -> u32 {
    let slot = state::header().next_slot.fetch_add(1, Relaxed);
    check!(
        slot < MAX_SLOTS,
        "more than {MAX_SLOTS} threads and processes in one run"
    );
    slot
}

/// A thread is about to end: its stack can be taken once it is gone.
pub fn leave(context: &mut Context) {
    state::lock();
    for place in FREE.get() {
        if place.0 == 0 {
            *place = (context.stack, context.tid);
            break;
        }
    }
    state::unlock();
}

/// A runtime stack: of an ended thread, or new.
fn stack() -> u64 {
    let pid = u64::from(sys::getpid());
    state::lock();
    let mut found = 0;
    for place in FREE.get() {
        // SAFETY: signal 0 only asks whether the thread exists.
        let gone = place.0 != 0
            && unsafe { sys::call(nr::TGKILL, [pid, u64::from(place.1), 0, 0, 0, 0]) } == -3;
        if gone {
            found = place.0;
            *place = (0, 0);
            break;
        }
    }
    state::unlock();
    if found != 0 {
        return found;
    }
    state::reserve(state::SIGNAL_STACK + state::STACK) + state::SIGNAL_STACK + state::STACK
}

/// fork, vfork, clone, clone3.
pub fn clone(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    let mut args3 = CloneArgs {
        flags: 0,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: 0,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    let size3 = a[1].min(core::mem::size_of::<CloneArgs>() as u64);
    let (flags, program_stack) = match number {
        nr::FORK => (17, 0),
        nr::VFORK => (CLONE_VM | CLONE_VFORK | 17, 0),
        nr::CLONE => (a[0], a[1]),
        _ => {
            if a[1] < 64 || a[1] > size3 {
                // Too small, or larger than we know: the kernel says what it thinks.
                // SAFETY: an invalid size makes no child; a larger one is refused here.
                return if a[1] < 64 {
                    unsafe { sys::call(nr::CLONE3, a) }
                } else {
                    -7
                };
            }
            if !sys::copy(&raw mut args3 as u64, a[0], size3) {
                return -sys::EFAULT;
            }
            let stack = match args3.stack {
                0 => 0,
                base => base.wrapping_add(args3.stack_size),
            };
            (args3.flags | args3.exit_signal & 0xff, stack)
        }
    };
    let shares_memory = flags & CLONE_VM != 0;
    let slot = new_slot();
    let child_address = state::context_at(slot);
    // SAFETY: the slot is ours alone until the child runs.
    let child = unsafe { &mut *(child_address as *mut Context) };
    // From here to the child's own GS no signal may come.
    let old_mask = sys::set_mask(ALL);
    let mask = if context.pending != 0 {
        context.pending_mask
    } else {
        old_mask
    };
    child.regs = context.regs;
    child.regs[0] = 0;
    if program_stack != 0 {
        child.regs[4] = program_stack;
    }
    child.rflags = context.rflags;
    child.xmm = context.xmm;
    child.pc = context.pc;
    child.target = context.pc;
    child.altstack = if shares_memory && flags & CLONE_VFORK == 0 {
        [0, 2, 0]
    } else {
        context.altstack
    };
    child.virtual_mask = context.virtual_mask;
    child.actions = context.actions;
    child.start = [0; 4];
    child.start[3] = context.start[3];
    child.pending_mask = mask;
    child.name = context.name;
    child.leader = if flags & CLONE_THREAD != 0 {
        context.leader
    } else {
        slot
    };
    child.exit_kind = entry::kind::GOTO;
    if shares_memory && flags & CLONE_SIGHAND == 0 {
        child.actions = signals::copy_actions(context.actions);
    }
    child.stack = if shares_memory {
        stack()
    } else {
        context.stack
    };
    let top = child.stack - 16;
    child.start[0] = u64::from(!shares_memory);
    perf::cloned(context, slot, flags & CLONE_THREAD != 0);
    if !shares_memory {
        // The child's copy of the lock must not be held by a thread it lacks.
        state::lock();
    }
    let stack_argument = if shares_memory { top } else { 0 };
    // SAFETY: as the program made the call, except for the stack, which is ours.
    let result = unsafe {
        if number == nr::CLONE3 {
            args3.stack = if shares_memory {
                child.stack - state::STACK
            } else {
                0
            };
            args3.stack_size = if shares_memory { state::STACK - 16 } else { 0 };
            entry::rt_clone(435, &raw const args3 as u64, size3, 0, 0, 0, child_address)
        } else {
            // As clone(2): flags, stack, parent_tid, child_tid, tls.
            entry::rt_clone(
                nr::CLONE,
                flags,
                stack_argument,
                a[2] * u64::from(number == nr::CLONE),
                a[3] * u64::from(number == nr::CLONE),
                a[4] * u64::from(number == nr::CLONE),
                child_address,
            )
        }
    };
    if !shares_memory {
        state::unlock();
    }
    if result > 0 && flags & CLONE_NEWPID == 0 && child.tid == 0 {
        // An event of it may be opened before it comes round to saying so itself.
        child.tid = result as u32;
    }
    if result < 0 {
        perf::not_cloned(slot);
        child.state.store(slot_state::FREE, Relaxed);
    }
    if shares_memory && flags & CLONE_VFORK != 0 {
        // The child has its own image now, or is gone.
        state::lock();
        if let Some(place) = FREE.get().iter_mut().find(|p| p.0 == 0) {
            *place = (child.stack, child.tid);
        }
        state::unlock();
    }
    sys::set_mask(old_mask);
    result
}

/// First code of a child that came back from `clone`: see `rt_clone`.
#[unsafe(no_mangle)]
extern "C" fn rt_child(context: *mut Context) {
    // SAFETY: the parent prepared it for us alone.
    let context = unsafe { &mut *context };
    let slot = ((context as *const Context as u64 - TOTALS_BASE) / REGION) as u32;
    if context.start[0] != 0 {
        counts::forked(slot);
        state::unlock();
    }
    dispatch::prepare(context, slot);
    sys::set_mask(context.pending_mask);
    dispatch::resume_at(context);
}
