//! The mmap control page of an event, read with atomics under its seqlock.
//!
//! The kernel updates the page on every (re)scheduling of the event; the fields are consistent when
//! `lock` is the same before and after. Layout and protocol: `struct perf_event_mmap_page` in
//! `include/uapi/linux/perf_event.h`. The instruction that reads the hardware counter is a closure, so
//! that this crate holds no assembly (the counting crate passes `rdpmc` or `mrs`).
//!
//! # A kernel quirk
//! Seen on Linux 6.1, 6.12 and 7.2, x86 and arm64: after `PERF_EVENT_IOC_RESET`, or after an `mmap` that
//! follows a `read`, a user-space read is off by exactly -2^width until the next rescheduling. Compare
//! modulo 2^[`PageView::pmc_width`], or map before the first read and do not reset.

use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};

use perf_event_open_sys::bindings::perf_event_mmap_page as Raw;

use crate::mapping::Mapping;

/// A mapped control page (without a ring).
#[derive(Debug)]
pub struct ControlPage {
    mapping: Mapping,
}

impl ControlPage {
    pub(crate) fn new(mapping: Mapping) -> Self {
        Self { mapping }
    }

    /// The fields of the page.
    #[inline(always)]
    #[must_use]
    pub fn view(&self) -> PageView<'_> {
        // SAFETY: the mapping is at least one page, page-aligned, and outlives the view.
        unsafe { PageView::from_raw(self.mapping.start().cast()) }
    }

    /// Address and length of the mapping.
    pub(crate) fn memory(&self) -> (NonNull<u8>, usize) {
        (self.mapping.start(), self.mapping.len())
    }

    /// The page's address, for readers that are built by hand. Valid as long as `self` lives.
    #[inline(always)]
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<Raw> {
        self.mapping.start().cast()
    }
}

/// Capability bits of a page (`cap_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Bit 1: this kernel fills the other bits rightly (before Linux 3.12 they were wrong).
    #[inline(always)]
    #[must_use]
    pub const fn bits_are_valid(self) -> bool {
        self.0 & 2 != 0
    }

    /// Bit 2: user space may read the counter.
    #[inline(always)]
    #[must_use]
    pub const fn user_rdpmc(self) -> bool {
        self.0 & 4 != 0 && self.bits_are_valid()
    }

    /// Bit 3: `time_shift`, `time_mult` and `time_offset` are valid.
    #[inline(always)]
    #[must_use]
    pub const fn user_time(self) -> bool {
        self.0 & 8 != 0
    }

    /// Bit 5: `time_cycles` and `time_mask` are valid (a clock narrower than 64 bits).
    #[inline(always)]
    #[must_use]
    pub const fn user_time_short(self) -> bool {
        self.0 & 32 != 0
    }
}

/// A view of a control page: one relaxed atomic load an accessor.
///
/// A single accessor may see a page in the middle of an update; [`PageView::snapshot`] does not.
#[derive(Debug, Clone, Copy)]
pub struct PageView<'a> {
    page: NonNull<Raw>,
    alive: PhantomData<&'a Mapping>,
}

// SAFETY: the view only does atomic loads of memory that outlives it.
unsafe impl Send for PageView<'_> {}
// SAFETY: as above.
unsafe impl Sync for PageView<'_> {}

macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident: $atomic:ident -> $type:ty;)*) => {
        impl PageView<'_> {
            $(
                $(#[$doc])*
                #[inline(always)]
                #[must_use]
                pub fn $name(&self) -> $type {
                    // SAFETY: the field lies in the page, which is aligned and valid for 'a; the kernel
                    // writes it concurrently, hence the atomic.
                    unsafe {
                        (*self.page.as_ptr().cast::<u8>().add(offset_of!(Raw, $name)).cast::<$atomic>())
                            .load(Ordering::Relaxed)
                    }
                }
            )*
        }
    };
}

