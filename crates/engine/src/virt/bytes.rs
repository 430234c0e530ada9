//! Fields of structures that are read as bytes, and tables by numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The bytes at a place; zeros beyond the end.
pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0u8; N];
    if let Some(found) = bytes.get(at..at + N) {
        value.copy_from_slice(found);
    }
    value
}

/// A table by numbers that nobody chooses to collide.
pub(super) type Spread<K, V> = HashMap<K, V, BuildHasherDefault<Spreader>>;

/// Spreads numbers (2⁶⁴ by the golden ratio).
#[derive(Default)]
pub(super) struct Spreader(u64);

impl Hasher for Spreader {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let spread = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
