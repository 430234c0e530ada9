//! The options of `bench`.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::Failure;
use crate::output::cannot_write;
use crate::program_args::{CacheArgs, SourceArg, open_input, parse_duration};
use truecount_model::number::TimeUnit;
use truecount_run::rounds::{Ignore, Request, RoundOptions, Sink, Written};
use truecount_run::session::dev_null;

const EXAMPLES: &str = "\
EXIT STATUS
  bench exits with 0 when all was measured and no gate failed; with 3 when a metric of --fail-above
  got worse, with 4 when that is undecided or the baseline does not fit; with 1 when a command fails
  (--ignore-failure goes on), 124 when one exceeds --timeout, 130 after Ctrl-C, with what it has.

EXAMPLES
  truecount bench -- gzip -k -f file                 one command, its words untouched
  truecount bench 'gzip -1 -kf file' 'gzip -9 -kf file'      compare two
  truecount bench -n 30 --warmup 3 --prepare 'sync' 'cp a b'
  truecount bench -P level 1..9:4 'gzip -{level} -kf file'   a parameter
  truecount bench --source step -n 10 true ls        exact instructions without a PMU
  truecount bench -M ipc,topdown-1 ./old ./new       metrics of every run (events --metrics)
  truecount bench --deterministic ./old ./new        without what makes its runs differ
  truecount bench --budget 30s --html out.html './old' './new'
  truecount bench --suite --save new.json            what truecount.toml names
  truecount bench --save base.json -- ./prog         and later:
  truecount bench --baseline base.json --fail-above instructions:u=0.5% -- ./prog

Every round runs each command once, in an order shuffled from the printed seed. A command counts as
changed only when the adjusted p is below 0.01 and the whole interval lies beyond the metric's
floor (Holm's adjustment over what is judged: the gated metrics; without gates instructions, wall
time and what -e and -M name). Addresses are not randomised unless --aslr is given. Strings are
split into words without a shell; --shell gives them to one.";

