//! Where a noisy series changed: E-Divisive.
//!
//! The statistic, and the test by permutation within what is already split, are Matteson and James, "A Nonparametric
//! Approach for Multiple Change Point Analysis of Multivariate Data" (JASA 109, 2014), with α = 1. Its use on
//! performance over commits is Daly et al., "The Use of Change Point Detection to Identify Software Performance
//! Regressions in a Continuous Integration System" (ICPE 2020). Windows that slide by half, candidates by a weaker level,
//! and the merging of those that do not hold afterwards are Fleming et al. (ICPE 2023, doi 10.1145/3578244.3583719): a long stable stretch does not drown a short change, and the time grows with
//! the length of the series.
//!
//! A short stretch has too few orders for a permutation test to be sure of anything; there the means decide, as Fleming
//! et al. have it everywhere.
//!
//! Permutations end early where it is clear that the change is not significant (Besag and Clifford, "Sequential Monte
//! Carlo p-values", Biometrika 78, 1991): after [`ENOUGH`] that are at least as extreme.

mod permuted;

use crate::rng::Rng;
use crate::student::t_test;
use permuted::Room;

/// How change points are looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangeOptions {
    /// A change point is kept where its p is below this. Default 0.001.
    pub significance: f64,
    /// Values that are looked at together. Default 50.
    pub window: usize,
    /// Smallest change of the mean that is kept, as a share. Default 0.
    pub floor: f64,
    /// Seed of the permutations. Default 1.
    pub seed: u64,
}

impl Default for ChangeOptions {
    fn default() -> Self {
        Self {
            significance: 0.001,
            window: 50,
            floor: 0.0,
            seed: 1,
        }
    }
}

/// Where a series changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub index: usize,
    /// Mean from the change before it, or the beginning.
    pub before: f64,
    /// Mean to the next change, or the end.
    pub after: f64,
    /// p of the difference of the means (t-test).
    pub p: f64,
}

impl ChangePoint {
    /// Relative change of the mean, seen from the larger side: the same for a rise and for its way back.
    #[must_use]
    pub fn magnitude(&self) -> f64 {
        let (low, high) = (
            self.before.abs().min(self.after.abs()),
            (self.after - self.before).abs(),
        );
        if high == 0.0 { 0.0 } else { high / low }
    }
}

/// A shorter stretch has too few orders for a small p: its best split may also be shown by the means.
const SHORT: usize = 20;
/// With so many values on each side.
const SIDE: usize = 3;

/// So many permutations at least as extreme end a test.
const ENOUGH: usize = 10;

/// Level of candidates: weaker than that of what is kept.
const WEAKER: f64 = 10.0;

/// The changes of a series, in its order. Values that are not finite are an error of the caller's and have no change.
///
/// ```
/// use truecount_stats::{ChangeOptions, change_points};
/// let series: Vec<f64> = (0..40).map(|i| if i < 25 { 10.0 } else { 12.0 } + f64::from(i % 3)).collect();
/// let found = change_points(&series, &ChangeOptions::default());
/// assert_eq!(found.iter().map(|c| c.index).collect::<Vec<_>>(), [25]);
/// ```
#[must_use]
pub fn change_points(series: &[f64], options: &ChangeOptions) -> Vec<ChangePoint> {
    if series.len() < 3 || series.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let weak = (options.significance * WEAKER).min(0.5);
    let window = options.window.max(4);
    let mut rng = Rng::new(options.seed);
    let mut found: Vec<usize> = Vec::new();
    let mut start = 0;
    while start < series.len() {
        let end = (start + window).min(series.len());
        let inside = series.get(start..end).unwrap_or_default();
        let new = split(inside, weak, &mut rng);
        let last = new.last().map_or(0, |index| start + index);
        found.extend(new.into_iter().map(|index| start + index));
        start = last.max(start + window / 2);
    }
    found.sort_unstable();
    found.dedup();
    merge(series, found, options)
}

