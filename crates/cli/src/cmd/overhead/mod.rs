//! `truecount overhead`: what sampling costs, measured cell by cell.

mod document;
mod options;
mod text;

use std::ffi::OsString;
use std::time::Duration;

use truecount_lab::reads;
use truecount_lab::sampling::{self, Cell, Event, Method, Outcome, Payload, Plan};

use crate::CmdResult;
use crate::failure::{Failure, Outcome as Ended};
use crate::output::Output;
use crate::program_args::parse_duration;
use crate::render::json;
use document::Document;
use truecount_run::env_record::{Environment, aslr_is_on};
use truecount_run::runner::Stop;
use truecount_run::session::{Session, fresh_seed};

const HELP: &str = "\
WHAT THE NUMBERS MEAN
  Each line is a cell: an event, how its period is set (frequency: the kernel keeps adjusting it;
  period: fixed), what a sample carries (none; fp: the call chain by frame pointers; dwarf:
  registers and 8 KiB of stack; lbr: the branch stack), and how many samples a second were asked
  for. Cells are visited in shuffled rounds, each with an undisturbed visit.
  seen/s         samples really taken, per second of CPU time
  stolen         time that one sample took from the program, as the program sees it: it looks at the
                 clock all the time, and a gap with exactly one sample in it is that sample's price
                 (typical: the visits' medians with their 95 % interval; mean, p50, p99 and max of
                 all, where the mean and max hold what else ran beside a sample); needs no privilege
  handler        time inside the kernel's handler, from its tracepoints: nmi:nmi_handler (x86 PMU),
                 irq:irq_handler_* (Arm PMU), irq_vectors:local_timer_* (cpu-clock); needs root and
                 tracefs. Entering and leaving the kernel is not in it; the price of tracing is, but
                 for nmi_handler
  share          seen/s times the typical stolen time: the part of the time that sampling takes
  slowdown       CPU time of a fixed amount of work against the same work undisturbed, in the same
                 rounds (Hodges-Lehmann with the 95 % interval)
  throttled      times that the kernel stopped sampling because there were too many interrupts
  left out       gaps with two samples in them, or with the thread off the CPU
  A read         what one read of a counter costs, by kind and way, in ns and instructions
With -- COMMAND the command is the workload: slowdown is that of its CPU time, stolen the difference
per sample.
--model adds an executable model of the interrupt of an x86 PMU, with and without counter freezing.
What it prints is labelled a model; its inputs say whether they are measured or stated.

EXAMPLES
  truecount overhead                                   all cells, 10 seconds
  truecount overhead --rates 1000,10000 --payloads none,lbr --seconds 60
  truecount overhead --max-share 0.5 --json -o overhead.json
  truecount overhead --seconds 30 -- ./program         the command as workload
  truecount overhead --model-only --input delivery_ns=500";

