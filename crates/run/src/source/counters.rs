//! Kernel counters on a process, a new process or the whole machine.
//!
//! Every event has a descriptor of its own, also inside a group: reading a group at once is not
//! allowed together with `inherit` on kernels before 6.13 (`perf_event_alloc` in
//! `kernel/events/core.c`), and a group is scheduled as one whichever way it is read.

use std::hint::black_box;

use truecount::Subtraction;
use truecount_events::{Cpus, Encoding, Event, Kind, Machine, generic, irq};
use truecount_perf::{
    Errno, Event as Counter, EventAttr, GroupReading, OpenOptions, SharedKernel, Target as Where,
    linux,
};

use super::place::Place;
use super::slot::{Slot, SlotRead, read_all};
use super::{Part, Reason, Source};
use crate::error::Error;
use crate::request::{EventRequest, RequestGroup, What};
use truecount_model::{Reading, SourceKind};

/// Whether the metric needs the CPU's counters (or an uncore PMU's, or the virtual one).
pub fn needs_hardware(wanted: &EventRequest) -> bool {
    match &wanted.what {
        What::Event(event) => match &event.kind {
            Kind::Perf(encoding) => !is_software(encoding),
            Kind::Special(special) => special.needs_pmu(),
        },
        What::Static(_) | What::Memory(_) => true,
        What::Resource(_) => false,
    }
}

fn is_software(encoding: &Encoding) -> bool {
    matches!(
        encoding.type_,
        generic::TYPE_SOFTWARE | generic::TYPE_TRACEPOINT
    )
}

/// Whether the CPU's counters can be used: by opening one.
pub fn hardware_available() -> Result<(), Reason> {
    hardware_available_on(&linux())
}