/// Measure and compare commands
#[derive(clap::Args, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Commands, each one string
    #[arg(value_name = "COMMAND")]
    pub(super) commands: Vec<String>,
    /// One more command: all words after -- reach it as they are
    #[arg(last = true, value_name = "CMD")]
    pub(super) words: Vec<OsString>,

    /// Measure the benchmarks that FILE names (default: truecount.toml here or in a directory above; docs/history.md), in
    /// its directory
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = ".", require_equals = true,
        conflicts_with_all = ["commands", "words", "from", "name", "shell", "parameter_range", "parameter_list",
            "setup", "prepare", "conclude", "cleanup"])]
    pub(super) suite: Option<PathBuf>,
    /// Of a suite only the benchmarks of this name; * stands for any text
    #[arg(long, value_name = "NAME", requires = "suite")]
    pub(super) filter: Vec<String>,
    /// Run the commands in this directory
    #[arg(long, value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
    /// Count the functions of each command too, in one run more (virtual PMU), for history to explain changes by
    #[arg(long)]
    pub(super) functions: bool,
    /// What every path of calls of each command costs more or less than the first command's, exactly, in one run more
    /// (virtual PMU)
    #[arg(long, conflicts_with = "suite")]
    pub(super) calls: bool,
    /// The tree of calls of each command stays in its profile: a suite asks for it.
    #[arg(skip)]
    pub(super) keep_calls: bool,

    /// Number of measured rounds
    #[arg(short = 'n', long = "rounds", visible_alias = "runs", value_name = "N", value_parser = rounds)]
    pub(super) rounds: Option<usize>,
    /// Measure for this long, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "rounds")]
    pub(super) budget: Option<Duration>,
    /// Measure until the comparisons are decided (at most 1000 rounds and a minute a command), or until the interval of
    /// METRIC (default wall-time) is within ± this, such as 1%
    #[arg(long, value_name = "decided|[METRIC=]PCT", conflicts_with_all = ["rounds", "budget"])]
    pub(super) until: Vec<String>,
    /// Rounds at least (default 10, or what the comparisons need to be decided at all)
    #[arg(long, value_name = "N", value_parser = rounds, conflicts_with_all = ["rounds", "budget"])]
    pub(super) min_runs: Option<usize>,
    /// Rounds at most (default 5000, or 3 s a command)
    #[arg(long, value_name = "N", value_parser = rounds, conflicts_with_all = ["rounds", "budget"])]
    pub(super) max_runs: Option<usize>,
    /// Rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) warmup: usize,
    /// Seed of the order of runs (default: from the clock)
    #[arg(long, value_name = "SEED")]
    pub(super) seed: Option<u64>,

    /// Events to count beside the default metrics, separated by commas
    #[arg(short, long = "event", value_name = "EVENTS")]
    pub(super) event: Vec<String>,
    /// Metrics, separated by commas: ipc, branch-mpki, topdown-1, a pack; with :u of user mode only
    #[arg(short = 'M', long = "metric", value_name = "METRICS")]
    pub(super) metric: Vec<String>,
    /// A file with further metrics (TOML; see truecount events --metrics)
    #[arg(long, value_name = "FILE")]
    pub(super) metrics_file: Vec<PathBuf>,
    /// Take event names from a vendor's JSON files too (Intel perfmon, or Linux' pmu-events)
    #[arg(long, value_name = "DIR")]
    pub(super) event_dir: Option<PathBuf>,
    /// Measure more than instructions, wall time, CPU time and peak memory: cycles, branches, misses, user and system
    /// time, faults, context switches
    #[arg(short, long)]
    pub(super) detailed: bool,
    /// Measure only what -e and -M name
    #[arg(long)]
    pub(super) only: bool,
    /// Who counts events
    #[arg(long, value_enum, default_value_t = SourceArg::Auto)]
    pub(super) source: SourceArg,
    /// Runs of each command under --source step or virtual (default: 5 or what the comparisons need, and up to 40 while
    /// the counts of a command differ)
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) exact_runs: Option<usize>,
    /// Let the kernel rotate counters instead of measuring events in batches; counts are scaled
    #[arg(long)]
    pub(super) multiplex: bool,

    /// Shell command before the first run of a command
    #[arg(long, value_name = "CMD")]
    pub(super) setup: Vec<String>,
    /// Shell command before each run
    #[arg(long, value_name = "CMD")]
    pub(super) prepare: Vec<String>,
    /// Shell command after each run
    #[arg(long, value_name = "CMD")]
    pub(super) conclude: Vec<String>,
    /// Shell command after the last run of a command
    #[arg(long, value_name = "CMD")]
    pub(super) cleanup: Vec<String>,
    /// A number in place of {NAME} in commands: A..B or A..B:STEP, both ends included
    #[arg(short = 'P', long, num_args = 2, value_names = ["NAME", "A..B"])]
    pub(super) parameter_range: Vec<String>,
    /// A word of a list in place of {NAME} in commands
    #[arg(short = 'L', long, num_args = 2, value_names = ["NAME", "a,b"])]
    pub(super) parameter_list: Vec<String>,
    /// Name of a command in tables, once for each
    #[arg(short = 'N', long)]
    pub(super) name: Vec<String>,
    /// Give command strings to this shell
    #[arg(long, value_name = "SHELL", num_args = 0..=1, default_missing_value = "sh", require_equals = true)]
    pub(super) shell: Option<String>,

    /// Compare with a result saved before
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    /// Judge this saved result instead of measuring: with --baseline, or its commands among themselves
    #[arg(long, value_name = "FILE", conflicts_with_all = ["commands", "words", "save"])]
    pub(super) from: Option<PathBuf>,
    /// Compare with the baseline although the program's environment differs (variables, randomisation, CPUs)
    #[arg(long)]
    pub(super) ignore_environment: bool,
    /// Compare with the baseline although the machine differs (CPU, kernel, governor)
    #[arg(long)]
    pub(super) ignore_machine: bool,
    /// Save the result, to be a baseline later
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Exit with 3 when METRIC is surely worse by more than MAX (1% or 1000), 4 when that is undecided
    #[arg(long, value_name = "METRIC=MAX")]
    pub(super) fail_above: Vec<String>,
    /// The smallest change of METRIC that matters
    #[arg(long, value_name = "METRIC=PCT")]
    pub(super) floor: Vec<String>,

    /// Write JSON (schema truecount.bench/2) to FILE, - or nothing for stdout
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub(super) json: Option<PathBuf>,
    /// Write one line per command and metric to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub(super) csv: Option<PathBuf>,
    /// Write tables in Markdown to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub(super) markdown: Option<PathBuf>,
    /// Write a page with distributions, comparisons and raw values to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    #[command(flatten)]
    pub(super) show: ShowArgs,

    /// Go on when a command fails; with codes, only for these exit statuses
    #[arg(short, long, value_name = "CODES", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    pub(super) ignore_failure: Option<String>,
    /// Where output of commands goes: null, keep (shown on failure), inherit, or a file
    #[arg(long, value_name = "WHERE", default_value = "null")]
    pub(super) output: String,
    /// Standard input of commands (default: empty)
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
    /// End a run, and the bench, after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) timeout: Option<Duration>,
    /// CPUs that commands may use, such as 0,2-3
    #[arg(long, value_name = "CPUS")]
    pub(super) cpu: Option<String>,
    /// Give programs a clean environment, the same on every machine and in every directory: PATH, LANG and what --env
    /// names. The default with --save, and with a --baseline that was measured so
    #[arg(long)]
    pub(super) clean_env: bool,
    /// Hand down truecount's own environment, also with --save
    #[arg(long, conflicts_with = "clean_env")]
    pub(super) keep_env: bool,
    /// A variable more in the clean environment: NAME as it is, or NAME=VALUE
    #[arg(long, value_name = "NAME[=VALUE]", conflicts_with = "keep_env")]
    pub(super) env: Vec<OsString>,
    /// Leave the randomisation of addresses on
    #[arg(long)]
    pub(super) aslr: bool,
    #[command(flatten)]
    pub(super) fixed: crate::program_args::FixedArgs,
    #[command(flatten)]
    pub(super) cache: CacheArgs,
}

