//! A thread's ring, as it is read.

use super::heap::{Scout, Words};
use crate::layout::Context;
use crate::virt::context::MappedBytes;
use crate::xlate::references::{CHUNKS, begin};
use std::mem::offset_of;
use std::sync::atomic::Ordering;

/// A thread's ring, and how far it was read.
pub(super) struct Ring {
    pub(super) context: MappedBytes,
    pub(super) ring: MappedBytes,
    /// Parts read.
    pub(super) read: u32,
    /// The last block of the part before: where it was described, its words.
    pub(super) last: Vec<u64>,
    /// What it said of the heap last.
    pub(super) heap: Words,
    /// How far it was looked through for that, ahead of what was read.
    pub(super) scout: Option<Scout>,
    /// What is to be read now: parts up to this one, and the rest, too.
    pub(super) upto: (u32, bool),
}

/// Where a part begins, as the thread's context says, of which this loads words.
pub(super) fn begin_of(load: &dyn Fn(usize) -> u32, part: u32) -> u32 {
    let said = offset_of!(Context, noted.begins) + 4 * (part % CHUNKS) as usize;
    begin(part, load(said))
}

impl Ring {
    /// A word of the thread's context.
    pub(super) fn load(&self, at: usize) -> u32 {
        let word = self.context.atomic(at);
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The memory that its thread is in.
    pub(super) fn memory(&self) -> u32 {
        self.load(offset_of!(Context, space))
    }

    /// Something is to be read now.
    pub(super) fn goes_on(&self) -> bool {
        self.upto.1 || self.read != self.upto.0
    }

    /// What its heads count from: see [`described`].
    pub(super) fn base(&self) -> u64 {
        let half = |at| u64::from(self.load(offset_of!(Context, noted.base) + at));
        half(0) | half(4) << 32
    }

    /// Words of the ring.
    pub(super) fn copy(&self, from: usize, to: &mut [u64]) {
        self.ring.copy(from, to);
    }
}
