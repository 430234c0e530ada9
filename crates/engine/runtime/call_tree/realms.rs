//! Parts of a profile, and what is not collected: each has a root of its own below the thread's, so that a path has a
//! node in each. Where a thread comes from one to the other, its whole stack goes along.
//!
//! A call that is on the stack counts in the first part that it is collected in. Without collecting, a node's `calls`
//! say whether what is on the stack has been counted since (a path is on a stack once): they are of no other use.

use super::nodes::Room;
use super::{INDEX, copied, go_to, on};
use crate::calls::{Frame, Node, kind as node_kind};
use crate::collect;
use crate::layout::Context;
use core::mem::size_of;

/// Not collected.
const OFF: u64 = 0;
/// The first part: the thread's own root.
const FIRST_PART: u64 = 1;

/// What tells roots below a thread's from its functions.
const SITE_OFF: u64 = 1;
const SITE_PART: u64 = 2;

/// Goes to where the thread collects now.
pub fn follow(context: &mut Context) {
    if !on() || context.calls.node == 0 || !collect::on() {
        return;
    }
    let wanted = match collect::collects(context) {
        true => FIRST_PART + u64::from(collect::marks()),
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
    let frames = (context.calls.top - context.calls.bottom) / size_of::<Frame>() as u64;
    let first = context.calls.bottom as *mut Frame;
    let mut last = (old_root, root);
    for at in 0..frames as usize {
        // SAFETY: a frame of this thread's.
        let frame = unsafe { &mut *first.add(at) };
        let old = frame.node;
        frame.node = copied(context, old, last, 0);
        last = (old, frame.node);
        if old != old_root {
            count(before, wanted, last);
        }
    }
    let old = context.calls.node;
    let node = copied(context, old, last, 0);
    if old != old_root {
        count(before, wanted, (old, node));
    }
    go_to(context, node);
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
