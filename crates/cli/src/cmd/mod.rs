//! The subcommands, one module each. A module has `Args` (clap) and `run(Args) -> CmdResult`.

mod blocks;
mod stat;

use crate::CmdResult;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Blocks(blocks::Args),
    Stat(stat::Args),
}

/// Runs the subcommand that was asked for.
pub(crate) fn run(command: &Command) -> CmdResult {
    match command {
        Command::Blocks(args) => blocks::run(args),
        Command::Stat(args) => stat::run(args),
    }
}
