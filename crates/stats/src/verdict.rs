//! Verdicts: two keys.
//!
//! A change is called only when its p, adjusted by Holm's method over the family of metrics that are judged together,
//! is below the significance level **and** the whole interval lies beyond the metric's floor. `Same` needs the whole
//! interval within the floor. Everything else is undecided, with an estimate of how many more rounds would decide.
//! Metrics outside the family are described: estimate and interval, and no verdict that would cost the family power.

use crate::compare::{Comparison, smallest_n};
use crate::floors::Floors;
use crate::holm::holm;
use crate::kinds::Wording;
use crate::normal;
use crate::summary::EXACT_FROM;
use std::fmt;

/// More rounds than this are not proposed: the change is too near its floor to be told apart.
const MAX_ROUNDS: f64 = 100_000.0;

/// An interval so many times too wide says that the estimate lies nearer to the floor than it is itself sure of: how
/// near, and so how many rounds would decide, it cannot tell.
const TOO_NEAR: f64 = 4.0;

/// What is said about a change of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Less of it: faster, fewer.
    Lower,
    /// More of it: slower, more.
    Higher,
    /// The whole interval lies within the floor.
    Same,
    /// Neither could be shown.
    Undecided {
        /// About how many more rounds would decide; `None` when that cannot be told or the change
        /// is too near its floor.
        more_rounds: Option<usize>,
    },
    /// Too few rounds for any verdict.
    TooSmall {
        /// Rounds there are.
        n: usize,
        /// Rounds without which no verdict is possible.
        needed: usize,
    },
    /// Not judged: the metric is not of the family.
    Described,
}

impl Verdict {
    /// One word for tables and JSON: `faster`, `more`, `same`, `undecided`, `n too small`, …
    #[must_use]
    pub fn word(&self, wording: Wording) -> &'static str {
        match (self, wording) {
            (Verdict::Lower, Wording::Time) => "faster",
            (Verdict::Higher, Wording::Time) => "slower",
            (Verdict::Lower, Wording::Count) => "fewer",
            (Verdict::Higher, Wording::Count) => "more",
            (Verdict::Lower, Wording::Size) => "smaller",
            (Verdict::Higher, Wording::Size) => "larger",
            (Verdict::Lower, Wording::Level) => "lower",
            (Verdict::Higher, Wording::Level) => "higher",
            (Verdict::Same, _) => "same",
            (Verdict::Undecided { .. }, _) => "undecided",
            (Verdict::TooSmall { .. }, _) => "n too small",
            (Verdict::Described, _) => "described",
        }
    }
}

/// A comparison with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Name of the metric.
    pub metric: String,
    /// The numbers.
    pub comparison: Comparison,
    /// p adjusted over the family, and for repeated looks; not adjusted where the metric is only described.
    pub p_adjusted: f64,
    /// The metric's floor, as a share.
    pub floor: f64,
    /// What is said.
    pub verdict: Verdict,
}

impl Judged {
    /// The verdict in full: `undecided: about 12 more rounds would decide`.
    #[must_use]
    pub fn say(&self, wording: Wording) -> String {
        let word = self.verdict.word(wording);
        match self.verdict {
            Verdict::Undecided {
                more_rounds: Some(1),
            } => format!("{word}: about 1 more round would decide"),
            Verdict::Undecided {
                more_rounds: Some(k),
            } => format!("{word}: about {k} more rounds would decide"),
            Verdict::Undecided { more_rounds: None }
                if ((self.comparison.change().abs() - self.floor) * 100.0).abs() < 0.5 =>
            {
                format!(
                    "{word}: the change is too near the floor of {} % for more rounds to promise a verdict",
                    self.floor * 100.0
                )
            }
            Verdict::TooSmall { n, needed } => {
                format!("{word}: {n} of at least {needed} runs each")
            }
            Verdict::Lower | Verdict::Higher | Verdict::Same if self.exact() => {
                format!("{word} (exact counts, {} equal each)", self.comparison.n())
            }
            _ => word.to_owned(),
        }
    }

    /// Whether both sides are exact counts: at least [`EXACT_FROM`] values each, equal on each side.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.comparison.constant && self.comparison.n() >= EXACT_FROM
    }
}

impl fmt::Display for Judged {
    /// As [`Judged::say`], in the words that suit the metric's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.say(Wording::of(&self.metric)))
    }
}

