//! What a command line asks to be measured: events and the resources that the kernel accounts.
//!
//! Event expressions are resolved by `truecount-events`; this module adds the names that only a
//! run of a program has (`max-rss`) and says which resource stands in for a software event.

use std::sync::Arc;

use truecount_events::{Event, Expression, GroupExpr, Head, Kind, Machine, Modifiers, Special};

use truecount_engine::xlate::facts::Event as StaticEvent;

use crate::cgroup::Cgroup;
use crate::error::{Error, ErrorKind};
use crate::references::MemoryEvent;
use crate::result::{RunResult, Usage};

/// A quantity of `wait4`, or the wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// From start to end.
    Wall,
    /// CPU time in user mode.
    User,
    /// CPU time in the kernel.
    System,
    /// Both CPU times.
    CpuTime,
    /// Peak resident memory of the largest process.
    MaxRss,
    /// Page faults of both kinds.
    PageFaults,
    /// Page faults served without input or output.
    MinorFaults,
    /// Page faults that read from a device.
    MajorFaults,
    /// Times the CPU was given up or taken away.
    ContextSwitches,
}

impl Resource {
    const ALL: [Self; 9] = [
        Self::Wall,
        Self::User,
        Self::System,
        Self::CpuTime,
        Self::MaxRss,
        Self::PageFaults,
        Self::MinorFaults,
        Self::MajorFaults,
        Self::ContextSwitches,
    ];

    /// The name of the metric.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall-time",
            Self::User => "user-time",
            Self::System => "system-time",
            Self::CpuTime => "cpu-time",
            Self::MaxRss => "max-rss",
            Self::PageFaults => "page-faults",
            Self::MinorFaults => "minor-faults",
            Self::MajorFaults => "major-faults",
            Self::ContextSwitches => "context-switches",
        }
    }

    /// `ns`, `bytes` or `count`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Wall | Self::User | Self::System | Self::CpuTime => "ns",
            Self::MaxRss => "bytes",
            _ => "count",
        }
    }

    fn find(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|resource| resource.name() == name)
    }

    /// The value of a run; `None` where the kernel did not tell what the command used.
    pub fn of(self, run: &RunResult) -> Option<u64> {
        let Usage {
            user_ns,
            system_ns,
            max_rss,
            minor_faults,
            major_faults,
            voluntary_switches,
            involuntary_switches,
        } = run.usage?;
        Some(match self {
            Self::Wall => run.wall_ns,
            Self::User => user_ns,
            Self::System => system_ns,
            Self::CpuTime => user_ns.saturating_add(system_ns),
            Self::MaxRss => max_rss,
            Self::PageFaults => minor_faults.saturating_add(major_faults),
            Self::MinorFaults => minor_faults,
            Self::MajorFaults => major_faults,
            Self::ContextSwitches => voluntary_switches.saturating_add(involuntary_switches),
        })
    }

    /// The resource that tells the same as a software event without filter.
    pub fn for_event(name: &str) -> Option<Self> {
        match name {
            "task-clock" => Some(Self::CpuTime),
            "page-faults" | "minor-faults" | "major-faults" | "context-switches" => {
                Self::find(name)
            }
            _ => None,
        }
    }
}

/// One metric that was asked for.
#[derive(Debug, Clone)]
pub struct EventRequest {
    /// Canonical name with filter.
    pub name: String,
    /// Unit of the scaled value.
    pub unit: String,
    /// Factor from the count to the unit.
    pub scale: f64,
    /// How to get it.
    pub what: What,
    /// Only of what runs in this control group.
    pub cgroup: Option<Arc<Cgroup>>,
}

/// How a metric is obtained.
#[derive(Debug, Clone)]
pub enum What {
    /// From the end of the process.
    Resource(Resource),
    /// From a source of events.
    Event(Box<Event>),
    /// A property of the program's instructions that has no generic hardware name: `calls:u`.
    Static(StaticEvent),
    /// An exact fact about the program's memory references, or what a model makes of them: `load-bytes`.
    Memory(MemoryEvent),
}

impl EventRequest {
    /// A resource.
    pub fn resource(resource: Resource) -> Self {
        Self {
            name: resource.name().to_owned(),
            unit: resource.unit().to_owned(),
            scale: 1.0,
            what: What::Resource(resource),
            cgroup: None,
        }
    }

    fn static_event(event: StaticEvent) -> Self {
        Self {
            name: format!("{}:u", event.name()),
            unit: "count".to_owned(),
            scale: 1.0,
            what: What::Static(event),
            cgroup: None,
        }
    }

