//! What a recorder reads at the ends of a region.
//!
//! Wall time is the time stamp counter where the kernel takes it as its own clock (then it is
//! invariant and the same on all cores: `Documentation/virt/kvm/x86/timekeeping.rst`, and
//! `current_clocksource` reads `tsc`). It is calibrated against `CLOCK_MONOTONIC` once, over 10 ms
//! (a few parts in a million), and not adjusted later, so that times never run backwards. Reads are
//! not fenced: a read may drift by some instructions, which is far below a region's own cost.

use super::error::RecorderError;
use crate::arch;
use crate::clocks::wall_ns;
use crate::core::Reader;
use crate::geometry::Geometry;
use crate::{Counter, Options, PerThread, Stamp};
use std::ptr::NonNull;

/// The wall clock, the same on all threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wall {
    /// Ticks or nanoseconds at the start.
    start: u64,
    /// Nanoseconds a tick, times 2^32; 0 for `CLOCK_MONOTONIC`.
    factor: u64,
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 CPU; where it is trapped (PR_SET_TSC) the kernel's clock
    // is no TSC for this process either, and `invariant` would have faulted before any region.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn ticks() -> u64 {
    0
}

/// Whether the kernel trusts the time stamp counter.
fn invariant() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .is_ok_and(|source| source.trim() == "tsc")
}

/// Ticks and nanoseconds of the same moment: the pair with the least time between its reads.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..50 {
        let before = ticks();
        let ns = wall_ns();
        let after = ticks();
        let width = after.saturating_sub(before);
        if width < best.0 {
            best = (width, before + width / 2, ns);
        }
    }
    (best.1, best.2)
}

impl Wall {
    pub(super) fn new() -> Self {
        if invariant() {
            let first = pair();
            std::thread::sleep(std::time::Duration::from_millis(10));
            let last = pair();
            let (ticks_passed, ns) = (
                last.0.saturating_sub(first.0),
                last.1.saturating_sub(first.1),
            );
            let factor = (u128::from(ns) << 32) / u128::from(ticks_passed.max(1));
            // Between 0.1 and 10 GHz; anything else is not a clock to rely on.
            if let Ok(factor) = u64::try_from(factor)
                && ((1 << 32) / 10..(1_u64 << 32) * 10).contains(&factor)
            {
                return Self {
                    start: ticks(),
                    factor,
                };
            }
        }
        Self {
            start: wall_ns(),
            factor: 0,
        }
    }

    /// Nanoseconds since the start.
    #[inline(always)]
    fn now(self) -> u64 {
        if self.factor == 0 {
            return wall_ns().saturating_sub(self.start);
        }
        let passed = ticks().saturating_sub(self.start);
        // 48 bits of nanoseconds are what the format takes; the product fits in 128 bits.
        ((u128::from(passed) * u128::from(self.factor)) >> 32) as u64
    }

    pub(super) fn source(self) -> &'static str {
        if self.factor == 0 {
            "CLOCK_MONOTONIC"
        } else {
            "time stamp counter"
        }
    }
}

/// One clock of a recorder, before any thread uses it.
#[derive(Debug)]
enum Kind {
    Wall(Wall),
    Counter(PerThread),
}

/// The clocks of a recorder.
#[derive(Debug)]
pub(crate) struct Clocks(Vec<Kind>);

/// How a file describes its counter.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) name: String,
    pub(super) units: Vec<(String, u64)>,
    pub(super) source: String,
}

