//! Histograms of cycles: exact counts per value, percentiles, modes with their weights.

/// How often each number of cycles was seen. Values are exact, from 1 to 65534.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// (cycles, count), sorted by cycles, no zero counts.
    bins: Vec<(u16, u64)>,
    total: u64,
}

/// A peak of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// Where the peak stands, in cycles.
    pub cycles: f64,
    /// First and last value of its hill.
    pub range: (u16, u16),
    /// Share of all values in its hill, 0 to 1.
    pub weight: f64,
}

impl Histogram {
    /// From (cycles, count) pairs in any order.
    #[must_use]
    pub fn new(mut bins: Vec<(u16, u64)>) -> Self {
        bins.sort_unstable();
        bins.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        bins.retain(|(_, n)| *n > 0);
        let total = bins.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        Self { bins, total }
    }

    /// (cycles, count) in the order of cycles.
    #[must_use]
    pub fn bins(&self) -> &[(u16, u64)] {
        &self.bins
    }

    /// Number of values.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Sum of all cycles.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.bins.iter().fold(0u64, |sum, (c, n)| {
            sum.saturating_add(u64::from(*c).saturating_mul(*n))
        })
    }

    /// Arithmetic mean; `None` when empty.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum() as f64 / self.total as f64)
    }

    /// The smallest value with at least the share `q` (0 to 1) of all values at or below it.
    ///
    /// ```
    /// use truecount_sample::blocks::Histogram;
    /// let h = Histogram::new(vec![(1, 90), (22, 10)]);
    /// assert_eq!((h.percentile(0.5), h.percentile(0.99)), (Some(1), Some(22)));
    /// ```
    #[must_use]
    pub fn percentile(&self, q: f64) -> Option<u16> {
        let rank = ((self.total as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0u64;
        for (cycles, n) in &self.bins {
            seen = seen.saturating_add(*n);
            if seen >= rank {
                return Some(*cycles);
            }
        }
        None
    }

    /// All values of both.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        Self::new(self.bins.iter().chain(&other.bins).copied().collect())
    }

    /// The peaks, in the order of cycles; none with fewer than 10 values.
    ///
    /// Values up to 31 have a bin each, above that 16 bins an octave; counts per cycle are smoothed over three bins.
    /// A peak is kept when it holds 2 % of all values and stands over the valley beside it by more than the
    /// counting noise of both (2.5 standard deviations of a Poisson count).
    #[must_use]
    pub fn modes(&self) -> Vec<Mode> {
        let Some(&(last, _)) = self.bins.last() else {
            return Vec::new();
        };
        if self.total < 10 {
            return Vec::new();
        }
        let mut counts = vec![0f64; bin_of(last) + 1];
        for (cycles, n) in &self.bins {
            if let Some(slot) = counts.get_mut(bin_of(*cycles)) {
                *slot += *n as f64;
            }
        }
        let hills = hills(&counts);
        let hills = merge_hills(hills, &counts, self.total as f64);
        hills
            .into_iter()
            .map(|hill| self.describe(hill.first, hill.last))
            .collect()
    }

    fn describe(&self, first: usize, last: usize) -> Mode {
        let inside = |c: u16| (first..=last).contains(&bin_of(c));
        let values: Vec<(u16, u64)> = self
            .bins
            .iter()
            .filter(|(c, _)| inside(*c))
            .copied()
            .collect();
        let hill = Self::new(values);
        // The peak: the middle of the fullest three neighbouring values, weighted.
        let (peak, _) = hill
            .bins
            .iter()
            .max_by_key(|(_, n)| *n)
            .copied()
            .unwrap_or((0, 0));
        let near: Vec<_> = hill
            .bins
            .iter()
            .filter(|(c, _)| c.abs_diff(peak) <= (peak / 32).max(1))
            .collect();
        let weight: f64 = near.iter().map(|(_, n)| *n as f64).sum();
        let center = near
            .iter()
            .map(|(c, n)| f64::from(*c) * *n as f64)
            .sum::<f64>()
            / weight.max(1.0);
        let range = (
            hill.bins.first().map_or(0, |b| b.0),
            hill.bins.last().map_or(0, |b| b.0),
        );
        // A sharp peak is its value, a broad one the middle of its top: where two neighbours hold about as much, a few
        // executions more of the one or the other must not move it by a whole cycle.
        let sharp = hill
            .bins
            .iter()
            .any(|(c, n)| *c == peak && *n as f64 >= 0.9 * weight);
        Mode {
            cycles: if sharp {
                f64::from(peak)
            } else {
                (center * 10.0).round() / 10.0
            },
            range,
            weight: if self.total == 0 {
                0.0
            } else {
                hill.total as f64 / self.total as f64
            },
        }
    }
}

/// Bin of a value: its own up to 31, above 16 bins an octave.
fn bin_of(cycles: u16) -> usize {
    if cycles < 32 {
        return usize::from(cycles);
    }
    let octave = 15 - cycles.leading_zeros() as usize; // 5..=15
    let sixteenth = (usize::from(cycles) >> (octave - 4)) & 15;
    32 + (octave - 5) * 16 + sixteenth
}

#[derive(Debug, Clone, Copy)]
struct Hill {
    first: usize,
    peak: usize,
    last: usize,
}

/// Cycles in a bin.
fn width(bin: usize) -> f64 {
    let octave = bin.saturating_sub(32) / 16;
    if bin < 32 {
        1.0
    } else {
        2f64.powi(i32::try_from(octave).unwrap_or(i32::MAX).saturating_add(1))
    }
}

