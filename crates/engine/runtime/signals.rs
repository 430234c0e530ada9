//! Signals. The kernel delivers every handled signal to [`rt_host_signal`] on
//! the runtime's own signal stack, with all signals blocked. A signal that
//! found translated code at an instruction boundary goes to the program at
//! once, with the frame the kernel would have built (`frames`). One that found
//! an insertion of the translator's steps on to the next boundary first; one
//! that found the runtime is queued again until the program's state is whole.
//! Faults map back to the instruction that caused them.

use crate::action::{
    self, Action, OPEN, SA_RESETHAND, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP, is_open,
};
use crate::cache::{self, Cache};
use crate::engine::{self, Engine};
use crate::entry::{self, address};
use crate::frames::{self, Info, Ucontext};
use crate::layout::Context;
use crate::locate::{self, Found, locate};
use crate::own_memory::in_code;
use crate::pages::{Fault, Pages};
use crate::slots::{SIGNAL_STACK, STACK};
use crate::syscall_table as nr;
use crate::{
    check, code_writes, fault_signals, filtered, outside, references, schedule, slots, sys,
};
use core::sync::atomic::Ordering::Relaxed;

const TF: u64 = 0x100;

/// Every signal we handle arrives here.
#[unsafe(no_mangle)]
extern "C" fn rt_host_signal(signal: u32, info: *mut Info, frame: *mut Ucontext) {
    // SAFETY: the kernel's frame, and this thread's context.
    let (info, frame, context) = unsafe { (&mut *info, &mut *frame, &mut *slots::current()) };
    filtered::arrived(signal, info);
    // Another one is being handled, with a mask that is nobody's.
    let end = context.stack - STACK;
    let nested = (end - SIGNAL_STACK..end).contains(&frame.sp());
    if nested && info.code <= 0 && matches!(signal, SIGSEGV | SIGBUS) {
        fault_signals::keep_nested(context, signal, info);
        return;
    }
    handle(context, signal, info, frame);
    if nested {
        return;
    }
    sys::set_mask(u64::MAX);
    while let Some(info) = fault_signals::take_nested(context) {
        queue_again(info.signal as u32, &info);
    }
}

fn handle(context: &mut Context, signal: u32, info: &mut Info, frame: &mut Ucontext) {
    let rip = frame.rip;
    let fault = info.code > 0 && is_open(signal) && !fault_signals::was_sent(frame);
    let writes = signal == SIGSEGV && fault && frame.trap == 14 && frame.error & 2 != 0;
    if fault && rip == address(entry::rt_copy_insn) {
        if !writes || !opened(info.address) {
            frame.rip = address(entry::rt_copy_fault);
        }
        return;
    }
    if fault && rip == address(entry::rt_interrupt_insn) {
        frame.rip = address(entry::rt_interrupt_fault);
        return;
    }
    if fault && entry::reads_code(rip) {
        frame.rip = address(entry::rt_copy_fault);
        return;
    }
    if signal == SIGTRAP && context.rolling != 0 && frame.eflags & TF != 0 {
        if fault {
            roll(context, frame);
        } else {
            fault_signals::keep(context, info);
        }
        return;
    }
    let message = code_writes::is_message(signal, info) || is_call(signal, info);
    if !fault && !message && fault_signals::stays_pending(context, signal, info, frame) {
        return;
    }
    // Steps to a boundary are under way: what is sent meanwhile comes there.
    if context.rolling != 0 && !fault {
        if signal == SIGTRAP {
            fault_signals::keep(context, info);
        } else {
            queue_again(signal, info);
            frame.mask |= 1 << (signal - 1);
        }
        return;
    }
    // A page that a protection key forbids to write is the program's affair.
    if writes && frame.error & 0x20 == 0 && in_code(rip) && writes_code(context, frame, info) {
        return;
    }
    // An address that has no shadow: its reference faults, once that is noted.
    if signal == SIGSEGV
        && fault
        && in_code(rip)
        && let Some(cold) = locate::unknown(rip)
    {
        frame.rip = cold;
        return;
    }
    if fault && in_code(rip) {
        end_roll(context, frame);
    }
    // TRAP_TRACE: no step of ours.
    check!(
        !(fault && signal == SIGTRAP && info.code == 2 && in_code(rip) && frame.eflags & TF != 0),
        "the program set the trap flag to step through itself: not supported"
    );
    let saved = (frame.registers(), rip);
    // A call that was under way and is made again: the kernel left its mark.
    let again = in_code(rip) && frame.rcx() == rip + 2;
    match locate(context, frame, fault) {
        Found::Program if message => {
            if again {
                locate::uncount(context, rip);
            }
            if !is_call(signal, info) {
                code_writes::take_message(info);
            }
            context.target = frame.rip;
            frame.rip = address(entry::rt_goto);
        }
        Found::Program => {
            // Its number is in its register, as the kernel left it.
            if filtered::is_trap(signal, info) {
                frame.set_register(0, info.value() & 0xffff_ffff);
            }
            to_program(context, signal, info, frame, fault.then_some(saved));
        }
        Found::Between => {
            queue_again(signal, info);
            fault_signals::before_steps(context, frame);
            context.rolling = 1;
            context.pending_mask = frame.mask;
            let blocked = action::native_mask(context.virtual_mask) & !(1 << (SIGTRAP - 1));
            let open = OPEN | filtered::open() & !context.pending_mask;
            frame.mask = !open | queued(signal) | blocked;
            frame.eflags |= TF;
        }
        Found::Runtime => {
            check!(
                !fault,
                "signal {signal} (code {}) in the runtime at {rip:#x}, address {:#x}, program at {:#x}",
                info.code,
                info.address,
                context.pc
            );
            if filtered::is_trap(signal, info) && !filtered::concerns(context, frame, info) {
                return;
            }
            if code_writes::is_message(signal, info) {
                code_writes::put_off();
            }
            queue_again(signal, info);
            defer(context, frame);
            frame.mask |= 1 << (signal - 1);
        }
    }
}

