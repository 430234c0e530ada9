//! `truecount completions`: completions for shells, made from the same definition as the parser.

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::CmdResult;
use crate::failure::Outcome;
use crate::output::Output;

const EXAMPLES: &str = "\
EXAMPLES
  truecount completions bash > /etc/bash_completion.d/truecount
  truecount completions fish > ~/.config/fish/completions/truecount.fish";

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Runs `truecount completions`.
pub(crate) fn run(args: &Args) -> CmdResult {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut crate::Cli::command(),
        "truecount",
        &mut script,
    );
    let mut out = Output::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(Outcome::OK)
}
