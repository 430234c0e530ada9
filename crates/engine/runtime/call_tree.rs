//! The calling-context tree (`option::CALLS`; its form is in `calls`): what a thread executes goes to the path of
//! functions that it is on.
//!
//! Calls, returns and jumps come here where the routines of `call_routines` do not know the path yet, or where the
//! stack is not as a call or a return leaves it. Who is on the stack is decided by the stack pointer: frames below it
//! are gone, whatever took them away (`longjmp`, an exception), or kept for when their stack goes on (`stacks`).

mod events;
mod from_requests;
mod nodes;
mod realms;
mod stacks;

use crate::call_routines::{Routines, Wide, place, vectors};
use crate::calls::{CALL_CACHE, FIRST, FRAMES, Frame, Node, kind as node_kind};
use crate::entry::kind;
use crate::layout::{Context, option, state as slot_state};
use crate::lock::{Guard, Mutex};
use crate::slots::{self, slot};
use crate::{counts, functions, own_memory, program_memory, references};
use core::mem::size_of;
use core::sync::atomic::{AtomicU64, Ordering::*, compiler_fence};
use events::{add as add_events, of as events};
pub use events::{correct, offsets};
pub use from_requests::{calls, returns};
use nodes::{Index, Room};
pub use realms::follow;

static CACHE: AtomicU64 = AtomicU64::new(0);

/// There is a tree.
pub fn on() -> bool {
    counts::for_tree()
}

static INDEX: Mutex<Index> = Mutex::new(Index::new());

/// For a `fork`.
pub fn lock() -> Guard<'static, Index> {
    INDEX.lock()
}

/// Frees the lock in a child made by `fork`.
///
/// # Safety
/// The forking thread held it, and nothing of its guard is used in the child.
pub unsafe fn free_in_child() {
    // SAFETY: the caller's.
    unsafe { INDEX.free_in_child() }
}

/// A new image.
pub fn init() {
    if slots::header().options & option::CALLS == 0 {
        return;
    }
    counts::begin_tree();
    CACHE.store(own_memory::reserve(CALL_CACHE * 8), Relaxed);
    functions::init();
    INDEX.lock().grow(14);
}

/// The fixed fields of a context.
pub fn prepare(context: &mut Context) {
    if !on() {
        return;
    }
    context.calls.cache = CACHE.load(Relaxed);
    set_routines(context, false);
}

/// By which routines translated code notes calls, returns and jumps.
fn set_routines(context: &mut Context, off: bool) {
    let header = slots::header();
    let vectors = vectors(Routines {
        sites: header.options & option::SITES != 0,
        wide: match (header.tree.is_wide(), header.tree.is_widest()) {
            (false, _) => Wide::None,
            (true, false) => Wide::Few,
            (true, true) => Wide::All,
        },
        noted: header.options & option::REFERENCES != 0,
        off,
    });
    let calls = &mut context.calls;
    [calls.vector_call, calls.vector_return, calls.vector_jump] = vectors;
}

/// The node that a thread executes in.
fn node(context: &Context) -> &'static Node {
    // SAFETY: a node is never taken away; only its thread changes what is read here.
    unsafe { &*(context.calls.node as *const Node) }
}

/// The innermost frame.
fn top(context: &Context) -> Frame {
    // SAFETY: there is always the lowest one.
    unsafe { *((context.calls.top as *const Frame).sub(1)) }
}

/// The one below it.
fn below(context: &Context) -> Frame {
    // SAFETY: the caller knows that there is one.
    unsafe { *((context.calls.top as *const Frame).sub(2)) }
}

fn pop(context: &mut Context) {
    context.calls.top -= size_of::<Frame>() as u64;
}

/// What was executed so far goes to the node that is left, what comes to the next one. In this order, in which the routines
/// of `call_routines` do it, too: who reads the tree of a thread that was killed on the way can complete it.
fn go_to(context: &mut Context, next: u64) {
    let now = context.count.load(Relaxed);
    let left = context.calls.node as *mut Node;
    // SAFETY: nodes of this thread's.
    unsafe {
        (*left).own = (*left).own.wrapping_add(now);
        add_events(left, events(context), u64::wrapping_add);
        compiler_fence(SeqCst);
        context.calls.node = next;
        compiler_fence(SeqCst);
        let next = next as *mut Node;
        (*next).own = (*next).own.wrapping_sub(now);
        add_events(next, events(context), u64::wrapping_sub);
    }
    compiler_fence(SeqCst);
    references::node(context);
}

