//! From branch stacks to the time of every block, to loops and hot paths.
//!
//! A block runs from a branch's target to the next taken branch; its cycles stand in that branch's entry.
//! Two things decide whether the numbers mean anything: cleaning ([`Cleaning`]), and that a block's time is never
//! one mean: it is a histogram by (start, end, previous branch mispredicted).

mod clean;
mod cost;
mod histogram;
mod loops;
mod overlap;
mod tally;
mod text;
mod window;

use crate::abi::{branch as br, record as rt};
use crate::error::Result;
use crate::file::{RecordRange, Recording};
use crate::record::Body;
use crate::spaces::{AddressSpaces, KERNEL_SPACE, MappedFile, NO_SPACE, is_kernel_address};
pub use clean::Cleaning;
pub use cost::MispredictionCost;
pub use histogram::{Histogram, Mode};
pub use loops::{HotPath, Loop, LoopBody};
use overlap::Overlaps;
use tally::{Key, Tally};
pub use window::PrefetchWindow;

/// One way of arriving at a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Executions with known cycles.
    pub cycles: Histogram,
    /// Executions whose cycles the hardware did not say.
    pub unknown: u64,
    /// Executions of at least 65535 cycles.
    pub saturated: u64,
}

impl Arrivals {
    /// Executions seen.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.cycles
            .total()
            .saturating_add(self.unknown)
            .saturating_add(self.saturated)
    }
}

/// Everything from a branch's target to the next taken branch, wherever it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Index into [`Analysis::files`]; `None`: nothing is known to be mapped there, `start` and `end` are addresses.
    pub file: Option<u32>,
    /// First instruction: offset in the file, or address.
    pub start: u64,
    /// The branch that ends it.
    pub end: u64,
    /// The same two as virtual addresses, of one process.
    pub address: (u64, u64),
    /// After a branch that was predicted (or of which the hardware does not say).
    pub predicted: Arrivals,
    /// After a mispredicted branch: the time to refill the pipeline is in here.
    pub mispredicted: Arrivals,
}

impl Block {
    /// Executions seen.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.predicted
            .count()
            .saturating_add(self.mispredicted.count())
    }

    /// Known cycles, summed.
    #[must_use]
    pub fn total_cycles(&self) -> u64 {
        self.predicted
            .cycles
            .sum()
            .saturating_add(self.mispredicted.cycles.sum())
    }

    /// Cycles whatever came before.
    #[must_use]
    pub fn all_cycles(&self) -> Histogram {
        self.predicted.cycles.merged(&self.mispredicted.cycles)
    }
}

/// Why a recording's branch stacks cannot be read as blocks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No event recorded branch stacks.
    #[error(
        "the recording has no branch stacks; record with `truecount record -b` or `perf record -b`"
    )]
    NoBranchStacks,
    /// Only some branches were recorded, so that code between two entries is not a straight line.
    #[error(
        "the branch stacks were filtered ({0}): between two entries other branches were taken, so neither blocks nor their time can be told; record with `-b` (any branch)"
    )]
    Filtered(String),
    /// A program was named for a text, and no address of the text is in it.
    #[error(
        "no address of the text is one of the program: a position-independent program is loaded where the text does not say"
    )]
    NotThere,
}

/// The program that a text's addresses are of.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name and build id.
    pub file: MappedFile,
    /// Its loadable segments.
    pub segments: Vec<truecount_elf::Segment>,
}

impl Program {
    /// A block of addresses as one of offsets in the file.
    fn place(&self, key: Key) -> Option<Key> {
        let inside = |s: &&truecount_elf::Segment| {
            let offset = |address: u64| address.checked_sub(s.address).filter(|at| *at < s.size);
            s.executable && offset(key.start).is_some() && offset(key.end).is_some()
        };
        let segment = self.segments.iter().find(inside)?;
        let offset = |address: u64| (address - segment.address).checked_add(segment.offset);
        Some(Key {
            place: FILES,
            start: offset(key.start)?,
            end: offset(key.end)?,
        })
    }
}

/// What a recording's branch stacks say.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    /// What was seen and cleaned away.
    pub cleaning: Cleaning,
    /// The blocks, those with most cycles first (most executions, where there are no cycles).
    pub blocks: Vec<Block>,
    /// Files the blocks are in.
    pub files: Vec<MappedFile>,
    /// How often which block followed which (indices into [`blocks`](Self::blocks)), most first.
    pub follows: Vec<(u32, u32, u64)>,
    /// Loops, those with most cycles first.
    pub loops: Vec<Loop>,
    /// Chains of blocks, those with most cycles first.
    pub paths: Vec<HotPath>,
    /// What a misprediction costs.
    pub misprediction: Option<MispredictionCost>,
    /// Why there are no cycles, when there are none.
    pub no_cycles: Option<String>,
    /// What the recording lost, as far as it says.
    pub losses: crate::file::Losses,
}

