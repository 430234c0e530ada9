//! `truecount history bisect`: the commit that changed a number. First parents are searched by halves; where the change
//! came by a merge, the merged branch is searched the same way.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use serde::Serialize;
use truecount_history::decide::compare::{Asked, Row, compare};
use truecount_history::git::{Repository, short};
use truecount_history::record::{Commit, Record};
use truecount_model::number::{change as percent, quantity};

use super::keeping::Keeping;
use super::stopping::Stopping;
use super::work::{Skipped, Work, WorkArgs};
use super::{StoreArgs, benchmark, explained, number_of};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::json;
use crate::render::style::{DIM, HEAD, WARN, paint};

const EXAMPLES: &str = "\
EXAMPLES
  truecount history bisect v1.2 HEAD                      what truecount.toml names
  truecount history bisect v1.2 HEAD --benchmark parse --metric instructions
  truecount history bisect --build make v1.2 HEAD -- ./prog input.txt

Records that the store has are used, others are measured and kept. Of several series that differ the
one that changed most is searched for. A commit counts as before the change when its number is
nearer to GOOD's. Commits that do not build are skipped; where only they are left, all of them are
named.";

/// Find the commit that changed a number, measuring as few as possible
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A commit before the change
    #[arg(value_name = "GOOD")]
    good: String,
    /// A commit after it
    #[arg(value_name = "BAD", default_value = "HEAD")]
    bad: String,
    /// The benchmark whose change is looked for
    #[arg(long, value_name = "NAME")]
    benchmark: Option<String>,
    /// The metric whose change is looked for
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Print one JSON document (schema truecount.history-bisect/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// The result as a document.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    /// The commit that changed it; of several the last: those between it and `before` could not be measured.
    commit: Commit,
    /// The last commit that is as GOOD.
    before: Commit,
    /// Commits between the two that could not be measured.
    unmeasured: Vec<String>,
    /// What changed, between the two.
    change: Option<Row>,
    /// Commits that were measured now.
    measured: usize,
    /// Commits that were skipped, with the reason.
    skipped: BTreeMap<String, String>,
}

/// The search.
struct Search<'a> {
    work: Work<'a>,
    repository: &'a Repository,
    store: Keeping<'a>,
    suite: String,
    /// Benchmark, parameters, metric; `None` before it is known.
    series: Option<(String, String, String)>,
    ends: (f64, f64),
    measured: usize,
    skipped: BTreeMap<String, String>,
    out: Option<Output>,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let stopping = Stopping::new()?;
    search(args, &stopping).map_err(|failure| stopping.instead_of(failure))
}

fn search(args: &Args, stopping: &Stopping) -> CmdResult {
    let repository = args.store.repository()?;
    let (good, bad) = (
        repository.resolve(&args.good)?,
        repository.resolve(&args.bad)?,
    );
    if good == bad || !repository.is_ancestor(&good, &bad)? {
        let cause = format!("{} is not before {}", args.good, args.bad);
        let base = repository
            .merge_base(&good, &bad)
            .ok()
            .filter(|base| *base != good);
        let hint = base.map_or_else(
            || "write the older one first".to_owned(),
            |base| format!("both come from {}: name that first", short(&base)),
        );
        return Err(Failure::new(2, cause).hint(hint));
    }
    let work = Work::new(&args.work, &repository, stopping)?;
    let mut search = Search {
        suite: work.suite_name().to_owned(),
        work,
        repository: &repository,
        store: Keeping::open(stopping, &args.store)?,
        series: None,
        ends: (0.0, 0.0),
        measured: 0,
        skipped: BTreeMap::new(),
        out: args.json.is_none().then(Output::stdout),
    };
    let (before, after) = (search.end(&good)?, search.end(&bad)?);
    let row = chosen(args, &before, &after)?;
    search.ends = (row.base.unwrap_or_default(), row.other.unwrap_or_default());
    search.series = Some((
        row.benchmark.clone(),
        row.parameters.clone(),
        row.metric.clone(),
    ));
    search.say(&format!(
        "{} {}: {} → {} ({})",
        benchmark(&row.suite, &row.benchmark, &row.parameters),
        row.metric,
        quantity(search.ends.0, 1.0, &row.unit),
        quantity(search.ends.1, 1.0, &row.unit),
        row.ratio.map_or_else(|| "from 0".to_owned(), percent),
    ))?;
    let (before, commit, unmeasured) = search.find(&good, &bad)?;
    let (was, is) = (search.end(&before)?, search.end(&commit)?);
    let change = compare(
        &was,
        &is,
        &Asked {
            accept: ["all".to_owned()].into(),
            ..Asked::default()
        },
    )?;
    let change = change.rows.into_iter().find(|row| search.is_series(row));
    let document = Document {
        schema: "truecount.history-bisect/1",
        commit: repository.commit(&commit)?,
        before: repository.commit(&before)?,
        unmeasured,
        change,
        measured: search.measured,
        skipped: search.skipped.clone(),
    };
    let mut out = match search.out.take() {
        Some(out) => out,
        None => Output::shown(args.json.as_deref())?,
    };
    match args.json {
        Some(_) => json::write(&mut out, &document)?,
        None => text(&mut out, &document)?,
    }
    out.flush()?;
    Ok(Outcome::OK)
}

