//! What only one of two commits has: new benchmarks pass a gate, lost ones do not, because what is measured no more cannot be
//! said to be no worse.

use truecount_run::compare::Limit;
use truecount_run::rounds::Metric;
use truecount_stats::{Allowed, Outcome};

use super::judge::word;
use super::pair::{Asked, Pending, Row, limit};
use super::sides::{Benchmarks, Place, Side, last, value};
use crate::git;

/// By this name `--accept` lets a gated benchmark be gone.
const GONE: &str = "gone";

/// A row with what its gate says, where it has one.
pub(super) struct Lone {
    pub(super) row: Row,
    pub(super) outcome: Option<Outcome>,
}

/// The limit that a number had which is there no more: today's, or that of the base's own file.
fn former<'a>(asked: &'a Asked<'_>, benchmark: &str, metric: &str) -> Option<&'a Limit> {
    let own = asked.base_gates.get(benchmark).into_iter().flatten();
    limit(asked, benchmark, metric).or_else(|| own.into_iter().find(|l| l.covers(metric)))
}

/// Benchmarks and metrics that one commit lacks.
pub(super) fn lone(
    before: &Benchmarks<'_>,
    after: &Benchmarks<'_>,
    pending: &[Pending],
    asked: &Asked<'_>,
) -> Vec<Lone> {
    let mut found = Vec::new();
    for (place, sides) in after
        .iter()
        .filter(|(place, _)| !before.contains_key(*place))
    {
        found.push(new(place, sides, asked));
    }
    for (place, sides) in before {
        match after.get(place) {
            None => found.extend(gone(place, sides, asked)),
            Some(now) => {
                found.extend(metrics_gone(place, sides, now, asked));
                found.extend(metrics_new(place, sides, now, asked));
            }
        }
    }
    let has = |benchmark: &str, limit: &Limit| {
        let row = |row: &Row| row.benchmark == benchmark && limit.covers(&row.metric);
        pending.iter().any(|pair| row(&pair.row)) || found.iter().any(|one| row(&one.row))
    };
    let all = asked.own_gates.iter().map(|gate| (true, gate));
    let all = all.chain(asked.base_gates.iter().map(|gate| (false, gate)));
    let mut lost = Vec::new();
    for (today, (name, limits)) in all {
        // What today's file still names has today's limits.
        if !today && asked.own_gates.contains_key(name) {
            continue;
        }
        for limit in limits.iter().filter(|limit| !has(name, limit)) {
            let (verdict, why) = if today {
                ("not measured", "it has a limit and no number")
            } else {
                (
                    GONE,
                    "it had a limit at the base, and is neither named nor measured any more",
                )
            };
            let place = ("", name.as_str(), String::new());
            let mut one = row(&place, &limit.metric, None, verdict, why);
            one.suite = suite(before, after, name);
            lost.push(lose(one, Some(limit), asked));
        }
    }
    found.extend(lost);
    found
}

/// The suite of a benchmark, or that of all where there is but one.
fn suite(before: &Benchmarks<'_>, after: &Benchmarks<'_>, name: &str) -> String {
    let all = || before.keys().chain(after.keys());
    let mut suites: Vec<&str> = all().filter(|p| p.1 == name).map(|p| p.0).collect();
    if suites.is_empty() {
        suites = all().map(|place| place.0).collect();
    }
    suites.dedup();
    match suites.as_slice() {
        [only] => (*only).to_owned(),
        _ => String::new(),
    }
}

/// What is new has nothing that it could be worse than.
fn new(place: &Place<'_>, sides: &[Side<'_>], asked: &Asked<'_>) -> Lone {
    let all = || sides.iter().flat_map(|side| side.benchmark.metrics.iter());
    let gated = all().find(|(name, _)| limit(asked, place.1, name).is_some());
    let (name, metric) = gated.or_else(|| all().next()).unzip();
    let why = "the base has no benchmark of this name";
    added(
        place,
        name.map_or("", |name: &str| name),
        metric,
        why,
        gated.is_some(),
    )
}

fn added(place: &Place<'_>, name: &str, metric: Option<&Metric>, why: &str, gated: bool) -> Lone {
    let mut row = row(place, name, metric, "new", why);
    row.other = metric.and_then(value);
    let outcome = gated.then_some(Outcome::Pass);
    row.gate = outcome.as_ref().map(|outcome| word(outcome).to_owned());
    Lone { row, outcome }
}

