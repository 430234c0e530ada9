//! The time of chosen blocks: where they are in a new process image, and the histograms it leaves.
//!
//! Where the program lies follows from its first instruction: the kernel tells it in the auxiliary
//! vector (`AT_ENTRY`, `getauxval(3)`), the file in its header (ELF, `e_entry`).

use super::shared::Shared;
use crate::layout::{
    MAX_WATCHES, TIME_BINS, TIME_HISTOGRAM_BYTES, TIME_HISTOGRAMS, TIME_STATE, Watch,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::Ordering;

/// What is timed, by addresses as the program's file has them (as `objdump -d` shows them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Where the time begins: the start of an instruction.
    pub start: u64,
    /// Where it ends; `None`: at the next execution of `start` by the same thread.
    pub end: Option<u64>,
}

/// Intervals in one program: timed in every process that executes it. Libraries are not timed.
#[derive(Clone, Debug)]
pub struct Watched {
    device: u64,
    inode: u64,
    entry: u64,
    intervals: Vec<Interval>,
}

/// `AT_ENTRY` of `getauxval(3)`.
const AT_ENTRY: u64 = 9;

impl Watched {
    /// Most intervals.
    pub const MAX: usize = MAX_WATCHES;

    /// Intervals (at most [`Self::MAX`]) of the program `file`.
    ///
    /// # Errors
    /// The file cannot be read, is no 64-bit ELF file, or there are too many intervals.
    pub fn new(file: &Path, intervals: &[Interval]) -> io::Result<Self> {
        if intervals.len() > Self::MAX {
            let text = format!("at most {} intervals can be timed at once", Self::MAX);
            return Err(io::Error::other(text));
        }
        let file = File::open(file)?;
        let mut head = [0u8; 32];
        file.read_exact_at(&mut head, 0)
            .map_err(|_| io::Error::other("no 64-bit ELF program"))?;
        if !head.starts_with(b"\x7fELF\x02\x01") {
            return Err(io::Error::other("no 64-bit ELF program"));
        }
        let data = file.metadata()?;
        Ok(Self {
            device: data.dev(),
            inode: data.ino(),
            entry: u64::from_le_bytes(super::totals::field(&head, 24)),
            intervals: intervals.to_vec(),
        })
    }

    /// The addresses in a process that has just loaded its program; none in another program.
    pub(super) fn in_process(&self, pid: i32) -> [Watch; MAX_WATCHES] {
        let mut watches = [Watch::default(); MAX_WATCHES];
        let Some(bias) = self.bias(pid) else {
            return watches;
        };
        for (to, from) in watches.iter_mut().zip(&self.intervals) {
            *to = Watch {
                start: from.start.wrapping_add(bias),
                end: from.end.map_or(0, |end| end.wrapping_add(bias)),
            };
        }
        watches
    }

    fn bias(&self, pid: i32) -> Option<u64> {
        let data = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        if (data.dev(), data.ino()) != (self.device, self.inode) {
            return None;
        }
        let vector = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
        let word = |bytes: &[u8], at| u64::from_le_bytes(super::totals::field(bytes, at));
        let found = vector
            .chunks_exact(16)
            .find(|pair| word(pair, 0) == AT_ENTRY)?;
        Some(word(found, 8).wrapping_sub(self.entry))
    }
}

/// One interval's histogram, as read: the stamps' own time is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// (TSC cycles, how often), in the order of cycles.
    pub cycles: Vec<(u16, u64)>,
    /// Times that it took 65535 cycles or more.
    pub longer: u64,
}

/// What a run with [`super::Options::times`] measured, all threads together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// In the order of the intervals asked for.
    pub intervals: Vec<Timed>,
    /// Two adjacent stamps with nothing between, measured at the start of each process: what the
    /// stamps themselves take.
    pub empty: Timed,
    /// Processes that executed the program.
    pub processes: u32,
}

impl Timed {
    /// Median of the cycles; `None` without any.
    pub fn median(&self) -> Option<u16> {
        let half = self.cycles.iter().map(|bin| bin.1).sum::<u64>().div_ceil(2);
        let mut seen = 0;
        self.cycles.iter().find_map(|&(cycles, n)| {
            seen += n;
            (seen >= half).then_some(cycles)
        })
    }
}

pub(super) fn read(shared: &Shared) -> Option<Times> {
    let watched = shared.watched.as_ref()?;
    let numbers = (0..watched.intervals.len()).chain([MAX_WATCHES]);
    let mut sums = vec![BTreeMap::<u16, u64>::new(); MAX_WATCHES + 1];
    let mut times = Times::default();
    let end = shared
        .header()
        .next_slot
        .load(Ordering::Acquire)
        .min(crate::layout::MAX_SLOTS);
    for slot in 1..end {
        for number in numbers.clone() {
            // Its histogram is empty as long as no start was noted.
            let at = u64::from(TIME_STATE) + 16 * number as u64 + 8;
            if !shared.words(slot, at, 1).is_ok_and(|w| w != [0]) {
                continue;
            }
            times.processes += u32::from(number == MAX_WATCHES);
            let at = u64::from(TIME_HISTOGRAMS) + u64::from(TIME_HISTOGRAM_BYTES) * number as u64;
            let Ok(bins) = shared.words(slot, at, TIME_BINS as usize) else {
                continue;
            };
            for (cycles, n) in (0..=u16::MAX).zip(bins) {
                if n > 0
                    && let Some(sum) = sums.get_mut(number)
                {
                    *sum.entry(cycles).or_default() += n;
                }
            }
        }
    }
    let mut sums = sums.into_iter().map(|mut sum| Timed {
        longer: sum.remove(&u16::MAX).unwrap_or(0),
        cycles: sum.into_iter().collect(),
    });
    times.intervals = sums.by_ref().take(watched.intervals.len()).collect();
    times.empty = sums.next_back().unwrap_or_default();
    Some(times)
}
