//! One counter on one loop: the count between two reads, minus what the same two reads count around a loop of nothing.
//!
//! The cost of the reads themselves is the only thing that is calibrated: by the very same code, around a loop that is
//! one return. It is the least of many tries, since interrupts only add.

use super::tally::Sample;
use super::truth::Quantity;
use crate::loops::{Arena, Body, Length, Loop};
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;
use truecount::{Counter, Policy};

/// Tries that calibrate the reads.
const TRIES: u32 = 200;

/// The count between two reads around a loop. Never inlined, so that every loop is measured by the same instructions.
///
/// # Safety
/// `memory` and `stride` are an arena's that was prepared for the loop, and `times` is no more than it has pages where
/// the loop takes a page a turn.
#[inline(never)]
unsafe fn between<P: Policy>(
    counter: &Counter<P>,
    body: Body,
    times: u64,
    memory: *mut u8,
    stride: u64,
) -> u64 {
    let start = counter.read();
    // SAFETY: the caller's promise.
    unsafe { black_box(body)(times, memory, stride) };
    counter.since(start)
}

/// A counter, calibrated.
pub(super) struct Bench<'c, P: Policy> {
    counter: &'c Counter<P>,
    /// Counted by the reads and the call of an empty loop, without that loop's own share.
    cost: i64,
}

/// As a signed number: counts of some milliseconds are far below 2⁶³.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl<'c, P: Policy> Bench<'c, P> {
    /// Calibrates the reads; `None` where there is no empty loop for this architecture.
    pub(super) fn new(
        counter: &'c Counter<P>,
        truth: Quantity,
        empty: &Loop,
        arena: &Arena,
    ) -> Option<Self> {
        let own = truth.of_loop(empty)?.of(1)?;
        let least = (0..TRIES)
            .map(|_| {
                // SAFETY: the empty loop touches no memory.
                unsafe { between(counter, empty.body, 1, arena.memory(), arena.stride()) }
            })
            .min()?;
        Some(Self {
            counter,
            cost: signed(least).saturating_sub(signed(own)),
        })
    }

    /// Measures once. `times` is cut to the arena's pages by the caller.
    pub(super) fn sample(
        &self,
        each: &Loop,
        length: Length,
        times: u64,
        arena: &mut Arena,
        interrupts: Option<&Counter>,
        line: Option<&'static AtomicU64>,
    ) -> std::io::Result<Sample> {
        arena.prepare(each)?;
        // A line that another thread fights for is not the arena's: that thread must never meet unmapped memory.
        let memory = line.map_or(arena.memory(), |line| line.as_ptr().cast());
        let start = Instant::now();
        let before = interrupts.map(Counter::read);
        // SAFETY: the arena was prepared for this loop just now; a loop that is given a line uses that word only.
        let counted = unsafe { between(self.counter, each.body, times, memory, arena.stride()) };
        let taken = interrupts
            .zip(before)
            .map(|(counter, before)| counter.since(before));
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let truth = signed(length.of(times).unwrap_or(u64::MAX));
        Ok(Sample {
            deviation: signed(counted)
                .saturating_sub(self.cost)
                .saturating_sub(truth),
            interrupts: taken,
            ns,
        })
    }
}
