//! The open events and their rings.
//!
//! An inheriting event can have a ring only when it is bound to a CPU (`perf_mmap` in `kernel/events/core.c`), so
//! each event is opened once per CPU (and thread), and all events of a CPU write into one ring.

use truecount_perf::probe::Root;
pub use truecount_perf::scope::Scope;
use truecount_perf::{Errno, Event as Counter, OpenOptions, Ring, linux};

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
}

pub fn refused(error: &truecount_perf::Error) -> Error {
    Error::new(ErrorKind::Setup, error.reason().to_owned()).hint(error.hint().to_owned())
}

impl Opened {
    /// Opens all events on all CPUs of the scope.
    pub fn open(chosen: &Chosen, scope: &Scope, ring_mib: u32) -> Result<Self, Error> {
        let kernel = linux();
        let pages = (ring_mib as usize * (1 << 20) / 4096).next_power_of_two();
        let targets = scope
            .targets_by_cpu(&Root::system())
            .map_err(|errno| nothing_there(scope, errno))?;
        let mut this = Self {
            counters: Vec::new(),
            rings: Vec::new(),
            ids: vec![Vec::new(); chosen.events.len()],
        };
        for (_, targets) in targets {
            // The event whose ring the others of the CPU write into.
            let mut with_ring: Option<usize> = None;
            for target in targets {
                for (event, ids) in chosen.events.iter().zip(&mut this.ids) {
                    let attr = match scope {
                        Scope::NewProcess(_) => event.attr.enable_on_exec(true),
                        Scope::Process(_) => event.attr,
                        Scope::Machine | Scope::Cpus(_) => event.attr.inherit(false),
                    };
                    let options = OpenOptions::default();
                    let counter = match Counter::open_with(&kernel, &attr, target, options) {
                        Err(error) if scope.is_ended_thread(error.errno()) => continue,
                        opened => opened.map_err(|e| refused(&e))?,
                    };
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
