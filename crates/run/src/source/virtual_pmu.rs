//! The virtual PMU of `truecount-engine`: exact, near native speed, needs no PMU; x86-64 Linux.
//!
//! The program runs with its code translated; the translated code counts itself. What may make a
//! total less than the program's whole is collected in [`Ran`] and decides what is called exact.

mod cache;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod engine;

pub use cache::{clear as clear_cache, keep_translations};

use std::path::Path;

use truecount_engine::xlate::facts::{Counts, Event as StaticEvent};

use super::command::{static_event, whole};
use super::counters::needs_hardware;
use super::{Ended, Interval, Measurement, Reason, Run, Source, Target};
use crate::error::Error;
use crate::request::{EventRequest, What};
use crate::runner::{Launch, Signals, exec_failure, known_format};
use crate::session::Session;
use truecount_model::number::time;
use truecount_model::{Precision, Reading, SourceKind};

/// One thread of one process image (a program that a process executed).
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "only the engine makes one")
)]
#[derive(Debug, Clone, serde::Serialize)]
pub struct Thread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Process that started this one.
    pub parent: u32,
    /// File name of the program.
    pub program: String,
    /// User-mode instructions retired.
    pub instructions: u64,
    /// Every event, where the run counted more than instructions.
    #[serde(skip)]
    pub counts: Option<Counts>,
    /// Those that were asked for, by name.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub events: serde_json::Map<String, serde_json::Value>,
    /// Identifies the process image within the run: the number of its first thread.
    #[serde(skip)]
    pub image: u32,
}

/// What a run under the virtual PMU gave.
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "only the engine makes one")
)]
pub struct Ran {
    /// How the program ended.
    pub ended: Ended,
    /// From before the start to the end, engine included.
    pub wall_ns: u64,
    /// The signal by which the user stopped it.
    pub interrupted: Option<i32>,
    /// Every thread, in order of appearance.
    pub threads: Vec<Thread>,
    /// What was to be held constant and was not.
    pub missing: Vec<crate::determinism::Missing>,
    /// Programs that ran without being counted.
    pub uncounted: u32,
    /// Processes that were still running when the program ended.
    pub outlived: usize,
    /// The blocks executed, where the run counted them.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    pub blocks: Option<truecount_engine::virt::Blocks>,
    /// The time of chosen blocks, where the run took it.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    pub times: Option<truecount_engine::virt::Times>,
    /// Blocks of code that had to be translated.
    pub translated_blocks: u64,
    /// Blocks of code that came from earlier runs.
    pub cached_blocks: u64,
    /// Why translations are not kept although they should be.
    pub cache_problem: Option<String>,
}

impl Thread {
    /// One event of this thread, if the run counted it.
    pub fn event(&self, event: StaticEvent) -> Option<u64> {
        match (event, &self.counts) {
            (StaticEvent::Instructions, _) => Some(self.instructions),
            (event, Some(counts)) => counts.get(event as usize).copied(),
            (_, None) => None,
        }
    }
}

/// Counted when the user names nothing. Only the running total: translations are kept for it, and
/// a program that opens counters itself gets them.
pub(super) const DEFAULT: &str = "instructions:u";

impl Ran {
    /// The sum over all threads, if the run counted the event.
    pub fn event(&self, event: StaticEvent) -> Option<u64> {
        self.threads.iter().try_fold(0u64, |sum, thread| {
            Some(sum.wrapping_add(thread.event(event)?))
        })
    }

    /// Exact when the program and its children ran to their own end and all were counted.
    pub fn precision(&self) -> Precision {
        let cut = self.interrupted.is_some()
            || self.ended.timed_out
            || self.ended.exit.signal == Some(libc::SIGKILL);
        if cut || self.uncounted > 0 || self.outlived > 0 {
            Precision::Counted
        } else {
            Precision::Exact
        }
    }

