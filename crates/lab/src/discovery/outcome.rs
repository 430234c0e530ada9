//! What a scan has found, put in order: each selector that counts with its range, where it counts, its names, and how it
//! goes with the references; then what never counted, and what could not be tried.

use super::Plan;
use super::relate::{Relation, Series, Sum, relate, sum};
use super::select::Selector;
use super::state::{NotCounted, State};
use serde::Serialize;
use truecount_stats::{Number, Summary};

/// Least, middle and largest count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The median.
    pub median: f64,
    /// The largest.
    pub max: u64,
    /// Whether all were the same, in at least five runs: fewer are not called exact.
    pub exact: bool,
}

impl Range {
    /// Of some counts; `None` without any.
    #[must_use]
    pub fn of(counts: &[u64]) -> Option<Self> {
        let summary = Summary::of(counts).ok()?;
        let whole = |number: Number| match number {
            Number::Count(count) => Some(count),
            Number::Real(_) => None,
        };
        Some(Self {
            min: whole(summary.min)?,
            median: summary.median.to_f64(),
            max: whole(summary.max)?,
            exact: summary.exact,
        })
    }
}

/// What a selector counted in one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InPhase {
    /// The phase.
    pub phase: String,
    /// Of the runs.
    #[serde(flatten)]
    pub range: Range,
    /// The median for each turn; `None` where turns are not known.
    pub per_turn: Option<f64>,
    /// What a turn is.
    pub turn: String,
}

/// A selector that counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// As `-e` takes it: `r01cb:u`.
    pub event: String,
    /// Code and unit mask.
    #[serde(flatten)]
    pub selector: Selector,
    /// Names that this CPU's tables have for exactly this.
    pub names: Vec<String>,
    /// Where a name is from that no public table of the vendor has.
    pub provenance: Option<String>,
    /// Names that the tables have for the code, whatever the unit mask.
    pub names_of_code: usize,
    /// Of whole runs.
    #[serde(flatten)]
    pub range: Range,
    /// Runs.
    pub runs: usize,
    /// Where it counts, most first; phases where it never did are left out.
    pub phases: Vec<InPhase>,
    /// How it goes with the references.
    pub relations: Vec<Relation>,
}

/// A selector that opened and never counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Silent {
    /// As `-e` takes it.
    pub event: String,
    /// Code and unit mask.
    #[serde(flatten)]
    pub selector: Selector,
    /// Names that this CPU's tables have for exactly this.
    pub names: Vec<String>,
}

/// A selector that could not be tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unavailable {
    /// As `-e` takes it.
    pub event: String,
    /// Which, and why.
    #[serde(flatten)]
    pub why: NotCounted,
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The most selectors that were counted at once, beside the references.
    pub at_once: usize,
    /// What counts.
    pub events: Vec<Found>,
    /// Sums of two.
    pub sums: Vec<Sum>,
    /// What opened and never counted.
    pub silent: Vec<Silent>,
    /// What the kernel refuses.
    pub not_opened: Vec<Unavailable>,
    /// What others kept off the counters.
    pub not_counted: Vec<Unavailable>,
}

fn names(plan: &Plan, selector: Selector) -> Vec<String> {
    let known = plan.known.iter().filter(|k| k.selector == selector);
    known.map(|k| k.name.clone()).collect()
}

fn in_phases(state: &State, own: &Series) -> Vec<InPhase> {
    let mut found: Vec<InPhase> = state
        .phases
        .iter()
        .enumerate()
        .filter_map(|(index, phase)| {
            let range = Range::of(&own.phase(index)).filter(|range| range.max > 0)?;
            Some(InPhase {
                phase: phase.name.clone(),
                range,
                per_turn: phase.turns.map(|turns| range.median / turns.max(1) as f64),
                turn: phase.turn.clone(),
            })
        })
        .collect();
    found.sort_by(|a, b| b.range.median.total_cmp(&a.range.median));
    found
}

/// Sums that need no run of their own: both references were counted beside the selector.
fn sums_with(plan: &Plan, event: &str, own: &Series, references: &[Option<Series>]) -> Vec<Sum> {
    let named: Vec<(&str, &Series)> = plan
        .references
        .iter()
        .zip(references)
        .filter_map(|(reference, series)| Some((reference.name.as_str(), series.as_ref()?)))
        .collect();
    let mut found = Vec::new();
    for (index, &first) in named.iter().enumerate() {
        for &second in named.iter().skip(index + 1) {
            let own = (event, own);
            found.extend(sum(own, first, second));
            found.extend(sum(first, second, own));
            found.extend(sum(second, first, own));
        }
    }
    found.retain(Sum::holds);
    found
}

/// Puts in order what was found.
#[must_use]
pub fn outcome(plan: &Plan, state: &State) -> Outcome {
    let mut events = Vec::new();
    let mut sums = Vec::new();
    for (selector, own, references) in state.counted() {
        let Some(range) = Range::of(&own.totals()) else {
            continue;
        };
        let event = plan.name(selector);
        sums.extend(sums_with(plan, &event, own, references));
        let mut relations: Vec<Relation> = plan
            .references
            .iter()
            .zip(references)
            .filter_map(|(reference, series)| relate(own, &reference.name, series.as_ref()?))
            .collect();
        relations.sort_by_key(|relation| relation.relation);
        let mut same = plan.known.iter().filter(|k| k.selector == selector);
        let of_code = plan
            .known
            .iter()
            .filter(|k| k.selector.code == selector.code);
        events.push(Found {
            names: names(plan, selector),
            provenance: same.find_map(|k| k.provenance.clone()),
            names_of_code: of_code.count(),
            range,
            runs: own.0.len(),
            phases: in_phases(state, own),
            relations,
            event,
            selector,
        });
    }
    events.sort_by_key(|found| found.selector);
    sums.extend(state.sums.iter().cloned());
    let mut silent: Vec<Silent> = state
        .silent()
        .map(|selector| Silent {
            event: plan.name(selector),
            names: names(plan, selector),
            selector,
        })
        .collect();
    silent.sort_by_key(|silent| silent.selector);
    let unavailable = |list: &[NotCounted]| {
        let of = |why: &NotCounted| Unavailable {
            event: plan.name(why.selector),
            why: why.clone(),
        };
        list.iter().map(of).collect()
    };
    Outcome {
        at_once: state.at_once(),
        events,
        sums,
        silent,
        not_opened: unavailable(&state.not_opened),
        not_counted: unavailable(&state.not_counted),
    }
}
