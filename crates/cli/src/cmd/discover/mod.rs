//! `truecount discover`: what event selectors count, by trying them.

mod document;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use truecount_events::Machine;
use truecount_lab::discovery::{
    self, Broke, Builtin, Command, Keeper, Layout, Plan, ScanRequest, State, Umasks, Watch,
    Workload,
};
use truecount_lab::machine::Pinned;
use truecount_perf::linux;

use crate::CmdResult;
use crate::failure::{Failure, Outcome as Ended};
use crate::output::Output;
use crate::progress::Bar;
use crate::render::json;
use document::Document;
use truecount_run::env_record::Environment;
use truecount_run::runner::Stop;
use truecount_run::session::Session;
use truecount_run::source::{hardware_available, kernel_mode_allowed};

const HELP: &str = "\
WHAT IS TRIED
  A selector is an event code with a unit mask (Arm: a code alone), as in r01cb: mask 01, code cb.
  Every code is tried with mask 0xff, which takes in all kinds of the event where the mask's bits
  are kinds (AMD); codes that stay silent are tried with 0x00, 0x01 and the masks that the tables of
  this CPU name for them (Intel's masks are numbers). --umasks then tries each single bit, for codes
  that counted (--umasks=all: for all codes). As many selectors are counted at once as the kernel
  puts on the PMU together, beside the references: found by trying, and never multiplexed. Each
  batch is counted over the same runs of the workload. Only counters are opened; no MSR is written
  by hand.

WHAT THE NUMBERS MEAN
  min, median, max         what the selector counted in a whole run, over the runs (-n)
  repeats        exact: every run counted the same; otherwise the distance of max and min
  name           what the event tables of this CPU call exactly this code and mask; (by hand): not
                 in the vendor's public tables; `code has N names`: only other masks are documented;
                 undocumented: nothing is
  counts in      the phases of the built-in workload that counted most: counts per turn of the phase
                 (1.00 per page fault), or the count of the phase where that is below 0.01.
                 timer-slow and timer-fast are the loop of `plain` with a timer interrupt every 100
                 and 25 µs
  reference      how it goes with a reference that was counted in the same runs, point by point (a
                 point is a phase of a run, or a run of a command): `= X`: the same at every point;
                 `N × X`: N times it at every point; `~ X r`: Pearson's coefficient is 0.95 or more
                 over 8 points or more (same at K of N points). A command has one point a run (take
                 -n 8 or more), and no correlation when it never varies
  sums of two    X = Y + Z with at least one reference and one selector, all counted in the same
                 runs, at K of N points (shown from 90 % on; `off by` is the largest difference)
  never counted  opened, was on the PMU all the time, and counted 0 in every run: it may count what
                 the workload does not do
  not opened     the kernel refuses the selector, with its reason; not counted: others use the PMU
References of --reference: any event or tracepoint that stat takes (page-faults:u, instructions:u,
irq_vectors:local_timer_entry, r01cb:u), and `interrupts`: all interrupts of the CPU, from
/proc/interrupts (in user mode and in the kernel).

EXAMPLES
  truecount discover                                   all codes, the built-in workload
  truecount discover --select 0xc0..0xcf --umasks      both ends of a range are tried
  truecount discover --select 0x20 --umasks --reference interrupts --reference page-faults:u
  truecount discover --resume scan.state --json -o scan.json
  truecount discover --select 0xc0,0xc4 -n 10 -- ./program   a command as the workload

discover exits with 0; with 1 where there is no PMU or nothing could be counted; with 130 after
Ctrl-C, and with that of the failure (127: not found) when a later run fails: it has printed what it
found (--resume FILE goes on from there).";

/// Find what (undocumented) event selectors count
#[derive(clap::Args)]
#[command(after_long_help = HELP, after_help = "What the numbers mean, and examples: truecount discover --help")]
pub(crate) struct Args {
    /// Event codes, as in 0xc0..0xcf (both ends are tried) or 0xc0,0xc4 [default: 0x00..0xff on Intel,
    /// 0x000..0x1ff on AMD, 0x000..0x3ff on Arm]
    #[arg(long, value_name = "RANGE")]
    select: Option<String>,
    /// Try single bits of the unit mask, too: of codes that count, or of all
    #[arg(long, value_name = "WHICH", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "counting")]
    umasks: Option<Bits>,
    /// Compare with this event or tracepoint (again for more) [default: page-faults:u, interrupts,
    /// context-switches, where they can be counted]
    #[arg(long, value_name = "EVENT|TRACEPOINT")]
    reference: Vec<String>,
    /// Runs of each batch
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000))]
    runs: u32,
    /// Count in the kernel, too
    #[arg(long)]
    kernel: bool,
    /// The CPU to run on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Keep what was found in this file, and go on from it if it is there
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Print one JSON document (schema truecount.discover/2) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    /// Write to a file
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A command as the workload, and its arguments; its output is thrown away
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `--umasks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Bits {
    /// Bits of codes that count
    Counting,
    /// Bits of all codes
    All,
}

/// What is asked for.
fn wanted(args: &Args) -> ScanRequest<'_> {
    ScanRequest {
        select: args.select.as_deref(),
        umasks: match args.umasks {
            None => Umasks::No,
            Some(Bits::Counting) => Umasks::Counting,
            Some(Bits::All) => Umasks::All,
        },
        references: &args.reference,
        runs: args.runs,
        kernel: args.kernel,
    }
}

/// Watches the scan: Ctrl-C, the bar, the state file.
struct Watcher<'a> {
    stop: &'a Stop<'a>,
    keeper: Option<&'a mut Keeper>,
    bar: Bar,
}

impl Watch for Watcher<'_> {
    fn stop(&mut self) -> bool {
        self.stop.requested()
    }

    fn step(&mut self, done: usize, of: usize) {
        self.bar.set(done as f64 / of.max(1) as f64, || {
            format!("batch {done} of {of} known so far (Ctrl-C ends it early)")
        });
    }

    fn save(&mut self, state: &State) {
        if let Some(keeper) = &mut self.keeper {
            keeper.save(state, false);
        }
    }
}

/// The failure of a run; which run it was is noted.
fn broken(broke: Broke, plan: &Plan, notes: &mut Vec<String>) -> Failure {
    let Broke {
        selectors,
        run,
        why,
    } = broke;
    let names: Vec<String> = selectors.iter().map(|&each| plan.name(each)).collect();
    notes.push(format!(
        "Run {run} of {} with {} failed: {why}. What was found until then is shown (--resume FILE goes on from \
         there).",
        plan.runs,
        names.join(", ")
    ));
    why.into()
}

fn of_another_workload(path: Option<&PathBuf>) -> Failure {
    let file = path
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    Failure::new(2, format!("{file} is of a scan with another workload"))
        .hint("name another file with --resume, or remove it")
}

/// Runs `truecount discover`.
pub(crate) fn run(args: &Args) -> CmdResult {
    // What is wrong by itself is told before what is missing here.
    wanted(args).codes(Layout::of(Machine::this().cpu()))?;
    let Session {
        signals,
        mut launcher,
    } = Session::start()?;
    let stop = Stop::new(&signals);
    hardware_available().map_err(|reason| {
        let mut failure = Failure::new(1, format!("no selector can be tried: {}", reason.cause));
        failure.hint = reason.hint;
        failure
    })?;
    if args.kernel && !kernel_mode_allowed() {
        return Err(
            Failure::new(1, "--kernel: this user may not count in the kernel").hint(
                "lower kernel.perf_event_paranoid to 1, or run it as root or with CAP_PERFMON",
            ),
        );
    }
    let begun = Instant::now();
    let kernel = linux();
    let pinned = Pinned::to(args.cpu).map_err(|error| {
        Failure::new(125, format!("--cpu: cannot stay on that CPU: {error}"))
            .hint("choose among those in /sys/devices/system/cpu/online that the cpuset allows")
    })?;
    let (plan, mut told) = wanted(args).plan(&kernel, pinned.cpu)?;
    let environment = Environment::gather(false, &[pinned.cpu]);
    let mut state = State::default();
    let mut keeper = match &args.resume {
        Some(path) => Some(Keeper::open(
            path,
            &args.command,
            &plan,
            &environment,
            &mut state,
        )?),
        None => None,
    };
    let resumed = !state.tried().is_empty();
    // Opened before the scan: a wrong path must not cost one.
    let mut output = Output::result(args.json.as_deref(), args.output.as_deref(), false)?;
    let (mut builtin, mut command);
    let workload: &mut dyn Workload = if args.command.is_empty() {
        builtin = Builtin::new(&kernel, pinned.cpu)?;
        &mut builtin
    } else {
        command = Command::new(&mut launcher, &stop, &args.command, pinned.cpu, &kernel)?;
        &mut command
    };
    if !state.phases.is_empty() && state.phases != workload.phases() {
        return Err(of_another_workload(args.resume.as_ref()));
    }
    let mut watcher = Watcher {
        stop: &stop,
        keeper: keeper.as_mut(),
        bar: Bar::new(),
    };
    let scanned = discovery::run(&kernel, &plan, workload, &mut state, &mut watcher);
    drop(watcher);
    if let Some(keeper) = &mut keeper {
        keeper.save(&state, true);
    }
    told.notes.extend(workload.notes());
    let failed = scanned
        .err()
        .map(|broke| broken(broke, &plan, &mut told.notes));
    let interrupted = stop.signal();
    told.notes.extend(keeper.and_then(Keeper::trouble));
    let seconds = begun.elapsed().as_secs_f64();
    let document = Document::new(
        args,
        &plan,
        &state,
        told,
        document::Circumstances {
            cpu: pinned.cpu,
            seconds,
            resumed,
            interrupted,
            environment,
        },
    );
    let mut show = || match args.json.is_some() {
        true => json::write(&mut output, &document),
        false => text::write(&mut output, &document),
    };
    let nothing = document.counted_nothing();
    if let Some(failure) = failed {
        // Where nothing was counted the failure says it all.
        let shown = if nothing { Ok(()) } else { show() };
        return Failure::of_all([Err(failure), shown.map_err(Failure::from)]).map(|()| Ended::OK);
    }
    show()?;
    Ended::measured(
        interrupted,
        nothing.then_some("no selector could be counted"),
    )
}
