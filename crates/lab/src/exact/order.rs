//! Which ordering of a counter read is needed here, and what each costs.
//!
//! A read that is not ordered may execute before earlier instructions have retired, so that it misses them (Intel SDM
//! vol. 2, RDPMC; Arm ARM, "Synchronization of changes to the PMU"). Short loops that end in slow instructions show it.

use super::measure::Bench;
use super::tally::Tally;
use super::truth::Quantity;
use crate::loops::{self, Arena};
use serde::{Deserialize, Serialize};
use std::time::Instant;
use truecount::{Counter, Cpuid, Fence, Policy, Serialize as SerializeInstruction, Unordered};

/// Turns of the loop: short, so that what is in flight matters.
const TURNS: u64 = 20;
const SAMPLES: u32 = 2_000;
const READS: u32 = 2_000;

/// One way to order a read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ordering {
    /// `none`, `lfence`, `serialize`, `cpuid`, `isb`.
    pub policy: String,
    /// Why it is not available; then the numbers are missing.
    pub reason: Option<String>,
    /// Measurements of a short loop, and of them those that are below, at, and above the truth.
    pub samples: u64,
    /// Below the truth.
    pub under: u64,
    /// At the truth.
    pub exact: u64,
    /// Above it.
    pub over: u64,
    /// Smallest and largest deviation.
    pub range: Option<(i64, i64)>,
    /// Nanoseconds of one read.
    pub ns: Option<f64>,
    /// Instructions between two reads in a row: what a region costs.
    pub instructions: Option<u64>,
}

/// The orderings of this architecture, each measured with `event`.
pub(super) fn all(event: &str, arena: &mut Arena) -> Vec<Ordering> {
    if cfg!(target_arch = "x86_64") {
        vec![
            one::<Unordered>("none", event, arena),
            one::<Fence>("lfence", event, arena),
            one::<SerializeInstruction>("serialize", event, arena),
            one::<Cpuid>("cpuid", event, arena),
        ]
    } else {
        vec![
            one::<Unordered>("none", event, arena),
            one::<Fence>("isb", event, arena),
        ]
    }
}

/// The loop that ends in the slowest instructions there are.
fn slow() -> Option<&'static loops::Loop> {
    ["sse", "scalar"].into_iter().find_map(loops::named)
}

fn one<P: Policy>(policy: &str, event: &str, arena: &mut Arena) -> Ordering {
    let missing = |reason: String| Ordering {
        policy: policy.to_owned(),
        reason: Some(reason),
        samples: 0,
        under: 0,
        exact: 0,
        over: 0,
        range: None,
        ns: None,
        instructions: None,
    };
    let counter = match Counter::<P>::open(event) {
        Ok(counter) => counter,
        Err(error) => return missing(error.to_string()),
    };
    let (Some(empty), Some(slow)) = (loops::empty(), slow()) else {
        return missing("no loops for this architecture".to_owned());
    };
    let Some(bench) = Bench::new(&counter, Quantity::Instructions, &empty, arena) else {
        return missing("the reads could not be calibrated".to_owned());
    };
    let mut tally = Tally::default();
    for _ in 0..SAMPLES {
        match bench.sample(slow, slow.instructions, TURNS, arena, None, None) {
            Ok(sample) => tally.add(sample),
            Err(error) => return missing(error.to_string()),
        }
    }
    let start = Instant::now();
    for _ in 0..READS {
        std::hint::black_box(counter.read());
    }
    let ns = start.elapsed().as_nanos() as f64 / f64::from(READS);
    let Some(summed) = tally.summed(8, None) else {
        return missing("nothing was measured".to_owned());
    };
    Ordering {
        policy: policy.to_owned(),
        reason: None,
        samples: summed.samples,
        under: summed.under,
        exact: summed.exact,
        over: summed.over,
        range: Some((summed.min, summed.max)),
        ns: Some(ns),
        instructions: Some(counter.overhead(100)),
    }
}

/// Which one is needed, in words. Interrupts make single samples deviate upwards whatever the order, so a way serves
/// when none of its samples is below the truth and nearly all are at it.
pub(super) fn verdict(orderings: &[Ordering]) -> Option<String> {
    let measured: Vec<&Ordering> = orderings.iter().filter(|o| o.samples > 0).collect();
    if measured.is_empty() {
        return None;
    }
    let serves =
        |o: &Ordering| o.under == 0 && o.exact.saturating_mul(100) >= o.samples.saturating_mul(99);
    let cost = |o: &Ordering| {
        o.ns.map_or_else(String::new, |ns| format!(", {ns:.1} ns a read"))
    };
    let best = measured.iter().filter(|o| serves(o)).min_by(|a, b| {
        a.ns.unwrap_or(f64::MAX)
            .total_cmp(&b.ns.unwrap_or(f64::MAX))
    });
    Some(match best {
        Some(o) if o.policy == "none" => format!(
            "reads need no ordering here: none of {} unordered ones missed an instruction{}",
            o.samples,
            cost(o)
        ),
        Some(o) => format!(
            "reads need {}: the cheapest way that never missed{}",
            o.policy,
            cost(o)
        ),
        None => "no ordering makes every short measurement right here".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordering(policy: &str, under: u64, exact: u64, over: u64, ns: f64) -> Ordering {
        Ordering {
            policy: policy.to_owned(),
            reason: None,
            samples: under + exact + over,
            under,
            exact,
            over,
            range: None,
            ns: Some(ns),
            instructions: None,
        }
    }

    #[test]
    fn the_cheapest_way_that_never_misses() {
        let (none, fence) = (
            ordering("none", 3, 997, 0, 5.0),
            ordering("lfence", 0, 999, 1, 9.0),
        );
        let cpuid = ordering("cpuid", 0, 1000, 0, 90.0);
        let said = verdict(&[none, fence.clone(), cpuid]).unwrap();
        assert!(
            said.starts_with("reads need lfence") && said.contains("9.0 ns"),
            "{said}"
        );
        let said = verdict(&[ordering("none", 0, 1000, 0, 5.0), fence]).unwrap();
        assert!(said.contains("no ordering here"), "{said}");
        let said = verdict(&[ordering("none", 1, 999, 0, 5.0)]).unwrap();
        assert!(said.starts_with("no ordering makes"), "{said}");
        assert_eq!(verdict(&[]), None);
    }
}
