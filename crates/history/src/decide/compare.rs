//! Two commits against each other. What is incomparable is refused by name; exact counts change by any difference;
//! others by `truecount-stats`' comparisons, with a floor that the series' own history has shown. Gates are
//! `truecount_stats::Gate`'s.

use std::collections::{BTreeMap, BTreeSet};

use truecount_run::compare::{Accept, provenance, wording, worse};
use truecount_run::rounds::{Command, Metric};
use truecount_stats::{GateExit, Incomparable, Options, Outcome, compare_unpaired, incomparable};

use super::is_exact;
use super::judge::{gate, judge, word};
use super::moved::{Explanation, explanation};
pub use super::pair::{Asked, Comparison, Row};
use super::pair::{Pending, limit};
use crate::error::{Error, usage};
use crate::identity;
use crate::record::{Profile, Record, parameters};
use crate::store::Key;

/// A benchmark of one side, with the record that it is of.
struct Side<'r> {
    record: &'r Record,
    benchmark: &'r Command,
}

type Place<'r> = (&'r str, &'r str, String);

/// The benchmarks of a commit's records, in the order in which they were measured.
fn benchmarks(records: &[Record]) -> BTreeMap<Place<'_>, Vec<Side<'_>>> {
    let mut all: BTreeMap<Place<'_>, Vec<Side<'_>>> = BTreeMap::new();
    for record in records {
        for benchmark in &record.benchmarks {
            let place = (
                record.suite.as_str(),
                benchmark.name.as_str(),
                parameters(benchmark),
            );
            all.entry(place)
                .or_default()
                .push(Side { record, benchmark });
        }
    }
    all
}

/// A metric as it was measured last; an exact count goes before others (a single run with a profile, say).
fn last<'s, 'r>(sides: &'s [Side<'r>], name: &str) -> Option<(&'s Side<'r>, &'r Metric)> {
    let all = sides.iter().filter_map(|side| {
        let metric = side.benchmark.metrics.get(name)?;
        (!metric.samples.is_empty()).then_some((side, metric))
    });
    all.max_by_key(|(side, metric)| is_exact(metric, &side.record.environment))
}

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
    let mut lone = Vec::new();
    for (place, side) in &after {
        match before.get(place) {
            Some(was) => pending.extend(metrics(was, side, asked)),
            None => lone.push(alone(
                place,
                side,
                "new",
                "the base has no benchmark of this name",
            )),
        }
    }
    for (place, side) in before
        .iter()
        .filter(|(place, _)| !after.contains_key(*place))
    {
        lone.push(alone(
            place,
            side,
            "gone",
            "the new commit has no benchmark of this name",
        ));
    }
    check(asked, &pending, &lone)?;
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
    for mut row in lone {
        let limit = limit(asked, &row.benchmark, &row.metric);
        if limit.is_some() {
            // What is new has nothing that it could be worse than; what is gone may hide something.
            let gone = row.verdict == "gone";
            let outcome = if gone {
                Outcome::Undecided
            } else {
                Outcome::Pass
            };
            row.gate = Some(word(&outcome).to_owned());
            outcomes.push(outcome);
        }
        rows.push(row);
    }
    let gated = !asked.gates.is_empty() || !asked.own_gates.is_empty();
    let mut exit = GateExit::of(&outcomes);
    let mut notes = Vec::new();
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

/// A benchmark that only one side has.
fn alone(place: &Place<'_>, sides: &[Side<'_>], verdict: &str, why: &str) -> Row {
    let mut metrics = sides.iter().flat_map(|side| side.benchmark.metrics.iter());
    let first = metrics.next();
    let median = first.and_then(|(_, metric)| value(metric));
    let new = verdict == "new";
    Row {
        suite: place.0.to_owned(),
        benchmark: place.1.to_owned(),
        parameters: place.2.clone(),
        metric: first.map(|(name, _)| name.to_owned()).unwrap_or_default(),
        unit: first
            .map(|(_, metric)| metric.unit.clone())
            .unwrap_or_default(),
        base: median.filter(|_| !new),
        other: median.filter(|_| new),
        ratio: None,
        exact: false,
        verdict: verdict.to_owned(),
        regression: None,
        explanation: format!("{verdict}: {why}"),
        gate: None,
        limit: None,
        limit_counts: None,
        moved: Vec::new(),
        paths: Vec::new(),
    }
}

fn value(metric: &Metric) -> Option<f64> {
    Some(metric.summary()?.median.to_f64() * metric.scale)
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
fn check(asked: &Asked<'_>, pending: &[Pending], lone: &[Row]) -> Result<(), Error> {
    if pending.is_empty() {
        return Ok(());
    }
    for gate in &asked.gates {
        let mut covered = pending
            .iter()
            .filter(|pair| gate.covers(&pair.row.metric))
            .peekable();
        if covered.peek().is_none() && !lone.iter().any(|row| gate.covers(&row.metric)) {
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
