//! What is asked of a comparison, and its rows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use truecount_run::compare::Limit;
use truecount_stats::{Comparison as Compared, Incomparable, Worse};

use super::moved::{Moved, MovedPath};
use crate::store::{Blessing, Key};

/// How far a series moved, as a share.
pub type Noise<'a> = &'a dyn Fn(&Key) -> Option<f64>;

/// What is asked of a comparison.
#[derive(Default)]
pub struct Asked<'a> {
    /// What may not get worse by more, in every benchmark.
    pub gates: Vec<Limit>,
    /// The same for single benchmarks, by their names; it goes before those for all.
    pub own_gates: BTreeMap<String, Vec<Limit>>,
    /// Limits that the base's own file gave its benchmarks: what is gone since had them.
    pub base_gates: BTreeMap<String, Vec<Limit>>,
    /// Facts that may differ: `machine`, `environment`, `all`, or a fact's name; `gone` lets a gated benchmark be gone.
    pub accept: BTreeSet<String>,
    /// Changes between the two that were accepted.
    pub blessings: Vec<Blessing>,
    /// How far a series moved from commit to commit before, as a share.
    pub noise: Option<Noise<'a>>,
}

/// One metric of one benchmark at both commits.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The suite; empty without one.
    pub suite: String,
    /// The benchmark.
    pub benchmark: String,
    /// Its parameters.
    pub parameters: String,
    /// The metric.
    pub metric: String,
    /// The unit of the values.
    pub unit: String,
    /// The base's median.
    pub base: Option<f64>,
    /// The other's median.
    pub other: Option<f64>,
    /// other / base.
    pub ratio: Option<f64>,
    /// Both are exact counts.
    pub exact: bool,
    /// `same`, `more`, `fewer`, `slower`, …, `undecided`, `described`, `incomparable`, `new`, `gone`, `not measured`.
    pub verdict: String,
    /// Whether what changed is worse; `None` where nothing changed, or neither direction is worse.
    pub regression: Option<bool>,
    /// The verdict in full.
    pub explanation: String,
    /// What the gate says: `passed`, `regressed`, `undecided`, `incomparable`, `blessed`; `None` without a gate.
    pub gate: Option<String>,
    /// The gate's limit, as a share.
    pub limit: Option<f64>,
    /// The gate's limit, where it is given in counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_counts: Option<f64>,
    /// Functions that spend more or less, the largest difference first.
    pub moved: Vec<Moved>,
    /// Paths of calls that are taken more or less often, or cost another amount, the largest difference first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<MovedPath>,
}

/// Two commits against each other.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Every metric of every benchmark.
    pub rows: Vec<Row>,
    /// What the reader should know, a sentence each.
    pub notes: Vec<String>,
    /// The exit status that the gates come to.
    pub status: u8,
}

/// What is known of a pair before it is judged.
pub(super) struct Pending {
    pub(super) row: Row,
    pub(super) key: Key,
    pub(super) worse: Option<Worse>,
    pub(super) wording: truecount_stats::Wording,
    pub(super) reasons: Vec<Incomparable>,
    /// Not of exact counts.
    pub(super) compared: Option<Compared>,
}

/// The limit that a metric of a benchmark has.
pub(super) fn limit<'a>(asked: &'a Asked<'_>, benchmark: &str, metric: &str) -> Option<&'a Limit> {
    let own = asked.own_gates.get(benchmark).into_iter().flatten();
    own.chain(&asked.gates).find(|limit| limit.covers(metric))
}
