//! The open events, a ring per CPU, and the file they are emptied into.
//!
//! An inheriting event can have a ring only when it is bound to a CPU (`perf_mmap` in `kernel/events/core.c`), so
//! each event is opened once per CPU (and thread), and all events of a CPU write into one ring.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use truecount_perf::probe::Root;
use truecount_perf::{Errno, Event as Counter, OpenOptions, Ring, Target, linux};
use truecount_sample::abi::record as rt;
use truecount_sample::writer::{PerfDataWriter, SideRecords, WriterEvent, WriterFeatures};

use super::choose::Chosen;
use super::existing;
use crate::failure::Failure;
use crate::output::cannot_write;

/// What is recorded.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope {
    /// A process that stands before its `execve`.
    NewProcess(i32),
    /// A running process.
    Process(i32),
    /// Everything.
    Machine,
}

/// How the recording went.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) samples: u64,
    pub(super) lost: u64,
    pub(super) throttled: u64,
    pub(super) bytes: u64,
}

/// An open recording.
pub(super) struct Recorder {
    counters: Vec<Counter>,
    rings: Vec<Ring>,
    out: PerfDataWriter<BufWriter<File>>,
    path: PathBuf,
    samples: u64,
    throttled: u64,
}

fn refused(error: &truecount_perf::Error) -> Failure {
    Failure::new(125, error.reason().to_owned()).mend(error.mend().to_owned())
}

impl Recorder {
    pub(super) fn open(
        chosen: &Chosen,
        scope: Scope,
        ring_mib: u32,
        path: &Path,
    ) -> Result<Self, Failure> {
        let kernel = linux();
        let root = Root::system();
        let cpus = root
            .online_cpus()
            .filter(|c| !c.is_empty())
            .unwrap_or_else(|| vec![0]);
        let threads: Vec<i32> = match scope {
            Scope::NewProcess(pid) => vec![pid],
            Scope::Process(pid) => {
                root.threads_of(pid)
                    .filter(|t| !t.is_empty())
                    .ok_or_else(|| {
                        Failure::new(125, format!("there is no process {pid}"))
                            .mend("look for it with `pgrep NAME`")
                    })?
            }
            Scope::Machine => Vec::new(),
        };
        let mut counters: Vec<Counter> = Vec::new();
        let mut rings = Vec::new();
        let mut ids: Vec<Vec<u64>> = vec![Vec::new(); chosen.events.len()];
        for &cpu in &cpus {
            let mut with_ring: Option<usize> = None;
            let targets: Vec<Target> = match scope {
                Scope::Machine => vec![Target::Cpu(cpu)],
                _ => threads
                    .iter()
                    .map(|&tid| Target::ThreadOnCpu { tid, cpu })
                    .collect(),
            };
            for target in targets {
                for (event, ids) in chosen.events.iter().zip(&mut ids) {
                    let attr = match scope {
                        Scope::NewProcess(_) => event.attr.enable_on_exec(true),
                        Scope::Process(_) => event.attr,
                        Scope::Machine => event.attr.inherit(false),
                    };
                    let counter =
                        match Counter::open_with(&kernel, &attr, target, OpenOptions::default()) {
                            Ok(counter) => counter,
                            // A thread that has ended since the list was made.
                            Err(error)
                                if error.errno() == Some(Errno::ESRCH) && threads.len() > 1 =>
                            {
                                continue;
                            }
                            Err(error) => return Err(refused(&error)),
                        };
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
        let Some(first) = counters.first() else {
            return Err(Failure::new(
                125,
                "the process has ended before it could be recorded",
            ));
        };
        let side = SideRecords::new(first.attr().get_sample_type());
        // What is opened is what is written: with enable_on_exec, without inherit.
        let opened: Vec<WriterEvent> = chosen
            .events
            .iter()
            .zip(ids)
            .zip(&counters)
            .map(|((event, ids), counter)| WriterEvent {
                attr: counter.attr().raw().as_bytes().to_vec(),
                name: event.name.clone(),
                ids,
            })
            .collect();
        let cannot = |e: std::io::Error| cannot_write(path, &e);
        let file = File::create(path).map_err(cannot)?;
        let out =
            PerfDataWriter::new(BufWriter::with_capacity(1 << 20, file), opened).map_err(cannot)?;
        let mut this = Self {
            counters,
            rings,
            out,
            path: path.to_owned(),
            samples: 0,
            throttled: 0,
        };
        existing::kernel(&mut this.out, side).map_err(cannot)?;
        // On before the maps are read: a mapping made in between is in both, rather than in none.
        match scope {
            Scope::NewProcess(_) => {}
            Scope::Process(pid) => {
                this.enable()?;
                existing::process(&mut this.out, side, pid.unsigned_abs()).map_err(cannot)?;
            }
            Scope::Machine => {
                this.enable()?;
                existing::machine(&mut this.out, side).map_err(cannot)?;
            }
        }
        Ok(this)
    }

    fn enable(&self) -> Result<(), Failure> {
        self.counters
            .iter()
            .try_for_each(Counter::enable)
            .map_err(|e| refused(&e))
    }

    /// Empties all rings into the file.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        let mut any = false;
        for ring in &mut self.rings {
            // Not more than was there at the beginning: a busy CPU would keep the others waiting.
            let mut left = ring.available();
            while left > 0 {
                let record = match ring.next_record() {
                    Ok(Some(record)) => record,
                    Ok(None) => break,
                    Err(error) => return Err(Failure::new(125, error.to_string())),
                };
                any = true;
                left = left.saturating_sub(record.bytes.len() as u64);
                self.samples += u64::from(record.kind == rt::SAMPLE);
                self.throttled += u64::from(record.kind == rt::THROTTLE);
                self.out
                    .records(record.bytes)
                    .map_err(|e| cannot_write(&self.path, &e))?;
            }
            ring.release();
        }
        if any {
            self.out
                .finished_round()
                .map_err(|e| cannot_write(&self.path, &e))?;
        }
        Ok(())
    }

    /// Stops, empties the rings a last time, and completes the file.
    pub(super) fn finish(mut self, features: &WriterFeatures) -> Result<Summary, Failure> {
        for counter in &self.counters {
            counter.disable().map_err(|e| refused(&e))?;
        }
        self.drain()?;
        let told: u64 = self
            .rings
            .iter()
            .map(|r| r.lost().saturating_add(r.lost_samples()))
            .sum();
        // What was lost at the very end has no record that says so; newer kernels tell it on reading.
        let read: u64 = self
            .counters
            .iter()
            .filter_map(|c| c.read().ok()?.lost)
            .sum();
        let bytes = self.out.data_len();
        self.out
            .finish(features)
            .map_err(|e| cannot_write(&self.path, &e))?;
        Ok(Summary {
            samples: self.samples,
            lost: told.max(read),
            throttled: self.throttled,
            bytes,
        })
    }
}

/// A ring of the wished size, or of less where the limit of locked memory is lower.
fn ring(counter: &Counter, mib: u32) -> Result<Ring, Failure> {
    let mut pages = (mib as usize * (1 << 20) / 4096).next_power_of_two();
    loop {
        match counter.ring(pages) {
            Ok(ring) => return Ok(ring),
            Err(error) if error.errno() == Some(Errno::EPERM) && pages > 8 => pages /= 2,
            Err(error) => return Err(refused(&error)),
        }
    }
}
