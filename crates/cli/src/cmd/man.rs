//! `truecount man`: manual pages, made from the same definition as the parser and `--help`.

use std::io::Write as _;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;

const EXAMPLES: &str = "\
EXAMPLES
  truecount man | man -l -                   read the page
  truecount man bench > truecount-bench.1    the page of a subcommand
  truecount man history add | man -l -       and of one below it";

/// Print a manual page (roff)
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Page of this subcommand, or of one below it (history add); without one, of truecount itself
    #[arg(value_name = "SUBCOMMAND")]
    subcommands: Vec<String>,
}

/// Runs `truecount man`.
pub(crate) fn run(args: &Args) -> CmdResult {
    let mut root = crate::help::command();
    root.build();
    let mut page = &root;
    for (depth, name) in args.subcommands.iter().enumerate() {
        page = page.find_subcommand(name).ok_or_else(|| {
            let above = [&["truecount".to_owned()], &args.subcommands[..depth]].concat();
            Failure::new(2, format!("no subcommand `{name}`"))
                .hint(format!("see {} --help", above.join(" ")))
        })?;
    }
    let mut roff = Vec::new();
    clap_mangen::Man::new(page.clone()).render(&mut roff)?;
    let mut out = Output::stdout();
    out.write_all(&roff)?;
    out.flush()?;
    Ok(Outcome::OK)
}
