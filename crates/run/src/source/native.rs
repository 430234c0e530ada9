//! The program runs natively; counters of the kernel and of the CPU watch it.
//!
//! Resources come from `wait4` and need no right. Events are opened through `truecount-perf` on the
//! process while it stands still before `execve`, with `enable_on_exec` and `inherit`.

use std::sync::OnceLock;
use std::time::Duration;

use super::core_types;
use super::counters::{self, Counters};
use super::place::Place;
use super::switch::{self, Begin, Clock};
use super::{Interval, Reason, Run, Source, Taken, Target};
use crate::error::{Error, ErrorKind};
use crate::exactness::Verdicts;
use crate::request::{EventRequest, RequestGroup, Resource, What};
use crate::result::RunResult;
use crate::runner::Hook;
use crate::runner::wait::{Ticker, now_ns, wait_without_command};
use crate::session::{Session, launch_failure};
use truecount_events::{Cpus, Machine};
use truecount_model::number::time;
use truecount_model::{Reading, SourceKind};

/// Counted when the user names nothing and the CPU's counters work.
const DEFAULT_HARDWARE: &str = "task-clock,context-switches,cpu-migrations,page-faults,\
    cycles:u,instructions:u,branches:u,branch-misses:u";

/// Native runs, with or without the CPU's counters.
pub struct Native {
    /// Why the CPU's counters are not used; `None` when they are.
    no_hardware: Option<Reason>,
}

impl Native {
    /// Only when [`counters::hardware_available`] has said so.
    pub fn hardware() -> Self {
        Self { no_hardware: None }
    }

    /// Without the CPU's counters, for this reason.
    pub fn without(reason: Reason) -> Self {
        Self {
            no_hardware: Some(reason),
        }
    }

    /// Software only, by the user's wish.
    pub fn software() -> Self {
        Self {
            no_hardware: Some(Reason::new("--source software was asked for")),
        }
    }
}

impl Source for Native {
    fn kind(&self) -> SourceKind {
        match self.no_hardware {
            None => SourceKind::Hardware,
            Some(_) => SourceKind::Software,
        }
    }

    fn default_events(&self, _target: Target) -> &'static str {
        DEFAULT_HARDWARE
    }

    fn counts(&self, wanted: &EventRequest) -> Result<(), Reason> {
        match (&self.no_hardware, &wanted.what) {
            (Some(reason), _) if counters::needs_hardware(wanted) => Err(reason.clone()),
            (None, What::Static(_)) => Err(Reason::new("the CPU has no generic event for it")
                .hint("use --source virtual, or a name of this CPU's: truecount events")),
            (_, What::Memory(_)) => {
                let reason = "the CPU has no event for it: the virtual PMU knows it, or a model";
                Err(Reason::new(reason).hint("use --source virtual"))
            }
            _ => Ok(()),
        }
    }

    fn fits(&self, groups: &[RequestGroup]) -> bool {
        counters::fits(groups)
    }

    fn run(
        &mut self,
        session: &mut Session,
        run: &Run<'_>,
        interval: Option<Interval<'_>>,
    ) -> Result<RunResult, Error> {
        let has_events = run
            .groups
            .iter()
            .flat_map(|group| &group.members)
            .any(|wanted| wanted.as_event().is_some());
        let open: OnceLock<Counters> = OnceLock::new();
        let clock = &Clock::default();
        let switching = run.switching;
        let switched = switching.is_used();
        let begun = switching.begin == Begin::AtOnce;
        let opened = |place: Place| -> Result<&Counters, Error> {
            let counters = Counters::open(self, run.groups, place, begun)?;
            if begun {
                clock.on();
            }
            Ok(open.get_or_init(|| counters))
        };
        let mut interval = interval;
        let every = interval.as_ref().map(|interval| interval.every);
        let mut tick = |since: Duration| {
            if let (Some(counters), Some(interval)) = (open.get(), interval.as_mut()) {
                (interval.each)(since, taken(self, run, Some(counters), None));
            }
        };
        let ticker = every.map(|every| Ticker::new(every, &mut tick));
        let setup =
            |error: std::io::Error| Error::new(ErrorKind::Setup, format!("cannot wait: {error}"));
        let pipe = switched.then(std::io::pipe).transpose().map_err(setup)?;
        let (end, ended) = pipe.unzip();
        let end = end.as_ref();
        let (started, finished, interrupted) = std::thread::scope(|scope| {
            // The end of the run closes it, and with it ends who switches.
            let _until_here = ended;
            // Signals are blocked by now, in that thread too.
            let watched = |counters| {
                if let Some(end) = end {
                    scope.spawn(move || switch::watch(switching, counters, clock, end));
                }
            };
            if run.target != Target::Command {
                watched(opened(Place::of(run.target))?);
            }
            let mut hook = |pid: i32| opened(Place::NewProcess(pid)).map(watched);
            let started = now_ns();
            match &run.launch {
                Some((program, launch)) => {
                    let hook: Option<Hook<'_>> =
                        (run.target == Target::Command && has_events).then_some(&mut hook);
                    let ended = session
                        .launcher
                        .run(&session.signals, launch, program, hook, ticker)
                        .map_err(|error| launch_failure(error, program, launch.argv))?;
                    let interrupted = ended.interrupted;
                    Ok((started, Some(ended), interrupted))
                }
                None => {
                    let process = match run.target {
                        Target::Process(id) | Target::Thread(id) => Some(id),
                        _ => None,
                    };
                    let interrupted =
                        wait_without_command(&session.signals, process, ticker).map_err(setup)?;
                    Ok::<_, Error>((started, None, interrupted))
                }
            }
        })?;
        let all_ns = match &finished {
            Some(finished) if run.target == Target::Command => finished.wall_ns,
            _ => now_ns().saturating_sub(started),
        };
        let (on_ns, mut notes) = clock.finish();
        let wall_ns = if switched { on_ns.min(all_ns) } else { all_ns };
        if switched {
            let (on, all) = (time(wall_ns as f64), time(all_ns as f64));
            notes.push(match wall_ns {
                0 => format!("Counting was never switched on in the {all} that it took."),
                _ => format!("Counting was on for {on} of the {all} that it took."),
            });
        }
        // Of the whole command, and so of more than was counted where counting was switched.
        let of_command = finished
            .as_ref()
            .filter(|_| run.target == Target::Command && !switched);
        let resources = of_command
            .map(|finished| resources(run.groups, finished))
            .unwrap_or_default();
        // The last interval is not the whole command.
        let of_readings = of_command.filter(|_| every.is_none());
        let Taken { readings, parts } = taken(self, run, open.get(), of_readings);
        let known = Verdicts::of_this_machine();
        if !known.is_empty() {
            notes.extend(known.remarks(&readings, &Machine::this()));
        }
        Ok(RunResult {
            wall_ns,
            lasted_ns: all_ns,
            readings,
            parts,
            resources,
            interrupted,
            notes,
            ..finished.unwrap_or_default()
        })
    }
}

