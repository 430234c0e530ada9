//! Which perf events are counted on every CPU, and on which group of them each metric rests.
//!
//! The metrics are data of `truecount-events`: IPC, cache MPKI, and top-down level 1 where somebody published how this
//! CPU counts it. Their events are placed in groups that the PMU takes, which is asked of the kernel.

use truecount_events::metrics::{Context, Metrics, Pack, names_of};
use truecount_events::{Cpus, Encoding, Machine, resolve};
use truecount_perf::probe::silent;
use truecount_perf::{Event, EventAttr, GroupReading, OpenOptions, SharedKernel, Target};

/// One event of a group: an encoding for each kind of core.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedEvent {
    /// As the metrics call it.
    pub expression: String,
    /// Its group; the first event of a group leads.
    pub group: usize,
    /// Where it is opened how.
    pub encodings: Vec<(Cpus, Encoding)>,
}

impl PlannedEvent {
    /// The encoding on this CPU.
    #[must_use]
    pub fn on(&self, cpu: u32) -> Option<&Encoding> {
        self.encodings
            .iter()
            .find_map(|(cpus, encoding)| match cpus {
                Cpus::Any => Some(encoding),
                Cpus::Core(list) => list.contains(&cpu).then_some(encoding),
                Cpus::Package(_) => None,
            })
    }
}

/// Why a metric is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is in every table: IPC, cache misses.
    General,
    /// A share of top-down level 1.
    Topdown,
    /// The user asked for it.
    Asked,
}

/// A metric and the groups that hold its events.
#[derive(Debug, Clone)]
pub struct PlannedMetric {
    /// The pack's name of it.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// What it means.
    pub about: String,
    /// Index in [`Plan::packs`].
    pub pack: usize,
    /// Groups that it is computed from.
    pub groups: Vec<usize>,
    /// Which column it is.
    pub role: Role,
}

/// What a whole socket counts by an uncore PMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uncore {
    /// Energy of the package, in joules.
    Energy,
    /// Bytes read from memory.
    Read,
    /// Bytes written to memory.
    Written,
}

/// An uncore event: opened on the CPUs that its PMU names.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedUncore {
    /// What it is.
    pub what: Uncore,
    /// Its name.
    pub name: String,
    /// How it is opened.
    pub encoding: Encoding,
    /// One CPU of each socket.
    pub cpus: Vec<u32>,
    /// Factor from the count to joules or bytes.
    pub scale: f64,
}

/// Everything to be counted.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Packs that the metrics are from.
    pub packs: Vec<Pack>,
    /// All events, group by group.
    pub events: Vec<PlannedEvent>,
    /// Metrics of the cores: `ipc`, `cache-mpki`, and those of top-down level 1.
    pub metrics: Vec<PlannedMetric>,
    /// Events of sockets.
    pub uncore: Vec<PlannedUncore>,
    /// Why there is no top-down.
    pub no_topdown: Option<String>,
    /// What is known without counting.
    pub context: Context,
}

/// Software events counted on each CPU, in groups of their own.
pub const SWITCHES: &str = "context-switches";
/// See [`SWITCHES`].
pub const FAULTS: &str = "page-faults";
/// The event of which the frequency is computed.
pub const CYCLES: &str = "cycles";

impl Plan {
    /// For this CPU and this kernel; `asked` are further metrics, by pack. Groups are tried on `cpu`.
    #[must_use]
    pub fn new(
        machine: &Machine,
        context: Context,
        kernel: &SharedKernel,
        cpu: u32,
        asked: &[(Pack, Vec<String>)],
    ) -> Self {
        let mut plan = Self {
            context,
            ..Self::default()
        };
        for name in [SWITCHES, FAULTS] {
            plan.add_group(&[name], machine);
        }
        let metrics = Metrics::embedded();
        let names = machine.cpu().map(names_of).unwrap_or_default();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (wanted, role) in [
            (&["ipc", "cache-mpki"][..], Role::General),
            (&["topdown-1"], Role::Topdown),
        ] {
            let mut found: Option<(&Pack, Vec<&str>)> = None;
            for name in wanted {
                match metrics.find(name, &names) {
                    Ok((pack, list)) => match &mut found {
                        Some((_, all)) => all.extend(list),
                        None => found = Some((pack, list)),
                    },
                    Err(_) if role == Role::Topdown => {
                        let who = names.first().copied().unwrap_or("this CPU");
                        plan.no_topdown = Some(format!("no top-down formula for {who}"));
                    }
                    Err(_) => {}
                }
            }
            if let Some((pack, list)) = found {
                plan.add_pack((pack, &list, role), machine, kernel, cpu);
            }
        }
        for (pack, metrics) in asked {
            let new = |name: &&String| {
                let same = |m: &PlannedMetric| {
                    m.name == **name && plan.packs.get(m.pack).is_some_and(|p| p.name == pack.name)
                };
                !plan.metrics.iter().any(same)
            };
            let list: Vec<&str> = metrics.iter().filter(new).map(String::as_str).collect();
            plan.add_pack((pack, &list, Role::Asked), machine, kernel, cpu);
        }
        plan.add_uncore(machine);
        plan
    }

