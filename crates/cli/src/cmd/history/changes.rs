//! `truecount history changes`: where series changed, over all commits.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use rayon::prelude::*;
use serde::Serialize;
use truecount_history::decide::changes::{Change, changes as changes_of};
use truecount_history::decide::{Explanation, Moved, MovedPath, explanation};
use truecount_history::git::{MAX_ANCESTORS, Repository, short};
use truecount_history::record::{Commit, Record};
use truecount_history::store::{Series, Store};
use truecount_model::number::{change as percent, quantity};

use super::{StoreArgs, benchmark, day, explained, number_of};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::json;
use crate::render::style::{BAD, DIM, GOOD, HEAD, paint};

/// List every change of every series, with the commits that made it
#[derive(clap::Args)]
#[command(after_help = "\
EXAMPLES
  truecount history changes                              all changes on the way to HEAD
  truecount history changes --regressions --benchmark parse
  truecount history changes --branch main --json

Exact counts change by any difference. Other series change where E-Divisive finds it (p below 0.001,
and a change of the mean beyond the metric's floor).")]
pub(super) struct Args {
    /// The branch whose first parents are looked at (default: HEAD; without a repository all commits by their times)
    #[arg(long, value_name = "REV")]
    branch: Option<String>,
    /// Only this benchmark
    #[arg(long, value_name = "NAME")]
    benchmark: Option<String>,
    /// Only this metric
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Only changes for the worse
    #[arg(long)]
    regressions: bool,
    /// Print one JSON document (schema truecount.history-changes/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    /// Commits that were looked at.
    commits: usize,
    /// Series that have points among them.
    series: usize,
    changes: Vec<Told>,
}

/// A change with what explains it.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    change: Change,
    subject: String,
    time: i64,
    /// Functions that spend more or less.
    moved: Vec<Moved>,
    /// Paths of calls that do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<MovedPath>,
    /// Facts of the environment that differ.
    environment: Vec<String>,
    /// Other commits that are in the one and not in the other: without records, or of a merged branch.
    between: Vec<Between>,
}

/// A commit between two records.
#[derive(Clone, Serialize)]
struct Between {
    hash: String,
    subject: String,
}

/// So many commits between two records are shown.
const MAX_BETWEEN: usize = 10;

/// The commits in their order, the oldest first.
pub(super) fn order(
    store: &mut Store,
    args: &StoreArgs,
    branch: Option<&str>,
) -> Result<Vec<Commit>, Failure> {
    let known = store.log()?;
    let walked = match (args.repository(), branch) {
        (Ok(repository), _) => {
            Some(repository.first_parents(branch.unwrap_or("HEAD"), 20 * MAX_ANCESTORS)?)
        }
        (Err(failure), Some(_)) => return Err(failure),
        (Err(_), None) => None,
    };
    let Some(mut walked) = walked else {
        return Ok(known);
    };
    walked.reverse();
    let mut by_hash: BTreeMap<String, Commit> = known
        .into_iter()
        .map(|commit| (commit.hash.clone(), commit))
        .collect();
    let commit = |hash: String| {
        by_hash.remove(&hash).unwrap_or(Commit {
            hash,
            ..Commit::default()
        })
    };
    Ok(walked.into_iter().map(commit).collect())
}