/// Splits a window as long as the best split is significant.
fn split(values: &[f64], significance: f64, rng: &mut Rng) -> Vec<usize> {
    let mut splits: Vec<usize> = Vec::new();
    loop {
        let parts = parts(values.len(), &splits);
        let Some((index, q)) = best(values, &parts) else {
            return splits;
        };
        if !(apart(values, &parts, index, significance)
            || significant(values, &parts, q, significance, rng))
        {
            return splits;
        }
        splits.push(index);
        splits.sort_unstable();
    }
}

/// The stretches between splits.
fn parts(len: usize, splits: &[usize]) -> Vec<(usize, usize)> {
    let starts = std::iter::once(0).chain(splits.iter().copied());
    let ends = splits.iter().copied().chain(std::iter::once(len));
    starts.zip(ends).collect()
}

/// The best split of all stretches, and its statistic.
fn best(values: &[f64], parts: &[(usize, usize)]) -> Option<(usize, f64)> {
    let mut best: Option<(usize, f64)> = None;
    for &(start, end) in parts {
        let inside = values.get(start..end).unwrap_or_default();
        if let Some((index, q)) = best_of(inside)
            && best.is_none_or(|(_, before)| q > before)
        {
            best = Some((start + index, q));
        }
    }
    best
}

/// The split τ of a stretch, of which only the first κ values need to be looked at, with the largest
/// Q = mn/(m+n) · (2/(mn) Σ|x−y| − 2/(n(n−1)) Σ|x−x'| − 2/(m(m−1)) Σ|y−y'|), n = τ values before, m = κ − τ after.
fn best_of(values: &[f64]) -> Option<(usize, f64)> {
    let len = values.len();
    if len < 2 {
        return None;
    }
    let mut best = (0, f64::NEG_INFINITY);
    // Distances among the first τ values, and from each later value to all of them.
    let mut before = 0.0;
    let mut to_before = vec![0.0; len];
    // Distances among the values from τ to κ, for every κ at the current τ, are what remains of all distances.
    let mut all_up_to = vec![0.0; len + 1];
    for kappa in 1..=len {
        let last = values.get(kappa - 1).copied().unwrap_or_default();
        let own: f64 = values
            .iter()
            .take(kappa - 1)
            .map(|v| (v - last).abs())
            .sum();
        if let [.., previous, next] = all_up_to.get_mut(..=kappa).unwrap_or_default() {
            *next = *previous + own;
        }
    }
    for tau in 1..len {
        let moved = values.get(tau - 1).copied().unwrap_or_default();
        before += to_before.get(tau - 1).copied().unwrap_or_default();
        for (to, value) in to_before.iter_mut().zip(values).skip(tau) {
            *to += (value - moved).abs();
        }
        let n = tau as f64;
        let within_before = if tau > 1 {
            2.0 * before / (n * (n - 1.0))
        } else {
            0.0
        };
        let mut between = 0.0;
        let later = to_before.iter().zip(all_up_to.iter().skip(1)).enumerate();
        for (index, (to, all)) in later.skip(tau) {
            between += to;
            let m = (index + 1 - tau) as f64;
            let after = (all - before - between).max(0.0);
            let within_after = if m > 1.0 {
                2.0 * after / (m * (m - 1.0))
            } else {
                0.0
            };
            let q = n * m / (n + m) * (2.0 * between / (n * m) - within_before - within_after);
            if q > best.1 {
                best = (tau, q);
            }
        }
    }
    Some(best)
}

/// Whether the means on both sides of a split of a short stretch are apart, by a t-test that pays for the choice of the
/// split (Bonferroni).
fn apart(values: &[f64], parts: &[(usize, usize)], index: usize, significance: f64) -> bool {
    let part = parts
        .iter()
        .find(|(start, end)| (*start..*end).contains(&index));
    let Some(&(start, end)) = part.filter(|(start, end)| end - start < SHORT) else {
        return false;
    };
    let (one, other) = (
        values.get(start..index).unwrap_or_default(),
        values.get(index..end).unwrap_or_default(),
    );
    let enough = one.len().min(other.len()) >= SIDE;
    enough && t_test(one, other) * ((end - start) as f64) < significance
}

