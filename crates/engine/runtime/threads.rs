//! New threads and processes. A child that shares memory starts on its own
//! context and runtime stack; a forked one takes over a new counting slot.

use crate::engine::Engine;
use crate::layout::Context;
use crate::program_memory;
use crate::slots::{self, STACK};
use crate::syscall_table as nr;
use crate::{
    action, call_tree, collect, counts, engine, entry, filtered, functions, known, outside, perf,
    pids, schedule, sys,
};
use core::mem::size_of;
use core::sync::atomic::Ordering::*;

const CLONE_VM: u64 = 0x100;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_NEWPID: u64 = 0x2000_0000;
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;
const SIGCHLD: u64 = 17;
const ALL: u64 = u64::MAX;
const E2BIG: i64 = 7;

/// Linux `struct clone_args` (include/uapi/linux/sched.h), first version and
/// the two fields added since.
#[repr(C)]
#[derive(Clone, Copy, Default)]
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

// SAFETY: words.
unsafe impl program_memory::Plain for CloneArgs {}

/// A call that makes a child, as the program made it.
struct Call {
    number: u64,
    arguments: [u64; 6],
    flags: u64,
    /// The child's stack pointer; 0: the parent's.
    program_stack: u64,
    /// Of clone3.
    args3: CloneArgs,
}

impl Call {
    /// `Err`: the call's result.
    fn new(number: u64, a: [u64; 6]) -> Result<Self, i64> {
        let mut args3 = CloneArgs::default();
        let (flags, program_stack) = match number {
            nr::FORK => (SIGCHLD, 0),
            nr::VFORK => (CLONE_VM | CLONE_VFORK | SIGCHLD, 0),
            nr::CLONE => (a[0], a[1]),
            _ if a[1] < 64 => {
                // SAFETY: an invalid size makes no child; the kernel says so.
                return Err(unsafe { sys::call(nr::CLONE3, a) });
            }
            // Larger than we know.
            _ if a[1] > size_of::<CloneArgs>() as u64 => return Err(-E2BIG),
            _ => {
                let mut bytes = [0u8; size_of::<CloneArgs>()];
                let given = bytes.get_mut(..a[1] as usize).unwrap_or(&mut []);
                if !program_memory::read_bytes(given, a[0]) {
                    return Err(-sys::EFAULT);
                }
                // SAFETY: as many bytes as the structure has, which is words.
                args3 = unsafe { bytes.as_ptr().cast::<CloneArgs>().read_unaligned() };
                let stack = match args3.stack {
                    0 => 0,
                    base => base.wrapping_add(args3.stack_size),
                };
                (args3.flags | args3.exit_signal & 0xff, stack)
            }
        };
        Ok(Self {
            number,
            arguments: a,
            flags,
            program_stack,
            args3,
        })
    }

    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Where the child's number is written, if anywhere.
    fn child_tid(&self) -> u64 {
        match self.number {
            nr::CLONE => self.arguments[3],
            nr::CLONE3 => self.args3.child_tid,
            _ => 0,
        }
    }

    fn shares_memory(&self) -> bool {
        self.has(CLONE_VM)
    }

    /// Makes the child with the next number; `None`: the kernel chooses one.
    fn make_numbered(&self, child: &Context) -> Option<i64> {
        const EEXIST: i64 = 17;
        const EINVAL: i64 = 22;
        const CLONE_PIDFD: u64 = 0x1000;
        const CLONE_DETACHED: u64 = 0x40_0000;
        if self.has(CLONE_NEWPID) || self.args3.set_tid_size != 0 {
            pids::give_up();
            return None;
        }
        let a = self.arguments;
        let mut args = match self.number {
            nr::CLONE3 => self.args3,
            _ => CloneArgs {
                flags: self.flags & !(0xff | CLONE_DETACHED),
                exit_signal: self.flags & 0xff,
                ..CloneArgs::default()
            },
        };
        if self.number == nr::CLONE {
            (args.parent_tid, args.child_tid, args.tls) = (a[2], a[3], a[4]);
            args.pidfd = if self.has(CLONE_PIDFD) { a[2] } else { 0 };
        }
        (args.stack, args.stack_size) = match self.shares_memory() {
            true => (child.stack - STACK, STACK - 16),
            false => (0, 0),
        };
        loop {
            let number = pids::next()?;
            (args.set_tid, args.set_tid_size) = (&raw const number as u64, 1);
            let at = &raw const args as u64;
            let size = size_of::<CloneArgs>() as u64;
            // SAFETY: as the program made the call, but for the number, and the stack, which is ours.
            let result = unsafe { entry::rt_clone(nr::CLONE3, at, size, 0, 0, 0, child.this) };
            core::hint::black_box(&number);
            match -result {
                EEXIST => outside::number_taken(),
                sys::EPERM | sys::ENOSYS | EINVAL | E2BIG => {
                    pids::give_up();
                    return None;
                }
                _ => return Some(result),
            }
        }
    }

