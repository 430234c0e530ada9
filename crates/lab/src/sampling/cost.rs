//! What was found, cell by cell, with intervals over the visits.

use super::Sums;
use super::cell::{Cell, Event, Payload};
use super::gaps::Spread;
use super::registers::RegisterUse;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use truecount_stats::{Options, compare_paired, walsh_interval, walsh_median};

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Hodges–Lehmann estimate over the visits.
    pub value: f64,
    /// 95 % interval, where there were visits enough for one.
    pub interval: Option<(f64, f64)>,
    /// Visits (or rounds) that it rests on.
    pub n: u64,
}

/// What one cell cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Which.
    #[serde(flatten)]
    pub cell: Cell,
    /// Events from one sample to the next, where that is fixed.
    pub period: Option<u64>,
    /// Visits.
    pub visits: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples really taken a second of CPU time.
    pub rate_seen: f64,
    /// Time that one sample stole, ns, as the program saw it.
    pub stolen: Option<Spread>,
    /// The visits' medians of it, ns: what a sample typically costs.
    pub stolen_typical: Option<Estimate>,
    /// Share of CPU time that sampling stole: `rate_seen` times `stolen_typical`.
    pub share: Option<f64>,
    /// Time in the kernel's handler, ns, by its tracepoints.
    pub handler: Option<Spread>,
    /// CPU time of fixed work against undisturbed work, 1 is not a slowdown.
    pub slowdown: Option<Estimate>,
    /// Times that the kernel stopped sampling because there were too many interrupts.
    pub throttled: u64,
    /// Records lost because the ring was full.
    pub lost: u64,
    /// Gaps left out: with two samples in them, or with the thread off the CPU.
    pub left_out: u64,
    /// Samples in no gap.
    pub unmatched: u64,
    /// Frames of a call chain, on average.
    pub frames: Option<f64>,
    /// Branches of a branch stack, on average.
    pub branches: Option<f64>,
}

/// A cell that is not available, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotHere {
    /// Which.
    #[serde(flatten)]
    pub cell: Cell,
    /// Why.
    pub reason: String,
    /// Whether hardware counters (or branch stacks) would give it.
    pub needs_hardware: bool,
}

/// Where the handler's time is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handler {
    /// The event sampled.
    pub event: Event,
    /// The tracepoints.
    pub tracepoints: Option<String>,
    /// Why there are none.
    pub reason: Option<String>,
}

/// Everything measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it was stopped before every cell was visited.
    pub partial: bool,
    /// Seconds it took.
    pub seconds: f64,
    /// Whole rounds.
    pub rounds: u64,
    /// Where.
    pub cpu: Option<usize>,
    /// From one look at the clock to the next, ns.
    pub step_ns: u64,
    /// Longer gaps are seen, ns.
    pub threshold_ns: u64,
    /// Time that the machine steals without sampling: share of an undisturbed visit.
    pub background_share: Option<f64>,
    /// Each cell.
    pub cells: Vec<Cost>,
    /// Cells that are not available here.
    pub not_here: Vec<NotHere>,
    /// Where handler times are from.
    pub handlers: Vec<Handler>,
    /// Cycles a second, where they can be counted.
    pub cycles_per_second: Option<f64>,
    /// Whether samples see the kernel, too.
    pub sees_kernel: bool,
    /// Register accesses of the PMU's interrupt, where the tracepoints of the group msr can be counted.
    #[serde(default)]
    pub registers: Vec<RegisterUse>,
    /// Why not.
    #[serde(default)]
    pub registers_reason: Option<String>,
}

pub(super) fn cost(cell: Cell, period: Option<u64>, sums: &Sums, base: &Sums) -> Cost {
    let rate_seen = sums.samples as f64 / sums.seconds.max(1e-9);
    let stolen = Spread::of(&sums.stolen);
    let typical = estimate(&sums.medians);
    let each = |total: u64, wanted: bool| {
        (wanted && sums.samples > 0).then(|| total as f64 / sums.samples as f64)
    };
    Cost {
        cell,
        period,
        visits: sums.visits,
        samples: sums.samples,
        rate_seen,
        share: typical.map(|typical| rate_seen * typical.value / 1e9),
        stolen,
        stolen_typical: typical,
        handler: Spread::of(&sums.handler),
        slowdown: slowdown(&base.work, &sums.work),
        throttled: sums.taken.throttled,
        lost: sums.taken.lost,
        left_out: sums.left_out,
        unmatched: sums.unmatched,
        frames: each(sums.taken.frames, cell.payload == Payload::Fp),
        branches: each(sums.taken.branches, cell.payload.is_branch_stack()),
    }
}

/// Of values, one a visit: Hodges–Lehmann, with its 95 % interval.
#[must_use]
pub fn estimate(means: &[f64]) -> Option<Estimate> {
    let value = walsh_median(means);
    value.is_finite().then(|| Estimate {
        value,
        interval: walsh_interval(means, 0.05).map(|(low, high, _)| (low, high)),
        n: means.len() as u64,
    })
}

/// The factor by which work took longer, from the times of the same rounds.
#[must_use]
pub fn slowdown(base: &BTreeMap<usize, f64>, other: &BTreeMap<usize, f64>) -> Option<Estimate> {
    let pairs = other
        .iter()
        .filter_map(|(round, &time)| Some((*base.get(round)?, time)));
    let (base, other): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let compared = compare_paired(&base, &other, &Options::default()).ok()?;
    compared.ratio.is_finite().then_some(Estimate {
        value: compared.ratio,
        interval: compared.interval,
        n: base.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_compared_round_by_round() {
        let base: BTreeMap<usize, f64> = (0..10).map(|i| (i, 100.0 + i as f64)).collect();
        let slower: BTreeMap<usize, f64> = base.iter().map(|(&i, &t)| (i, t * 1.1)).collect();
        let s = slowdown(&base, &slower).unwrap();
        assert!((s.value - 1.1).abs() < 1e-9, "{s:?}");
        assert!(
            s.interval
                .is_some_and(|(low, high)| low > 1.09 && high < 1.11)
        );
        // A round without its partner does not count.
        let other: BTreeMap<usize, f64> = [(3, 103.0), (77, 1e9)].into();
        assert_eq!(slowdown(&base, &other).unwrap().n, 1);
        assert!(slowdown(&base, &BTreeMap::new()).is_none());
        assert!(estimate(&[]).is_none());
    }
}
