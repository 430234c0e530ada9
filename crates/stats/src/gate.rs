//! Gates: whether a comparison lets a change pass, and with which exit code.
//!
//! 0: no regression; 3: a regression; 4: undecided or not comparable. A change is a regression when
//! it is significant and its whole interval lies beyond the limit (never tighter than the metric's
//! floor), it passes when its whole interval stays below the limit, and is undecided otherwise.
//! Numbers that do not mean the same never gate: another CPU, kernel, filter, source or
//! environment, and counts that were scaled because events took turns on the PMU.

use crate::verdict::{Judged, Verdict};
use std::fmt;

/// Which direction is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Worse {
    /// More is worse: counts, times, sizes.
    #[default]
    Higher,
    /// Less is worse: throughput, instructions per cycle.
    Lower,
}

/// A limit on one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Name of the metric.
    pub metric: String,
    /// Largest change that passes, as a share: 0.02 is 2 %.
    pub limit: f64,
    /// Which direction is worse.
    pub worse: Worse,
}

impl Gate {
    /// Fails when `metric` grows by more than `limit` (0.02 is 2 %).
    #[must_use]
    pub fn above(metric: impl Into<String>, limit: f64) -> Self {
        Self {
            metric: metric.into(),
            limit,
            worse: Worse::Higher,
        }
    }

    /// Judges one comparison of this gate's metric. `reasons` is what [`incomparable`] found.
    ///
    /// ```
    /// use truecount_stats::*;
    /// let c = compare_paired(&[1000u64; 10], &[1030; 10], &Options::default())?;
    /// let judged = verdicts([("instructions:u", c)], &Floors::default());
    /// let gate = Gate::above("instructions:u", 0.02);
    /// assert_eq!(gate.judge(&judged[0], vec![]), Outcome::Regression);
    /// assert_eq!(GateExit::of([&Outcome::Regression]).code(), 3);
    /// # Ok::<(), StatsError>(())
    /// ```
    #[must_use]
    pub fn judge(&self, judged: &Judged, reasons: Vec<Incomparable>) -> Outcome {
        if !reasons.is_empty() {
            return Outcome::Incomparable(reasons);
        }
        let c = match self.worse {
            Worse::Higher => judged.comparison,
            Worse::Lower => judged.comparison.reversed(),
        };
        let (low, high) = match (judged.verdict, c.interval) {
            (Verdict::TooSmall { .. }, _) | (_, None) => return Outcome::Undecided,
            (_, Some(interval)) => interval,
        };
        let limit = 1.0 + self.limit.max(judged.floor);
        if high <= limit {
            Outcome::Pass
        } else if low > limit && judged.p_adjusted < c.alpha {
            Outcome::Regression
        } else {
            Outcome::Undecided
        }
    }
}

/// What a gate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No regression.
    Pass,
    /// A regression beyond the limit.
    Regression,
    /// More rounds are needed.
    Undecided,
    /// The two sides do not mean the same thing.
    Incomparable(Vec<Incomparable>),
}

/// The exit code of a gated command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateExit {
    /// 0: no regression.
    NoRegression,
    /// 4: undecided or not comparable.
    Undecided,
    /// 3: at least one regression.
    Regression,
}

impl GateExit {
    /// The worst of several outcomes: a regression outweighs what is undecided.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        outcomes
            .into_iter()
            .map(|o| match o {
                Outcome::Pass => GateExit::NoRegression,
                Outcome::Regression => GateExit::Regression,
                Outcome::Undecided | Outcome::Incomparable(_) => GateExit::Undecided,
            })
            .max()
            .unwrap_or(GateExit::NoRegression)
    }

    /// The process exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            GateExit::NoRegression => 0,
            GateExit::Regression => 3,
            GateExit::Undecided => 4,
        }
    }
}

/// Where a metric's sample comes from, as far as it decides what it may be compared with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    /// CPU model.
    pub cpu: String,
    /// Kernel release.
    pub kernel: String,
    /// Filter of the event: `u`, `k`, or empty.
    pub filter: String,
    /// `hardware`, `virtual`, `step`, `software`.
    pub source: String,
    /// Digest of the environment record.
    pub environment: String,
    /// Whether counts were scaled up because events took turns.
    pub scaled: bool,
    /// Samples there are; a run in which the event never ran is none.
    pub samples: usize,
}

/// Why two samples are not comparable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incomparable {
    /// Something differs between the two.
    Differs {
        /// What: `CPU`, `kernel`, `filter`, `source`, `environment`.
        what: &'static str,
        /// The base's.
        base: String,
        /// The other's.
        other: String,
    },
    /// A count was scaled because events took turns on the PMU.
    Scaled,
    /// One side was never counted.
    NotCounted,
}

impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incomparable::Differs { what, base, other } => {
                write!(f, "{what} differs: {base:?} and {other:?}")
            }
            Incomparable::Scaled => f.write_str(
                "the count was scaled (events took turns on the PMU): ask for fewer events",
            ),
            Incomparable::NotCounted => f.write_str("one side has no counted sample"),
        }
    }
}

/// Every reason why two samples must not be gated against each other; none when they may.
#[must_use]
pub fn incomparable(base: &Provenance, other: &Provenance) -> Vec<Incomparable> {
    let differs = |what, base: &String, other: &String| {
        (base != other).then(|| Incomparable::Differs {
            what,
            base: base.clone(),
            other: other.clone(),
        })
    };
    [
        differs("CPU", &base.cpu, &other.cpu),
        differs("kernel", &base.kernel, &other.kernel),
        differs("filter", &base.filter, &other.filter),
        differs("source", &base.source, &other.source),
        differs("environment", &base.environment, &other.environment),
        (base.scaled || other.scaled).then_some(Incomparable::Scaled),
        (base.samples == 0 || other.samples == 0).then_some(Incomparable::NotCounted),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Floors, Options, compare_paired, verdicts};

    fn judged(base: &[u64], other: &[u64]) -> Judged {
        let c = compare_paired(base, other, &Options::default()).unwrap();
        verdicts([("instructions:u", c)], &Floors::default()).remove(0)
    }

    #[test]
    fn outcomes() {
        let gate = Gate::above("instructions:u", 0.02);
        let worse = judged(&[1000; 10], &[1030; 10]);
        assert_eq!(gate.judge(&worse, vec![]), Outcome::Regression);
        assert_eq!(
            gate.judge(&judged(&[1000; 10], &[1010; 10]), vec![]),
            Outcome::Pass
        );
        assert_eq!(
            gate.judge(&judged(&[1000; 10], &[500; 10]), vec![]),
            Outcome::Pass
        );
        assert_eq!(
            gate.judge(&judged(&[1000; 5], &[2000; 5]), vec![]),
            Outcome::Undecided
        );
        let mixed: Vec<u64> = (0..10).map(|i| 1000 + i * 8).collect();
        assert_eq!(
            gate.judge(&judged(&[1000; 10], &mixed), vec![]),
            Outcome::Undecided
        );
        let reasons = vec![Incomparable::Scaled];
        assert_eq!(
            gate.judge(&worse, reasons.clone()),
            Outcome::Incomparable(reasons)
        );
    }

    #[test]
    fn throughput_falls_the_other_way() {
        let gate = Gate {
            metric: "ipc".into(),
            limit: 0.02,
            worse: Worse::Lower,
        };
        assert_eq!(
            gate.judge(&judged(&[1030; 10], &[1000; 10]), vec![]),
            Outcome::Regression
        );
        assert_eq!(
            gate.judge(&judged(&[1000; 10], &[1030; 10]), vec![]),
            Outcome::Pass
        );
    }

    #[test]
    fn a_limit_under_the_floor_is_the_floor() {
        let gate = Gate::above("instructions:u", 0.0);
        let tiny = judged(&[1_000_000; 10], &[1_000_500; 10]);
        assert_eq!(gate.judge(&tiny, vec![]), Outcome::Pass);
    }

    #[test]
    fn the_worst_outcome_decides_the_exit() {
        use Outcome::{Incomparable as I, Pass, Regression, Undecided};
        assert_eq!(GateExit::of([]).code(), 0);
        assert_eq!(GateExit::of([&Pass, &Undecided]).code(), 4);
        assert_eq!(GateExit::of([&I(vec![]), &Pass]).code(), 4);
        assert_eq!(GateExit::of([&Undecided, &Regression, &Pass]).code(), 3);
    }

    #[test]
    fn every_difference_is_listed() {
        let a = Provenance {
            samples: 3,
            ..Provenance::default()
        };
        assert_eq!(incomparable(&a, &a), []);
        let b = Provenance {
            cpu: "x".into(),
            kernel: "x".into(),
            filter: "u".into(),
            source: "step".into(),
            environment: "x".into(),
            scaled: true,
            samples: 0,
        };
        let r = incomparable(&a, &b);
        assert_eq!(r.len(), 7);
        assert_eq!(r[3].to_string(), "source differs: \"\" and \"step\"");
    }
}
