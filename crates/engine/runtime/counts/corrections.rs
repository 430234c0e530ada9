//! What was counted of instructions that were not executed, or not counted of others: with counters that no code counts.

use super::{LOG_STATE, add, facts, for_tree, found, in_total, per_block};
use crate::block::Block;
use crate::call_tree;
use crate::layout::Context;
use crate::log;
use crate::xlate::block::{Branch, Part};
use core::sync::atomic::Ordering::Relaxed;

/// Makes the count exact for a thread that left `block` after `done` instructions;
/// `counted`: the whole block has been counted already.
pub fn correct(context: &Context, block: &Block, done: u16, counted: bool) {
    if context.probing != 0 {
        return;
    }
    if !per_block() {
        let correction = match counted {
            true => i64::from(done) - i64::from(block.insns),
            false => i64::from(block.pending) + i64::from(done),
        };
        context.count.fetch_add(correction as u64, Relaxed);
        return;
    }
    if in_total() {
        let missing = match counted {
            true => i64::from(done) - i64::from(block.insns),
            false => i64::from(done),
        };
        context.count.fetch_add(missing as u64, Relaxed);
    }
    if for_tree() {
        call_tree::correct(context, block, done, counted, facts);
    }
    if counted {
        add(context, block.counter, u64::MAX);
    }
    if done != 0 {
        let beginning = Part {
            from: 0,
            to: done as u8,
            add: true,
            branch: Branch::None,
        };
        add(context, counter_of(block, beginning), 1);
    }
}

/// Code counts how often branches are predicted wrongly (`Builder::mispredicted`).
pub fn counts_mispredicted() -> bool {
    per_block() && !for_tree()
}

/// Branch `done` of a block was not executed, and had been counted as predicted wrongly.
pub fn was_predicted(context: &Context, block: &Block, done: u16) {
    let branch = Branch::Mispredicted(done as u8);
    add(
        context,
        counter_of(block, Part::of_branch(branch)),
        u64::MAX,
    );
}

/// The counter for a part of a block that no code counts.
fn counter_of(block: &Block, part: Part) -> u32 {
    let mut log = LOG_STATE.lock();
    let at = (block.counter as usize)
        .wrapping_mul(31)
        .wrapping_add(usize::from(part.to))
        & 255;
    if let Some(&(of, known, number)) = log.parts.get(at)
        && (of, known) == (block.counter, part)
    {
        return number;
    }
    let number = log.take();
    let facts = found(&log, block);
    let words = log::write_part(number, block.counter, part, &facts);
    log.append(&words);
    if let Some(place) = log.parts.get_mut(at) {
        *place = (block.counter, part, number);
    }
    number
}
