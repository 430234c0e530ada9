//! What is counted in which run: resources in every native run, events in batches that fit the
//! counters, and exact counts in runs of their own.

use truecount_events::Machine;
use truecount_stats::plan_batches;

use super::args::Args;
use super::collect::Collected;
use super::metrics::Metrics;
use crate::failure::Failure;
use truecount_model::{Reading, SourceKind};
use truecount_run::metrics::Asked;
use truecount_run::request::{self, EventRequest, RequestGroup, Resource};
use truecount_run::source::{Native, Source, needs_hardware};

/// Resources that every native run tells, in the order shown. CPU time is the sum, which the scheduler accounts for
/// precisely; user and system time split it by ticks of the kernel's clock.
const RESOURCES: [Resource; 3] = [Resource::Wall, Resource::CpuTime, Resource::MaxRss];

/// More of them, for `--detailed`.
const DETAILED_RESOURCES: [Resource; 4] = [
    Resource::User,
    Resource::System,
    Resource::PageFaults,
    Resource::ContextSwitches,
];

/// Events counted without -e, where the CPU has them. The first is the anchor of every batch.
const DEFAULT_EVENTS: &str = "instructions:u";

/// With `--detailed`.
const DETAILED_EVENTS: &str = "instructions:u,cycles:u,branches:u,branch-misses:u,cache-misses:u";

/// What is measured and how.
pub(super) struct Plan {
    /// One list of groups for each batch of native runs.
    pub(super) batches: Vec<Vec<RequestGroup>>,
    /// What the engine counts in its own runs.
    pub(super) engine: Vec<RequestGroup>,
    /// Every metric in the order shown.
    wanted: Vec<EventRequest>,
    /// Metrics that nobody can count here.
    missing: Vec<Reading>,
    pub(super) notes: Vec<String>,
    kind: SourceKind,
    /// What `-M` asks for.
    pub(super) metrics: Metrics,
}

impl Plan {
    /// An empty collection that already knows what is missing and why.
    pub(super) fn collected(&self) -> Collected {
        let mut collected = Collected::new(&self.wanted);
        collected.add(0, &self.missing);
        let batches = self.batches.iter().map(Vec::as_slice);
        let runs: Vec<&[RequestGroup]> = batches.chain([self.engine.as_slice()]).collect();
        self.metrics.announce(&mut collected, &runs);
        collected
    }

    /// The source of the native runs.
    pub(super) fn native(&self) -> Native {
        match self.kind {
            SourceKind::Hardware => Native::hardware(),
            _ => Native::software(),
        }
    }
}

