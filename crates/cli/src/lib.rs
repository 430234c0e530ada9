//! `truecount`: what code costs in the CPU's own counters.
//!
//! This file only parses the command line, runs one subcommand and turns its outcome into an exit status; every
//! subcommand is one module in `cmd`. It is a library for the fuzz targets alone, which need its [`parsers`].

mod cmd;
mod failure;
mod help;
mod output;
pub mod parsers;
mod program_args;
mod progress;
mod recording;
mod render;
mod usage;

use clap::{FromArgMatches as _, Parser};
use failure::Outcome;

/// Tell what code costs in the CPU's own counters: exactly, the same on every run.
#[derive(Parser)]
#[command(name = "truecount", version, max_term_width = 100, after_help = failure::EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: cmd::Command,
}

/// The command: by the name `valgrind` (a link, a copy) Valgrind's; else parses the process' arguments, runs what they say and tells its exit status.
pub fn main() -> std::process::ExitCode {
    if has_small_stack() {
        let on_another = std::thread::Builder::new().stack_size(STACK as usize);
        if let Ok(thread) = on_another.spawn(begin) {
            // (A panic has been told by then.)
            return thread.join().unwrap_or(std::process::ExitCode::from(101));
        }
    }
    begin()
}

/// What the command needs at most, and some.
const STACK: u64 = 4 << 20;

/// Whether a limit (`ulimit -s`), meant for the program, leaves the command's own first thread too little.
fn has_small_stack() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes to a local.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) == 0 && limit.rlim_cur < STACK }
}

fn begin() -> std::process::ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().map(std::path::PathBuf::from);
    if name.as_deref().and_then(std::path::Path::file_name) == Some("valgrind".as_ref()) {
        let words: Vec<_> = words.collect();
        return failure::report(cmd::valgrind::front(&words));
    }
    if measures() {
        truecount_run::session::start_early();
    }
    let parsed = help::command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let outcome = match parsed {
        Ok(cli) => cmd::run(&cli.command),
        Err(error) => usage::outcome(&error),
    };
    failure::report(outcome.map_err(usage::with_detached_value))
}

/// Whether a subcommand is going to measure small programs: its launcher is forked before the command line is parsed,
/// since parsing grows the memory that the launcher would carry along. Where commands run in another directory it has to
/// be forked there.
fn measures() -> bool {
    let mut words = std::env::args_os().skip(1);
    let small = words
        .next()
        .is_some_and(|word| word == "bench" || word == "stat" || word == "noise");
    let mut options = words.take_while(|word| word != "--");
    small
        && !options.any(|word| {
            let word = word.to_string_lossy();
            word.starts_with("--directory") || word.starts_with("--suite")
        })
}

/// What every subcommand returns: the exit status on success, or a [`failure::Failure`].
pub(crate) type CmdResult = Result<Outcome, failure::Failure>;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    /// The texts are laid out by hand: a line that clap breaks loses its columns.
    #[test]
    fn help_fits_its_width() {
        let mut open = vec![super::Cli::command()];
        let mut seen = 0;
        while let Some(command) = open.pop() {
            for text in [command.get_after_help(), command.get_after_long_help()] {
                for line in text.map(ToString::to_string).unwrap_or_default().lines() {
                    seen += 1;
                    let width = line.chars().count();
                    assert!(width <= 100, "{}: {width}: {line}", command.get_name());
                }
            }
            open.extend(command.get_subcommands().cloned());
        }
        assert!(seen > 300, "{seen}");
    }
}
