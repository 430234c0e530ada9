//! The open events and their rings.
//!
//! An inheriting event can have a ring only when it is bound to a CPU (`perf_mmap` in `kernel/events/core.c`), so
//! each event is opened once per CPU (and thread), and all events of a CPU write into one ring.

use truecount_events::Cpus;
use truecount_perf::probe::Root;
use truecount_perf::{
    Errno, Event as Counter, EventAttr, OpenOptions, Ring, SharedKernel, Target, linux,
};

use super::choose::Chosen;
use truecount_run::{Error, ErrorKind};

/// What is sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A process that stands before its `execve`.
    NewProcess(i32),
    /// A running process.
    Process(i32),
    /// Everything.
    Machine,
    /// Everything on these CPUs.
    Cpus(Vec<u32>),
}

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
        let cpus = match scope {
            Scope::Cpus(cpus) => cpus.clone(),
            _ => root
                .online_cpus()
                .filter(|c| !c.is_empty())
                .unwrap_or_else(|| vec![0]),
        };
        let threads: Vec<i32> = match scope {
            Scope::NewProcess(pid) => vec![*pid],
            Scope::Process(pid) => {
                root.threads_of(*pid)
                    .filter(|t| !t.is_empty())
                    .ok_or_else(|| {
                        Error::new(ErrorKind::Setup, format!("there is no process {pid}"))
                            .hint("look for it with `pgrep NAME`")
                    })?
            }
            Scope::Machine | Scope::Cpus(_) => Vec::new(),
        };
        let mut counters: Vec<Counter> = Vec::new();
        let mut rings = Vec::new();
        let mut ids: Vec<Vec<u64>> = vec![Vec::new(); chosen.events.len()];
        let mut attrs: Vec<EventAttr> = chosen.events.iter().map(|event| event.attr).collect();
        for &cpu in &cpus {
            let mut with_ring: Option<usize> = None;
            let targets: Vec<Target> = match scope {
                Scope::Machine | Scope::Cpus(_) => vec![Target::Cpu(cpu)],
                _ => threads
                    .iter()
                    .map(|&tid| Target::ThreadOnCpu { tid, cpu })
                    .collect(),
            };
            for target in targets {
                let events = chosen.events.iter().zip(&mut ids).zip(&mut attrs);
                for ((event, ids), opened_as) in events {
                    if !counts_on(&event.cpus, cpu) {
                        continue;
                    }
                    let attr = match scope {
                        Scope::NewProcess(_) => event.attr.enable_on_exec(true),
                        Scope::Process(_) => event.attr,
                        Scope::Machine | Scope::Cpus(_) => event.attr.inherit(false),
                    };
                    let counter =
                        match Counter::open_with(kernel, &attr, target, OpenOptions::default()) {
                            Ok(counter) => counter,
                            // A thread that has ended since the list was made.
                            Err(error)
                                if error.errno() == Some(Errno::ESRCH) && threads.len() > 1 =>
                            {
                                continue;
                            }
                            Err(error) => return Err(refused(&error)),
                        };
                    *opened_as = *counter.attr();
                    ids.push(counter.id().map_err(|e| refused(&e))?);
                    match with_ring.and_then(|i| counters.get(i)) {
                        Some(first) => counter.set_output(Some(first)).map_err(|e| refused(&e))?,
                        None => {
                            rings.push(ring(&counter, ring_mib)?);
                            with_ring = Some(counters.len());
                        }
                    }
                    counters.push(counter);
                }
            }
        }
        if counters.is_empty() {
            return Err(Error::new(
                ErrorKind::Setup,
                "the process has ended before it could be sampled",
            ));
        }
        Ok(Self {
            counters,
            rings,
            ids,
            attrs,
        })
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

/// A ring of the wished size, or of less where the limit of locked memory is lower.
fn ring(counter: &Counter, mib: u32) -> Result<Ring, Error> {
    let mut pages = (mib as usize * (1 << 20) / 4096).next_power_of_two();
    loop {
        match counter.ring(pages) {
            Ok(ring) => return Ok(ring),
            Err(error) if error.errno() == Some(Errno::EPERM) && pages > 8 => pages /= 2,
            Err(error) => return Err(refused(&error)),
        }
    }
}