fn called(node: u64) {
    // SAFETY: a node of this thread's.
    unsafe { (*(node as *mut Node)).calls += 1 };
}

/// The node below `parent`; without collecting the flat one, whatever is called.
fn child(context: &mut Context, parent: u64, function: u64, site: u64, kind: u32) -> u64 {
    match realms::flat(context).filter(|_| kind == node_kind::CALL) {
        Some(flat) => flat,
        None => path(context, parent, function, site, kind),
    }
}

/// The node below `parent`; paths beyond the bound are one below it.
fn path(context: &mut Context, parent: u64, function: u64, site: u64, kind: u32) -> u64 {
    // SAFETY: a node.
    if unsafe { (*(parent as *const Node)).kind } == node_kind::OTHER {
        return parent;
    }
    let mut index = INDEX.lock();
    let root = context.calls.root;
    if kind == node_kind::OTHER {
        return index.other(parent, root);
    }
    if let Some(found) = index.child(parent, function, site, kind, Room::Paths) {
        if kind == node_kind::CALL {
            let cache = context.calls.cache as *mut u64;
            // SAFETY: a place of the table, which all threads write words to.
            unsafe {
                cache
                    .add(place(parent, function, site))
                    .write_volatile(found);
            };
        }
        return found;
    }
    index.other(parent, root)
}

/// A thread that begins at `pc`.
pub fn begin(context: &mut Context, pc: u64) {
    if !on() {
        return;
    }
    let number = slots::new_slot();
    slot(number).state().store(slot_state::LOG, Release);
    frames_in(context, number);
    root(context);
    realms::follow(context);
    let function = match functions::find(pc) {
        found if found.len != 0 => found.start,
        _ => pc,
    };
    let first = child(context, context.calls.root, function, 0, node_kind::CALL);
    called(first);
    go_to(context, first);
}

fn frames_in(context: &mut Context, number: u32) {
    let frames = slots::context_at(number) + FIRST;
    context.calls.bottom = frames;
    context.calls.top = frames + size_of::<Frame>() as u64;
    // Signals need two at a time.
    context.calls.end = frames + (FRAMES - 64) * size_of::<Frame>() as u64;
}

/// The topmost node of a thread, which is in it from now on.
fn root(context: &mut Context) {
    let root = Node {
        slot: slots::slot_of(context),
        kind: node_kind::THREAD,
        ..Node::default()
    };
    let root = INDEX.lock().make(root, Room::Always).unwrap_or(0);
    // SAFETY: just made.
    unsafe {
        (*(root as *mut Node)).own = context.count.load(Relaxed).wrapping_neg();
        add_events(root as *mut Node, events(context), u64::wrapping_sub);
    }
    context.calls.root = root;
    context.calls.thread = root;
    context.calls.realm = 1;
    context.calls.flat = 0;
    context.calls.node = root;
    let lowest = Frame {
        sp: u64::MAX,
        node: root,
        back: 1,
    };
    // SAFETY: the first place of the thread's frames.
    unsafe { *(context.calls.bottom as *mut Frame) = lowest };
}

/// For a child that begins where its parent is: its stack as the parent knows it now.
pub fn copy_frames(parent: &Context, child: &mut Context) {
    if !on() || parent.calls.node == 0 {
        return;
    }
    let number = slots::new_slot();
    slot(number).state().store(slot_state::LOG, Release);
    frames_in(child, number);
    let bytes = parent.calls.top - parent.calls.bottom;
    child.calls.top = child.calls.bottom + bytes;
    child.calls.node = parent.calls.node;
    child.calls.root = parent.calls.root;
    // SAFETY: both regions have room for as many.
    unsafe {
        core::ptr::copy_nonoverlapping(
            parent.calls.bottom as *const u8,
            child.calls.bottom as *mut u8,
            bytes as usize,
        );
    }
}

