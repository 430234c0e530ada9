//! What to do when translated code comes back to the runtime.

use crate::cache::{CACHE, NONE};
use crate::entry::{self, address, kind};
use crate::layout::{
    Context, MAX_SLOTS, REGION, StartArgs, TABLES, TOTALS_BASE, state as slot_state,
};
use crate::pages::{PAGES, WATCHED};
use crate::state::{self, BOOT_STACK, RUNTIME_END, SIGNAL_STACK, STACK};
use crate::syscall_table::{self as nr, Answer};
use crate::xlate::entry::Via;
use crate::{cache_file, check, clock, counts, perf, proc_maps, report, signals, sys, syscalls};
use core::sync::atomic::Ordering::*;

/// Called by the crossing with the program's state in the context; leaves the
/// host address to continue at in `resume`.
#[unsafe(no_mangle)]
extern "C" fn rt_dispatch(context: *mut Context) {
    // SAFETY: gs pointed at it; only this thread uses it.
    let context = unsafe { &mut *context };
    context.entries += 1;
    context.native_pc = 0;
    context.start[2] = 0;
    match context.exit_kind {
        kind::EXIT => {
            state::lock();
            let exit = context.exit_id;
            let target = CACHE.get().exits.get(exit as usize).target;
            goto(context, target, None, exit);
            state::unlock();
        }
        kind::SYSCALL => {
            state::lock();
            let cache = CACHE.get();
            let exit = *cache.exits.get(context.exit_id as usize);
            let resume = cache.blocks.get(exit.block as usize).syscall - 5;
            state::unlock();
            let next = exit.target;
            context.pc = next.wrapping_sub(2);
            open_pages(context);
            let number = context.regs[0];
            let for_event = nr::answer(number) == Answer::Event && perf::concerns(context);
            let plain =
                nr::is_plain(number) || !proc_maps::concerns(number, syscalls::arguments(context));
            let for_clock = clock::answers(number, &syscalls::arguments(context));
            if plain && !for_event && !for_clock {
                proc_maps::before(number, syscalls::arguments(context));
                context.resume = resume;
                context.start[2] = 1;
                return;
            }
            context.regs[11] = context.rflags;
            context.regs[1] = next;
            syscalls::special(context, next);
            let target = context.pc;
            state::lock();
            let exit = if target == next {
                context.exit_id
            } else {
                NONE
            };
            goto(context, target, None, exit);
            state::unlock();
        }
        kind::SPECIAL => {
            state::lock();
            let exit = *CACHE.get().exits.get(context.exit_id as usize);
            let unknown = CACHE.get().blocks.get(exit.block as usize).unsupported;
            let mut code = [0u8; 15];
            PAGES.get().fetch(exit.target.wrapping_sub(2), &mut code);
            state::unlock();
            if unknown {
                unsupported(context);
            }
            context.pc = exit.target;
            // RDTSC is 0F 31, RDTSCP 0F 01 F9.
            clock::stamp(context, code.starts_with(&[0x01, 0xf9]));
            state::lock();
            goto(context, exit.target, None, NONE);
            state::unlock();
        }
        kind::MISS_RET => enter_via(context, Via::Ret),
        kind::MISS_MEMORY => enter_via(context, Via::Memory),
        miss if miss & !3 == kind::MISS_REGISTER => {
            enter_via(context, Via::Register(miss as u8 & 3))
        }
        kind::GOTO => {
            state::lock();
            let target = context.target;
            goto(context, target, None, NONE);
            state::unlock();
        }
        kind::ONCE => {
            state::lock();
            let target = context.target;
            context.pc = target;
            match CACHE.get().step_over(target) {
                Some(block) => context.resume = CACHE.get().blocks.get(block as usize).body,
                None => native(context, target),
            }
            state::unlock();
        }
        other => report::fail(format_args!("unknown exit kind {other}")),
    }
}

/// Lets the kernel write where the call about to be made may want to.
fn open_pages(context: &Context) {
    if WATCHED.load(Relaxed) != 0 {
        state::lock();
        let number = context.regs[0];
        PAGES
            .get()
            .open_for(CACHE.get(), number, syscalls::arguments(context));
        state::unlock();
    }
}

/// Continues at `Context::target` (a thread that just started).
pub fn resume_at(context: &mut Context) {
    state::lock();
    goto(context, context.target, None, NONE);
    state::unlock();
}

fn enter_via(context: &mut Context, via: Via) {
    state::lock();
    let target = context.target;
    goto(context, target, Some(via), NONE);
    state::unlock();
}