/// Judges one family of comparisons: one call for everything that is judged together, so that the adjustment covers
/// all of it.
///
/// ```
/// use truecount_stats::{Floors, Options, Verdict, compare_paired, verdicts};
/// let c = compare_paired(&[1000u64; 10], &[1020; 10], &Options::default())?;
/// let judged = verdicts([("instructions:u", c)], &Floors::default());
/// assert_eq!(judged[0].verdict, Verdict::Higher);
/// assert_eq!(judged[0].to_string(), "more (exact counts, 10 equal each)");
/// # Ok::<(), truecount_stats::StatsError>(())
/// ```
pub fn verdicts<S: Into<String>>(
    family: impl IntoIterator<Item = (S, Comparison)>,
    floors: &Floors,
) -> Vec<Judged> {
    let family: Vec<(String, Comparison)> =
        family.into_iter().map(|(s, c)| (s.into(), c)).collect();
    let adjusted = holm(
        &family
            .iter()
            .map(|(_, c)| Some((c.p * c.looks.max(1) as f64).min(1.0)))
            .collect::<Vec<_>>(),
    );
    let tests = family.len();
    family
        .into_iter()
        .zip(adjusted)
        .map(|((metric, comparison), p)| {
            let floor = floors.of(&metric);
            let p_adjusted = p.unwrap_or(1.0);
            let verdict = judge(&comparison, p_adjusted, floor, tests);
            Judged {
                metric,
                comparison,
                p_adjusted,
                floor,
                verdict,
            }
        })
        .collect()
}

/// A comparison of a metric outside the family: no verdict.
pub fn described(metric: impl Into<String>, comparison: Comparison, floors: &Floors) -> Judged {
    let metric = metric.into();
    Judged {
        floor: floors.of(&metric),
        metric,
        comparison,
        p_adjusted: comparison.p,
        verdict: Verdict::Described,
    }
}

fn judge(c: &Comparison, p_adjusted: f64, floor: f64, tests: usize) -> Verdict {
    let n = c.n();
    let needed = smallest_n(
        c.design,
        c.significance,
        tests.saturating_mul(c.looks.max(1)),
    );
    let Some((low, high)) = c.interval else {
        return Verdict::TooSmall {
            n,
            needed: needed.max(n + 1),
        };
    };
    let sure = p_adjusted < c.significance;
    if c.few_equal() {
        Verdict::TooSmall {
            n,
            needed: needed.max(EXACT_FROM),
        }
    } else if low >= 1.0 - floor && high <= 1.0 + floor {
        Verdict::Same
    } else if low > 1.0 + floor && sure {
        Verdict::Higher
    } else if high < 1.0 - floor && sure {
        Verdict::Lower
    } else if n < needed {
        Verdict::TooSmall { n, needed }
    } else {
        let more_rounds = more_rounds(c, p_adjusted, floor, needed, (low, high));
        Verdict::Undecided { more_rounds }
    }
}

