//! `truecount exactness`: counters compared with loops of known length.

mod document;
mod text;

use std::ffi::OsString;
use std::io::Write as _;
use std::time::Duration;

use truecount_lab::exact::inside::{self, Child};
use truecount_lab::exact::{self, Plan, Target};

use crate::CmdResult;
use crate::failure::{Failure, Outcome as Ended};
use crate::output::Output;
use crate::program_args::parse_duration;
use crate::progress::spinner;
use crate::render::json;
use document::Document;
use truecount_model::Reason;
use truecount_run::env_record::{Environment, aslr_is_on};
use truecount_run::runner::{Signals, Stop};
use truecount_run::session::fresh_seed;
use truecount_run::source::{hardware_available, virtual_available};

const HELP: &str = "\
WHAT THE NUMBERS MEAN
  Each counter runs on loops written in assembly, whose instructions, branches and page faults are
  known by construction. A measurement is the count between two reads around one loop, minus what
  the same two reads count around an empty loop (the minimum of 200 tries).
  deviation      a measurement minus the truth; the histogram says how many measurements deviate by
                 how much (under: too few, exact, over: too many)
  +k/irq         the whole number that one interrupt adds, where the interrupts were counted beside
                 (r01cb on Intel, r002c on AMD Zen); `explained` is the share of measurements that
                 the truth plus k per interrupt gives to the count
  per turn       what remains when interrupts are subtracted, per page fault, system call, ...
  per second     sum of the deviations over the time measured: beside CONFIG_HZ, the timer's rate
  ordering       what a read needs so that it does not miss instructions still in flight: short
                 loops that end in slow instructions, read with nothing, lfence, serialize, cpuid
                 (x86) or isb (Arm), and what one read costs with each
  SpecLockMap    AMD Zen: r0825 around locked instructions; when it counts, counts around locks may
                 be too high
Without a PMU the virtual source is measured, in a child of truecount under the virtual PMU.

EXAMPLES
  truecount exactness                              the default counters, 5 seconds
  truecount exactness -e instructions:u --stress   with threads that disturb
  truecount exactness -e r00c0:u=instructions      say what an event ought to count
  truecount exactness --json -o exactness.json";

/// Measure how exact this machine's counters are
#[derive(clap::Args)]
#[command(after_long_help = HELP, after_help = "What the numbers mean, and examples: truecount exactness --help")]
pub(crate) struct Args {
    /// Counters, separated by commas; EVENT=QUANTITY says what it ought to count: instructions, branches, page-faults
    #[arg(
        short = 'e',
        long = "event",
        alias = "events",
        value_name = "EVENTS",
        value_delimiter = ','
    )]
    events: Vec<String>,
    /// How long; every counter is measured on every loop at least once
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = parse_duration)]
    seconds: Duration,
    /// With a thread on the same CPU, and one that changes the address space
    #[arg(long)]
    stress: bool,
    /// Who counts
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    source: Choice,
    /// The CPU to measure on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Seed of the order of rounds [default: from the clock; it is printed]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Do not keep the verdicts for `truecount check`
    #[arg(long)]
    no_save: bool,
    /// Print one JSON document (schema truecount.exactness/2) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<std::path::PathBuf>,
    /// Write to a file
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<std::path::PathBuf>,
    /// The measuring child under the virtual PMU: prints its outcome and nothing else
    #[arg(long, hide = true)]
    inside: bool,
    /// The measured program under the virtual PMU: runs one loop, `INDEX,TIMES,REAL`, and ends
    #[arg(long, hide = true, value_name = "SPEC")]
    one_loop: Option<String>,
}

/// `--source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Choice {
    /// Hardware if there is one, else the virtual PMU
    Auto,
    /// The CPU's counters
    Hardware,
    /// The virtual PMU
    Virtual,
}

/// What is measured when nothing is named.
const DEFAULT: [&str; 4] = [
    "instructions:u",
    "instructions-minus-irqs:u",
    "branches:u",
    "page-faults:u",
];

