//! How often the PMU's interrupt accesses registers, by the kernel's own tracepoints of the group msr
//! (`include/trace/events/msr.h`, x86): counted on the calling thread, in interrupts too, with what happens without
//! sampling taken away. Registers of the PMU only: timers and switches between threads write others.

use super::cell::{self, Cell, Method};
use super::trace::{directory, point};
use super::{Experiment, WATCH};
use crate::model::Accesses;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use truecount_perf::sys::bindings as abi;
use truecount_perf::{Event, EventAttr, OpenOptions, SharedKernel, Target};

/// Fewer samples say nothing about one.
const LEAST: u64 = 5;

/// First and last number of registers of the PMU and its branch stack: Intel SDM vol. 4 (tables of architectural and of
/// Skylake's registers, Architectural LBR); AMD APM vol. 2, "Performance Monitoring" and "Last Branch Stack".
const PMU: [(u32, u32); 23] = [
    (0x040, 0x05f),
    (0x060, 0x07f),
    (0x0c1, 0x0c8),
    (0x186, 0x18d),
    (0x1a6, 0x1a7),
    (0x1c8, 0x1c9),
    (0x1d9, 0x1d9),
    (0x309, 0x30c),
    (0x329, 0x329),
    (0x345, 0x345),
    (0x38d, 0x391),
    (0x3f1, 0x3f7),
    (0x4c1, 0x4c8),
    (0x600, 0x600),
    (0x680, 0x6df),
    (0xdc0, 0xddf),
    (0x1200, 0x171f),
    (0xc000_0300, 0xc000_0303),
    (0xc000_010e, 0xc000_010f),
    (0xc001_0000, 0xc001_0007),
    (0xc001_0200, 0xc001_020b),
    (0xc001_0300, 0xc001_031f),
    (0x14ce, 0x14cf),
];

/// Those numbers in the language of tracepoints' filters (Documentation/trace/events.rst, "Event filtering").
fn filter() -> CString {
    let ranges = PMU.map(|(first, last)| format!("(msr >= {first:#x} && msr <= {last:#x})"));
    CString::new(ranges.join(" || ")).unwrap_or_default()
}

/// Register accesses of a cell's interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterUse {
    /// Which.
    #[serde(flatten)]
    pub cell: Cell,
    /// Samples that they are the mean of.
    pub samples: u64,
    /// Per sample.
    pub per_sample: Accesses,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    pub(super) wrmsr: u64,
    pub(super) rdmsr: u64,
    pub(super) rdpmc: u64,
    /// CPU time meanwhile.
    pub(super) ns: u64,
}

/// The three tracepoints, off.
pub(super) struct Points([Event; 3]);

impl Points {
    /// # Errors
    /// Why not, and what to do.
    pub(super) fn open(kernel: &SharedKernel) -> Result<Self, String> {
        let directory = directory()?;
        if !directory.join("events/msr").is_dir() {
            return Err("this kernel has no tracepoints of the group msr".to_owned());
        }
        let open = |name: &str| -> Result<Event, String> {
            let id = point(&directory, name, None)?.id;
            let attr = EventAttr::new(abi::PERF_TYPE_TRACEPOINT, id).disabled(true);
            Event::open_with(kernel, &attr, Target::CallingThread, OpenOptions::default())
                .map_err(|error| error.to_string())
        };
        let (write, read) = (open("msr/write_msr")?, open("msr/read_msr")?);
        let filter = filter();
        for event in [&write, &read] {
            event
                .set_filter(&filter)
                .map_err(|error| error.to_string())?;
        }
        Ok(Self([write, read, open("msr/rdpmc")?]))
    }