/// How many more rounds would decide if the estimate stays and intervals shrink as 1/√n.
fn more_rounds(
    c: &Comparison,
    p_adjusted: f64,
    floor: f64,
    needed: usize,
    (low, high): (f64, f64),
) -> Option<usize> {
    if !high.is_finite() {
        // Zeros in the base: nothing bounds the factor, and no formula says when something will.
        return None;
    }
    let change = c.change();
    let n = c.n() as f64;
    // By which factor each half of the interval is too wide for what it has to fit into.
    let too_wide = if change > floor {
        (c.ratio - low) / (change - floor)
    } else if change < -floor {
        (high - c.ratio) / (-floor - change)
    } else {
        let up = (high - c.ratio) / (floor - change);
        let down = (c.ratio - low) / (floor + change);
        // Halves without width fit anywhere, also at the floor itself (0/0).
        if up.is_nan() {
            down
        } else if down.is_nan() {
            up
        } else {
            up.max(down)
        }
    };
    if too_wide > TOO_NEAR {
        return None;
    }
    let mut wanted = if too_wide.is_nan() {
        n
    } else {
        n * (too_wide * too_wide).max(1.0)
    };
    if change.abs() > floor && p_adjusted >= c.significance {
        // z grows as √n, and the smallest p that exists must suffice after adjustment.
        let have = normal::upper_quantile((p_adjusted / 2.0).min(0.5));
        let need = normal::upper_quantile(c.significance / 2.0);
        wanted = wanted
            .max(n * (need / have.max(1e-3)).powi(2))
            .max(needed as f64);
    }
    let more = (wanted - n).ceil().max(1.0);
    (more <= MAX_ROUNDS).then_some(more as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Rng, compare_paired, compare_unpaired};

    /// A comparison of `n` rounds with everything given.
    fn given(n: usize, ratio: f64, interval: (f64, f64), p: f64) -> Comparison {
        let mut c = compare_paired(&vec![1u64; n], &vec![1; n], &Options::default()).unwrap();
        (c.ratio, c.interval, c.p) = (ratio, Some(interval), p);
        c
    }

    fn one(metric: &str, c: Comparison) -> Judged {
        verdicts([(metric, c)], &Floors::default()).remove(0)
    }

    #[test]
    fn both_keys_are_needed() {
        let v = |c| one("cycles:u", c).verdict;
        assert_eq!(v(given(20, 1.05, (1.03, 1.07), 0.001)), Verdict::Higher);
        assert_eq!(v(given(20, 0.95, (0.93, 0.97), 0.001)), Verdict::Lower);
        // Significant, but the interval reaches into the floor.
        assert!(matches!(
            v(given(20, 1.05, (1.005, 1.1), 0.001)),
            Verdict::Undecided { .. }
        ));
        // Beyond the floor, but not significant.
        assert!(matches!(
            v(given(20, 1.05, (1.03, 1.07), 0.06)),
            Verdict::Undecided { .. }
        ));
        // Significant and within the floor.
        assert_eq!(v(given(20, 1.004, (1.002, 1.006), 0.001)), Verdict::Same);
    }

    #[test]
    fn the_family_is_what_is_judged_together() {
        let c = given(8, 1.05, (1.03, 1.07), 0.0078125);
        assert_eq!(one("instructions:u", c).verdict, Verdict::Higher);
        let two = verdicts(
            [("instructions:u", c), ("branches:u", c)],
            &Floors::default(),
        );
        assert_eq!(two[0].p_adjusted, 0.015625);
        // 2^(1 − 9) · 2 = 0.0078 < 0.01: one more round suffices, and fewer never could.
        assert_eq!(two[0].verdict, Verdict::TooSmall { n: 8, needed: 9 });
        assert_eq!(two[0].to_string(), "n too small: 8 of at least 9 runs each");
        // What is described costs the others nothing.
        let alone = described("branches:u", c, &Floors::default());
        assert_eq!(alone.verdict, Verdict::Described);
        assert_eq!(one("instructions:u", c).p_adjusted, 0.0078125);
    }

    #[test]
    fn looks_are_paid_for() {
        let c = given(12, 1.05, (1.03, 1.07), 0.002);
        let at = |looks| one("wall", Comparison { looks, ..c });
        assert_eq!(at(1).verdict, Verdict::Higher);
        assert_eq!(at(6).p_adjusted, 0.012);
        assert!(matches!(at(6).verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn two_equal_runs_decide_nothing() {
        for n in 2..5usize {
            for (a, b) in [(1000, 1050), (1000, 1000), (1050, 1000)] {
                let (a, b) = (vec![a as u64; n], vec![b; n]);
                let c = compare_unpaired(&a, &b, &Options::default()).unwrap();
                let verdict = one("instructions:u", c).verdict;
                assert!(
                    matches!(verdict, Verdict::TooSmall { needed: 5, .. }),
                    "{n}"
                );
            }
        }
        let c = compare_unpaired(&[1000u64; 5], &[1050; 5], &Options::default()).unwrap();
        assert_eq!(one("instructions:u", c).verdict, Verdict::Higher);
        let c = compare_unpaired(&[1000u64; 5], &[1000; 5], &Options::default()).unwrap();
        let j = one("instructions:u", c);
        assert_eq!(j.to_string(), "same (exact counts, 5 equal each)");
    }

    #[test]
    fn rounds_are_estimated_by_the_root_of_n() {
        // Half-width 4 %, 2 % of room: twice too wide, four times the rounds.
        let c = given(10, 1.04, (1.0, 1.08), 0.01);
        assert_eq!(
            one("wall", c).verdict,
            Verdict::Undecided {
                more_rounds: Some(30)
            }
        );
        // At the floor itself no number of rounds decides.
        let c = given(10, 1.02, (1.0, 1.04), 0.01);
        assert_eq!(
            one("wall", c).verdict,
            Verdict::Undecided { more_rounds: None }
        );
        // So near to it that the estimate itself cannot tell how near: hundreds of rounds would be a promise.
        for ratio in [1.02 + 0.003, 1.02 - 0.003, 1.0 / 1.0203] {
            let c = given(10, ratio, (ratio - 0.03, ratio + 0.03), 0.001);
            let judged = one("wall", c);
            assert_eq!(
                judged.verdict,
                Verdict::Undecided { more_rounds: None },
                "{ratio}"
            );
            assert!(judged.to_string().contains("too near the floor of 2 %"));
        }
        let c = given(10, f64::INFINITY, (1.0, f64::INFINITY), 0.01);
        assert_eq!(
            one("faults", c).verdict,
            Verdict::Undecided { more_rounds: None }
        );
    }

    #[test]
    fn the_estimate_decides_when_followed() {
        // A true 4 % change in 5 % noise: start with 8 rounds, follow the advice.
        let mut rng = Rng::new(12);
        let mut decided = 0;
        for _ in 0..50 {
            let (mut a, mut b, mut n) = (vec![], vec![], 8);
            for _ in 0..6 {
                while a.len() < n {
                    let mut draw = || {
                        (0..12)
                            .map(|_| rng.next_f64())
                            .sum::<f64>()
                            .mul_add(0.05, 9.7)
                    };
                    a.push(draw());
                    b.push(draw() * 1.04);
                }
                let c = compare_paired(&a, &b, &Options::default()).unwrap();
                match one("wall", c).verdict {
                    Verdict::Undecided {
                        more_rounds: Some(k),
                    } => n += k,
                    Verdict::Higher => {
                        decided += 1;
                        break;
                    }
                    _ => break,
                }
            }
        }
        assert!(decided >= 45, "{decided} of 50");
    }

    #[test]
    fn too_few_rounds_get_no_verdict() {
        let c = compare_paired(&[100u64; 5], &[200; 5], &Options::default()).unwrap();
        let j = one("instructions:u", c);
        assert_eq!(j.verdict, Verdict::TooSmall { n: 5, needed: 8 });
        assert_eq!(j.to_string(), "n too small: 5 of at least 8 runs each");
    }
}
