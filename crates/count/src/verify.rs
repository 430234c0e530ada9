//! Whether a counter that was just opened really counts, and where: nothing is believed that can be tried.

use crate::arch;
use crate::core::Core;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::parts::Part;
use crate::policy::Policy;

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

/// Reads, runs a loop of known length, reads: the counter must have counted the loop, and the kernel must agree.
pub(crate) fn verify<P: Policy>(core: &Core, instructions: bool) -> Result<(), Error> {
    const ITERATIONS: u64 = 1000;
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