/// A thread or process that just began.
pub fn born(context: &mut Context, forked: bool) {
    if !on() {
        return;
    }
    if forked {
        // The nodes so far are the parent's.
        INDEX.lock().start_afresh();
    }
    if context.calls.node == 0 {
        begin(context, context.pc);
        return;
    }
    // The same path below a root of its own.
    let (old, old_root) = (context.calls.node, context.calls.root);
    let frames = (context.calls.top - context.calls.bottom) / size_of::<Frame>() as u64;
    let first = context.calls.bottom as *mut Frame;
    root(context);
    let mut last = (old_root, context.calls.root);
    for at in 1..frames as usize {
        // SAFETY: a frame of this thread's.
        let frame = unsafe { &mut *first.add(at) };
        last = (frame.node, copied(context, frame.node, last, 0));
        frame.node = last.1;
    }
    let node = copied(context, old, last, 0);
    go_to(context, node);
    realms::follow(context);
}

/// The node of this thread's tree for one of its parent's; `last` is another such pair.
fn copied(context: &mut Context, old: u64, last: (u64, u64), depth: u32) -> u64 {
    if old == last.0 {
        return last.1;
    }
    // SAFETY: nodes stay; the parent may add to it meanwhile, but not to what is read here.
    let node = unsafe { *(old as *const Node) };
    let is_root = matches!(
        node.kind,
        node_kind::THREAD | node_kind::OFF | node_kind::PART
    );
    if is_root || depth > 64 || realms::is_flat(&node) {
        return context.calls.root;
    }
    let parent = copied(context, node.parent, last, depth + 1);
    path(context, parent, node.function, node.site, node.kind)
}

/// What a routine did not know.
pub fn note(context: &mut Context) {
    let (sp, target) = (context.regs[4], context.target);
    match context.exit_kind {
        kind::CALL => call(context, sp, target),
        kind => {
            let before = top(context);
            unwind(context, |frame| frame < sp);
            if top(context).sp != sp {
                elsewhere(context, before, target);
            } else if kind == kind::RETURN {
                let node = top(context).node;
                pop(context);
                go_to(context, node);
            }
            arrive(context, target);
        }
    }
    context.resume = context.calls.resume;
}

/// A return or a jump without the stack pointer of a call: on another stack, perhaps. `before`: the innermost frame until
/// then.
fn elsewhere(context: &mut Context, before: Frame, target: u64) {
    /// A function may have pushed as much before it jumps to another one.
    const NEAR: u64 = 256;
    let sp = context.regs[4];
    if stacks::goes_on(context, sp, target) {
        return;
    }
    let found = functions::find(target);
    if !found.begins || found.stub {
        return;
    }
    if before.sp < sp {
        // Nothing that unwinds a stack goes to a function's beginning: below who began it.
        let site = site(before.back);
        let next = child(context, before.node, target, site, node_kind::CALL);
        called(next);
        go_to(context, next);
    } else if top(context).sp.wrapping_sub(sp) > NEAR {
        stacks::border(context);
    }
}

/// The return address is on the stack.
fn call(context: &mut Context, sp: u64, target: u64) {
    unwind(context, |frame| frame <= sp);
    let back = program_memory::read::<u64>(sp).unwrap_or(0).max(1);
    let site = site(back);
    let caller = context.calls.node;
    let next = child(context, caller, target, site, node_kind::CALL);
    called(next);
    push(
        context,
        Frame {
            sp,
            node: caller,
            back,
        },
    );
    go_to(context, next);
}

/// Notes a frame. One too many is not: its return is that of nobody, and its caller's cost goes to it.
fn push(context: &mut Context, frame: Frame) {
    if context.calls.top >= context.calls.end {
        context.calls.lost += 1;
        return;
    }
    // SAFETY: there is room.
    unsafe { *(context.calls.top as *mut Frame) = frame };
    context.calls.top += size_of::<Frame>() as u64;
}