/// Whether a statistic is rare among permutations within the stretches.
fn significant(
    values: &[f64],
    parts: &[(usize, usize)],
    q: f64,
    significance: f64,
    rng: &mut Rng,
) -> bool {
    // Enough that p = k / (permutations + 1) can fall below the level, with room for a few extreme ones.
    let permutations = (4.0 / significance).ceil().min(100_000.0) as usize;
    let mut shuffled = values.to_vec();
    let mut room = Room::new(values.len());
    let mut extreme = 0;
    for _ in 0..permutations {
        for &(start, end) in parts {
            if let Some(part) = shuffled.get_mut(start..end) {
                rng.shuffle(part);
            }
        }
        // Sums in another order differ in their last digits.
        let limit = q * (1.0 - 1e-9);
        let mut stretches = parts
            .iter()
            .filter_map(|&(start, end)| shuffled.get(start..end));
        if stretches.any(|part| room.reaches(part, limit)) {
            extreme += 1;
            if extreme >= ENOUGH {
                return false;
            }
        }
    }
    ((extreme + 1) as f64) < significance * (permutations + 1) as f64
}

/// Drops candidates that do not hold, the weakest first; its neighbours are judged anew.
fn merge(series: &[f64], candidates: Vec<usize>, options: &ChangeOptions) -> Vec<ChangePoint> {
    let judged = |left: usize, index: usize, right: usize| {
        let one = series.get(left..index).unwrap_or_default();
        let other = series.get(index..right).unwrap_or_default();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        ChangePoint {
            index,
            before: mean(one),
            after: mean(other),
            p: t_test(one, other),
        }
    };
    let mut splits = candidates;
    let around = |splits: &[usize], at: usize| {
        let left = at.checked_sub(1).and_then(|before| splits.get(before));
        let right = splits.get(at + 1);
        (
            left.copied().unwrap_or(0),
            right.copied().unwrap_or(series.len()),
        )
    };
    let one = |splits: &[usize], at: usize| {
        let index = splits.get(at).copied().unwrap_or_default();
        let (left, right) = around(splits, at);
        judged(left, index, right)
    };
    let mut points: Vec<ChangePoint> = (0..splits.len()).map(|at| one(&splits, at)).collect();
    loop {
        let by = |key: fn(&ChangePoint) -> f64, largest: bool| {
            let order = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
            let all = points.iter().map(key).enumerate();
            if largest {
                all.max_by(order)
            } else {
                all.min_by(order)
            }
        };
        let weakest = match by(|point| point.p, true) {
            None => return points,
            Some((at, p)) if p >= options.significance => at,
            Some(_) => match by(ChangePoint::magnitude, false) {
                Some((at, magnitude)) if magnitude <= options.floor => at,
                _ => return points,
            },
        };
        splits.remove(weakest);
        points.remove(weakest);
        for at in [weakest.checked_sub(1), Some(weakest)]
            .into_iter()
            .flatten()
        {
            if at < splits.len() {
                let new = one(&splits, at);
                if let Some(point) = points.get_mut(at) {
                    *point = new;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal deviates (Box and Muller).
    fn noise(rng: &mut Rng) -> f64 {
        let radius = (-2.0 * (1.0 - rng.next_f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * rng.next_f64()).cos()
    }

    fn indices(series: &[f64]) -> Vec<usize> {
        let found = change_points(series, &ChangeOptions::default());
        found.iter().map(|point| point.index).collect()
    }

    /// Q by its definition.
    fn slow(values: &[f64]) -> (usize, f64) {
        let mut best = (0, f64::NEG_INFINITY);
        let sum = |one: &[f64], other: &[f64]| -> f64 {
            let pairs = one
                .iter()
                .flat_map(|x| other.iter().map(move |y| (x - y).abs()));
            pairs.sum()
        };
        for tau in 1..values.len() {
            for kappa in tau + 1..=values.len() {
                let (x, y) = (&values[..tau], &values[tau..kappa]);
                let (n, m) = (x.len() as f64, y.len() as f64);
                let within = |v: &[f64], n: f64| {
                    if n > 1.0 {
                        sum(v, v) / (n * (n - 1.0))
                    } else {
                        0.0
                    }
                };
                let q = n * m / (n + m) * (2.0 * sum(x, y) / (n * m) - within(x, n) - within(y, m));
                if q > best.1 + 1e-12 {
                    best = (tau, q);
                }
            }
        }
        best
    }

    #[test]
    fn the_statistic_is_its_definition() {
        let mut rng = Rng::new(3);
        for len in [2, 3, 5, 12, 30] {
            let values: Vec<f64> = (0..len)
                .map(|i| noise(&mut rng) + if i > len / 2 { 2.0 } else { 0.0 })
                .collect();
            let (found, expected) = (best_of(&values).unwrap(), slow(&values));
            assert!(
                (found.1 - expected.1).abs() < 1e-9,
                "{len}: {found:?} {expected:?}"
            );
            assert_eq!(found.0, expected.0, "{len}");
        }
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let mut rng = Rng::new(11);
        let series: Vec<f64> = (0..300)
            .map(|i| {
                let level = match i {
                    0..100 => 100.0,
                    100..180 => 110.0,
                    _ => 104.0,
                };
                level + noise(&mut rng)
            })
            .collect();
        assert_eq!(indices(&series), [100, 180]);
    }

    /// Ten values have too few orders for a permutation to be rare.
    #[test]
    fn a_clear_step_of_a_short_series_is_found() {
        let series = [
            10.43, 10.23, 10.29, 10.91, 10.34, 10.69, 9.23, 9.11, 9.13, 9.03,
        ];
        assert_eq!(indices(&series), [6]);
        assert_eq!(indices(&series[..8]), [0usize; 0]);
        // Noise alone, of six to nineteen values.
        let mut rng = Rng::new(9);
        let alarms: usize = (0..300)
            .map(|i| {
                let series: Vec<f64> = (0..6 + i % 14).map(|_| 100.0 + noise(&mut rng)).collect();
                indices(&series).len()
            })
            .sum();
        assert!(alarms <= 5, "{alarms} in 300 series");
    }

    #[test]
    fn what_does_not_change_has_no_change() {
        assert_eq!(indices(&[]), [0usize; 0]);
        assert_eq!(indices(&[1.0]), [0usize; 0]);
        assert_eq!(indices(&[5.0; 200]), [0usize; 0]);
        assert_eq!(indices(&[1.0, f64::NAN, 2.0, 3.0, 4.0]), [0usize; 0]);
        // One that stands out is not a change.
        let mut series = vec![10.0; 60];
        series[30] = 50.0;
        for (i, value) in series.iter_mut().enumerate() {
            *value += (i * 7 % 5) as f64 * 0.1;
        }
        assert_eq!(indices(&series), [0usize; 0]);
    }

    #[test]
    fn noise_alone_rarely_looks_like_a_change() {
        let mut rng = Rng::new(5);
        let alarms: usize = (0..100)
            .map(|_| {
                let series: Vec<f64> = (0..100).map(|_| 100.0 + noise(&mut rng)).collect();
                indices(&series).len()
            })
            .sum();
        assert!(alarms <= 3, "{alarms} false changes in 10,000 values");
    }

    #[test]
    fn a_floor_drops_what_is_too_small_to_matter() {
        let series: Vec<f64> = (0..80)
            .map(|i| if i < 40 { 100.0 } else { 101.0 } + f64::from(i % 2) * 0.1)
            .collect();
        assert_eq!(indices(&series), [40]);
        let options = ChangeOptions {
            floor: 0.02,
            ..ChangeOptions::default()
        };
        assert_eq!(change_points(&series, &options), []);
    }
}
