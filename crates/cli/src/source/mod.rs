//! Where numbers come from. A [`Source`] runs a command and counts events; the commands above do
//! not know which one it is.
//!
//! `auto` takes hardware when there is a PMU that may be used, else the virtual PMU for the events
//! that it counts, else what the kernel accounts by itself, and says what is missing.

mod automatic;
mod command;
mod counters;
mod native;
mod step;
pub(crate) mod virtual_pmu;

use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use crate::model::{Reading, SourceKind};
use crate::runner::{Exit, Launch};
use crate::session::Session;
use crate::wanted::{Wanted, WantedGroup};

#[cfg(test)]
pub(crate) use counters::fits_on;
pub(crate) use counters::{hardware_available, kernel_mode_allowed, needs_hardware};
pub(crate) use native::Native;

/// `--source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Choice {
    /// Hardware if there is one, else the virtual PMU, else software
    Auto,
    /// The CPU's counters
    Hardware,
    /// The virtual PMU: exact user-mode counts without hardware
    Virtual,
    /// Single-stepping: exact and slow
    Step,
    /// Clocks, faults and switches that the kernel accounts
    Software,
}

/// Why a source or an event is not available, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) cause: String,
    pub(crate) hint: Option<String>,
}

impl Reason {
    pub(crate) fn new(cause: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Reason {
    /// The reading of a metric that was not counted for this reason.
    pub(crate) fn missing(&self, name: &str, unit: &str) -> Reading {
        let mut reading = Reading::missing(name, unit, &self.cause);
        reading.hint.clone_from(&self.hint);
        reading
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.cause)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The command and its children.
    Command,
    /// A running process with its threads and their future children.
    Process(i32),
    /// Every CPU.
    Machine,
}

impl Target {
    /// The name in documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Process(_) => "process",
            Self::Machine => "machine",
        }
    }
}

/// One run: the command and the file to execute, and what to measure.
pub(crate) struct Run<'a> {
    /// `None` counts until the process ends or the user stops it.
    pub(crate) launch: Option<(&'a Path, Launch<'a>)>,
    pub(crate) groups: &'a [WantedGroup],
    pub(crate) target: Target,
}

/// Cumulative readings at a regular interval.
pub(crate) struct Interval<'i> {
    pub(crate) every: Duration,
    pub(crate) each: &'i mut dyn FnMut(Duration, Vec<Reading>),
}

/// How the command ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    /// The number of its process, where the source tells.
    pub(crate) pid: Option<i32>,
    pub(crate) exit: Exit,
    /// truecount ended it because of the time limit.
    pub(crate) timed_out: bool,
    /// Randomisation of addresses could not be switched off.
    pub(crate) aslr_refused: bool,
}

/// What one run gave.
pub(crate) struct Measurement {
    /// The command, if there was one.
    pub(crate) ended: Option<Ended>,
    /// From `execve` (or from the start of counting) to the end.
    pub(crate) wall_ns: u64,
    /// One reading for each metric, in the order asked.
    pub(crate) readings: Vec<Reading>,
    /// Times and memory that come with every run, unless they were asked for as metrics.
    pub(crate) resources: Vec<Reading>,
    /// The signal by which the user stopped it.
    pub(crate) interrupted: Option<i32>,
    /// What was to be held constant and was not.
    pub(crate) missing: Vec<crate::fixed::Missing>,
    /// What the reader should know.
    pub(crate) notes: Vec<String>,
}

/// Something that runs a command and counts.
pub(crate) trait Source {
    /// Who counts the events.
    fn kind(&self) -> SourceKind;

    /// What to count when the user names nothing.
    fn default_events(&self, target: Target) -> &'static str;

    /// Whether it counts this event, and if not, why. A resource is not an event.
    fn counts(&self, wanted: &Wanted) -> Result<(), Reason>;

    /// Whether these groups can be counted at the same time.
    fn fits(&self, groups: &[WantedGroup]) -> bool;

    /// Runs the command to its end and counts.
    fn run(
        &mut self,
        session: &mut Session,
        run: &Run<'_>,
        interval: Option<Interval<'_>>,
    ) -> Result<Measurement, Failure>;
}

/// The source for `--source`.
///
/// # Errors
/// Status 1 when the source that was asked for does not work here, with the reason.
pub(crate) fn select(choice: Choice) -> Result<Box<dyn Source>, Failure> {
    let unavailable = |reason: Reason| {
        let failure = Failure::new(1, reason.cause);
        match reason.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    };
    match choice {
        Choice::Auto => Ok(match hardware_available() {
            Ok(()) => Box::new(Native::hardware()),
            Err(reason) if virtual_available().is_ok() => {
                Box::new(automatic::Automatic::new(reason))
            }
            Err(reason) => Box::new(Native::without(reason)),
        }),
        Choice::Hardware => {
            hardware_available().map_err(unavailable)?;
            Ok(Box::new(Native::hardware()))
        }
        Choice::Software => Ok(Box::new(Native::software())),
        Choice::Step => Ok(Box::new(step::Step::new().map_err(unavailable)?)),
        Choice::Virtual => Ok(Box::new(
            virtual_pmu::VirtualPmu::new().map_err(unavailable)?,
        )),
    }
}

/// Whether single-stepping works here.
pub(crate) fn step_available() -> Result<(), Reason> {
    step::Step::new().map(drop)
}

/// Whether the virtual PMU works here.
pub(crate) fn virtual_available() -> Result<(), Reason> {
    virtual_pmu::available()
}
