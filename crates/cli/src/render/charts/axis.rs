//! An axis: where a value stands, and which round values stand on it.

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Equal differences are equally long.
    Linear,
    /// Equal ratios are equally long; for values above 0.
    Log,
    /// Logarithmic to both sides of 0, linear within 1: sign(v) · log10(1 + |v|).
    SymmetricLog,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(f64::MIN_POSITIVE).log10(),
            Self::SymmetricLog => value.signum() * (1.0 + value.abs()).log10(),
        }
    }
}

/// Values from `low` to `high` over the stretch from `from` to `to` of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) scale: Scale,
    from: f64,
    to: f64,
}

impl Axis {
    /// Exactly the values from `low` to `high`.
    pub(crate) fn new(low: f64, high: f64, scale: Scale, (from, to): (f64, f64)) -> Self {
        Self {
            low,
            high,
            scale,
            from,
            to,
        }
    }

    /// For values from `low` to `high`, with some room at both ends: logarithmic where they differ by more than a
    /// factor of 30.
    pub(crate) fn over(low: f64, high: f64, stretch: (f64, f64)) -> Self {
        let scale = if low > 0.0 && high / low > 30.0 {
            Scale::Log
        } else {
            Scale::Linear
        };
        let (mut from, mut to) = (scale.place(low), scale.place(high));
        if to - from < f64::EPSILON * to.abs().max(1.0) {
            let room = (to.abs() * 0.01).max(0.5);
            (from, to) = (from - room, to + room);
        }
        let room = (to - from) * 0.04;
        let value = |place: f64| match scale {
            Scale::Log => 10f64.powf(place),
            _ => place,
        };
        Self::new(value(from - room), value(to + room), scale, stretch)
    }

    /// Where a value stands. Values beyond the ends stand beyond the stretch.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.scale.place(self.low), self.scale.place(self.high));
        let share = (self.scale.place(value) - low) / (high - low).max(f64::MIN_POSITIVE);
        self.from + share * (self.to - self.from)
    }

    /// Round values on the axis in their order: at most `most`, if that is at least 3.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        let most = most.max(3);
        match self.scale {
            Scale::Linear => self.linear(most),
            Scale::Log => {
                let sets: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
                let few = sets
                    .into_iter()
                    .map(|factors| self.powers(factors))
                    .find(|ticks| ticks.len() <= most);
                let ticks = few.unwrap_or_else(|| {
                    let all = self.powers(&[1.0]);
                    let every = all.len().div_ceil(most).max(1);
                    all.into_iter().step_by(every).collect()
                });
                // Less than a step of 1, 2, 5: as fine as a linear axis.
                if ticks.len() < 2 {
                    self.linear(most)
                } else {
                    ticks
                }
            }
            Scale::SymmetricLog => {
                let largest = self.high.abs().max(self.low.abs());
                let all: Vec<f64> = (0..19)
                    .map(|power| 10f64.powi(power))
                    .take_while(|tick| *tick <= largest)
                    .collect();
                let every = all.len().div_ceil((most / 2).max(1)).max(1);
                // The labels of smaller ones would run into that of 0.
                let room = 0.2 * self.scale.place(largest);
                let kept: Vec<f64> = all
                    .into_iter()
                    .rev()
                    .step_by(every)
                    .filter(|tick| self.scale.place(*tick) > room)
                    .collect();
                let below = kept.iter().map(|tick| -tick);
                below
                    .chain([0.0])
                    .chain(kept.iter().rev().copied())
                    .filter(|tick| (self.low..=self.high).contains(tick))
                    .collect()
            }
        }
    }

    fn powers(&self, factors: &[f64]) -> Vec<f64> {
        let place = |value: f64| value.max(f64::MIN_POSITIVE).log10();
        let (first, last) = (place(self.low).floor(), place(self.high).ceil());
        (first as i32..=last as i32)
            .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }

    fn linear(&self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most as f64;
        if !(rough.is_finite() && rough > 0.0) {
            return vec![self.low];
        }
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil();
        (0..=most)
            .map(|index| (first + index as f64) * step)
            .take_while(|tick| *tick <= self.high)
            .collect()
    }
}

/// A round value as text, without the digits that binary fractions add: `0.3`, `1000`.
pub(crate) fn plain(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_lie_on_the_axis() {
        for (low, high) in [
            (0.0, 1.0),
            (99.0, 101.0),
            (1.0, 1e6),
            (7.0, 7.0),
            (40.0, 49.0),
        ] {
            let axis = Axis::over(low, high, (100.0, 200.0));
            let ticks = axis.ticks(6);
            assert!((2..=7).contains(&ticks.len()), "{low} {high}: {ticks:?}");
            assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
            for tick in ticks {
                assert!((100.0..=200.0).contains(&axis.at(tick)));
            }
        }
    }

    #[test]
    fn logarithms_have_whole_steps_and_never_too_many() {
        let ticks = |low, high, most| Axis::new(low, high, Scale::Log, (0.0, 1.0)).ticks(most);
        assert_eq!(ticks(19.0, 600.0, 8), [20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!(ticks(0.009, 108.0, 6), [0.01, 0.1, 1.0, 10.0, 100.0]);
        assert!(ticks(1e-9, 1e12, 5).len() <= 5);
        // Within a decade there are still some.
        assert!(ticks(41.0, 48.0, 5).len() >= 2);
    }

    #[test]
    fn a_symmetric_axis_is_symmetric() {
        let axis = Axis::new(-15_000.0, 15_000.0, Scale::SymmetricLog, (0.0, 200.0));
        assert!((axis.at(0.0) - 100.0).abs() < 1e-9);
        assert!((axis.at(15_000.0) - 200.0).abs() < 1e-9);
        assert!((axis.at(-15_000.0)).abs() < 1e-9);
        assert!(axis.at(10.0) > axis.at(1.0) && axis.at(1.0) > 105.0);
        let ticks = axis.ticks(9);
        assert!(ticks.contains(&0.0) && ticks.contains(&10_000.0));
        let turned: Vec<f64> = ticks.iter().rev().map(|tick| 0.0 - tick).collect();
        assert_eq!(ticks, turned);
    }

    #[test]
    fn nothing_divides_by_zero() {
        for scale in [Scale::Linear, Scale::Log, Scale::SymmetricLog] {
            for (low, high) in [(0.0, 0.0), (5.0, 5.0), (1e18, 1e18)] {
                let axis = Axis::new(low, high, scale, (0.0, 10.0));
                assert!(axis.at(low).is_finite(), "{scale:?} {low}");
                assert!(axis.ticks(5).iter().all(|tick| tick.is_finite()));
            }
        }
    }

    #[test]
    fn round_values_are_short() {
        assert_eq!(plain(0.1 + 0.2), "0.3");
        assert_eq!(
            (plain(1000.0), plain(0.01), plain(0.0)),
            ("1000".into(), "0.01".into(), "0".into())
        );
    }
}
