//! The ring of samples, reader's side.
//!
//! The kernel writes records and then moves `data_head`; the reader reads them and then moves
//! `data_tail`. Head is loaded with acquire, tail stored with release. Source: `struct
//! perf_event_mmap_page` (comment at `data_head`) and `kernel/events/ring_buffer.c`.
//! Sizes in the ring are checked, never trusted.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{self as abi, perf_event_mmap_page as Page};

use crate::mapping::Mapping;
use crate::page::PageView;

/// Bytes of `struct perf_event_header`.
const HEADER: usize = 8;

/// One record, as the kernel wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// `PERF_RECORD_*`.
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`.
    pub misc: u16,
    /// Header and body: what a record parser takes.
    pub bytes: &'a [u8],
}

impl RawRecord<'_> {
    /// What follows the header.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.bytes.get(HEADER..).unwrap_or_default()
    }
}

/// The ring cannot be followed any more: a record's size is impossible. What was in the ring is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CorruptRing {
    /// Position (bytes ever read) of the record.
    pub position: u64,
    /// The size it claims.
    pub size: u16,
    /// The bytes there are.
    pub available: u64,
}

impl std::fmt::Display for CorruptRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            position,
            size,
            available,
        } = self;
        write!(
            f,
            "the sample ring is corrupt at {position}: a record of {size} bytes where there are {available}"
        )
    }
}

impl std::error::Error for CorruptRing {}

/// The reader of an event's ring. Several events can write into one ring (see [`crate::Event::set_output`]).
#[derive(Debug)]
pub struct Ring {
    mapping: Mapping,
    /// Where the data begins in the mapping, and its bytes (a power of two).
    offset: usize,
    size: usize,
    /// Bytes ever consumed; published to the kernel by `release`.
    tail: u64,
    /// Records that wrap around the end are put together here.
    scratch: Vec<u8>,
    lost: u64,
    lost_samples: u64,
}

impl Ring {
    pub(crate) fn new(mapping: Mapping) -> Self {
        let view = view(&mapping);
        let page = mapping.page_size();
        let rest = mapping.len() - page.min(mapping.len());
        // Linux before 4.1 leaves both fields 0: the data is all that follows the control page. Values
        // that do not describe a power of two inside the mapping are not believed either.
        let told = usize::try_from(view.data_offset())
            .ok()
            .zip(usize::try_from(view.data_size()).ok());
        let (offset, size) = match told {
            Some((offset, size))
                if size.is_power_of_two()
                    && offset
                        .checked_add(size)
                        .is_some_and(|end| end <= mapping.len()) =>
            {
                (offset, size)
            }
            _ => (page, rest),
        };
        let tail = view.data_tail();
        Self {
            mapping,
            offset,
            size,
            tail,
            scratch: Vec::new(),
            lost: 0,
            lost_samples: 0,
        }
    }

    /// Bytes of the ring.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The control page in front of the ring.
    #[must_use]
    pub fn page(&self) -> PageView<'_> {
        view(&self.mapping)
    }

    /// Records of any kind that the kernel dropped for want of room, as far as `PERF_RECORD_LOST` said so yet.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Samples that the hardware dropped (`PERF_RECORD_LOST_SAMPLES`).
    #[must_use]
    pub fn lost_samples(&self) -> u64 {
        self.lost_samples
    }

    /// Bytes that can be read now.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.head().wrapping_sub(self.tail)
    }

    fn head(&self) -> u64 {
        self.counter(offset_of!(Page, data_head))
            .load(Ordering::Acquire)
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets used are 8-aligned and inside the control page, which lives as long as
        // the mapping; both sides access them atomically.
        unsafe {
            &*self
                .mapping
                .start()
                .as_ptr()
                .add(offset)
                .cast::<AtomicU64>()
        }
    }

    /// Gives what was read back to the kernel. Also done before each next record and on drop.
    pub fn release(&mut self) {
        self.counter(offset_of!(Page, data_tail))
            .store(self.tail, Ordering::Release);
    }

    /// The next record, or `None` when there is none yet. Its memory is the kernel's again afterwards.
    ///
    /// # Errors
    /// [`CorruptRing`]; everything that was in the ring is skipped, and reading can go on.
    pub fn next_record(&mut self) -> Result<Option<RawRecord<'_>>, CorruptRing> {
        self.release();
        let head = self.head();
        let available = head.wrapping_sub(self.tail);
        if available == 0 {
            return Ok(None);
        }
        let mut header = [0u8; HEADER];
        let whole = available <= self.size as u64 && available >= HEADER as u64;
        if whole {
            self.copy(self.tail, &mut header);
        }
        let [k0, k1, k2, k3, m0, m1, s0, s1] = header;
        let size = u16::from_le_bytes([s0, s1]);
        let length = usize::from(size);
        if !whole || length < HEADER || u64::from(size) > available {
            let position = self.tail;
            self.tail = head;
            self.release();
            return Err(CorruptRing {
                position,
                size,
                available,
            });
        }
        let start = self.tail;
        self.tail = self.tail.wrapping_add(u64::from(size));
        let kind = u32::from_le_bytes([k0, k1, k2, k3]);
        let misc = u16::from_le_bytes([m0, m1]);
        self.note_losses(kind, start, length);
        let at = self.index(start);
        let bytes = if at + length <= self.size {
            // SAFETY: the range lies in the ring (checked), between tail and head as loaded with
            // acquire; the kernel does not write there until the tail is published, which `&mut self`
            // of the next call does after the borrow of the record has ended.
            unsafe {
                std::slice::from_raw_parts(
                    self.mapping.start().as_ptr().add(self.offset + at),
                    length,
                )
            }
        } else {
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.resize(length, 0);
            self.copy(start, &mut scratch);
            self.scratch = scratch;
            &self.scratch
        };
        Ok(Some(RawRecord { kind, misc, bytes }))
    }

    /// Reads all records there are now and hands each to `each`.
    ///
    /// # Errors
    /// [`CorruptRing`], as [`Ring::next_record`].
    pub fn drain(&mut self, mut each: impl FnMut(RawRecord<'_>)) -> Result<u64, CorruptRing> {
        let mut records = 0;
        // Not more than was there at the beginning, or a busy writer would keep us here.
        let end = self.head();
        while self.tail != end {
            match self.next_record()? {
                Some(record) => each(record),
                None => break,
            }
            records += 1;
        }
        self.release();
        Ok(records)
    }

    fn index(&self, position: u64) -> usize {
        // The size is a power of two that fits usize, so the remainder does too.
        (position & (self.size as u64 - 1)) as usize
    }

    /// Copies bytes from `position` on, around the end. `into` is no longer than the ring.
    fn copy(&self, position: u64, into: &mut [u8]) {
        let at = self.index(position);
        let first = into.len().min(self.size - at);
        let (a, b) = into.split_at_mut(first);
        // SAFETY: both source ranges lie in the ring: `at + first` ≤ size, and the rest is at most `at`
        // because callers never ask for more than the ring's size. The destination is fresh memory.
        unsafe {
            let data = self.mapping.start().as_ptr().add(self.offset);
            std::ptr::copy_nonoverlapping(data.add(at), a.as_mut_ptr(), a.len());
            std::ptr::copy_nonoverlapping(data, b.as_mut_ptr(), b.len());
        }
    }

    fn note_losses(&mut self, kind: u32, start: u64, length: usize) {
        // PERF_RECORD_LOST: header, id, lost; PERF_RECORD_LOST_SAMPLES: header, lost.
        let (offset, samples) = match kind {
            abi::PERF_RECORD_LOST => (16, false),
            abi::PERF_RECORD_LOST_SAMPLES => (8, true),
            _ => return,
        };
        if length < offset + 8 {
            return;
        }
        let mut number = [0u8; 8];
        self.copy(start.wrapping_add(offset as u64), &mut number);
        let number = u64::from_le_bytes(number);
        let total = if samples {
            &mut self.lost_samples
        } else {
            &mut self.lost
        };
        *total = total.saturating_add(number);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.release();
    }
}

fn view(mapping: &Mapping) -> PageView<'_> {
    // SAFETY: the mapping begins with a control page, is page-aligned, and outlives the view.
    unsafe { PageView::from_raw(mapping.start().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeKernel, PAGE_SIZE};
    use crate::{Event, EventAttr, OpenOptions, Target};

    fn ring(fake: &FakeKernel, pages: usize) -> (Event, Ring) {
        let attr = EventAttr::new(0, 1).sample_every(1000).sample_type(1);
        let options = OpenOptions::default();
        let event =
            Event::open_with(&fake.shared(), &attr, Target::CallingThread, options).unwrap();
        let ring = event.ring(pages).unwrap();
        (event, ring)
    }

    fn next(ring: &mut Ring) -> Option<(u32, u16, Vec<u8>)> {
        let record = ring.next_record().unwrap()?;
        Some((record.kind, record.misc, record.body().to_vec()))
    }

    #[test]
    fn records_come_out_as_they_went_in_around_the_end_and_around_2_to_the_64() {
        let fake = FakeKernel::new();
        let (event, mut ring) = ring(&fake, 1);
        assert_eq!(ring.size(), PAGE_SIZE);
        fake.set_ring_position(event.fd(), 0u64.wrapping_sub(1_000 * 8));
        ring.tail = ring.page().data_tail();
        for i in 0..3_000u32 {
            let body: Vec<u8> = (0..(i % 61) * 8).map(|b| (b + i) as u8).collect();
            assert!(fake.push_record(event.fd(), 9, i as u16, &body), "{i}");
            assert!(event.wait(0).unwrap().readable);
            assert_eq!(next(&mut ring), Some((9, i as u16, body)), "{i}");
            if i % 3 == 0 {
                assert_eq!(next(&mut ring), None);
            }
        }
        assert_eq!(ring.lost(), 0);
    }

    #[test]
    fn space_is_given_back_only_after_the_record_was_used() {
        let fake = FakeKernel::new();
        let (event, mut ring) = ring(&fake, 1);
        let body = [7u8; 1016];
        for _ in 0..4 {
            assert!(fake.push_record(event.fd(), 9, 0, &body));
        }
        assert!(!fake.push_record(event.fd(), 9, 0, &body));
        let record = ring.next_record().unwrap().unwrap();
        assert!(
            !fake.push_record(event.fd(), 9, 0, &body),
            "the reader still holds the record"
        );
        assert_eq!(record.body(), body);
        ring.release();
        assert!(
            !fake.push_record(event.fd(), 9, 0, &body),
            "the LOST record needs room, too"
        );
        assert_eq!(ring.drain(|record| assert_eq!(record.kind, 9)), Ok(3));
        assert!(fake.push_record(event.fd(), 9, 1, &body));
        assert_eq!(
            next(&mut ring).map(|(kind, ..)| kind),
            Some(abi::PERF_RECORD_LOST)
        );
        assert_eq!(
            next(&mut ring).map(|(kind, misc, _)| (kind, misc)),
            Some((9, 1))
        );
        assert_eq!(ring.lost(), 3);
    }

    #[test]
    fn hardware_losses_are_counted_apart() {
        let fake = FakeKernel::new();
        let (event, mut ring) = ring(&fake, 2);
        fake.push_record(
            event.fd(),
            abi::PERF_RECORD_LOST_SAMPLES,
            0,
            &5u64.to_le_bytes(),
        );
        fake.push_record(event.fd(), abi::PERF_RECORD_LOST_SAMPLES, 0, &[1, 2]); // too short to count
        assert_eq!(ring.drain(|_| {}), Ok(2));
        assert_eq!((ring.lost(), ring.lost_samples()), (0, 5));
    }

    #[test]
    fn impossible_sizes_end_in_an_error_and_reading_goes_on() {
        let fake = FakeKernel::new();
        let (event, mut ring) = ring(&fake, 1);
        for size in [0u16, 1, 7, 24, u16::MAX] {
            let mut bytes = [0u8; 16];
            bytes[6..8].copy_from_slice(&size.to_le_bytes());
            fake.push_bytes(event.fd(), &bytes);
            let error = ring.next_record().unwrap_err();
            assert_eq!((error.size, error.available), (size, 16), "{error}");
            assert_eq!(next(&mut ring), None);
        }
        fake.push_bytes(event.fd(), &[1, 2, 3]); // less than a header
        assert!(ring.next_record().is_err());
        // A head that is further away than the ring is long.
        fake.edit_page(event.fd(), |page| page.data_head += 1 << 40);
        assert!(ring.next_record().is_err());
        assert!(fake.push_record(event.fd(), 9, 0, &[1; 8]));
        assert_eq!(next(&mut ring), Some((9, 0, vec![1; 8])));
    }

    #[test]
    fn random_bytes_neither_panic_nor_hang() {
        let fake = FakeKernel::new();
        let (event, mut ring) = ring(&fake, 1);
        let mut seed = 1u64;
        let mut random = move || {
            // xorshift64 (Marsaglia 2003)
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let (mut good, mut bad) = (0, 0);
        for _ in 0..20_000 {
            let mut bytes = vec![0u8; (random() % 200) as usize];
            bytes.fill_with(|| random() as u8);
            // Now and then a size that could be right.
            if bytes.len() > 8 && random() % 2 == 0 {
                bytes[6..8].copy_from_slice(&((random() % 64) as u16).to_le_bytes());
            }
            fake.push_bytes(event.fd(), &bytes);
            loop {
                match ring.next_record() {
                    Ok(Some(record)) => {
                        good += 1;
                        assert!(record.bytes.len() >= 8 && record.bytes.len() <= PAGE_SIZE);
                    }
                    Ok(None) => break,
                    Err(error) => {
                        bad += 1;
                        assert!(error.available > 0);
                    }
                }
            }
        }
        assert!(good > 1_000 && bad > 1_000, "{good} {bad}");
    }

    #[test]
    fn offsets_from_the_page_are_not_believed() {
        let fake = FakeKernel::new();
        for (offset, size) in [
            (0, 0),
            (4096, 1 << 40),
            (u64::MAX, 4096),
            (4096, 100),
            (1 << 20, 4096),
        ] {
            let (event, _) = ring(&fake, 1);
            let mapping = crate::mapping::Mapping::new(&fake.shared(), event.fd(), 1).unwrap();
            fake.edit_page(event.fd(), |page| {
                page.data_offset = offset;
                page.data_size = size;
            });
            let ring = Ring::new(mapping);
            assert_eq!(
                (ring.offset, ring.size()),
                (PAGE_SIZE, PAGE_SIZE),
                "{offset} {size}"
            );
        }
    }

    #[test]
    fn sizes_of_rings_are_powers_of_two() {
        let fake = FakeKernel::new();
        let (event, ring) = ring(&fake, 4);
        assert_eq!(ring.size(), 4 * PAGE_SIZE);
        for pages in [0, 3, 5, usize::MAX] {
            assert_eq!(
                event.ring(pages).unwrap_err().cause(),
                crate::Cause::RingSize,
                "{pages}"
            );
        }
    }
}
