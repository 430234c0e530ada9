//! `truecount system`: what the whole machine does, interval by interval.

mod document;
mod prometheus;
mod table;

use std::io::{IsTerminal as _, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use truecount_system::{Monitor, Scope, Server};

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use truecount_run::runner::Signals;

const EXAMPLES: &str = "\
EXAMPLES
  truecount system                            every CPU, every second, until Ctrl-C
  truecount system -I 500 -n 2                two intervals of half a second
  truecount system --per socket               sockets: power and memory traffic too
  truecount system -M branch-mpki,topdown-2   further metrics of this CPU
  truecount system --json -n 1                one line of JSON an interval
  truecount system --csv > cpus.csv
  truecount system --prometheus               one interval in the Prometheus text format
  truecount system --prometheus 9410          serve it at http://127.0.0.1:9410/metrics

A cell without value is n/a, with the reason below the table; the rest stands. Counting the whole
machine needs root, CAP_PERFMON or kernel.perf_event_paranoid <= 0; times and interrupts need
nothing.";

/// `--per`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Per {
    /// Cores with their hardware threads
    Core,
    /// Packages
    Socket,
    /// Memory nodes
    Node,
    /// Hardware threads
    Cpu,
}

/// Show what the whole machine does: utilisation, IPC, GHz, misses, memory traffic, power, interrupts
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Length of an interval in milliseconds
    #[arg(short = 'I', long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=86_400_000))]
    interval: u64,
    /// End after N intervals (default: Ctrl-C; one with --prometheus)
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
    /// One row for each of these, after the machine's
    #[arg(long, value_enum, default_value_t = Per::Cpu)]
    per: Per,
    /// Further metrics, separated by commas: branch-mpki, topdown-2, a pack (truecount events --metrics)
    #[arg(short = 'M', long = "metric", value_name = "METRICS")]
    metric: Vec<String>,
    /// A file with further metrics (TOML; see truecount events --metrics)
    #[arg(long, value_name = "FILE")]
    metrics_file: Vec<PathBuf>,
    /// Print a line of JSON for each interval (schema truecount.system/1) instead of the text; with =FILE, write them there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, conflicts_with_all = ["csv", "prometheus"])]
    json: Option<PathBuf>,
    /// One line for each cell
    #[arg(long, conflicts_with = "prometheus")]
    csv: bool,
    /// The Prometheus text format: printed once, or served on PORT (0: any free one)
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "print", value_parser = Serving::parse)]
    prometheus: Option<Serving>,
    /// The address to serve on
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1",
        requires = "prometheus"
    )]
    listen: IpAddr,
}

/// `--prometheus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serving {
    Print,
    Port(u16),
}

impl Serving {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "print" => Ok(Self::Print),
            number => number
                .parse()
                .map(Self::Port)
                .map_err(|_| "a port is a number from 0 to 65535".to_owned()),
        }
    }
}

/// Runs `truecount system`.
pub(crate) fn run(args: &Args) -> CmdResult {
    let signals = Signals::block()
        .map_err(|error| Failure::new(1, format!("cannot wait for signals: {error}")))?;
    // Opened before anything is measured: a port that is taken must not cost an interval.
    let server = match args.prometheus {
        Some(Serving::Port(port)) => Some(Server::start(args.listen, port).map_err(|error| {
            let cause = format!("cannot listen on {}, port {port}: {error}", args.listen);
            Failure::new(1, cause).hint("choose another port, or 0 for any that is free")
        })?),
        _ => None,
    };
    let mut out = Output::shown(args.json.as_deref())?;
    if args.csv || args.prometheus.is_some() {
        out = out.raw();
    }
    if let Some(server) = &server {
        writeln!(out, "serving http://{}/metrics", server.address())?;
        out.flush()?;
    }
    let scope = match args.per {
        Per::Core => Scope::Core,
        Per::Socket => Scope::Socket,
        Per::Node => Scope::Node,
        Per::Cpu => Scope::Cpu,
    };
    let print_once = args.prometheus == Some(Serving::Print);
    let number = if print_once {
        Some(args.number.unwrap_or(1))
    } else {
        args.number
    };
    let text = args.json.is_none() && !args.csv && args.prometheus.is_none();
    let live = text && std::io::stdout().is_terminal();
    raise_descriptors();
    let machine = truecount_run::machine::this(None)?;
    let asked = truecount_run::metrics::packs(&args.metric, &args.metrics_file, &machine)?;
    let mut monitor = Monitor::with_metrics(&machine, &asked);
    let every = Duration::from_millis(args.interval);
    let mut next = Instant::now() + every;
    let mut done: u64 = 0;
    let mut screen = table::Screen::new(live);
    while number.is_none_or(|number| done < number) {
        if let Some(signal) = wait(&signals, next)? {
            // Ctrl-C is how this command is ended; other signals tell that somebody else ended it.
            let code = if signal == libc::SIGINT {
                0
            } else {
                128 + signal
            };
            return Ok(Outcome(u8::try_from(code).unwrap_or(130)));
        }
        let interval = monitor.step();
        let view = monitor.view(&interval, scope);
        done += 1;
        // Late by more than an interval: what was missed is not made up for.
        next = (next + every).max(Instant::now());
        if args.json.is_some() {
            document::json(&mut out, &view, &interval.topology, done)?;
        } else if args.csv {
            document::csv(&mut out, &view, done)?;
        } else if let Some(server) = &server {
            server.publish(prometheus::text(&view, &interval.topology));
        } else if print_once {
            if Some(done) == number {
                out.write_all(prometheus::text(&view, &interval.topology).as_bytes())?;
            }
        } else {
            screen.show(&mut out, &view, &interval.topology)?;
        }
        out.flush()?;
    }
    Ok(Outcome::OK)
}

/// Sleeps until `until`; a stopping signal ends it early.
fn wait(signals: &Signals, until: Instant) -> Result<Option<i32>, Failure> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let signal = signals
            .wait(Some(left))
            .map_err(|error| Failure::new(1, format!("cannot wait: {error}")))?;
        match signal {
            Some(libc::SIGCHLD) => {}
            Some(signal) => return Ok(Some(signal)),
            None if Instant::now() >= until => return Ok(None),
            None => {}
        }
    }
}

/// Every event on every CPU is a file: as many as the administrator allows.
fn raise_descriptors() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the calls read and write the local; a failure leaves the limit as it is, and opening says so.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
