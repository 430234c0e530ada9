//! Stacks of the runtime's for threads: new ones, and those of threads that are gone.

use crate::own_memory;
use crate::slots::{SIGNAL_STACK, STACK};
use crate::sys;
use crate::syscall_table as nr;

/// A stack that somebody is about to leave, or has left.
#[derive(Clone, Copy)]
struct Left {
    /// Its top; 0: no entry.
    top: u64,
    /// Whose it was, as this process's namespace numbers it; thread 0: nobody's.
    process: u32,
    thread: u32,
}

const NO_STACK: Left = Left {
    top: 0,
    process: 0,
    thread: 0,
};

pub struct Stacks {
    left: [Left; 256],
    /// Somebody in this memory lives in another namespace of process ids: numbers say nothing any more.
    strangers: bool,
}

impl Stacks {
    pub const fn new() -> Self {
        Self {
            left: [NO_STACK; 256],
            strangers: false,
        }
    }

    /// Thread ids of two namespaces meet in this memory.
    pub fn met_strangers(&mut self) {
        self.strangers = true;
    }

    /// `top` can be taken once this thread is gone; a full list forgets the stack.
    pub fn leave(&mut self, top: u64, process: u32, thread: u32) {
        let known = self.left.iter().any(|place| place.top == top);
        if let Some(place) = self.left.iter_mut().find(|place| place.top == 0 && !known) {
            *place = Left {
                top,
                process,
                thread,
            };
        }
    }

    /// Nobody stands on `top` any more.
    pub fn give_back(&mut self, top: u64) {
        self.leave(top, 0, 0);
    }

    /// The top of a stack that nobody stands on.
    pub fn take(&mut self) -> u64 {
        let strangers = self.strangers;
        let gone = |place: &&mut Left| {
            place.top != 0
                && (place.thread == 0 || !strangers && is_gone(place.process, place.thread))
        };
        if let Some(place) = self.left.iter_mut().find(gone) {
            return core::mem::replace(place, NO_STACK).top;
        }
        own_memory::reserve(SIGNAL_STACK + STACK) + SIGNAL_STACK + STACK
    }
}

/// Whether a thread has ended. One that is still about to (or waits to be waited for) has not.
fn is_gone(process: u32, thread: u32) -> bool {
    let (process, thread) = (u64::from(process), u64::from(thread));
    // SAFETY: signal 0 only asks whether the thread exists.
    unsafe { sys::call(nr::TGKILL, [process, thread, 0, 0, 0, 0]) == -3 }
}
