//! Page-aligned memory that a fake event and its reader share, and the writer's side of page and ring.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page as Page;

use crate::errno::Errno;

/// Bytes of a page of the fake.
pub const PAGE_SIZE: usize = 4096;

/// A control page and the ring behind it.
#[derive(Debug)]
pub(super) struct Shared {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory; the writer's side is only used under the fake kernel's lock, and what both sides
// access is accessed atomically.
unsafe impl Send for Shared {}

impl Shared {
    pub(super) fn new(len: usize) -> Result<Self, Errno> {
        if len < PAGE_SIZE || !len.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let layout = Layout::from_size_align(len, PAGE_SIZE).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: the layout is not empty (checked above).
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::ENOMEM)?;
        let shared = Self { start, layout };
        shared.edit(|page| {
            page.version = 0;
            page.data_offset = PAGE_SIZE as u64;
            page.data_size = (len - PAGE_SIZE) as u64;
        });
        Ok(shared)
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn number(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: used with aligned offsets of 64-bit fields of the control page, which is in bounds.
        unsafe { &*self.start.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Changes the page under its seqlock, word by word, as the kernel does.
    pub(super) fn edit(&self, change: impl FnOnce(&mut Page)) {
        let lock_offset = offset_of!(Page, lock);
        // SAFETY: the field is aligned and in bounds.
        let lock = unsafe { &*self.start.as_ptr().add(lock_offset).cast::<AtomicU32>() };
        lock.fetch_add(1, Ordering::AcqRel);
        let mut words = [0u64; std::mem::size_of::<Page>() / 8];
        for (i, word) in words.iter_mut().enumerate() {
            *word = self.number(i * 8).load(Ordering::Relaxed);
        }
        // SAFETY: Page is a C struct of integers, 8-aligned as the array is, and exactly as long.
        let page = unsafe { &mut *words.as_mut_ptr().cast::<Page>() };
        let kept = page.lock;
        change(page);
        page.lock = kept;
        for (i, &word) in words.iter().enumerate() {
            // Only what changed: head and tail belong to the protocol of the ring.
            if self.number(i * 8).load(Ordering::Relaxed) != word {
                self.number(i * 8).store(word, Ordering::Relaxed);
            }
        }
        lock.fetch_add(1, Ordering::AcqRel);
    }

    /// Bytes of the ring.
    pub(super) fn ring_size(&self) -> usize {
        self.layout.size() - PAGE_SIZE
    }

    /// Bytes that the reader has not taken yet.
    pub(super) fn used(&self) -> u64 {
        let tail = self
            .number(offset_of!(Page, data_tail))
            .load(Ordering::Acquire);
        self.number(offset_of!(Page, data_head))
            .load(Ordering::Relaxed)
            .wrapping_sub(tail)
    }

    /// Room for another `len` bytes.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.used().saturating_add(len as u64) <= self.ring_size() as u64
    }

    /// Writes bytes at the head, around the end, and moves the head.
    pub(super) fn write(&self, bytes: &[u8]) {
        let size = self.ring_size();
        if size == 0 {
            return;
        }
        let head = self.number(offset_of!(Page, data_head));
        let position = head.load(Ordering::Relaxed);
        for (i, &byte) in bytes.iter().enumerate() {
            let at = (position.wrapping_add(i as u64) % size as u64) as usize;
            // SAFETY: `at` is less than the ring's size; the reader does not look beyond the head.
            unsafe { *self.start.as_ptr().add(PAGE_SIZE + at) = byte };
        }
        head.store(position.wrapping_add(bytes.len() as u64), Ordering::Release);
    }

    /// Sets head and tail, to begin near the wrap of the positions.
    pub(super) fn set_positions(&self, position: u64) {
        self.number(offset_of!(Page, data_head))
            .store(position, Ordering::Release);
        self.number(offset_of!(Page, data_tail))
            .store(position, Ordering::Release);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
