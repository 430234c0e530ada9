//! The virtual PMU of `truecount-engine`: exact, near native speed, needs no PMU; x86-64 Linux.
//!
//! The program runs with its code translated; the translated code counts itself. What may make a
//! total less than the program's whole is collected in [`Executed`](crate::result::Executed) and decides what is
//! called exact.

pub(crate) mod cache;
mod engine;

pub use cache::{bound_code, clear as clear_cache, keep_translations};

use std::path::Path;

use truecount_engine::virt;
use truecount_engine::xlate::facts::Event as StaticEvent;

use super::command::{static_event, whole};
use super::counters::needs_hardware;
use super::{Interval, Reason, Run, Source, Target};
use crate::error::Error;
use crate::references::{Memory, MemoryEvent, Noted, Wanted, Without};
use crate::request::{EventRequest, What};
use crate::result::RunResult;
use crate::runner::{Launch, Signals, exec_failure, known_format};
use crate::session::Session;
use truecount_memory::{Beside, Cpu, Machine};
use truecount_model::number::time;
use truecount_model::{Measured, Precision, Reading, SourceKind};

/// Counted when the user names nothing. Only the running total: translations are kept for it, and
/// a program that opens counters itself gets them.
pub(super) const DEFAULT: &str = "instructions:u";

/// Whether the engine works on this architecture.
pub fn available() -> Result<(), Reason> {
    virt::available().map_err(|error| {
        Reason::new(error.to_string())
            .hint("use --source hardware where the CPU's counters answer, else --source software")
    })
}

/// Why a run under the virtual PMU gave nothing.
pub enum Refusal {
    /// The command itself cannot be run, under the virtual PMU or without.
    Command(Error),
    /// The engine cannot run it; nothing of the program has been executed.
    Engine(Error),
    /// A check inside the engine failed: the program was ended half-way.
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
) -> Result<RunResult, Refusal> {
    if !known_format(program) {
        let failure = exec_failure(program, libc::ENOEXEC);
        return Err(Refusal::Engine(failure));
    }
    engine::execute(signals, program, launch, |options| {
        options.per_block(per_block)
    })
}

/// As [`execute`], with a choice of what is counted; `calls`: with the tree of calls; `wanted`: with references.
///
/// # Errors
/// As [`execute`].
pub fn execute_regions(
    signals: &Signals,
    program: &Path,
    launch: &Launch<'_>,
    per_block: bool,
    regions: virt::Regions,
    calls: Option<virt::CallOptions>,
    wanted: Option<Wanted>,
) -> Result<RunResult, Refusal> {
    if !known_format(program) {
        let failure = exec_failure(program, libc::ENOEXEC);
        return Err(Refusal::Engine(failure));
    }
    let noted = wanted.map(Noted::new);
    let mut ran = engine::execute(signals, program, launch, |options| {
        options
            .per_block(per_block)
            .calls(calls)
            .regions(Some(regions))
            .references(noted.as_ref().map(Noted::sink))
    })?;
    if let Some(noted) = noted {
        finish(&mut ran, noted);
    }
    Ok(ran)
}

/// What was noted in a run.
fn finish(ran: &mut RunResult, noted: Noted) {
    let threads = &ran.executed.threads;
    let of = |slot| threads.iter().find(|thread| thread.slot == slot);
    ran.executed.memory = Some(noted.finish(|slot| of(slot).map_or(0, |thread| thread.tid)));
    ran.executed.noted = Some(noted);
}

/// As [`execute`], with every block's executions and the tree of calls.
///
/// # Errors
/// As [`execute`].
pub fn execute_calls(
    signals: &Signals,
    program: &Path,
    launch: &Launch<'_>,
    calls: virt::CallOptions,
) -> Result<RunResult, Refusal> {
    engine::execute(signals, program, launch, |options| {
        options.per_block(true).calls(Some(calls))
    })
}

/// As [`execute`], timing chosen blocks.
///
/// # Errors
/// As [`execute`].
pub fn execute_timed(
    signals: &Signals,
    program: &Path,
    launch: &Launch<'_>,
    watched: virt::Watched,
) -> Result<RunResult, Refusal> {
    engine::execute(signals, program, launch, |options| {
        options.times(Some(watched))
    })
}

