//! `truecount run`: a program under the virtual PMU, with its exact counts after it has ended.

mod document;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::CmdResult;
use crate::env_record::Environment;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::runner::{Launch, Signals, resolve};
use crate::source::virtual_pmu;
use document::Document;

const EXAMPLES: &str = "\
EXAMPLES
  truecount run -- gzip -k file             exact user-mode instructions, without a PMU
  truecount run --per-process -- make       what each program that make started took
  truecount run --per-thread -- ./prog      each thread of each process
  truecount run --json -o out.json -- ./prog

run exits with the status of the program, 128+N when signal N ended it, 123 when an internal check
of the virtual PMU failed (the counts are void then), 126 or 127 when the program cannot be executed
or found. Its result goes to stderr after the program has ended, or to the file of --output.
Addresses are not randomised unless --aslr is given, so that runs repeat. Ctrl-C ends the program
and prints what was counted; a second Ctrl-C kills it.

LIMITS
  The virtual PMU is experimental. It runs 64-bit programs on x86-64 Linux and counts
  instructions:u, nothing else yet.
  perf_event_open and rdpmc inside the program are not served by it. Programs that set the GS
  segment or call vsyscall end with a report and status 123; 32-bit and set-user-id children run
  uncounted, and the result says so. For a second opinion: truecount stat --source step (slow).";

/// Run a program under the virtual PMU and count its instructions exactly (experimental)
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Events, separated by commas; instructions:u is the only one yet
    #[arg(
        short,
        long = "event",
        value_name = "EVENTS",
        default_value = "instructions:u"
    )]
    event: Vec<String>,
    /// Report as one JSON document (schema truecount.run/1), on stderr or in the file of --output
    #[arg(long)]
    json: bool,
    /// List every thread
    #[arg(long)]
    per_thread: bool,
    /// List every process, once for each program that it executed
    #[arg(long)]
    per_process: bool,
    /// Write the result to FILE instead of stderr
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave the randomisation of addresses on
    #[arg(long)]
    aslr: bool,
    #[command(flatten)]
    cache: virtual_pmu::CacheArgs,
    /// Remove the translations kept from earlier runs, and do nothing else
    #[arg(long)]
    clear_cache: bool,
    /// The command and its arguments
    #[arg(
        value_name = "CMD",
        required_unless_present = "clear_cache",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Refuses what the engine does not count.
fn check_events(given: &[String]) -> Result<(), Failure> {
    for event in given.iter().flat_map(|list| list.split(',')).map(str::trim) {
        if event != "instructions:u" {
            return Err(Failure::new(
                2,
                format!("event `{event}` is not available from this engine yet"),
            )
            .mend("it counts instructions:u; see truecount stat for other events"));
        }
    }
    Ok(())
}

/// Runs `truecount run`.
pub(crate) fn run(args: &Args) -> CmdResult {
    if args.clear_cache {
        return virtual_pmu::clear_cache();
    }
    args.cache.apply();
    check_events(&args.event)?;
    virtual_pmu::available().map_err(|reason| Failure::new(1, reason.to_string()))?;
    let Some(first) = args.command.first() else {
        return Err(Failure::new(2, "no command to run")
            .mend("write it after --, as in: truecount run -- ls -l"));
    };
    let signals = Signals::block()
        .map_err(|error| Failure::new(125, format!("cannot block signals: {error}")))?;
    let program = resolve(first)?;
    // Opened before the run: a wrong path must not cost a run.
    let mut output = Output::open(args.output.as_deref(), true)?;
    let launch = Launch {
        argv: &args.command,
        stdio: [None, None, None],
        cpus: &[],
        keep_aslr: args.aslr,
        own_group: false,
        timeout: None,
    };
    let mut environment = Environment::gather(args.aslr, &[]);
    environment.add_command(&args.command, Some(&program));
    let ran = virtual_pmu::execute(&signals, &program, &launch)?;
    let status = ran.ended.exit.shell_code();
    let document = Document::new(args, ran, environment);
    if args.json {
        document::write(&mut output, &document)?;
    } else {
        text::write(&mut output, &document)?;
    }
    Ok(Outcome(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instructions_in_user_mode() {
        let check = |text: &str| check_events(&[text.to_owned()]);
        assert!(check("instructions:u").is_ok());
        assert!(check("instructions:u, instructions:u").is_ok());
        for other in ["instructions", "branches:u", "instructions:u,loads:u", ""] {
            let failure = check(other).unwrap_err();
            assert_eq!(failure.code, 2);
            assert!(failure.cause.contains("not available"), "{failure}");
        }
    }
}