    /// A count as a reading.
    pub fn reading(&self, wanted: &EventRequest, event: StaticEvent) -> Reading {
        let Some(value) = self.event(event) else {
            return Reason::new("not counted in this run").missing(&wanted.name, &wanted.unit);
        };
        Reading {
            event: wanted.name.clone(),
            value: Some(value),
            unit: wanted.unit.clone(),
            scale: wanted.scale,
            source: Some(SourceKind::Virtual),
            precision: Some(self.precision()),
            enabled_ns: None,
            running_ns: None,
            reason: None,
            hint: None,
        }
    }

    /// What the reader should know about this run.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.uncounted > 0 {
            notes.push(format!(
                "{} program(s) ran without being counted (setuid, 32-bit, or not traceable): the \
                 count is not the whole.",
                self.uncounted
            ));
        }
        if self.outlived > 0 {
            notes.push(format!(
                "{} process(es) outlived the program; they were counted until its end.",
                self.outlived
            ));
        }
        notes.extend(self.cache_problem.clone());
        notes
    }
}

/// Whether the engine is in this build and works on this architecture.
pub fn available() -> Result<(), Reason> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        engine::available()
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    {
        Err(Reason::new("the virtual PMU works on x86-64 Linux only")
            .hint("use --source hardware where the CPU's counters answer, else --source software"))
    }
}

/// What is asked for where there is no engine.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn not_here() -> Error {
    let cause = "the virtual PMU is not in this build";
    Error::unavailable(available().err().unwrap_or_else(|| Reason::new(cause)))
}

/// Why a run under the virtual PMU gave nothing.
pub enum Refusal {
    /// The command itself cannot be run, under the virtual PMU or without.
    Command(Error),
    /// The engine cannot run it; nothing of the program has been executed.
    Engine(Error),
    /// A check inside the engine failed: the program was ended half-way.
    #[cfg_attr(
        not(all(target_os = "linux", target_arch = "x86_64")),
        allow(dead_code)
    )]
    Half(Error),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Command(failure) | Refusal::Engine(failure) | Refusal::Half(failure) => {
                failure
            }
        }
    }
}

/// Runs the command under the virtual PMU to its end; `per_block` for events other than instructions.
///
/// # Errors
/// 123 when an internal check of the engine failed, 126 and 127 when the program cannot be
/// executed or found, 125 when the engine cannot start it, 1 when there is no engine here.
pub fn execute(
    signals: &Signals,
    program: &Path,
    launch: &Launch<'_>,
    per_block: bool,
) -> Result<Ran, Refusal> {
    if !known_format(program) {
        let failure = exec_failure(program, libc::ENOEXEC);
        return Err(Refusal::Engine(failure));
    }
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        engine::execute(signals, program, launch, per_block, None)
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    {
        let _ = (signals, program, launch, per_block);
        Err(Refusal::Engine(not_here()))
    }
}

/// As [`execute`], timing chosen blocks.
///
/// # Errors
/// As [`execute`].
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub fn execute_timed(
    signals: &Signals,
    program: &Path,
    launch: &Launch<'_>,
    watched: truecount_engine::virt::Watched,
) -> Result<Ran, Refusal> {
    engine::execute(signals, program, launch, false, Some(watched))
}

/// The engine's event that a metric names.
///
/// # Errors
/// What the engine cannot tell, with the reason.
pub fn event_of(wanted: &EventRequest) -> Result<StaticEvent, Reason> {
    if let Some(event) = static_event(wanted) {
        return Ok(event);
    }
    Err(match &wanted.what {
        What::Resource(_) => Reason::new("it would be that of the program with the virtual PMU in it")
            .hint("times, memory and faults of a native run: truecount bench, or --source software"),
        _ if needs_hardware(wanted) => Reason::new(
            "the virtual PMU counts what the program's instructions say, in user mode; this needs a PMU",
        )
        .hint(
            "it has instructions, branches, conditional-branches, indirect-branches, calls, returns, \
             loads, stores, locked, vector-instructions, each with :u",
        ),
        _ => Reason::new("it would be that of the program with the virtual PMU in it")
            .hint("times, memory and faults of a native run: truecount bench, or --source software"),
    })
}