/// Counts per cycle, smoothed: bins that become wider make no steps.
fn smooth(counts: &[f64], i: usize) -> f64 {
    let at = |k: usize| counts.get(k).copied().unwrap_or(0.0) / width(k);
    let left = if i == 0 { 0.0 } else { at(i - 1) };
    (left + 2.0 * at(i) + at(i + 1)) / 4.0
}

/// Cuts the bins at the valleys of the smoothed counts.
fn hills(counts: &[f64]) -> Vec<Hill> {
    let level: Vec<f64> = (0..counts.len()).map(|i| smooth(counts, i)).collect();
    let at = |k: usize| level.get(k).copied().unwrap_or(0.0);
    let mut out: Vec<Hill> = Vec::new();
    let mut first = 0;
    let mut peak = 0;
    let mut rising = true;
    for i in 1..level.len() {
        if rising {
            if at(i) >= at(peak) {
                peak = i;
            } else {
                rising = false;
            }
        } else if at(i) > at(i - 1) {
            out.push(Hill {
                first,
                peak,
                last: i - 1,
            });
            first = i;
            peak = i;
            rising = true;
        }
    }
    out.push(Hill {
        first,
        peak,
        last: level.len().saturating_sub(1),
    });
    out
}

/// Joins hills that are not clearly apart, the least distinct pair first.
fn merge_hills(mut hills: Vec<Hill>, counts: &[f64], total: f64) -> Vec<Hill> {
    let mass = |h: &Hill| {
        counts
            .get(h.first..=h.last)
            .map_or(0.0, |c| c.iter().sum::<f64>())
    };
    loop {
        let mut worst: Option<(usize, f64)> = None;
        for (i, pair) in hills.windows(2).enumerate() {
            let [a, b] = pair else { continue };
            let low = if smooth(counts, a.peak) < smooth(counts, b.peak) {
                a
            } else {
                b
            };
            let top = smooth(counts, low.peak);
            let (left, right) = (smooth(counts, a.last), smooth(counts, b.first));
            let (valley, bin) = if left <= right {
                (left, a.last)
            } else {
                (right, b.first)
            };
            // Smoothing weighs 1/4, 1/2, 1/4: the noise of the result is 0.61 of a bin's, and that of n counts in
            // w cycles is the root of n/w².
            let noise = |level: f64, bin: usize| level.max(0.5 / width(bin)) / width(bin);
            let noise = 0.61 * (noise(top, low.peak) + noise(valley, bin)).sqrt();
            let apart = (top - valley) / noise / 2.5;
            let enough = mass(low) / (0.02 * total).max(3.0);
            let distinct = apart.min(enough);
            if distinct < 1.0 && worst.is_none_or(|(_, d)| distinct < d) {
                worst = Some((i, distinct));
            }
        }
        let Some((i, _)) = worst else { return hills };
        if i + 1 >= hills.len() {
            return hills;
        }
        let b = hills.remove(i + 1);
        if let Some(a) = hills.get_mut(i) {
            a.last = b.last;
            if smooth(counts, b.peak) > smooth(counts, a.peak) {
                a.peak = b.peak;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn modes_of_a_hit_and_a_miss() {
        let mut bins = Vec::new();
        for i in 0..40u16 {
            let d = f64::from(i) - 20.0;
            let n = (1000.0 * (-d * d / 30.0).exp()) as u64;
            bins.push((i, n));
            bins.push((280 + i, n / 4));
        }
        let h = Histogram::new(bins);
        let modes = h.modes();
        assert_eq!(modes.len(), 2, "{modes:?}");
        assert!(
            (modes[0].cycles - 20.0).abs() <= 1.0 && (modes[0].weight - 0.8).abs() < 0.02,
            "{modes:?}"
        );
        assert!((modes[1].cycles - 300.0).abs() <= 10.0, "{modes:?}");
    }

    /// The tables of blocks and of loops count almost the same executions: their modes are almost the same.
    #[test]
    fn a_few_executions_more_do_not_move_a_mode() {
        let mode = |twelve, thirteen| {
            let h = Histogram::new(vec![(11, 9), (12, twelve), (13, thirteen), (14, 7)]);
            h.modes()[0].cycles
        };
        for (a, b) in [
            (mode(480, 500), mode(500, 480)),
            (mode(480, 520), mode(480, 420)),
            (mode(895, 60), mode(930, 60)),
        ] {
            assert!((a - b).abs() <= 0.2, "{a} and {b}");
        }
        assert_eq!(mode(2000, 40), 12.0);
    }

    #[test]
    fn wider_bins_make_no_modes() {
        // A plateau over all widths of bins, and a slope.
        for count in [|_| 50, |c: u16| u64::from(400 - c)] {
            let h = Histogram::new((1..400).map(|c| (c, count(c))).collect());
            assert_eq!(h.modes().len(), 1, "{:?}", h.modes());
        }
    }

    #[test]
    fn noise_makes_no_modes_and_empty_has_none() {
        let h = Histogram::new((10..30).map(|c| (c, 5 + u64::from(c % 3))).collect());
        assert_eq!(h.modes().len(), 1, "{:?}", h.modes());
        assert!(Histogram::default().modes().is_empty());
        assert_eq!(Histogram::default().percentile(0.5), None);
        assert!(Histogram::new(vec![(65534, 9)]).modes().is_empty());
        assert_eq!(Histogram::new(vec![(65534, 10)]).modes().len(), 1);
    }
}