impl Analysis {
    /// Known cycles of all blocks.
    #[must_use]
    pub fn total_cycles(&self) -> u64 {
        self.blocks
            .iter()
            .map(Block::total_cycles)
            .fold(0, u64::saturating_add)
    }
}

/// Whether the branch stacks of an event with these `PERF_SAMPLE_BRANCH_*` bits are all taken branches in a row.
fn filter(bits: u64) -> std::result::Result<(), Refusal> {
    const FILTERS: [(u64, &str); 10] = [
        (br::CALL_STACK, "call stack"),
        (br::ANY_CALL, "any_call"),
        (br::ANY_RETURN, "any_ret"),
        (br::IND_CALL, "ind_call"),
        (br::IND_JUMP, "ind_jmp"),
        (br::CALL, "call"),
        (br::COND, "cond"),
        (br::ABORT_TX, "abort_tx"),
        (br::IN_TX, "in_tx"),
        (br::NO_TX, "no_tx"),
    ];
    let set: Vec<_> = FILTERS
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|f| f.1)
        .collect();
    let narrows = bits & (br::IN_TX | br::NO_TX | br::CALL_STACK) != 0;
    if set.is_empty() || (bits & br::ANY != 0 && !narrows) {
        return Ok(());
    }
    Err(Refusal::Filtered(set.join(", ")))
}

