//! Signals. The kernel delivers every handled signal to [`rt_host_signal`] on
//! the runtime's own signal stack, with all signals blocked. A signal that
//! found translated code at an instruction boundary goes to the program at
//! once, with the frame the kernel would have built (`frames`). One that found
//! an insertion of the translator's steps on to the next boundary first; one
//! that found the runtime is queued again until the program's state is whole.
//! Faults map back to the instruction that caused them.

use crate::cache::{self, CACHE};
use crate::counts;
use crate::entry::{self, address};
use crate::frames::{self, Info, Ucontext};
use crate::layout::Context;
use crate::pages::{Fault, PAGES};
use crate::state::{self, SIGNAL_STACK, STACK};
use crate::syscall_table as nr;
use crate::xlate::block::record;
use crate::xlate::decode::decode;
use crate::xlate::emit::SCRATCH;
use crate::{check, report, sys};

pub const SIGILL: u32 = 4;
pub const SIGTRAP: u32 = 5;
pub const SIGBUS: u32 = 7;
pub const SIGFPE: u32 = 8;
pub const SIGSEGV: u32 = 11;
const TF: u64 = 0x100;

/// Signals that stay open natively: faults of translated code must arrive.
pub const OPEN: u64 = 1 << (SIGILL - 1)
    | 1 << (SIGTRAP - 1)
    | 1 << (SIGBUS - 1)
    | 1 << (SIGFPE - 1)
    | 1 << (SIGSEGV - 1);

pub const SA_ONSTACK: u64 = 0x0800_0000;
const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
pub const SA_NODEFER: u64 = 0x4000_0000;
pub const SA_RESETHAND: u64 = 0x8000_0000;

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// The program's actions, 1 to 64.
pub type Actions = [Action; 65];

#[allow(clippy::mut_from_ref)]
pub fn actions(context: &Context) -> &mut Actions {
    // SAFETY: set up at start; signal code and calls of one process race as in
    // the kernel, an entry being four words.
    unsafe { &mut *(context.actions as *mut Actions) }
}

/// A table of its own for a child that shares memory but not handlers.
pub fn copy_actions(from: u64) -> u64 {
    let to = state::reserve(core::mem::size_of::<Actions>() as u64);
    sys::copy(to, from, core::mem::size_of::<Actions>() as u64);
    to
}

fn native_action(signal: u32, action: Option<&Action>, old: Option<&mut Action>) -> i64 {
    let new = action.map_or(0, |a| core::ptr::from_ref(a) as u64);
    let old = old.map_or(0, |a| core::ptr::from_mut(a) as u64);
    // SAFETY: kernel-layout structures of ours.
    unsafe { sys::call(nr::RT_SIGACTION, [u64::from(signal), new, old, 8, 0, 0]) }
}

/// Our handler with the flags that the kernel must know.
fn install(signal: u32, flags: u64) -> i64 {
    let action = Action {
        handler: address(entry::rt_signal),
        flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK | flags & 0x1000_0003,
        restorer: address(entry::rt_restorer),
        mask: !(1 << (SIGSEGV - 1) | 1 << (SIGBUS - 1)),
    };
    native_action(signal, Some(&action), None)
}

fn is_open(signal: u32) -> bool {
    OPEN >> (signal - 1) & 1 != 0
}

/// At the start of an image: what is ignored stays ignored.
pub fn init(context: &mut Context) {
    context.actions = state::reserve(core::mem::size_of::<Actions>() as u64);
    for signal in 1..=64u32 {
        let mut old = Action::default();
        native_action(signal, None, Some(&mut old));
        actions(context)[signal as usize] = old;
        if is_open(signal) {
            install(signal, 0);
        }
    }
    let mask = sys::set_mask(0);
    context.virtual_mask = mask & OPEN;
    sys::set_mask(mask & !OPEN);
    context.altstack = [0, 2, 0];
}

/// The signal stack of this thread, below its runtime stack.
pub fn set_stack(context: &Context) {
    let stack = [context.stack - STACK - SIGNAL_STACK, 0, SIGNAL_STACK];
    // SAFETY: our own memory.
    unsafe { sys::call(nr::SIGALTSTACK, [stack.as_ptr() as u64, 0, 0, 0, 0, 0]) };
}

