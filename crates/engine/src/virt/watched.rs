//! Chosen blocks of a program, and where they are in a new process image.
//!
//! Where the program lies follows from its first instruction: the kernel tells it in the auxiliary
//! vector (`AT_ENTRY`, `getauxval(3)`), the file in its header (ELF, `e_entry`).

use super::bytes::field;
use crate::layout::{MAX_WATCHES, Watch};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
    pub(super) intervals: Vec<Interval>,
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
        let entry = truecount_elf::entry(&file);
        let data = file.metadata()?;
        Ok(Self {
            device: data.dev(),
            inode: data.ino(),
            entry: entry.ok_or_else(|| io::Error::other("no 64-bit ELF program"))?,
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
        bias(pid, self.entry)
    }
}

/// How far from its addresses the program of a process lies that has just loaded it; `entry`: the file's.
pub(super) fn bias(pid: i32, entry: u64) -> Option<u64> {
    let vector = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let word = |bytes: &[u8], at| u64::from_le_bytes(field(bytes, at));
    let found = vector
        .chunks_exact(16)
        .find(|pair| word(pair, 0) == AT_ENTRY)?;
    Some(word(found, 8).wrapping_sub(entry))
}
