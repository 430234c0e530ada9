//! `truecount top`: where the samples fall, live.
//!
//! What is sampled, summed up and named is [`truecount_record::live`]'s; [`model`] is what is shown and what keys do,
//! [`draw`] and [`screen`] are the terminal, [`once`] is the rest, [`app`] puts all together.

mod app;
mod draw;
mod model;
mod once;
mod screen;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::CmdResult;
use crate::failure::Failure;
use crate::program_args::{parse_duration, parse_online_cpus};
use model::{About, EventInfo};
use truecount_model::number::{grouped, time};
use truecount_record::live::By;
use truecount_record::{Chains, Chosen, Request, Scope, choose, procfs};

const EXAMPLES: &str = "\
EXAMPLES
  truecount top                                     the whole machine by function
  truecount top -p 4711 --by line                   source lines of one process
  truecount top -e cycles,instructions              two events side by side: cycles per instruction
  truecount top -e cache-misses --by process        who misses the cache
  truecount top -C 0-3 --by cpu
  truecount top --once --json --seconds 5           for scripts: samples, prints, ends

KEYS
  q quit   a last interval/since the start   space pause   n next event   / filter
  Enter look into a row (code, Tab callers)   b by symbol, process, …   z begin anew   ? help

Ends with 0 on q and Ctrl-C; 128+N on signal N; 125 when nothing could be sampled. With --once,
Ctrl-C prints what was sampled until then and ends with 130.";

/// What rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
enum ByArg {
    /// Functions; inlined ones on their own
    Symbol,
    /// Processes
    Process,
    /// Threads
    Thread,
    /// CPUs
    Cpu,
    /// Source lines
    Line,
}

impl From<ByArg> for By {
    fn from(by: ByArg) -> Self {
        match by {
            ByArg::Symbol => Self::Symbol,
            ByArg::Process => Self::Process,
            ByArg::Thread => Self::Thread,
            ByArg::Cpu => Self::Cpu,
            ByArg::Line => Self::Line,
        }
    }
}

/// What stands above the rows.
fn heading(by: By) -> &'static str {
    match by {
        By::Symbol => "function",
        By::Cpu => "CPU",
        other => other.name(),
    }
}

/// Show live where events happen: functions, processes, CPUs
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES, after_help = "Examples and keys: truecount top --help")]
pub(crate) struct Args {
    /// Events to sample, separated by commas: the first sorts, the second is beside it with their ratio
    /// [default: cycles; cpu-clock where there is no PMU]
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    event: Option<String>,
    /// A vendor's event files (JSON), for names that are not built in
    #[arg(long, value_name = "DIR")]
    event_dir: Option<PathBuf>,
    /// Watch this process and its threads
    #[arg(short = 'p', long, value_name = "PID", conflicts_with_all = ["all_cpus", "cpus"])]
    pid: Option<i32>,
    /// Watch every process on every CPU (the default)
    #[arg(short = 'a', long, conflicts_with = "cpus")]
    all_cpus: bool,
    /// Watch every process on these CPUs, such as 0,2-3
    #[arg(short = 'C', long, value_name = "CPUS")]
    cpus: Option<String>,
    /// What the rows are
    #[arg(long, value_enum, default_value_t = ByArg::Symbol)]
    by: ByArg,
    /// A sample every N events [default: 2,000,003 cycles, 1 ms of cpu-clock, else as -F 1000]
    #[arg(short = 'c', long, value_name = "N", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(1..))]
    period: Option<u64>,
    /// About HZ samples per second and CPU (the kernel adapts the period)
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    frequency: Option<u64>,
    /// Milliseconds between two screens
    #[arg(short = 'I', long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=3_600_000))]
    interval: u64,
    /// Do not record who called the function: less work for the kernel
    #[arg(long)]
    no_callers: bool,
    /// Room for records per CPU in MiB, before they are lost
    #[arg(short = 'm', long, value_name = "MIB", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ring: u32,
    /// Sample for --seconds, print the table, and end
    #[arg(long)]
    once: bool,
    /// How long --once samples
    #[arg(long, value_name = "TIME", default_value = "2", requires = "once", value_parser = parse_duration)]
    seconds: Duration,
    /// Rows that --once prints
    #[arg(long, value_name = "N", default_value_t = 30, requires = "once")]
    top: usize,
    /// Print one JSON document (schema truecount.top/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, requires = "once")]
    json: Option<PathBuf>,
}