/// Whether a signal is the runtime's own, to a thread that is to come here: see `cache::threads`.
fn is_call(signal: u32, info: &Info) -> bool {
    signal == SIGILL && info.code == cache::CALL
}

/// A write of the runtime's for the program met a watched page: it is open now.
fn opened(at: u64) -> bool {
    let mut engine = engine::lock();
    let Engine { cache, pages, .. } = &mut *engine;
    pages.write_fault(cache, at) != Fault::Program
}

/// A write of translated code that faulted: whether it was to a watched page. Then it is made again, or, where it
/// changes the code around itself, stepped over.
fn writes_code(context: &mut Context, frame: &mut Ucontext, info: &Info) -> bool {
    let (own, watched) = {
        let mut engine = engine::lock();
        let Engine { cache, pages, .. } = &mut *engine;
        let own = writes_own_code(cache, pages, frame.rip, info.address);
        (own, pages.write_fault(cache, info.address))
    };
    match watched {
        Fault::Program => return false,
        Fault::Watched if own => {
            end_roll(context, frame);
            locate(context, frame, true);
            context.target = frame.rip;
            frame.rip = address(entry::rt_once);
        }
        Fault::Watched | Fault::Again => {}
    }
    true
}

fn is_blocked(context: &Context, signal: u32) -> bool {
    context.virtual_mask >> (signal - 1) & 1 != 0
}

/// Whether a fault that raises this signal ends the program.
pub fn ends(context: &Context, signal: u32) -> bool {
    action::get(context, signal).handler <= 1 || is_blocked(context, signal)
}

/// The frame's state is the program's: its action follows. `fault`: registers and program counter of the
/// translated instruction that faulted.
fn to_program(
    context: &mut Context,
    signal: u32,
    info: &mut Info,
    frame: &mut Ucontext,
    fault: Option<([u64; 16], u64)>,
) {
    if fault.is_none() {
        outside::signalled(signal, info.code, info.address as u32);
        schedule::came(signal, info);
    }
    let action = action::get(context, signal);
    // What a filter traps: si_call_addr.
    if filtered::is_trap(signal, info) {
        info.address = frame.rip;
    }
    if action.handler <= 1 || (fault.is_some() && is_blocked(context, signal)) {
        if fault.is_none() && action.handler == 1 {
            context.target = frame.rip;
            frame.rip = address(entry::rt_goto);
            return;
        }
        // The default action, natively: meet the same fault again (or queue again). The count has been corrected.
        // (But for a branch that was counted, and is to nowhere.)
        context
            .whole
            .store(u32::from(!locate::is_wild(context.native_pc)), Relaxed);
        action::native(signal, Some(&Action::default()), None);
        match fault {
            // (A breakpoint is behind itself already.)
            Some((registers, rip)) if signal != SIGTRAP => {
                frame.set_registers(&registers);
                frame.rip = rip;
            }
            _ => {
                queue_again(signal, info);
                // (Only a call with a mask of its own let it come.)
                frame.mask &= !(1 << (signal - 1));
                context.target = frame.rip;
                frame.rip = address(entry::rt_goto);
            }
        }
        return;
    }
    if action.flags & SA_RESETHAND != 0 {
        let handler = 0;
        action::set(context, signal, Action { handler, ..action });
        if !is_open(signal) {
            action::native(signal, Some(&Action::default()), None);
        }
    }
    if let Some((_, rip)) = fault
        && matches!(signal, SIGILL | SIGFPE | SIGTRAP)
        && info.address == rip
    {
        info.address = frame.rip;
    }
    references::resumes(context, frame.rip);
    frames::deliver(context, signal, &action, info, frame);
    // It may have come during a system call; the handler is translated code.
    context.whole.store(0, Relaxed);
}

