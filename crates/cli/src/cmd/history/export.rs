//! `truecount history export`: what the store has, for other tools.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use truecount_history::git::short;
use truecount_history::record::{Record, parameters};
use truecount_history::store::{Series, Store};

use super::changes::order;
use super::{StoreArgs, benchmark};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::{csv, json as documents};

const EXAMPLES: &str = "\
FORMATS
  csv         every value: one row a commit and series (DuckDB, ClickHouse, BigQuery, pandas)
  otava       one row a commit, one column a series: CSV for Apache Otava
  records     the records themselves, one JSON document a line: history add takes them back
  bmf         a commit's values in Bencher Metric Format (bencher run --adapter json)
  smaller     a commit's values as github-action-benchmark's customSmallerIsBetter
  bigger      its metrics whose larger value is better, as customBiggerIsBetter

EXAMPLES
  truecount history export --format csv -o history.csv
  truecount history export --format bmf HEAD";

/// Write what the store has for other tools
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The commit, for formats of one commit
    #[arg(value_name = "REV", default_value = "HEAD")]
    commit: String,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Only this suite
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Csv,
    Otava,
    Records,
    Bmf,
    Smaller,
    Bigger,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let mut store = args.store.open(false)?;
    // Opened before: a wrong path costs nothing.
    let mut out = Output::open(args.output.as_deref(), false)?.raw();
    match args.format {
        Format::Csv => values(args, &mut store, &mut out)?,
        Format::Otava => columns(args, &mut store, &mut out)?,
        Format::Records => {
            let mut failed = Ok(());
            store.documents(|_, document| {
                if failed.is_ok() {
                    failed = writeln!(out, "{document}");
                }
                Ok(())
            })?;
            failed?;
        }
        Format::Bmf => documents::write(&mut out, &bmf(&records(args, &mut store)?))?,
        Format::Smaller => documents::write(&mut out, &better(&records(args, &mut store)?, false))?,
        Format::Bigger => documents::write(&mut out, &better(&records(args, &mut store)?, true))?,
    }
    out.flush()?;
    Ok(Outcome::OK)
}

/// The series of the suite that is meant.
fn series(args: &Args, store: &mut Store) -> Result<Vec<Series>, Failure> {
    let mut all = store.series()?;
    all.retain(|series| {
        args.suite
            .as_ref()
            .is_none_or(|suite| *suite == series.key.suite)
    });
    Ok(all)
}

fn values(args: &Args, store: &mut Store, out: &mut Output) -> Result<(), Failure> {
    csv::row(
        out,
        [
            "commit",
            "commit_time",
            "taken",
            "suite",
            "benchmark",
            "parameters",
            "metric",
            "unit",
            "source",
            "machine",
            "value",
            "low",
            "high",
            "samples",
            "exact",
        ],
    )?;
    for series in series(args, store)? {
        let key = &series.key;
        for point in &series.points {
            csv::row(
                out,
                [
                    &*point.commit,
                    &point.time.to_string(),
                    &point.taken.to_string(),
                    &key.suite,
                    &key.benchmark,
                    &key.parameters,
                    &key.metric,
                    &series.unit,
                    &key.source,
                    &key.machine,
                    &point.value.to_string(),
                    &point.low.to_string(),
                    &point.high.to_string(),
                    &point.samples.to_string(),
                    if point.exact { "1" } else { "0" },
                ],
            )?;
        }
    }
    Ok(())
}

/// One row a commit in their order, the last value of each series.
fn columns(args: &Args, store: &mut Store, out: &mut Output) -> Result<(), Failure> {
    let commits = order(store, &args.store, None)?;
    let all = series(args, store)?;
    let mut head = vec!["time".to_owned(), "commit".to_owned()];
    let mut rows: BTreeMap<&str, BTreeMap<usize, f64>> = BTreeMap::new();
    for (column, series) in all.iter().enumerate() {
        let key = &series.key;
        let name = benchmark(&key.suite, &key.benchmark, &key.parameters);
        head.push(format!("{name} {} {}", key.metric, key.machine).replace([' ', ','], "_"));
        for point in &series.points {
            rows.entry(&*point.commit)
                .or_default()
                .insert(column, point.value);
        }
    }
    csv::row(out, head)?;
    for commit in &commits {
        let Some(row) = rows.get(commit.hash.as_str()) else {
            continue;
        };
        let cells = (0..all.len()).map(|column| {
            row.get(&column)
                .map_or_else(String::new, ToString::to_string)
        });
        let first = [commit.time.to_string(), commit.hash.clone()];
        csv::row(out, first.into_iter().chain(cells))?;
    }
    Ok(())
}

/// The records of the commit that is meant.
fn records(args: &Args, store: &mut Store) -> Result<Vec<Record>, Failure> {
    let resolved = args
        .store
        .repository()
        .and_then(|repository| Ok(repository.resolve(&args.commit)?));
    let hash = resolved.unwrap_or_else(|_| args.commit.clone());
    let records = store.records(&hash, args.suite.as_deref())?;
    if records.is_empty() {
        let cause = format!("{} has no record", short(&hash));
        return Err(Failure::new(1, cause).hint("truecount history show lists those that have"));
    }
    Ok(records)
}

/// Every value: name of the benchmark, metric, unit, median, low, high, whether larger is better.
fn each(records: &[Record], mut take: impl FnMut(&str, &str, &str, [f64; 3], bool)) {
    for record in records {
        for one in &record.benchmarks {
            let name = benchmark(&record.suite, &one.name, &parameters(one));
            for (metric, value) in one.metrics.iter() {
                let ends = value.samples.iter().min().zip(value.samples.iter().max());
                let (Some(summary), Some((low, high))) = (value.summary(), ends) else {
                    continue;
                };
                let scaled =
                    [summary.median.to_f64(), *low as f64, *high as f64].map(|v| v * value.scale);
                let bigger = truecount_run::compare::worse(metric, value)
                    == Some(truecount_stats::Worse::Lower);
                take(&name, metric, &value.unit, scaled, bigger);
            }
        }
    }
}

/// `{benchmark: {measure: {value, lower_value, upper_value}}}`
fn bmf(records: &[Record]) -> Value {
    let mut all: Map<String, Value> = Map::new();
    each(records, |name, metric, _, [value, low, high], _| {
        let measures = all.entry(name).or_insert_with(|| json!({}));
        if let Some(measures) = measures.as_object_mut() {
            let row = json!({"value": value, "lower_value": low, "upper_value": high});
            measures.insert(metric.to_owned(), row);
        }
    });
    Value::Object(all)
}

/// `[{name, unit, value, range}]`, of the metrics whose larger value is better, or of the others.
fn better(records: &[Record], bigger: bool) -> Value {
    let mut all = Vec::new();
    each(
        records,
        |name, metric, unit, [value, low, high], is_bigger| {
            if bigger == is_bigger {
                let range = format!("{low} to {high}");
                all.push(json!({"name": format!("{name} {metric}"), "unit": unit, "value": value, "range": range}));
            }
        },
    );
    Value::Array(all)
}
