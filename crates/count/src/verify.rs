//! Whether a counter that was just opened really counts, and where: nothing is believed that can be tried.

use crate::arch;
use crate::clocks::wall_ns;
use crate::core::Core;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::parts::Part;
use crate::policy::{Fence, Policy};
use truecount_perf::Times;

/// Iterations of the loop that a new counter must count.
const ITERATIONS: u64 = 1000;

/// How long an event that shares the PMU may take until it is on it: the kernel changes turns every few ms
/// (`perf_event_mux_interval_ms`, 4 by default), and there may be some turns before.
const PATIENCE_NS: u64 = 60_000_000;

/// Index and geometry of a new event that is on the PMU.
pub(crate) fn steady(part: &Part) -> Option<(u32, Geometry)> {
    // The thread may be moved between the two looks at the index.
    for _ in 0..8 {
        let index = part.index()?;
        let geometry = part.geometry(index)?;
        if part.index() == Some(index) {
            return Some((index, geometry));
        }
    }
    None
}

/// Whether events that were just enabled get on the PMU, asked of their `times`: at once, or with `patience` in a later
/// turn. `None` of `times`: a pinned event has lost its counter.
///
/// # Errors
/// [`Error::Descheduled`].
pub(crate) fn scheduled(
    event: &str,
    patience: bool,
    times: impl Fn() -> Option<Times>,
) -> Result<(), Error> {
    let begun = wall_ns();
    loop {
        arch::known_loop(ITERATIONS);
        let seen = times();
        // Without any time enabled (a scripted kernel whose clock stands) nothing is known against it.
        if seen.is_some_and(|times| times.running > 0 || times.enabled == 0) {
            return Ok(());
        }
        let late = wall_ns().saturating_sub(begun) > PATIENCE_NS;
        if !patience || late || seen.is_none() {
            return Err(Error::Descheduled {
                event: event.to_owned(),
                enabled_ns: seen.unwrap_or_default().enabled,
                running_ns: 0,
            });
        }
    }
}

/// Runs a loop of known length between readings by the kernel: an instruction counter must have counted it, and what
/// user space reads must lie between what the kernel reads before and after. For the ways to read that cannot be
/// checked by their registers.
pub(crate) fn verify_counts(core: &Core, instructions: bool) -> Result<(), Error> {
    let before = core.reading()?;
    let inside = core.read_any::<Fence>();
    let length = arch::known_loop(ITERATIONS);
    let after = core.reading()?;
    let ran = after.since(&before);
    let whole = ran.enabled_ns == ran.running_ns && ran.enabled_ns > 0;
    let unverified = |expected, got| Error::Unverified {
        event: core.name.clone(),
        expected,
        got,
    };
    if !whole {
        // It shares the PMU: its readings are scaled and say so.
        return Ok(());
    }
    if let (true, Some(expected)) = (instructions, length)
        && ran.raw < expected
    {
        return Err(unverified(expected, ran.raw));
    }
    let way = inside.wrapping_sub(before.raw);
    if way > ran.raw {
        return Err(unverified(before.raw, inside));
    }
    Ok(())
}

/// Reads, runs a loop of known length, reads: the counter must have counted the loop, and the kernel must agree.
pub(crate) fn verify<P: Policy>(core: &Core, instructions: bool) -> Result<(), Error> {
    let start = core.read_any::<P>();
    let length = arch::known_loop(ITERATIONS);
    let end = core.read_any::<P>();
    let got = core.geometry.elapsed(start, end);
    if let (true, Some(expected)) = (instructions, length) {
        // Above it only what surrounds the loop, interrupts, and what they bring along.
        if got < expected || got > expected.saturating_mul(50) {
            return Err(Error::Unverified {
                event: core.name.clone(),
                expected,
                got,
            });
        }
    }
    core.check()
}