accessors! {
    /// Version of the structure.
    version: AtomicU32 -> u32;
    /// Lowest version this one is compatible with.
    compat_version: AtomicU32 -> u32;
    /// The hardware counter plus 1; 0 when the event is not on a counter now.
    index: AtomicU32 -> u32;
    /// To be added to the hardware counter's value.
    offset: AtomicI64 -> i64;
    /// Nanoseconds the event was enabled, up to its last scheduling.
    time_enabled: AtomicU64 -> u64;
    /// Nanoseconds the event was on a counter, up to its last scheduling.
    time_running: AtomicU64 -> u64;
    /// Bits of the hardware counter.
    pmc_width: AtomicU16 -> u16;
    /// For times: nanoseconds = clock × mult >> shift + offset.
    time_shift: AtomicU16 -> u16;
    /// See [`Self::time_shift`].
    time_mult: AtomicU32 -> u32;
    /// See [`Self::time_shift`]; relative to the last scheduling.
    time_offset: AtomicU64 -> u64;
    /// As [`Self::time_offset`], for the clock of samples.
    time_zero: AtomicU64 -> u64;
    /// Bytes of the structure that are used.
    size: AtomicU32 -> u32;
    /// Base of a short clock.
    time_cycles: AtomicU64 -> u64;
    /// Mask of a short clock.
    time_mask: AtomicU64 -> u64;
    /// Bytes ever written to the ring (see [`crate::Ring`], which reads it with acquire).
    data_head: AtomicU64 -> u64;
    /// Bytes ever consumed from the ring.
    data_tail: AtomicU64 -> u64;
    /// Where the ring begins; 0 before Linux 4.1.
    data_offset: AtomicU64 -> u64;
    /// Bytes of the ring; 0 before Linux 4.1.
    data_size: AtomicU64 -> u64;
}

/// One consistent look at a page, with the counter's value if the event was on a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Count so far: `offset` plus the counter sign-extended from `width` bits, modulo 2^64.
    pub value: u64,
    /// Hardware counter plus 1; 0: the event was not on a counter and `value` is what the kernel last knew.
    pub index: u32,
    /// Bits of the hardware counter.
    pub width: u16,
    /// Nanoseconds enabled, brought up to now where the page allows.
    pub time_enabled: u64,
    /// Nanoseconds running, brought up to now where the page allows.
    pub time_running: u64,
}

impl<'a> PageView<'a> {
    /// A view of the page at `page`.
    ///
    /// # Safety
    /// `page` must be aligned and valid for reads for `'a`; others may write it only in whole fields.
    #[inline(always)]
    #[must_use]
    pub unsafe fn from_raw(page: NonNull<Raw>) -> Self {
        Self {
            page,
            alive: PhantomData,
        }
    }

    /// The page's address.
    #[inline(always)]
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<Raw> {
        self.page
    }

    /// The seqlock's number, with acquire: what is read after it is not older.
    #[inline(always)]
    #[must_use]
    pub fn lock(&self) -> u32 {
        // SAFETY: see the accessors.
        unsafe {
            (*self
                .page
                .as_ptr()
                .cast::<u8>()
                .add(offset_of!(Raw, lock))
                .cast::<AtomicU32>())
            .load(Ordering::Acquire)
        }
    }