/// As [`hardware_available`], on any kernel.
///
/// # Errors
/// Why not.
pub fn hardware_available_on(kernel: &SharedKernel) -> Result<(), Reason> {
    let mut first = None;
    // Instructions, cycles: a PMU without either is of no use here.
    for config in [1, 0] {
        let attr = EventAttr::new(generic::TYPE_HARDWARE, config)
            .exclude_kernel(true)
            .exclude_hv(true);
        match Counter::open_with(kernel, &attr, Where::CallingThread, OpenOptions::default()) {
            Ok(_) => return Ok(()),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.map_or_else(|| Reason::new("no PMU"), |error| for_any_event(&error)))
}

/// Why an event of user mode, which needs least, cannot be counted: what else is asked for may need a lower level.
fn for_any_event(error: &truecount_perf::Error) -> Reason {
    const LEAST: &str = "kernel.perf_event_paranoid=2";
    const EACH: &str = "kernel.perf_event_paranoid=2 (1 to count in the kernel, 0 for whole CPUs)";
    let hint = error.hint().to_string().replacen(LEAST, EACH, 1);
    Reason::new(error.reason()).hint(hint)
}

/// Whether this user may count the kernel's part of a program too (perf_event_paranoid, capabilities): by trying.
pub fn kernel_mode_allowed() -> bool {
    // PERF_COUNT_SW_DUMMY: every kernel has it, and asks for the same right as for any event.
    let attr = EventAttr::new(generic::TYPE_SOFTWARE, 9);
    Counter::open_with(
        &linux(),
        &attr,
        Where::CallingThread,
        OpenOptions::default(),
    )
    .is_ok()
}

fn reason(error: &truecount_perf::Error) -> Reason {
    Reason::new(error.reason()).hint(error.hint())
}

/// The attribute for an encoding, counting only.
fn attribute(encoding: &Encoding) -> EventAttr {
    EventAttr::from(encoding).read_times()
}

/// The perf events of which a metric is made: the first counts, the second is subtracted.
fn parts(event: &Event) -> Result<(Encoding, Option<Encoding>), Reason> {
    let special = match &event.kind {
        Kind::Perf(encoding) if encoding.never_counts() => {
            let plain = event.name.split(':').next().unwrap_or(&event.name);
            return Err(Reason::new(
                "it happens in the kernel, which :u leaves out: it would always be 0",
            )
            .hint(format!(
                "use {plain} (kernel.perf_event_paranoid at most 1, or CAP_PERFMON)"
            )));
        }
        Kind::Perf(encoding) => return Ok((encoding.clone(), None)),
        Kind::Special(special) => *special,
    };
    if !special.needs_pmu() {
        return Err(Reason::new(format!(
            "{} cannot be counted around a whole command",
            special.name()
        )));
    }
    let interrupts = irq::subtracted(special, &Machine::this())
        .map_err(|cause| Reason::new(cause).hint("use instructions:u"))?;
    // Nothing is subtracted that was not seen to be added: the library tries it, once a process.
    let needed = truecount::subtraction(special)
        .map_err(|error| Reason::new(error.to_string()).hint("use instructions:u"))?;
    let user = |type_, config| Encoding {
        type_,
        config,
        exclude_kernel: true,
        exclude_hv: true,
        ..Encoding::default()
    };
    Ok((
        user(generic::TYPE_HARDWARE, 1),
        (needed == Subtraction::Right).then(|| user(generic::TYPE_RAW, interrupts.config)),
    ))
}

/// Opened counters, one slot for each event in the order asked.
pub struct Counters {
    slots: Vec<Slot>,
}

impl Counters {
    /// Opens what can be opened; each event that cannot keeps its reason.
    /// `begun`: they count from the first moment on, else from when they are switched on.
    pub fn open(
        source: &dyn Source,
        groups: &[RequestGroup],
        place: Place,
        begun: bool,
    ) -> Result<Self, Error> {
        let kernel = linux();
        let machine = Machine::this();
        let targets = place.targets()?;
        let mut slots = Vec::new();
        for group in groups {
            let first = slots.len();
            for (wanted, event) in events(group) {
                let software = matches!(&event.kind, Kind::Perf(encoding) if is_software(encoding));
                slots.push(Slot {
                    name: wanted.name.clone(),
                    unit: wanted.unit.clone(),
                    scale: wanted.scale,
                    source: if software {
                        SourceKind::Software
                    } else {
                        SourceKind::Hardware
                    },
                    plus: Vec::new(),
                    minus: Vec::new(),
                    reason: source.counts(wanted).err(),
                    core_pmu: match &event.cpus {
                        Cpus::Core(_) => event.pmu.clone(),
                        Cpus::Any | Cpus::Package(_) => None,
                    },
                    unlisted: event.encoding().and_then(|e| machine.unlisted(e)),
                });
            }
            let opened = slots.get_mut(first..).unwrap_or_default();
            for &target in &targets {
                open_group(&kernel, group, opened, (place, begun), target);
            }
        }
        let counters = Self { slots };
        if begun && !matches!(place, Place::NewProcess(_)) {
            counters.switch(true, None);
        }
        Ok(counters)
    }

    /// Switches the events of this name on or off, or all; `false`: there is none of this name.
    pub fn switch(&self, on: bool, name: Option<&str>) -> bool {
        // Who asked for page-faults switches them by that name, whatever is counted of them.
        let called = |slot: &Slot, name: &str| {
            slot.name == name || slot.name.strip_suffix(":u") == Some(name)
        };
        let named = |slot: &&Slot| name.is_none_or(|name| called(slot, name));
        for slot in self.slots.iter().filter(named) {
            for counter in slot.plus.iter().chain(&slot.minus) {
                // An event that cannot be enabled reads as never having run, which is reported.
                let _ = if on {
                    counter.enable()
                } else {
                    counter.disable()
                };
            }
        }
        name.is_none() || self.slots.iter().any(|slot| named(&slot))
    }

    /// What was counted so far: of all, and on these CPUs of each part.
    pub fn read(&self, parts: &[Part]) -> (Vec<Reading>, Vec<Vec<Reading>>) {
        // Each is read once: counters of CPUs go on meanwhile, and parts shall add up to the whole.
        let read: Vec<(&Slot, SlotRead<'_>)> = self
            .slots
            .iter()
            .map(|slot| (slot, [read_all(&slot.plus), read_all(&slot.minus)]))
            .collect();
        let on = |cpus: Option<&[u32]>| -> Vec<Reading> {
            let readings = read.iter().map(|(slot, read)| slot.reading(read, cpus));
            readings.collect()
        };
        let parts = parts.iter().map(|part| on(Some(&part.cpus))).collect();
        (on(None), parts)
    }
}

fn events(group: &RequestGroup) -> impl Iterator<Item = (&EventRequest, &Event)> {
    group
        .members
        .iter()
        .filter_map(|wanted| wanted.as_event().map(|event| (wanted, event)))
}

/// Opens the events of one group at one place, the first that opens leading the others.
fn open_group(
    kernel: &SharedKernel,
    group: &RequestGroup,
    slots: &mut [Slot],
    (place, begun): (Place, bool),
    target: Where,
) {
    // The leader's slot: its descriptor is the last one opened in `plus`.
    let mut leader: Option<usize> = None;
    for (index, (wanted, event)) in events(group).enumerate() {
        let allowed = slots.get(index).is_some_and(|slot| slot.reason.is_none());
        if !allowed || !belongs(event, target) {
            if allowed
                && !matches!(target, Where::Cpu(_))
                && let (Cpus::Package(_), Some(slot)) = (&event.cpus, slots.get_mut(index))
            {
                slot.reason = Some(
                    Reason::new("this PMU counts for a whole package, not for one process")
                        .hint("add -a to count the machine"),
                );
            }
            continue;
        }
        let target = match (&wanted.cgroup, target) {
            (Some(cgroup), Where::Cpu(cpu)) => Where::Cgroup {
                fd: cgroup.fd(),
                cpu,
            },
            _ => target,
        };
        let (plus, minus) = match parts(event) {
            Ok(parts) => parts,
            Err(reason) => {
                if let Some(slot) = slots.get_mut(index) {
                    slot.reason = Some(reason);
                }
                continue;
            }
        };
        for (encoding, subtract) in [(Some(plus), false), (minus, true)] {
            let Some(encoding) = encoding else { continue };
            let opened = {
                let lead = leader.and_then(|at| slots.get(at)?.plus.last());
                open_one(kernel, &encoding, (place, begun), target, lead)
            };
            let Some(slot) = slots.get_mut(index) else {
                continue;
            };
            match opened {
                Ok(counter) if subtract => slot.minus.push(counter),
                Ok(counter) => {
                    slot.plus.push(counter);
                    leader = leader.or(Some(index));
                }
                // A thread that ended since it was listed is not a failure.
                Err(error) if error.errno() == Some(Errno::ESRCH) && place_is_process(place) => {}
                Err(error) => {
                    slot.reason = Some(reason(&error));
                    break;
                }
            }
        }
    }
}

fn place_is_process(place: Place) -> bool {
    matches!(place, Place::Process(_))
}

/// Whether an event is to be opened there: an uncore PMU names its CPUs.
fn belongs(event: &Event, target: Where) -> bool {
    match (&event.cpus, target) {
        (Cpus::Any, _) | (Cpus::Core(_), Where::Thread(_)) => true,
        (Cpus::Core(cpus) | Cpus::Package(cpus), Where::Cpu(cpu)) => cpus.contains(&cpu),
        _ => false,
    }
}

fn open_one(
    kernel: &SharedKernel,
    encoding: &Encoding,
    (place, begun): (Place, bool),
    target: Where,
    leader: Option<&Counter>,
) -> Result<Counter, truecount_perf::Error> {
    let attr = attribute(encoding)
        .inherit(!matches!(place, Place::Machine | Place::Cpus(_)))
        .disabled(leader.is_none())
        .enable_on_exec(begun && leader.is_none() && matches!(place, Place::NewProcess(_)));
    let options = OpenOptions {
        leader,
        ..OpenOptions::default()
    };
    let opened = Counter::open_with(kernel, &attr, target, options);
    // The clocks of a task tell the same whatever is excluded, and paranoid kernels let ordinary
    // users open them only without the kernel.
    let clock = encoding.type_ == generic::TYPE_SOFTWARE && encoding.config <= 1;
    match opened {
        Err(_) if clock && !encoding.exclude_kernel => {
            let attr = attr.exclude_kernel(true).exclude_hv(true);
            Counter::open_with(kernel, &attr, target, options)
        }
        opened => opened,
    }
}

/// Whether this user may open the event for a process of their own. What else may be wrong is told when it is opened.
///
/// # Errors
/// The kernel refuses it for want of privilege.
pub fn permitted(kernel: &SharedKernel, event: &Event) -> Result<(), Reason> {
    if !matches!(event.cpus, Cpus::Any) {
        return Ok(());
    }
    let (plus, minus) = parts(event)?;
    for encoding in std::iter::once(&plus).chain(&minus) {
        let place = (Place::NewProcess(0), true);
        let opened = open_one(kernel, encoding, place, Where::CallingThread, None);
        match opened {
            Err(error) if matches!(error.errno(), Some(Errno::EACCES | Errno::EPERM)) => {
                return Err(reason(&error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// With which attributes a new process is counted on this kernel, in the order in which the counters are opened.
///
/// # Errors
/// Why the event cannot be counted.
pub fn attributes_on(kernel: &SharedKernel, event: &Event) -> Result<Vec<EventAttr>, Reason> {
    let (plus, minus) = parts(event)?;
    let open = |encoding: &Encoding| {
        open_one(
            kernel,
            encoding,
            (Place::NewProcess(0), true),
            Where::CallingThread,
            None,
        )
        .map(|counter| *counter.attr())
        .map_err(|error| reason(&error))
    };
    std::iter::once(&plus).chain(&minus).map(open).collect()
}

/// Whether these events can be on the PMU at the same time: by trying on this thread.
pub fn fits(groups: &[RequestGroup]) -> bool {
    fits_on(&linux(), groups)
}

/// As [`fits`], on any kernel.
pub fn fits_on(kernel: &SharedKernel, groups: &[RequestGroup]) -> bool {
    let mut counters: Vec<Counter> = Vec::new();
    for (_, event) in groups.iter().flat_map(events) {
        let Ok((plus, minus)) = parts(event) else {
            continue;
        };
        for encoding in std::iter::once(plus).chain(minus) {
            let attr = attribute(&encoding)
                .read_group()
                .disabled(counters.is_empty());
            let options = OpenOptions {
                leader: counters.first(),
                ..OpenOptions::default()
            };
            match Counter::try_open(kernel, &attr, Where::CallingThread, options) {
                Ok(counter) => counters.push(counter),
                // Unknown alone is not a question of room; the run will say why.
                Err(_) if counters.is_empty() => {}
                Err(_) => return false,
            }
        }
    }
    let Some(leader) = counters.first() else {
        return true;
    };
    let mut reading = GroupReading::with_room_for(counters.len());
    let ran = leader.enable_group().is_ok() && {
        // Long enough for a schedule-in, short enough not to be noticed.
        for i in 0..20_000u32 {
            black_box(i);
        }
        leader.read_group(&mut reading).is_ok()
    };
    ran && reading.times().is_some_and(|times| times.running > 0)
}