/// Reads all branch stacks of a recording; on all CPUs when it is large.
///
/// # Errors
/// The outer one: a damaged recording. The inner one: it has no stacks that can be read as blocks.
pub fn analyze(recording: &Recording) -> Result<std::result::Result<Analysis, Refusal>> {
    let events = recording.events();
    let with_stacks = || events.iter().filter(|e| e.attr.has_branch_stack());
    if with_stacks().next().is_none() {
        return Ok(Err(Refusal::NoBranchStacks));
    }
    for event in with_stacks() {
        if let Err(refusal) = filter(event.attr.branch_sample_type) {
            return Ok(Err(refusal));
        }
    }
    let spaces = AddressSpaces::build(recording)?;
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(16);
    let ranges = recording.ranges(workers);
    let tallies = if ranges.len() < 2 {
        ranges
            .iter()
            .map(|r| worker(recording, &spaces, r))
            .collect::<Vec<_>>()
    } else {
        std::thread::scope(|scope| {
            let (recording, spaces) = (&recording, &spaces);
            let handles: Vec<_> = ranges
                .iter()
                .map(|range| scope.spawn(move || worker(recording, spaces, range)))
                .collect();
            handles
                .into_iter()
                .map(|h| {
                    h.join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        })
    };
    let mut whole = Tally::default();
    for tally in tallies {
        whole.absorb(tally?, |key| resolve(&spaces, key));
    }
    let mut analysis = report(&whole, spaces.files().to_vec());
    analysis.losses = recording.losses()?;
    let asked_not = with_stacks().all(|e| e.attr.branch_sample_type & br::NO_CYCLES != 0);
    analysis.no_cycles = no_cycles(&analysis.cleaning, recording, asked_not);
    Ok(Ok(analysis))
}

/// Reads the text of `perf script -F ip,brstack` (with or without other fields): addresses only. They become places in
/// `program` where it is the file of its own addresses, as one that is not position-independent is.
///
/// # Errors
/// [`Refusal::NoBranchStacks`] when no line has an entry, [`Refusal::NotThere`] when none is in the program.
pub fn analyze_text(
    text: &str,
    program: Option<&Program>,
) -> std::result::Result<Analysis, Refusal> {
    let mut tally = Tally::default();
    let mut overlaps = Overlaps::default();
    for line in text.lines() {
        let stack = text::stack(line);
        if !stack.is_empty() {
            tally.cleaning.samples += 1;
            tally.cleaning.overlapping += overlaps.count(0, stack.iter().copied());
            tally.stack(NO_SPACE, stack.iter().copied());
        }
    }
    if tally.cleaning.stacks == 0 {
        return Err(Refusal::NoBranchStacks);
    }
    tally.finish();
    let mut whole = Tally::default();
    let placed = |key| program.and_then(|program| program.place(key));
    whole.absorb(tally, |key| placed(key).unwrap_or(key));
    let file = program.map(|program| program.file.clone());
    let mut analysis = report(&whole, file.into_iter().collect());
    if program.is_some() && analysis.blocks.iter().all(|block| block.file.is_none()) {
        return Err(Refusal::NotThere);
    }
    if analysis.cleaning.entries_with_cycles == 0 {
        analysis.no_cycles = Some("no entry of the text has cycles".to_owned());
    }
    Ok(analysis)
}

fn worker(recording: &Recording, spaces: &AddressSpaces, range: &RecordRange) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut overlaps = Overlaps::default();
    let mut known: Option<(u32, Option<u64>, u32)> = None;
    for record in recording.records_in(range) {
        let record = record?;
        if record.raw.kind != rt::SAMPLE {
            continue;
        }
        let (Body::Sample(sample), ..) = recording.decode(&record)? else {
            continue;
        };
        tally.cleaning.samples += 1;
        let Some(stack) = sample.branches else {
            continue;
        };
        let space = match (sample.id.pid, known) {
            (None, _) => NO_SPACE,
            (Some(pid), Some((last, time, space))) if pid == last && time == sample.id.time => {
                space
            }
            (Some(pid), _) => {
                let space = spaces.space(pid, sample.id.time);
                known = Some((pid, sample.id.time, space));
                space
            }
        };
        let thread = sample.id.tid.unwrap_or(0);
        tally.cleaning.overlapping += overlaps.count(thread, stack.iter());
        tally.stack(space, stack.iter());
    }
    tally.finish();
    Ok(tally)
}

/// Place numbers of a resolved key: files from here on, addresses below.
const FILES: u32 = 1 << 31;

fn resolve(spaces: &AddressSpaces, key: Key) -> Key {
    let unmapped = Key {
        place: if is_kernel_address(key.start) {
            KERNEL_SPACE
        } else {
            NO_SPACE
        },
        ..key
    };
    match (
        spaces.resolve(key.place, key.start),
        spaces.resolve(key.place, key.end),
    ) {
        (Some((file, start)), Some((other, end))) if file == other && start <= end => Key {
            place: FILES | file,
            start,
            end,
        },
        _ => unmapped,
    }
}

fn arrivals(side: &tally::Side) -> Arrivals {
    Arrivals {
        cycles: Histogram::new(side.cycles.bins().map(|(c, n)| (c, u64::from(n))).collect()),
        unknown: side.unknown,
        saturated: side.saturated,
    }
}

/// Orders the counts and derives loops, paths and costs from them.
fn report(whole: &Tally, files: Vec<MappedFile>) -> Analysis {
    let mut blocks: Vec<(u32, Block)> = whole
        .blocks
        .iter()
        .enumerate()
        .map(|(id, b)| {
            let [predicted, mispredicted] = &b.sides;
            let block = Block {
                file: (b.key.place & FILES != 0).then_some(b.key.place & !FILES),
                start: b.key.start,
                end: b.key.end,
                address: b.seen_at,
                predicted: arrivals(predicted),
                mispredicted: arrivals(mispredicted),
            };
            (id as u32, block)
        })
        .collect();
    blocks.sort_by_cached_key(|(_, b)| {
        (
            std::cmp::Reverse((b.total_cycles(), b.count())),
            b.file,
            b.start,
            b.end,
        )
    });
    let mut ids = vec![tally::NONE; blocks.len()];
    for (new, (old, _)) in blocks.iter().enumerate() {
        if let Some(slot) = ids.get_mut(*old as usize) {
            *slot = new as u32;
        }
    }
    let map = |id: u32| ids.get(id as usize).copied().unwrap_or(tally::NONE);
    let mut follows: Vec<_> = whole
        .follows
        .iter()
        .map(|((a, b), n)| (map(*a), map(*b), *n))
        .collect();
    follows.sort_unstable_by_key(|(a, b, n)| (std::cmp::Reverse(*n), *a, *b));
    let blocks: Vec<Block> = blocks.into_iter().map(|b| b.1).collect();
    let loops = loops::loops(whole, &blocks, &follows, map);
    let paths = loops::paths(&blocks, &follows);
    Analysis {
        cleaning: whole.cleaning,
        misprediction: MispredictionCost::estimate(&blocks),
        blocks,
        files,
        follows,
        loops,
        paths,
        no_cycles: None,
        losses: crate::file::Losses::default(),
    }
}

fn no_cycles(cleaning: &Cleaning, recording: &Recording, asked_not: bool) -> Option<String> {
    if cleaning.entries_with_cycles > 0 || cleaning.entries == 0 {
        return None;
    }
    if asked_not {
        return Some("the recording asked for branches without cycles (no_cycles)".to_owned());
    }
    let cpu = recording.features().cpu_id.as_deref().unwrap_or("");
    let why = if cpu.starts_with("AuthenticAMD") {
        "AMD's branch stacks (LbrExtV2, BRS) have no cycles"
    } else if cpu.starts_with("GenuineIntel") {
        "this Intel CPU's branch stacks have no cycles: only Skylake and later have them"
    } else if recording.features().arch.as_deref() == Some("aarch64") {
        "the stacks have no cycle counts: they come from a trace, or BRBE recorded without them"
    } else {
        "no entry has cycles: Intel before Skylake, AMD, or a synthesised recording"
    };
    Some(why.to_owned())
}
