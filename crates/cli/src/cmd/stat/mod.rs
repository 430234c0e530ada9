//! `truecount stat`: one run of a command, its counters and what they mean.

mod derived;
mod document;
mod form;
mod perf;
mod places;
mod repeat;
mod switches;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, programs_stdout};
use crate::program_args::{CacheArgs, SourceArg, open_input, parse_duration, parse_online_cpus};
use document::Document;
use form::{Form, Kind, Metrics};
use places::Labels;
use repeat::Runs;
use truecount_run::determinism::Fixed;
use truecount_run::env_record::Environment;
use truecount_run::metrics::Asked;
use truecount_run::request;
use truecount_run::result::RunResult;
use truecount_run::runner::{Launch, resolve};
use truecount_run::session::Session;
use truecount_run::source::{Interval, Run, Source, Switching, Taken, Target, counts_here};

const EXAMPLES: &str = "\
EXAMPLES
  truecount stat -- gzip -k file            the default counters of one run
  truecount stat -e instructions:u,branch-misses:u -- ./prog
  truecount stat -e '{cycles,instructions}:u' -- ./prog     both at the same time
  truecount stat -e r01cb:u -- ./prog       a raw event number of the CPU
  truecount stat -M ipc,topdown-1 -- ./prog  metrics of this CPU (truecount events --metrics)
  truecount stat --source virtual -- ./prog exact instructions, by the virtual PMU; without --source
                                            it counts where the CPU has no PMU
  truecount stat --source step -- true      exact instructions, in single steps (slow)
  truecount stat -n 5 --deterministic -- ./prog   five runs, the same path through the program each
  truecount stat -I 1000 -p 1234            a running process, every second
  truecount stat -C 0 -x, -- sleep 1        CPU 0 for one second, in perf's fields
  truecount stat -a -- sleep 1              the whole machine for one second
  truecount stat -a -A -- sleep 1           the same, CPU by CPU (--per-core, --per-socket)
  truecount stat -D 500 -- ./prog           without its first half second
  truecount stat --json -o out.json -- ./prog

stat exits with the status of the program, 128+N when signal N ended it. Its result goes to stderr
(JSON and CSV to stdout), or to the file of --output; with --json on stdout the program's own stdout
goes to stderr. Addresses are not randomised unless --aslr is given, so that runs repeat.";

/// Count the events of one run of a command
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Events, separated by commas: names, rNNN, pmu/term=…/, {groups}, modifiers such as :u
    #[arg(short, long = "event", value_name = "EVENTS")]
    event: Vec<String>,
    /// Metrics, separated by commas: ipc, branch-mpki, topdown-1, a pack; with :u of user mode only
    #[arg(short = 'M', long = "metric", value_name = "METRICS")]
    metric: Vec<String>,
    /// A file with further metrics (TOML; see truecount events --metrics)
    #[arg(long, value_name = "FILE")]
    metrics_file: Vec<PathBuf>,
    /// Take event names from a vendor's JSON files too (Intel perfmon, or Linux' pmu-events)
    #[arg(long, value_name = "DIR")]
    event_dir: Option<PathBuf>,
    /// Beside them loads and misses of the first and of the last level of cache, as perf stat -d
    #[arg(short, long)]
    detailed: bool,
    /// Count the whole machine while the command runs (or until Ctrl-C)
    #[arg(short, long, conflicts_with = "pid")]
    all: bool,
    /// Count everything on these CPUs, such as 0,2-3, while the command runs (or until Ctrl-C)
    #[arg(short = 'C', long, value_name = "CPUS", conflicts_with_all = ["all", "pid", "tid"])]
    count_cpus: Option<String>,
    /// Count one thread until it ends (or until the command ends, or Ctrl-C)
    #[arg(short, long, value_name = "TID", conflicts_with_all = ["all", "pid"], value_parser = clap::value_parser!(i32).range(1..))]
    tid: Option<i32>,
    /// Count a running process until it ends (or until the command ends, or Ctrl-C)
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Print the counts of every MS milliseconds
    #[arg(short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    interval: Option<u64>,
    /// Run the command N times: the median run is shown, and how much the others differ
    #[arg(short = 'n', long = "runs", visible_short_alias = 'r', visible_alias = "repeat", value_name = "N", conflicts_with_all = ["all", "pid", "tid", "count_cpus", "interval"], value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: Option<u32>,
    /// Who counts
    #[arg(long, value_enum, default_value_t = SourceArg::Auto)]
    source: SourceArg,
    /// Print one JSON document (schema truecount.stat/2) instead of the text, with --interval one line
    /// each interval; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, conflicts_with = "csv")]
    json: Option<PathBuf>,
    /// Print comma-separated values with a heading
    #[arg(long)]
    csv: bool,
    /// Print the fields of perf stat -x, with SEP between them: value, unit, event, (with -r: the standard error of the
    /// mean in percent,) time counted in ns, share of the time in percent, and two that stay empty
    #[arg(short = 'x', long, value_name = "SEP", conflicts_with_all = ["json", "csv"])]
    field_separator: Option<String>,
    /// Write the result to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Standard input of the command (otherwise that of truecount)
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// End the command after this time, such as 10s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// CPUs that the command may use, such as 0,2-3
    #[arg(long, value_name = "CPUS")]
    cpu: Option<String>,
    /// Leave the randomisation of addresses on
    #[arg(long)]
    aslr: bool,
    #[command(flatten)]
    places: places::PlacesArgs,
    #[command(flatten)]
    switches: switches::SwitchArgs,
    #[command(flatten)]
    fixed: crate::program_args::FixedArgs,
    #[command(flatten)]
    cache: CacheArgs,
    /// The command and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Runs `truecount stat`.
