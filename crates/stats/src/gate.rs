//! Gates: whether a comparison lets a change pass, and with which exit code.
//!
//! 0: no regression; 3: a regression; 4: undecided or not comparable. A change is a regression when
//! it is significant and its whole interval lies beyond the limit (never tighter than the metric's
//! floor), it passes when its whole interval stays below the limit, and is undecided otherwise.
//! Numbers that do not mean the same never gate: another CPU, kernel, filter, source or
//! environment, and counts that were scaled because events took turns on the PMU.

use crate::allowed::Allowed;
use crate::kinds::Worse;
use crate::verdict::Judged;
use std::collections::BTreeMap;
use std::fmt;
use truecount_model::{Precision, SourceKind};

/// A limit on one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Name of the metric.
    pub metric: String,
    /// Largest change that passes.
    pub limit: Allowed,
    /// Which direction is worse.
    pub worse: Worse,
}

impl Gate {
    /// Fails when `metric` grows by more than `limit` (0.02 is 2 %).
    #[must_use]
    pub fn above(metric: impl Into<String>, limit: impl Into<Allowed>) -> Self {
        Self {
            metric: metric.into(),
            limit: limit.into(),
            worse: Worse::Higher,
        }
    }

    /// Judges one comparison of this gate's metric, whose limit is a share. `reasons` is what [`incomparable`] found.
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
        self.judge_of(f64::NAN, judged, reasons)
    }

    /// As [`Gate::judge`], also for limits in counts: the median of the base is `base`.
    #[must_use]
    pub fn judge_of(&self, base: f64, judged: &Judged, reasons: Vec<Incomparable>) -> Outcome {
        if !reasons.is_empty() {
            return Outcome::Incomparable(reasons);
        }
        let c = match self.worse {
            Worse::Higher => judged.comparison,
            Worse::Lower => judged.comparison.reversed(),
        };
        let Some((low, high)) = c.interval.filter(|_| !c.few_equal()) else {
            return Outcome::Undecided;
        };
        let Some(limit) = self.limit.share(base, self.worse) else {
            return Outcome::Undecided;
        };
        let limit = 1.0 + limit.max(judged.floor);
        if high <= limit {
            Outcome::Pass
        } else if low > limit && judged.p_adjusted < c.significance {
            Outcome::Regression
        } else {
            Outcome::Undecided
        }
    }
}

impl Gate {
    /// Judges two exact counts of this gate's metric: there is nothing to estimate, so any difference beyond the limit
    /// counts, and no floor. `reasons` is what [`incomparable`] found.
    ///
    /// ```
    /// use truecount_stats::*;
    /// let gate = Gate::above("instructions:u", 0.0);
    /// assert_eq!(gate.judge_exact(1_000_000.0, 1_000_001.0, vec![]), Outcome::Regression);
    /// assert_eq!(gate.judge_exact(1_000_000.0, 999_999.0, vec![]), Outcome::Pass);
    /// ```
    #[must_use]
    pub fn judge_exact(&self, base: f64, other: f64, reasons: Vec<Incomparable>) -> Outcome {
        if !reasons.is_empty() {
            return Outcome::Incomparable(reasons);
        }
        if !(base.is_finite() && other.is_finite()) {
            return Outcome::Undecided;
        }
        if self.limit.exceeded(base, other, self.worse) {
            Outcome::Regression
        } else {
            Outcome::Pass
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
    /// Facts of the machine by name: CPU model, kernel release, governor, … What is not to be compared is left out.
    pub machine: BTreeMap<String, String>,
    /// Facts of the program's environment by name: its variables, whether addresses were randomised, …
    pub environment: BTreeMap<String, String>,
    /// Filter of the event: `u`, `k`, or empty.
    pub filter: String,
    /// Who counted; `None` when nobody did.
    pub source: Option<SourceKind>,
    /// The least sure of the counts: scaled where events took turns.
    pub precision: Option<Precision>,
    /// Samples there are; a run in which the event never ran is none.
    pub samples: usize,
}

/// Why two samples are not comparable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incomparable {
    /// Something differs between the two.
    Differs {
        /// What: `filter`, `source`, or the name of a fact of the machine or the environment.
        what: String,
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
                let shown = |value: &str| match value {
                    "" => "none".to_owned(),
                    value => value.to_owned(),
                };
                write!(f, "{what}: {}, was {}", shown(other), shown(base))
            }
            Incomparable::Scaled => f.write_str(
                "a scaled count decides nothing (events were multiplexed): ask for fewer events",
            ),
            Incomparable::NotCounted => f.write_str("one side has no counted sample"),
        }
    }
}

