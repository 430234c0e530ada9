//! `truecount history show`: which commits have records, and what is in them.

use std::io::Write as _;
use std::path::PathBuf;

use serde::Serialize;
use truecount_history::git::short;
use truecount_history::record::{Commit, Record, parameters};
use truecount_model::number::quantity;

use super::{StoreArgs, benchmark, day, number_of};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::json;
use crate::render::style::{DIM, HEAD, paint};
use crate::render::table::{Align, Table};

const EXAMPLES: &str = "\
EXAMPLES
  truecount history show                     which commits have records
  truecount history show v1.2                the records of a commit
  truecount history show HEAD --json         the same as JSON";

/// Show which commits have records, or the records of one
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Show this commit's records
    #[arg(value_name = "REV")]
    commit: Option<String>,
    /// How many commits to list, the newest first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 30)]
    number: usize,
    /// Print JSON instead of the text: the list of commits (schema truecount.history/1), or the records of one
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Serialize)]
struct Listed {
    schema: &'static str,
    commits: Vec<Commit>,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let mut store = args.store.open(false)?;
    let Some(expression) = &args.commit else {
        let mut commits = store.log()?;
        commits.reverse();
        commits.truncate(args.number);
        return list(args, commits);
    };
    // A name that this repository does not know may be in the store.
    let hash = args
        .store
        .repository()
        .and_then(|repository| Ok(repository.resolve(expression)?));
    let hash = hash.unwrap_or_else(|_| expression.clone());
    let records = store.records(&hash, None)?;
    if records.is_empty() {
        let cause = format!("{expression} has no record");
        return Err(Failure::new(1, cause).hint("truecount history show lists those that have"));
    }
    if let Some(path) = &args.json {
        let mut out = Output::shown(Some(path))?;
        json::write(&mut out, &records)?;
        return Ok(Outcome::OK);
    }
    let mut out = Output::stdout();
    for record in &records {
        text(&mut out, record)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}

fn list(args: &Args, commits: Vec<Commit>) -> CmdResult {
    if let Some(path) = &args.json {
        let mut out = Output::shown(Some(path))?;
        let document = Listed {
            schema: "truecount.history/1",
            commits,
        };
        json::write(&mut out, &document)?;
        return Ok(Outcome::OK);
    }
    let mut out = Output::stdout();
    if commits.is_empty() {
        writeln!(
            out,
            "The store has no records yet: truecount history add FILE."
        )?;
    }
    for commit in &commits {
        writeln!(
            out,
            "{}  {}  {}",
            short(&commit.hash),
            paint(DIM, &day(commit.time)),
            commit.subject
        )?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}

fn text(out: &mut Output, record: &Record) -> std::io::Result<()> {
    let commit = &record.commit;
    let title = format!("{}  {}", short(&commit.hash), commit.subject);
    writeln!(out, "{}", paint(HEAD, &title))?;
    let mut facts = vec![format!("measured on {}", day(record.taken))];
    facts.extend(record.tool.iter().map(|tool| format!("by {tool}")));
    facts.extend(
        record
            .environment
            .reference
            .iter()
            .map(|reference| format!("reference {reference}")),
    );
    facts.extend(record.environment.cpu_model.clone());
    facts.extend(
        record
            .declared
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    if !record.profiles.is_empty() {
        facts.push(number_of(record.profiles.len(), "profile"));
    }
    writeln!(out, "{}", paint(DIM, &facts.join(", ")))?;
    let mut table = Table::new([
        ("benchmark", Align::Left),
        ("metric", Align::Left),
        ("median", Align::Right),
        ("samples", Align::Right),
        ("source", Align::Left),
        ("precision", Align::Left),
    ]);
    for one in &record.benchmarks {
        for (name, metric) in one.metrics.iter() {
            let value = match (metric.summary(), &metric.reason) {
                (Some(summary), _) => quantity(summary.median.to_f64(), metric.scale, &metric.unit),
                (None, Some(_)) => "not available".to_owned(),
                (None, None) => "not counted".to_owned(),
            };
            let exact = truecount_history::decide::is_exact(metric, &record.environment);
            table.row(vec![
                benchmark(&record.suite, &one.name, &parameters(one)).into(),
                name.into(),
                value.into(),
                metric.samples.len().to_string().into(),
                truecount_history::identity::source(record, metric).into(),
                match metric.precision {
                    _ if exact => "exact".into(),
                    Some(precision) => precision.name().into(),
                    None => "".into(),
                },
            ]);
        }
    }
    table.write(out)
}
