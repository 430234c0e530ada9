//! `truecount man`: manual pages, made from the same definition as the parser and `--help`.

use std::io::Write as _;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;

const EXAMPLES: &str = "\
EXAMPLES
  truecount man | man -l -                   read the page
  truecount man bench > truecount-bench.1    the page of a subcommand";

/// Print a manual page (roff)
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Page of this subcommand; without one, of truecount itself
    subcommand: Option<String>,
}

/// Runs `truecount man`.
pub(crate) fn run(args: &Args) -> CmdResult {
    let mut root = crate::help::command();
    root.build();
    let page = match &args.subcommand {
        None => root,
        Some(name) => {
            let found = root.find_subcommand(name).ok_or_else(|| {
                Failure::new(2, format!("no subcommand `{name}`")).hint("see truecount --help")
            })?;
            found.clone()
        }
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page).render(&mut roff)?;
    let mut out = Output::stdout();
    out.write_all(&roff)?;
    out.flush()?;
    Ok(Outcome::OK)
}