    /// What happens during the work.
    pub(super) fn count(&self, work: impl FnOnce()) -> Option<Counted> {
        let read = || -> Option<[u64; 3]> {
            let [a, b, c] = &self.0;
            let value = |event: &Event| event.read().ok().map(|reading| reading.value);
            Some([value(a)?, value(b)?, value(c)?])
        };
        let before = read()?;
        for event in &self.0 {
            event.enable().ok()?;
        }
        let start = super::cpu_time();
        work();
        let ns = super::cpu_time().saturating_sub(start);
        for event in &self.0 {
            event.disable().ok()?;
        }
        let [wrmsr, rdmsr, rdpmc] = read()?;
        let [w, r, p] = before;
        Some(Counted {
            wrmsr: wrmsr.saturating_sub(w),
            rdmsr: rdmsr.saturating_sub(r),
            rdpmc: rdpmc.saturating_sub(p),
            ns,
        })
    }
}

/// The accesses of a sample: what was counted beyond what the same time has without sampling.
pub(super) fn per_sample(with: Counted, without: Counted, samples: u64) -> Option<Accesses> {
    if samples < LEAST || without.ns == 0 {
        return None;
    }
    let part = with.ns as f64 / without.ns as f64;
    let each =
        |with: u64, without: u64| ((with as f64 - without as f64 * part) / samples as f64).max(0.0);
    Some(Accesses {
        wrmsr: each(with.wrmsr, without.wrmsr),
        rdmsr: each(with.rdmsr, without.rdmsr),
        rdpmc: each(with.rdpmc, without.rdpmc),
    })
}

impl Experiment<'_> {
    /// Register accesses of the PMU's interrupt, of each payload by fixed period.
    pub(super) fn registers(&mut self, stop: &mut dyn FnMut() -> bool) {
        let mut wanted: Vec<(usize, Cell)> = Vec::new();
        for (place, cell) in self.open.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let known = wanted
                .iter()
                .any(|(_, other)| other.payload == cell.payload);
            if cell.event == cell::Event::Cycles && cell.method == Method::Period && !known {
                wanted.push((place, *cell));
            }
        }
        if wanted.is_empty() || !cfg!(target_arch = "x86_64") {
            return;
        }
        let points = match Points::open(&self.kernel) {
            Ok(points) => points,
            Err(reason) => {
                self.outcome.registers_reason = Some(reason);
                return;
            }
        };
        let watched = |this: &mut Self| {
            points.count(|| {
                let (gaps, _) = this.inside(WATCH, false, None);
                this.gaps = gaps;
            })
        };
        let Some(without) = watched(self) else { return };
        for (place, cell) in wanted {
            if stop() {
                return;
            }
            let Some(mut live) = self.live(place, &cell) else {
                continue;
            };
            live.take();
            // On before and off after: switching writes registers, too.
            let on = live.event.enable().is_ok();
            let with = watched(self);
            let off = live.event.disable().is_ok();
            let samples = live.take().samples.len() as u64;
            if let (true, true, Some(with)) = (on, off, with)
                && let Some(per_sample) = per_sample(with, without, samples)
            {
                self.outcome.registers.push(RegisterUse {
                    cell,
                    samples,
                    per_sample,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_without_sampling_is_taken_away() {
        let counted = |wrmsr, rdmsr, rdpmc, ns| Counted {
            wrmsr,
            rdmsr,
            rdpmc,
            ns,
        };
        // 25 samples of 4, 2 and 1; a timer that writes one register a ms.
        let without = counted(10, 0, 0, 10_000_000);
        let with = counted(25 * 4 + 20, 50, 25, 20_000_000);
        let each = per_sample(with, without, 25).unwrap();
        assert_eq!((each.wrmsr, each.rdmsr, each.rdpmc), (4.0, 2.0, 1.0));
        assert!(per_sample(with, without, 4).is_none());
        assert!(per_sample(with, counted(0, 0, 0, 0), 25).is_none());
        // Less than nothing is nothing.
        let noisy = per_sample(counted(0, 0, 0, 10), without, 25).unwrap();
        assert_eq!(noisy.wrmsr, 0.0);
    }
}
