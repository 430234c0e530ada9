//! The page that `mmap` of an event gives: what `perf_event_mmap_page` says
//! about it, kept under its sequence lock. Layout and protocol:
//! `include/uapi/linux/perf_event.h`.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::*, fence};

/// Bytes of an event's page.
pub const BYTES: u64 = 4096;

/// By this, at offset 1016 of the kernel's reserved part, truecount's library
/// knows that the count is the engine's.
pub const MARK: u64 = u64::from_le_bytes(*b"truecnt\0");

/// The page; fields as in the kernel's header.
#[repr(C, align(4096))]
pub struct Page {
    version: AtomicU32,
    compat_version: AtomicU32,
    lock: AtomicU32,
    index: AtomicU32,
    offset: AtomicU64,
    time_enabled: AtomicU64,
    time_running: AtomicU64,
    capabilities: AtomicU64,
    pmc_width: AtomicU16,
    time_shift: AtomicU16,
    time_mult: AtomicU32,
    time_offset: AtomicU64,
    time_zero: AtomicU64,
    size: AtomicU32,
    reserved_1: u32,
    time_cycles: AtomicU64,
    time_mask: AtomicU64,
    reserved: [u64; 115],
    mark: AtomicU64,
    data_head: AtomicU64,
    data_tail: AtomicU64,
    data_offset: AtomicU64,
    data_size: AtomicU64,
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(offset_of!(Page, capabilities) == 40 && offset_of!(Page, size) == 72);
    assert!(offset_of!(Page, mark) == 1016 && offset_of!(Page, data_head) == 1024);
    assert!(size_of::<Page>() == BYTES as usize);
};

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct State {
    /// What `rdpmc` takes, plus 1; 0 while the event does not count.
    pub index: u32,
    /// To be added to what `rdpmc` gives (the count itself while `index` is 0).
    pub offset: u64,
    /// Nanoseconds enabled, and running, up to this update.
    pub time: u64,
}

impl Page {
    /// Fills a page for a new event.
    pub fn init(&self, state: State) {
        // "Bit 0 is deprecated" (the bits are valid) and "user space may read".
        self.capabilities.store(2 | 4, Relaxed);
        self.pmc_width.store(super::WIDTH, Relaxed);
        // As the kernel says it: where the reserved part begins.
        self.size.store(96, Relaxed);
        self.mark.store(MARK, Relaxed);
        self.data_offset.store(BYTES, Relaxed);
        self.set(state);
    }

    /// Writes what changed, so that readers by the protocol never see a half.
    pub fn set(&self, state: State) {
        let lock = self.lock.load(Relaxed);
        self.lock.store(lock.wrapping_add(1) | 1, Relaxed);
        fence(Release);
        self.index.store(state.index, Relaxed);
        self.offset.store(state.offset, Relaxed);
        self.time_enabled.store(state.time, Relaxed);
        self.time_running.store(state.time, Relaxed);
        self.lock
            .store((lock.wrapping_add(1) | 1).wrapping_add(1), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_find_what_the_header_says() {
        // SAFETY: a page is plain integers; all zero is valid.
        let page: Box<Page> = unsafe { Box::new(core::mem::zeroed()) };
        page.init(State {
            index: 65,
            offset: 7,
            time: 9,
        });
        page.set(State {
            index: 65,
            offset: 8,
            time: 10,
        });
        // SAFETY: reading the page's own bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts(std::ptr::from_ref(&*page).cast::<u8>(), 4096) };
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        assert_eq!(word(8), 65 << 32 | 4); // lock, even; index
        assert_eq!((word(16), word(24), word(32)), (8, 10, 10));
        assert_eq!(word(40), 6);
        assert_eq!(word(48) & 0xffff, 48);
        assert_eq!(&bytes[1016..1024], b"truecnt\0");
    }
}
