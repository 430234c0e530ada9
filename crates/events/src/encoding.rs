//! What resolving gives: plain numbers for `perf_event_attr`, with the name, unit and filter to show beside a count.

use crate::{Modifiers, Special};

/// The fields of `perf_event_attr` that an expression decides (perf_event_open(2)).
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Encoding {
    /// `type`.
    pub type_: u32,
    /// `config`.
    pub config: u64,
    /// `config1`.
    pub config1: u64,
    /// `config2`.
    pub config2: u64,
    /// `config3` (Linux 6.3).
    pub config3: u64,
    /// Do not count in user mode.
    pub exclude_user: bool,
    /// Do not count in the kernel.
    pub exclude_kernel: bool,
    /// Do not count in the hypervisor.
    pub exclude_hv: bool,
    /// Do not count in the host.
    pub exclude_host: bool,
    /// Do not count in guests.
    pub exclude_guest: bool,
    /// Do not count while the CPU idles.
    pub exclude_idle: bool,
    /// 0 to 3.
    pub precise_ip: u8,
    /// Modifier `P`, or an event whose samples must be precise: the opener tries 3, 2, 1, 0 (for samples; a count has
    /// no precise level).
    pub max_precise: bool,
    /// Always on the PMU, or in the error state.
    pub pinned: bool,
    /// The only group on the PMU.
    pub exclusive: bool,
    /// Samples carry the group's values.
    pub sample_read: bool,
    /// Term `period=`.
    pub period: Option<u64>,
    /// Term `freq=`, in Hz.
    pub frequency: Option<u64>,
}

impl Encoding {
    pub(crate) fn new(type_: u32, words: [u64; 4], modifiers: Modifiers) -> Self {
        let [config, config1, config2, config3] = words;
        let privilege = modifiers.names_privilege();
        let place = modifiers.guest || modifiers.host;
        Self {
            type_,
            config,
            config1,
            config2,
            config3,
            exclude_user: privilege && !modifiers.user,
            exclude_kernel: privilege && !modifiers.kernel,
            exclude_hv: privilege && !modifiers.hypervisor,
            exclude_host: place && !modifiers.host,
            exclude_guest: place && !modifiers.guest,
            exclude_idle: modifiers.exclude_idle,
            precise_ip: modifiers.precise.min(3),
            max_precise: modifiers.max_precise,
            pinned: modifiers.pinned,
            exclusive: modifiers.exclusive,
            sample_read: modifiers.sample_read,
            period: None,
            frequency: None,
        }
    }

    /// Whether nothing can be counted, because the event happens in the kernel and the kernel is left out: switches and
    /// migrations (`kernel/sched/core.c` reports them with the registers of the kernel, which `perf_exclude_event` then
    /// leaves out; `kernel/cgroup` the same).
    #[must_use]
    pub fn never_counts(&self) -> bool {
        // PERF_COUNT_SW_CONTEXT_SWITCHES, _CPU_MIGRATIONS, _CGROUP_SWITCHES
        self.type_ == crate::generic::TYPE_SOFTWARE
            && matches!(self.config, 3 | 4 | 11)
            && self.exclude_kernel
    }

    /// Whether only user mode is counted: what an unprivileged process may open at paranoid level 2.
    #[must_use]
    pub fn user_only(&self) -> bool {
        self.exclude_kernel && self.exclude_hv && !self.exclude_user
    }
}

/// Where a name was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The kernel's generic hardware, software and cache events.
    Generic,
    /// `rNNN`.
    Raw,
    /// Terms between slashes.
    Terms,
    /// The PMU's `events/` in sysfs.
    Sysfs,
    /// A [`Catalogue`](crate::Catalogue) beyond sysfs.
    Table,
    /// tracefs.
    Tracepoint,
    /// A kind of this library.
    Special,
}

/// What to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// One perf event.
    Perf(Encoding),
    /// Something made of events or clocks.
    Special(Special),
}

/// On which CPUs an event can be opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cpus {
    /// On any, and per thread.
    #[default]
    Any,
    /// A core PMU of a hybrid machine (`cpus` in sysfs): per thread, counts only while the thread runs on these.
    Core(Vec<u32>),
    /// An uncore PMU (`cpumask` in sysfs): system-wide only, opened once on each of these.
    Package(Vec<u32>),
}

/// One resolved event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Canonical name with its filter: `instructions:u`, `cpu_core/event=0xc4/u`.
    pub name: String,
    /// As written in the expression, group modifiers not included.
    pub written: String,
    /// What to count.
    pub kind: Kind,
    /// Unit of a scaled count: `count`, `ns`, or what the PMU says (`Joules`, `MiB`).
    pub unit: String,
    /// Factor from a raw count to the unit.
    pub scale: f64,
    /// Where it can be opened.
    pub cpus: Cpus,
    /// The sysfs name of the PMU, if one was named or found.
    pub pmu: Option<String>,
    /// Where the name was found.
    pub origin: Origin,
}

impl Event {
    /// The encoding, unless the event is a special kind.
    #[must_use]
    pub fn encoding(&self) -> Option<&Encoding> {
        match &self.kind {
            Kind::Perf(encoding) => Some(encoding),
            Kind::Special(_) => None,
        }
    }
}

/// Events to be scheduled together; an event outside braces is a group of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// At least one; the first leads.
    pub events: Vec<Event>,
    /// Whether braces were written.
    pub braces: bool,
    /// Modifier `W`: may be split.
    pub weak: bool,
}

/// A resolved expression.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// In the order written.
    pub groups: Vec<Group>,
}

impl Resolved {
    /// All events in the order written.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.groups.iter().flat_map(|group| group.events.iter())
    }
}