/// Measure what sampling costs here
#[derive(clap::Args)]
#[command(after_long_help = HELP, after_help = "What the numbers mean, and examples: truecount overhead --help")]
pub(crate) struct Args {
    /// What is sampled
    #[arg(short = 'e', long = "event", alias = "events", value_enum, value_delimiter = ',', default_values_t = [Events::CpuClock, Events::Cycles])]
    events: Vec<Events>,
    /// How the period is set
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Methods::Frequency, Methods::Period])]
    methods: Vec<Methods>,
    /// What a sample carries
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Payloads::None, Payloads::Fp, Payloads::Dwarf, Payloads::Lbr])]
    payloads: Vec<Payloads>,
    /// Samples a second
    #[arg(long, value_name = "HZ", value_delimiter = ',', default_values_t = [1000u64, 4000], value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rates: Vec<u64>,
    /// How long to measure; every cell is visited at least once
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = parse_duration)]
    seconds: Duration,
    /// Part of the time that sampling may take, in percent, for the advice
    #[arg(long = "max-share", value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    max_share: f64,
    /// Stack frames of the sampled code
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=1000))]
    depth: u32,
    /// Add the model of the interrupt, fitted to what was measured where that is possible
    #[arg(long)]
    model: bool,
    /// The model alone, with nothing measured
    #[arg(long, conflicts_with = "command")]
    model_only: bool,
    /// An input of the model, as in delivery_ns=500
    #[arg(long = "input", value_name = "NAME=NUMBER", value_delimiter = ',')]
    inputs: Vec<String>,
    /// The CPU to measure on [default: the last one allowed]
    #[arg(long, value_name = "N", conflicts_with = "command")]
    cpu: Option<usize>,
    /// Seed of the order of visits [default: from the clock; it is printed]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Print one JSON document (schema truecount.overhead/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<std::path::PathBuf>,
    /// Write to a file
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<std::path::PathBuf>,
    /// A command as the workload, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Events {
    /// The kernel's timer
    CpuClock,
    /// The PMU's interrupt
    Cycles,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Methods {
    /// The kernel keeps adjusting the period
    Frequency,
    /// A fixed period
    Period,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Payloads {
    /// Place and time only
    None,
    /// Call chains by frame pointers
    Fp,
    /// Registers and 8 KiB of stack
    Dwarf,
    /// Branch stacks of all branches (perf record -b)
    Lbr,
    /// Branch stacks of user mode only
    LbrUser,
    /// Call chains by the branch stack's call-stack mode (--call-graph lbr)
    LbrStack,
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a percentage"))?;
    if value > 0.0 && value < 100.0 {
        Ok(value)
    } else {
        Err(format!("`{text}` is not above 0 and below 100 percent"))
    }
}

/// All cells asked for, each once.
fn cells(args: &Args) -> Vec<Cell> {
    let mut cells = Vec::new();
    for event in &args.events {
        for payload in &args.payloads {
            for method in &args.methods {
                for &rate in &args.rates {
                    let cell = Cell {
                        event: match event {
                            Events::CpuClock => Event::CpuClock,
                            Events::Cycles => Event::Cycles,
                        },
                        method: match method {
                            Methods::Frequency => Method::Frequency,
                            Methods::Period => Method::Period,
                        },
                        payload: match payload {
                            Payloads::None => Payload::None,
                            Payloads::Fp => Payload::Fp,
                            Payloads::Dwarf => Payload::Dwarf,
                            Payloads::Lbr => Payload::Lbr,
                            Payloads::LbrUser => Payload::LbrUser,
                            Payloads::LbrStack => Payload::LbrStack,
                        },
                        rate,
                    };
                    if !cells.contains(&cell) {
                        cells.push(cell);
                    }
                }
            }
        }
    }
    cells
}

/// Runs `truecount overhead`.
pub(crate) fn run(args: &Args) -> CmdResult {
    let base = truecount_lab::overhead::inputs(&args.inputs)?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let Session {
        signals,
        mut launcher,
    } = Session::start()?;
    let stop = Stop::new(&signals);
    // Opened before the measurement: a wrong path must not cost one.
    let mut output = Output::result(args.json.as_deref(), args.output.as_deref(), false)?;
    let plan = Plan {
        cells: cells(args),
        time: args.seconds,
        seed,
        cpu: args.cpu,
        depth: args.depth,
    };
    let (outcome, trouble, reads) = if args.model_only {
        (Outcome::default(), None, Vec::new())
    } else {
        let progress = crate::progress::spinner(args.seconds);
        let (outcome, trouble) = if args.command.is_empty() {
            (sampling::run(&plan, &mut || stop.requested())?, None)
        } else {
            sampling::with_command(&mut launcher, &stop, &plan, &args.command)?
        };
        let reads = if stop.signal().is_some() {
            Vec::new()
        } else {
            reads::all()
        };
        progress.finish_and_clear();
        (outcome, trouble, reads)
    };
    let environment = Environment::gather(aslr_is_on(), outcome.cpu.as_slice());
    let interrupted = stop.signal();
    let mut document = Document::new(args, seed, outcome, reads, &base, interrupted, environment)?;
    let failed = trouble.map_or(Ok(()), |trouble| {
        document.notes.push(trouble.note);
        Err(Failure::from(trouble.failure))
    });
    let shown = if args.json.is_some() {
        json::write(&mut output, &document)
    } else {
        text::write(&mut output, &document)
    };
    Failure::of_all([failed, shown.map_err(Failure::from)])?;
    let nothing = !args.model_only && document.outcome.cells.is_empty();
    Ended::measured(interrupted, nothing.then_some("no cell could be measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_percentages() {
        assert_eq!(percent("1"), Ok(1.0));
        assert_eq!(percent("0.5 %"), Ok(0.5));
        for bad in ["0", "-1", "100", "x", "", "nan", "inf"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
