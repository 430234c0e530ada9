//! `truecount history`: measured numbers over commits. `truecount-history` keeps, compares and decides; each subcommand
//! here is one question.

mod add;
mod backfill;
mod bisect;
mod bless;
mod changes;
mod compare;
mod comparison;
mod explained;
mod export;
mod import;
mod junit;
mod keeping;
mod markdown;
mod page;
mod pausing;
mod push;
mod serve;
mod show;
mod stopping;
mod work;

use std::path::{Path, PathBuf};

use truecount_history::git::Repository;
use truecount_history::store::Store;

use crate::CmdResult;
use crate::failure::Failure;

const EXAMPLES: &str = "\
EXAMPLES
  truecount bench --save new.json -- ./prog && truecount history add new.json
  truecount history show                                  which commits have records
  truecount history compare --fail-above instructions=0.5%     HEAD against the merge base with main
  truecount history compare v1.2 v1.3
  truecount history changes                               every change of every series
  truecount history backfill v1.2..main --build make -- ./prog   measure commits without records
  truecount history bisect v1.2 main                      which commit did it
  truecount history bless HEAD --reason 'needed for the fix of #12'

A store is .truecount/history.db in the repository, unless --store or TRUECOUNT_STORE names another
file or a database (postgres://USER@HOST/DATABASE).";

/// Keep what commits cost, and find which one changed it
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Add(add::Args),
    Show(show::Args),
    Compare(compare::Args),
    Changes(changes::Args),
    Bless(bless::Args),
    Backfill(backfill::Args),
    Bisect(bisect::Args),
    Import(import::Args),
    Export(export::Args),
    Page(page::Args),
    Serve(Box<serve::Args>),
    Push(push::Args),
}

/// Runs the subcommand that was asked for.
pub(crate) fn run(args: &Args) -> CmdResult {
    match &args.command {
        Command::Add(args) => add::run(args),
        Command::Show(args) => show::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Changes(args) => changes::run(args),
        Command::Bless(args) => bless::run(args),
        Command::Backfill(args) => backfill::run(args),
        Command::Bisect(args) => bisect::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Page(args) => page::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Push(args) => push::run(args),
    }
}

/// Which store.
#[derive(Clone, clap::Args)]
pub(crate) struct StoreArgs {
    /// The store: a file, or postgres://USER@HOST/DATABASE (default: TRUECOUNT_STORE, or .truecount/history.db in the
    /// repository)
    #[arg(long, value_name = "FILE|URL")]
    store: Option<String>,
    /// The repository whose commits are meant (default: the one of the current directory)
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
}

impl StoreArgs {
    /// The repository, where there is one.
    pub(super) fn repository(&self) -> Result<Repository, Failure> {
        let directory = self.repository.as_deref().unwrap_or(Path::new("."));
        Ok(Repository::at(directory)?)
    }

    /// The store's name.
    pub(super) fn target(&self) -> String {
        let named = self.store.clone();
        let named = named.or_else(|| {
            std::env::var("TRUECOUNT_STORE")
                .ok()
                .filter(|s| !s.is_empty())
        });
        named.unwrap_or_else(|| {
            let top = self.repository().ok();
            let top = top.as_ref();
            let top = top.map_or(Path::new("."), Repository::main_directory);
            top.join(".truecount/history.db")
                .to_string_lossy()
                .into_owned()
        })
    }

    /// Opens the store.
    pub(super) fn open(&self, create: bool) -> Result<Store, Failure> {
        let target = self.target();
        let usual = Path::new(&target)
            .parent()
            .filter(|d| d.ends_with(".truecount"));
        let new = usual.filter(|directory| create && !directory.exists());
        if let Some(directory) = new {
            ignored(directory)?;
        }
        Ok(Store::open(&target, create)?)
    }
}

/// Makes a directory of which git shows nothing: what is measured is not part of the program.
pub(super) fn ignored(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failure::new(1, format!("cannot make {}: {error}", directory.display()))
    })?;
    // Where this cannot be written git shows the directory.
    let _ = std::fs::write(directory.join(".gitignore"), "*\n");
    Ok(())
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

/// A day, `2026-11-22`, from seconds since 1970 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub(super) fn day(seconds: i64) -> String {
    let days = seconds.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// `1 benchmark`, `2 benchmarks`.
pub(super) fn number_of(count: usize, what: &str) -> String {
    format!(
        "{count} {what}{}",
        if count == 1 || what == "series" {
            ""
        } else {
            "s"
        }
    )
}

/// `suite/benchmark parameters`.
pub(super) fn benchmark(suite: &str, benchmark: &str, parameters: &str) -> String {
    let mut name = String::new();
    if !suite.is_empty() {
        name.push_str(suite);
        name.push('/');
    }
    name.push_str(benchmark);
    if !parameters.is_empty() {
        name.push(' ');
        name.push_str(parameters);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (1_795_000_000, "2026-11-18"),
            (-1, "1969-12-31"),
        ] {
            assert_eq!(day(seconds), expected);
        }
    }
}
