//! Counts allocations, where a suite asks for it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static USED: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// An allocator that counts the calls of another one, and the bytes asked for, of all threads:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: truecount_bench::Alloc = truecount_bench::Alloc::system();
/// ```
#[derive(Debug)]
pub struct Alloc<A = System>(A);

impl Alloc {
    /// Counts the calls of the system's allocator.
    #[must_use]
    pub const fn system() -> Self {
        Self(System)
    }
}

impl<A> Alloc<A> {
    /// Counts the calls of `allocator`.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

fn add(bytes: usize) {
    USED.store(true, Ordering::Relaxed);
    CALLS.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

// SAFETY: every call is passed on as it is.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Alloc<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as the caller says.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { self.0.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as the caller says.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        // SAFETY: as the caller says.
        unsafe { self.0.realloc(memory, layout, size) }
    }
}

/// Calls and bytes so far; `None` where nobody counts them.
pub(crate) fn now() -> Option<(u64, u64)> {
    // A suite whose allocator this is has allocated long before.
    USED.load(Ordering::Relaxed)
        .then(|| (CALLS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed)))
}