/// As [`execute`], with the memory that the program references: [`Executed::memory`](crate::result::Executed::memory);
/// `calls`: with the tree of calls.
///
/// # Errors
/// As [`execute`].
pub fn execute_noting(
    signals: &Signals,
    program: &Path,
    launch: &Launch<'_>,
    wanted: Wanted,
    calls: Option<virt::CallOptions>,
) -> Result<RunResult, Refusal> {
    let noted = Noted::new(wanted);
    let mut ran = engine::execute(signals, program, launch, |options| {
        options.calls(calls).references(Some(noted.sink()))
    })?;
    finish(&mut ran, noted);
    Ok(ran)
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

/// Whether the engine tells a metric.
///
/// # Errors
/// What the engine cannot tell, with the reason.
pub fn countable(wanted: &EventRequest) -> Result<(), Reason> {
    match wanted.what {
        What::Memory(event) if event.is_model() => {
            let (_, mut beside) = this_cpu();
            event.provide(&mut beside);
            event.lacking(&beside).map_or(Ok(()), |why| {
                Err(Reason::new(why)
                    .hint("truecount run --model=NAME -e … takes that of a named CPU"))
            })
        }
        What::Memory(_) => Ok(()),
        _ => event_of(wanted).map(drop),
    }
}

/// The caches of this CPU, or where they are not known those that are the same everywhere.
fn this_cpu() -> (Machine, Beside) {
    let cpu = Cpu::this().unwrap_or(Cpu::FIXED);
    (cpu.machine, cpu.beside)
}

/// What must be noted for these events of memory: with a model, where one is asked for, of this CPU's caches.
pub fn noted_for(events: impl Iterator<Item = MemoryEvent>) -> Option<Wanted> {
    let mut wanted = None;
    let events: Vec<_> = events.collect();
    let without = Without::all_but(events.iter().copied());
    for event in events {
        let wanted = wanted.get_or_insert_with(|| Wanted {
            facts: true,
            without,
            ..Wanted::default()
        });
        if event.is_model() {
            if wanted.model.is_none() {
                let (machine, beside) = this_cpu();
                (wanted.model, wanted.beside) = (Some(machine), beside);
            }
            event.provide(&mut wanted.beside);
        }
    }
    wanted
}

impl RunResult {
    /// A fact about memory, or what the model says, as a reading.
    pub fn memory_reading(&self, wanted: &EventRequest, event: MemoryEvent) -> Reading {
        let memory = self.executed.memory.as_ref();
        let value = memory.and_then(|memory| Some((memory, event.of(memory)?)));
        let Some((memory, value)) = value else {
            return Reason::new("not noted in this run").missing(&wanted.name, &wanted.unit);
        };
        let (source, precision) = match event.is_model() {
            true => (SourceKind::Model, Precision::Modelled),
            false if event.is_whole(memory) => (SourceKind::Virtual, self.precision()),
            false => (SourceKind::Virtual, Precision::Counted),
        };
        let measured = Measured::Value {
            value,
            source,
            precision,
        };
        Reading::new(&wanted.name, &wanted.unit, measured)
    }

    /// A count as a reading.
    pub fn reading(&self, wanted: &EventRequest, event: StaticEvent) -> Reading {
        let Some(value) = self.event(event) else {
            return Reason::new("not counted in this run").missing(&wanted.name, &wanted.unit);
        };
        Reading {
            scale: wanted.scale,
            ..Reading::new(
                &wanted.name,
                &wanted.unit,
                Measured::Value {
                    value,
                    source: SourceKind::Virtual,
                    precision: self.precision(),
                },
            )
        }
    }
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
    ) -> Result<RunResult, Refusal> {
        let (program, launch) =
            whole(run, interval, "the virtual PMU").map_err(Refusal::Command)?;
        let wanted = || run.groups.iter().flat_map(|group| &group.members);
        let per_block = wanted()
            .filter_map(static_event)
            .any(|event| event != StaticEvent::Instructions);
        let memory = noted_for(wanted().filter_map(|wanted| match wanted.what {
            What::Memory(event) => Some(event),
            _ => None,
        }));
        let per_block = per_block || memory.is_some();
        let ran = match memory {
            Some(memory) => execute_noting(&session.signals, program, launch, memory, None)?,
            None => execute(&session.signals, program, launch, per_block)?,
        };
        let mut notes = ran.virtual_notes();
        notes.extend(ran.executed.memory.as_ref().and_then(Memory::note));
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
        let readings = wanted()
            .map(|wanted| match (event_of(wanted), &wanted.what) {
                (_, What::Memory(event)) => ran.memory_reading(wanted, *event),
                (Ok(event), _) => ran.reading(wanted, event),
                (Err(reason), _) => reason.missing(&wanted.name, &wanted.unit),
            })
            .collect();
        Ok(RunResult {
            readings,
            notes,
            ..ran
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
        countable(wanted)
    }

    fn fits(&self, _groups: &[crate::request::RequestGroup]) -> bool {
        true
    }

    fn run(
        &mut self,
        session: &mut Session,
        run: &Run<'_>,
        interval: Option<Interval<'_>>,
    ) -> Result<RunResult, Error> {
        Ok(Self::try_run(session, run, interval.as_ref())?)
    }
}