    /// The capability bits.
    #[inline(always)]
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        // SAFETY: see the accessors; the field is the union after the times.
        Capabilities(unsafe {
            (*self
                .page
                .as_ptr()
                .cast::<u8>()
                .add(offset_of!(Raw, __bindgen_anon_1))
                .cast::<AtomicU64>())
            .load(Ordering::Relaxed)
        })
    }

    /// Runs `read` until the page did not change meanwhile, at most `tries` times.
    ///
    /// The page is only ever updated on the CPU that the thread runs on, so a second try is rare and
    /// compiler barriers would do; for pages of other threads' events the acquire loads are needed.
    #[inline(always)]
    pub fn consistent<T>(&self, tries: u32, mut read: impl FnMut(&Self) -> T) -> Option<T> {
        for _ in 0..tries {
            let before = self.lock();
            let value = read(self);
            compiler_fence(Ordering::AcqRel);
            std::sync::atomic::fence(Ordering::Acquire);
            if before & 1 == 0 && before == self.lock() {
                return Some(value);
            }
        }
        None
    }

    /// A consistent look: `read_counter(index - 1)` gives the hardware counter, `read_clock()` the
    /// user-space clock (the TSC or `cntvct_el0`).
    ///
    /// `None` after `tries` updates in a row (a broken page: take the system call instead). No system
    /// call, no allocation. `read_counter` is called only when the page allows user reads.
    #[inline(always)]
    pub fn snapshot(
        &self,
        tries: u32,
        mut read_counter: impl FnMut(u32) -> u64,
        mut read_clock: impl FnMut() -> u64,
    ) -> Option<Snapshot> {
        self.consistent(tries, |page| {
            let capabilities = page.capabilities();
            let mut seen = Snapshot {
                value: page.offset() as u64,
                index: if capabilities.user_rdpmc() {
                    page.index()
                } else {
                    0
                },
                width: page.pmc_width(),
                time_enabled: page.time_enabled(),
                time_running: page.time_running(),
            };
            if (seen.time_enabled != seen.time_running || seen.index != 0)
                && let Some(passed) = page.time_passed(capabilities, &mut read_clock)
            {
                seen.time_enabled = seen.time_enabled.wrapping_add(passed);
                if seen.index != 0 {
                    seen.time_running = seen.time_running.wrapping_add(passed);
                }
            }
            if let Some(counter) = seen.index.checked_sub(1) {
                seen.value = seen
                    .value
                    .wrapping_add(sign_extend(read_counter(counter), seen.width));
            }
            seen
        })
    }

    /// Nanoseconds since the event was last scheduled, as the page's formula gives them.
    #[inline(always)]
    fn time_passed(&self, caps: Capabilities, clock: &mut impl FnMut() -> u64) -> Option<u64> {
        if !caps.user_time() {
            return None;
        }
        let mut cycles = clock();
        if caps.user_time_short() {
            let base = self.time_cycles();
            cycles = base.wrapping_add(cycles.wrapping_sub(base) & self.time_mask());
        }
        let shift = u32::from(self.time_shift()).min(63);
        let mult = u64::from(self.time_mult());
        let whole = (cycles >> shift).wrapping_mul(mult);
        let rest = (cycles & ((1u64 << shift) - 1)).wrapping_mul(mult) >> shift;
        Some(self.time_offset().wrapping_add(whole).wrapping_add(rest))
    }
}