    pub(crate) fn memory(event: MemoryEvent) -> Self {
        Self {
            name: format!("{}:u", event.name()),
            unit: "count".to_owned(),
            scale: 1.0,
            what: What::Memory(event),
            cgroup: None,
        }
    }

    fn event(event: Event) -> Self {
        Self {
            name: event.name.clone(),
            unit: event.unit.clone(),
            scale: event.scale,
            what: What::Event(Box::new(event)),
            cgroup: None,
        }
    }

    /// The event, unless it is a resource.
    pub fn as_event(&self) -> Option<&Event> {
        match &self.what {
            What::Event(event) => Some(event),
            What::Resource(_) | What::Static(_) | What::Memory(_) => None,
        }
    }

    /// It is an event, not a resource.
    pub fn is_event(&self) -> bool {
        !matches!(self.what, What::Resource(_))
    }
}

/// Metrics to be counted at the same time; one outside braces is a group of its own.
#[derive(Debug, Clone)]
pub struct RequestGroup {
    /// The metrics.
    pub members: Vec<EventRequest>,
    /// The number of the group of `-M` that this is; `None`: it was asked for by itself.
    pub metric: Option<usize>,
}

impl RequestGroup {
    /// Whether both name the same metrics.
    pub fn same(&self, other: &Self) -> bool {
        let names = |group: &Self| -> Vec<String> {
            group
                .members
                .iter()
                .map(|wanted| wanted.name.clone())
                .collect()
        };
        self.metric == other.metric && names(self) == names(other)
    }
}

/// Resolves an event expression. `prefer_resources` takes what `wait4` tells anyhow from there,
/// without opening a software event for it.
///
/// # Errors
/// Status 2 with the place and near names.
pub fn resolve(
    expression: &str,
    machine: &Machine,
    prefer_resources: bool,
) -> Result<Vec<RequestGroup>, Error> {
    let wrong = |error: truecount_events::Error| Error::new(ErrorKind::Usage, error.to_string());
    let parsed = truecount_events::parse(expression).map_err(wrong)?;
    let mut groups = Vec::new();
    for group in parsed.groups.into_iter().flat_map(apart) {
        if let Some(event) = static_event(&group)? {
            groups.push(RequestGroup {
                members: vec![EventRequest::static_event(event)],
                metric: None,
            });
            continue;
        }
        if let Some(event) = memory_event(&group)? {
            groups.push(RequestGroup {
                members: vec![EventRequest::memory(event)],
                metric: None,
            });
            continue;
        }
        // `max-rss` is a property of a process, no event: it is known here only.
        let own = match group.events.as_slice() {
            [event] if event.modifiers.is_empty() => match &event.head {
                Head::Name(name) => Resource::find(name).filter(|&resource| {
                    prefer_resources || matches!(resource, Resource::MaxRss | Resource::CpuTime)
                }),
                _ => None,
            },
            _ => None,
        };
        if let Some(resource) = own {
            groups.push(RequestGroup {
                members: vec![EventRequest::resource(resource)],
                metric: None,
            });
            continue;
        }
        let one = Expression {
            groups: vec![group],
        };
        let resolved =
            truecount_events::resolve_parsed(&one, expression, machine).map_err(wrong)?;
        for group in resolved.groups {
            groups.push(RequestGroup {
                members: group.events.into_iter().map(of_event).collect(),
                metric: None,
            });
        }
    }
    Ok(groups)
}

/// Makes events without a modifier (`instructions`, `page-faults`, `cpu/event=0xc0/`) those of user mode where `counts`
/// refuses them and takes these, as perf does: the first thing that a user of perf types has an answer. The note says so.
pub fn in_user_mode(
    groups: &mut [RequestGroup],
    machine: &Machine,
    counts: impl Fn(&EventRequest) -> bool,
) -> Option<String> {
    let mut changed: Vec<String> = Vec::new();
    let members = groups.iter_mut().flat_map(|group| &mut group.members);
    for member in members {
        let named = match member.name.strip_suffix('/') {
            Some(_) => format!("{}u", member.name),
            None if member.name.contains(['/', ':']) => continue,
            None => format!("{}:u", member.name),
        };
        if member.as_event().is_none() || counts(member) {
            continue;
        }
        let Ok(resolved) = resolve(&named, machine, false) else {
            continue;
        };
        let user = resolved.into_iter().flat_map(|group| group.members).next();
        if let Some(user) = user.filter(|user| counts(user)) {
            changed.push(named);
            *member = user;
        }
    }
    (!changed.is_empty()).then(|| {
        format!(
            "Only user mode can be counted here: {} was asked for without :u.",
            changed.join(", ")
        )
    })
}

