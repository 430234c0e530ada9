//! Where numbers come from. A [`Source`] runs a command and counts events; the commands above do
//! not know which one it is.
//!
//! `auto` takes hardware when there is a PMU that may be used, else the virtual PMU for the events
//! that it counts, else what the kernel accounts by itself, and says what is missing.

mod automatic;
mod command;
mod core_types;
mod counters;
mod native;
mod place;
mod slot;
mod step;
mod switch;
pub mod virtual_pmu;

use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::request::{EventRequest, RequestGroup, Resource};
use crate::result::RunResult;
use crate::runner::Launch;
use crate::session::Session;
use truecount_model::{Reading, Reason, SourceKind};
use truecount_perf::linux;

#[cfg(test)]
pub use counters::fits_on;
pub use counters::{
    attributes_on, hardware_available, hardware_available_on, kernel_mode_allowed, needs_hardware,
};
pub use native::Native;
pub use step::Meter;
pub use switch::{Begin, Control, Switching};

/// `--source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
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

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The command and its children.
    Command,
    /// A running process with its threads and their future children.
    Process(i32),
    /// One thread of a running process.
    Thread(i32),
    /// Everything on these CPUs. The list lives as long as the process: there is one.
    Cpus(&'static [u32]),
    /// Every CPU.
    Machine,
}

impl Target {
    /// The name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Process(_) => "process",
            Self::Thread(_) => "thread",
            Self::Cpus(_) => "cpus",
            Self::Machine => "machine",
        }
    }
}

/// One run: the command and the file to execute, and what to measure.
pub struct Run<'a> {
    /// `None` counts until the process ends or the user stops it.
    pub launch: Option<(&'a Path, Launch<'a>)>,
    /// What to measure.
    pub groups: &'a [RequestGroup],
    /// What is counted.
    pub target: Target,
    /// When counting begins, and who switches it.
    pub switching: Switching<'a>,
    /// Where counts are told apart, beside the sum of all; only of CPUs.
    pub parts: &'a [Part],
}

/// Some of the CPUs that are counted: one, or those of a core, a socket, a memory node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// As perf writes it: `CPU3`, `S0-D0-C1`, `S0`, `N0`.
    pub name: String,
    /// Its CPUs.
    pub cpus: Vec<u32>,
}

/// What was counted until now.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// One reading for each metric, in the order asked.
    pub readings: Vec<Reading>,
    /// The same for each part of the run.
    pub parts: Vec<Vec<Reading>>,
}

/// Cumulative readings at a regular interval.
pub struct Interval<'i> {
    /// The interval.
    pub every: Duration,
    /// Called with the time since the start and what was counted so far.
    pub each: &'i mut dyn FnMut(Duration, Taken),
}

/// Something that runs a command and counts.
pub trait Source {
    /// Who counts the events.
    fn kind(&self) -> SourceKind;

    /// What to count when the user names nothing.
    fn default_events(&self, target: Target) -> &'static str;

    /// Whether it counts this event, and if not, why. A resource is not an event.
    fn counts(&self, wanted: &EventRequest) -> Result<(), Reason>;

    /// Whether these groups can be counted at the same time.
    fn fits(&self, groups: &[RequestGroup]) -> bool;

    /// Runs the command to its end and counts.
    fn run(
        &mut self,
        session: &mut Session,
        run: &Run<'_>,
        interval: Option<Interval<'_>>,
    ) -> Result<RunResult, Error>;
}

/// Whether this user has the event counted here as it was asked for; `whole`: around a whole command, of which the kernel
/// tells some without any right.
pub fn counts_here(source: &dyn Source, wanted: &EventRequest, whole: bool) -> bool {
    match wanted.as_event() {
        Some(event) if whole && Resource::for_event(&event.name).is_some() => true,
        Some(event) if source.kind() == SourceKind::Hardware || !needs_hardware(wanted) => {
            counters::permitted(&linux(), event).is_ok()
        }
        _ => source.counts(wanted).is_ok(),
    }
}

/// The source for `--source`.
///
/// # Errors
/// Status 1 when the source that was asked for does not work here, with the reason.
pub fn select(choice: Choice, meter: Option<Meter>) -> Result<Box<dyn Source>, Error> {
    match choice {
        Choice::Auto => Ok(match hardware_available() {
            Ok(()) => Box::new(Native::hardware()),
            Err(reason) if virtual_available().is_ok() => {
                Box::new(automatic::Automatic::new(reason))
            }
            Err(reason) => Box::new(Native::without(reason)),
        }),
        Choice::Hardware => {
            hardware_available().map_err(Error::unavailable)?;
            Ok(Box::new(Native::hardware()))
        }
        Choice::Software => Ok(Box::new(Native::software())),
        Choice::Step => Ok(Box::new(
            step::Step::new(meter).map_err(Error::unavailable)?,
        )),
        Choice::Virtual => Ok(Box::new(
            virtual_pmu::VirtualPmu::new().map_err(Error::unavailable)?,
        )),
    }
}

/// Whether single-stepping works here.
pub fn step_available() -> Result<(), Reason> {
    step::available()
}

/// Whether the virtual PMU works here.
pub fn virtual_available() -> Result<(), Reason> {
    virtual_pmu::available()
}
