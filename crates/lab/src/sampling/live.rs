//! A sampling event on the calling thread, and what came out of its ring.

use super::cell::{Cell, Payload};
use truecount_perf::{Error, Event, OpenOptions, Ring, SharedKernel, Target};
use truecount_sample::abi::record as rt;
use truecount_sample::{Body, RawRecord, SampleLayout};

/// Bytes that a visit's samples take at most: the rate that is wished for, four times over.
fn room(cell: &Cell) -> u64 {
    const VISIT_MS: u64 = 60;
    let each = match cell.payload {
        Payload::None => 128,
        // 127 frames and the contexts.
        Payload::Fp | Payload::LbrStack => 2048,
        Payload::Dwarf => 9216,
        Payload::Lbr | Payload::LbrUser => 1024,
    };
    cell.rate.saturating_mul(VISIT_MS) / 1000 * each * 4
}

/// Pages of a ring that holds it: as few as do, for a large ring costs time when it is made and when it is freed.
fn pages(cell: &Cell) -> usize {
    let pages = usize::try_from(room(cell) / 4096).unwrap_or(1024);
    pages.next_power_of_two().clamp(16, 1024)
}

/// An open event with its ring.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) event: Event,
    pub(super) ring: Ring,
    layout: SampleLayout,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// Times of the samples.
    pub samples: Vec<u64>,
    /// Times at which the thread left the CPU.
    pub switches: Vec<u64>,
    /// Times that the kernel stopped sampling because there were too many interrupts.
    pub throttled: u64,
    /// Records lost because the ring was full.
    pub lost: u64,
    /// Frames of all call chains, and branches of all branch stacks.
    pub frames: u64,
    /// Branches of all branch stacks.
    pub branches: u64,
}

impl Live {
    /// Opens the cell's event, off; the ring is as large as the limit of locked memory allows.
    pub(super) fn open(
        kernel: &SharedKernel,
        cell: &Cell,
        per_second: f64,
        sees_kernel: bool,
    ) -> Result<Self, Error> {
        let attr = cell.attr(per_second, sees_kernel);
        let event = Event::open_with(kernel, &attr, Target::CallingThread, OpenOptions::default())?;
        let ring = event.largest_ring(pages(cell))?;
        let layout = SampleLayout {
            sample_type: attr.get_sample_type(),
            read_format: attr.get_read_format(),
            branch_sample_type: attr.get_branch_sample_type(),
            regs_user: attr.get_sample_regs_user(),
            regs_intr: 0,
            sample_id_all: true,
        };
        Ok(Self {
            event,
            ring,
            layout,
        })
    }

    /// Empties the ring.
    pub(super) fn take(&mut self) -> Taken {
        let mut taken = Taken::default();
        loop {
            let record = match self.ring.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                // The ring goes on behind what could not be read.
                Err(_) => continue,
            };
            match record.kind {
                rt::THROTTLE => taken.throttled += 1,
                rt::SAMPLE | rt::SWITCH => {
                    let raw = RawRecord {
                        kind: record.kind,
                        misc: record.misc,
                        body: record.body(),
                    };
                    let Some((body, id)) = raw.decode(&self.layout) else {
                        continue;
                    };
                    let Some(time) = id.time else { continue };
                    match body {
                        Body::Sample(sample) => {
                            taken.samples.push(time);
                            taken.frames += sample.callchain.len() as u64;
                            taken.branches += sample.branches.map_or(0, |b| b.len() as u64);
                        }
                        Body::Switch { .. } => taken.switches.push(time),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        self.ring.release();
        taken.lost = self.ring.lost();
        taken.samples.sort_unstable();
        taken.switches.sort_unstable();
        taken
    }
}