pub(crate) fn run(args: &Args) -> CmdResult {
    args.cache.apply();
    let target = target(args)?;
    if args.command.is_empty() && target == Target::Command {
        return Err(Failure::new(2, "no command to run")
            .hint("write it after --, as in: truecount stat -- ls -l"));
    }
    let fixed = args.fixed.fixed()?;
    if fixed.is_some() && args.command.is_empty() {
        return Err(Failure::new(
            2,
            "--deterministic prepares a command that truecount starts; there is none",
        )
        .hint("write it after --, or leave --deterministic out"));
    }
    let mut session = Session::start()?;
    let cpus = match &args.cpu {
        Some(text) => {
            parse_online_cpus(text).map_err(|error| Failure::new(2, format!("--cpu: {error}")))?
        }
        None => fixed.as_ref().map_or(&[][..], Fixed::cpus).to_vec(),
    };
    let mut source = args.fixed.source(args.source)?.select()?;
    let machine = truecount_run::machine::this(args.event_dir.as_deref())?;
    // What does not count a command from its start to its end is no source of defaults for it.
    let whole = args.interval.is_none() && !args.switches.are_used();
    let mut expression = if args.event.is_empty() {
        let of = if whole { target } else { Target::Machine };
        source.default_events(of).to_owned()
    } else {
        args.event.join(",")
    };
    if args.detailed {
        expression = format!("{expression},{DETAILED}");
    }
    let asked = Asked::new(&args.metric, &args.metrics_file, &machine, &*source)?;
    // As perf stat: metrics instead of the default events.
    let mut groups = if args.event.is_empty() && !args.detailed && !asked.is_empty() {
        Vec::new()
    } else {
        request::resolve(&expression, &machine, false)?
    };
    let in_user_mode = request::in_user_mode(&mut groups, &machine, |wanted| {
        counts_here(&*source, wanted, whole)
    });
    groups.extend(asked.groups());
    args.places.set_cgroups(&mut groups, target)?;
    let parts = args.places.parts(target)?;
    let begin = args.switches.begin()?;
    let control = args.switches.control()?;
    let program = args.command.first().map(|name| resolve(name)).transpose()?;
    // Before the run: a wrong path must not cost one.
    let mut output = destination(args)?;
    let moved = programs_stdout(args.json.as_deref(), args.output.as_deref())?;
    let stdin = match &args.input {
        Some(path) => Some(open_input(path)?),
        None => None,
    };
    let mut environment = Environment::gather(args.aslr, &cpus);
    environment.add_command(&args.command, program.as_deref());
    let metrics = Metrics::new(&asked, &groups);
    let mut form = Form::new(
        kind(args),
        &mut output,
        &metrics,
        Labels::new(&parts, &groups),
    );
    let run = Run {
        launch: program.as_deref().map(|program| {
            (
                program,
                Launch {
                    argv: &args.command,
                    stdio: [stdin.as_ref(), moved.as_ref(), None],
                    cpus: &cpus,
                    keep_aslr: args.aslr,
                    timeout: args.timeout,
                    fixed: fixed.as_ref(),
                    ..Launch::default()
                },
            )
        }),
        groups: &groups,
        target,
        switching: Switching {
            begin,
            control: control.as_ref(),
        },
        parts: &parts,
    };
    let Runs {
        measurement,
        repeats,
        trouble,
    } = match args.repeat {
        Some(runs) => repeat::runs(runs, &mut session, &mut *source, &run)?,
        None => Runs {
            measurement: once(args.interval, &mut session, &mut *source, &run, &mut form)?,
            repeats: None,
            trouble: None,
        },
    };
    let held = fixed
        .as_ref()
        .map(|fixed| fixed.record(&measurement.missing, &mut environment));
    let values = metrics.of(&measurement.readings, measurement.wall_ns);
    let parts = form.parts(&measurement.parts, measurement.wall_ns);
    let mut document = Document::new(&args.command, target, &*source, measurement, environment);
    document.notes.extend(held.into_iter().flatten());
    document.notes.extend(in_user_mode);
    document.set_metrics(values);
    document.repeats = repeats;
    document.parts = parts;
    document.cgroups = form.labels.cgroups.clone();
    let written = form.finish(&document, args.interval.is_some());
    Failure::of_all([trouble.map_or(Ok(()), Err), written.map_err(Failure::from)])?;
    Ok(Outcome(document.exit_code()))
}

