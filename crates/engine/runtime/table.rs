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
