//! Calls by which a program restricts its own system calls. A filter would end the process for what only the
//! runtime does, so that is done before; *user dispatch* looks at addresses of instructions, which are the
//! runtime's natively: here the runtime looks itself (kernel/entry/syscall_user_dispatch.c).

use crate::action::{self, Action};
use crate::frames::Info;
use crate::layout::Context;
use crate::pages::watched;
use crate::syscall_table as nr;
use crate::{cache_file, engine, filtered, outside, program_memory, sys, write_execute};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

const EINVAL: i64 = 22;
const PR_SET_SECCOMP: u64 = 22;
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const SIGSYS: u32 = 31;
const SIGSEGV: u32 = 11;
pub const AUDIT_ARCH_X86_64: u64 = 0xc000_003e;
pub const AUDIT_ARCH_I386: u64 = 0x4000_0003;
const SYS_USER_DISPATCH: i32 = 2;

const PR_GET_TSC: u64 = 25;
const PR_SET_TSC: u64 = 26;
const PR_TSC_SIGSEGV: u32 = 2;
/// The program has said whether the time stamp counter may be read.
static STAMPS_ASKED: AtomicBool = AtomicBool::new(false);

/// Whether reading the time stamp counter faults in this thread.
pub fn stamps_fault() -> bool {
    let mut mode = 0u32;
    let asks = [PR_GET_TSC, &raw mut mode as u64, 0, 0, 0, 0];
    // SAFETY: writes to a local.
    STAMPS_ASKED.load(Relaxed)
        && unsafe { sys::call(nr::PRCTL, asks) } == 0
        && mode == PR_TSC_SIGSEGV
}

/// prctl and seccomp.
pub fn call(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    if number == nr::PRCTL && a[0] == PR_SET_SYSCALL_USER_DISPATCH {
        return set_user_dispatch(context, a);
    }
    if number == nr::PRCTL && matches!(a[0], write_execute::SET | write_execute::GET) {
        return write_execute::call(a);
    }
    // SECCOMP_SET_MODE_STRICT and _FILTER are 0 and 1, the modes of prctl 1 and 2; a filter that is not there
    // only asks whether there are filters.
    let strict = number == nr::SECCOMP && a[0] == 0
        || number == nr::PRCTL && a[0] == PR_SET_SECCOMP && a[1] == 1;
    let filter = number == nr::SECCOMP && a[0] == 1
        || number == nr::PRCTL && a[0] == PR_SET_SECCOMP && a[1] == 2;
    if number == nr::PRCTL && a[0] == PR_SET_TSC {
        STAMPS_ASKED.store(true, Relaxed);
    }
    let confines = strict || filter && program_memory::read::<u64>(a[2]).is_some();
    if confines {
        cache_file::save(context);
        engine::lock().pages.look_now();
        filtered::begins();
        outside::ends(context, number);
    }
    // SAFETY: as the program made it.
    let result = unsafe { sys::call(number, a) };
    if confines && result >= 0 {
        cache_file::save_no_more();
        engine::lock().pages.look_no_more();
    }
    result
}

/// `prctl(PR_SET_SYSCALL_USER_DISPATCH, switch, offset, length, selector)`.
fn set_user_dispatch(context: &mut Context, a: [u64; 6]) -> i64 {
    let [_, switch, offset, len, selector, _] = a;
    // SAFETY: switches off what is not on: says whether the kernel has it.
    let known = unsafe { sys::call(nr::PRCTL, [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0]) };
    if known != 0 {
        return known;
    }
    let (mut offset, mut len) = (offset, len);
    match switch {
        0 if offset | len | selector == 0 => context.user_dispatch = [0; 4],
        1 if offset == 0 || offset.wrapping_add(len) > offset => {
            if selector >> 47 != 0 {
                return -sys::EFAULT;
            }
            // From here on all calls come to the runtime.
            watched().fetch_add(1, Relaxed);
            context.user_dispatch = [1, offset, len, selector];
        }
        2 if len != 0 && offset.wrapping_add(len) > offset && has_inclusive() => {
            if selector >> 47 != 0 {
                return -sys::EFAULT;
            }
            watched().fetch_add(1, Relaxed);
            // As the kernel does it: all but the range is the one that is left alone.
            (offset, len) = (offset.wrapping_add(len), len.wrapping_neg());
            context.user_dispatch = [1, offset, len, selector];
        }
        _ => return -EINVAL,
    }
    0
}

/// Whether the kernel knows the switch that dispatches only calls of a range (PR_SYS_DISPATCH_INCLUSIVE_ON, Linux 6.17).
fn has_inclusive() -> bool {
    let calls = [[2u64, 1, 1], [0, 0, 0]].map(|[switch, offset, len]| {
        let a = [PR_SET_SYSCALL_USER_DISPATCH, switch, offset, len, 0, 0];
        // SAFETY: for calls from an address where none are made, and switched off again.
        unsafe { sys::call(nr::PRCTL, a) }
    });
    calls[0] == 0
}

/// Whether the call in front of `next` is not made, but told to the program by SIGSYS. Then that is on its way.
/// `architecture`: how it is made.
pub fn dispatches(context: &mut Context, next: u64, architecture: u64) -> bool {
    let [on, offset, len, selector] = context.user_dispatch;
    if on == 0 || next.wrapping_sub(offset) < len {
        return false;
    }
    let (mut signal, mut fatal) = (SIGSYS, false);
    if selector != 0 {
        match program_memory::read::<u8>(selector) {
            Some(0) => return false,
            Some(1) => {}
            Some(_) => fatal = true,
            None => (signal, fatal) = (SIGSEGV, true),
        }
    }
    let bit = 1u64 << (signal - 1);
    let old = sys::set_mask(u64::MAX);
    if context.pending == 0 {
        context.pending = 1;
        context.pending_mask = old;
    }
    if fatal || context.pending_mask & bit != 0 || action::get(context, signal).handler <= 1 {
        // As the kernel forces it.
        action::native(signal, Some(&Action::default()), None);
        context.pending_mask &= !bit;
    }
    if architecture == AUDIT_ARCH_X86_64 {
        context.regs[11] = context.rflags;
        context.regs[1] = next;
    }
    let call = context.regs[0] & 0xffff_ffff | architecture << 32;
    let mut info = Info::message(signal, SYS_USER_DISPATCH, call);
    info.address = next;
    let (process, thread) = (u64::from(sys::getpid()), u64::from(sys::gettid()));
    let to = [
        process,
        thread,
        u64::from(signal),
        &raw const info as u64,
        0,
        0,
    ];
    // SAFETY: rt_tgsigqueueinfo to ourselves with a whole siginfo; it arrives when the state is the program's.
    unsafe { sys::call(nr::RT_TGSIGQUEUEINFO, to) };
    true
}
