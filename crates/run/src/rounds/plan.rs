//! What is counted in which run: resources in every native run, events in batches that fit the
//! counters, and exact counts in runs of their own.

use std::path::PathBuf;

use truecount_events::Machine;
use truecount_model::{Reading, SourceKind};
use truecount_stats::plan_batches;

use super::metrics::Metrics;
use super::result::{Map, Metric};
use crate::error::{Error, ErrorKind};
use crate::metrics::Asked;
use crate::request::{self, EventRequest, RequestGroup, Resource};
use crate::source::{Native, Source, Target, counts_here, needs_hardware};

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

/// What the user asks to be measured.
pub struct Request<'a> {
    /// Events beside the default ones, as `-e` takes them.
    pub events: &'a [String],
    /// Metrics, as `-M` takes them.
    pub metrics: &'a [String],
    /// Files with further metrics.
    pub metrics_files: &'a [PathBuf],
    /// More than the default ones.
    pub detailed: bool,
    /// Nothing but what is named.
    pub only: bool,
    /// Let the kernel rotate counters instead of measuring in batches.
    pub multiplex: bool,
}

/// What is measured and how.
pub struct Plan {
    /// One list of groups for each batch of native runs.
    pub batches: Vec<Vec<RequestGroup>>,
    /// What the engine counts in its own runs.
    pub engine: Vec<RequestGroup>,
    /// Every metric in the order shown.
    wanted: Vec<EventRequest>,
    /// Metrics that nobody can count here.
    missing: Vec<Reading>,
    /// What the reader should know.
    pub notes: Vec<String>,
    kind: SourceKind,
    /// What `-M` asks for.
    pub(super) metrics: Metrics,
}

impl Plan {
    /// An empty collection that already knows what is missing and why.
    pub fn metrics(&self) -> Map<Metric> {
        let mut collected = Map::room(&self.wanted);
        collected.add(0, &self.missing);
        let batches = self.batches.iter().map(Vec::as_slice);
        let runs: Vec<&[RequestGroup]> = batches.chain([self.engine.as_slice()]).collect();
        self.metrics.announce(&mut collected, &runs);
        collected
    }

    /// Decides it.
    ///
    /// # Errors
    /// A name that nothing has, or nothing to measure.
    pub fn new(
        args: &Request<'_>,
        source: &mut dyn Source,
        machine: &Machine,
    ) -> Result<Self, Error> {
        if args.only && args.events.is_empty() && args.metrics.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "--only: nothing to measure")
                .hint("name it with -e or -M"));
        }
        let kind = source.kind();
        let asked = Asked::new(args.metrics, args.metrics_files, machine, &*source)?;
        let metrics = Metrics {
            asked,
            ..Metrics::default()
        };
        let mut groups = events_of(args, &*source, machine)?;
        // Counted in groups of their own, whatever else counts the same events.
        groups.extend(metrics.asked.groups());
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

    /// The source of the native runs.
    pub(super) fn native(&self) -> Native {
        match self.kind {
            SourceKind::Hardware => Native::hardware(),
            _ => Native::software(),
        }
    }
}

/// The events of `-e` and those counted without it, each once.
fn events_of(
    args: &Request<'_>,
    source: &dyn Source,
    machine: &Machine,
) -> Result<Vec<RequestGroup>, Error> {
    let mut asked = if args.events.is_empty() {
        Vec::new()
    } else {
        request::resolve(&args.events.join(","), machine, true)?
    };
    // The name that is shown says `:u`.
    let _ = request::in_user_mode(&mut asked, machine, |wanted| {
        counts_here(source, wanted, true)
    });
    let default = match source.kind() {
        _ if args.only => Vec::new(),
        SourceKind::Hardware if args.detailed => request::resolve(DETAILED_EVENTS, machine, true)?,
        SourceKind::Hardware => request::resolve(DEFAULT_EVENTS, machine, true)?,
        _ => {
            let events = source.default_events(Target::Command);
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
