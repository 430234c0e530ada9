//! Several stacks in a thread (`swapcontext`, coroutines, goroutines): what is on each belongs to its own path.
//!
//! A thread's frames lie in the order of the stack pointer, whatever stacks they are on. Those that it leaves behind are
//! kept for a while by where they go on: the stack pointer, and the address that the innermost call returns to. Where a
//! return or a jump finds itself there, a stack that was left goes on, in this thread or in another one, and its frames
//! are back. What an exception left is never found again, and makes room in the end.

use super::{INDEX, copied, go_to, pop, top};
use crate::calls::Frame;
use crate::layout::Context;
use crate::own_memory;
use core::mem::size_of;

/// A stack that was left.
#[repr(C)]
#[derive(Clone, Copy)]
struct Left {
    /// Its innermost frame.
    innermost: Frame,
    /// Above its paths.
    root: u64,
    /// Place of its other frames among all that were ever kept …
    first: u64,
    /// … and how many.
    count: u64,
}

/// Stacks, and frames of them all, that are kept; of one stack the innermost ones.
const STACKS: u64 = 1 << 14;
const KEPT: u64 = 1 << 18;
const MOST: u64 = 4096;
/// Frames that are further apart are on two stacks.
const APART: u64 = 64 << 10;

/// The stacks of the process that were left.
pub struct Stacks {
    table: u64,
    frames: u64,
    next: u64,
}

impl Stacks {
    pub const fn new() -> Self {
        Self {
            table: 0,
            frames: 0,
            next: 0,
        }
    }

    /// The place for a stack that goes on with this stack pointer.
    fn place(&self, sp: u64) -> *mut Left {
        let number = (sp >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
        (self.table as *mut Left).wrapping_add(number as usize)
    }

    fn frame(&self, number: u64) -> *mut Frame {
        (self.frames as *mut Frame).wrapping_add((number % KEPT) as usize)
    }

    /// Keeps frames, the innermost last.
    fn keep(&mut self, frames: &[Frame], root: u64) {
        let Some((&innermost, others)) = frames.split_last() else {
            return;
        };
        if self.table == 0 {
            self.table = own_memory::reserve(STACKS * size_of::<Left>() as u64);
            self.frames = own_memory::reserve(KEPT * size_of::<Frame>() as u64);
        }
        let most = others.len().min(MOST as usize);
        let others = others.get(others.len() - most..).unwrap_or(&[]);
        let first = self.next;
        self.next += others.len() as u64;
        for (number, &frame) in (first..).zip(others) {
            // SAFETY: a place of ours; the lock is held.
            unsafe { *self.frame(number) = frame };
        }
        let left = Left {
            innermost,
            root,
            first,
            count: others.len() as u64,
        };
        // SAFETY: as above.
        unsafe { *self.place(innermost.sp) = left };
    }

    /// The stack that goes on here, which is not kept any more.
    fn take(&mut self, sp: u64, target: u64) -> Option<Left> {
        if self.table == 0 {
            return None;
        }
        // A return takes the address away, a jump has it taken away.
        [sp, sp.wrapping_sub(8)].into_iter().find_map(|sp| {
            let place = self.place(sp);
            // SAFETY: a place of the table; the lock is held.
            let left = unsafe { *place };
            let known = (left.innermost.sp, left.innermost.back) == (sp, target);
            let kept = self.next - left.first <= KEPT;
            (known && sp != 0 && kept).then(|| {
                // SAFETY: the same.
                unsafe { (*place).innermost.sp = 0 };
                left
            })
        })
    }
}

/// Between the frames of two stacks: no stack pointer is odd.
fn is_border(frame: Frame) -> bool {
    frame.sp & 1 != 0
}

/// The frames up to `end` have just been taken away.
pub fn left(context: &Context, end: u64) {
    let first = context.calls.top;
    let count = (end - first) / size_of::<Frame>() as u64;
    // SAFETY: this thread's, and still there.
    let frames = unsafe { core::slice::from_raw_parts(first as *const Frame, count as usize) };
    let root = context.calls.root;
    let mut index = INDEX.lock();
    let ends = |pair: &[Frame]| match *pair {
        [outer, inner] => is_border(inner) || outer.sp.wrapping_sub(inner.sp) > APART,
        _ => false,
    };
    let mut begin = 0;
    for end in 1..=frames.len() {
        if end < frames.len() && !frames.get(end - 1..=end).is_some_and(ends) {
            continue;
        }
        let stack = frames.get(begin..end).unwrap_or(&[]);
        let stack = match stack {
            [border, rest @ ..] if is_border(*border) => rest,
            all => all,
        };
        index.stacks.keep(stack, root);
        begin = end;
    }
}

/// A border above the innermost frame, whose caller's paths the other stack's are below unless they have their own.
pub fn border(context: &mut Context) {
    let last = top(context);
    if last.sp == u64::MAX || is_border(last) || last.back == 0 {
        return;
    }
    let border = Frame {
        sp: last.sp - 1,
        ..last
    };
    super::push(context, border);
}

/// A return or a jump to `target`: whether a stack goes on there that was left.
pub fn goes_on(context: &mut Context, sp: u64, target: u64) -> bool {
    let mut index = INDEX.lock();
    let Some(left) = index.stacks.take(sp, target) else {
        return false;
    };
    border(context);
    let bytes = (left.count + 1) * size_of::<Frame>() as u64;
    if context.calls.top + bytes > context.calls.end {
        context.calls.lost += 1;
        return false;
    }
    let first = context.calls.top;
    let place = |number: u64| (first as *mut Frame).wrapping_add(number as usize);
    for number in 0..left.count {
        // SAFETY: there is room; what is kept is read under the lock.
        unsafe { *place(number) = *index.stacks.frame(left.first + number) };
    }
    drop(index);
    // SAFETY: the same.
    unsafe { *place(left.count) = left.innermost };
    context.calls.top += bytes;
    let root = context.calls.root;
    if left.root != root {
        // Another thread's, or another part's: the same paths below this root.
        let mut last = (left.root, root);
        for number in 0..=left.count {
            // SAFETY: just written.
            let frame = unsafe { &mut *place(number) };
            last = (frame.node, copied(context, frame.node, last, 0));
            frame.node = last.1;
        }
    }
    let node = top(context).node;
    pop(context);
    go_to(context, node);
    true
}
