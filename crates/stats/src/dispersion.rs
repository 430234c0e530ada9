//! Whether one set of counts varies more than another: a permutation test of their distances from the median.
//!
//! The median's own distance, always 0, would hide part of what the others say (the structural zero of Hines and O'Hara
//! Hines, "Increased power with modified forms of the Levene test", Biometrics 56, 2000): it is left out.

use crate::rng::Rng;

/// Shuffles of the test; with the observed order they make 10,000.
const SHUFFLES: u32 = 9_999;

/// The middle of the counts: an observed one, the upper of two. `None` without any.
///
/// ```
/// assert_eq!(truecount_stats::median(&[9, 1, 5]), Some(5));
/// assert_eq!(truecount_stats::median(&[]), None);
/// ```
#[must_use]
pub fn median(counts: &[u64]) -> Option<u64> {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Distances of the others from the median.
fn distances(counts: &[u64]) -> Vec<f64> {
    let Some(median) = median(counts) else {
        return Vec::new();
    };
    let own = counts.iter().position(|&count| count == median);
    let others = counts.iter().enumerate().filter(|&(at, _)| Some(at) != own);
    others.map(|(_, &c)| c.abs_diff(median) as f64).collect()
}

/// The probability that so much of the distances from the median falls to `counts`, if both vary alike: a one-sided
/// permutation test (9,999 shuffles with a fixed seed, so that equal counts give equal answers).
///
/// ```
/// let quiet = [664, 620, 620, 664, 664];
/// let wide = [150_753, 162_721, 171_140, 167_854, 166_389];
/// assert!(truecount_stats::varies_more(&quiet, &wide) < 0.05);
/// ```
#[must_use]
pub fn varies_more(reference: &[u64], counts: &[u64]) -> f64 {
    let mine = distances(counts);
    let mut all = distances(reference);
    all.extend(&mine);
    let observed: f64 = mine.iter().sum();
    let mut rng = Rng::new(1);
    let mut hits = 0u32;
    for _ in 0..SHUFFLES {
        rng.shuffle(&mut all);
        let sum: f64 = all.iter().take(mine.len()).sum();
        hits += u32::from(sum >= observed);
    }
    f64::from(hits + 1) / f64::from(SHUFFLES + 1)
}

/// The least number of runs on each side with which [`varies_more`] can fall below `level` in one of `tests` tests, with
/// Holm's correction: as many distances as can be drawn in enough ways.
///
/// ```
/// assert_eq!(truecount_stats::runs_to_tell(0.05, 1), 5);
/// assert_eq!(truecount_stats::runs_to_tell(0.05, 13), 7);
/// ```
#[must_use]
pub fn runs_to_tell(level: f64, tests: usize) -> usize {
    let mut ways = 1.0;
    let mut distances = 0usize;
    // The central binomial coefficient: C(2m, m) = C(2m-2, m-1) (2m)(2m-1) / m².
    while tests.max(1) as f64 / ways >= level && distances < 30 {
        distances += 1;
        let m = distances as f64;
        ways = ways * (2.0 * m) * (2.0 * m - 1.0) / (m * m);
    }
    // The median has no distance from itself.
    distances + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_more_is_told_from_what_does_not() {
        let residual = [664, 620, 620, 664, 664];
        let wide = [150_753, 162_721, 171_140, 167_854, 166_389];
        // 1 of the 70 ways to choose four distances of eight.
        let p = varies_more(&residual, &wide);
        assert!((p - 1.0 / 70.0).abs() < 0.005, "{p}");
        assert!(varies_more(&residual, &residual) > 0.3);
        assert!(varies_more(&wide, &residual) > 0.9);
        assert!((varies_more(&[5], &[7]) - 1.0).abs() < 1e-9);
    }

    /// Said to vary more by chance as often as the level says: two sets that do not differ.
    #[test]
    fn the_level_is_kept() {
        let mut rng = Rng::new(7);
        for runs in [5, 8] {
            let mut draw = || -> Vec<u64> {
                let one = |rng: &mut Rng| (0..12).map(|_| rng.below(1000)).sum();
                (0..runs).map(|_| one(&mut rng)).collect()
            };
            let tries = 200;
            let hits = (0..tries).filter(|_| varies_more(&draw(), &draw()) < 0.05);
            // 5 % of 200, and four standard errors.
            let hits = hits.count();
            assert!(hits <= 10 + 13, "{hits} of {tries} with {runs} runs");
        }
    }
}