pub fn sigaction(context: &mut Context, a: [u64; 6]) -> i64 {
    let signal = a[0] as u32;
    if signal == 0 || signal > 64 || signal == 9 || signal == 19 || a[3] != 8 {
        // SAFETY: the kernel says what is wrong.
        return unsafe { sys::call(nr::RT_SIGACTION, a) };
    }
    let old = actions(context)[signal as usize];
    if a[1] != 0 {
        let Some(new) = sys::read_program::<Action>(a[1]) else {
            return -sys::EFAULT;
        };
        actions(context)[signal as usize] = new;
        let result = if is_open(signal) {
            0
        } else if new.handler > 1 {
            install(signal, new.flags)
        } else {
            native_action(signal, Some(&new), None)
        };
        if result < 0 {
            return result;
        }
    }
    if a[2] != 0 && !sys::write_program(a[2], &old) {
        return -sys::EFAULT;
    }
    0
}

/// The mask the program believes in.
pub fn real_mask(context: &Context) -> u64 {
    let mut mask = 0u64;
    // SAFETY: asks for the mask only.
    unsafe {
        sys::call(
            nr::RT_SIGPROCMASK,
            [0, 0, core::ptr::from_mut(&mut mask) as u64, 8, 0, 0],
        )
    };
    if context.pending != 0 {
        mask = context.pending_mask;
    }
    mask | context.virtual_mask
}

pub fn sigprocmask(context: &mut Context, a: [u64; 6]) -> i64 {
    if a[3] != 8 {
        return -22;
    }
    let old = real_mask(context);
    if a[1] != 0 {
        let Some(set) = sys::read_program::<u64>(a[1]) else {
            return -sys::EFAULT;
        };
        let new = match a[0] {
            0 => old | set,
            1 => old & !set,
            2 => set,
            _ => return -22,
        };
        set_program_mask(context, new);
    }
    if a[2] != 0 && !sys::write_program(a[2], &old) {
        return -sys::EFAULT;
    }
    0
}

fn set_program_mask(context: &mut Context, mask: u64) {
    let mask = mask & !(1 << 8 | 1 << 18);
    context.virtual_mask = mask & OPEN;
    context.pending_mask = mask & !OPEN;
    if context.pending == 0 {
        sys::set_mask(mask & !OPEN);
    }
}

/// Whether a program stack pointer is on its alternate stack.
pub fn on_altstack(context: &Context, sp: u64) -> bool {
    let [base, _, size] = context.altstack;
    size != 0 && sp > base && sp - base <= size
}

/// The alternate stack as the program sees it.
pub fn altstack_view(context: &Context, sp: u64) -> [u64; 3] {
    let [base, flags, size] = context.altstack;
    let flags = if size == 0 {
        2
    } else {
        flags & 0x8000_0000 | u64::from(on_altstack(context, sp))
    };
    [base, flags, size]
}

pub fn sigaltstack(context: &mut Context, a: [u64; 6]) -> i64 {
    let sp = context.regs[4];
    let old = altstack_view(context, sp);
    if a[0] != 0 {
        let Some([base, flags, size]) = sys::read_program::<[u64; 3]>(a[0]) else {
            return -sys::EFAULT;
        };
        if on_altstack(context, sp) {
            return -1;
        }
        let flags = flags & 0xffff_ffff;
        if flags & !0x8000_0003 != 0 || flags & 3 == 3 {
            return -22;
        }
        if flags & 2 != 0 {
            context.altstack = [0, 2, 0];
        } else if size < 2048 {
            return -12;
        } else {
            context.altstack = [base, flags & 0x8000_0000, size];
        }
    }
    if a[1] != 0 && !sys::write_program(a[1], &old) {
        return -sys::EFAULT;
    }
    0
}

/// Dispositions that must be native when an image is replaced.
pub fn before_exec(context: &Context) {
    for signal in (1..=64).filter(|&s| is_open(s)) {
        if actions(context)[signal as usize].handler == 1 {
            let ignore = Action {
                handler: 1,
                ..Action::default()
            };
            native_action(signal, Some(&ignore), None);
        }
    }
}

pub fn after_failed_exec(_: &Context) {
    for signal in (1..=64).filter(|&s| is_open(s)) {
        install(signal, 0);
    }
}

/// rt_sigreturn: the program's frame, with our way back in.
pub fn sigreturn(context: &mut Context) -> i64 {
    let Some(mut frame) = sys::read_program::<Ucontext>(context.regs[4]) else {
        report::fail(format_args!("rt_sigreturn with an unreadable frame"));
    };
    if frame.stack[1] & 1 == 0 && frame.stack[2] >= 2048 && frame.stack[1] & 2 == 0 {
        context.altstack = [frame.stack[0], frame.stack[1] & 0x8000_0000, frame.stack[2]];
    }
    // A signal between here and the return would note a mask that is no longer so.
    sys::set_mask(!OPEN);
    frame.stack = [context.stack - STACK - SIGNAL_STACK, 0, SIGNAL_STACK];
    context.target = frame.rip;
    frame.rip = address(entry::rt_goto);
    frame.eflags &= !TF;
    context.virtual_mask = frame.mask & OPEN;
    frame.mask &= !OPEN;
    context.pending = 0;
    // SAFETY: a complete frame on our stack; the program's state follows from it.
    unsafe { entry::rt_sigreturn_to(core::ptr::from_ref(&frame).cast()) }
}

