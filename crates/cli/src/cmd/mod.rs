//! The subcommands, one module each. A module has `Args` (clap) and `run(Args) -> CmdResult`.

pub(crate) mod bench;
mod blocks;
mod check;
mod completions;
mod discover;
mod events;
pub(crate) mod exactness;
pub(crate) mod latency;
mod man;
mod noise;
mod overhead;
mod profile;
mod record;
mod report;
mod run;
mod stat;
mod system;
mod top;
pub(crate) mod valgrind;

use crate::CmdResult;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Bench(Box<bench::Args>),
    Blocks(blocks::Args),
    Check(check::Args),
    Profile(profile::Args),
    Record(record::Args),
    Report(report::Args),
    Run(run::Args),
    Completions(completions::Args),
    Discover(discover::Args),
    Events(events::Args),
    Exactness(exactness::Args),
    Latency(latency::Args),
    Man(man::Args),
    Noise(noise::Args),
    Overhead(Box<overhead::Args>),
    Stat(stat::Args),
    System(system::Args),
    Top(top::Args),
    Valgrind(valgrind::Args),
}

/// Runs the subcommand that was asked for.
pub(crate) fn run(command: &Command) -> CmdResult {
    match command {
        Command::Bench(args) => bench::run(args),
        Command::Check(args) => check::run(args),
        Command::Blocks(args) => blocks::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Record(args) => record::run(args),
        Command::Report(args) => report::run(args),
        Command::Run(args) => run::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Discover(args) => discover::run(args),
        Command::Latency(args) => latency::run(args),
        Command::Man(args) => man::run(args),
        Command::Noise(args) => noise::run(args),
        Command::Overhead(args) => overhead::run(args),
        Command::Events(args) => events::run(args),
        Command::Exactness(args) => exactness::run(args),
        Command::Stat(args) => stat::run(args),
        Command::System(args) => system::run(args),
        Command::Top(args) => top::run(args),
        Command::Valgrind(args) => valgrind::run(args),
    }
}
