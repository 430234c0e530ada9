//! `truecount record`: samples a program, a process or the whole machine into a `perf.data` file.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{LimitOfSize, cannot_write};
use truecount_model::number::grouped;
use truecount_record::{Chains, Chosen, Recorder, Request, Scope, Summary, choose, describe};
use truecount_run::runner::wait::{Ticker, wait_without_command};
use truecount_run::runner::{Hook, Launch, exec_failure, resolve};
use truecount_run::session::{Session, launch_failure};

const EXAMPLES: &str = "\
EXAMPLES
  truecount record -- ./program              where time goes: then `truecount report`
  truecount record -b -- ./program           branch stacks: then `truecount blocks`
  truecount record -g dwarf -- ./program     with call chains, from unwinding recorded stacks
  truecount record -e branch-misses:u -c 10007 -- ./program
  truecount record -p 4711 -o server.data    a running process, until Ctrl-C
  truecount record -a -- sleep 10            the whole machine for 10 seconds

The file is a perf.data: `perf report`, `perf script` and hotspot read it too.
Exits with the status of the program; 125 when nothing could be recorded.";

/// Sample a program into a perf.data file
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES, after_help = "Examples: truecount record --help")]
pub(crate) struct Args {
    /// Events to sample, separated by commas [default: cycles; cpu-clock where there is no PMU]
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    event: Option<String>,
    /// Take event names from a vendor's JSON files too (Intel perfmon, or Linux' pmu-events)
    #[arg(long, value_name = "DIR")]
    event_dir: Option<PathBuf>,
    /// A sample every N events [default: 2,000,003 cycles, with -b 1,000,003; 1 ms of cpu-clock; else as -F 1000]
    #[arg(short = 'c', long, value_name = "N", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(1..))]
    period: Option<u64>,
    /// About HZ samples per second and CPU (the kernel adapts the period)
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    frequency: Option<u64>,
    /// Record branch stacks, for `truecount blocks`
    #[arg(short = 'b', long)]
    branches: bool,
    /// Record call chains
    #[arg(short = 'g', long, value_name = "HOW", num_args = 0..=1, default_missing_value = "fp", require_equals = false)]
    call_graph: Option<CallGraph>,
    /// Record this process and its threads, until it ends or Ctrl-C
    #[arg(short = 'p', long, value_name = "PID", conflicts_with = "all_cpus")]
    pid: Option<i32>,
    /// Record every process on every CPU, until COMMAND ends or Ctrl-C
    #[arg(short = 'a', long)]
    all_cpus: bool,
    /// The file to write; one that is there is kept as FILE.old
    #[arg(short = 'o', long, value_name = "FILE", default_value = "perf.data")]
    output: PathBuf,
    /// Room for records per CPU in MiB, before they are lost
    #[arg(short = 'm', long, value_name = "MIB", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ring: u32,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How call chains are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CallGraph {
    /// Frame pointers, followed by the kernel
    Fp,
    /// A copy of the stack, unwound later
    Dwarf,
    /// The branch stack's call-stack mode (Intel, since Haswell)
    Lbr,
}

impl From<CallGraph> for Chains {
    fn from(how: CallGraph) -> Self {
        match how {
            CallGraph::Fp => Self::Fp,
            CallGraph::Dwarf => Self::Dwarf,
            CallGraph::Lbr => Self::Lbr,
        }
    }
}

