//! The program runs natively; counters of the kernel and of the CPU watch it.
//!
//! Resources come from `wait4` and need no right. Events are opened through `truecount-perf` on the
//! process while it stands still before `execve`, with `enable_on_exec` and `inherit`.

use std::cell::RefCell;
use std::time::Duration;

use super::core_types;
use super::counters::{self, Counters};
use super::place::Place;
use super::{Interval, Reason, Run, Source, Target};
use crate::error::{Error, ErrorKind};
use crate::exactness::Verdicts;
use crate::request::{EventRequest, RequestGroup, Resource, What};
use crate::result::RunResult;
use crate::runner::Hook;
use crate::runner::wait::{Ticker, now_ns, wait_without_command};
use crate::session::{Session, launch_failure};
use truecount_events::{Cpus, Machine};
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
        let open: RefCell<Option<Counters>> = RefCell::new(None);
        if run.target != Target::Command {
            open.replace(Some(Counters::open(
                self,
                run.groups,
                Place::of(run.target),
            )?));
        }
        let mut hook = |pid: i32| -> Result<(), Error> {
            open.replace(Some(Counters::open(
                self,
                run.groups,
                Place::NewProcess(pid),
            )?));
            Ok(())
        };
        let mut interval = interval;
        let every = interval.as_ref().map(|interval| interval.every);
        let mut tick = |since: Duration| {
            if let (Some(counters), Some(interval)) = (open.borrow().as_ref(), interval.as_mut()) {
                (interval.each)(since, readings(self, run.groups, Some(counters), None));
            }
        };
        let ticker = every.map(|every| Ticker::new(every, &mut tick));
        let started = now_ns();
        let mut finished = None;
        let interrupted;
        match &run.launch {
            Some((program, launch)) => {
                let hook: Option<Hook<'_>> =
                    (run.target == Target::Command && has_events).then_some(&mut hook);
                let ended = session
                    .launcher
                    .run(&session.signals, launch, program, hook, ticker)
                    .map_err(|error| launch_failure(error, program, launch.argv))?;
                interrupted = ended.interrupted;
                finished = Some(ended);
            }
            None => {
                let process = match run.target {
                    Target::Process(id) | Target::Thread(id) => Some(id),
                    _ => None,
                };
                interrupted =
                    wait_without_command(&session.signals, process, ticker).map_err(|error| {
                        Error::new(ErrorKind::Setup, format!("cannot wait: {error}"))
                    })?;
            }
        }
        let wall_ns = match &finished {
            Some(finished) if run.target == Target::Command => finished.wall_ns,
            _ => now_ns().saturating_sub(started),
        };
        let open = open.into_inner();
        let resources = match &finished {
            Some(finished) if run.target == Target::Command => resources(run.groups, finished),
            _ => Vec::new(),
        };
        let of_command = finished.as_ref().filter(|_| run.target == Target::Command);
        let readings = readings(self, run.groups, open.as_ref(), of_command);
        let known = Verdicts::of_this_machine();
        let notes = match known.is_empty() {
            true => Vec::new(),
            false => known.remarks(&readings, &Machine::this()),
        };
        Ok(RunResult {
            wall_ns,
            readings,
            resources,
            interrupted,
            notes,
            ..finished.unwrap_or_default()
        })
    }
}

/// One reading for each metric. A software event that could not be opened is replaced by what
/// `wait4` tells, when that is the same.
fn readings(
    source: &Native,
    groups: &[RequestGroup],
    counters: Option<&Counters>,
    finished: Option<&RunResult>,
) -> Vec<Reading> {
    let mut slots = counters.map(Counters::read).unwrap_or_default().into_iter();
    let members = || groups.iter().flat_map(|group| &group.members);
    let mut all: Vec<Reading> = members()
        .map(|wanted| match &wanted.what {
            What::Resource(resource) => of_resource(wanted, *resource, finished),
            What::Static(_) => match source.counts(wanted) {
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