/// Continues at a program address; links `exit` to its block.
fn goto(context: &mut Context, pc: u64, via: Option<Via>, exit: u32) {
    context.pc = pc;
    let cache = CACHE.get();
    let block = match cache.find(pc) {
        Some(block) => Some(block),
        None => {
            context.translated += 1;
            cache.translate(pc, via, false, exit)
        }
    };
    let Some(block) = block else {
        native(context, pc);
        return;
    };
    if exit != NONE {
        cache.link(exit, block);
    }
    if let Some(via) = via {
        cache.publish(block, via);
    }
    context.resume = cache.blocks.get(block as usize).body;
}

/// Nothing can be executed at `pc`: going there natively raises the very fault
/// that the program is due.
fn native(context: &mut Context, pc: u64) {
    check!(
        pc >> 47 == 0 || pc >> 47 == 0x1ffff && pc < 0xffff_ffff_ff60_0000,
        "the program jumped to {pc:#x}: non-canonical and vsyscall addresses are not supported"
    );
    context.native_pc = pc;
    context.resume = pc;
}

fn unsupported(context: &mut Context) -> ! {
    state::lock();
    let exit = *CACHE.get().exits.get(context.exit_id as usize);
    let pc = exit.target;
    let mut bytes = [0u8; 15];
    PAGES.get().fetch(pc, &mut bytes);
    report::fail(format_args!(
        "instruction not supported by the virtual PMU at {pc:#x}: {bytes:02x?}"
    ))
}

/// First code of a new image: sets everything up from what the launcher left.
#[unsafe(no_mangle)]
extern "C" fn rt_start(args: *const StartArgs) -> *mut Context {
    // SAFETY: the launcher wrote it before it let us run.
    let args = unsafe { *args };
    map_totals(args.totals_fd);
    check!(
        state::header().magic == crate::layout::MAGIC,
        "the totals file is not one of ours"
    );
    let address_of_context = state::context_at(args.slot as u32);
    // SAFETY: just mapped; ours alone.
    let context = unsafe { &mut *(address_of_context as *mut Context) };
    counts::init(args.slot as u32);
    prepare(context, args.slot as u32);
    context.leader = args.slot as u32;
    perf::started(context);
    clock::init();
    CACHE.get().init();
    PAGES.get().init();
    signals::init(context);
    cache_file::start(context, args.cache_fd, args.cache_effort);
    CACHE.get().watch(args.watches, args.pc);
    context.regs = args.regs;
    context.regs[4] = args.sp;
    context.rflags = args.rflags;
    context.exit_kind = kind::GOTO;
    context.target = args.pc;
    state::lock();
    goto(context, args.pc, None, NONE);
    state::unlock();
    context
}

/// Maps the totals file as a whole (it is sparse) and closes its descriptor.
fn map_totals(fd: u64) {
    let len = u64::from(MAX_SLOTS) * REGION;
    // PROT_READ|WRITE; MAP_SHARED|NORESERVE|FIXED_NOREPLACE
    let flags = 1 | 0x4000 | 0x10_0000;
    // SAFETY: shared mapping at an address reserved for it; then our descriptor.
    unsafe {
        let got = sys::call(nr::MMAP, [TOTALS_BASE, len, 3, flags, fd, 0]);
        check!(
            got == TOTALS_BASE as i64,
            "the totals file cannot be mapped (errno {})",
            -got
        );
        sys::call(nr::MADVISE, [TOTALS_BASE, len, 16, 0, 0, 0]); // MADV_DONTDUMP
        perf::know_file(fd);
        sys::call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]);
    }
}

/// Fills the fixed fields of a context, gives it stacks, points GS at it.
pub fn prepare(context: &mut Context, slot: u32) {
    context.this = state::context_at(slot);
    context.vector_exit = address(entry::rt_exit);
    context.vector_syscall = address(entry::rt_syscall);
    context.vector_special = address(entry::rt_special);
    if context.stack == 0 {
        context.stack = state::reserve(SIGNAL_STACK + STACK) + SIGNAL_STACK + STACK;
    }
    context.space = counts::space();
    identify(context);
    set_gs(context);
    signals::set_stack(context);
    context.state.store(slot_state::LIVE, Relaxed);
}

/// Notes who runs here.
pub fn identify(context: &mut Context) {
    context.tid = sys::gettid();
    context.pid = sys::getpid();
    // SAFETY: no arguments.
    context.parent = unsafe { sys::call(nr::GETPPID, [0; 6]) as u32 };
}

/// Points GS at the context (ARCH_SET_GS: works without user FSGSBASE too).
pub fn set_gs(context: &Context) {
    // SAFETY: GS is the engine's.
    let result = unsafe { sys::call(nr::ARCH_PRCTL, [0x1001, context.this, 0, 0, 0, 0]) };
    check!(result == 0, "GS cannot be set (errno {})", -result);
}

const _: () = assert!(BOOT_STACK < RUNTIME_END && TABLES > RUNTIME_END);
const _: () = assert!(core::mem::offset_of!(Context, xmm) % 16 == 0);
