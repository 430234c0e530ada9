//! The open events and their rings.
//!
//! An inheriting event can have a ring only when it is bound to a CPU (`perf_mmap` in `kernel/events/core.c`), so
//! each event is opened once per CPU (and thread), and all events of a CPU write into one ring.

use truecount_events::Cpus;
use truecount_perf::probe::Root;
pub use truecount_perf::scope::Scope;
use truecount_perf::{Errno, Event as Counter, EventAttr, OpenOptions, Ring, SharedKernel, linux};

use super::choose::Chosen;
use truecount_run::{Error, ErrorKind};

/// Open events, not yet enabled.
pub struct Opened {
    /// At least one; the first is of the first event.
    pub counters: Vec<Counter>,
    /// One per CPU (and thread).
    pub rings: Vec<Ring>,
    /// Per event, the ids that its samples carry.
    pub ids: Vec<Vec<u64>>,
    /// Per event, as it was opened; as it was chosen where none of its CPUs is among those of the scope.
    pub attrs: Vec<EventAttr>,
}

/// Whether an event counts on a CPU: those of one kind of core do not on another's.
fn counts_on(cpus: &Cpus, cpu: u32) -> bool {
    match cpus {
        Cpus::Core(own) => own.contains(&cpu),
        Cpus::Any | Cpus::Package(_) => true,
    }
}

pub fn refused(error: &truecount_perf::Error) -> Error {
    Error::new(ErrorKind::Setup, error.reason().to_owned()).hint(error.hint().to_owned())
}

impl Opened {
    /// Opens all events on all CPUs of the scope.
    pub fn open(chosen: &Chosen, scope: &Scope, ring_mib: u32) -> Result<Self, Error> {
        Self::open_on(chosen, scope, ring_mib, &linux(), &Root::system())
    }

    /// As [`Self::open`], on any kernel and machine.
    ///
    /// # Errors
    /// What the kernel refuses, or the process is not there.
    pub fn open_on(
        chosen: &Chosen,
        scope: &Scope,
        ring_mib: u32,
        kernel: &SharedKernel,
        root: &Root,
    ) -> Result<Self, Error> {
        let pages = (ring_mib as usize * (1 << 20) / 4096).next_power_of_two();
        let targets = scope
            .targets_by_cpu(root)
            .map_err(|errno| nothing_there(scope, errno))?;
        let mut this = Self {
            counters: Vec::new(),
            rings: Vec::new(),
            ids: vec![Vec::new(); chosen.events.len()],
            attrs: chosen.events.iter().map(|event| event.attr).collect(),
        };
        for (cpu, targets) in targets {
            // The event whose ring the others of the CPU write into.
            let mut with_ring: Option<usize> = None;
            for target in targets {
                let places = this.ids.iter_mut().zip(&mut this.attrs);
                for (event, (ids, opened_as)) in chosen.events.iter().zip(places) {
                    if !counts_on(&event.cpus, cpu) {
                        continue;
                    }
                    let attr = match scope {
                        Scope::NewProcess(_) => event.attr.enable_on_exec(true),
                        Scope::Process(_) => event.attr,
                        Scope::Machine | Scope::Cpus(_) => event.attr.inherit(false),
                    };
                    let options = OpenOptions::default();
                    let counter = match Counter::open_with(kernel, &attr, target, options) {
                        Err(error) if scope.is_ended_thread(error.errno()) => continue,
                        opened => opened.map_err(|e| refused(&e))?,
                    };
                    *opened_as = *counter.attr();
                    ids.push(counter.id().map_err(|e| refused(&e))?);
                    match with_ring.and_then(|i| this.counters.get(i)) {
                        Some(first) => counter.set_output(Some(first)).map_err(|e| refused(&e))?,
                        None => {
                            let ring = counter.largest_ring(pages).map_err(|e| refused(&e))?;
                            this.rings.push(ring);
                            with_ring = Some(this.counters.len());
                        }
                    }
                    this.counters.push(counter);
                }
            }
        }
        if this.counters.is_empty() {
            return Err(Error::new(
                ErrorKind::Setup,
                "the process has ended before it could be sampled",
            ));
        }
        Ok(this)
    }

    /// Begins to sample.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn enable(&self) -> Result<(), Error> {
        self.counters
            .iter()
            .try_for_each(Counter::enable)
            .map_err(|e| refused(&e))
    }

    /// Stops.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn disable(&self) -> Result<(), Error> {
        self.counters
            .iter()
            .try_for_each(Counter::disable)
            .map_err(|e| refused(&e))
    }

    /// Records lost until now: those that the rings tell of, or those that newer kernels tell on reading.
    pub fn lost(&self) -> u64 {
        let told: u64 = self
            .rings
            .iter()
            .map(|r| r.lost().saturating_add(r.lost_samples()))
            .sum();
        // What was lost at the very end has no record that says so.
        let read: u64 = self
            .counters
            .iter()
            .filter_map(|c| c.read().ok()?.lost)
            .sum();
        told.max(read)
    }
}

fn nothing_there(scope: &Scope, errno: Errno) -> Error {
    match scope {
        Scope::Process(pid) if errno == Errno::ESRCH => {
            Error::new(ErrorKind::Setup, format!("there is no process {pid}"))
                .hint("look for it with `pgrep NAME`")
        }
        _ => Error::new(
            ErrorKind::Setup,
            "/sys does not tell which CPUs are online: there is a ring for each",
        )
        .hint("mount -t sysfs sysfs /sys; in a container, let it see /sys"),
    }
}
