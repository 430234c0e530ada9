//! Two commits against each other. What is incomparable is refused by name; exact counts change by any difference;
//! others by `truecount-stats`' comparisons, with a floor that the series' own history has shown. Gates are
//! `truecount_stats::Gate`'s.

use std::collections::BTreeSet;

use truecount_run::compare::{Accept, provenance, wording, worse};
use truecount_run::rounds::Metric;
use truecount_stats::{GateExit, Incomparable, Options, compare_unpaired, incomparable};

use super::is_exact;
use super::judge::{gate, judge};
use super::lone::{Lone, lone, notes};
use super::moved::{Explanation, explanation};
use super::pair::Pending;
pub use super::pair::{Asked, Comparison, Row};
use super::sides::{Side, benchmarks, last, value};
use crate::error::{Error, usage};
use crate::identity;
use crate::record::{Profile, Record, parameters};
use crate::store::Key;

/// The profile of a benchmark's metric among the records of a commit, the last one.
fn profile<'r>(
    records: &'r [Record],
    (suite, benchmark, parameters): (&str, &str, &str),
    metric: &str,
) -> Option<&'r Profile> {
    let of_suite = records.iter().rev().filter(|record| record.suite == suite);
    of_suite
        .flat_map(|record| &record.profiles)
        .find(|p| (&*p.benchmark, &*p.parameters, &*p.metric) == (benchmark, parameters, metric))
}

/// Compares the records of two commits.
///
/// # Errors
/// A gate on a metric that no benchmark has, or of which neither direction is worse.
pub fn compare(base: &[Record], other: &[Record], asked: &Asked<'_>) -> Result<Comparison, Error> {
    let (before, after) = (benchmarks(base), benchmarks(other));
    let mut pending = Vec::new();
    for (place, side) in &after {
        if let Some(was) = before.get(place) {
            pending.extend(metrics(was, side, asked));
        }
    }
    let lone = lone(&before, &after, &pending, asked);
    check(asked, &pending, &lone)?;
    let mut notes = notes(&lone, &pending, asked);
    judge(&mut pending, asked);
    let mut outcomes = Vec::new();
    let mut rows = Vec::new();
    for mut pair in pending {
        if pair.row.regression.is_some() {
            let of = |records| {
                let row = &pair.row;
                let place = (&*row.suite, &*row.benchmark, &*row.parameters);
                profile(records, place, &row.metric)
            };
            if let (Some(base), Some(other)) = (of(base), of(other)) {
                let Explanation { moved, paths } = explanation(base, other);
                (pair.row.moved, pair.row.paths) = (moved, paths);
            }
        }
        outcomes.extend(gate(&mut pair, asked));
        rows.push(pair.row);
    }
    for one in lone {
        outcomes.extend(one.outcome);
        rows.push(one.row);
    }
    let gated = !asked.gates.is_empty() || !asked.own_gates.is_empty();
    let mut exit = GateExit::of(&outcomes);
    if gated && outcomes.is_empty() {
        exit = GateExit::Undecided;
        notes.push(
            "No gate could be asked: neither commit has a benchmark with its metric.".to_owned(),
        );
    }
    rows.sort_by(|a, b| {
        let place = |row: &Row| {
            (
                row.suite.clone(),
                row.benchmark.clone(),
                row.parameters.clone(),
            )
        };
        place(a).cmp(&place(b))
    });
    Ok(Comparison {
        rows,
        notes,
        status: exit.code(),
    })
}

/// The metrics that both commits have.
fn metrics(base: &[Side<'_>], other: &[Side<'_>], asked: &Asked<'_>) -> Vec<Pending> {
    let mut seen = BTreeSet::new();
    let names = other
        .iter()
        .flat_map(|side| side.benchmark.metrics.iter().map(|(name, _)| name));
    let names = names.filter(|name| seen.insert((*name).to_owned()));
    names
        .filter_map(|name| Some(pair(name, last(base, name)?, last(other, name)?, asked)))
        .collect()
}