/// The low `width` bits of `value` as a signed number (the kernel's own reading of a counter).
///
/// ```
/// use truecount_perf::page::sign_extend;
/// assert_eq!(sign_extend(0xffff_ffff_ffff, 48), u64::MAX);
/// assert_eq!(sign_extend(5, 48), 5);
/// assert_eq!(sign_extend(0x8000_0000, 32), 0xffff_ffff_8000_0000);
/// ```
#[inline(always)]
#[must_use]
pub const fn sign_extend(value: u64, width: u16) -> u64 {
    match width {
        1..=63 => {
            let unused = 64 - width as u32;
            (((value << unused) as i64) >> unused) as u64
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;
    use crate::{Event, EventAttr, OpenOptions, Target};

    fn mapped(fake: &FakeKernel) -> (Event, ControlPage) {
        let attr = EventAttr::new(0, 1).read_times();
        let options = OpenOptions::default();
        let event =
            Event::open_with(&fake.shared(), &attr, Target::CallingThread, options).unwrap();
        let page = event.control_page().unwrap();
        (event, page)
    }

    #[test]
    fn a_user_read_equals_the_system_call_for_every_width() {
        for width in [32, 40, 48, 63, 64] {
            let fake = FakeKernel::new();
            fake.set_user_read(true, width);
            let (event, page) = mapped(&fake);
            for step in [0, 1, 0x7fff_fffe, 0x8000_0000, 1 << 47, u64::MAX / 3] {
                fake.add(event.fd(), step);
                let seen = page
                    .view()
                    .snapshot(10, |counter| fake.read_counter(counter), || 0)
                    .unwrap();
                assert_eq!(seen.value, event.read().unwrap().value, "{width} {step}");
                assert_eq!((seen.index, seen.width), (1, width));
            }
        }
    }

    /// Graviton 2's counters, and x86 without full-width writes: restarted every 2^31 - 1 events.
    #[test]
    fn a_count_goes_on_over_restarts_of_a_narrow_counter() {
        let fake = FakeKernel::new();
        fake.set_user_read(true, 32);
        let (event, page) = mapped(&fake);
        let (mut count, mut restarts, mut before) = (0_u64, 0, None);
        for step in [5, 0x7fff_ff00, 0xf9, 1, 1, 0x7fff_fffe, 0x1_8000_0000, 77] {
            fake.add(event.fd(), step);
            count += step;
            let raw = fake.read_counter(0);
            restarts += u32::from(before.replace(raw).is_some_and(|before| raw < before));
            let view = page.view();
            let seen = view
                .snapshot(10, |counter| fake.read_counter(counter), || 0)
                .unwrap();
            assert_eq!((seen.value, seen.width), (count, 32), "{step:#x}: {raw:#x}");
            assert_eq!(event.read().unwrap().value, count);
        }
        assert!(restarts >= 2, "{restarts}");
    }

    #[test]
    fn without_the_capability_the_counter_is_not_touched() {
        let fake = FakeKernel::new();
        fake.set_user_read(false, 48);
        let (event, page) = mapped(&fake);
        fake.add(event.fd(), 5);
        let seen = page
            .view()
            .snapshot(10, |_| panic!("read without permission"), || 0)
            .unwrap();
        assert_eq!(seen.index, 0);
        // Before Linux 3.12 bit 1 was not set and bit 2 meant something else.
        assert!(!Capabilities(4).user_rdpmc() && Capabilities(6).user_rdpmc());
    }

    #[test]
    fn an_update_in_between_is_retried_and_a_page_that_never_rests_is_given_up() {
        let fake = FakeKernel::new();
        let (event, page) = mapped(&fake);
        let mut tries = 0;
        let seen = page.view().snapshot(
            10,
            |counter| {
                tries += 1;
                if tries == 1 {
                    fake.add(event.fd(), 1 << 31); // moves the offset, under the seqlock
                }
                fake.read_counter(counter)
            },
            || 0,
        );
        assert_eq!((tries, seen.unwrap().value), (2, 1 << 31));
        let mut tries = 0;
        let never = page.view().consistent(7, |_| {
            tries += 1;
            fake.add(event.fd(), 1);
        });
        assert_eq!((tries, never), (7, None));
    }

    #[test]
    fn times_follow_the_formula_of_the_header() {
        let fake = FakeKernel::new();
        let (event, page) = mapped(&fake);
        fake.edit_page(event.fd(), |page| {
            page.__bindgen_anon_1.capabilities = 2 | 4 | 8;
            page.time_enabled = 1_000;
            page.time_running = 400;
            page.time_shift = 4;
            page.time_mult = 32; // two nanoseconds a tick
            page.time_offset = 0u64.wrapping_sub(200);
        });
        let now =
            |page: &ControlPage, clock: u64| page.view().snapshot(1, |_| 0, || clock).unwrap();
        let seen = now(&page, 105);
        assert_eq!((seen.time_enabled, seen.time_running), (1_010, 410));
        // A clock of 8 bits that wrapped since 250.
        fake.edit_page(event.fd(), |page| {
            page.__bindgen_anon_1.capabilities = 2 | 4 | 8 | 32;
            page.time_cycles = 250;
            page.time_mask = 0xff;
            page.time_offset = 0u64.wrapping_sub(500);
        });
        assert_eq!(now(&page, 4).time_enabled, 1_000 + 2 * 10);
        // A shift that no kernel writes must not panic.
        fake.edit_page(event.fd(), |page| page.time_shift = 900);
        now(&page, u64::MAX);
    }
}
