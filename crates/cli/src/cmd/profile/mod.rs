//! `truecount profile`: region profiles (`.mm_profdata`) of rustc and of the `Recorder`.
//!
//! Only glue: `truecount-profile` reads and analyses, each subcommand here shows one analysis.

mod aggregate;
mod diff;
mod export;
mod show;
mod summarize;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use truecount_profile::{Loss, Profile, ProfileError, Summary, Unit};

use crate::CmdResult;
use crate::failure::Failure;
use crate::render::waiting::watched;
use truecount_model::number::{grouped, time};

const EXAMPLES: &str = "\
EXAMPLES
  RUSTC_BOOTSTRAP=1 cargo rustc -- -Zself-profile=prof    record what rustc does
  truecount profile summarize prof/app-0012345            where the time went
  truecount profile summarize prof/app-0012345 --only typeck
  truecount profile summarize run*.mm_profdata            noise of each label over identical runs
  truecount profile aggregate run*.mm_profdata            which single interval varies, and where
  truecount profile diff base*.mm_profdata -- new*.mm_profdata
  truecount profile export --to firefox app-0012345 -o app.json";

/// Read and compare region profiles: what rustc writes with -Zself-profile, and the Recorder's
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Summarize(summarize::Args),
    Aggregate(aggregate::Args),
    Diff(diff::Args),
    Export(export::Args),
    Show(show::Args),
}

/// Runs the subcommand that was asked for.
pub(crate) fn run(args: &Args) -> CmdResult {
    match &args.command {
        Command::Summarize(args) => summarize::run(args),
        Command::Aggregate(args) => aggregate::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Export(args) => export::run(args),
        Command::Show(args) => show::run(args),
    }
}

/// A reader's error as the command's, with what to do about it.
fn unreadable(error: ProfileError) -> Failure {
    if let ProfileError::Write(error) = error {
        return Failure::from(error);
    }
    let failure = Failure::new(1, error.to_string());
    match error {
        ProfileError::NotFound { .. } | ProfileError::EmptyDirectory { .. } => {
            failure.hint("record one with `rustc -Zself-profile=DIR` or the library's Recorder")
        }
        ProfileError::Format { .. } => {
            failure.hint("give a .mm_profdata file of rustc -Zself-profile or of the Recorder")
        }
        _ => failure,
    }
}

/// The files that the arguments mean; a directory means all profiles in it.
fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in given {
        if path.as_os_str() == "-" {
            files.push(path.clone());
        } else {
            files.extend(truecount_profile::find(path).map_err(unreadable)?);
        }
    }
    Ok(files)
}

/// Summaries of several files, read side by side; what was lost is said on stderr.
fn summaries(files: &[PathBuf]) -> Result<Vec<Summary>, Failure> {
    let done = AtomicUsize::new(0);
    let share = || done.load(Ordering::Relaxed) as f64 / files.len().max(1) as f64;
    let summaries: Result<Vec<Summary>, ProfileError> = watched("reading profiles", share, || {
        let read = files.par_iter().map(|file| {
            let summary = truecount_profile::summarize(&Profile::open(file)?);
            done.fetch_add(1, Ordering::Relaxed);
            Ok(summary)
        });
        read.collect()
    });
    let summaries = summaries.map_err(unreadable)?;
    for (file, summary) in files.iter().zip(&summaries) {
        say_losses(&file.display().to_string(), &summary.losses);
    }
    Ok(summaries)
}

/// Says what could not be used of a file.
fn say_losses(file: &str, losses: &[Loss]) {
    for loss in losses {
        // A stderr that cannot be written to cannot be told about it either.
        let _ = writeln!(std::io::stderr(), "truecount: {file}: partly read: {loss}");
    }
}

/// A value in the profile's unit: times in the one that fits, counts in full.
fn amount(value: f64, unit: &Unit) -> String {
    if unit.is_time() {
        return time(value);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    let whole = grouped(size as u64);
    if size.fract() == 0.0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{}", (size.fract() * 10.0) as u64)
    }
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// `wall-time in ns`.
fn counted(unit: &Unit) -> String {
    if unit.name == unit.counter || unit.counter.starts_with(&unit.name) {
        unit.counter.clone()
    } else {
        format!("{} ({})", unit.counter, unit.name)
    }
}
