//! `truecount profile aggregate`: the micro noise between identical runs.

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use truecount_profile::aggregate::{Difference, Duration, Noise, Variation, aggregate};

use super::{amount, counted, files, say_losses, unreadable};
use crate::CmdResult;
use crate::failure::Outcome;
use crate::output::Output;
use crate::render::style::{DIM, HEAD, WARN, paint};
use truecount_model::number::grouped;

const EXAMPLES: &str = "\
EXAMPLES
  truecount profile aggregate run*/itoa-*.mm_profdata    the smallest and largest variations
  truecount profile aggregate runs/ -n 20 --json         every profile below a directory";

/// Say which interval varies between identical runs, by how much, and where it is
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Profiles of identical runs (at least two), or directories of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many of the smallest and of the largest variations, and of the differences
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    number: usize,
    /// Also the table of durations: how long the compared intervals are
    #[arg(long)]
    durations: bool,
    /// Print one JSON document (schema truecount.profile-aggregate/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let noise = aggregate(&files(&args.files)?).map_err(unreadable)?;
    for (file, loss) in &noise.losses {
        say_losses(&file.display().to_string(), std::slice::from_ref(loss));
    }
    let mut out = Output::shown(args.json.as_deref())?;
    if args.json.is_some() {
        document(args, &noise, &mut out)?;
    } else {
        text(args, &noise, &mut out)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64 * 100.0
    }
}

/// The smallest and the largest variations; none stands in both.
fn ends(noise: &Noise, number: usize) -> (&[Variation], Vec<&Variation>) {
    let smallest = noise
        .variations
        .get(..number.min(noise.variations.len()))
        .unwrap_or(&[]);
    let rest = noise.variations.get(smallest.len()..).unwrap_or(&[]);
    (smallest, rest.iter().rev().take(number).collect())
}

fn text(args: &Args, noise: &Noise, out: &mut Output) -> std::io::Result<()> {
    writeln!(
        out,
        "{} runs, {}: {} intervals on {} threads compared",
        noise.files.len(),
        counted(&noise.unit),
        grouped(noise.intervals),
        noise.threads.len()
    )?;
    if noise.distinct > 1 {
        let line = format!(
            "the runs are not alike: {} different sequences; {} intervals of the first run are not in all",
            noise.distinct,
            grouped(noise.unmatched)
        );
        writeln!(out, "{}", paint(WARN, &line))?;
    }
    let (smallest, largest) = ends(noise, args.number);
    writeln!(out, "\n{}", paint(HEAD, "Smallest variations"))?;
    for variation in smallest {
        line(noise, variation, out)?;
    }
    if largest.is_empty() {
        writeln!(out, "{}", paint(DIM, "  these are all"))?;
    } else {
        writeln!(out, "\n{}", paint(HEAD, "Largest variations"))?;
        for variation in largest {
            line(noise, variation, out)?;
        }
    }
    if noise.moved > 0 {
        let line = format!(
            "{} intervals were compared with the same work on another thread",
            grouped(noise.moved)
        );
        writeln!(out, "\n{}", paint(DIM, &line))?;
    }
    if args.durations {
        durations(args, noise, out)?;
    }
    differences(args, noise, out)
}

/// The shortest and the longest intervals: the least length over the runs, how often, where.
fn durations(args: &Args, noise: &Noise, out: &mut Output) -> std::io::Result<()> {
    let all = noise.durations();
    let shortest = all.get(..args.number.min(all.len())).unwrap_or(&[]);
    let rest = all.get(shortest.len()..).unwrap_or(&[]);
    let longest: Vec<&Duration> = rest.iter().rev().take(args.number).collect();
    for (head, rows) in [
        (
            "Shortest durations (least over the runs)",
            shortest.iter().collect(),
        ),
        ("Longest durations", longest),
    ] {
        if rows.is_empty() {
            continue;
        }
        writeln!(out, "\n{}", paint(HEAD, head))?;
        for row in rows {
            let low = amount(row.low as f64, &noise.unit);
            if row.occurrences == 1 {
                let high = amount(row.high as f64, &noise.unit);
                writeln!(out, "  {low} to {high}: {}", noise.place_of(row))?;
            } else {
                let share = share(row.occurrences, noise.intervals);
                let times = grouped(row.occurrences);
                writeln!(out, "  {low}: {times} occurrences, or {share:.2} %")?;
            }
        }
    }
    Ok(())
}

