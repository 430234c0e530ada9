//! `truecount history backfill`: measures commits that have no record.

use std::io::Write as _;

use truecount_history::git::short;

use super::keeping::Keeping;
use super::stopping::Stopping;
use super::work::{Skipped, Work, WorkArgs};
use super::{StoreArgs, number_of};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::style::{WARN, paint};

const EXAMPLES: &str = "\
EXAMPLES
  truecount history backfill v1.2..HEAD                   what truecount.toml names, with its build
  truecount history backfill --build 'make -j2' main~20..main -- ./prog input.txt
  truecount history backfill --every 10 v1.0..main        every tenth commit; bisect finds the rest

Each commit is checked out in .truecount/work, built there and measured as it is now: the suite is
today's. One that does not build, or cannot be measured, is skipped, and that is said. It exits with
1 when commits were to be measured and none could be. After Ctrl-C what was measured is kept.";

/// Measure commits that have no record yet, each built in a work tree of its own
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The commits after A up to B; B alone is that one
    #[arg(value_name = "A..B")]
    range: String,
    /// Commits of merged branches too, not only first parents
    #[arg(long)]
    all_parents: bool,
    /// Only every Nth commit, and the last one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Measure commits that have a record too
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let stopping = Stopping::new()?;
    measure(args, &stopping).map_err(|failure| stopping.instead_of(failure))
}

fn measure(args: &Args, stopping: &Stopping) -> CmdResult {
    let repository = args.store.repository()?;
    let mut commits = match args.range.split_once("..") {
        Some(("", _)) => {
            let cause = format!("{}: it names no commit to begin after", args.range);
            return Err(Failure::new(2, cause).hint("it is A..B: the commits after A up to B"));
        }
        Some((base, tip)) => {
            let tip = if tip.is_empty() { "HEAD" } else { tip };
            repository.between(base, tip.trim_start_matches('.'), !args.all_parents)?
        }
        None => vec![repository.resolve(&args.range)?],
    };
    if commits.is_empty() {
        let cause = format!("there is no commit in {}", args.range);
        return Err(Failure::new(2, cause).hint("it is A..B: the commits after A up to B"));
    }
    let (every, last) = (args.every as usize, commits.len() - 1);
    let mut place = 0;
    commits.retain(|_| {
        let wanted = (last - place) % every == 0;
        place += 1;
        wanted
    });
    let mut work = Work::new(&args.work, &repository, stopping)?;
    let mut store = Keeping::open(stopping, &args.store)?;
    let suite = work.suite_name().to_owned();
    let has = store.ask(move |store| store.commits(Some(&suite)))?;
    let all = commits.len();
    if !args.again {
        commits.retain(|hash| !has.contains(hash));
    }
    let mut out = Output::stdout();
    let (mut measured, mut skipped) = (0, 0);
    for hash in &commits {
        let subject = repository.commit(hash)?.subject;
        match work.measure(hash)? {
            Ok(record) => {
                let what = number_of(record.benchmarks.len(), "benchmark");
                store.add(record)?;
                measured += 1;
                writeln!(out, "{}: measured {what}  {subject}", short(hash))?;
            }
            Err(Skipped(why)) => {
                skipped += 1;
                let line = format!("{}: skipped: it {why}", short(hash));
                writeln!(out, "{}  {subject}", paint(WARN, &line))?;
            }
        }
        out.flush()?;
    }
    let had = all - commits.len();
    writeln!(
        out,
        "{} measured, {skipped} skipped, {had} had records.",
        number_of(measured, "commit")
    )?;
    out.flush()?;
    if measured == 0 && skipped > 0 && had == 0 {
        return Err(Failure::new(1, "no commit could be measured")
            .hint("the reasons are above; --build names what builds a commit"));
    }
    Ok(Outcome::OK)
}