/// Decides it.
pub(super) fn make(
    args: &Args,
    source: &mut dyn Source,
    machine: &Machine,
) -> Result<Plan, Failure> {
    if args.only && args.event.is_empty() && args.metric.is_empty() {
        return Err(Failure::new(2, "--only: nothing to measure").hint("name it with -e or -M"));
    }
    let kind = source.kind();
    let asked = Asked::new(&args.metric, &args.metrics_file, machine, &*source)?;
    let metrics = Metrics::new(asked);
    let mut groups = events_of(args, &*source, machine)?;
    // Counted in groups of their own, whatever else counts the same events.
    groups.extend(metrics.groups());
    let (resources, events): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| {
        group.metric.is_none() && group.members.iter().all(|wanted| !wanted.is_event())
    });
    let mut fixed: Vec<EventRequest> = if args.only {
        Vec::new()
    } else {
        let more: &[Resource] = if args.detailed {
            &DETAILED_RESOURCES
        } else {
            &[]
        };
        let all = RESOURCES.iter().chain(more).copied();
        all.map(EventRequest::resource).collect()
    };
    for wanted in resources.into_iter().flat_map(|group| group.members) {
        if !fixed.iter().any(|old| old.name == wanted.name) {
            fixed.push(wanted);
        }
    }

    let mut plan = Plan {
        batches: Vec::new(),
        engine: Vec::new(),
        wanted: events
            .iter()
            .filter(|group| group.metric.is_none())
            .flat_map(|group| group.members.iter().cloned())
            .chain(fixed.iter().cloned())
            .collect(),
        missing: Vec::new(),
        notes: Vec::new(),
        kind,
        metrics,
    };
    let mut native = Vec::new();
    for group in events {
        let refused = group
            .members
            .iter()
            .filter(|wanted| wanted.is_event())
            .find_map(|wanted| source.counts(wanted).err());
        let engine = matches!(kind, SourceKind::Step | SourceKind::Virtual);
        match refused {
            None if engine => plan.engine.push(group),
            None => native.push(group),
            // What the kernel counts by itself comes from the native runs.
            Some(_) if engine && !group.members.iter().any(needs_hardware) => {
                native.push(group);
            }
            Some(reason) => {
                let members = group.members.iter();
                let missing = members.map(|wanted| reason.missing(&wanted.name, &wanted.unit));
                match group.metric {
                    Some(number) => plan.metrics.refuse(number, missing.collect()),
                    None => plan.missing.extend(missing),
                }
            }
        }
    }
    let batches = batches_of(native, args.multiplex, source);
    if batches.len() > 1 {
        plan.notes.push(format!(
            "The events do not fit the counters at once: {} batches take turns over the rounds.",
            batches.len()
        ));
    }
    let fixed = RequestGroup {
        members: fixed,
        metric: None,
    };
    plan.batches = batches
        .into_iter()
        .map(|mut batch| {
            batch.push(fixed.clone());
            batch
        })
        .collect();
    Ok(plan)
}

/// The events of `-e` and those counted without it, each once.
fn events_of(
    args: &Args,
    source: &dyn Source,
    machine: &Machine,
) -> Result<Vec<RequestGroup>, Failure> {
    let mut asked = if args.event.is_empty() {
        Vec::new()
    } else {
        request::resolve(&args.event.join(","), machine, true)?
    };
    // The name that is shown says `:u`.
    let _ = request::in_user_mode(&mut asked, machine, |wanted| source.counts(wanted).is_ok())?;
    let default = match source.kind() {
        _ if args.only => Vec::new(),
        SourceKind::Hardware if args.detailed => request::resolve(DETAILED_EVENTS, machine, true)?,
        SourceKind::Hardware => request::resolve(DEFAULT_EVENTS, machine, true)?,
        _ => {
            let events = source.default_events(truecount_run::source::Target::Command);
            let mut groups = request::resolve(events, machine, true)?;
            groups.retain(counts_instructions);
            groups
        }
    };
    let mut groups: Vec<RequestGroup> = Vec::new();
    for group in default.into_iter().chain(asked) {
        let known = group.members.iter().all(|new| {
            let mut members = groups.iter().flat_map(|group| &group.members);
            members.any(|old| old.name == new.name)
        });
        if !known {
            groups.push(group);
        }
    }
    Ok(groups)
}

fn counts_instructions(group: &RequestGroup) -> bool {
    let mut members = group.members.iter();
    members.any(|wanted| wanted.name.starts_with("instructions"))
}

/// Batches that fit the counters, each led by the instructions.
fn batches_of(
    native: Vec<RequestGroup>,
    multiplex: bool,
    source: &mut dyn Source,
) -> Vec<Vec<RequestGroup>> {
    if multiplex || native.is_empty() {
        return vec![native];
    }
    let anchor: Vec<RequestGroup> = native
        .iter()
        .filter(|group| counts_instructions(group))
        .take(1)
        .cloned()
        .collect();
    let rest: Vec<RequestGroup> = native
        .into_iter()
        .filter(|group| !anchor.iter().any(|anchor| anchor.same(group)))
        .collect();
    plan_batches(&anchor, &rest, |groups| source.fits(groups))
}