fn pair(
    name: &str,
    (base, before): (&Side<'_>, &Metric),
    (other, after): (&Side<'_>, &Metric),
    asked: &Asked<'_>,
) -> Pending {
    let reasons = reasons(name, (base, before), (other, after), asked);
    let (was, is) = (value(before), value(after));
    let exact =
        is_exact(before, &base.record.environment) && is_exact(after, &other.record.environment);
    let ratio = match (was, is) {
        (Some(was), Some(is)) if was == is => Some(1.0),
        (Some(was), Some(is)) => Some(is / was).filter(|ratio| ratio.is_finite()),
        _ => None,
    };
    let comparable = reasons.is_empty() && !exact;
    let compared = comparable
        .then(|| {
            let scaled = |metric: &Metric| -> Vec<f64> {
                metric
                    .samples
                    .iter()
                    .map(|&v| v as f64 * metric.scale)
                    .collect()
            };
            compare_unpaired(&scaled(before), &scaled(after), &Options::default()).ok()
        })
        .flatten();
    Pending {
        key: Key {
            suite: other.record.suite.clone(),
            benchmark: other.benchmark.name.clone(),
            parameters: parameters(other.benchmark),
            metric: name.to_owned(),
            source: identity::source(other.record, after),
            machine: identity::machine(other.record, after),
        },
        row: Row {
            suite: other.record.suite.clone(),
            benchmark: other.benchmark.name.clone(),
            parameters: parameters(other.benchmark),
            metric: name.to_owned(),
            unit: after.unit.clone(),
            base: was,
            other: is,
            ratio,
            exact,
            verdict: String::new(),
            regression: None,
            explanation: String::new(),
            gate: None,
            limit: None,
            limit_counts: None,
            moved: Vec::new(),
            paths: Vec::new(),
        },
        worse: worse(name, after),
        wording: wording(name, after),
        reasons,
        compared,
    }
}

/// Why two sides do not mean the same.
fn reasons(
    name: &str,
    (base, before): (&Side<'_>, &Metric),
    (other, after): (&Side<'_>, &Metric),
    asked: &Asked<'_>,
) -> Vec<Incomparable> {
    let accepted = |fact: &str| asked.accept.contains("all") || asked.accept.contains(fact);
    let accept = Accept {
        machine: accepted("machine"),
        environment: accepted("environment"),
    };
    let of = |side: &Side<'_>, metric| {
        let mut all = provenance(Some(&side.record.environment), accept, name, metric);
        // What was declared to be one machine is one, also where a cloud gives it another CPU now and then: the CPU is
        // a fact like the others and is asked for below, the kernel and what else it says too.
        all.machine
            .insert("series".to_owned(), identity::machine(side.record, metric));
        if !side.record.environment.truecount.is_empty() {
            all.machine.insert(
                "truecount".to_owned(),
                side.record.environment.truecount.clone(),
            );
        }
        for (fact, value) in &side.record.declared {
            all.environment.insert(fact.clone(), value.clone());
        }
        all.machine
            .retain(|fact, _| !(accepted(fact) || fact == "series" && accept.machine));
        all.environment
            .retain(|fact, _| !(accepted(fact) || fact == identity::MACHINE && accept.machine));
        all
    };
    incomparable(&of(base, before), &of(other, after))
}

/// Refuses gates that could never decide.
fn check(asked: &Asked<'_>, pending: &[Pending], lone: &[Lone]) -> Result<(), Error> {
    if pending.is_empty() {
        return Ok(());
    }
    for gate in &asked.gates {
        let mut covered = pending
            .iter()
            .filter(|pair| gate.covers(&pair.row.metric))
            .peekable();
        if covered.peek().is_none() && !lone.iter().any(|one| gate.covers(&one.row.metric)) {
            let names: BTreeSet<&str> = pending
                .iter()
                .map(|pair| pair.row.metric.as_str())
                .collect();
            let names: Vec<&str> = names.into_iter().collect();
            let cause = format!("--fail-above {}: it is not measured", gate.metric);
            return Err(usage(cause).hint(format!("measured are {}", names.join(", "))));
        }
        if let Some(pair) = covered.find(|pair| pair.worse.is_none()) {
            let cause = format!(
                "--fail-above {}: nothing says which direction is worse",
                pair.row.metric
            );
            return Err(usage(cause).hint("gate another metric"));
        }
    }
    Ok(())
}