/// Where a signal found a thread.
enum Found {
    /// At an instruction boundary (of the program's) or at a fault: the state in
    /// the frame has been made the program's.
    Program,
    /// In an insertion: step on.
    Between,
    /// In the runtime.
    Runtime,
}

/// Every signal we handle arrives here.
#[unsafe(no_mangle)]
extern "C" fn rt_host_signal(signal: u32, info: *mut Info, frame: *mut Ucontext) {
    let context: u64;
    // SAFETY: every thread of ours has GS at its context (signals are blocked
    // where it has not).
    unsafe {
        core::arch::asm!("mov {}, gs:[{}]", out(reg) context,
            const core::mem::offset_of!(Context, this), options(nostack, readonly));
    }
    // SAFETY: the kernel's frame, and this thread's context.
    let (info, frame, context) =
        unsafe { (&mut *info, &mut *frame, &mut *(context as *mut Context)) };
    let rip = frame.rip;
    let fault = info.code > 0 && is_open(signal);
    if fault && rip == address(entry::rt_copy_insn) {
        if signal == SIGSEGV && frame.error & 2 != 0 {
            state::lock();
            let watched = PAGES.get().write_fault(CACHE.get(), info.address);
            state::unlock();
            if watched != Fault::Program {
                return;
            }
        }
        frame.rip = address(entry::rt_copy_fault);
        return;
    }
    if signal == SIGTRAP && context.rolling != 0 && frame.eflags & TF != 0 {
        roll(context, frame);
        return;
    }
    if signal == SIGSEGV && fault && frame.trap == 14 && frame.error & 2 != 0 {
        let code = cache::in_code(rip);
        // A page that a protection key forbids to write is the program's affair.
        if code && frame.error & 0x20 == 0 {
            state::lock();
            let own = writes_own_code(rip, info.address);
            let watched = PAGES.get().write_fault(CACHE.get(), info.address);
            state::unlock();
            if watched == Fault::Again || watched == Fault::Watched && !own {
                return;
            }
            if watched == Fault::Watched {
                end_roll(context, frame);
                locate(context, frame, true);
                context.target = frame.rip;
                frame.rip = address(entry::rt_once);
                return;
            }
        }
    }
    if fault && cache::in_code(rip) {
        end_roll(context, frame);
    }
    let saved = frame.registers();
    let saved_rip = rip;
    match locate(context, frame, fault) {
        Found::Program => {}
        Found::Between => {
            queue_again(signal, info);
            context.rolling = 1;
            context.pending_mask = frame.mask;
            frame.mask = !OPEN | queued(signal);
            frame.eflags |= TF;
            return;
        }
        Found::Runtime => {
            check!(
                !fault,
                "signal {signal} (code {}) in the runtime at {rip:#x}, address {:#x}, program at {:#x}",
                info.code,
                info.address,
                context.pc
            );
            queue_again(signal, info);
            defer(context, frame);
            frame.mask |= queued(signal);
            return;
        }
    }
    let action = actions(context)[signal as usize];
    let blocked = context.virtual_mask >> (signal - 1) & 1 != 0;
    if action.handler <= 1 || (fault && blocked) {
        if !fault && action.handler == 1 {
            context.target = frame.rip;
            frame.rip = address(entry::rt_goto);
            return;
        }
        // The default action, natively: meet the same fault again (or queue again).
        let default = Action::default();
        native_action(signal, Some(&default), None);
        if fault {
            frame.set_registers(&saved);
            frame.rip = saved_rip;
        } else {
            queue_again(signal, info);
            context.target = frame.rip;
            frame.rip = address(entry::rt_goto);
        }
        return;
    }
    if action.flags & SA_RESETHAND != 0 {
        actions(context)[signal as usize].handler = 0;
        if !is_open(signal) {
            native_action(signal, Some(&Action::default()), None);
        }
    }
    if fault && matches!(signal, SIGILL | SIGFPE | SIGTRAP) && info.address == saved_rip {
        info.address = frame.rip;
    }
    frames::deliver(context, signal, &action, info, frame);
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
fn writes_own_code(rip: u64, address: u64) -> bool {
    let cache = CACHE.get();
    let Some(number) = cache.block_at(rip) else {
        return true;
    };
    let block = *cache.blocks.get(number as usize);
    PAGES
        .get()
        .is_written(block.pc, u64::from(block.guest_len), address)
}

/// A fault while stepping to a boundary: the step is over, the signal comes later.
fn end_roll(context: &mut Context, frame: &mut Ucontext) {
    if context.rolling != 0 {
        context.rolling = 0;
        frame.eflags &= !TF;
        frame.mask = context.pending_mask;
    }
}

/// Goes on in the runtime with everything blocked until it is done.
fn defer(context: &mut Context, frame: &mut Ucontext) {
    if context.pending == 0 {
        context.pending = 1;
        context.pending_mask = frame.mask;
    }
    frame.mask = !OPEN;
    let (start, end) = (address(entry::rt_enter), address(entry::rt_enter_end));
    if (start..end).contains(&frame.rip) {
        frame.rip = start;
    }
    // A call that is about to wait would not see the signal.
    let wait = entry::rt_wait as *const () as u64..=address(entry::rt_wait_call);
    if wait.contains(&frame.rip) {
        frame.rip = address(entry::rt_wait_stopped);
    }
}

/// The kernel keeps the signal pending (all are blocked now).
fn queue_again(signal: u32, info: &Info) {
    let (pid, tid) = (u64::from(sys::getpid()), u64::from(sys::gettid()));
    let old = sys::set_mask(u64::MAX);
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
    if cache::in_code(rip) {
        if !at_boundary(context, frame) {
            return;
        }
        frame.mask = context.pending_mask;
    } else {
        context.pending = 1;
    }
    context.rolling = 0;
    frame.eflags &= !TF;
}

fn at_boundary(context: &mut Context, frame: &Ucontext) -> bool {
    let mut copy = *frame;
    context.probing = 1;
    let found = locate(context, &mut copy, false);
    context.probing = 0;
    matches!(found, Found::Program)
}

/// Makes the frame's registers the program's, and the count exact, if the
/// thread was at a place where that is possible.
fn locate(context: &mut Context, frame: &mut Ucontext, fault: bool) -> Found {
    let rip = frame.rip;
    if context.native_pc != 0 && rip == context.native_pc {
        return Found::Program;
    }
    if rip == address(entry::rt_unmasked) && !fault {
        frame.set_registers(&context.regs);
        frame.eflags = context.rflags;
        frame.rip = context.pc;
        if context.resume_counted() {
            counts::uncount_call(context);
        }
        return Found::Program;
    }
    if !cache::in_code(rip) {
        return Found::Runtime;
    }
    state::lock();
    let found = locate_in_block(context, frame, rip, fault);
    state::unlock();
    found
}

fn locate_in_block(context: &Context, frame: &mut Ucontext, rip: u64, fault: bool) -> Found {
    let cache = CACHE.get();
    let Some(number) = cache.block_at(rip) else {
        return Found::Between;
    };
    let block = *cache.blocks.get(number as usize);
    if block.syscall != 0 && rip >= block.syscall - 5 {
        let next = block.pc + u64::from(block.guest_len);
        if rip > block.syscall {
            frame.rip = next;
            frame.regs_rcx(next);
        } else {
            // Not made, or made and to be made again: the kernel left its mark.
            frame.rip = next - 2;
            if frame.rcx() == block.syscall + 2 {
                frame.regs_rcx(next);
            } else {
                counts::correct(context, &block, block.insns.saturating_sub(1), true);
            }
        }
        return Found::Program;
    }
    let (mut at, mut done, mut pc) = (block.body, 0u16, block.pc);
    let (mut counted, mut spilled) = (false, false);
    for record in cache.records(&block) {
        let end = at + u64::from(record.host);
        let length = record.guest & record::LEN;
        if rip < end {
            if rip != at && !fault {
                return Found::Between;
            }
            if spilled {
                frame.set_register(SCRATCH, context.spill);
            }
            if rip != at && record.guest & record::FAR != 0 && length != 0 {
                let mut bytes = [0u8; 15];
                PAGES.get().fetch(pc, &mut bytes);
                if let Ok(insn) = decode(&bytes) {
                    frame.set_register(crate::xlate::block::far_register(&insn), context.spill_2);
                }
            }
            frame.rip = pc;
            counts::correct(context, &block, done, counted);
            return Found::Program;
        }
        if length != 0 {
            done += 1;
            pc += u64::from(length);
        }
        counted |= record.guest & record::COUNTS != 0;
        spilled |= record.guest & record::SPILLS != 0;
        at = end;
    }
    Found::Between
}

/// Whether the program is stopped in the runtime's service at a call already
/// counted (it resumes in front of a native `syscall`).
impl Context {
    fn resume_counted(&self) -> bool {
        self.exit_kind == entry::kind::SYSCALL && cache::in_code(self.resume) && self.start[2] == 1
    }
}