/// The static event of this name, unless it has a generic hardware name too.
fn static_name(head: &Head) -> Option<StaticEvent> {
    let Head::Name(name) = head else { return None };
    StaticEvent::ALL.into_iter().find(|event| {
        !matches!(event, StaticEvent::Instructions | StaticEvent::Branches) && event.name() == name
    })
}

fn memory_name(head: &Head) -> Option<MemoryEvent> {
    let Head::Name(name) = head else { return None };
    let mut events = MemoryEvent::ALL.iter().copied();
    events.find(|event| event.name() == name)
}

/// The event of memory that a group of one names: of user mode, whether it says so or not.
fn memory_event(group: &GroupExpr) -> Result<Option<MemoryEvent>, Error> {
    let [event] = group.events.as_slice() else {
        return Ok(None);
    };
    let Some(found) = memory_name(&event.head) else {
        return Ok(None);
    };
    let user = Modifiers {
        user: true,
        ..Modifiers::default()
    };
    if event.modifiers == user || event.modifiers.is_empty() {
        return Ok(Some(found));
    }
    let name = found.name();
    let cause = format!("`{name}` is known of user mode only");
    Err(Error::new(ErrorKind::Usage, cause).hint(format!("write {name}")))
}

/// A group with static events falls apart: their source counts everything at once.
fn apart(group: GroupExpr) -> Vec<GroupExpr> {
    let any = group
        .events
        .iter()
        .any(|event| static_name(&event.head).is_some() || memory_name(&event.head).is_some());
    if !group.braces || !any {
        return vec![group];
    }
    let outer = group.modifiers;
    group
        .events
        .into_iter()
        .map(|mut event| {
            if event.modifiers.is_empty() {
                event.modifiers = outer;
            }
            GroupExpr {
                span: event.span,
                events: vec![event],
                braces: false,
                modifiers: Modifiers::default(),
            }
        })
        .collect()
}

/// The static event that a group of one names; it needs the filter `:u`.
fn static_event(group: &GroupExpr) -> Result<Option<StaticEvent>, Error> {
    let [event] = group.events.as_slice() else {
        return Ok(None);
    };
    let Some(found) = static_name(&event.head) else {
        return Ok(None);
    };
    let user = Modifiers {
        user: true,
        ..Modifiers::default()
    };
    if event.modifiers == user {
        return Ok(Some(found));
    }
    let name = found.name();
    Err(Error::new(
        ErrorKind::Usage,
        format!("`{name}` is counted in user mode only"),
    )
    .hint(format!("write {name}:u")))
}

/// Clocks among the special kinds are resources.
pub fn of_event(event: Event) -> EventRequest {
    match event.kind {
        Kind::Special(Special::WallTime) => EventRequest::resource(Resource::Wall),
        Kind::Special(Special::UserTime) => EventRequest::resource(Resource::User),
        Kind::Special(Special::SystemTime) => EventRequest::resource(Resource::System),
        _ => EventRequest::event(event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(expression: &str) -> Vec<Vec<String>> {
        resolve(expression, &Machine::unknown(), true)
            .unwrap()
            .into_iter()
            .map(|group| {
                group
                    .members
                    .into_iter()
                    .map(|wanted| wanted.name)
                    .collect()
            })
            .collect()
    }

    #[test]
    fn resources_and_events_mix() {
        assert_eq!(
            names("max-rss,{instructions,branches}:u,wall-time,page-faults"),
            [
                vec!["max-rss"],
                vec!["instructions:u", "branches:u"],
                vec!["wall-time"],
                vec!["page-faults"]
            ]
        );
    }

    #[test]
    fn static_events_stand_alone_and_need_user_mode() {
        assert_eq!(
            names("{instructions,loads}:u,calls:u"),
            [["instructions:u"], ["loads:u"], ["calls:u"]]
        );
        let failure = resolve("stores", &Machine::unknown(), true).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Usage);
        assert!(failure.to_string().contains("stores:u"));
    }

    #[test]
    fn an_unknown_event_is_status_2_with_near_names() {
        let failure = resolve("instrutions:u", &Machine::unknown(), true).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Usage);
        assert!(failure.to_string().contains("instructions"));
    }
}
