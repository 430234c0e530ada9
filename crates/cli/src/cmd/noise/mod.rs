//! `truecount noise`: what makes identical runs differ.
//!
//! Every factor that truecount can hold constant is held constant; then one at a time is varied. Rounds
//! visit every setting once, shuffled, so that a drift of the machine reaches all of them alike.

mod document;
mod html;
mod svg;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Picture};
use crate::program_args::{MachineArgs, SourceArg, parse_duration};
use crate::progress::{Steps, Words};
use crate::render::charts::Frame;
use crate::render::json;
use document::Document;
use truecount_lab::noise::{Counting, Findings, Plan, measure};
use truecount_run::determinism::{List, parse_list};
use truecount_run::env_record::Environment;
use truecount_run::runner::resolve;
use truecount_run::session::{Session, fresh_seed};

const HELP: &str = "\
WHAT THE NUMBERS MEAN
  instructions:u is counted by the CPU where it has a PMU, else by the virtual PMU, which is exact:
  there, what differs between two runs is a difference of the program's own path, never of the
  measurement. The CPU's own errors are in the residual.
  residual       N runs with every factor held constant: what is left is caused by something that
                 truecount cannot hold constant (see `not tested`), other processes, or the counter
  varied         N runs in which only this factor is as usual, all others held constant
  ±              half of the distance between the min and the max count of these N runs; the
                 whole range of the program is at least this
  p              where the residual is not 0: the probability of distances from the median as
                 large as these, if the factor did nothing (permutation test, corrected for the
                 number of factors by Holm); a factor counts as a cause when p is below 0.05. With
                 a residual of 0 every difference is the factor's and no test is needed
  dominant factor
                 the cause with the largest ±
  together       N runs with every factor varied at once
  functions      where the min and the max run of a setting differ: instructions of each
                 function in both, largest difference first (virtual PMU only)
  paths          with --calls: the same for paths of calls, each with what it executed itself, with
                 all it called, and how often it was called; runs take longer then
  regions        the same for the regions of the program's own profiles, when it writes some (see
                 below): self time, without what is nested, of all threads and files of the run
  not tested     what cannot be varied on this machine, and what cannot be held constant at all,
                 with the reason

FACTORS
  aslr           randomised addresses
  at-random      the 16 random bytes that the kernel gives every program: stack guards, Go's maps
  getrandom      what the system call getrandom answers: hash seeds of Python, Rust ...
  clock          clocks read by the vDSO, whose loops depend on the time and on the kernel's
                 updates of it (held constant: they are read by system calls, which costs time);
                 varied, it reads the real time, so time is varied with it
  time           what clocks, rdtsc and the limits of waits say (virtual PMU only; held constant:
                 every process begins at the same time, which goes on by one nanosecond an
                 instruction and by what it waits; never more than 30 s behind the real time)
  env            size of the environment (varied: 0 to 4095 bytes more, at random)
  path           length of the program's path (varied: up to 198 bytes more, as in /bin/././prog)
  cwd            length of the working directory's path (varied: the same directory under another
                 name, in a mount namespace; needs root)
  malloc         arenas and timers of glibc's and jemalloc's allocators
  cpu            the CPU, and migration
  pid            PIDs and their length in digits (needs root: the next number of the machine is
                 chosen before each run, kernel.ns_last_pid)
  files          order in which the files of a directory are listed (held constant: by name;
                 varied: at random, as on another file system)
  threads        thread scheduling (held constant: SCHED_RR, each runs until it waits or has
                 had 100 ms, one after the other where cpu is held constant, too; needs root)
  random         /dev/urandom, /dev/random, rdrand, rdseed: hash seeds of Perl (virtual PMU only)
  machine        CPU, kernel, memory, addresses (only where it is named, virtual PMU only; held
                 constant: the program is shown x86-64-v3, as by --machine; varied: any level that
                 this CPU has, with one CPU to four)

REGION PROFILES
  When the program writes region profiles (.mm_profdata) of instructions:u, by truecount's Recorder
  or by rustc -Zself-profile, those of the min and of the max run of each setting are read:
  they name the places also where the CPU counts, which knows no functions. A run's files are those
  in the working directory, or where --profile says, that are new or changed after it. They are the
  program's and stay: N runs leave N files where their names differ. A profile that cannot be read
  whole, or of wall time, is not used and said. While the virtual PMU counts functions a program
  cannot read counters by rdpmc, as rustc does: with --profile that is noticed and functions are
  left out, else --functions 0 does it.

The program's standard output is thrown away, its input is empty. Its first run warms up and is not
counted. With getrandom and at-random held constant its random numbers are predictable: do not let
it make keys.

EXAMPLES
  truecount noise -- python3 -c 'print({str(i): i for i in range(1000)})'
  truecount noise -n 20 --factors aslr,env -- ./prog
  truecount noise --calls -- ./prog                 the paths of calls in which runs differ
  truecount noise --html noise.html -- ./prog       a page with every run drawn
  truecount noise --json -o noise.json -- ./prog
  truecount noise --profile prof -- rustc -Zself-profile=prof \\
      -Zself-profile-counter=instructions:u m.rs
  truecount stat --deterministic -n 5 -- ./prog     apply the remedies
  truecount stat --deterministic=all,time,threads -n 5 -- ./prog
                                                    also for clocks and the order of threads

