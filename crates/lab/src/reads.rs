//! What one read of a counter costs, by the kind of counter and the way to read it.
//!
//! Times: the median over batches, so that an interrupt spoils one batch only. Instructions: counted by another counter
//! of `instructions:u` around a batch, minus the same around an empty batch.

use serde::{Deserialize, Serialize};
use std::time::Instant;
use truecount::{Counter, Cpuid, Fence, Mode, Options, Policy, Unordered};

/// Reads in a batch.
const READS: u32 = 2_000;
/// Batches.
const BATCHES: usize = 15;

/// One way to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// The event.
    pub event: String,
    /// The way: `register, lfence`.
    pub way: String,
    /// Nanoseconds of one read.
    pub ns: Option<f64>,
    /// Instructions in user mode of one read.
    pub instructions: Option<f64>,
    /// `hardware`, `virtual`, `software`.
    pub source: Option<String>,
    /// Why it is not available.
    pub reason: Option<String>,
}

/// Every way there is, those that are not available with their reason.
#[must_use]
pub fn all() -> Vec<Read> {
    let (fence, cpuid) = if cfg!(target_arch = "x86_64") {
        ("register, lfence", true)
    } else {
        ("register, isb", false)
    };
    let mut reads = vec![
        one::<Unordered>("instructions:u", "register, no ordering", Mode::Fast),
        one::<Fence>("instructions:u", fence, Mode::Fast),
    ];
    if cpuid {
        reads.push(one::<Cpuid>(
            "instructions:u",
            "register, cpuid",
            Mode::Fast,
        ));
    }
    reads.extend([
        one::<Fence>("instructions-minus-irqs:u", "two registers", Mode::Fast),
        one::<Fence>("instructions:u", "page protocol", Mode::Safe),
        one::<Fence>("instructions:u", "system call", Mode::Syscall),
        one::<Fence>("page-faults:u", "system call", Mode::Syscall),
        one::<Fence>("wall-time", "clock_gettime", Mode::Auto),
        one::<Fence>("user-time", "getrusage", Mode::Auto),
        one::<Fence>("zero", "constant", Mode::Auto),
    ]);
    reads
}

/// Never inlined: a batch of reads and an empty one differ by the reads alone.
#[inline(never)]
fn batch<P: Policy>(counter: &Counter<P>, reads: u32) {
    for _ in 0..reads {
        std::hint::black_box(counter.read());
    }
}

fn one<P: Policy>(event: &str, way: &str, mode: Mode) -> Read {
    let mut read = Read {
        event: event.to_owned(),
        way: way.to_owned(),
        ns: None,
        instructions: None,
        source: None,
        reason: None,
    };
    let counter = match Options::new().mode(mode).open::<P>(event) {
        Ok(counter) => counter,
        Err(error) => {
            read.reason = Some(error.to_string());
            return read;
        }
    };
    read.source = Some(counter.source().name().to_owned());
    let mut times: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            batch(&counter, READS);
            start.elapsed().as_nanos() as f64 / f64::from(READS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    read.ns = times.get(times.len() / 2).copied();
    read.instructions = instructions(&counter);
    read
}

/// Counted from outside, where instructions can be counted; the least of some tries, since interrupts only add.
fn instructions<P: Policy>(counter: &Counter<P>) -> Option<f64> {
    let outside: Counter = Counter::open("instructions:u").ok()?;
    let least = |reads: u32| {
        (0..9)
            .map(|_| {
                let start = outside.read();
                batch(counter, reads);
                outside.since(start)
            })
            .min()
    };
    // The loop itself is 1 turn a read in both, so one more read is one more turn: what is told includes it.
    let (some, more) = (least(1)?, least(1001)?);
    Some(more.saturating_sub(some) as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_time_or_a_reason() {
        let reads = all();
        assert!(reads.len() >= 9);
        for read in &reads {
            println!("{read:?}");
            assert_ne!(read.ns.is_some(), read.reason.is_some(), "{read:?}");
            assert!(read.ns.is_none_or(|ns| ns.is_finite() && ns >= 0.0));
        }
        let clock = reads.iter().find(|r| r.event == "wall-time").unwrap();
        assert!(clock.ns.is_some_and(|ns| ns > 0.5), "{clock:?}");
    }
}
