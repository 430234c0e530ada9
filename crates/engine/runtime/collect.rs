//! Which part of a run is counted: parts between client requests, what is executed inside chosen functions.
//!
//! *On and off.* With a counter for each block, translated code adds to words behind GS. A thread that is not counted
//! has GS at a region *aside*: its context is the same memory (mapped once more), its counters are others that nobody
//! reads. So nothing is translated anew, and switching costs a system call, however much code there is.
//!
//! *Marks.* Where a part ends, the counters of all threads of the process are copied into slots of their own
//! (`slot_state::MARK`). The launcher takes differences. So nobody's counters are ever set back while he counts.
//!
//! *Functions.* A chosen function's first block, and the blocks that its calls return to, begin with a question to the
//! runtime. A call is over where it returns with the stack pointer it had; one that was left otherwise (`longjmp`, an
//! exception) is over at the next chosen function that is entered above it. Of a recursion only the first call counts.

use crate::hooks::Hooks;
use crate::layout::{COUNTERS, Context, LOG, REGION, option, state as slot_state};
use crate::regions::{HOOKS, Hook, MAX_HOOKS, front, hook, mark};
use crate::slots::{self, slot};
use crate::syscall_table as nr;
use crate::xlate::references as ring;
use crate::{check, counts, own_memory, predictor, program_memory, recent, references, sys};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// Client requests are answered.
pub fn on() -> bool {
    slots::header().options & option::REQUESTS != 0
}

fn asked(bits: u32) -> bool {
    slots::header().front & bits != 0
}

/// The tool that requests are for.
pub fn is_callgrind() -> bool {
    asked(front::CALLGRIND)
}

/// See [`is_callgrind`].
pub fn is_cachegrind() -> bool {
    asked(front::CACHEGRIND)
}

/// The process counts at all (`--instr-atstart`, and the requests that start and stop it).
static COUNTING: AtomicBool = AtomicBool::new(true);
/// Marks so far.
static MARKS: AtomicU32 = AtomicU32::new(0);

/// Functions that were chosen, and the places that their calls return to.
static HOOKED: Hooks = Hooks::new();
/// Their numbers ([`Hook::actions`]).
static NUMBERS: Hooks = Hooks::new();

fn actions(pc: u64) -> u32 {
    HOOKED.at(pc) as u32
}

/// Whether the runtime is asked in front of the block at `pc`.
pub fn is_hook(pc: u64) -> bool {
    actions(pc) != 0
}

/// The chosen places of a range.
pub fn each_hook(start: u64, end: u64, f: impl FnMut(u64)) {
    HOOKED.each(start, end, f);
}

/// A new image: what its first thread begins with, and the functions that the launcher has found.
pub fn start(context: &mut Context) {
    if !on() {
        return;
    }
    COUNTING.store(!asked(front::INSTRUMENTATION_OFF), Relaxed);
    context.region.collects = u32::from(!asked(front::COLLECT_OFF));
    let table = (context.this + u64::from(HOOKS)) as *const Hook;
    // SAFETY: written by the launcher in front of the counters; zeros where it has written nothing.
    let table = unsafe { core::slice::from_raw_parts(table, MAX_HOOKS) };
    for each in table.iter().take_while(|each| each.address != 0) {
        HOOKED.add(each.address, u64::from(each.actions as u32));
        // Of several names of one place, the first.
        if NUMBERS.at(each.address) == 0 {
            NUMBERS.add(each.address, each.actions >> 32);
        }
    }
}

/// What a child begins with: a thread as the first one did, a process as it was forked.
pub fn describe(context: &Context, child: &mut Context, is_thread: bool) {
    if !on() {
        return;
    }
    child.region.collects = match is_thread {
        true => u32::from(!asked(front::COLLECT_OFF)),
        false => context.region.collects,
    };
    if !is_thread {
        (child.region.inside, child.region.depth) = (context.region.inside, context.region.depth);
        child.region.native = context.region.native;
    }
}

/// A thread begins, with GS at its context.
pub fn begins(context: &mut Context) {
    (context.region.counts_at, context.region.aside) = (context.this, 0);
    follow(context);
}

/// A thread is about to end.
pub fn ends(context: &mut Context) {
    if context.region.aside != 0 {
        set_gs(context, context.this);
        own_memory::give_back(context.region.aside, REGION);
        context.region.aside = 0;
    }
}