pub(super) fn run(args: &Args) -> CmdResult {
    let mut store = args.store.open(false)?;
    let commits = order(&mut store, &args.store, args.branch.as_deref())?;
    let places: BTreeMap<&str, usize> = commits
        .iter()
        .enumerate()
        .map(|(place, commit)| (commit.hash.as_str(), place))
        .collect();
    let blessings = store.blessings()?;
    let mut wanted = store.series()?;
    wanted.retain(|series| {
        let key = &series.key;
        let plain = key.metric.split(':').next();
        args.benchmark
            .as_ref()
            .is_none_or(|name| *name == key.benchmark)
            && args
                .metric
                .as_ref()
                .is_none_or(|name| *name == key.metric || Some(name.as_str()) == plain)
    });
    let is_here = |series: &&Series| {
        let mut points = series.points.iter();
        points.any(|point| places.contains_key(&*point.commit))
    };
    let looked_at = wanted.iter().filter(is_here).count();
    let found = wanted.par_iter();
    let found = found.flat_map_iter(|series| changes_of(series, &places));
    let mut all: Vec<Change> = found.collect();
    all.retain(|change| !args.regressions || change.regression == Some(true));
    all.sort_by(|a, b| (b.index, &a.benchmark, &a.metric).cmp(&(a.index, &b.benchmark, &b.metric)));
    for change in &mut all {
        let blessing = blessings
            .iter()
            .find(|b| b.commit == change.commit && b.covers(&change.benchmark, &change.metric));
        change.blessed = blessing.map(|blessing| blessing.reason.clone());
    }
    let mut kept = Kept::default();
    let mut told = Vec::new();
    let repository = args.store.repository().ok();
    let mut last: Option<(String, String, Vec<Between>)> = None;
    for change in all {
        let (before, after) = kept.both(&mut store, &change)?;
        let commit = commits.get(change.index);
        let merge = commit.is_some_and(|commit| commit.parents.len() > 1);
        let between = match &last {
            Some((from, to, found)) if *from == change.before && *to == change.commit => {
                found.clone()
            }
            _ if merge || change.unmeasured > 0 => between(repository.as_ref(), &change),
            _ => Vec::new(),
        };
        last = Some((
            change.before.clone(),
            change.commit.clone(),
            between.clone(),
        ));
        let Explanation { moved, paths } = explanation_of(&change, before, after);
        told.push(Told {
            subject: commit
                .map(|commit| commit.subject.clone())
                .unwrap_or_default(),
            time: commit.map_or(0, |commit| commit.time),
            moved,
            paths,
            environment: environment(&change, before, after),
            between,
            change,
        });
    }
    let document = Document {
        schema: "truecount.history-changes/1",
        commits: commits.len(),
        series: looked_at,
        changes: told,
    };
    let mut out = Output::shown(args.json.as_deref())?;
    match args.json {
        Some(_) => json::write(&mut out, &document)?,
        None => text(&mut out, &document)?,
    }
    out.flush()?;
    Ok(Outcome::OK)
}

/// The other commits that a change may be of. None where the store is of another repository.
fn between(repository: Option<&Repository>, change: &Change) -> Vec<Between> {
    let found = repository.map(|repository| repository.subjects(&change.before, &change.commit));
    let found = found.and_then(Result::ok).unwrap_or_default();
    let commit = |(hash, subject)| Between { hash, subject };
    found.into_iter().map(commit).collect()
}

/// Records that were read already.
#[derive(Default)]
pub(super) struct Kept(BTreeMap<String, Vec<Record>>);

impl Kept {
    /// The records of both sides of a change.
    fn both(
        &mut self,
        store: &mut Store,
        change: &Change,
    ) -> Result<(&[Record], &[Record]), Failure> {
        for hash in [&change.before, &change.commit] {
            if !self.0.contains_key(hash) {
                self.0.insert(hash.clone(), store.records(hash, None)?);
            }
        }
        let of = |hash: &String| self.0.get(hash).map(Vec::as_slice).unwrap_or_default();
        Ok((of(&change.before), of(&change.commit)))
    }

    /// What a change is made of.
    pub(super) fn explained(
        &mut self,
        store: &mut Store,
        change: &Change,
    ) -> Result<Explanation, Failure> {
        let (before, after) = self.both(store, change)?;
        Ok(explanation_of(change, before, after))
    }
}

