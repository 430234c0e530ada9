//! System calls about signals: the program's actions, mask and alternate stack, of which the kernel knows
//! only what makes it deliver here (see `signals`).

use crate::action::{
    self, Action, OPEN, SA_ONSTACK, SA_RESTORER, SA_SIGINFO, SIGBUS, SIGSEGV, is_open,
};
use crate::entry::{self, address};
use crate::frames::Ucontext;
use crate::layout::Context;
use crate::slots::{SIGNAL_STACK, STACK};
use crate::syscall_table as nr;
use crate::{altstack, call_tree, far, fault_signals, program_memory, report, sys};

const TF: u64 = 0x100;

/// Our handler with the flags that the kernel must know.
fn install(signal: u32, flags: u64) -> i64 {
    let action = Action {
        handler: address(entry::rt_signal),
        flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK | flags & 0x1000_0003,
        restorer: address(entry::rt_restorer),
        mask: !(1 << (SIGSEGV - 1) | 1 << (SIGBUS - 1)),
    };
    action::native(signal, Some(&action), None)
}

/// Our handler for a signal of faults. A message to the runtime (see `code_writes`) and a signal that stays
/// pending must not end a call of a program that has no handler of its own for it.
fn install_open(signal: u32, action: &Action) -> i64 {
    const SA_RESTART: u64 = 0x1000_0000;
    let flags = match action.handler {
        0 | 1 => SA_RESTART,
        _ => action.flags & SA_RESTART,
    };
    install(signal, flags)
}

/// At the start of an image: what is ignored stays ignored.
pub fn init(context: &mut Context) {
    context.actions = action::new_table();
    for signal in 1..=64u32 {
        let mut old = Action::default();
        action::native(signal, None, Some(&mut old));
        action::set(context, signal, old);
        if is_open(signal) {
            install_open(signal, &Action::default());
        }
    }
    // (Nothing is let in meanwhile: what was pending at the `execve` has no handler any more.)
    let mask = sys::set_mask(u64::MAX);
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
    let old = action::get(context, signal);
    if a[1] != 0 {
        let Some(new) = program_memory::read::<Action>(a[1]) else {
            return -sys::EFAULT;
        };
        let new = action::accepted(new);
        action::set(context, signal, new);
        let result = if is_open(signal) {
            install_open(signal, &new)
        } else if new.handler > 1 {
            install(signal, new.flags)
        } else {
            action::native(signal, Some(&new), None)
        };
        if result < 0 {
            return result;
        }
    }
    if a[2] != 0 && !program_memory::write(a[2], &old) {
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
        let Some(set) = program_memory::read::<u64>(a[1]) else {
            return -sys::EFAULT;
        };
        let new = match a[0] {
            0 => old | set,
            1 => old & !set,
            2 => set,
            _ => return -22,
        };
        fault_signals::masked(old, new);
        set_program_mask(context, new);
    }
    if a[2] != 0 && !program_memory::write(a[2], &old) {
        return -sys::EFAULT;
    }
    0
}

fn set_program_mask(context: &mut Context, mask: u64) {
    let mask = mask & !(1 << 8 | 1 << 18);
    // A signal meanwhile would note the mask that was.
    let now = sys::set_mask(u64::MAX);
    context.virtual_mask = mask & OPEN;
    context.pending_mask = action::native_mask(mask);
    let deferred = context.pending != 0;
    sys::set_mask(if deferred { now } else { context.pending_mask });
}

pub fn sigaltstack(context: &mut Context, a: [u64; 6]) -> i64 {
    let sp = context.regs[4];
    let old = altstack::view(context, sp);
    if a[0] != 0 {
        let Some([base, flags, size]) = program_memory::read::<[u64; 3]>(a[0]) else {
            return -sys::EFAULT;
        };
        if altstack::is_used(context, sp) {
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
    if a[1] != 0 && !program_memory::write(a[1], &old) {
        return -sys::EFAULT;
    }
    0
}

/// Dispositions that must be native when an image is replaced.
pub fn before_exec(context: &Context) {
    for signal in (1..=64).filter(|&s| is_open(s)) {
        if action::get(context, signal).handler == 1 {
            let ignore = Action {
                handler: 1,
                ..Action::default()
            };
            action::native(signal, Some(&ignore), None);
        }
    }
}

/// Signals that the program handles take their default action from here on, as they will in the image to come.
pub fn as_in_a_new_image(context: &Context) {
    for signal in (1..=64).filter(|&s| !is_open(s)) {
        if action::get(context, signal).handler > 1 {
            action::native(signal, Some(&Action::default()), None);
        }
    }
}

/// Our handlers for faults, after those of an image to come.
pub fn after_failed_exec(context: &Context) {
    for signal in (1..=64).filter(|&s| is_open(s)) {
        install_open(signal, &action::get(context, signal));
    }
}

/// In a child whose handlers the kernel took away (`CLONE_CLEAR_SIGHAND`): those of the program, and ours
/// for faults, which are back.
pub fn clear_handlers(context: &Context) {
    for signal in 1..=64 {
        if action::get(context, signal).handler > 1 {
            action::set(context, signal, Action::default());
        }
    }
    after_failed_exec(context);
}

/// rt_sigreturn: the program's frame, with our way back in.
pub fn sigreturn(context: &mut Context) -> i64 {
    let Some(mut frame) = program_memory::read::<Ucontext>(context.regs[4]) else {
        report::fail(format_args!("rt_sigreturn with an unreadable frame"));
    };
    let code = frame.segments & 0xffff;
    if code != far::CODE {
        report::fail(format_args!(
            "the end of a handler with the code segment {code:#x}, which is not that of 64-bit code, is not supported by the virtual PMU"
        ));
    }
    if frame.stack[1] & 1 == 0 && frame.stack[2] >= 2048 && frame.stack[1] & 2 == 0 {
        context.altstack = [frame.stack[0], frame.stack[1] & 0x8000_0000, frame.stack[2]];
    }
    frame.stack = [context.stack - STACK - SIGNAL_STACK, 0, SIGNAL_STACK];
    context.target = frame.rip;
    call_tree::signal_is_over(context, frame.sp(), frame.rip);
    frame.rip = address(entry::rt_goto);
    frame.eflags &= !TF;
    // A signal between here and the return would note a mask that is no longer so.
    sys::set_mask(u64::MAX);
    context.virtual_mask = frame.mask & OPEN;
    frame.mask = action::native_mask(frame.mask);
    context.pending = 0;
    // SAFETY: a complete frame on our stack; the program's state follows from it.
    unsafe { entry::rt_sigreturn_to(core::ptr::from_ref(&frame).cast()) }
}