fn line(noise: &Noise, variation: &Variation, out: &mut Output) -> std::io::Result<()> {
    let half = amount(variation.range as f64 / 2.0, &noise.unit);
    let half = if noise.unit.is_time() {
        exact_half(variation.range)
    } else {
        format!("{half} {}", noise.unit.name)
    };
    if variation.occurrences == 1 {
        writeln!(out, "  ±{half}: {}", noise.place(variation))
    } else {
        let share = share(variation.occurrences, noise.intervals);
        writeln!(
            out,
            "  ±{half}: {} occurrences, or {share:.2} %",
            grouped(variation.occurrences)
        )
    }
}

/// Half of a range in nanoseconds, in full.
fn exact_half(range: u64) -> String {
    format!(
        "{}{} ns",
        grouped(range / 2),
        if range % 2 == 1 { ".5" } else { "" }
    )
}

fn differences(args: &Args, noise: &Noise, out: &mut Output) -> std::io::Result<()> {
    for (run, thread, points) in noise.unpaired.iter().take(args.number) {
        writeln!(
            out,
            "\nthread {thread} of run {} ({} points) has no counterpart",
            run + 1,
            grouped(*points)
        )?;
    }
    if noise.differences.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{}",
        paint(HEAD, "Where the sequences differ from the first run's")
    )?;
    for difference in noise.differences.iter().take(args.number) {
        writeln!(out, "  {}", describe(noise, difference))?;
    }
    if noise.differences.len() > args.number {
        let more = noise.differences.len() - args.number;
        writeln!(
            out,
            "  {}",
            paint(DIM, &format!("{more} more; show them with -n"))
        )?;
    }
    Ok(())
}

fn describe(noise: &Noise, difference: &Difference) -> String {
    let runs: Vec<String> = difference
        .runs
        .iter()
        .map(|(run, points)| format!("run {}: {}", run + 1, grouped(*points)))
        .collect();
    let thread = if noise.threads.len() > 1 {
        format!("thread {}: ", difference.thread)
    } else {
        String::new()
    };
    let place = if difference.place.is_empty() {
        "the whole thread"
    } else {
        &difference.place
    };
    format!(
        "{thread}{place}: {} points in run 1; {}",
        grouped(difference.points),
        runs.join(", ")
    )
}

/// All durations.
fn durations_document(noise: &Noise) -> Vec<serde_json::Value> {
    let row =
        |d: &Duration| json!({"least": d.low, "largest": d.high, "occurrences": d.occurrences});
    noise.durations().iter().map(row).collect()
}

fn document(args: &Args, noise: &Noise, out: &mut Output) -> std::io::Result<()> {
    let (smallest, largest) = ends(noise, args.number);
    let row = |variation: &Variation| {
        json!({
            "range": variation.range,
            "plus_minus": variation.range as f64 / 2.0,
            "occurrences": variation.occurrences,
            "share": share(variation.occurrences, noise.intervals) / 100.0,
            "place": (variation.occurrences == 1).then(|| noise.place(variation)),
        })
    };
    let differences: Vec<_> = noise
        .differences
        .iter()
        .take(args.number)
        .map(|difference| {
            let runs: Vec<_> = difference.runs.iter().map(|(run, points)| json!({"run": run + 1, "points": points})).collect();
            json!({"thread": difference.thread, "place": difference.place, "points": difference.points, "runs": runs})
        })
        .collect();
    let unpaired: Vec<_> = noise
        .unpaired
        .iter()
        .map(|(run, thread, points)| json!({"run": run + 1, "thread": thread, "points": points}))
        .collect();
    let document = json!({
        "schema": "truecount.profile-aggregate/1",
        "unit": noise.unit,
        "files": noise.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
        "threads": noise.threads,
        "intervals": noise.intervals,
        "unmatched": noise.unmatched,
        "compared_on_other_threads": noise.moved,
        "durations": args.durations.then(|| durations_document(noise)),
        "distinct_sequences": noise.distinct,
        "smallest": smallest.iter().map(row).collect::<Vec<_>>(),
        "largest": largest.into_iter().map(row).collect::<Vec<_>>(),
        "differences": differences,
        "differences_total": noise.differences.len(),
        "unpaired_threads": unpaired,
    });
    writeln!(out, "{document:#}")
}
