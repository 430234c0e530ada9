//! `truecount profile summarize`: the self-time table, the macro noise of several runs, and one label in detail.

mod only;

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use truecount_profile::noise::{MacroNoise, macro_noise};
use truecount_profile::{LabelSummary, Summary, Unit};

use super::{amount, counted, files, percent, summaries, unreadable};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::style::{DIM, HEAD, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::{grouped, size};

const EXAMPLES: &str = "\
EXAMPLES
  truecount profile summarize app-0012345                       the self-time table
  truecount profile summarize app-0012345 --percent-above 1 --sort count
  truecount profile summarize app-0012345 --only typeck         arguments, callers, callees, threads
  truecount profile summarize wall/ --versus instructions/      noise of each label, side by side";

/// Show where a profile's time (or other count) went, label by label
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Profiles (.mm_profdata may be left out), directories of them, or - for stdin; several are
    /// identical runs, whose noise is shown
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Another group of runs, shown beside the first: profiles or directories, separated by commas
    /// (may be repeated; runs of different counters are different groups anyway)
    #[arg(long, value_name = "FILE[,FILE]...", value_parser = group)]
    versus: Vec<Group>,
    /// Sort by this column
    #[arg(long, value_enum, default_value_t = Column::SelfTime)]
    sort: Column,
    /// Show these columns, in this order
    #[arg(long, value_enum, value_delimiter = ',')]
    columns: Vec<Column>,
    /// Only labels whose self time is above this percentage of the total
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    percent_above: f64,
    /// One label in detail: its arguments, callers, callees and threads
    #[arg(long, value_name = "LABEL")]
    only: Option<String>,
    /// Rows of each list of --only
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    number: usize,
    /// Take off what recording cost, where the file says it (the Recorder's files do)
    #[arg(long)]
    subtract_overhead: bool,
    /// Print one JSON document (schema truecount.profile-summary/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
}

/// The files of one group.
#[derive(Clone)]
struct Group(Vec<PathBuf>);

#[expect(clippy::unnecessary_wraps, reason = "the shape of a value parser")]
fn group(text: &str) -> Result<Group, std::convert::Infallible> {
    Ok(Group(text.split(',').map(PathBuf::from).collect()))
}