/// The series whose change is looked for: the one that changed most among those that are meant.
fn chosen(args: &Args, before: &[Record], after: &[Record]) -> Result<Row, Failure> {
    let asked = Asked {
        accept: ["all".to_owned()].into(),
        ..Asked::default()
    };
    let rows = compare(before, after, &asked)?
        .rows
        .into_iter()
        .filter(|row| {
            let plain = row.metric.split(':').next();
            args.benchmark
                .as_ref()
                .is_none_or(|name| *name == row.benchmark)
                && args
                    .metric
                    .as_ref()
                    .is_none_or(|name| *name == row.metric || Some(name.as_str()) == plain)
        });
    let changed = rows.filter(|row| row.regression.is_some() || row.exact && row.base != row.other);
    let size = |row: &Row| row.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
    changed.max_by(|a, b| size(a).total_cmp(&size(b))).ok_or_else(|| {
        let cause = format!("nothing that is measured differs between {} and {}", args.good, args.bad);
        Failure::new(1, cause).hint("--benchmark and --metric say what is looked for; truecount history compare shows all")
    })
}

impl Search<'_> {
    fn say(&mut self, line: &str) -> Result<(), Failure> {
        if let Some(out) = &mut self.out {
            writeln!(out, "{line}")?;
            out.flush()?;
        }
        Ok(())
    }

    fn is_series(&self, row: &Row) -> bool {
        self.series
            .as_ref()
            .is_some_and(|(benchmark, parameters, metric)| {
                (benchmark, parameters, metric) == (&row.benchmark, &row.parameters, &row.metric)
            })
    }

    /// The value of the series among the records of a commit.
    fn value(&self, records: &[Record]) -> Option<f64> {
        let (benchmark, parameters, metric) = self.series.as_ref()?;
        records.iter().rev().find_map(|record| {
            let found = record.benchmarks.iter().find(|b| {
                b.name == *benchmark && truecount_history::record::parameters(b) == *parameters
            })?;
            let metric = found.metrics.get(metric)?;
            Some(metric.summary()?.median.to_f64() * metric.scale)
        })
    }

    /// The records of a commit that the store has.
    fn kept(&mut self, hash: &str) -> Result<Vec<Record>, Failure> {
        let (hash, suite) = (hash.to_owned(), self.suite.clone());
        self.store
            .ask(move |store| store.records(&hash, Some(&suite)))
    }

    /// The records of a commit, measured if there are none; `None` where it cannot be.
    fn records(&mut self, hash: &str) -> Result<Option<Vec<Record>>, Failure> {
        if self.skipped.contains_key(hash) {
            return Ok(None);
        }
        let kept = self.kept(hash)?;
        let has = match self.series {
            Some(_) => self.value(&kept).is_some(),
            None => !kept.is_empty(),
        };
        if has {
            return Ok(Some(kept));
        }
        let subject = self.repository.commit(hash)?.subject;
        match self.work.measure(hash)? {
            Ok(record) => {
                self.store.add(record)?;
                self.measured += 1;
                Ok(Some(self.kept(hash)?))
            }
            Err(Skipped(why)) => {
                let line = format!("{}: skipped: it {why}", short(hash));
                self.say(&format!("{}  {subject}", paint(WARN, &line)))?;
                self.skipped.insert(hash.to_owned(), why);
                Ok(None)
            }
        }
    }

    /// The records of one of the ends, which must have some.
    fn end(&mut self, hash: &str) -> Result<Vec<Record>, Failure> {
        self.records(hash)?.ok_or_else(|| {
            let why = self.skipped.get(hash).cloned().unwrap_or_default();
            Failure::new(1, format!("{} {why}", short(hash))).hint("name another commit")
        })
    }

    /// Whether a commit is after the change; `None` where it cannot be measured.
    fn after(&mut self, hash: &str) -> Result<Option<bool>, Failure> {
        let records = self.records(hash)?;
        let Some(value) = records.and_then(|records| self.value(&records)) else {
            self.skipped
                .entry(hash.to_owned())
                .or_insert_with(|| "has no such benchmark".to_owned());
            return Ok(None);
        };
        let (good, bad) = self.ends;
        let after = (value - bad).abs() < (value - good).abs();
        let subject = self.repository.commit(hash)?.subject;
        let word = if after { "after" } else { "before" };
        let line = format!("{}: {word} the change  {subject}", short(hash));
        self.say(&paint(DIM, &line))?;
        Ok(Some(after))
    }

    /// The last commit before the change, the first one after it, and those between that cannot be measured.
    fn find(&mut self, good: &str, bad: &str) -> Result<(String, String, Vec<String>), Failure> {
        let chain = self.repository.between(good, bad, true)?;
        let (before, commit, unmeasured) = self.halve(good, &chain)?;
        if !unmeasured.is_empty() {
            return Ok((before, commit, unmeasured));
        }
        let parents = self.repository.commit(&commit)?.parents;
        for parent in parents.iter().skip(1) {
            let Ok(base) = self.repository.merge_base(&before, parent) else {
                continue;
            };
            // The branch brought it along where its end has it and its beginning has not.
            let brought = base != *parent
                && self.after(parent)? == Some(true)
                && self.after(&base)? == Some(false);
            if brought {
                let line = format!(
                    "{} merges it: the merged branch is searched",
                    short(&commit)
                );
                self.say(&paint(DIM, &line))?;
                return self.find(&base, parent);
            }
        }
        Ok((before, commit, unmeasured))
    }

    /// Searches a chain, the oldest first, whose last one is after the change.
    fn halve(
        &mut self,
        good: &str,
        chain: &[String],
    ) -> Result<(String, String, Vec<String>), Failure> {
        let mut before = good.to_owned();
        let mut left: Vec<String> = chain.to_vec();
        let Some(mut commit) = left.pop() else {
            return Err(Failure::new(1, "there is no commit to search"));
        };
        loop {
            let open: Vec<usize> = (0..left.len())
                .filter(|&at| {
                    left.get(at)
                        .is_some_and(|hash| !self.skipped.contains_key(hash))
                })
                .collect();
            let middle = left.len() / 2;
            let Some(&at) = open.iter().min_by_key(|at| at.abs_diff(middle)) else {
                return Ok((before, commit, left));
            };
            let Some(hash) = left.get(at).cloned() else {
                return Ok((before, commit, left));
            };
            match self.after(&hash)? {
                Some(true) => {
                    left.truncate(at);
                    commit = hash;
                }
                Some(false) => {
                    left.drain(..=at);
                    before = hash;
                }
                None => {}
            }
        }
    }
}

