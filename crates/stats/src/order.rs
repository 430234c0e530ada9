//! Order statistics: medians, quantiles, ranks with ties, and the k-th smallest of all pairwise
//! means or differences without building the pairs.
//!
//! The selection halves the range of `f64` bit patterns, counting pairs in one linear sweep per
//! step, so its result is the exact element that sorting all pairs would give, in O(n) memory.

/// 1 / Φ⁻¹(3/4): makes the median absolute deviation of a normal sample estimate its σ.
pub const MAD_TO_SIGMA: f64 = 1.4826;

/// The median of sorted values; NaN for none.
pub(crate) fn median_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match (sorted.get(n.wrapping_sub(1) / 2), sorted.get(n / 2)) {
        (Some(&a), Some(&b)) if n > 0 => mean(a, b),
        _ => f64::NAN,
    }
}

/// The quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan,
/// 1996; the default of R and NumPy). NaN for no values.
pub(crate) fn quantile_sorted(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let low = (at.floor() as usize).min(last);
    let (a, b) = (sorted[low], sorted[(low + 1).min(last)]);
    if a == b {
        a
    } else {
        a + (at - low as f64) * (b - a)
    }
}

/// Sorts ascending by total order.
pub(crate) fn sort(values: &mut [f64]) {
    values.sort_unstable_by(f64::total_cmp);
}

/// The mean of two values; opposite infinities cancel to 0 (see the zero rule of `Value`).
pub(crate) fn mean(a: f64, b: f64) -> f64 {
    if a == b {
        return a;
    }
    let m = a / 2.0 + b / 2.0;
    if m.is_nan() { 0.0 } else { m }
}

/// `b − a`; equal infinities cancel to 0.
pub(crate) fn difference(b: f64, a: f64) -> f64 {
    if a == b { 0.0 } else { b - a }
}

/// Twice the midrank of every value (ties share the mean rank; doubled, it is an integer), and
/// `Σ(t³ − t)` over the tied groups. Values are compared with `==`.
pub(crate) fn doubled_midranks(values: &[f64]) -> (Vec<u64>, f64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0; values.len()];
    let mut ties = 0.0;
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        // Ranks start+1 ..= end share (start + 1 + end) / 2.
        for &i in &order[start..end] {
            ranks[i] = (start + 1 + end) as u64;
        }
        let t = (end - start) as f64;
        ties += t * t * t - t;
        start = end;
    }
    (ranks, ties)
}

/// The `k`-th smallest (from 1) of the n(n+1)/2 Walsh averages of sorted values.
pub(crate) fn kth_walsh(sorted: &[f64], k: u64) -> f64 {
    select(k, |t| {
        let mut end = sorted.len();
        let mut count = 0u64;
        for (i, &x) in sorted.iter().enumerate() {
            while end > i && mean(x, sorted[end - 1]) > t {
                end -= 1;
            }
            if end <= i {
                break;
            }
            count += (end - i) as u64;
        }
        count
    })
}

/// The `k`-th smallest (from 1) of all differences `b − a` of two sorted samples.
pub(crate) fn kth_difference(a: &[f64], b: &[f64], k: u64) -> f64 {
    select(k, |t| {
        let mut end = 0;
        let mut count = 0u64;
        for &x in a {
            while end < b.len() && difference(b[end], x) <= t {
                end += 1;
            }
            count += end as u64;
        }
        count
    })
}

/// The median of `m` ordered pairs, given a way to get the k-th.
pub(crate) fn median_of(m: u64, kth: impl Fn(u64) -> f64) -> f64 {
    if m % 2 == 1 {
        kth(m / 2 + 1)
    } else {
        mean(kth(m / 2), kth(m / 2 + 1))
    }
}

/// The smallest `f64` whose count reaches `k`; `count(t)` is how many pairs are `<= t`.
fn select(k: u64, count: impl Fn(f64) -> u64) -> f64 {
    let (mut low, mut high) = (key(f64::NEG_INFINITY), key(f64::INFINITY));
    while low < high {
        let middle = low + (high - low) / 2;
        if count(unkey(middle)) >= k {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    // −0 and +0 are one value; adding 0 gives the plain one.
    unkey(low) + 0.0
}

/// A `u64` that orders as the `f64` does.
fn key(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

fn unkey(k: u64) -> f64 {
    f64::from_bits(if k >> 63 == 1 { k & !(1 << 63) } else { !k })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn selection_equals_sorting_every_pair() {
        let mut rng = Rng::new(5);
        for round in 0..200 {
            let mut draw = |n: u64| {
                let mut v: Vec<f64> = (0..=rng.below(n))
                    .map(|_| match rng.below(12) {
                        0 => f64::INFINITY,
                        1 => f64::NEG_INFINITY,
                        // Few distinct values in every other round: many ties.
                        _ if round % 2 == 0 => rng.below(5) as f64 - 2.0,
                        _ => rng.next_f64() - 0.5,
                    })
                    .collect();
                sort(&mut v);
                v
            };
            let (a, b) = (draw(12), draw(9));
            let mut walsh = vec![];
            for i in 0..a.len() {
                for j in i..a.len() {
                    walsh.push(mean(a[i], a[j]));
                }
            }
            sort(&mut walsh);
            for (k, &w) in walsh.iter().enumerate() {
                assert_eq!(kth_walsh(&a, k as u64 + 1), w, "{a:?} {k}");
            }
            let mut diffs = vec![];
            for &x in &a {
                for &y in &b {
                    diffs.push(difference(y, x));
                }
            }
            sort(&mut diffs);
            for (k, &d) in diffs.iter().enumerate() {
                assert_eq!(kth_difference(&a, &b, k as u64 + 1), d, "{a:?} {b:?} {k}");
            }
        }
    }

    #[test]
    fn midranks_share_ties() {
        let (ranks, ties) = doubled_midranks(&[10.0, 30.0, 20.0, 20.0]);
        assert_eq!(ranks, [2, 8, 5, 5]);
        assert_eq!(ties, 6.0);
    }

    #[test]
    fn quantiles_interpolate() {
        let v = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile_sorted(&v, 0.25), 1.75);
        assert_eq!(quantile_sorted(&v, 0.0), 1.0);
        assert_eq!(quantile_sorted(&v, 1.0), 4.0);
        assert_eq!(median_sorted(&v), 2.5);
        assert!(median_sorted(&[]).is_nan() && quantile_sorted(&[], 0.5).is_nan());
    }
}