    fn add_pack(
        &mut self,
        (pack, metrics, role): (&Pack, &[&str], Role),
        machine: &Machine,
        kernel: &SharedKernel,
        cpu: u32,
    ) {
        let mut fits = |events: &[&str]| {
            let encodings: Vec<Encoding> = events
                .iter()
                .filter_map(|event| planned(event, 0, machine)?.on(cpu).cloned())
                .collect();
            fits(kernel, &encodings, cpu)
        };
        let mut pack = pack.clone();
        pack.try_witnesses(|event| {
            planned(event, 0, machine)
                .and_then(|event| event.on(cpu).cloned())
                .is_some_and(|encoding| silent(kernel, &attribute(&encoding)))
        });
        let placed = pack.place(metrics, &self.context, &mut fits);
        let first: Vec<Option<usize>> = placed
            .groups
            .iter()
            .map(|events| self.add_group(events, machine))
            .collect();
        let index = self.packs.len();
        for (name, groups) in metrics.iter().zip(&placed.metrics) {
            let Some(metric) = pack.metric(name) else {
                continue;
            };
            self.metrics.push(PlannedMetric {
                name: metric.name.clone(),
                unit: metric.unit.clone(),
                about: metric.about.clone(),
                pack: index,
                role,
                groups: groups
                    .iter()
                    .filter_map(|&at| first.get(at).copied().flatten())
                    .collect(),
            });
        }
        self.packs.push(pack);
    }

    /// Adds a group; events that this machine cannot name are left out, and the metric says that they are missing.
    fn add_group(&mut self, events: &[&str], machine: &Machine) -> Option<usize> {
        let group = self.events.last().map_or(0, |event| event.group + 1);
        let before = self.events.len();
        let planned = events.iter().filter_map(|e| planned(e, group, machine));
        self.events.extend(planned);
        (self.events.len() > before).then_some(group)
    }

    fn add_uncore(&mut self, machine: &Machine) {
        // Names of the kernel's own `events/` (arch/x86/events/rapl.c, intel/uncore_snbep.c, intel/uncore_snb.c), which
        // say their unit. AMD's memory controllers (Zen 4 and later: arch/x86/events/amd/uncore.c) have none: CAS
        // commands, of 64 bytes each (`umc_mem_read_bandwidth` of Linux's amdzen4 and amdzen5 tables).
        const LINE: Option<f64> = Some(64.0);
        let rows = [
            (Uncore::Energy, "power/energy-pkg/", None),
            (Uncore::Read, "uncore_imc/cas_count_read/", None),
            (Uncore::Written, "uncore_imc/cas_count_write/", None),
            (Uncore::Read, "uncore_imc/data_reads/", None),
            (Uncore::Written, "uncore_imc/data_writes/", None),
            (Uncore::Read, "uncore_imc_free_running/data_read/", None),
            (Uncore::Written, "uncore_imc_free_running/data_write/", None),
            (Uncore::Read, "amd_umc/event=0x0a,rdwrmask=0x1/", LINE),
            (Uncore::Written, "amd_umc/event=0x0a,rdwrmask=0x2/", LINE),
        ];
        for (what, expression, bytes) in rows {
            if self.uncore.iter().any(|known| known.what == what) {
                continue;
            }
            let Ok(resolved) = resolve(expression, machine) else {
                continue;
            };
            for event in resolved.groups.into_iter().flat_map(|group| group.events) {
                let Some(encoding) = event.encoding() else {
                    continue;
                };
                let factor = match (what, event.unit.as_str(), bytes) {
                    (_, _, Some(bytes)) => bytes,
                    (Uncore::Energy, "Joules", _) => 1.0,
                    (Uncore::Read | Uncore::Written, "MiB", _) => 1_048_576.0,
                    _ => continue,
                };
                let Cpus::Package(cpus) = &event.cpus else {
                    continue;
                };
                self.uncore.push(PlannedUncore {
                    what,
                    name: event.name.clone(),
                    encoding: encoding.clone(),
                    cpus: cpus.clone(),
                    scale: event.scale * factor,
                });
            }
        }
    }

    /// The index of an event in a group.
    #[must_use]
    pub fn event(&self, expression: &str, group: Option<usize>) -> Option<usize> {
        self.events.iter().position(|event| {
            event.expression == expression && group.is_none_or(|group| event.group == group)
        })
    }
}

fn planned(expression: &str, group: usize, machine: &Machine) -> Option<PlannedEvent> {
    let resolved = resolve(expression, machine).ok()?;
    let encodings: Vec<(Cpus, Encoding)> = resolved
        .events()
        .filter_map(|event| Some((event.cpus.clone(), event.encoding()?.clone())))
        .collect();
    (!encodings.is_empty()).then(|| PlannedEvent {
        expression: expression.to_owned(),
        group,
        encodings,
    })
}

/// The attributes of a counting event.
pub(crate) fn attribute(encoding: &Encoding) -> EventAttr {
    EventAttr::from(encoding).read_times()
}

/// Whether the CPU's PMU counts these at the same time: by opening them there and letting them run for a moment.
/// Where the first cannot be opened at all there is nothing to decide.
fn fits(kernel: &SharedKernel, encodings: &[Encoding], cpu: u32) -> bool {
    let mut open: Vec<Event> = Vec::new();
    for encoding in encodings {
        let attr = attribute(encoding).read_group().disabled(open.is_empty());
        let options = OpenOptions {
            leader: open.first(),
            ..OpenOptions::default()
        };
        match Event::try_open(kernel, &attr, Target::Cpu(cpu), options) {
            Ok(event) => open.push(event),
            Err(_) if open.is_empty() => return true,
            Err(_) => return false,
        }
    }
    let Some(leader) = open.first() else {
        return true;
    };
    let mut reading = GroupReading::with_room_for(open.len());
    let ran = leader.enable().is_ok() && {
        // A CPU-wide event is scheduled in by an interrupt to that CPU: give it a moment.
        std::thread::sleep(std::time::Duration::from_micros(300));
        leader.read_group(&mut reading).is_ok()
    };
    ran && reading.times().is_some_and(|times| times.running > 0)
}
