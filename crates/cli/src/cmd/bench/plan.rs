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

/// Resources that every native run tells, in the order shown.
const RESOURCES: [Resource; 6] = [
    Resource::Wall,
    Resource::User,
    Resource::System,
    Resource::MaxRss,
    Resource::PageFaults,
    Resource::ContextSwitches,
];

/// Events counted without -e, where the CPU has them. The first is the anchor of every batch.
const DEFAULT_EVENTS: &str = "instructions:u,cycles:u,branches:u,branch-misses:u,cache-misses:u";

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
    let given = args.event.join(",");
    let mut asked = if args.event.is_empty() {
        Vec::new()
    } else {
        request::resolve(&given, machine, true)?
    };
    let in_user_mode =
        request::in_user_mode(&mut asked, machine, |wanted| source.counts(wanted).is_ok())?;
    let default = match kind {
        _ if args.only => Vec::new(),
        SourceKind::Hardware => request::resolve(DEFAULT_EVENTS, machine, true)?,
        _ => request::resolve(
            source.default_events(truecount_run::source::Target::Command),
            machine,
            true,
        )?
        .into_iter()
        .filter(|group| {
            group
                .members
                .iter()
                .any(|wanted| wanted.name.starts_with("instructions"))
        })
        .collect(),
    };
    let mut groups: Vec<RequestGroup> = Vec::new();
    for group in default.into_iter().chain(asked) {
        let known = group.members.iter().all(|new| {
            groups
                .iter()
                .flat_map(|group| &group.members)
                .any(|old| old.name == new.name)
        });
        if !known {
            groups.push(group);
        }
    }
    // Counted in groups of their own, whatever else counts the same events.
    groups.extend(metrics.groups());
    let (resources, events): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| {
        group.metric.is_none() && group.members.iter().all(|wanted| !wanted.is_event())
    });
    let mut fixed: Vec<EventRequest> = if args.only {
        Vec::new()
    } else {
        RESOURCES.into_iter().map(EventRequest::resource).collect()
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
        notes: in_user_mode.into_iter().collect(),
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
    let fixed = RequestGroup {
        members: fixed,
        metric: None,
    };
    let batches = if args.multiplex || native.is_empty() {
        vec![native]
    } else {
        let anchor: Vec<RequestGroup> = native
            .iter()
            .filter(|group| {
                group
                    .members
                    .iter()
                    .any(|wanted| wanted.name.starts_with("instructions"))
            })
            .take(1)
            .cloned()
            .collect();
        let rest: Vec<RequestGroup> = native
            .iter()
            .filter(|group| !anchor.iter().any(|anchor| anchor.same(group)))
            .cloned()
            .collect();
        plan_batches(&anchor, &rest, |groups| source.fits(groups))
    };
    if batches.len() > 1 {
        plan.notes.push(format!(
            "The events do not fit the counters at once: {} batches take turns over the rounds.",
            batches.len()
        ));
    }
    plan.batches = batches
        .into_iter()
        .map(|mut batch| {
            batch.push(fixed.clone());
            batch
        })
        .collect();
    Ok(plan)
}
