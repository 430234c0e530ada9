//! What to do when translated code comes back to the runtime.

use crate::action::SIGSEGV;
use crate::block::NONE;
use crate::engine::{self, Engine};
use crate::entry::kind;
use crate::layout::{BOOT_STACK, Context, StartArgs};
use crate::locate;
use crate::own_memory::{self, NOWHERE, RUNTIME_END};
use crate::ring;
use crate::schedule::Step;
use crate::syscall_table::{self as nr, Answer};
use crate::thread_context::prepare;
use crate::xlate::block::{meaning, record};
use crate::xlate::decode::{Kind, decode};
use crate::xlate::entry::Via;
use crate::{
    allocations, asked, cache_file, call_tree, check, clock, code_writes, collect, confine, counts,
    ended, far, interrupt, keys, machine, native_call, open_pages, outside, perf, pids, proc_maps,
    program_memory, references, report, requests, rseq, schedule, selector, shadow, signal_calls,
    signals, slots, sys, syscalls, totals,
};
use core::sync::atomic::Ordering::*;

/// Called by the crossing with the program's state in the context; leaves the
/// host address to continue at in `resume`.
#[unsafe(no_mangle)]
extern "C" fn rt_dispatch(context: *mut Context) {
    // SAFETY: gs pointed at it; only this thread uses it.
    let context = unsafe { &mut *context };
    context.entries += 1;
    context.native_pc = NOWHERE;
    context.start[2] = 0;
    context.whole.store(1, Relaxed);
    answer(context);
    collect::follow(context);
    call_tree::follow(context);
    // What is left of the crossing changes no count: only a native call is not over here.
    context.whole.store(context.start[2] as u32, Relaxed);
}

fn answer(context: &mut Context) {
    match context.exit_kind {
        kind::EXIT => {
            let exit = context.exit_id;
            let target = engine::lock().cache.exits.get(exit as usize).target;
            go(context, target, None, exit);
        }
        kind::SYSCALL => system_call(context),
        kind::SPECIAL => special(context),
        kind::MISS_RET => enter_via(context, Some(Via::Ret)),
        kind::MISS_MEMORY => enter_via(context, Some(Via::Memory)),
        miss if miss & !3 == kind::MISS_REGISTER => {
            enter_via(context, Some(Via::Register(miss as u8 & 3)));
        }
        kind::GOTO => enter_via(context, None),
        kind::TURN => {
            context.pc = engine::lock()
                .cache
                .exits
                .get(context.exit_id as usize)
                .target;
            schedule::turn(context);
            go(context, context.pc, None, NONE);
        }
        kind::HOOK => {
            let mut engine = engine::lock();
            let exit = *engine.cache.exits.get(context.exit_id as usize);
            context.pc = exit.target;
            let block = engine.cache.blocks.get(exit.block as usize);
            context.resume = block.at(block.hook);
            let new = [collect::hooked(context), allocations::hooked(context)];
            for back in new.into_iter().flatten() {
                engine.cache.ask_at(back);
            }
        }
        kind::CALL | kind::RETURN | kind::JUMP => call_tree::note(context),
        kind::REFERENCES => {
            context.pc = engine::lock()
                .cache
                .exits
                .get(context.exit_id as usize)
                .target;
            ring::publish(context);
            go(context, context.pc, None, NONE);
        }
        kind::NO_ROOM => {
            shadow::come_again(context);
        }
        kind::ONCE => {
            let mut engine = engine::lock();
            let Engine { cache, pages, .. } = &mut *engine;
            context.pc = context.target;
            match cache.step_over(pages, context.target) {
                Some(block) => {
                    cache.enters(context);
                    context.resume = cache.blocks.get(block as usize).body;
                }
                None => native(context, context.target),
            }
        }
        other => report::fail(format_args!("unknown exit kind {other}")),
    }
}

