//! `truecount profile diff`: what changed between two sides, label by label.

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use truecount_profile::Summary;
use truecount_profile::diff::{Diff, DiffOptions, Row, diff};
use truecount_stats::{GateExit, Outcome as GateOutcome, Verdict, Wording};

use super::{amount, counted, files, percent, summaries, unreadable};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::style::{BAD, DIM, GOOD, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::grouped;

const EXAMPLES: &str = "\
EXAMPLES
  truecount profile diff before-01234 -- after-01301                one run each: no verdict
  truecount profile diff base/*.mm_profdata -- new/*.mm_profdata     several runs: verdicts
  truecount profile diff --fail-above 2 base/ -- new/                  exit status 3 when one grew";

/// Compare two sides of profiles label by label, with verdicts when each has several runs
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "truecount profile diff [OPTIONS] <BASE>... -- <CHANGE>...")]
pub(super) struct Args {
    /// Profiles of the base (or directories of them)
    #[arg(required = true, value_name = "BASE")]
    base: Vec<PathBuf>,
    /// Profiles of the change (or directories of them); options stand before the base
    #[arg(
        last = true,
        required = true,
        value_name = "CHANGE",
        allow_hyphen_values = true
    )]
    change: Vec<PathBuf>,
    /// Only labels with more than this percentage of the total on either side
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    percent_above: f64,
    /// Exit with status 3 when the total or a label shown grew by more than this percentage, with 4
    /// when that is undecided
    #[arg(long, value_name = "PERCENT")]
    fail_above: Option<f64>,
    /// Leave this label out: its self time is no part of either total (may be repeated)
    #[arg(long, value_name = "LABEL")]
    exclude: Vec<String>,
    /// How many labels to show, those that changed most first
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30)]
    number: usize,
    /// Print one JSON document (schema truecount.profile-diff/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> CmdResult {
    for (name, value) in [
        ("--percent-above", Some(args.percent_above)),
        ("--fail-above", args.fail_above),
    ] {
        if value.is_some_and(|value| !(0.0..=1e6).contains(&value)) {
            return Err(Failure::new(2, format!("{name}: not a percentage"))
                .hint("give a number of 0 or more"));
        }
    }
    let misplaced = |path: &&PathBuf| path.as_os_str().as_encoded_bytes().starts_with(b"--");
    if let Some(option) = args.change.iter().find(misplaced).filter(|p| !p.exists()) {
        let cause = format!("{}: after `--` stand profiles only", option.display());
        return Err(Failure::new(2, cause).hint("give options before the base's profiles"));
    }
    let mut base = summaries(&files(&args.base)?)?;
    let mut change = summaries(&files(&args.change)?)?;
    for label in &args.exclude {
        let has = |runs: &[Summary]| {
            runs.iter()
                .any(|r| r.labels.iter().any(|l| l.label == *label))
        };
        if !has(&base) && !has(&change) {
            return Err(
                Failure::new(2, format!("--exclude {label}: no profile has this label"))
                    .hint("`truecount profile summarize` lists the labels"),
            );
        }
    }
    base.iter_mut()
        .chain(&mut change)
        .for_each(|run| run.exclude(&args.exclude));
    let options = DiffOptions {
        share_above: args.percent_above / 100.0,
        fail_above: args.fail_above.map(|limit| limit / 100.0),
        ..DiffOptions::default()
    };
    let diff = diff(&base, &change, &options).map_err(unreadable)?;
    let mut out = Output::shown(args.json.as_deref())?;
    if args.json.is_some() {
        document(&diff, &mut out)?;
    } else {
        text(args, &diff, &mut out)?;
    }
    out.flush()?;
    let outcomes: Vec<&GateOutcome> = std::iter::once(&diff.total)
        .chain(&diff.rows)
        .filter_map(|row| row.gate.as_ref())
        .collect();
    if outcomes.is_empty() {
        return Ok(Outcome::OK);
    }
    Ok(Outcome(GateExit::of(outcomes).code()))
}

fn text(args: &Args, diff: &Diff, out: &mut Output) -> std::io::Result<()> {
    writeln!(
        out,
        "{}: self time of {}, {} runs against {}",
        paint(HEAD, "diff"),
        counted(&diff.unit),
        diff.runs.1,
        diff.runs.0
    )?;
    if diff.runs.0.min(diff.runs.1) < 2 {
        writeln!(
            out,
            "{}",
            paint(
                DIM,
                "one run on a side: no interval and no verdict; record each side several times"
            )
        )?;
    }
    writeln!(out)?;
    let mut table = Table::new([
        ("item", Align::Left),
        ("base", Align::Right),
        ("change", Align::Right),
        ("difference", Align::Right),
        ("", Align::Right),
        ("interval", Align::Left),
        ("count", Align::Right),
        ("verdict", Align::Left),
        ("gate", Align::Left),
    ]);
    for row in std::iter::once(&diff.total).chain(diff.rows.iter().take(args.number)) {
        table.row(cells(row, diff));
    }
    table.write(out)?;
    let more = diff.rows.len().saturating_sub(args.number);
    if more > 0 {
        writeln!(
            out,
            "\n  {}",
            paint(DIM, &format!("{more} more labels; show them with -n"))
        )?;
    }
    if diff.hidden > 0 {
        let line = format!(
            "{} labels below {} % on both sides are left out",
            diff.hidden, args.percent_above
        );
        writeln!(out, "  {}", paint(DIM, &line))?;
    }
    Ok(())
}

fn cells(row: &Row, diff: &Diff) -> Vec<Cell> {
    let side = |side: &Option<truecount_profile::noise::Spread>| {
        side.map_or("–".to_owned(), |s| amount(s.median, &diff.unit))
    };
    let difference = row.difference();
    let sign = if difference > 0.0 { "+" } else { "" };
    let count = if row.base_count == row.change_count {
        String::new()
    } else {
        format!(
            "{} → {}",
            grouped(row.base_count as u64),
            grouped(row.change_count as u64)
        )
    };
    let interval = row
        .judged
        .as_ref()
        .and_then(|judged| judged.comparison.interval)
        .map_or(String::new(), |(low, high)| {
            format!(
                "[{:+.2} %, {:+.2} %]",
                (low - 1.0) * 100.0,
                (high - 1.0) * 100.0
            )
        });
    vec![
        Cell::new(row.label.clone()),
        side(&row.base).into(),
        side(&row.change).into(),
        format!("{sign}{}", amount(difference, &diff.unit)).into(),
        row.relative()
            .map_or(String::new(), |share| format!("{sign}{}", percent(share)))
            .into(),
        interval.into(),
        count.into(),
        verdict(row, diff),
        gate(row),
    ]
}

fn gate(row: &Row) -> Cell {
    match &row.gate {
        None | Some(GateOutcome::Pass) => Cell::new(""),
        Some(GateOutcome::Regression) => Cell::styled(BAD, "FAIL"),
        Some(_) => Cell::styled(WARN, "undecided"),
    }
}

fn verdict(row: &Row, diff: &Diff) -> Cell {
    match (&row.base, &row.change, &row.judged) {
        (None, _, _) => Cell::styled(WARN, "new"),
        (_, None, _) => Cell::styled(WARN, "vanished"),
        (_, _, Some(judged)) => {
            // The label is the metric's name; the words suit the counter.
            let mut text = judged
                .verdict
                .word(Wording::of(&diff.unit.counter))
                .to_owned();
            if judged.comparison.exact_change.is_some() {
                text.push_str(" (exact change)");
            }
            match judged.verdict {
                Verdict::Higher => Cell::styled(BAD, text),
                Verdict::Lower => Cell::styled(GOOD, text),
                Verdict::Undecided {
                    more_rounds: Some(k),
                } => Cell::new(format!("{text}: about {k} more runs would decide")),
                Verdict::TooSmall { n, needed } => {
                    Cell::new(format!("{text}: {n} of at least {needed} runs"))
                }
                _ => Cell::new(text),
            }
        }
        _ => Cell::new(""),
    }
}

fn document(diff: &Diff, out: &mut Output) -> std::io::Result<()> {
    let row = |row: &Row| {
        let judged = row.judged.as_ref().map(|judged| {
            json!({
                "ratio": judged.comparison.ratio,
                "interval": judged.comparison.interval,
                "p_adjusted": judged.p_adjusted,
                "floor": judged.floor,
                "exact_change": judged.comparison.exact_change,
                "verdict": judged.verdict.word(Wording::of(&diff.unit.counter)),
            })
        });
        let gate = row.gate.as_ref().map(|gate| match gate {
            GateOutcome::Pass => "pass",
            GateOutcome::Regression => "regression",
            GateOutcome::Undecided => "undecided",
            GateOutcome::Incomparable(_) => "incomparable",
        });
        json!({
            "label": row.label,
            "base": row.base,
            "change": row.change,
            "difference": row.difference(),
            "relative": row.relative(),
            "base_count": row.base_count,
            "change_count": row.change_count,
            "judged": judged,
            "gate": gate,
        })
    };
    let document = json!({
        "schema": "truecount.profile-diff/1",
        "unit": diff.unit,
        "runs": {"base": diff.runs.0, "change": diff.runs.1},
        "total": row(&diff.total),
        "labels": diff.rows.iter().map(row).collect::<Vec<_>>(),
        "hidden": diff.hidden,
    });
    writeln!(out, "{document:#}")
}