/// A signal that was queued again must not arrive before its time, not even one
/// that is open for faults.
fn queued(signal: u32) -> u64 {
    if signal == SIGTRAP {
        0
    } else {
        1 << (signal - 1)
    }
}

/// Whether the block at `rip` lies on the page that it is about to write.
fn writes_own_code(cache: &mut Cache, pages: &mut Pages, rip: u64, address: u64) -> bool {
    let Some(number) = cache.block_at(rip) else {
        return true;
    };
    let block = *cache.blocks.get(number as usize);
    pages.is_written(block.pc, u64::from(block.guest_len), address)
}

/// A fault while stepping to a boundary: the step is over, the signal comes later.
fn end_roll(context: &mut Context, frame: &mut Ucontext) {
    if context.rolling != 0 {
        context.rolling = 0;
        frame.eflags &= !TF;
        frame.mask = context.pending_mask;
        fault_signals::after_steps(context);
    }
}

/// Goes on in the runtime with everything blocked until it is done.
fn defer(context: &mut Context, frame: &mut Ucontext) {
    let (unmask, unmasked) = (address(entry::rt_unmask), address(entry::rt_unmasked));
    if (unmask..unmasked).contains(&frame.rip) {
        // The mask to restore is known, and about to be.
        context.pending = 1;
        frame.rip = unmask;
    } else if context.pending == 0 {
        context.pending = 1;
        context.pending_mask = frame.mask;
    }
    let open = OPEN | filtered::open() & !context.pending_mask;
    // (Others that were queued again stay blocked.)
    frame.mask = !open | action::native_mask(context.virtual_mask) | frame.mask & OPEN;
    let (start, end) = (address(entry::rt_enter), address(entry::rt_enter_end));
    if (start..end).contains(&frame.rip) {
        frame.rip = start;
    }
    // A call that is about to wait would not see the signal.
    let wait = entry::rt_wait as *const () as u64..=address(entry::rt_wait_call);
    if wait.contains(&frame.rip) {
        frame.rip = address(entry::rt_wait_stopped);
    }
    let interrupt = address(entry::rt_interrupt_begins)..=address(entry::rt_interrupt_insn);
    if interrupt.contains(&frame.rip) {
        frame.rip = address(entry::rt_interrupt_stopped);
    }
}

/// The kernel keeps the signal pending (all are blocked now).
fn queue_again(signal: u32, info: &Info) {
    let (pid, tid) = (u64::from(sys::getpid()), u64::from(sys::gettid()));
    let old = sys::set_mask(u64::MAX);
    if filtered::queue(signal, info) {
        return;
    }
    // SAFETY: rt_tgsigqueueinfo to ourselves with the kernel's own siginfo.
    unsafe {
        sys::call(
            nr::RT_TGSIGQUEUEINFO,
            [
                pid,
                tid,
                u64::from(signal),
                core::ptr::from_ref(info) as u64,
                0,
                0,
            ],
        )
    };
    let _ = old;
}

/// One more step towards a boundary.
fn roll(context: &mut Context, frame: &mut Ucontext) {
    let rip = frame.rip;
    if in_code(rip) {
        if !at_boundary(context, frame) {
            return;
        }
        frame.mask = context.pending_mask;
    } else if (address(entry::rt_enter)..address(entry::rt_enter_end)).contains(&rip) {
        // On the way back into the middle of a branch: see `locate`.
        context.rflags |= TF;
        return;
    } else {
        context.pending = 1;
    }
    context.rolling = 0;
    frame.eflags &= !TF;
    fault_signals::after_steps(context);
}

fn at_boundary(context: &mut Context, frame: &Ucontext) -> bool {
    let mut copy = *frame;
    context.probing = 1;
    let found = locate(context, &mut copy, false);
    context.probing = 0;
    matches!(found, Found::Program)
}
