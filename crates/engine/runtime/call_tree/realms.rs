//! Parts of a profile, and what is not collected: each has a root of its own below the thread's, so that a path has a
//! node in each. Where a thread comes from one to the other, its whole stack goes along.
//!
//! A call that is on the stack counts in the first part that it is collected in. Without collecting, a node's `calls`
//! say whether what is on the stack has been counted since (a path is on a stack once): they are of no other use.
//!
//! What is called without being collected has one node, the *flat* one: nobody asks for its paths, and there may be
//! millions of them before collecting begins. Who is on the stack then is known by where the calls return to.

use super::nodes::Room;
use super::{INDEX, called, child, copied, go_to, on, set_routines, site};
use crate::calls::{Frame, Node, kind as node_kind};
use crate::entry::kind;
use crate::layout::Context;
use crate::{collect, functions};
use core::mem::size_of;

/// Not collected.
const OFF: u64 = 0;
/// The first part: the thread's own root.
const FIRST_PART: u64 = 1;

/// What tells roots below a thread's from its functions.
const SITE_OFF: u64 = 1;
const SITE_PART: u64 = 2;
const SITE_FLAT: u64 = 4;

/// The flat node, for a thread that does not collect.
pub fn flat(context: &Context) -> Option<u64> {
    let calls = &context.calls;
    (calls.realm == OFF && calls.flat != 0).then_some(calls.flat)
}

/// Whether a node is a flat one.
pub fn is_flat(node: &Node) -> bool {
    node.kind == node_kind::OTHER && node.site == SITE_FLAT
}

/// Makes the flat node below the root of what is not collected.
fn make_flat(context: &mut Context, root: u64) {
    let made = INDEX
        .lock()
        .child(root, 0, SITE_FLAT, node_kind::OTHER, Room::Always);
    if let Some(flat) = made {
        // Wherever it jumps to, that is its own.
        // SAFETY: a node of this thread's.
        unsafe { ((*(flat as *mut Node)).start, (*(flat as *mut Node)).len) = (0, u64::MAX) };
        context.calls.flat = flat;
    }
}

/// Goes to where the thread collects now.
pub fn follow(context: &mut Context) {
    if !on() || context.calls.node == 0 || !collect::on() {
        return;
    }
    let wanted = match collect::collects(context) {
        true => FIRST_PART + u64::from(collect::part(context)),
        false => OFF,
    };
    if wanted != context.calls.realm {
        change(context, wanted);
    }
}

fn change(context: &mut Context, wanted: u64) {
    let thread = context.calls.thread;
    let root = match wanted {
        FIRST_PART => Some(thread),
        OFF => {
            let kind = node_kind::OFF;
            INDEX.lock().child(thread, 0, SITE_OFF, kind, Room::Always)
        }
        part => {
            let (part, kind) = (part - FIRST_PART, node_kind::PART);
            INDEX
                .lock()
                .child(thread, part, SITE_PART, kind, Room::Always)
        }
    };
    let Some(root) = root else {
        return;
    };
    let (before, old_root) = (context.calls.realm, context.calls.root);
    context.calls.realm = wanted;
    context.calls.root = root;
    if wanted == OFF && context.calls.flat == 0 {
        make_flat(context, root);
    }
    set_routines(context, wanted == OFF && context.calls.flat != 0);
    let frames = (context.calls.top - context.calls.bottom) / size_of::<Frame>() as u64;
    let first = context.calls.bottom as *mut Frame;
    let mut last = (old_root, root);
    for at in 0..frames as usize {
        // SAFETY: a frame of this thread's.
        let frame = unsafe { &mut *first.add(at) };
        let old = frame.node;
        if before == OFF && at > 0 && frame.back != 0 && is_unknown(old) {
            // SAFETY: the frame below is there; that above is looked at where there is one.
            let (outer, inner) = unsafe {
                let inner = (at + 1 < frames as usize).then(|| *first.add(at + 1));
                (*first.add(at - 1), inner)
            };
            // A signal's handler is above what it interrupted, whose address is kept in place of the stack pointer.
            let place = match inner {
                Some(inner) if inner.back == 0 => frame.sp,
                _ => frame.back.wrapping_sub(1),
            };
            frame.node = entered(context, last.1, place, outer.back);
            last = (old, frame.node);
            continue;
        }
        frame.node = copied(context, old, last, 0);
        last = (old, frame.node);
        if old != old_root {
            count(before, wanted, last);
        }
    }
    let old = context.calls.node;
    if before == OFF && is_unknown(old) {
        let place = match context.exit_kind {
            kind::CALL | kind::RETURN | kind::JUMP => context.target,
            _ => context.pc,
        };
        // SAFETY: there is always the lowest frame.
        let back = unsafe { (*first.add(frames as usize - 1)).back };
        let node = entered(context, last.1, place, back);
        go_to(context, node);
        return;
    }
    let node = copied(context, old, last, 0);
    if old != old_root {
        count(before, wanted, (old, node));
    }
    go_to(context, node);
}

/// Whether the node says nothing of the function that is executed there.
fn is_unknown(node: u64) -> bool {
    // SAFETY: a node.
    let node = unsafe { &*(node as *const Node) };
    is_flat(node)
        || matches!(
            node.kind,
            node_kind::THREAD | node_kind::OFF | node_kind::PART
        )
}

/// The function that `place` is in, called below `parent` while nothing was collected: it counts now.
fn entered(context: &mut Context, parent: u64, place: u64, back: u64) -> u64 {
    let found = functions::find(place);
    let function = match found.len {
        0 => place,
        _ => found.start,
    };
    let site = if back > 1 { site(back) } else { 0 };
    let node = child(context, parent, function, site, node_kind::CALL);
    called(node);
    node
}

/// See the module's description. `nodes`: the one that is left, and the one of the same path that is gone to.
fn count(before: u64, wanted: u64, nodes: (u64, u64)) {
    let (left, next) = (nodes.0 as *mut Node, nodes.1 as *mut Node);
    // SAFETY: nodes of this thread's.
    unsafe {
        if (*next).kind == node_kind::OTHER {
            return;
        }
        if before == OFF {
            (*next).calls += u64::from((*left).calls != 0);
            (*left).calls = 0;
        } else if wanted == OFF {
            (*next).calls = 0;
        }
    }
}
