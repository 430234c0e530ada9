//! What the threads of a process share, under one lock.

use crate::cache::Cache;
use crate::lock::{Guard, Mutex};
use crate::own_memory;
use crate::pages::Pages;
use crate::stacks::Stacks;

pub struct Engine {
    pub cache: Cache,
    pub pages: Pages,
    pub stacks: Stacks,
}

static ENGINE: Mutex<Engine> = Mutex::new(Engine {
    cache: Cache::new(),
    pages: Pages::new(),
    stacks: Stacks::new(),
});

pub fn lock() -> Guard<'static, Engine> {
    ENGINE.lock()
}

/// All of it is used from the start.
pub fn provide() {
    let start = (&raw const ENGINE).addr() as u64;
    own_memory::provide(start & !0xfff, start + size_of_val(&ENGINE) as u64);
}

/// Frees the lock in a child made by `fork`.
///
/// # Safety
/// The forking thread held it, and nothing of its guard is used in the child.
pub unsafe fn free_in_child() {
    // SAFETY: the caller's.
    unsafe { ENGINE.free_in_child() }
}
