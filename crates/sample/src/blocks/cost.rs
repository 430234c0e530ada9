//! What a misprediction costs, from the data: how much longer blocks take after a mispredicted branch.

use super::Block;

/// The cost of a misprediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MispredictionCost {
    /// Interquartile mean over all mispredicted arrivals of (cycles − what the same block takes after a
    /// predicted branch): the mean of the middle half, which neither tail moves.
    pub cycles: f64,
    /// Quartiles of the same.
    pub quartiles: (f64, f64),
    /// Mispredicted arrivals it rests on.
    pub arrivals: u64,
    /// Distinct blocks they are in.
    pub blocks: u64,
}

/// Fewer arrivals give no estimate.
const MIN_ARRIVALS: u64 = 10;

impl MispredictionCost {
    /// Whether there are arrivals enough for an estimate: without one, none shows a cost.
    #[must_use]
    pub fn has_data(blocks: &[Block]) -> bool {
        let seen = blocks
            .iter()
            .filter(|block| block.predicted.cycles.total() >= 5)
            .map(|block| block.mispredicted.cycles.total());
        seen.sum::<u64>() >= MIN_ARRIVALS
    }

    /// Compares each block with itself: only blocks seen at least 5 times after predicted branches take part.
    /// What the block takes otherwise is its most frequent time (its median), not its mean, which misses of the
    /// cache would pull up.
    #[must_use]
    pub fn estimate(blocks: &[Block]) -> Option<Self> {
        let mut extra: Vec<(f64, u64)> = Vec::new();
        let mut used = 0;
        for block in blocks {
            if block.predicted.cycles.total() < 5 || block.mispredicted.cycles.is_empty() {
                continue;
            }
            let Some(usual) = block.predicted.cycles.percentile(0.5) else {
                continue;
            };
            used += 1;
            for (cycles, n) in block.mispredicted.cycles.bins() {
                extra.push((f64::from(*cycles) - f64::from(usual), *n));
            }
        }
        let arrivals: u64 = extra.iter().map(|e| e.1).sum();
        if arrivals < MIN_ARRIVALS {
            return None;
        }
        extra.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = |q: f64| {
            let rank = (q * arrivals as f64).ceil().max(1.0) as u64;
            let mut seen = 0;
            for (value, n) in &extra {
                seen += n;
                if seen >= rank {
                    return *value;
                }
            }
            0.0
        };
        let (low, high) = (at(0.25), at(0.75));
        let middle = extra.iter().filter(|e| (low..=high).contains(&e.0));
        let (sum, n) = middle.fold((0.0, 0u64), |(sum, n), (v, k)| (sum + v * *k as f64, n + k));
        let cycles = sum / n.max(1) as f64;
        // A misprediction takes no time away: blocks that take as long either way (indirect branches whose targets
        // differ) show no cost.
        if cycles <= 0.0 {
            return None;
        }
        Some(Self {
            cycles,
            quartiles: (low, high),
            arrivals,
            blocks: used,
        })
    }
}