fn set_gs(context: &mut Context, at: u64) {
    // SAFETY: GS is the engine's; the context is there, too (ARCH_SET_GS).
    let result = unsafe { sys::call(nr::ARCH_PRCTL, [0x1001, at, 0, 0, 0, 0]) };
    check!(result == 0, "GS cannot be set (errno {})", -result);
    context.region.counts_at = at;
}

/// Counts from here on as was asked for.
pub fn follow(context: &mut Context) {
    if !on() || !counts::per_block() {
        return;
    }
    note(context);
    let counts = is_collecting(context) && COUNTING.load(Relaxed);
    if counts == collects(context) {
        return;
    }
    if !counts && context.region.aside == 0 {
        context.region.aside = make_aside(context);
    }
    let at = if counts {
        context.this
    } else {
        context.region.aside
    };
    set_gs(context, at);
}

/// As requests and functions have it; what a request calls is nobody's.
fn is_collecting(context: &Context) -> bool {
    context.region.collects != 0 && context.region.native == 0
}

/// Says in the thread's ring of references what is counted of it from here on.
fn note(context: &mut Context) {
    if !references::on() {
        return;
    }
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let part = u64::from(part(context));
    let state = ring::MARK
        | bit(COUNTING.load(Relaxed), ring::COUNTS)
        | bit(is_collecting(context), ring::COLLECTS)
        | part << ring::PART;
    if context.region.noted != state {
        context.region.noted = state;
        recent::forget_all(context);
        references::mark(context, state);
        // (A model goes on where nothing is collected, as Callgrind's simulation does, if that is little to tell.)
        let needed = match recent::on() {
            true => ring::COUNTS,
            false => ring::COUNTS | ring::COLLECTS,
        };
        let idle = state & needed != needed;
        predictor::idle(context, idle);
        references::idle(context, idle);
    }
}

/// Whether what the thread executes is counted.
pub fn collects(context: &Context) -> bool {
    context.region.counts_at == context.this
}

/// Number of the mark behind which the part is that the thread is in; 0: none was made.
pub fn part(context: &Context) -> u32 {
    match asked(front::THREADS_APART) {
        true => context.region.part,
        false => MARKS.load(Relaxed),
    }
}

/// In a child made by `fork`: its profile begins.
pub fn forked() {
    MARKS.store(0, Relaxed);
}

/// A region with the same context and log as the thread's, and other counters.
fn make_aside(context: &Context) -> u64 {
    let at = own_memory::reserve(REGION);
    for (start, end) in [(0, u64::from(COUNTERS)), (LOG, REGION)] {
        // A length of 0 maps the same memory once more; MREMAP_MAYMOVE|FIXED.
        let call = [context.this + start, 0, end - start, 3, at + start, 0];
        // SAFETY: over memory just reserved.
        let got = unsafe { sys::call(nr::MREMAP, call) };
        check!(
            got == (at + start) as i64,
            "counters cannot be mapped aside (errno {})",
            -got
        );
    }
    at
}

fn set_collecting(context: &mut Context, collects: bool) {
    if collects && context.region.collects == 0 {
        context.region.entered += 1;
    }
    context.region.collects = u32::from(collects);
}

/// Collecting is switched over, in this thread.
pub fn toggle(context: &mut Context) {
    let collects = context.region.collects == 0;
    set_collecting(context, collects);
}

/// The process counts from here on, or does not; its other threads follow when they come to the runtime next.
pub fn count(on: bool) {
    COUNTING.store(on, Relaxed);
}

/// A part ends here. `name`: what ended it.
pub fn mark(context: &mut Context, kind: u32, name: &[u8]) {
    mark_at(context, kind, name, 0);
}

/// A part ends at a chosen function: copies the counters of every thread of this process, or of this one.
fn mark_at(context: &mut Context, kind: u32, name: &[u8], function: u64) {
    if !counts::per_block() {
        return;
    }
    let apart = asked(front::THREADS_APART);
    let own = slots::slot_of(context);
    let number = MARKS.fetch_add(1, Relaxed) + 1;
    let made = Made {
        number,
        by: own,
        kind,
        at: NUMBERS.at(function) as u32,
    };
    let end = slots::header().next_slot.load(Acquire);
    for thread in (1..end).map(slot) {
        let status = thread.state().load(Acquire);
        if thread.leader() != context.leader
            || apart && thread.number() != own
            || matches!(
                status,
                slot_state::FREE | slot_state::LOG | slot_state::MARK
            )
        {
            continue;
        }
        copy(thread, made, name);
    }
    context.region.part = number;
}