/// What was counted until now, in all and in each part.
fn taken(
    source: &Native,
    run: &Run<'_>,
    counters: Option<&Counters>,
    finished: Option<&RunResult>,
) -> Taken {
    let (all, parts) = match counters {
        Some(counters) => counters.read(run.parts),
        None => (Vec::new(), vec![Vec::new(); run.parts.len()]),
    };
    let part = |read| readings(source, run.groups, read, finished);
    Taken {
        readings: part(all),
        parts: parts.into_iter().map(part).collect(),
    }
}

/// One reading for each metric. A software event that could not be opened is replaced by what
/// `wait4` tells, when that is the same.
fn readings(
    source: &Native,
    groups: &[RequestGroup],
    read: Vec<Reading>,
    finished: Option<&RunResult>,
) -> Vec<Reading> {
    let mut slots = read.into_iter();
    let members = || groups.iter().flat_map(|group| &group.members);
    let mut all: Vec<Reading> = members()
        .map(|wanted| match &wanted.what {
            What::Resource(resource) => of_resource(wanted, *resource, finished),
            What::Static(_) | What::Memory(_) => match source.counts(wanted) {
                Err(reason) => reason.missing(&wanted.name, &wanted.unit),
                Ok(()) => Reading::missing(&wanted.name, &wanted.unit, "not counted natively"),
            },
            What::Event(event) => {
                let read = slots.next().unwrap_or_else(|| {
                    Reading::missing(&wanted.name, &wanted.unit, "the counter was not opened")
                });
                match (finished, Resource::for_event(&event.name)) {
                    (Some(_), Some(resource)) if read.value().is_none() => {
                        of_resource(wanted, resource, finished)
                    }
                    _ => read,
                }
            }
        })
        .collect();
    let of_cores: Vec<bool> = members()
        .map(|wanted| {
            wanted
                .as_event()
                .is_some_and(|event| matches!(event.cpus, Cpus::Core(_)))
        })
        .collect();
    core_types::add_sums(&mut all, &of_cores);
    all
}

fn of_resource(wanted: &EventRequest, resource: Resource, finished: Option<&RunResult>) -> Reading {
    match finished.and_then(|finished| resource.of(finished)) {
        Some(value) => Reading::software(&wanted.name, resource.unit(), value),
        None => Reading::missing(
            &wanted.name,
            resource.unit(),
            "the kernel tells it only of a command that truecount ran to its end",
        ),
    }
}

/// The resources that were not asked for as metrics.
fn resources(groups: &[RequestGroup], finished: &RunResult) -> Vec<Reading> {
    let asked = |resource: Resource| {
        groups
            .iter()
            .flat_map(|group| &group.members)
            .any(|wanted| matches!(wanted.what, What::Resource(other) if other == resource))
    };
    [
        Resource::Wall,
        Resource::User,
        Resource::System,
        Resource::MaxRss,
    ]
    .into_iter()
    .filter(|&resource| !asked(resource))
    .filter_map(|resource| {
        let value = resource.of(finished)?;
        Some(Reading::software(resource.name(), resource.unit(), value))
    })
    .collect()
}