/// How often the rings are emptied: 2 MiB in 5 ms is 400 MB/s of samples.
const DRAIN: Duration = Duration::from_millis(5);

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> CmdResult {
    if args.command.is_empty() && args.pid.is_none() && !args.all_cpus {
        return Err(
            Failure::new(2, "nothing to record").hint("give a command after --, or -p PID, or -a")
        );
    }
    let mut session = Session::start()?;
    let program = match args.command.first() {
        Some(name) => Some(resolve(name)?),
        None => None,
    };
    // Before anything is opened, moved or said.
    if let Some(program) = program.as_deref().filter(|p| !p.exists()) {
        return Err(exec_failure(program, libc::ENOENT).into());
    }
    let chosen = choose(&Request {
        event: args.event.as_deref(),
        event_dir: args.event_dir.as_deref(),
        period: args.period,
        frequency: args.frequency,
        branches: args.branches,
        chains: args.call_graph.map(Chains::from),
        ..Request::default()
    })?;
    let mut err = anstream::stderr();
    for note in &chosen.notes {
        writeln!(err, "truecount record: {note}")?;
    }
    let kept = keep_old(&args.output)?;
    // What is full is told, and what was recorded until then can be read.
    let _limit = LimitOfSize::held_back();
    let recorder: RefCell<Option<Recorder>> = RefCell::new(None);
    let start = |scope: Scope| -> Result<(), truecount_run::Error> {
        match Recorder::open(&chosen, &scope, args.ring, &args.output) {
            Ok(new) => {
                recorder.replace(Some(new));
                Ok(())
            }
            Err(error) => {
                discard(&args.output, kept.as_deref());
                Err(error)
            }
        }
    };
    match (args.pid, args.all_cpus) {
        (Some(pid), _) => start(Scope::Process(pid))?,
        (None, true) => start(Scope::Machine)?,
        (None, false) => {}
    }
    let mut trouble: Option<truecount_run::Error> = None;
    let mut tick = |_| {
        if let Some(recorder) = recorder.borrow_mut().as_mut()
            && trouble.is_none()
        {
            trouble = recorder.drain().err();
        }
    };
    let ticker = Ticker::new(DRAIN, &mut tick);
    let mut hook = |pid: i32| start(Scope::NewProcess(pid));
    let outcome = match &program {
        Some(program) => {
            let launch = Launch {
                argv: &args.command,
                keep_aslr: true,
                ..Launch::default()
            };
            let hook: Option<Hook<'_>> =
                (args.pid.is_none() && !args.all_cpus).then_some(&mut hook);
            let finished = session
                .launcher
                .run(&session.signals, &launch, program, hook, Some(ticker))
                .map_err(|error| {
                    if recorder.take().is_some() {
                        discard(&args.output, kept.as_deref());
                    }
                    launch_failure(error, program, &args.command)
                })?;
            match finished.interrupted {
                Some(_) => Outcome(130),
                None => Outcome(finished.exit().shell_code()),
            }
        }
        None => {
            wait_without_command(&session.signals, args.pid, Some(ticker))
                .map_err(|error| Failure::new(125, format!("cannot wait: {error}")))?;
            Outcome::OK
        }
    };
    if let Some(trouble) = trouble {
        return Err(trouble.into());
    }
    let Some(recorder) = recorder.into_inner() else {
        return Err(Failure::new(125, "nothing was recorded"));
    };
    let summary = recorder.finish(&describe(&chosen, command_line(args)))?;
    report(&mut err, args, &chosen, &summary)?;
    Ok(outcome)
}

/// A file that is there becomes FILE.old, as perf does it.
fn keep_old(path: &Path) -> Result<Option<PathBuf>, Failure> {
    let Ok(meta) = std::fs::metadata(path) else {
        return Ok(None);
    };
    if !meta.is_file() || meta.len() == 0 {
        return Ok(None);
    }
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    std::fs::rename(path, &old).map_err(|e| cannot_write(path, &e))?;
    Ok(Some(old.into()))
}

/// Nothing was recorded: the file as it was before. What fails here is told by the failure already.
fn discard(path: &Path, kept: Option<&Path>) {
    let is_file = std::fs::metadata(path).is_ok_and(|m| m.is_file());
    let _ = match kept {
        Some(old) => std::fs::rename(old, path),
        None if is_file => std::fs::remove_file(path),
        None => Ok(()),
    };
}

fn command_line(args: &Args) -> Vec<String> {
    let own: Vec<String> = std::env::args().collect();
    if own.is_empty() {
        args.command
            .iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect()
    } else {
        own
    }
}

fn report(
    err: &mut dyn std::io::Write,
    args: &Args,
    chosen: &Chosen,
    s: &Summary,
) -> Result<(), Failure> {
    let names: Vec<&str> = chosen.events.iter().map(|e| e.name.as_str()).collect();
    writeln!(
        err,
        "truecount record: {} samples of {} in {} ({})",
        grouped(s.samples),
        names.join(", "),
        args.output.display(),
        truecount_model::number::size(s.bytes as f64)
    )?;
    if s.lost > 0 {
        writeln!(
            err,
            "truecount record: {} records were lost, the rings were full: give them room (--ring), or sample less often",
            grouped(s.lost)
        )?;
    }
    if s.throttled > 0 {
        writeln!(
            err,
            "truecount record: the kernel throttled sampling {} times: a longer period (-c), or raise kernel.perf_event_max_sample_rate",
            grouped(s.throttled)
        )?;
    }
    if s.samples == 0 {
        writeln!(
            err,
            "truecount record: no sample: the program was too short for the period"
        )?;
    }
    Ok(())
}