/// A system call: sent back to the block that makes it, or made here.
fn system_call(context: &mut Context) {
    allocations::time(context);
    let (resume, next) = {
        let mut engine = engine::lock();
        let exit = *engine.cache.exits.get(context.exit_id as usize);
        let block = engine.cache.blocks.get(exit.block as usize);
        (block.at(block.syscall) - 5, exit.target)
    };
    context.pc = next.wrapping_sub(2);
    let number = number(context.regs[0]);
    let arguments = syscalls::arguments(context);
    if confine::dispatches(context, next, confine::AUDIT_ARCH_X86_64) {
        go(context, next, None, NONE);
        return;
    }
    outside::before(context, number, arguments);
    open_pages::before(number, arguments);
    if schedule::on() {
        let target = match schedule::call(context, number, arguments) {
            Step::Native => None,
            Step::Again => Some(context.pc),
            Step::Done(result) => {
                outside::after(context, number, arguments, result);
                (context.regs[0], context.regs[1]) = (result as u64, next);
                context.regs[11] = context.rflags;
                Some(next)
            }
        };
        if let Some(target) = target {
            go(context, target, None, NONE);
            return;
        }
    }
    if schedule::on() {
        // Others may have executed code there meanwhile.
        open_pages::before(number, arguments);
    }
    let for_event = nr::answer(number) == Answer::Event && perf::concerns(context);
    let opens = nr::answer(number) == Answer::Open && code_writes::opens_memory(number, arguments);
    let writes = nr::answer(number) == Answer::Write && code_writes::concerns(number, arguments);
    let plain = nr::is_plain(number) || !proc_maps::concerns(number, arguments);
    let own = clock::answers(number, &arguments)
        || ended::answers(number, &arguments)
        || machine::answers(number, &arguments)
        || pids::answers(context, number, &arguments)
        || nr::is_followed(number)
        || outside::locks::is_asked_once(number, &arguments)
        || outside::names::concerns(number, &arguments)
        || outside::follows(context, number, arguments);
    if plain && !for_event && !opens && !writes && !own {
        proc_maps::before(number, arguments);
        context.resume = resume;
        context.start[2] = 1;
        return;
    }
    context.regs[11] = context.rflags;
    context.regs[1] = next;
    syscalls::special(context, number, next);
    let target = context.pc;
    let exit = if target == next {
        context.exit_id
    } else {
        NONE
    };
    go(context, target, None, exit);
}

/// The number of a system call. Linux looks at all of RAX before 5.13, at EAX since.
fn number(rax: u64) -> u64 {
    /// `__X32_SYSCALL_BIT`: the calls of programs with 32-bit pointers.
    const X32: u64 = 0x4000_0000;
    // SAFETY: getpid, asked in other ways.
    let answers = |bits: u64| unsafe { sys::call(nr::GETPID | bits, [0; 6]) } > 0;
    let number = if rax >> 32 != 0 && answers(1 << 32) {
        rax & 0xffff_ffff
    } else {
        rax
    };
    check!(
        number >> 30 != 1 || !answers(X32),
        "system call {number:#x}, of the x32 ABI, is not supported by the virtual PMU"
    );
    number
}

