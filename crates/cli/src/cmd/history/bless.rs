//! `truecount history bless`: accepts a change, with a reason.

use std::io::Write as _;

use truecount_history::git::short;
use truecount_history::store::Blessing;

use super::{StoreArgs, now, number_of};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;

const EXAMPLES: &str = "\
EXAMPLES
  truecount history bless HEAD --reason 'checks its input now'
  truecount history bless HEAD --benchmark parse --metric instructions --reason 'for #12'
  truecount history bless HEAD --undo                        take it back";

/// Accept a change: gates let it pass, and lists say why
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The commit that made the change
    #[arg(value_name = "REV")]
    commit: String,
    /// Why it is accepted
    #[arg(long, value_name = "TEXT", required_unless_present = "undo")]
    reason: Option<String>,
    /// Only for this benchmark
    #[arg(long, value_name = "NAME", default_value = "")]
    benchmark: String,
    /// Only for this metric
    #[arg(long, value_name = "METRIC", default_value = "")]
    metric: String,
    /// Take it back
    #[arg(long, conflicts_with_all = ["reason", "benchmark", "metric"])]
    undo: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let commit = args.store.repository()?.commit(&args.commit)?;
    let mut store = args.store.open(false)?;
    let mut out = Output::stdout();
    if args.undo {
        let undone = store.unbless(&commit.hash)?;
        if undone == 0 {
            let cause = format!("no change of {} was accepted", short(&commit.hash));
            return Err(Failure::new(1, cause));
        }
        writeln!(
            out,
            "{}: took back {}",
            short(&commit.hash),
            number_of(undone, "acceptance")
        )?;
    } else {
        store.bless(&Blessing {
            commit: commit.hash.clone(),
            benchmark: args.benchmark.clone(),
            metric: args.metric.clone(),
            reason: args.reason.clone().unwrap_or_default(),
            time: now(),
        })?;
        writeln!(out, "{}: accepted  {}", short(&commit.hash), commit.subject)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}