    /// Makes the child; the parent's result.
    fn make(&mut self, child: &Context) -> i64 {
        if let Some(result) = pids::given().then(|| self.make_numbered(child)).flatten() {
            return result;
        }
        let shares_memory = self.shares_memory();
        let a = self.arguments;
        if self.number == nr::CLONE3 {
            (self.args3.stack, self.args3.stack_size) = match shares_memory {
                true => (child.stack - STACK, STACK - 16),
                false => (0, 0),
            };
            let args3 = &raw const self.args3 as u64;
            // SAFETY: as the program made the call, except for the stack, which is ours.
            return unsafe { entry::rt_clone(nr::CLONE3, args3, a[1], 0, 0, 0, child.this) };
        }
        let stack = if shares_memory { child.stack - 16 } else { 0 };
        // As clone(2): flags, stack, parent_tid, child_tid, tls.
        let rest = if self.number == nr::CLONE {
            [a[2], a[3], a[4]]
        } else {
            [0; 3]
        };
        // SAFETY: as above.
        unsafe {
            entry::rt_clone(
                nr::CLONE,
                self.flags,
                stack,
                rest[0],
                rest[1],
                rest[2],
                child.this,
            )
        }
    }
}

/// A thread is about to end: its stack can be taken once it is gone. (That of a process which shares
/// its parent's memory is the parent's to give away.)
pub fn leave(context: &mut Context) {
    collect::ends(context);
    engine::lock().cache.ends(slots::slot_of(context));
    if context.leader != slots::slot_of(context) {
        let mut engine = engine::lock();
        engine.stacks.leave(context.stack, context.pid, context.tid);
    }
}

/// fork, vfork, clone, clone3.
pub fn clone(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    let mut call = match Call::new(number, a) {
        Ok(call) => call,
        Err(result) => return result,
    };
    let slot = slots::new_slot();
    // SAFETY: the slot is ours alone until the child runs.
    let child = unsafe { &mut *(slots::context_at(slot) as *mut Context) };
    // From here to the child's own GS no signal may come.
    let old_mask = sys::set_mask(ALL & !filtered::open());
    let deferred = context.pending != 0;
    let mask = if deferred {
        context.pending_mask
    } else {
        old_mask
    };
    describe(context, child, slot, &call, mask);
    let turn = schedule::announces(context, child, slot, call.flags, call.child_tid());
    perf::cloned(context, slot, call.has(CLONE_THREAD));
    if !call.shares_memory() {
        let mut engine = engine::lock();
        let Engine { cache, pages, .. } = &mut *engine;
        pages.has_children(cache);
    }
    // The child's copies of the locks must not be held by threads it lacks.
    let held = (!call.shares_memory()).then(|| {
        let counts = (engine::lock(), counts::lock());
        (counts, call_tree::lock(), functions::lock())
    });
    if call.shares_memory() {
        // From now on nothing that it may come to is given away (`Cache::is_alone`).
        engine::lock().cache.begins(child, false);
        if !call.has(CLONE_VFORK) {
            known::shares();
        }
    }
    let result = call.make(child);
    drop(held);
    if result > 0 && !call.has(CLONE_NEWPID) && child.tid == 0 {
        // An event of it may be opened before it comes round to saying so itself, and it may be ended before: its
        // slot is given back only if it is known whose it was.
        child.pid = if call.has(CLONE_THREAD) {
            context.pid
        } else {
            result as u32
        };
        child.tid = result as u32;
    }
    child.unborn.store(0, Release);
    if result < 0 {
        perf::not_cloned(slot);
    }
    if call.shares_memory() {
        let mut engine = engine::lock();
        if call.has(CLONE_NEWPID)
            || result > 0 && call.has(CLONE_VFORK) && child.tid != result as u32
        {
            engine.stacks.met_strangers();
        }
        if result < 0 || call.has(CLONE_VFORK) {
            // There is no child, or it has its own image now, or is gone.
            engine.cache.ends(slot);
            engine.stacks.give_back(child.stack);
        } else if !call.has(CLONE_THREAD) {
            let process = result as u32;
            engine.stacks.leave(child.stack, process, process);
        }
    }
    if result < 0 {
        slots::give_back(slot);
    }
    if !deferred && context.pending != 0 {
        // A filter trapped the call: all stay blocked until its handler can run.
        context.pending_mask = old_mask;
    } else {
        sys::set_mask(old_mask);
    }
    schedule::made(context, turn, call.flags, result);
    result
}

/// The child's context as it begins.
fn describe(context: &Context, child: &mut Context, slot: u32, call: &Call, mask: u64) {
    let shares_memory = call.shares_memory();
    child.unborn.store(1, Release);
    child.this = slots::context_at(slot);
    child.regs = context.regs;
    child.regs[0] = 0;
    if call.program_stack != 0 {
        child.regs[4] = call.program_stack;
    }
    child.rflags = context.rflags;
    child.xmm = context.xmm;
    child.pc = context.pc;
    child.target = context.pc;
    child.altstack = if shares_memory && !call.has(CLONE_VFORK) {
        [0, 2, 0]
    } else {
        context.altstack
    };
    child.virtual_mask = context.virtual_mask;
    child.actions = context.actions;
    if shares_memory && !call.has(CLONE_SIGHAND) {
        child.actions = action::copy_table(context.actions);
    }
    if !call.has(CLONE_THREAD) {
        call_tree::copy_frames(context, child);
    }
    child.start = [
        u64::from(!shares_memory),
        u64::from(call.has(CLONE_CLEAR_SIGHAND)),
        0,
        0,
    ];
    child.program_gs = context.program_gs;
    collect::describe(context, child, call.has(CLONE_THREAD));
    child.pending_mask = mask;
    child.name = context.name;
    child.leader = if call.has(CLONE_THREAD) {
        context.leader
    } else {
        slot
    };
    child.exit_kind = entry::kind::GOTO;
    child.stack = match shares_memory {
        true => engine::lock().stacks.take(),
        false => context.stack,
    };
}
