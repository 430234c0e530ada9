//! Arrays that grow in place, in address space reserved for their greatest length.

use crate::check;
use crate::own_memory;

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
        self.base = own_memory::reserve((capacity * core::mem::size_of::<T>()) as u64) as *mut T;
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
    /// Puts others in the place of the elements from `from` to `to`.
    pub fn splice(&mut self, from: usize, to: usize, new: impl Iterator<Item = T> + Clone) {
        let count = new.clone().count();
        let len = self.len - (to - from) + count;
        check!(
            from <= to && to <= self.len && len <= self.capacity,
            "a table of the virtual PMU is full ({})",
            self.len
        );
        // SAFETY: inside the reservation.
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
