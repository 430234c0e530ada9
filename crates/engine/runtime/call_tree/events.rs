//! Events of the tree's nodes beside instructions (`Tree::events`): every thread has a running total of each, which goes
//! to the nodes as its count of instructions does.

use crate::block::Block;
use crate::cache::CALL_OFFSETS;
use crate::calls::{EVENTS, Node};
use crate::layout::Context;
use crate::slots;
use crate::xlate::block::CallOffsets;
use crate::xlate::block::MAX_INSNS;
use crate::xlate::facts::Facts;
use core::sync::atomic::Ordering::*;

/// What the translator is told.
pub fn offsets() -> CallOffsets {
    CallOffsets {
        events: slots::header().tree.events,
        ..CALL_OFFSETS
    }
}

/// What the thread counts beside instructions, for the node that it is in.
pub fn of(context: &Context) -> [u64; EVENTS] {
    let each = context.calls.events.each_ref();
    each.map(|event| event.load(Relaxed))
}

/// Adds to what the node has of the events beside instructions, or takes away.
///
/// # Safety
/// A node of this thread's.
pub unsafe fn add(node: *mut Node, events: [u64; EVENTS], with: impl Fn(u64, u64) -> u64) {
    if slots::header().tree.is_wide() {
        // SAFETY: they are behind the node.
        let own = unsafe { &mut *node.add(1).cast::<[u64; EVENTS]>() };
        for (own, event) in own.iter_mut().zip(events) {
            *own = with(*own, event);
        }
    }
}

/// The same as `counts::correct` for the events beside instructions; `facts` finds those of the block's.
pub fn correct(
    context: &Context,
    block: &Block,
    done: u16,
    counted: bool,
    facts: impl FnOnce(&Block) -> [Facts; MAX_INSNS],
) {
    let missing = match counted {
        true => usize::from(done)..usize::from(block.insns),
        false => 0..usize::from(done),
    };
    if missing.is_empty() || !slots::header().tree.is_wide() {
        return;
    }
    let facts = facts(block);
    let values = offsets().events_of(facts.get(missing).unwrap_or(&[]));
    for (event, value) in context.calls.events.iter().zip(values) {
        let value = i64::from(value) * if counted { -1 } else { 1 };
        event.fetch_add(value as u64, Relaxed);
    }
}
