//! Signals of the faults' kind while the program blocks them. Natively they stay open, so that faults of
//! translated code reach the runtime: a blocked one would end the program. But one that somebody sends has
//! to stay pending, for `sigtimedwait`, `signalfd`, `sigpending` to find. So once such a signal came while
//! it was blocked, or once the program shows that it cares (it blocks this one and not just everything, or
//! makes a `signalfd` for it), it is *left* to the kernel: natively blocked wherever the program blocks it.
//!
//! From then on no fault of the runtime's own may depend on it: with SIGSEGV left, code is compared instead of
//! watched (`pages::compare`); with SIGSEGV or SIGBUS, program memory is copied by `process_vm_readv`; steps to
//! a boundary take SIGTRAP out of the queue first, and put it back.

use crate::action::{LEFT, OPEN, SIGBUS, SIGSEGV, SIGTRAP, is_open, native_mask};
use crate::engine::{self, Engine};
use crate::entry::{self, address};
use crate::frames::{Info, Ucontext};
use crate::layout::{Context, RUNTIME_BASE};
use crate::own_memory::{RUNTIME_END, in_code};
use crate::syscall_table as nr;
use crate::{program_memory, slots, sys};
use core::sync::atomic::Ordering::*;

/// A mask with at least so many signals blocks everything: that is about not being disturbed.
const EVERYTHING: u32 = 56;

const SI_TKILL: i32 = -6;

fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// These signals are blocked natively from now on, where the program blocks them.
fn leave(signals: u64) {
    let new = signals & OPEN & !LEFT.load(Relaxed);
    if new == 0 {
        return;
    }
    if new & (bit(SIGSEGV) | bit(SIGBUS)) != 0 {
        program_memory::expect_no_faults(open);
    }
    if new & bit(SIGSEGV) != 0 {
        let mut engine = engine::lock();
        let Engine { cache, pages, .. } = &mut *engine;
        pages.compare_everything(cache);
    }
    slots::header().faults_left.store(1, Relaxed);
    LEFT.fetch_or(new, AcqRel);
}

/// The kernel could not write for the program: watched pages there are opened.
fn open(at: u64, len: u64) {
    let mut engine = engine::lock();
    let Engine { cache, pages, .. } = &mut *engine;
    pages.open(cache, at, len);
}

/// The program is about to have this mask instead of another one.
pub fn masked(old: u64, new: u64) {
    if new.count_ones() < EVERYTHING {
        leave(new & !old);
    }
}

/// signalfd and signalfd4.
pub fn descriptor(context: &mut Context, a: [u64; 6]) {
    let Some(set) = program_memory::read::<u64>(a[1]) else {
        return;
    };
    leave(set);
    let blocked = native_mask(context.virtual_mask);
    let mask = sys::set_mask(u64::MAX);
    sys::set_mask(mask | blocked);
    context.pending_mask |= blocked;
}

/// A signal of this kind that is no fault came: whether it stays pending because the program blocks it.
pub fn stays_pending(
    context: &mut Context,
    signal: u32,
    info: &Info,
    frame: &mut Ucontext,
) -> bool {
    if !is_open(signal) || context.virtual_mask & bit(signal) == 0 {
        return false;
    }
    // Blocked natively, and here all the same: it came to a call that waits with another mask.
    if frame.mask & bit(signal) != 0 && context.rolling == 0 {
        return false;
    }
    let at = frame.rip;
    let whole = at == context.native_pc || at == address(entry::rt_unmasked);
    if !in_code(at) && !whole {
        if signal == SIGSEGV || signal == SIGBUS {
            // It is blocked until the runtime is done.
            program_memory::expect_no_faults(open);
        }
        return false;
    }
    if signal == SIGTRAP && context.rolling != 0 {
        keep(context, info);
    } else {
        leave(bit(signal));
        frame.mask |= bit(signal);
        send_again(signal, info);
    }
    context.pending_mask |= bit(signal);
    true
}