fn targets(args: &Args) -> Result<Vec<Target>, Failure> {
    let mut targets: Vec<Target> = Vec::new();
    let named: Vec<&str> = if args.events.is_empty() {
        DEFAULT.to_vec()
    } else {
        args.events.iter().map(|event| event.trim()).collect()
    };
    for text in named {
        let target = Target::parse(text).map_err(|reason| Failure::new(2, reason))?;
        truecount_events::resolve(&target.event, &truecount_events::Machine::this())
            .map_err(|error| Failure::new(2, error.to_string()))?;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}

/// The command line of a child under the virtual PMU.
fn words(child: Child<'_>) -> Vec<OsString> {
    let mut words = ["truecount", "exactness"].map(str::to_owned).to_vec();
    match child {
        Child::Loop(spec) => words.extend(["--one-loop".to_owned(), spec.to_owned()]),
        Child::Plan(plan) => {
            let seconds = plan.time.as_secs_f64();
            words.push("--inside".to_owned());
            words.push(format!("--seed={}", plan.seed));
            words.push(format!("--seconds={seconds}"));
            words.extend(plan.stress.then(|| "--stress".to_owned()));
            words.extend(plan.cpu.map(|cpu| format!("--cpu={cpu}")));
            let events = plan.targets.iter();
            words
                .extend(events.map(|each| format!("--event={}={}", each.event, each.truth.name())));
        }
    }
    words.into_iter().map(Into::into).collect()
}

/// Runs `truecount exactness`.
pub(crate) fn run(args: &Args) -> CmdResult {
    if let Some(spec) = &args.one_loop {
        inside::one_loop(spec)?;
        return Ok(Ended::OK);
    }
    let targets = targets(args)?;
    let signals = Signals::block()
        .map_err(|error| Failure::new(125, format!("cannot block signals: {error}")))?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let plan = Plan {
        targets,
        time: args.seconds,
        seed,
        stress: args.stress,
        cpu: args.cpu,
    };
    // A signal may arrive here, or while a child is waited for.
    let stop = Stop::new(&signals);
    if args.inside {
        let outcome = exact::run(&plan, &mut || stop.requested())?;
        let mut out = std::io::stdout().lock();
        json::line(&mut out, &outcome)?;
        out.flush()?;
        return Ok(Ended(u8::from(stop.signal().is_some()) * 130));
    }
    // Opened before the measurement: a wrong path must not cost one.
    let mut output = Output::result(args.json.as_deref(), args.output.as_deref(), false)?;
    let hardware = match args.source {
        Choice::Auto => hardware_available(),
        Choice::Hardware => {
            hardware_available().map_err(|reason| Failure::new(1, reason.to_string()))?;
            Ok(())
        }
        Choice::Virtual => Err(Reason::new("--source virtual")),
    };
    let progress = spinner(args.seconds);
    let mut notes = Vec::new();
    let outcome = match hardware {
        Ok(()) => exact::run(&plan, &mut || stop.requested())?,
        Err(reason) => {
            if args.source == Choice::Virtual {
                virtual_available().map_err(|reason| Failure::new(1, reason.to_string()))?;
            }
            inside::without_hardware(&plan, &reason, &words, &stop, &mut notes)?
        }
    };
    progress.finish_and_clear();
    let environment = Environment::gather(aslr_is_on(), outcome.cpu.as_slice());
    if !args.no_save {
        notes.extend(truecount_lab::exact::profile::keep(&outcome, &environment));
    }
    let interrupted = stop.signal();
    let document = Document::new(args, seed, outcome, interrupted, notes, environment);
    if args.json.is_some() {
        json::write(&mut output, &document)?;
    } else {
        text::write(&mut output, &document)?;
    }
    let nothing = document.measured_nothing();
    Ended::measured(
        interrupted,
        nothing.then_some("no counter could be measured"),
    )
}