/// Runs of different counters are different groups.
fn by_counter(runs: Vec<Summary>, groups: &mut Vec<Vec<Summary>>) {
    let first = groups.len();
    for run in runs {
        let same = |group: &&mut Vec<Summary>| {
            group
                .first()
                .is_some_and(|other| other.unit.counter == run.unit.counter)
        };
        match groups.iter_mut().skip(first).find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Column {
    /// The label
    Item,
    /// Time in it, not in what is nested
    SelfTime,
    /// Self time as a share of the total
    Percent,
    /// Time in it with what is nested; every interval of a recursing label counts
    Time,
    /// How often it ran
    Count,
    /// Query cache hits
    CacheHits,
    /// Time it waited for another thread
    Blocked,
    /// Time to load incremental results
    IncrementalLoad,
    /// Time to hash incremental results
    IncrementalHashing,
}

impl Column {
    const ALL: [Self; 9] = [
        Self::Item,
        Self::SelfTime,
        Self::Percent,
        Self::Time,
        Self::Count,
        Self::CacheHits,
        Self::Blocked,
        Self::IncrementalLoad,
        Self::IncrementalHashing,
    ];

    fn head(self) -> (&'static str, Align) {
        match self {
            Self::Item => ("item", Align::Left),
            Self::SelfTime => ("self", Align::Right),
            Self::Percent => ("% of total", Align::Right),
            Self::Time => ("time", Align::Right),
            Self::Count => ("count", Align::Right),
            Self::CacheHits => ("cache hits", Align::Right),
            Self::Blocked => ("blocked", Align::Right),
            Self::IncrementalLoad => ("incr. load", Align::Right),
            Self::IncrementalHashing => ("incr. hashing", Align::Right),
        }
    }

    /// The value that the column sorts by, largest first.
    fn key(self, row: &LabelSummary) -> i128 {
        match self {
            Self::Item => 0,
            Self::SelfTime | Self::Percent => i128::from(row.self_time),
            Self::Time => i128::from(row.time),
            Self::Count => i128::from(row.count),
            Self::CacheHits => i128::from(row.cache_hits),
            Self::Blocked => i128::from(row.blocked),
            Self::IncrementalLoad => i128::from(row.incremental_load),
            Self::IncrementalHashing => i128::from(row.incremental_hashing),
        }
    }

    fn cell(self, row: &LabelSummary, total: u64, unit: &Unit) -> String {
        match self {
            Self::Item => row.label.clone(),
            Self::Percent => percent(share(row, total)),
            Self::Count | Self::CacheHits => grouped(u64::try_from(self.key(row)).unwrap_or(0)),
            _ => amount(self.key(row) as f64, unit),
        }
    }
}

fn share(row: &LabelSummary, total: u64) -> f64 {
    if total == 0 {
        0.0
    } else {
        row.self_time as f64 / total as f64
    }
}

pub(super) fn run(args: &Args) -> CmdResult {
    if !(0.0..=100.0).contains(&args.percent_above) {
        return Err(Failure::new(
            2,
            format!("--percent-above {}: not a percentage", args.percent_above),
        )
        .hint("give a number from 0 to 100"));
    }
    let mut out = Output::shown(args.json.as_deref())?;
    if let Some(label) = &args.only {
        return only::only(args, label, &mut out);
    }
    let mut groups = Vec::new();
    by_counter(summaries(&files(&args.files)?)?, &mut groups);
    for group in &args.versus {
        by_counter(summaries(&files(&group.0)?)?, &mut groups);
    }
    if args.subtract_overhead {
        for summary in groups.iter_mut().flatten() {
            let Some(overhead) = summary.overhead else {
                return Err(Failure::new(
                    1,
                    "--subtract-overhead: a file does not say what recording cost",
                )
                .hint("leave the option out; only files of truecount's Recorder say it"));
            };
            summary.subtract(overhead);
        }
    }
    match groups.as_slice() {
        [runs] if runs.len() == 1 => {
            if let Some(summary) = runs.first() {
                if args.json.is_some() {
                    one_json(args, summary, &mut out)?;
                } else {
                    one(args, summary, &mut out)?;
                }
            }
        }
        _ => {
            let noise = macro_noise(&groups).map_err(unreadable)?;
            if args.json.is_some() {
                several_json(args, &noise, &mut out)?;
            } else {
                several(args, &noise, &mut out)?;
            }
        }
    }
    out.flush()?;
    Ok(Outcome::OK)
}

fn rows<'s>(args: &Args, summary: &'s Summary) -> Vec<&'s LabelSummary> {
    let mut rows: Vec<_> = summary
        .labels
        .iter()
        .filter(|row| {
            args.percent_above == 0.0 || share(row, summary.total) * 100.0 > args.percent_above
        })
        .collect();
    if args.sort == Column::Item {
        rows.sort_by(|a, b| a.label.cmp(&b.label));
    } else {
        rows.sort_by_key(|row| std::cmp::Reverse(args.sort.key(row)));
    }
    rows
}

fn one(args: &Args, summary: &Summary, out: &mut Output) -> std::io::Result<()> {
    let rows = rows(args, summary);
    let unit = &summary.unit;
    let columns: Vec<Column> = if args.columns.is_empty() {
        // What no label has is left out, like the incremental columns of a build from scratch.
        let used = |column: &Column| {
            column.key(&LabelSummary::default()) == 0
                && (matches!(
                    column,
                    Column::Item
                        | Column::SelfTime
                        | Column::Percent
                        | Column::Time
                        | Column::Count
                ) || summary.labels.iter().any(|row| column.key(row) != 0))
        };
        Column::ALL.into_iter().filter(used).collect()
    } else {
        args.columns.clone()
    };
    let head = columns
        .iter()
        .map(|column| (column.head().0.to_owned(), column.head().1))
        .collect();
    let mut table = Table::of(head);
    for row in &rows {
        table.row(
            columns
                .iter()
                .map(|column| Cell::new(column.cell(row, summary.total, unit)))
                .collect(),
        );
    }
    table.write(out)?;
    let total = amount(summary.total as f64, unit);
    writeln!(
        out,
        "\n  {} {total} of {}",
        paint(HEAD, "total"),
        counted(unit)
    )?;
    let events = &summary.events;
    let hidden = summary.labels.len() - rows.len();
    let mut line = format!(
        "{} labels{}, {} intervals, {} instants, {} integers, {} threads",
        summary.labels.len(),
        if hidden > 0 {
            format!(" ({hidden} below {} %)", args.percent_above)
        } else {
            String::new()
        },
        grouped(events.intervals),
        grouped(events.instants),
        grouped(events.integers),
        summary.threads.len()
    );
    if events.reversed > 0 {
        line.push_str(&format!(
            ", {} intervals left out that end before they start",
            grouped(events.reversed)
        ));
    }
    writeln!(out, "  {}", paint(DIM, &line))?;
    if !summary.artifacts.is_empty() {
        writeln!(out)?;
        let mut table = Table::new([("artifact", Align::Left), ("size", Align::Right)]);
        for artifact in &summary.artifacts {
            table.row(vec![
                artifact.label.clone().into(),
                size(artifact.bytes as f64).into(),
            ]);
        }
        table.write(out)?;
    }
    Ok(())
}

