//! How a raw counter value moves, and what the difference of two is worth.
//!
//! The kernel does not let a counter run through its whole width: it starts it at `-period` and, when it overflows,
//! starts it there again (x86 `x86_perf_event_set_period`, Arm `armpmu_event_set_period` in Linux). On x86 the period
//! is 2^47 - 1 for 48-bit counters with full-width writes and 2^31 - 1 without, on Arm half the counter's range less
//! one. Rescheduling a thread continues where the counter stood. So between two values the counter advanced by their
//! difference modulo 2^width, or, if it was restarted in between, by that plus the period, which shows, because the
//! difference is then larger than any period.

/// Fast reads need at least this much: 2^40 - 1 events (minutes). Below it only the page's offset helps.
const MIN_PERIOD: u64 = (1 << 40) - 1;

/// Width and restart period of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    mask: u64,
    period: u64,
}

impl Geometry {
    /// Values that are counts already, of 64 bits.
    pub(crate) const PLAIN: Self = Self {
        mask: u64::MAX,
        period: u64::MAX,
    };

    /// From the page's width and a raw value read soon after opening, when the counter still stands near its start.
    pub(crate) fn of_new_counter(width: u16, raw: u64) -> Option<Self> {
        let mask = match width {
            1..=63 => (1u64 << width) - 1,
            64 => u64::MAX,
            _ => return None,
        };
        // Counts left until the overflow: a little less than the period, which is one less than a power of two.
        let left = raw.wrapping_neg() & mask;
        let period = if left == 0 {
            mask
        } else {
            u64::MAX >> left.leading_zeros()
        };
        Some(Self {
            mask,
            period: period & mask,
        })
    }

    /// Whether raw values can be compared without the page's offset.
    pub(crate) fn is_roomy(&self) -> bool {
        self.period >= MIN_PERIOD
    }

    /// Events between two raw values (or differences of raw values).
    #[inline(always)]
    pub(crate) fn elapsed(&self, start: u64, end: u64) -> u64 {
        let modular = end.wrapping_sub(start) & self.mask;
        if modular > self.period {
            modular.wrapping_add(self.period) & self.mask
        } else {
            modular
        }
    }

    /// Whether a counter comes from `start` to `end`: the other way round it is almost its whole range.
    pub(crate) fn in_order(&self, start: u64, end: u64) -> bool {
        self.elapsed(start, end) <= self.period - self.period / 16
    }

    /// What a wrap is corrected by: one less than a power of two.
    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    /// The mask of the counter's width.
    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD_48: u64 = (1 << 47) - 1;
    const MASK_48: u64 = (1 << 48) - 1;

    #[test]
    fn what_kernels_program() {
        // x86 with full-width writes, without, arm64 of 32 and 64 bits, a virtual counter that starts at 0.
        let of = |width, period: u64, count: u64| {
            let g =
                Geometry::of_new_counter(width, period.wrapping_neg().wrapping_add(count)).unwrap();
            (g.period, g.is_roomy())
        };
        assert_eq!(of(48, PERIOD_48, 12_345), (PERIOD_48, true));
        assert_eq!(of(48, (1 << 31) - 1, 12_345), ((1 << 31) - 1, false));
        assert_eq!(of(32, (1 << 31) - 1, 12_345), ((1 << 31) - 1, false));
        assert_eq!(of(64, (1 << 63) - 1, 0), ((1 << 63) - 1, true));
        for raw in [0, 5] {
            let g = Geometry::of_new_counter(48, raw).unwrap();
            assert_eq!((g.period, g.is_roomy()), (MASK_48, true));
        }
        assert_eq!(Geometry::of_new_counter(0, 1), None);
        assert_eq!(Geometry::of_new_counter(65, 1), None);
    }

    /// A counter of 32 bits, as a kernel drives it: known as one, never read without the page's offset, and right over
    /// one restart.
    #[test]
    fn narrow_counters_are_left_to_the_page() {
        use truecount_perf::fake::FakeKernel;
        use truecount_perf::{Event, EventAttr, OpenOptions, Target};
        for (width, roomy) in [(32, false), (40, false), (48, true), (64, true)] {
            let fake = FakeKernel::new();
            fake.set_user_read(true, width);
            let (attr, options) = (EventAttr::new(0, 1), OpenOptions::default());
            let event =
                Event::open_with(&fake.shared(), &attr, Target::CallingThread, options).unwrap();
            fake.add(event.fd(), 1234);
            let g = Geometry::of_new_counter(width, fake.read_counter(0)).unwrap();
            assert_eq!(g.is_roomy(), roomy, "{width}");
            assert_eq!(g.period(), u64::MAX >> (65 - width), "{width}");
            for step in [1, 1000, g.period() - 2300, 64, g.period() - 1] {
                let before = fake.read_counter(0);
                fake.add(event.fd(), step);
                assert_eq!(g.elapsed(before, fake.read_counter(0)), step, "{width}");
            }
        }
    }

    #[test]
    fn counts_go_on_when_the_kernel_restarts_the_counter() {
        let g = Geometry {
            mask: MASK_48,
            period: PERIOD_48,
        };
        // 3 events before the overflow; then 7 after it, of which the kernel saw 2 before it restarted the counter.
        let start = MASK_48 - 2;
        let restarted = (2u64.wrapping_sub(PERIOD_48) & MASK_48) + 5;
        assert_eq!(g.elapsed(start, restarted), 10);
        // Not yet restarted: the counter has just wrapped.
        assert_eq!(g.elapsed(start, 7), 10);
    }

    #[test]
    fn plain_counts() {
        assert_eq!(Geometry::PLAIN.elapsed(5, 12), 7);
    }

    #[test]
    fn points_in_the_wrong_order_are_known() {
        let of = |width, period: u64| Geometry::of_new_counter(width, period.wrapping_neg());
        let kernels = [of(48, PERIOD_48), of(48, 0), of(64, (1 << 63) - 1)];
        for g in kernels
            .into_iter()
            .map(Option::unwrap)
            .chain([Geometry::PLAIN])
        {
            for start in [
                0,
                5,
                g.mask() - 70_000,
                g.period().wrapping_neg() & g.mask(),
            ] {
                for count in [1, 1000, 1 << 40] {
                    let end = start.wrapping_add(count) & g.mask();
                    assert!(
                        g.in_order(start, end) && !g.in_order(end, start),
                        "{g:?} {start} {count}"
                    );
                }
                assert!(g.in_order(start, start), "{g:?} {start}");
            }
        }
    }

    proptest! {
        /// A model of the kernel: a counter that starts at -period and is restarted after some delay.
        #[test]
        fn elapsed_equals_the_model(width in prop_oneof![Just(48u16), Just(64), Just(40)], before in 0u64..1 << 50,
                                    count in 0u64..1 << 38, late in 0u64..1000) {
            let mask = u64::MAX >> (64 - u32::from(width));
            let period = mask >> 1;
            let raw = |total: u64| {
                // The restart happens `late` events after each overflow.
                let over = total % period;
                let restarted = total < period || over >= late;
                if restarted { over.wrapping_sub(period) & mask } else { over }
            };
            let g = Geometry { mask, period };
            prop_assert_eq!(g.elapsed(raw(before), raw(before + count)), count);
        }
    }
}