noise exits with 0, with 130 after Ctrl-C (it prints what it has), with 124 where a run takes longer
than --timeout (it prints what it has, after one whole round at least), with 1 where neither the
CPU's counters nor the virtual PMU work.";

/// Find what makes identical runs differ
#[derive(clap::Args)]
#[command(after_long_help = HELP, after_help = "What the numbers mean, factors and examples: truecount noise --help")]
pub(crate) struct Args {
    /// Runs of every setting [default: 8, or 5 where more than four factors are tried and the residual is 0]; where the
    /// residual is not 0, as many as can tell a cause from chance at least (5 for one factor, 7 for thirteen)
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    runs: Option<u32>,
    /// Factors to try, separated by commas [default: all]
    #[arg(long, value_name = "FACTORS", default_value = "", hide_default_value = true, value_parser = parse_list)]
    factors: List,
    /// Seed of the order of runs and of the sizes of the environment [default: from the clock; it is printed]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Functions to list for each setting that varies (virtual PMU); with 0 they are not counted, which is faster
    #[arg(long, value_name = "N", default_value_t = 5)]
    functions: usize,
    /// Keep the tree of calls of every run (virtual PMU): lists the paths in which runs differ, as many as functions
    #[arg(long)]
    calls: bool,
    /// Regions to list for each setting that varies, where the program writes region profiles
    #[arg(long, value_name = "N", default_value_t = 5)]
    regions: usize,
    /// Directory or file where the program writes its region profiles (.mm_profdata); may be repeated [default: the
    /// working directory]
    #[arg(long, value_name = "PATH")]
    profile: Vec<PathBuf>,
    /// End a run after this time, such as 10s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Who counts: auto (hardware if there is any), hardware or virtual
    #[arg(long, value_enum, default_value_t = SourceArg::Auto, hide_possible_values = true)]
    source: SourceArg,
    /// Write a page with every run drawn, and the functions and regions in which they differ
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the picture alone
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON document (schema truecount.noise/2) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    /// Write to a file
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    cache: crate::program_args::CacheArgs,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Where a run does not end.
const SLOW: &str = "one run takes long; threads that spin until another one has done something lose 100 ms each time \
    while the order of threads is held constant: name other factors than threads (--factors aslr,env,cpu), or end runs \
    by --timeout";

/// Runs `truecount noise`.
pub(crate) fn run(args: &Args) -> CmdResult {
    args.cache.apply();
    let Some(first) = args.command.first() else {
        return Err(Failure::new(2, "no command to run")
            .hint("write it after --, as in: truecount noise -- ls -l"));
    };
    let mut session = Session::start()?;
    let machine = args.machine.shown()?;
    let source = args.machine.source(args.source)?;
    if args.calls && args.functions == 0 {
        return Err(
            Failure::new(2, "--calls lists as many paths as functions, which are 0")
                .hint("leave --functions 0 out"),
        );
    }
    let counting = Counting::choose(source.choice(), args.functions > 0, args.calls)?;
    let program = resolve(first)?;
    // Opened before the runs: a wrong path must not cost them.
    let mut output = Output::result(args.json.as_deref(), args.output.as_deref(), false)?;
    let page = Picture::create(args.html.as_deref())?;
    let picture = Picture::create(args.svg.as_deref())?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let plan = Plan {
        command: &args.command,
        runs: args.runs,
        factors: &args.factors,
        seed,
        functions: args.functions,
        regions: args.regions,
        profile: &args.profile,
        machine,
        timeout: args.timeout,
    };
    let mut steps = Steps::start(Words {
        command: "truecount noise",
        step: "run",
        slow: Some(SLOW),
    });
    let mut progress = |done, all| steps.are(done, all);
    let outcome = measure(&plan, &mut session, counting, &program, &mut progress);
    drop(steps);
    let mut outcome = outcome?;
    let (interrupted, stopped) = (outcome.interrupted, outcome.stopped.take());
    let mut environment = Environment::gather(false, &[]);
    environment.add_command(&args.command, Some(&program));
    environment.reference = machine.map(|machine| machine.id());
    let mut document = Document::new(args, seed, Findings::new(&plan, outcome), environment);
    document.stopped = stopped.as_ref().map(|error| error.cause.clone());
    // What was measured is shown first: whatever fails after it costs nothing.
    let shown = if args.json.is_some() {
        json::write(&mut output, &document)
    } else {
        text::write(&mut output, &document)
    };
    let write = |file: Option<Picture>, content: &dyn Fn() -> String| {
        file.map_or(Ok(()), |file| file.write(&content()))
    };
    Failure::of_all([
        stopped.map_or(Ok(()), |error| Err(Failure::from(error))),
        shown.map_err(Failure::from),
        write(page, &|| html::page(&document)),
        write(picture, &|| svg::picture(&document, Frame::File)),
    ])
    .or_else(|failure| match failure.closed_pipe {
        // Whoever closed a pipe has seen enough.
        true => Ok(()),
        false => Err(failure),
    })?;
    Outcome::measured(interrupted, None)
}