/// The virtual PMU.
pub struct VirtualPmu;

impl VirtualPmu {
    /// When it works here.
    pub fn new() -> Result<Self, Reason> {
        available().map(|()| Self)
    }

    /// Runs and counts; a refusal says whether another source may try.
    pub(super) fn try_run(
        session: &Session,
        run: &Run<'_>,
        interval: Option<&Interval<'_>>,
    ) -> Result<Measurement, Refusal> {
        let (program, launch) =
            whole(run, interval, "the virtual PMU").map_err(Refusal::Command)?;
        let wanted = || run.groups.iter().flat_map(|group| &group.members);
        let per_block = wanted()
            .filter_map(static_event)
            .any(|event| event != StaticEvent::Instructions);
        let ran = execute(&session.signals, program, launch, per_block)?;
        let mut notes = ran.notes();
        if !per_block {
            notes.push(
                "It counts more on demand: -e instructions:u,branches:u,loads:u,stores:u,calls:u …"
                    .to_owned(),
            );
        }
        notes.push(format!(
            "Counted by the virtual PMU inside the program. The run took {} with it, which is not the \
             program's own time: times and memory are those of native runs, in truecount bench or \
             with --source software.",
            time(ran.wall_ns as f64)
        ));
        Ok(Measurement {
            wall_ns: ran.wall_ns,
            readings: wanted()
                .map(|wanted| match event_of(wanted) {
                    Ok(event) => ran.reading(wanted, event),
                    Err(reason) => reason.missing(&wanted.name, &wanted.unit),
                })
                .collect(),
            resources: Vec::new(),
            ended: Some(ran.ended),
            interrupted: ran.interrupted,
            missing: ran.missing,
            notes,
        })
    }
}

impl Source for VirtualPmu {
    fn kind(&self) -> SourceKind {
        SourceKind::Virtual
    }

    fn default_events(&self, _target: Target) -> &'static str {
        DEFAULT
    }

    fn counts(&self, wanted: &EventRequest) -> Result<(), Reason> {
        event_of(wanted).map(drop)
    }

    fn fits(&self, _groups: &[crate::request::RequestGroup]) -> bool {
        true
    }

    fn run(
        &mut self,
        session: &mut Session,
        run: &Run<'_>,
        interval: Option<Interval<'_>>,
    ) -> Result<Measurement, Error> {
        Ok(Self::try_run(session, run, interval.as_ref())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Exit;

    fn ran() -> Ran {
        Ran {
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            times: None,
            ended: Ended {
                pid: None,
                exit: Exit {
                    code: Some(0),
                    signal: None,
                },
                timed_out: false,
                aslr_refused: false,
            },
            wall_ns: 1,
            interrupted: None,
            threads: vec![
                Thread {
                    pid: 1,
                    tid: 1,
                    parent: 0,
                    program: "a".into(),
                    instructions: 5,
                    counts: None,
                    events: serde_json::Map::new(),
                    image: 1,
                };
                2
            ],
            missing: Vec::new(),
            uncounted: 0,
            outlived: 0,
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            blocks: None,
            translated_blocks: 0,
            cached_blocks: 0,
            cache_problem: None,
        }
    }

    #[test]
    fn only_a_whole_run_is_exact() {
        let whole = ran();
        assert_eq!(whole.event(StaticEvent::Loads), None);
        assert_eq!(
            (whole.event(StaticEvent::Instructions), whole.precision()),
            (Some(10), Precision::Exact)
        );
        let spoilers: [fn(&mut Ran); 5] = [
            |ran| ran.interrupted = Some(2),
            |ran| ran.ended.timed_out = true,
            |ran| ran.ended.exit.signal = Some(9),
            |ran| ran.uncounted = 1,
            |ran| ran.outlived = 1,
        ];
        for spoil in spoilers {
            let mut part = ran();
            spoil(&mut part);
            assert_eq!(part.precision(), Precision::Counted);
        }
    }
}