/// How results are shown: hyperfine's names for what means the same.
#[derive(clap::Args, Clone)]
pub(crate) struct ShowArgs {
    /// Write JSON to FILE, as --json=FILE
    #[arg(long, value_name = "FILE")]
    pub(super) export_json: Option<PathBuf>,
    /// Write comma-separated values to FILE, as --csv=FILE
    #[arg(long, value_name = "FILE")]
    pub(super) export_csv: Option<PathBuf>,
    /// Write tables in Markdown to FILE, as --markdown=FILE
    #[arg(long, value_name = "FILE")]
    pub(super) export_markdown: Option<PathBuf>,
    /// Write tables in AsciiDoc to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) export_asciidoc: Option<PathBuf>,
    /// Write tables in Emacs' Org mode to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) export_orgmode: Option<PathBuf>,
    /// Order of the commands in tables: as given, or by the median of their wall time
    #[arg(long, value_enum, default_value_t = Sort::Command)]
    pub(super) sort: Sort,
    /// Unit of all times (default: the one that fits each)
    #[arg(short = 'u', long, value_name = "UNIT", value_parser = time_unit)]
    pub(super) time_unit: Option<TimeUnit>,
}

/// The order of commands in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// As given.
    #[value(alias = "auto")]
    Command,
    /// By the median of the wall time, the fastest first.
    #[value(alias = "mean-time", alias = "median-time")]
    Time,
}

fn time_unit(text: &str) -> Result<TimeUnit, String> {
    TimeUnit::parse(text)
        .ok_or_else(|| "not one of nanosecond, microsecond, millisecond, second".to_owned())
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a number above 0 is needed".to_owned()),
        Ok(value) => Ok(value),
    }
}

fn rounds(text: &str) -> Result<usize, String> {
    positive(text).and_then(|rounds| {
        if rounds <= 1_000_000 {
            Ok(rounds)
        } else {
            Err("at most 1000000 rounds".to_owned())
        }
    })
}

impl Args {
    /// Whether the result is compared with another, now or later: then it needs as many samples as that takes.
    pub(super) fn is_compared(&self) -> bool {
        let files = [
            &self.baseline,
            &self.save,
            &self.json,
            &self.csv,
            &self.show.export_json,
            &self.show.export_csv,
        ];
        files.into_iter().any(Option::is_some)
    }

    /// What is said about the number of rounds.
    pub(super) fn wish(&self) -> RoundOptions<'_> {
        RoundOptions {
            rounds: self.rounds,
            budget: self.budget,
            until: &self.until,
            min: self.min_runs,
            max: self.max_runs,
        }
    }

    /// The commands.
    pub(super) fn written(&self) -> Written<'_> {
        Written {
            lines: &self.commands,
            words: &self.words,
            names: &self.name,
            shell: self.shell.as_deref(),
            ranges: &self.parameter_range,
            lists: &self.parameter_list,
        }
    }

    /// What is to be measured.
    pub(super) fn wanted(&self) -> Request<'_> {
        Request {
            events: &self.event,
            metrics: &self.metric,
            metrics_files: &self.metrics_file,
            detailed: self.detailed,
            only: self.only,
            multiplex: self.multiplex,
        }
    }

    pub(super) fn ignore(&self) -> Result<Ignore, Failure> {
        match self.ignore_failure.as_deref() {
            None => Ok(Ignore::Nothing),
            Some("") => Ok(Ignore::All),
            Some(codes) => codes
                .split(',')
                .map(|code| {
                    code.trim().parse().map_err(|_| {
                        Failure::new(
                            2,
                            format!("--ignore-failure: `{code}` is not an exit status"),
                        )
                        .hint("write --ignore-failure or --ignore-failure=1,2")
                    })
                })
                .collect::<Result<Vec<i32>, Failure>>()
                .map(Ignore::Codes),
        }
    }

    pub(super) fn sink(&self) -> Result<Sink, Failure> {
        Ok(match self.output.as_str() {
            "null" => Sink::Discard(dev_null()?),
            "keep" => Sink::Keep,
            "inherit" => Sink::Inherit,
            path => {
                let path = Path::new(path);
                let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
                Sink::File(OwnedFd::from(file))
            }
        })
    }

    pub(super) fn input(&self) -> Result<OwnedFd, Failure> {
        match &self.input {
            Some(path) => open_input(path),
            None => Ok(dev_null()?),
        }
    }
}