/// An instruction that the runtime answers (the time stamp counter, what asks the machine), or cannot.
fn special(context: &mut Context) {
    let mut code = [0u8; 15];
    let (target, at, unknown) = {
        let mut engine = engine::lock();
        let Engine { cache, pages, .. } = &mut *engine;
        let exit = *cache.exits.get(context.exit_id as usize);
        let block = *cache.blocks.get(exit.block as usize);
        let unknown = block.unsupported;
        // The instruction is the block's last.
        let last = cache.records(&block).last().filter(|_| !unknown);
        let length = last.map_or(0, |record| u64::from(record.guest & record::LEN));
        let at = exit.target.wrapping_sub(length);
        pages.fetch(at, &mut code);
        (exit.target, at, unknown)
    };
    check!(
        !unknown || !decode(&code).is_ok_and(|insn| insn.loads_address()),
        "restartable sequence (rseq) in a library at {target:#x}; with GLIBC_TUNABLES=glibc.pthread.rseq=0 in the environment it runs"
    );
    if unknown && is_sysenter(&code) && !has_sysenter() {
        context.pc = target;
        native(context, target);
        return;
    }
    check!(
        !unknown,
        "instruction not supported by the virtual PMU at {target:#x}: {code:02x?}"
    );
    context.pc = target;
    // In front of the mark is the last byte of the rotations.
    if let [0x33, mark @ ..] = &code
        && collect::on()
        && let Some(request) = meaning(mark)
    {
        requests::answer(context, request);
        go(context, context.pc, None, NONE);
        return;
    }
    match decode(&code) {
        // RDTSC is 0F 31, RDTSCP 0F 01 F9.
        Ok(insn) if insn.kind == Kind::Rdtsc && confine::stamps_fault() => {
            locate::uncount_call(context);
            context.pc = at;
            native(context, at);
            return;
        }
        Ok(insn) if insn.kind == Kind::Rdtsc => {
            outside::stamp(context, at);
            clock::stamp(context, insn.opcode == 0x01);
        }
        Ok(insn) if insn.kind == Kind::Asks => {
            if asked::is_random(&insn) {
                outside::random(context);
            }
            asked::answer(context, &insn);
        }
        Ok(insn) if insn.kind == Kind::LoadsGs => selector::load(context, &insn, &code, target),
        Ok(insn) if insn.kind == Kind::FarReturn => {
            let target = far::returns(context, &insn, &code, at);
            go(context, target, None, NONE);
            return;
        }
        Ok(insn) if insn.kind == Kind::Interrupt => {
            match interrupt::call(context, at, target) {
                interrupt::Next::At(target) => go(context, target, None, NONE),
                interrupt::Next::Faults => {
                    context.pc = at;
                    native(context, at);
                }
            }
            return;
        }
        _ => report::fail(format_args!(
            "the instruction at {at:#x} has changed: {code:02x?}"
        )),
    }
    go(context, target, None, NONE);
}

fn is_sysenter(code: &[u8]) -> bool {
    decode(code).is_ok_and(|insn| insn.space == 1 && insn.opcode == 0x34)
}

/// Whether 64-bit code has the instruction: on CPUs of AMD and Hygon it is invalid there (AMD APM volume 3, `SYSENTER`).
fn has_sysenter() -> bool {
    /// The first four letters of the vendor's name.
    const WITHOUT: [&[u8; 4]; 2] = [b"Auth", b"Hygo"];
    let name = core::arch::x86_64::__cpuid(0).ebx.to_le_bytes();
    !WITHOUT.contains(&&name)
}

/// Continues at `Context::target` (a thread that just started).
pub fn resume_at(context: &mut Context) {
    enter_via(context, None);
    context.whole.store(0, Relaxed);
}

fn enter_via(context: &mut Context, via: Option<Via>) {
    let target = context.target;
    go(context, target, via, NONE);
}

/// Continues at a program address. Program memory that somebody has to supply first (`userfaultfd`) is waited
/// for without the lock.
fn go(context: &mut Context, pc: u64, via: Option<Via>, exit: u32) {
    if native_call::is_over(context, pc) {
        go(context, context.pc, None, NONE);
        return;
    }
    let mut engine = engine::lock();
    if !engine.cache.is_ready(pc) {
        let next = (pc | 0xfff).wrapping_add(1);
        let both = engine.pages.readable(pc) && engine.pages.readable(next);
        drop(engine);
        program_memory::read::<u8>(pc);
        if both {
            program_memory::read::<u8>(next);
        }
        engine = engine::lock();
    }
    goto(&mut engine, context, pc, via, exit);
}

