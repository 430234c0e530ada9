//! The memory that a thread records into: written by one thread without locks, read by whoever
//! holds the output's lock.
//!
//! The owner writes an event behind the published length and then publishes the new length
//! (release); a reader loads the length (acquire) and reads below it. Only the owner takes the
//! length back to zero, under the output's lock, so nobody reads then.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size of an event of version 9.
pub(super) const EVENT: usize = 32;
/// Events in a buffer: pages of 64 KiB.
pub(super) const EVENTS: usize = 2048;

/// An event as it stands in the file, in words of the format's byte order.
pub(super) type Words = [u64; 4];

/// One lane of one thread.
pub(super) struct Buffer {
    length: AtomicUsize,
    /// Events that are in the file already; used under the output's lock only.
    written: AtomicUsize,
    events: Box<[UnsafeCell<MaybeUninit<Words>>]>,
}

// SAFETY: an element below the published length is never written before the length is taken back,
// which the owner does under the lock that every reader holds.
unsafe impl Sync for Buffer {}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Buffer {
    pub(super) fn new() -> Self {
        let events = (0..EVENTS)
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect();
        Self {
            length: AtomicUsize::new(0),
            written: AtomicUsize::new(0),
            events,
        }
    }

    /// Appends an event; says whether the buffer is full now.
    ///
    /// # Safety
    /// Only the thread that owns the buffer calls this.
    #[inline(always)]
    pub(super) unsafe fn push(&self, event: Words) -> bool {
        let length = self.length.load(Ordering::Relaxed);
        let Some(place) = self.events.get(length) else {
            return true;
        };
        // SAFETY: the place is at the published length, where no reader looks, and there is one writer.
        unsafe { (*place.get()).write(event) };
        self.length.store(length + 1, Ordering::Release);
        length + 1 == EVENTS
    }

    /// As [`push`](Self::push), for an interval: the pieces are stored where they belong instead of being put
    /// together first. `start` and `end` have at most 48 bits. Says whether there was room.
    ///
    /// # Safety
    /// As [`push`](Self::push).
    #[inline(always)]
    pub(super) unsafe fn push_interval(
        &self,
        kind: u64,
        label: u64,
        thread: u32,
        start: u64,
        end: u64,
    ) -> bool {
        let length = self.length.load(Ordering::Relaxed);
        let Some(place) = self.events.get(length) else {
            return false;
        };
        let place = place.get().cast::<u8>();
        // SAFETY: as in `push`; the pieces cover the place's 32 bytes, and each is aligned in it.
        unsafe {
            place.cast::<u64>().write(kind.to_le());
            place.add(8).cast::<u64>().write(label.to_le());
            place.add(16).cast::<u32>().write(thread.to_le());
            place.add(20).cast::<u32>().write((start as u32).to_le());
            place.add(24).cast::<u64>().write(end.to_le());
            place
                .add(30)
                .cast::<u16>()
                .write(((start >> 32) as u16).to_le());
        }
        self.length.store(length + 1, Ordering::Release);
        true
    }

    /// Gives the bytes that are not in the file yet to `write`. The output's lock must be held.
    pub(super) fn drain(&self, write: impl FnOnce(&[u8])) {
        let length = self.length.load(Ordering::Acquire);
        let written = self.written.load(Ordering::Relaxed);
        if let Some(events) = self.events.get(written..length)
            && !events.is_empty()
        {
            // SAFETY: elements below the published length are initialised and not written while
            // the lock is held; `UnsafeCell` and `MaybeUninit` are transparent, so the elements are
            // EVENT bytes each, one after the other.
            let bytes = unsafe {
                std::slice::from_raw_parts(events.as_ptr().cast::<u8>(), events.len() * EVENT)
            };
            write(bytes);
        }
        self.written.store(length, Ordering::Relaxed);
    }

    /// Makes room. The owner calls this, under the output's lock, after draining.
    pub(super) fn reset(&self) {
        self.length.store(0, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
    }

    /// The event appended last.
    pub(super) fn last(&self) -> Option<Words> {
        let place = self
            .events
            .get(self.length.load(Ordering::Relaxed).checked_sub(1)?)?;
        // SAFETY: below the published length, so initialised; events are plain words.
        Some(unsafe { (*place.get()).assume_init_read() })
    }
}

/// An event of version 9: kind, label, thread, and two 48-bit values in pieces.
#[inline(always)]
pub(super) fn event(kind: u64, label: u64, thread: u32, first: u64, second: u64) -> Words {
    let upper = (first >> 32 << 16) | (second >> 32 & 0xFFFF);
    [
        kind.to_le(),
        label.to_le(),
        (u64::from(thread) | first << 32).to_le(),
        (second & 0xFFFF_FFFF | upper << 32).to_le(),
    ]
}
