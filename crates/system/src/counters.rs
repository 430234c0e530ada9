//! The perf events, open on every CPU. A CPU that comes online later gets its events at the next reading; events of one
//! that went away keep their last counts, which the kernel holds.

use std::collections::BTreeMap;

use truecount_perf::{Event, OpenOptions, Reading, SharedKernel, Target};

use crate::plan::{Plan, attribute};

/// An event's count and times at one moment, or why there are none.
pub type Read = Result<Reading, String>;

/// Readings of all events at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Readings {
    /// By CPU: one for each of [`Plan::events`].
    pub cpus: BTreeMap<u32, Vec<Read>>,
    /// One for each of [`Plan::uncore`] and each of its CPUs: index, CPU, reading.
    pub uncore: Vec<(usize, u32, Read)>,
}

/// An event of the other kind of core on a hybrid machine.
pub(crate) const OTHER_CORE: &str = "this kind of core does not count it";

/// Open events.
#[derive(Debug)]
pub struct Counters {
    kernel: SharedKernel,
    cpus: BTreeMap<u32, Vec<Result<Event, String>>>,
    uncore: Vec<(usize, u32, Result<Event, String>)>,
}

impl Counters {
    /// Opens the sockets' events; those of CPUs follow with [`Counters::follow`].
    #[must_use]
    pub fn open(kernel: &SharedKernel, plan: &Plan) -> Self {
        let mut uncore = Vec::new();
        for (index, event) in plan.uncore.iter().enumerate() {
            let attr = attribute(&event.encoding);
            for &cpu in &event.cpus {
                let opened =
                    Event::open_with(kernel, &attr, Target::Cpu(cpu), OpenOptions::default());
                uncore.push((index, cpu, opened.map_err(|error| why(&error))));
            }
        }
        Self {
            kernel: kernel.clone(),
            cpus: BTreeMap::new(),
            uncore,
        }
    }

    /// Opens events on the CPUs that have none yet, and closes those of CPUs that are gone.
    pub fn follow(&mut self, plan: &Plan, online: &[u32]) {
        self.cpus.retain(|cpu, _| online.contains(cpu));
        for &cpu in online {
            if !self.cpus.contains_key(&cpu) {
                self.cpus.insert(cpu, open_cpu(&self.kernel, plan, cpu));
            }
        }
    }

    /// Reads everything.
    #[must_use]
    pub fn read(&self) -> Readings {
        let read = |event: &Result<Event, String>| -> Read {
            match event {
                Ok(event) => event.read().map_err(|error| why(&error)),
                Err(reason) => Err(reason.clone()),
            }
        };
        Readings {
            cpus: self
                .cpus
                .iter()
                .map(|(&cpu, events)| (cpu, events.iter().map(read).collect()))
                .collect(),
            uncore: self
                .uncore
                .iter()
                .map(|(index, cpu, event)| (*index, *cpu, read(event)))
                .collect(),
        }
    }
}

/// Opens every group on a CPU; a member whose leader cannot be opened has the leader's reason.
fn open_cpu(kernel: &SharedKernel, plan: &Plan, cpu: u32) -> Vec<Result<Event, String>> {
    let mut opened: Vec<Result<Event, String>> = Vec::new();
    // Where the current group's leader stands, and why it has none.
    let mut group = None;
    let mut leader: Option<usize> = None;
    for planned in &plan.events {
        if group != Some(planned.group) {
            group = Some(planned.group);
            leader = None;
        }
        let Some(encoding) = planned.on(cpu) else {
            opened.push(Err(OTHER_CORE.to_owned()));
            continue;
        };
        let result = {
            let lead = leader.and_then(|at| opened.get(at)?.as_ref().ok());
            let options = OpenOptions {
                leader: lead,
                ..OpenOptions::default()
            };
            let attr = attribute(encoding).disabled(lead.is_none());
            Event::open_with(kernel, &attr, Target::Cpu(cpu), options)
        };
        if leader.is_none() && result.is_ok() {
            leader = Some(opened.len());
        }
        opened.push(result.map_err(|error| why(&error)));
    }
    // Leaders start when their group is whole, so that all count over the same time.
    for event in opened.iter().flatten() {
        // One that cannot be enabled reads as never having run, which is said.
        let _ = event.enable();
    }
    opened
}

/// The cause, without the hint: it stands in a cell.
fn why(error: &truecount_perf::Error) -> String {
    error.reason().to_owned()
}