fn text(out: &mut Output, document: &Document) -> std::io::Result<()> {
    let commit = &document.commit;
    let title = format!("{}  {}", short(&commit.hash), commit.subject);
    writeln!(out, "{}", paint(HEAD, &title))?;
    if !document.unmeasured.is_empty() {
        let names: Vec<&str> = document.unmeasured.iter().map(|hash| short(hash)).collect();
        let line = format!(
            "  or one of the {} before it that could not be measured: {}",
            number_of(names.len(), "commit"),
            names.join(", ")
        );
        writeln!(out, "{}", paint(WARN, &line))?;
    }
    if let Some(row) = &document.change {
        let value = |value: Option<f64>| {
            value.map_or_else(String::new, |value| quantity(value, 1.0, &row.unit))
        };
        writeln!(
            out,
            "  {}  {} {}: {} → {} ({})",
            row.ratio.map_or_else(|| "from 0".to_owned(), percent),
            benchmark(&row.suite, &row.benchmark, &row.parameters),
            row.metric,
            value(row.base),
            value(row.other),
            row.explanation,
        )?;
        for line in explained::lines(&row.moved, &row.paths) {
            writeln!(out, "    {line}")?;
        }
    }
    let line = format!(
        "{} measured, {} skipped",
        number_of(document.measured, "commit"),
        document.skipped.len()
    );
    writeln!(out, "{}", paint(DIM, &line))
}
