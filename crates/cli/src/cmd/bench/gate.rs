//! `--fail-above` and `--floor`: limits on metrics, and what the gates say. The rule itself is `truecount_stats::Gate`.

use serde::{Deserialize, Serialize};
use truecount_events::metrics::{Metrics, Worse as Row};
use truecount_stats::{Floors, Gate, GateExit, Outcome, Worse};

use super::compare::Pair;
use super::document::{Map, Metric};
use super::stop::percent;
use crate::failure::Failure;
use truecount_model::number::significant;

/// A metric and a share.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    pub(super) metric: String,
    pub(super) share: f64,
}

impl Limit {
    /// From `METRIC=PCT`.
    pub(super) fn parse(option: &str, text: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::new(2, format!("{option} `{text}`: {why}"))
                .hint("write it as instructions:u=0.5%")
        };
        let (metric, share) = text.split_once('=').ok_or_else(|| wrong("no `=`"))?;
        Ok(Self {
            metric: metric.trim().to_owned(),
            share: percent(share).map_err(|why| wrong(&why))?,
        })
    }

    /// All of an option's.
    pub(super) fn parse_all(option: &str, texts: &[String]) -> Result<Vec<Self>, Failure> {
        let limits = texts.iter().map(|text| Self::parse(option, text));
        limits.collect()
    }

    /// Whether it is for this metric: the same name, or the name without its filter.
    pub(super) fn covers(&self, metric: &str) -> bool {
        metric == self.metric || metric.split(':').next() == Some(self.metric.as_str())
    }
}

/// The floors: defaults, `--floor`, and the limit of a gate for its metric.
pub(super) fn floors(set: &[Limit], gates: &[Limit]) -> Floors {
    set.iter()
        .chain(gates)
        .fold(Floors::default(), |floors, limit| {
            floors.with(limit.metric.clone(), limit.share)
        })
}

/// Which direction of a metric is worse; `None` where neither is, or nobody says.
pub(super) fn worse(name: &str, metric: &Metric) -> Option<Worse> {
    let plain = name.split(':').next().unwrap_or(name);
    match metric.worse.or_else(|| Metrics::embedded().worse(plain)) {
        Some(Row::Higher) => Some(Worse::Higher),
        Some(Row::Lower) => Some(Worse::Lower),
        Some(Row::Neither) => None,
        None => Worse::of(name),
    }
}

/// Refuses gates on what is not measured, and on metrics without a worse direction.
///
/// # Errors
/// Status 2 with the names that can be gated.
pub(super) fn check(limits: &[Limit], metrics: &Map<Metric>) -> Result<(), Failure> {
    for limit in limits {
        let mut covered = metrics
            .iter()
            .filter(|(name, _)| limit.covers(name))
            .peekable();
        if covered.peek().is_none() {
            let names: Vec<&str> = metrics.iter().map(|(name, _)| name).collect();
            let cause = format!("--fail-above {}: it is not measured", limit.metric);
            let hint = format!("measured are {}; -e and -M add others", names.join(", "));
            return Err(Failure::new(2, cause).hint(hint));
        }
        if let Some((name, _)) = covered.find(|(name, metric)| worse(name, metric).is_none()) {
            let cause = format!("--fail-above {name}: nothing says which direction is worse");
            return Err(Failure::new(2, cause).hint(
                "gate another metric, or say `worse = \"higher\"` in its row of --metrics-file",
            ));
        }
    }
    Ok(())
}

/// What one gate says about one comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GateRow {
    pub(crate) metric: String,
    /// The largest change that passes, as a share.
    pub(crate) limit: f64,
    /// Name of the command compared with.
    pub(crate) base: Option<String>,
    /// Name of the command that is judged.
    pub(crate) other: Option<String>,
    /// `passed`, `regressed`, `undecided`, `incomparable`.
    pub(crate) outcome: String,
    /// Why, in full.
    pub(crate) explanation: String,
}

impl GateRow {
    /// One line for people.
    pub(super) fn line(&self) -> String {
        let who = match (&self.other, &self.base) {
            (Some(other), Some(base)) => format!(", {other} against {base}"),
            _ => String::new(),
        };
        format!(
            "gate {} {} %{who}: {} ({})",
            self.metric,
            significant(self.limit * 100.0),
            self.outcome,
            self.explanation
        )
    }
}

/// What the gates say: exit status and one row for each gate and comparison. `unmatched` are the commands that the
/// baseline does not have.
pub(super) fn gate(limits: &[Limit], pairs: &[Pair], unmatched: &[String]) -> (u8, Vec<GateRow>) {
    let mut outcomes = Vec::new();
    let mut rows = Vec::new();
    for limit in limits {
        let before = outcomes.len();
        let mut say = |metric: &str, who: Option<(&str, &str)>, outcome: Outcome, why: &str| {
            rows.push(GateRow {
                metric: metric.to_owned(),
                limit: limit.share,
                base: who.map(|(base, _)| base.to_owned()),
                other: who.map(|(_, other)| other.to_owned()),
                outcome: word(&outcome).to_owned(),
                explanation: why.to_owned(),
            });
            outcomes.push(outcome);
        };
        for pair in pairs
            .iter()
            .filter(|pair| pair.gated && limit.covers(&pair.metric))
        {
            let who = Some((pair.base.as_str(), pair.other.as_str()));
            say(&pair.metric, who, judge(limit, pair), &pair.explanation);
        }
        for name in unmatched {
            let who = Some(("the baseline", name.as_str()));
            let why = "the baseline has no command of this name";
            say(&limit.metric, who, Outcome::Undecided, why);
        }
        if outcomes.len() == before {
            rows.push(GateRow {
                metric: limit.metric.clone(),
                limit: limit.share,
                base: None,
                other: None,
                outcome: word(&Outcome::Undecided).to_owned(),
                explanation: "there is no comparison of this metric".to_owned(),
            });
            outcomes.push(Outcome::Undecided);
        }
    }
    (GateExit::of(&outcomes).code(), rows)
}

fn judge(limit: &Limit, pair: &Pair) -> Outcome {
    let Some(judged) = pair.judged.as_ref().filter(|_| pair.reasons.is_empty()) else {
        return Outcome::Incomparable(pair.reasons.clone());
    };
    pair.worse.map_or(Outcome::Undecided, |worse| {
        let gate = Gate {
            metric: pair.metric.clone(),
            limit: limit.share,
            worse,
        };
        gate.judge(judged, Vec::new())
    })
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "passed",
        Outcome::Regression => "regressed",
        Outcome::Undecided => "undecided",
        Outcome::Incomparable(_) => "incomparable",
    }
}
