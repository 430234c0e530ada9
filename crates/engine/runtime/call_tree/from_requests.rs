//! What client requests do with the tree: a function is called by no instruction, and callers are asked for.

use super::{call, on};
use crate::calls::Frame;
use crate::layout::Context;
use core::mem::size_of;

/// A function is about to be called that no instruction calls, its return address at `sp`.
pub fn calls(context: &mut Context, sp: u64, function: u64) {
    if on() && context.calls.node != 0 {
        call(context, sp, function);
    }
}

/// Where the calls that the thread is in return to, the innermost first; none behind a signal handler.
pub fn returns(context: &Context) -> impl Iterator<Item = u64> {
    let frames = match on() && context.calls.node != 0 {
        true => (context.calls.top - context.calls.bottom) / size_of::<Frame>() as u64,
        false => 0,
    };
    let first = context.calls.bottom as *const Frame;
    // SAFETY: frames of this thread's; the lowest one is nobody's.
    let frames = (1..frames as usize)
        .rev()
        .map(move |at| unsafe { *first.add(at) });
    frames.map(|frame| frame.back).take_while(|&back| back > 1)
}