/// The names of all metrics, once each.
fn names<'a>(sides: &'a [Side<'_>]) -> Vec<&'a str> {
    let all = sides.iter().flat_map(|side| side.benchmark.metrics.iter());
    let mut names = Vec::new();
    for (name, _) in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Metrics with a limit that the base has no count of.
fn metrics_new(
    place: &Place<'_>,
    before: &[Side<'_>],
    after: &[Side<'_>],
    asked: &Asked<'_>,
) -> Vec<Lone> {
    const WHY: &str = "the base did not measure this metric";
    let missing =
        |name: &&str| limit(asked, place.1, name).is_some() && last(before, name).is_none();
    let missing = names(after).into_iter().filter(missing);
    missing
        .filter_map(|name| {
            let (_, metric) = last(after, name)?;
            Some(added(place, name, Some(metric), WHY, true))
        })
        .collect()
}

/// A benchmark that the new commit has no more: a row for each metric with a limit, one where none has.
fn gone(place: &Place<'_>, sides: &[Side<'_>], asked: &Asked<'_>) -> Vec<Lone> {
    const WHY: &str = "the new commit has no benchmark of this name";
    let mut found: Vec<Lone> = Vec::new();
    let all = || sides.iter().flat_map(|side| side.benchmark.metrics.iter());
    for (name, metric) in all() {
        let limit = former(asked, place.1, name);
        if limit.is_some() && found.iter().all(|one| one.row.metric != name) {
            found.push(lose(
                row(place, name, Some(metric), GONE, WHY),
                limit,
                asked,
            ));
        }
    }
    if found.is_empty() {
        let (name, metric) = all().next().unzip();
        let name = name.map_or("", |name: &str| name);
        found.push(lose(row(place, name, metric, GONE, WHY), None, asked));
    }
    found
}

/// Metrics with a limit that the new commit has no count of.
fn metrics_gone(
    place: &Place<'_>,
    before: &[Side<'_>],
    after: &[Side<'_>],
    asked: &Asked<'_>,
) -> Vec<Lone> {
    let lost = |name: &str| {
        let limit = former(asked, place.1, name)?;
        let (_, metric) = last(before, name)?;
        if last(after, name).is_some() {
            return None;
        }
        let mut now = after
            .iter()
            .filter_map(|side| side.benchmark.metrics.get(name));
        let reason = now.find_map(|metric| metric.reason.as_deref());
        let why = reason.unwrap_or("the new commit did not measure this metric");
        let row = row(place, name, Some(metric), GONE, why);
        Some(lose(row, Some(limit), asked))
    };
    names(before).into_iter().filter_map(lost).collect()
}

/// What the gate of a lost number says: undecided, unless somebody has said that it may be lost.
fn lose(mut row: Row, limit: Option<&Limit>, asked: &Asked<'_>) -> Lone {
    let Some(limit) = limit else {
        return Lone { row, outcome: None };
    };
    match limit.allowed {
        Allowed::Share(share) => row.limit = Some(share),
        Allowed::Counts(counts) => row.limit_counts = Some(counts),
    }
    let mut blessings = asked.blessings.iter();
    let blessing = blessings.find(|one| one.covers(&row.benchmark, &row.metric));
    let outcome = if asked.accept.contains(GONE) {
        row.gate = Some("passed".to_owned());
        Outcome::Pass
    } else if let Some(blessing) = blessing {
        row.gate = Some("blessed".to_owned());
        row.explanation.push_str(&format!(
            "; accepted at {}: {}",
            git::short(&blessing.commit),
            blessing.reason
        ));
        Outcome::Pass
    } else {
        row.gate = Some(word(&Outcome::Undecided).to_owned());
        Outcome::Undecided
    };
    Lone {
        row,
        outcome: Some(outcome),
    }
}

fn row(place: &Place<'_>, name: &str, metric: Option<&Metric>, verdict: &str, why: &str) -> Row {
    Row {
        suite: place.0.to_owned(),
        benchmark: place.1.to_owned(),
        parameters: place.2.clone(),
        metric: name.to_owned(),
        unit: metric.map(|metric| metric.unit.clone()).unwrap_or_default(),
        base: metric.and_then(value).filter(|_| verdict == GONE),
        other: None,
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

/// What to do about a gate that lost its number, and limits that today's file has no more.
pub(super) fn notes(lone: &[Lone], pending: &[Pending], asked: &Asked<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let lost = |one: &&Lone| matches!(one.outcome, Some(Outcome::Undecided));
    if lone.iter().any(|one| lost(&one)) {
        notes.push(
            "What is gone or not measured cannot pass its gate: measure it, accept it by `truecount history bless HEAD \
             --benchmark NAME --reason TEXT`, or let all of it pass by --accept gone."
                .to_owned(),
        );
    }
    let mut dropped = Vec::new();
    for pair in pending {
        let (name, metric) = (&pair.row.benchmark, &pair.row.metric);
        let had = former(asked, name, metric).is_some();
        if had && limit(asked, name, metric).is_none() {
            let text = format!("{name} {metric}");
            if !dropped.contains(&text) {
                dropped.push(text);
            }
        }
    }
    if !dropped.is_empty() {
        notes.push(format!(
            "These had a limit at the base and have none now: {}.",
            dropped.join(", ")
        ));
    }
    notes
}