/// A mark: see `Region::mark` and what follows it.
#[derive(Clone, Copy)]
struct Made {
    number: u32,
    by: u32,
    kind: u32,
    at: u32,
}

fn copy(thread: slots::Slot, made: Made, name: &[u8]) {
    let to = slots::new_slot();
    let (from, into) = (slots::context_at(thread.number()), slots::context_at(to));
    let bytes = u64::from(counts::used()) * 8;
    let text = name.get(..name.len().min(mark::MAX_NAME)).unwrap_or(&[]);
    // SAFETY: both regions are ours and as long as there are counters; the slot is nobody's yet.
    unsafe {
        core::ptr::copy_nonoverlapping(
            (from + u64::from(COUNTERS)) as *const u8,
            (into + u64::from(COUNTERS)) as *mut u8,
            bytes as usize,
        );
        core::ptr::copy_nonoverlapping(text.as_ptr(), (into + LOG) as *mut u8, text.len());
        let copied = &mut *(into as *mut Context);
        copied.leader = thread.leader();
        copied.space = thread.space();
        copied.region.mark = made.number;
        copied.region.mark_of = thread.number();
        copied.region.mark_by = made.by;
        copied.region.mark_kind = made.kind;
        copied.region.mark_at = made.at;
    }
    slot(to).log_len().store(text.len() as u32, Relaxed);
    slot(to).state().store(slot_state::MARK, Release);
}

/// In front of the block at `Context::pc`, which has a hook. Returns an address that has one from now on.
pub fn hooked(context: &mut Context) -> Option<u64> {
    let (pc, sp) = (context.pc, context.regs[4]);
    let actions = actions(pc);
    if actions & hook::RETURN != 0 {
        // The address that was returned to has been taken from the stack.
        let ended = |region: &[u64; 3]| region[1] == pc && region[2].wrapping_add(8) == sp;
        let regions = context.region.inside.get(..context.region.depth as usize);
        if let Some(at) = regions.and_then(|regions| regions.iter().rposition(ended)) {
            while context.region.depth as usize > at {
                leave(context);
            }
        }
    }
    if actions & hook::START != 0 {
        set_collecting(context, true);
    } else if actions & hook::STOP != 0 {
        set_collecting(context, false);
    }
    match actions & !(hook::RETURN | hook::START | hook::STOP) {
        0 => None,
        actions => enter(context, actions, pc, sp),
    }
}

/// Frames so far below the stack pointer are not gone: they are on another stack.
const SAME_STACK: u64 = 8 << 20;

fn enter(context: &mut Context, actions: u32, pc: u64, sp: u64) -> Option<u64> {
    let mut back = [0u8; 8];
    let back = match program_memory::read_bytes(&mut back, sp) {
        true => u64::from_le_bytes(back),
        false => 0,
    };
    // Calls that were left without a return.
    while let Some(&[function, to, at]) = top(context) {
        if (function, to, at) == (pc, back, sp) {
            return None; // asked again, after a signal
        }
        if at > sp || sp - at > SAME_STACK {
            break;
        }
        leave(context);
    }
    let regions = context.region.inside.get(..context.region.depth as usize);
    if regions.is_some_and(|regions| regions.iter().any(|region| region[0] == pc)) {
        return None;
    }
    if actions & hook::DUMP_BEFORE != 0 {
        mark_at(context, mark::DUMP, b"--dump-before=", pc);
    } else if actions & hook::ZERO_BEFORE != 0 {
        mark_at(context, mark::ZERO, b"--zero-before=", pc);
    }
    let depth = context.region.depth as usize;
    let place = context.region.inside.get_mut(depth)?;
    *place = [pc, back, sp];
    context.region.depth += 1;
    if actions & hook::TOGGLE != 0 {
        toggle(context);
    }
    HOOKED.add(back, hook::RETURN.into()).then_some(back)
}

fn top(context: &Context) -> Option<&[u64; 3]> {
    let last = context.region.depth.checked_sub(1)?;
    context.region.inside.get(last as usize)
}

fn leave(context: &mut Context) {
    let Some(&[function, ..]) = top(context) else {
        return;
    };
    context.region.depth -= 1;
    let actions = actions(function);
    if actions & hook::DUMP_AFTER != 0 {
        mark_at(context, mark::DUMP, b"--dump-after=", function);
    }
    if actions & hook::TOGGLE != 0 {
        toggle(context);
    }
}
