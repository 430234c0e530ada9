//! The process-wide state: one static, one lock, memory that is only handed out.

use crate::check;
use crate::layout::{ARENA_BASE, Context, Header, RUNTIME_BASE, TOTALS_BASE};
use crate::sys;
use crate::syscall_table as nr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// End of what belongs to the runtime's image.
pub use crate::layout::BOOT_STACK;
pub const RUNTIME_END: u64 = RUNTIME_BASE + 0x40_0000;

/// Memory of a thread: signal stack below, then the runtime's stack.
pub const SIGNAL_STACK: u64 = 64 << 10;
pub const STACK: u64 = 128 << 10;

static LOCK: AtomicU32 = AtomicU32::new(0);
static ARENA_NEXT: AtomicU64 = AtomicU64::new(ARENA_BASE);

/// Takes the lock over everything that is shared by the threads of a process.
pub fn lock() {
    let mut spins = 0;
    while LOCK.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
        spins += 1;
        if spins > 100 {
            if LOCK.swap(2, Acquire) == 0 {
                return;
            }
            sys::futex_wait(&LOCK, 2, 1000);
        }
        core::hint::spin_loop();
    }
}

pub fn unlock() {
    if LOCK.swap(0, Release) == 2 {
        sys::futex_wake(&LOCK);
    }
}

/// Maps zeroed private memory for the runtime, away from the program's.
pub fn reserve(bytes: u64) -> u64 {
    let bytes = (bytes + 0xfff) & !0xfff;
    for _ in 0..64 {
        let at = ARENA_NEXT.fetch_add(bytes + 0x1000, Relaxed);
        // PROT_READ|PROT_WRITE; MAP_PRIVATE|ANONYMOUS|NORESERVE|FIXED_NOREPLACE
        let flags = 0x2 | 0x20 | 0x4000 | 0x10_0000;
        // SAFETY: a fresh mapping at an address nobody has, or an error.
        let got = unsafe { sys::call(nr::MMAP, [at, bytes, 3, flags, u64::MAX, 0]) };
        if got == at as i64 {
            return at;
        }
        check!(
            got == -17 || got >= 0,
            "no memory for the virtual PMU ({bytes} bytes: errno {})",
            -got
        );
    }
    crate::report::fail(format_args!("no address space for the virtual PMU"))
}

/// End of what [`reserve`] has handed out.
pub fn arena_end() -> u64 {
    ARENA_NEXT.load(Relaxed)
}

/// A growing array in reserved (lazily backed) address space.
pub struct Table<T> {
    base: *mut T,
    len: usize,
    capacity: usize,
}

impl<T: Copy> Table<T> {
    pub const fn new() -> Self {
        Self {
            base: core::ptr::null_mut(),
            len: 0,
            capacity: 0,
        }
    }
    pub fn init(&mut self, capacity: usize) {
        self.base = reserve((capacity * core::mem::size_of::<T>()) as u64) as *mut T;
        self.capacity = capacity;
    }
    /// Counts the first `n` elements (zero bytes) as written.
    pub fn claim(&mut self, n: usize) {
        self.len = n.min(self.capacity);
    }
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Elements that can still be added.
    pub fn room(&self) -> usize {
        self.capacity - self.len
    }
    /// Where the first element is.
    pub fn address(&self) -> u64 {
        self.base as u64
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn push(&mut self, value: T) -> usize {
        check!(
            self.len < self.capacity,
            "a table of the virtual PMU is full ({})",
            self.len
        );
        // SAFETY: inside the reservation.
        unsafe { self.base.add(self.len).write(value) };
        self.len += 1;
        self.len - 1
    }
    pub fn get(&mut self, at: usize) -> &mut T {
        check!(at < self.len, "engine index {at} of {}", self.len);
        // SAFETY: checked; the lock makes us the only user.
        unsafe { &mut *self.base.add(at) }
    }
    pub fn slice(&self) -> &[T] {
        // SAFETY: the first len elements are written.
        unsafe { core::slice::from_raw_parts(self.base, self.len) }
    }
}

/// The totals file's header.
pub fn header() -> &'static Header {
    // SAFETY: mapped by rt_start before anything else runs.
    unsafe { &*(TOTALS_BASE as *const Header) }
}

/// Address of a slot's context.
pub fn context_at(slot: u32) -> u64 {
    TOTALS_BASE + u64::from(slot) * crate::layout::REGION
}

/// This thread's context.
pub fn current() -> *mut Context {
    let context: u64;
    // SAFETY: every thread of ours has GS at its context.
    unsafe {
        core::arch::asm!("mov {}, gs:[{}]", out(reg) context,
            const core::mem::offset_of!(Context, this), options(nostack, readonly));
    }
    context as *mut Context
}

/// The slot of a context.
pub fn slot_of(context: &Context) -> u32 {
    ((context.this - TOTALS_BASE) / crate::layout::REGION) as u32
}

/// A global that is used under the lock (or before there are threads).
pub struct Global<T>(core::cell::UnsafeCell<T>);

// SAFETY: every user holds the lock; see `lock`.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }
    /// The value; the caller holds the lock.
    #[allow(clippy::mut_from_ref)]
    pub fn get(&self) -> &mut T {
        // SAFETY: one user at a time by the lock.
        unsafe { &mut *self.0.get() }
    }
}