impl Clocks {
    pub(super) fn new(counters: &[&str], options: &Options) -> Result<Self, RecorderError> {
        let kind = |counter: &&str| {
            if *counter == "wall-time" {
                return Ok(Kind::Wall(Wall::new()));
            }
            let counter = PerThread::with_options(counter, options.clone());
            counter.map(Kind::Counter).map_err(RecorderError::Counter)
        };
        Ok(Self(counters.iter().map(kind).collect::<Result<_, _>>()?))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn describe(&self) -> Result<Vec<Description>, RecorderError> {
        self.0
            .iter()
            .map(|kind| {
                let time = || {
                    [
                        ("ns", 1),
                        ("μs", 1000),
                        ("ms", 1_000_000),
                        ("s", 1_000_000_000),
                    ]
                    .map(|(name, size)| (name.to_owned(), size))
                    .to_vec()
                };
                Ok(match kind {
                    Kind::Wall(wall) => Description {
                        name: "wall-time".to_owned(),
                        units: time(),
                        source: wall.source().to_owned(),
                    },
                    Kind::Counter(counter) => {
                        let counter = counter.counter().map_err(RecorderError::Counter)?;
                        let name = counter.name().to_owned();
                        let plain = name.split([':', '/']).next().unwrap_or(&name).to_owned();
                        let units = match counter.unit() {
                            "ns" => time(),
                            "count" => vec![(plain, 1)],
                            other => vec![(other.to_owned(), 1)],
                        };
                        Description {
                            name,
                            units,
                            source: counter.source().name().to_owned(),
                        }
                    }
                })
            })
            .collect()
    }

    /// The clocks of the calling thread.
    pub(super) fn here(&self) -> Result<Vec<Clock>, crate::Error> {
        self.0
            .iter()
            .map(|kind| match kind {
                Kind::Wall(wall) => Ok(Clock::Wall(*wall)),
                Kind::Counter(counter) => {
                    let counter = counter.counter()?;
                    Ok(Clock::Counter {
                        start: counter.read(),
                        counter,
                    })
                }
            })
            .collect()
    }
}

/// One clock of one thread. A counter of a thread begins with the thread's first region.
#[derive(Debug)]
pub(super) enum Clock {
    Wall(Wall),
    Counter { counter: Counter, start: Stamp },
}

/// A recorder's only clock where it is not read from registers, chosen once a thread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hot {
    /// Wall time by the time stamp counter or the system call.
    Wall(Wall),
    /// Several clocks, or one that is read by the kernel.
    Other,
}

impl Hot {
    pub(super) fn of(clock: &Clock) -> Self {
        match clock {
            Clock::Wall(wall) => Self::Wall(*wall),
            Clock::Counter { .. } => Self::Other,
        }
    }
}

/// From raw points of a counter to offsets since the thread's start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Points {
    start: u64,
    mask: u64,
    /// Offsets up to here need no correction and fit the file: one less than a power of two.
    pub(super) limit: u64,
    geometry: Geometry,
}

impl Points {
    /// Of a counter; a clock of another kind has no raw points.
    pub(super) fn of(clock: &Clock) -> Self {
        let (start, geometry) = match clock {
            Clock::Wall(_) => (0, Geometry::PLAIN),
            Clock::Counter { counter, start } => (start.raw(), counter.core.geometry),
        };
        Self {
            start,
            mask: geometry.mask(),
            limit: geometry.period().min((1 << 47) - 1),
            geometry,
        }
    }

    /// The offset, right where it is at most `limit`.
    #[inline(always)]
    pub(super) fn plain(&self, raw: u64) -> u64 {
        raw.wrapping_sub(self.start) & self.mask
    }

    /// The offset, right always.
    pub(super) fn elapsed(&self, raw: u64) -> u64 {
        self.geometry.elapsed(self.start, raw)
    }
}

impl Wall {
    #[inline(always)]
    pub(super) fn read(self) -> u64 {
        self.now()
    }
}

impl Clock {
    /// What the counter is read from: the one register, or the state of two. They must not outlive the clock.
    pub(super) fn registers(&self) -> (Option<u32>, Option<NonNull<arch::Difference>>) {
        match self {
            Self::Wall(_) => (None, None),
            Self::Counter { counter, .. } => match &counter.core.reader {
                Reader::Single { index } => (Some(*index), None),
                Reader::Difference(state) => (None, NonNull::new(state.get())),
                _ => (None, None),
            },
        }
    }

    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        match self {
            Self::Wall(wall) => wall.now(),
            Self::Counter { counter, start } => counter.since(*start),
        }
    }
}