/// Every reason why two samples must not be gated against each other; none when they may.
#[must_use]
pub fn incomparable(base: &Provenance, other: &Provenance) -> Vec<Incomparable> {
    let mut reasons = Vec::new();
    let mut differs = |what: &str, base: &str, other: &str| {
        if base != other {
            reasons.push(Incomparable::Differs {
                what: what.to_owned(),
                base: base.to_owned(),
                other: other.to_owned(),
            });
        }
    };
    for (ours, theirs) in [
        (&other.machine, &base.machine),
        (&other.environment, &base.environment),
    ] {
        for name in ours
            .keys()
            .chain(theirs.keys().filter(|name| !ours.contains_key(*name)))
        {
            let of = |side: &BTreeMap<String, String>| side.get(name).cloned().unwrap_or_default();
            differs(name, &of(theirs), &of(ours));
        }
    }
    differs("filter", &base.filter, &other.filter);
    let name = |side: &Provenance| side.source.map_or("nobody", SourceKind::name);
    differs("source", name(base), name(other));
    if [base, other]
        .iter()
        .any(|side| side.precision > Some(Precision::Counted))
    {
        reasons.push(Incomparable::Scaled);
    }
    if base.samples == 0 || other.samples == 0 {
        reasons.push(Incomparable::NotCounted);
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Floors, Options, compare_paired, compare_unpaired, verdicts};

    fn judged(base: &[u64], other: &[u64]) -> Judged {
        let c = compare_paired(base, other, &Options::default()).unwrap();
        verdicts([("instructions:u", c)], &Floors::default()).remove(0)
    }

    #[test]
    fn outcomes() {
        let gate = Gate::above("instructions:u", 0.02);
        let worse = judged(&[1000; 10], &[1030; 10]);
        assert_eq!(gate.judge(&worse, vec![]), Outcome::Regression);
        let outcome = |base: &[u64], other: &[u64]| gate.judge(&judged(base, other), vec![]);
        assert_eq!(outcome(&[1000; 10], &[1010; 10]), Outcome::Pass);
        assert_eq!(outcome(&[1000; 10], &[500; 10]), Outcome::Pass);
        assert_eq!(outcome(&[1000; 5], &[2000; 5]), Outcome::Undecided);
        let mixed: Vec<u64> = (0..10).map(|i| 1000 + i * 8).collect();
        assert_eq!(outcome(&[1000; 10], &mixed), Outcome::Undecided);
        let reasons = vec![Incomparable::Scaled];
        assert_eq!(
            gate.judge(&worse, reasons.clone()),
            Outcome::Incomparable(reasons)
        );
    }

    /// A comparison of `n` rounds whose interval is given.
    fn with_interval(interval: (f64, f64), p: f64) -> Judged {
        let mut c = compare_paired(&[1u64, 2, 3].repeat(4), &[1; 12], &Options::default()).unwrap();
        (c.ratio, c.interval, c.p) = ((interval.0 * interval.1).sqrt(), Some(interval), p);
        verdicts([("m", c)], &Floors::default().with("m", 0.02)).remove(0)
    }

    #[test]
    fn an_interval_below_the_limit_passes_however_far_it_reaches_down() {
        let gate = |worse| Gate {
            metric: "m".into(),
            limit: 0.02.into(),
            worse,
        };
        for (interval, p, higher, lower) in [
            ((0.8, 1.01), 0.2, Outcome::Pass, Outcome::Undecided),
            ((0.99, 1.2), 0.2, Outcome::Undecided, Outcome::Pass),
            ((0.8, 0.9), 0.001, Outcome::Pass, Outcome::Regression),
            ((1.1, 1.2), 0.001, Outcome::Regression, Outcome::Pass),
            ((1.1, 1.2), 0.02, Outcome::Undecided, Outcome::Pass),
            ((0.9, 1.1), 0.5, Outcome::Undecided, Outcome::Undecided),
        ] {
            let judged = with_interval(interval, p);
            for (worse, expected) in [(Worse::Higher, higher), (Worse::Lower, lower)] {
                let found = gate(worse).judge(&judged, vec![]);
                assert_eq!(found, expected, "{interval:?} {worse:?}");
            }
        }
    }

    #[test]
    fn a_few_equal_runs_gate_nothing() {
        let c = compare_unpaired(&[1000u64; 4], &[1000; 4], &Options::default()).unwrap();
        let judged = verdicts([("instructions:u", c)], &Floors::default()).remove(0);
        let gate = Gate::above("instructions:u", 0.02);
        assert_eq!(gate.judge(&judged, vec![]), Outcome::Undecided);
    }

    #[test]
    fn throughput_falls_the_other_way() {
        let gate = Gate {
            metric: "ipc".into(),
            limit: 0.02.into(),
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

    /// Exact counts: no floor, no estimate; the limit itself passes.
    #[test]
    fn exact_counts_need_no_statistics() {
        let gate = |limit: f64, worse| Gate {
            metric: "m".into(),
            limit: limit.into(),
            worse,
        };
        for (base, other, limit, higher, lower) in [
            (1000.0, 1000.0, 0.0, Outcome::Pass, Outcome::Pass),
            (1000.0, 1001.0, 0.0, Outcome::Regression, Outcome::Pass),
            (1000.0, 999.0, 0.0, Outcome::Pass, Outcome::Regression),
            (1000.0, 1010.0, 0.01, Outcome::Pass, Outcome::Pass),
            (1000.0, 1011.0, 0.01, Outcome::Regression, Outcome::Pass),
            (0.0, 1.0, 0.5, Outcome::Regression, Outcome::Pass),
            (f64::NAN, 1.0, 0.5, Outcome::Undecided, Outcome::Undecided),
        ] {
            let found = gate(limit, Worse::Higher).judge_exact(base, other, vec![]);
            assert_eq!(found, higher, "{base} {other}");
            let found = gate(limit, Worse::Lower).judge_exact(base, other, vec![]);
            assert_eq!(found, lower, "{base} {other}");
        }
        let reasons = vec![Incomparable::Scaled];
        assert_eq!(
            gate(0.0, Worse::Higher).judge_exact(1.0, 2.0, reasons.clone()),
            Outcome::Incomparable(reasons)
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
    fn every_difference_is_listed_by_name() {
        let facts = |all: &[(&str, &str)]| {
            let owned = all.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
            owned.collect::<BTreeMap<_, _>>()
        };
        let a = Provenance {
            machine: facts(&[("cpu_model", "a"), ("kernel", "6.1")]),
            environment: facts(&[("HOME", "5 bytes"), ("PWD", "9 bytes")]),
            source: Some(SourceKind::Virtual),
            samples: 3,
            ..Provenance::default()
        };
        assert_eq!(incomparable(&a, &a), []);
        let b = Provenance {
            machine: facts(&[("cpu_model", "b"), ("kernel", "6.1")]),
            environment: facts(&[("HOME", "5 bytes"), ("CI", "4 bytes")]),
            filter: "u".into(),
            source: Some(SourceKind::Step),
            precision: Some(Precision::Scaled),
            samples: 0,
        };
        let lines: Vec<String> = incomparable(&a, &b)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(lines.len(), 7, "{lines:#?}");
        assert_eq!(lines[0], "cpu_model: b, was a");
        assert_eq!(lines[1], "CI: 4 bytes, was none");
        assert_eq!(lines[2], "PWD: none, was 9 bytes");
        assert_eq!(lines[4], "source: step, was virtual");
        for (scaled, other) in [(&a, &b), (&b, &a)] {
            assert!(incomparable(scaled, other).contains(&Incomparable::Scaled));
        }
    }
}
