//! The statistic of permutations: only whether it is as large as what was found, thousands of times a series.

/// What the test of a permutation needs, made once.
pub(super) struct Room {
    /// 1/n; 0 for n = 0: one value alone has no distances within.
    inverse: Vec<f64>,
    /// Distances of each value to those before the split.
    to_before: Vec<f64>,
    /// Distances among all values before each.
    up_to: Vec<f64>,
}

impl Room {
    pub(super) fn new(len: usize) -> Self {
        let inverse = |n: usize| if n == 0 { 0.0 } else { 1.0 / n as f64 };
        Self {
            inverse: (0..=len).map(inverse).collect(),
            to_before: Vec::new(),
            up_to: Vec::new(),
        }
    }

    /// Whether some split of a stretch has a Q of at least `limit` (as [`super::best_of`] computes it, but for the last digits).
    /// Without its divisions: Q ≥ limit where Σ|x−y| − m/(n−1) Σ|x−x'| − n/(m−1) Σ|y−y'| ≥ limit (n+m)/2.
    pub(super) fn reaches(&mut self, values: &[f64], limit: f64) -> bool {
        let len = values.len();
        self.up_to.clear();
        let mut sum = 0.0;
        for (place, last) in values.iter().enumerate() {
            let before = values.get(..place).unwrap_or_default();
            // Four sums: the compiler may take them at once.
            let mut own = [0.0; 4];
            let mut chunks = before.chunks_exact(4);
            for chunk in &mut chunks {
                for (own, value) in own.iter_mut().zip(chunk) {
                    *own += (value - last).abs();
                }
            }
            let rest = chunks.remainder().iter();
            sum += own.iter().sum::<f64>() + rest.map(|v| (v - last).abs()).sum::<f64>();
            self.up_to.push(sum);
        }
        self.to_before.clear();
        self.to_before.resize(len, 0.0);
        let mut before = 0.0;
        for (place, moved) in values.iter().enumerate().take(len.saturating_sub(1)) {
            let tau = place + 1;
            before += self.to_before.get(place).copied().unwrap_or_default();
            let later = self.to_before.iter_mut().zip(values).skip(tau);
            later.for_each(|(to, value)| *to += (value - moved).abs());
            let n = tau as f64;
            let within = before * self.inverse.get(place).copied().unwrap_or_default();
            let later = self.to_before.iter().zip(&self.up_to).skip(tau);
            let mut between = 0.0;
            let mut m = 1.0;
            for ((to, all), inverse) in later.zip(&self.inverse) {
                between += to;
                let after = (all - before - between).max(0.0);
                if between - m * within - n * after * inverse >= 0.5 * limit * (n + m) {
                    return true;
                }
                m += 1.0;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::best_of;
    use super::Room;
    use crate::rng::Rng;

    /// Normal deviates (Box and Muller).
    fn noise(rng: &mut Rng) -> f64 {
        let radius = (-2.0 * (1.0 - rng.next_f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * rng.next_f64()).cos()
    }

    /// The test of a permutation says what the statistic itself says.
    #[test]
    fn a_limit_is_reached_where_the_best_split_reaches_it() {
        let mut rng = Rng::new(7);
        let mut room = Room::new(50);
        for len in [1, 2, 3, 4, 5, 9, 20, 50] {
            for round in 0..50 {
                let value = |rng: &mut Rng| match round % 3 {
                    0 => noise(rng),
                    1 => (rng.below(4)) as f64,
                    _ => 1e9 + noise(rng) * 1e3,
                };
                let values: Vec<f64> = (0..len).map(|_| value(&mut rng)).collect();
                let q = best_of(&values).map_or(0.0, |(_, q)| q);
                let reached = |room: &mut Room, limit: f64| room.reaches(&values, limit);
                if q > 1e-6 {
                    assert!(reached(&mut room, q * (1.0 - 1e-9)), "{len} {values:?}");
                }
                assert!(
                    !reached(&mut room, q.abs() * 1.01 + 1e-3),
                    "{len} {values:?}"
                );
            }
        }
    }
}
