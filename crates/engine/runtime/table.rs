//! Arrays that grow in place, in address space reserved for their greatest length.

use crate::check;
use crate::own_memory;

/// A growing array in reserved (lazily backed) address space.
pub struct Table<T> {
    base: *mut T,
    len: usize,
    capacity: usize,
    /// Bytes that are mapped so far.
    mapped: u64,
}

impl<T: Copy> Table<T> {
    pub const fn new() -> Self {
        Self {
            base: core::ptr::null_mut(),
            len: 0,
            capacity: 0,
            mapped: 0,
        }
    }
    pub fn init(&mut self, capacity: usize) {
        self.base = own_memory::addresses((capacity * core::mem::size_of::<T>()) as u64) as *mut T;
        self.capacity = capacity;
    }
    /// Maps memory for the first `n` elements. In steps that grow with the table: what is mapped counts
    /// for limits of memory.
    fn provide(&mut self, n: usize) {
        let needed = (n * core::mem::size_of::<T>()) as u64;
        if needed <= self.mapped {
            return;
        }
        let whole = ((self.capacity * core::mem::size_of::<T>()) as u64).next_multiple_of(0x1000);
        let step = (self.mapped / 4).clamp(0x1_0000, 16 << 20);
        let end = needed
            .max(self.mapped + step)
            .next_multiple_of(0x1000)
            .min(whole);
        check!(
            own_memory::map(self.base as u64 + self.mapped, end - self.mapped),
            "no address space for the virtual PMU"
        );
        self.mapped = end;
    }
    /// Others have mapped the first elements at [`Table::address`].
    pub fn placed(&mut self, n: usize) {
        let bytes = ((n * core::mem::size_of::<T>()) as u64).next_multiple_of(0x1000);
        self.mapped = self.mapped.max(bytes);
        self.claim(n);
    }
    /// Counts the first `n` elements (zero bytes) as written.
    pub fn claim(&mut self, n: usize) {
        self.len = n.min(self.capacity);
        self.provide(self.len);
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
        self.provide(self.len + 1);
        // SAFETY: just mapped.
        unsafe { self.base.add(self.len).write(value) };
        self.len += 1;
        self.len - 1
    }
    /// Puts others in the place of the elements from `from` to `to`.
    pub fn splice(&mut self, from: usize, to: usize, new: impl Iterator<Item = T> + Clone) {
        let count = new.clone().count();
        let len = self.len - (to - from) + count;
        check!(
            from <= to && to <= self.len && len <= self.capacity,
            "a table of the virtual PMU is full ({})",
            self.len
        );
        self.provide(len);
        // SAFETY: just mapped.
        unsafe {
            let rest = self.base.add(to);
            let place = self.base.add(from + count);
            let bytes = (self.len - to) * core::mem::size_of::<T>();
            if place > rest {
                move_up(rest.cast(), place.cast(), bytes);
            } else if place < rest {
                core::ptr::copy(rest, place, self.len - to);
            }
            for (at, value) in new.enumerate() {
                self.base.add(from + at).write(value);
            }
        }
        self.len = len;
    }
    pub fn get(&mut self, at: usize) -> &mut T {
        check!(at < self.len, "engine index {at} of {}", self.len);
        // SAFETY: checked; the table is borrowed mutably.
        unsafe { &mut *self.base.add(at) }
    }
    pub fn slice_mut(&mut self) -> &mut [T] {
        if self.base.is_null() {
            return &mut [];
        }
        // SAFETY: the first len elements are written; the table is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.base, self.len) }
    }
    pub fn slice(&self) -> &[T] {
        if self.base.is_null() {
            return &[];
        }
        // SAFETY: the first len elements are written.
        unsafe { core::slice::from_raw_parts(self.base, self.len) }
    }
}

/// Moves bytes upwards, from their end (`rep movsb` with the direction flag is slow).
///
/// # Safety
/// Both ranges are the caller's.
unsafe fn move_up(from: *const u8, to: *mut u8, bytes: usize) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
    let mut left = bytes;
    // SAFETY: inside the ranges; what is read has not been overwritten, since the target is higher.
    unsafe {
        while left >= 16 {
            left -= 16;
            let part = _mm_loadu_si128(from.add(left).cast::<__m128i>());
            _mm_storeu_si128(to.add(left).cast::<__m128i>(), part);
        }
        core::ptr::copy(from, to, left);
    }
}