/// Where the result goes.
fn destination(args: &Args) -> Result<Output, Failure> {
    let output = Output::result(args.json.as_deref(), args.output.as_deref(), !args.csv)?;
    let for_programs = args.csv || args.field_separator.is_some();
    Ok(if for_programs { output.raw() } else { output })
}

/// In which form the result is written.
fn kind(args: &Args) -> Kind<'_> {
    let separator = args.field_separator.as_deref();
    match (args.json.is_some(), args.csv, separator) {
        (true, ..) => Kind::Json,
        (_, true, _) => Kind::Csv,
        (_, _, Some(separator)) => Kind::Perf(separator),
        _ => Kind::Text,
    }
}

/// What is counted.
fn target(args: &Args) -> Result<Target, Failure> {
    if let Some(text) = &args.count_cpus {
        let cpus = parse_online_cpus(text)
            .map_err(|error| Failure::new(2, format!("--count-cpus: {error}")))?;
        let cpus: Vec<u32> = cpus
            .into_iter()
            .filter_map(|cpu| u32::try_from(cpu).ok())
            .collect();
        return Ok(Target::Cpus(cpus.leak()));
    }
    Ok(match (args.all, args.pid, args.tid) {
        (true, ..) => Target::Machine,
        (_, Some(pid), _) => Target::Process(pid),
        (_, _, Some(tid)) => Target::Thread(tid),
        _ => Target::Command,
    })
}

/// perf's events of `-d` (perf-stat(1)).
const DETAILED: &str = "L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses";

/// One run; `interval` is in milliseconds.
fn once(
    interval: Option<u64>,
    session: &mut Session,
    source: &mut dyn Source,
    run: &Run<'_>,
    form: &mut Form<'_>,
) -> Result<RunResult, Failure> {
    let Some(every) = interval.map(Duration::from_millis) else {
        return Ok(source.run(session, run, None)?);
    };
    let mut written = Ok(());
    let mut each = |since: Duration, taken: Taken| {
        if written.is_ok() {
            written = form.interval(since, taken);
        }
    };
    let each = Interval {
        every,
        each: &mut each,
    };
    let measurement = source.run(session, run, Some(each))?;
    written?;
    // What is left since the last whole interval.
    let end = Duration::from_nanos(measurement.lasted_ns);
    let taken = Taken {
        readings: measurement.readings.clone(),
        parts: measurement.parts.clone(),
    };
    form.interval(end, taken)?;
    Ok(measurement)
}