/// Takes frames away that the stack pointer has left behind.
fn unwind(context: &mut Context, gone: impl Fn(u64) -> bool) {
    let sp = context.regs[4];
    let mut node = context.calls.node;
    let mut end = context.calls.top;
    while top(context).sp != u64::MAX {
        let frame = top(context);
        if frame.back == 0 {
            // A signal handler, left without `sigreturn` if the stack below it is the one in use.
            let [base, flags, size] = context.altstack;
            if frame.sp > sp || flags & 2 == 0 && sp.wrapping_sub(base) < size {
                break;
            }
            node = below(context).node;
            pop(context);
            pop(context);
            end = context.calls.top;
        } else if gone(frame.sp) {
            node = frame.node;
            pop(context);
        } else {
            break;
        }
    }
    if context.calls.top != end {
        stacks::left(context, end);
    }
    if node != context.calls.node {
        go_to(context, node);
    }
}

/// A branch that is no call leads to `target`: within the function, or to another one in its place.
fn arrive(context: &mut Context, target: u64) {
    let here = node(context);
    if target.wrapping_sub(here.start) < here.len || here.kind == node_kind::OTHER {
        return;
    }
    let found = functions::find(target);
    let from = functions::find(here.function);
    // A table's entry does not take the place of who jumps to it: where it leads to does.
    let parent = match found.stub {
        true => context.calls.node,
        false => top(context).node,
    };
    let site = site(top(context).back);
    if found.begins || !found.known && found.module != from.module {
        let next = child(context, parent, target, site, node_kind::CALL);
        called(next);
        go_to(context, next);
    } else if found.len != 0 && found.start != here.start {
        // In the middle of another function: a part of it that is elsewhere, one that goes on on a stack of its own, or
        // one whose call was not seen.
        let next = child(context, parent, found.start, site, node_kind::CALL);
        go_to(context, next);
    }
}

/// What tells call sites apart, if that is wanted: where a call returns to, also one in another's place.
fn site(back: u64) -> u64 {
    match slots::header().options & option::SITES {
        0 => 0,
        _ => back,
    }
}

/// A handler is about to be called; `sp` and `pc` are what it interrupts.
pub fn signal(context: &mut Context, handler: u64, sp: u64, pc: u64) {
    if !on() || context.calls.node == 0 {
        return;
    }
    unwind_to(context, sp);
    let room = context.calls.bottom + FRAMES * size_of::<Frame>() as u64;
    if context.calls.top + 2 * size_of::<Frame>() as u64 > room {
        context.calls.lost += 1;
        return;
    }
    let root = context.calls.root;
    let interrupted = Frame {
        sp: pc,
        node: context.calls.node,
        back: sp.max(1),
    };
    let lowest = Frame {
        sp,
        node: root,
        back: 0,
    };
    for frame in [interrupted, lowest] {
        // SAFETY: there is room.
        unsafe { *(context.calls.top as *mut Frame) = frame };
        context.calls.top += size_of::<Frame>() as u64;
    }
    let next = child(context, root, handler, 0, node_kind::SIGNAL);
    called(next);
    go_to(context, next);
}

/// Frames that a stack pointer has left behind, which is not (any more) in the context.
fn unwind_to(context: &mut Context, sp: u64) {
    let kept = core::mem::replace(&mut context.regs[4], sp);
    unwind(context, |frame| frame < sp);
    context.regs[4] = kept;
}

/// `rt_sigreturn`: the program goes on at `pc` with that stack pointer.
pub fn signal_is_over(context: &mut Context, sp: u64, pc: u64) {
    if !on() || context.calls.node == 0 {
        return;
    }
    let frames = (context.calls.top - context.calls.bottom) / size_of::<Frame>() as u64;
    for at in (2..frames as usize).rev().take(65_536) {
        // SAFETY: frames of this thread's.
        let (below, frame) = unsafe {
            let first = context.calls.bottom as *const Frame;
            (*first.add(at - 1), *first.add(at))
        };
        if frame.back == 0 && below.back == sp {
            context.calls.top = context.calls.bottom + (at as u64 - 1) * size_of::<Frame>() as u64;
            go_to(context, below.node);
            if below.sp != pc {
                arrive(context, pc);
            }
            return;
        }
        if frame.back == 0 && frame.sp == sp {
            break;
        }
    }
    unwind_to(context, sp);
    arrive(context, pc);
}