/// More make a screen nobody reads.
const MAX_EVENTS: usize = 8;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> CmdResult {
    if !args.once && !std::io::stdout().is_terminal() {
        return Err(
            Failure::new(2, "stdout is not a terminal, which the live view needs")
                .hint("use --once (and --json for programs)"),
        );
    }
    let scope = scope(args)?;
    let chosen = chosen(args, &scope)?;
    let settings = app::Settings {
        about: about(&chosen, &scope),
        by: args.by.into(),
        ring: args.ring,
        pid: args.pid,
    };
    if args.once {
        let form = app::Once {
            time: args.seconds,
            top: args.top,
            json: args.json.clone(),
        };
        app::once(&chosen, &scope, settings, &form)
    } else {
        app::live(
            &chosen,
            &scope,
            settings,
            Duration::from_millis(args.interval),
        )
    }
}

fn scope(args: &Args) -> Result<Scope, Failure> {
    if let Some(pid) = args.pid {
        if pid <= 0 || !procfs::is_alive(pid) {
            return Err(Failure::new(125, format!("there is no process {pid}"))
                .hint("look for it with `pgrep NAME`"));
        }
        return Ok(Scope::Process(pid));
    }
    let Some(list) = &args.cpus else {
        return Ok(Scope::Machine);
    };
    let cpus =
        parse_online_cpus(list).map_err(|why| Failure::new(2, format!("-C {list}: {why}")))?;
    let mut cpus: Vec<u32> = cpus
        .into_iter()
        .filter_map(|c| u32::try_from(c).ok())
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    let online = truecount_perf::probe::Root::system().online_cpus();
    if let Some(online) = online.filter(|o| !o.is_empty())
        && let Some(missing) = cpus.iter().find(|c| !online.contains(c))
    {
        let last = online.iter().max().copied().unwrap_or(0);
        return Err(
            Failure::new(2, format!("-C {list}: CPU {missing} is not online")).hint(format!(
                "the CPUs are 0 to {last}; see /sys/devices/system/cpu/online"
            )),
        );
    }
    Ok(Scope::Cpus(cpus))
}

fn chosen(args: &Args, scope: &Scope) -> Result<Chosen, Failure> {
    let mut chosen = choose(&Request {
        event: args.event.as_deref(),
        event_dir: args.event_dir.as_deref(),
        period: args.period,
        frequency: args.frequency,
        chains: (!args.no_callers).then_some(Chains::Fp),
        // The function and its caller.
        max_stack: 2,
        most: Some(MAX_EVENTS),
        brief: true,
        ..Request::default()
    })?;
    if *scope != Scope::Process(args.pid.unwrap_or(0)) {
        // A CPU's clock ticks while it idles, its cycles do not: what waits is not to be looked at.
        for event in &mut chosen.events {
            event.attr = event.attr.exclude_idle(true);
        }
    }
    Ok(chosen)
}

fn about(chosen: &Chosen, scope: &Scope) -> About {
    let scope = match scope {
        Scope::NewProcess(pid) | Scope::Process(pid) => {
            let id = pid.unsigned_abs();
            let name = procfs::thread_name(id, id).unwrap_or_default();
            format!("process {pid} ({name})")
        }
        Scope::Machine => "all processes".to_owned(),
        Scope::Cpus(cpus) => {
            let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            format!("all processes on CPU {}", list.join(","))
        }
    };
    let events = chosen.events.iter().map(|event| {
        let (name, period) = (event.name.clone(), event.attr.get_sample_period());
        let is_time = name.starts_with("cpu-clock") || name.starts_with("task-clock");
        let rate = if event.attr.get_freq() {
            format!("{} samples a second and CPU", grouped(period))
        } else if is_time {
            format!("a sample every {}", time(period as f64))
        } else {
            format!("a sample every {}", grouped(period))
        };
        EventInfo {
            name,
            rate,
            is_time,
        }
    });
    About {
        scope,
        events: events.collect(),
        notes: chosen.notes.clone(),
    }
}
