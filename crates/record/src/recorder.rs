//! The file that the rings are emptied into.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use truecount_sample::abi::record as rt;
use truecount_sample::writer::{PerfDataWriter, SideRecords, WriterEvent, WriterFeatures};

use super::existing;
use crate::{Chosen, Opened, Scope};
use truecount_run::{Error, ErrorKind};

/// How the recording went.
#[derive(Debug, Default)]
pub struct Summary {
    /// Samples in the file.
    pub samples: u64,
    /// Records that were lost because a ring was full.
    pub lost: u64,
    /// How often the kernel throttled sampling.
    pub throttled: u64,
    /// Bytes of records.
    pub bytes: u64,
}

/// An open recording.
pub struct Recorder {
    opened: Opened,
    out: PerfDataWriter<BufWriter<File>>,
    path: PathBuf,
    samples: u64,
    throttled: u64,
}

impl Recorder {
    /// Opens the events and the file, and writes what was there before: running processes, the kernel's modules.
    ///
    /// # Errors
    /// What the kernel refuses, or the file cannot be written.
    pub fn open(chosen: &Chosen, scope: &Scope, ring_mib: u32, path: &Path) -> Result<Self, Error> {
        let opened = Opened::open(chosen, scope, ring_mib)?;
        let sample_type = opened
            .counters
            .first()
            .map_or(0, |c| c.attr().get_sample_type());
        let side = SideRecords::new(sample_type);
        // What is opened is what is written: with enable_on_exec, without inherit.
        let written: Vec<WriterEvent> = chosen
            .events
            .iter()
            .zip(&opened.ids)
            .zip(&opened.attrs)
            .map(|((event, ids), attr)| WriterEvent {
                attr: attr.raw().as_bytes().to_vec(),
                name: event.name.clone(),
                ids: ids.clone(),
            })
            .collect();
        let cannot = |e: std::io::Error| Error::cannot_write(path, &e);
        let file = File::create(path).map_err(cannot)?;
        let out = PerfDataWriter::new(BufWriter::with_capacity(1 << 20, file), written)
            .map_err(cannot)?;
        let mut this = Self {
            opened,
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
                this.opened.enable()?;
                existing::process(&mut this.out, side, pid.unsigned_abs()).map_err(cannot)?;
            }
            Scope::Machine | Scope::Cpus(_) => {
                this.opened.enable()?;
                existing::machine(&mut this.out, side).map_err(cannot)?;
            }
        }
        Ok(this)
    }

    /// Empties all rings into the file.
    pub fn drain(&mut self) -> Result<(), Error> {
        let mut any = false;
        for ring in &mut self.opened.rings {
            // Not more than was there at the beginning: a busy CPU would keep the others waiting.
            let mut left = ring.available();
            while left > 0 {
                let record = match ring.next_record() {
                    Ok(Some(record)) => record,
                    Ok(None) => break,
                    Err(error) => return Err(Error::new(ErrorKind::Setup, error.to_string())),
                };
                any = true;
                left = left.saturating_sub(record.bytes.len() as u64);
                self.samples += u64::from(record.kind == rt::SAMPLE);
                self.throttled += u64::from(record.kind == rt::THROTTLE);
                self.out
                    .records(record.bytes)
                    .map_err(|e| Error::cannot_write(&self.path, &e))?;
            }
            ring.release();
        }
        if any {
            self.out
                .finished_round()
                .map_err(|e| Error::cannot_write(&self.path, &e))?;
        }
        Ok(())
    }

    /// Stops, empties the rings a last time, and completes the file.
    pub fn finish(mut self, features: &WriterFeatures) -> Result<Summary, Error> {
        self.opened.disable()?;
        self.drain()?;
        let lost = self.opened.lost();
        let bytes = self.out.data_len();
        self.out
            .finish(features)
            .map_err(|e| Error::cannot_write(&self.path, &e))?;
        Ok(Summary {
            samples: self.samples,
            lost,
            throttled: self.throttled,
            bytes,
        })
    }
}