/// The kernel has it as it was: the thread's, or the process's for whoever waits for it.
pub fn send_again(signal: u32, info: &Info) {
    let process = u64::from(sys::getpid());
    let info_at = core::ptr::from_ref(info) as u64;
    let signal = u64::from(signal);
    // (Who returns from the handler has the frame's mask.)
    sys::set_mask(u64::MAX);
    // SAFETY: rt_tgsigqueueinfo or rt_sigqueueinfo to ourselves with the kernel's own siginfo.
    unsafe {
        if info.code == SI_TKILL || info.code > 0 {
            let thread = u64::from(sys::gettid());
            sys::call(
                nr::RT_TGSIGQUEUEINFO,
                [process, thread, signal, info_at, 0, 0],
            );
        } else if sys::call(nr::RT_SIGQUEUEINFO, [process, signal, info_at, 0, 0, 0]) != 0 {
            // Only the first thread may say who sent it.
            sys::call(nr::KILL, [process, signal, 0, 0, 0, 0]);
        }
    }
}

/// Keeps a SIGTRAP that came during a step until the step is over (a queue of the kernel's has one, too).
pub fn keep(context: &mut Context, info: &Info) {
    // SAFETY: the same size (see below), any bytes are words.
    let words = unsafe { *core::ptr::from_ref(info).cast::<[u64; 16]>() };
    if let Some(place) = context.kept_traps.iter_mut().find(|kept| kept[0] == 0) {
        *place = words;
    }
}

/// A signal that was sent and found the runtime's own handler, in which no others can come: kept until that is done.
pub fn keep_nested(context: &mut Context, signal: u32, info: &Info) {
    // SAFETY: the same size (see below), any bytes are words.
    let words = unsafe { *core::ptr::from_ref(info).cast::<[u64; 16]>() };
    let place = &mut context.kept_faults[usize::from(signal == SIGBUS)];
    // As the kernel: what is pending already is one.
    if place[0] == 0 {
        *place = words;
    }
}

/// Takes one of them.
pub fn take_nested(context: &mut Context) -> Option<Info> {
    let place = context.kept_faults.iter_mut().find(|kept| kept[0] != 0)?;
    // SAFETY: as above.
    let info = unsafe { *place.as_ptr().cast::<Info>() };
    place[0] = 0;
    Some(info)
}

/// Before steps: takes pending SIGTRAPs out of the kernel's queues, where they are blocked.
pub fn before_steps(context: &mut Context, frame: &Ucontext) {
    if frame.mask & bit(SIGTRAP) == 0 {
        return;
    }
    for _ in 0..context.kept_traps.len() {
        let mut words = [0u64; 16];
        let (set, no_time) = (bit(SIGTRAP), [0u64; 2]);
        let arguments = [
            &raw const set as u64,
            &raw mut words as u64,
            &raw const no_time as u64,
            8,
            0,
            0,
        ];
        // SAFETY: rt_sigtimedwait without waiting; all three point to locals.
        if unsafe { sys::call(nr::RT_SIGTIMEDWAIT, arguments) } != i64::from(SIGTRAP) {
            break;
        }
        // SAFETY: `Info` is as large, and any bytes are one.
        keep(context, unsafe { &*words.as_ptr().cast::<Info>() });
    }
}

/// After steps: what was kept is pending again.
pub fn after_steps(context: &mut Context) {
    for kept in &mut context.kept_traps {
        if kept[0] != 0 {
            // SAFETY: as above.
            send_again(SIGTRAP, unsafe { &*kept.as_ptr().cast::<Info>() });
            kept[0] = 0;
        }
    }
}

/// Whether a signal with the code of a fault was sent by the program itself (it may pass on a siginfo that it
/// was given). Such a one comes where it was sent, or where the mask was opened: behind a `syscall`, or where
/// a frame leads to.
pub fn was_sent(frame: &Ucontext) -> bool {
    let at = frame.rip;
    if at == address(entry::rt_goto) || at == address(entry::rt_once) {
        return true;
    }
    let translated = in_code(at);
    if !translated && !(RUNTIME_BASE + 2..RUNTIME_END).contains(&at) {
        return false;
    }
    // SAFETY: two bytes of code of ours, which begins lower.
    if unsafe { *((at - 2) as *const [u8; 2]) } != [0x0f, 0x05] {
        return false;
    }
    if !translated {
        return true;
    }
    let mut engine = engine::lock();
    let cache = &mut engine.cache;
    let block = cache.block_at(at);
    block.is_some_and(|number| {
        let block = cache.blocks.get(number as usize);
        block.at(block.syscall) + 2 == at
    })
}

const _: () = assert!(core::mem::size_of::<Info>() == 128);