/// Continues at a program address; links `exit` to its block.
fn goto(engine: &mut Engine, context: &mut Context, pc: u64, via: Option<Via>, exit: u32) {
    context.pc = pc;
    let Engine { cache, pages, .. } = engine;
    cache.enlarge_pages(slots::slot_of(context));
    let mut known = cache.find(pages, pc);
    // Where nothing can be executed the fault is raised natively: code there would run uncounted.
    if known.is_none() && !pages.readable(pc) && pages.is_executable_after_all(cache, pc) {
        known = cache.find(pages, pc);
    }
    let block = match known.filter(|&block| !cache.is_in_the_way(block, via, exit)) {
        Some(block) => Some(block),
        None if known.is_some() => cache.translate(pages, pc, via, false, NONE),
        None => {
            context.translated += 1;
            if outside::in_vdso(pc) {
                outside::enters_vdso(context);
            }
            cache.translate(pages, pc, via, false, exit)
        }
    };
    // Executed natively it would not be counted: only what the CPU does not execute either may go there.
    let block = block.or_else(|| {
        let again = pages.readable(pc) && keys::used();
        again.then(|| cache.translate(pages, pc, via, false, exit))?
    });
    let Some(block) = block else {
        check!(
            pc >> 12 != 0 || !pages.has_code_at_0(),
            "code in the first page of memory is not supported"
        );
        native(context, pc);
        return;
    };
    if exit != NONE {
        cache.link(exit, block);
    }
    if let Some(via) = via {
        cache.publish(block, via);
    }
    cache.enters(context);
    let block = cache.blocks.get(block as usize);
    context.resume = block.at(block.enter);
}

/// Nothing can be executed at `pc`: going there natively raises the very fault
/// that the program is due.
fn native(context: &mut Context, pc: u64) {
    check!(
        pc < 0xffff_ffff_ff60_0000,
        "the program jumped to {pc:#x}: vsyscall is not supported"
    );
    check!(
        !locate::is_wild(pc) || signals::ends(context, SIGSEGV),
        "the program jumped to {pc:#x}, which is no address, and handles the fault of it: not supported"
    );
    context.native_pc = pc;
    context.resume = pc;
}

/// First code of a new image: sets everything up from what the launcher left.
#[unsafe(no_mangle)]
extern "C" fn rt_start(args: *const StartArgs) -> *mut Context {
    // SAFETY: the launcher wrote it before it let us run.
    let args = unsafe { *args };
    own_memory::provide(BOOT_STACK - 0x5000, BOOT_STACK);
    engine::provide();
    own_memory::set_low(args.low);
    totals::start(args.totals_fd, args.slot as u32);
    perf::know_file(args.totals_fd);
    // SAFETY: the launcher opened it for us.
    unsafe { sys::call(nr::CLOSE, [args.totals_fd, 0, 0, 0, 0, 0]) };
    check!(
        slots::header().magic == crate::layout::MAGIC,
        "the totals file is not one of ours"
    );
    let address_of_context = slots::context_at(args.slot as u32);
    // SAFETY: just mapped; ours alone.
    let context = unsafe { &mut *(address_of_context as *mut Context) };
    counts::init(args.slot as u32);
    context.this = address_of_context;
    collect::start(context);
    call_tree::init();
    allocations::init();
    references::init();
    shadow::init();
    rseq::start(args.sequences != 0);
    prepare(context, args.slot as u32);
    context.leader = args.slot as u32;
    perf::started(context);
    outside::start(args.sp, args.cache_fd);
    proc_maps::start();
    schedule::started(context);
    clock::init();
    own_memory::probe();
    let mut engine = engine::lock();
    engine.cache.init();
    engine.pages.init();
    signal_calls::init(context);
    cache_file::start(&mut engine, context, &args);
    engine.cache.begins(context, true);
    let Engine { cache, pages, .. } = &mut *engine;
    cache.watch(pages, args.watches, args.pc);
    context.regs = args.regs;
    context.regs[4] = args.sp;
    context.rflags = args.rflags;
    context.exit_kind = kind::GOTO;
    context.target = args.pc;
    call_tree::begin(context, args.pc);
    goto(&mut engine, context, args.pc, None, NONE);
    context.whole.store(0, Relaxed);
    report::started();
    context
}

const _: () = assert!(BOOT_STACK < RUNTIME_END);
const _: () = assert!(core::mem::offset_of!(Context, xmm) % 16 == 0);