fn one_json(args: &Args, summary: &Summary, out: &mut Output) -> std::io::Result<()> {
    let document = json!({
        "schema": "truecount.profile-summary/1",
        "unit": summary.unit,
        "total": summary.total,
        "labels": rows(args, summary),
        "artifacts": summary.artifacts,
        "threads": summary.threads,
        "events": summary.events,
        "overhead": summary.overhead,
        "overhead_subtracted": args.subtract_overhead,
        "losses": summary.losses.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    writeln!(out, "{document:#}")
}

fn several(args: &Args, noise: &MacroNoise, out: &mut Output) -> std::io::Result<()> {
    for (number, group) in noise.groups.iter().enumerate() {
        let total = group.total.map_or(String::new(), |total| {
            format!(
                ", total {} ±{}{}",
                amount(total.median, &group.unit),
                amount(total.half_range, &group.unit),
                relative(total.relative())
            )
        });
        writeln!(
            out,
            "{} {} over {} runs{total}",
            paint(HEAD, &format!("group {}:", number + 1)),
            counted(&group.unit),
            group.runs
        )?;
    }
    writeln!(
        out,
        "{}\n",
        paint(
            DIM,
            "self time: median, ± half the range, and that as a share of the median"
        )
    )?;
    let mut head = vec![("item".to_owned(), Align::Left)];
    for group in &noise.groups {
        head.extend([
            (group.unit.counter.clone(), Align::Right),
            ("±".to_owned(), Align::Right),
            ("±%".to_owned(), Align::Right),
            ("runs".to_owned(), Align::Right),
        ]);
    }
    let mut table = Table::of(head);
    let mut hidden = 0;
    for row in &noise.rows {
        if !shown(args, noise, row) {
            hidden += 1;
            continue;
        }
        let mut cells = vec![Cell::new(row.label.clone())];
        for (cell, group) in row.cells.iter().zip(&noise.groups) {
            match cell {
                Some(cell) => {
                    let missing = if cell.runs == group.runs {
                        String::new()
                    } else {
                        format!("{} of {}", cell.runs, group.runs)
                    };
                    cells.extend([
                        amount(cell.median, &group.unit).into(),
                        format!("±{}", amount(cell.half_range, &group.unit)).into(),
                        cell.relative()
                            .map_or(String::new(), |share| format!("±{}", percent(share)))
                            .into(),
                        missing.into(),
                    ]);
                }
                None => cells.extend(["–", "", "", ""].map(Cell::new)),
            }
        }
        table.row(cells);
    }
    table.write(out)?;
    if hidden > 0 {
        let line = format!(
            "{hidden} labels of {} % and less of the total are not shown",
            args.percent_above
        );
        writeln!(out, "\n  {}", paint(DIM, &line))?;
    }
    Ok(())
}

fn shown(args: &Args, noise: &MacroNoise, row: &truecount_profile::noise::Row) -> bool {
    args.percent_above == 0.0
        || row.cells.iter().zip(&noise.groups).any(|(cell, group)| {
            let total = group.total.map_or(0.0, |total| total.median);
            cell.is_some_and(|cell| total > 0.0 && cell.median / total * 100.0 > args.percent_above)
        })
}

fn relative(share: Option<f64>) -> String {
    share.map_or(String::new(), |share| format!(" (±{})", percent(share)))
}

fn several_json(args: &Args, noise: &MacroNoise, out: &mut Output) -> std::io::Result<()> {
    let groups: Vec<_> = noise
        .groups
        .iter()
        .map(|group| json!({"unit": group.unit, "runs": group.runs, "total": group.total}))
        .collect();
    let rows: Vec<_> = noise
        .rows
        .iter()
        .filter(|row| shown(args, noise, row))
        .map(|row| json!({"label": row.label, "self_time": row.cells}))
        .collect();
    let document = json!({"schema": "truecount.profile-noise/1", "groups": groups, "labels": rows});
    writeln!(out, "{document:#}")
}