fn explanation_of<'r>(change: &Change, before: &'r [Record], after: &'r [Record]) -> Explanation {
    let profile = |records: &'r [Record]| {
        let of_suite = records.iter().rev().filter(|r| r.suite == change.suite);
        of_suite.flat_map(|record| &record.profiles).find(|p| {
            p.benchmark == change.benchmark
                && p.parameters == change.parameters
                && p.metric == change.metric
        })
    };
    match (profile(before), profile(after)) {
        (Some(before), Some(after)) => explanation(before, after),
        _ => Explanation::default(),
    }
}

/// What else changed between the two records.
fn environment<'r>(change: &Change, before: &'r [Record], after: &'r [Record]) -> Vec<String> {
    let of = |records: &'r [Record]| {
        let has = |record: &&Record| {
            record.suite == change.suite
                && record.benchmarks.iter().any(|b| b.name == change.benchmark)
        };
        records.iter().rev().find(has)
    };
    let (Some(before), Some(after)) = (of(before), of(after)) else {
        return Vec::new();
    };
    let mut lines = after.environment.differences(&before.environment);
    for name in before.declared.keys().chain(
        after
            .declared
            .keys()
            .filter(|n| !before.declared.contains_key(*n)),
    ) {
        let of = |record: &Record| {
            record
                .declared
                .get(name)
                .cloned()
                .unwrap_or_else(|| "none".to_owned())
        };
        if of(before) != of(after) {
            lines.push(format!("{name}: {}, was {}", of(after), of(before)));
        }
    }
    lines
}

fn text(out: &mut Output, document: &Document) -> std::io::Result<()> {
    let looked = format!(
        "{} over {}",
        number_of(document.series, "series"),
        number_of(document.commits, "commit")
    );
    if document.changes.is_empty() {
        return writeln!(out, "No change in {looked}.");
    }
    writeln!(
        out,
        "{} in {looked}.",
        number_of(document.changes.len(), "change")
    )?;
    let mut last = "";
    for told in &document.changes {
        let change = &told.change;
        if change.commit != last {
            last = &change.commit;
            let title = format!(
                "{}  {}  {}",
                short(&change.commit),
                day(told.time),
                told.subject
            );
            writeln!(out, "\n{}", paint(HEAD, &title))?;
            if change.unmeasured > 0 {
                let line = format!(
                    "  or one of the {} before it without records (after {})",
                    change.unmeasured,
                    short(&change.before)
                );
                writeln!(out, "{}", paint(DIM, &line))?;
            }
            for other in told.between.iter().take(MAX_BETWEEN) {
                let line = format!("    {}  {}", short(&other.hash), other.subject);
                writeln!(out, "{}", paint(DIM, &line))?;
            }
            if let Some(more) = told
                .between
                .len()
                .checked_sub(MAX_BETWEEN)
                .filter(|n| *n > 0)
            {
                let line = format!("    and {} more", number_of(more, "commit"));
                writeln!(out, "{}", paint(DIM, &line))?;
            }
        }
        let style = match change.regression {
            Some(true) => BAD,
            Some(false) => GOOD,
            None => DIM,
        };
        let sure = match change.p {
            None => "exact".to_owned(),
            Some(p) if p < 1e-6 => "p < 0.000001".to_owned(),
            Some(p) => format!("p = {p:.6}"),
        };
        let name = benchmark(&change.suite, &change.benchmark, &change.parameters);
        let ratio = change.ratio.map_or_else(|| "from 0".to_owned(), percent);
        writeln!(
            out,
            "  {}  {name} {}: {} → {} ({sure}; {})",
            paint(style, &ratio),
            change.metric,
            quantity(change.base, 1.0, &change.unit),
            quantity(change.other, 1.0, &change.unit),
            change.machine,
        )?;
        if let Some(reason) = &change.blessed {
            writeln!(out, "    accepted: {reason}")?;
        }
        for line in explained::lines(&told.moved, &told.paths) {
            writeln!(out, "    {line}")?;
        }
        for line in &told.environment {
            writeln!(out, "    {}", paint(DIM, line))?;
        }
    }
    Ok(())
}
