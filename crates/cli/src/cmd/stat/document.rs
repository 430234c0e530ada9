//! The result of `stat` as a document: schema `truecount.stat/2` (`docs/schemas/stat.json`).

use std::ffi::OsString;

use serde::Serialize;

use truecount_model::{Reading, SourceKind};
use truecount_run::closed::{Closed, named};
use truecount_run::env_record::Environment;
use truecount_run::metrics::{SumRow, Values};
use truecount_run::result::RunResult;
use truecount_run::runner::Exit;
use truecount_run::source::{Source, Target};

/// What was counted on some of the CPUs.
#[derive(Serialize)]
pub(crate) struct Apart {
    /// As perf names them: `CPU3`, `S0-D0-C1`, `S0`, `N0`.
    pub(crate) name: String,
    pub(crate) cpus: Vec<u32>,
    /// In the order asked.
    pub(crate) counters: Vec<Reading>,
    #[serde(flatten)]
    pub(crate) values: Values,
}

/// Everything that one run told.
#[derive(Serialize)]
pub(crate) struct Document {
    schema: &'static str,
    /// What -M asked for; none otherwise.
    #[serde(flatten)]
    pub(crate) values: Values,
    /// The command and its arguments; empty when a running process or the machine was counted.
    pub(crate) command: Vec<String>,
    /// What was counted: `command`, `process` or `machine`.
    pub(crate) target: &'static str,
    /// Who counted the events.
    pub(crate) source: SourceKind,
    /// One entry for each event, in the order asked.
    pub(crate) counters: Vec<Reading>,
    /// With -G: the control group of each counter; empty for those of none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) cgroups: Vec<String>,
    /// With -A, --per-core and the like: the counters of each part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Apart>,
    /// How the command ended; null without one.
    pub(crate) exit: Option<Exit>,
    /// From just before `execve` to the end.
    pub(crate) wall_ns: u64,
    /// The program ran with the virtual PMU inside or in single steps: `wall_ns` is not its own time.
    under_virtual_pmu: bool,
    /// CPU time and memory as the kernel accounts them.
    pub(crate) resources: Vec<Reading>,
    /// truecount ended the command because of --timeout.
    pub(crate) timed_out: bool,
    /// The signal by which the user stopped truecount.
    pub(crate) interrupted: Option<i32>,
    /// What the reader should know, one sentence each.
    pub(crate) notes: Vec<String>,
    /// Whether the counts will repeat, from this run; only under the virtual PMU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outside: Option<Closed>,
    /// What --repeat found; the rest is the median run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repeats: Option<super::repeat::Repeats>,
    pub(crate) environment: Environment,
}

impl Document {
    pub(crate) fn new(
        command: &[OsString],
        target: Target,
        source: &dyn Source,
        measurement: RunResult,
        mut environment: Environment,
    ) -> Self {
        let ended = measurement.ended;
        if ended.is_some_and(|ended| ended.aslr_refused) {
            environment.aslr = Some(true);
        }
        Self {
            schema: "truecount.stat/2",
            values: Values::default(),
            command: command
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            target: target.name(),
            source: source.kind(),
            counters: measurement.readings,
            cgroups: Vec::new(),
            parts: Vec::new(),
            exit: ended.map(|ended| ended.exit),
            wall_ns: measurement.wall_ns,
            under_virtual_pmu: matches!(source.kind(), SourceKind::Virtual | SourceKind::Step),
            resources: measurement.resources,
            timed_out: ended.is_some_and(|ended| ended.timed_out),
            interrupted: measurement.interrupted,
            notes: measurement.notes,
            outside: named(measurement.executed.closed),
            repeats: None,
            environment,
        }
    }

    /// Adds the metrics; a sum that is off is said.
    pub(crate) fn set_metrics(&mut self, values: Values) {
        let warnings = values.metric_sums.iter().filter_map(SumRow::warning);
        self.notes.extend(warnings);
        self.values = values;
    }

    /// The program's own status, 124 after a time limit, 130 when Ctrl-C ended a count without one; of several runs
    /// that of the first that failed, 130 when Ctrl-C ended them.
    pub(crate) fn exit_code(&self) -> u8 {
        if let Some(repeats) = &self.repeats {
            // Fewer runs than asked for, whatever they ended with.
            if let Some(signal) = self.interrupted {
                return u8::try_from(128 + signal).unwrap_or(130);
            }
            if let Some(failed) = repeats.failed {
                return failed;
            }
        }
        if self.timed_out {
            return 124;
        }
        match (self.exit, self.interrupted) {
            (Some(exit), _) => exit.shell_code(),
            (None, Some(libc::SIGINT)) | (None, None) => 0,
            (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(130),
        }
    }
}
