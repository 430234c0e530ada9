//! The counts of a run, read from the shared file: they are there whatever
//! became of the program.

use super::blocks::{Blocks, Reader};
use super::bytes::field;
use super::calls::{self, Calls};
use super::shared::Shared;
use crate::layout::{Context, Header, option, state};
use crate::xlate::facts::{Counts, Event};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU8, Ordering};

/// One thread of one process image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadTotals {
    /// Slot number: the order of appearance, as long as there are fewer than 65,536. Beyond, slots of
    /// threads that are gone are taken again, and slot 0 is the sum over those.
    pub slot: u32,
    /// Slot of the first thread of this process image.
    pub leader: u32,
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub parent: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of the program (its file name; a fork keeps its parent's).
    pub name: String,
    /// User-mode instructions retired: exact.
    pub instructions: u64,
    /// With per-block counters: every event.
    pub events: Option<Counts>,
    /// Times that translated code came back to the runtime (a cost, not a count of the program's).
    pub entries: u64,
    /// Blocks that this thread had translated: a cost, too.
    pub translated: u64,
    /// Blocks taken over from disk when this thread mapped their files.
    pub cached: u64,
    /// The thread ended by itself (`exit`, `execve`), not by a signal.
    pub ended: bool,
    /// It ended, or was last seen, where its count is whole. Otherwise it was killed in the middle of a block, whose
    /// instructions were counted too early or not yet.
    pub whole: bool,
}

/// Something that decided in a run whose threads execute in turn, and that another run may not have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outside {
    /// What, in words.
    pub what: String,
    /// How often.
    pub times: u32,
}

/// What decided beside the program.
fn outside(shared: &Shared) -> Vec<Outside> {
    use crate::schedule::{CAUSES, MAX_THREADS, State, cause};
    type Run = State<MAX_THREADS>;
    let read = |at: usize| {
        let offset = crate::layout::SCHEDULE - crate::layout::TOTALS_BASE + at as u64;
        let words = shared.words(0, offset, CAUSES / 2).unwrap_or_default();
        words
            .iter()
            .flat_map(|word| [*word as u32, (word >> 32) as u32])
            .collect::<Vec<u32>>()
    };
    let counts = read(offset_of!(Run, outside));
    let calls = read(offset_of!(Run, outside_call));
    let named = |number: u32| {
        crate::syscall_table::TABLE
            .iter()
            .find(|call| call.number == u64::from(number))
            .map_or_else(|| format!("call {number}"), |call| call.name.to_lowercase())
    };
    let all = counts.into_iter().zip(calls).enumerate();
    all.filter(|(_, (times, _))| *times > 0)
        .map(|(at, (times, call))| {
            let what = match at {
                cause::CALL => format!(
                    "calls that are not scheduled waited (the last: {})",
                    named(call)
                ),
                cause::CAME => format!(
                    "something came while all threads waited (the last: {})",
                    named(call)
                ),
                cause::FORCED => {
                    "threads executed for too long beside others that were ready".to_owned()
                }
                cause::TIMER => {
                    format!("timers of the kernel were set (the last: {})", named(call))
                }
                cause::SIGNAL => "signals came from outside the run".to_owned(),
                cause::NATIVE => "programs went on natively".to_owned(),
                cause::DEADLOCK => "all threads waited for each other (a deadlock)".to_owned(),
                _ => "something else decided".to_owned(),
            };
            Outside { what, times }
        })
        .collect()
}

/// All counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Every thread of every process, in order of appearance.
    pub threads: Vec<ThreadTotals>,
    /// Programs that ran without being counted (setuid, 32-bit, not traceable).
    pub uncounted: u32,
    /// The first of them, and why.
    pub left_out: Option<String>,
    /// Threads that were killed in the middle of a block, among those whose slots were taken again.
    pub retired_cut: u32,
    /// With [`super::Options::own_clock`]: how often the clock of a process had stood still for
    /// so long that it was set on after the real one. Times in such runs differ.
    pub clock_followed: u32,
    /// With [`super::Options::in_turn`]: what decided beside the program, and how often.
    pub outside: Vec<Outside>,
    /// What came in from outside.
    pub inputs: Vec<super::Input>,
    /// Which inputs there were beside that.
    pub identity: super::Identity,
    /// With [`super::Options::regions`]: what programs printed by client requests …
    pub printed: Vec<super::Printed>,
    /// … and how many bytes of it were too much.
    pub unprinted: u64,
    /// With [`super::Options::own_random`]: random devices that were the kernel's after all.
    pub random_missed: u32,
    /// Writes of code (by another process, by `ptrace`) after which a process may have gone on with the old: then the
    /// run is not what it would be natively, and its count not exact.
    pub unseen_writes: u32,
    /// What programs did out of the virtual PMU's sight, how often …
    pub unfollowed: u32,
    /// … and what it was the first time.
    pub unfollowed_first: Option<String>,
    /// Processes that may have ended by a fault that the virtual PMU did not see (the program had blocked the signal, and
    /// waits for it otherwise): each count is at most a block's instructions too high.
    pub unseen_faults: u32,
    /// The report of a failed internal check.
    pub failure: Option<String>,
}

impl Totals {
    /// User-mode instructions of the whole run.
    pub fn instructions(&self) -> u64 {
        self.threads.iter().map(|t| t.instructions).sum()
    }

    /// The sum of an event over the run; `None` where it was not counted.
    pub fn event(&self, event: Event) -> Option<u64> {
        match event {
            Event::Instructions => Some(self.instructions()),
            event => self.threads.iter().try_fold(0u64, |sum, thread| {
                let counts = thread.events.as_ref()?;
                Some(sum.wrapping_add(*counts.get(event as usize)?))
            }),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or(&[])).into_owned()
}

/// What has no slot of its own any more.
fn retired(header: &Header) -> Option<ThreadTotals> {
    let retired = header.retired.load(Ordering::Acquire);
    (retired > 0).then(|| ThreadTotals {
        slot: 0,
        leader: 0,
        pid: 0,
        parent: 0,
        tid: 0,
        name: format!("{retired} threads and programs that ended earlier"),
        instructions: header.retired_instructions.load(Ordering::Acquire),
        events: None,
        entries: 0,
        translated: header.retired_blocks[0].load(Ordering::Acquire),
        cached: header.retired_blocks[1].load(Ordering::Acquire),
        ended: true,
        whole: true,
    })
}

pub(super) fn read(shared: &Shared) -> (Totals, Option<Blocks>, Option<Calls>) {
    let header = shared.header();
    let mut blocks = (header.options & option::BLOCKS != 0).then(|| Reader::new(shared));
    let mut calls = (header.options & option::CALLS != 0).then(|| calls::Reader::new(shared));
    let mut totals = Totals {
        uncounted: header.uncounted.load(Ordering::Acquire),
        retired_cut: header.retired_cut.load(Ordering::Acquire),
        clock_followed: header.clock_followed.load(Ordering::Acquire),
        random_missed: header.random_missed.load(Ordering::Acquire),
        unfollowed: header.unfollowed.load(Ordering::Acquire),
        unseen_writes: header.unseen_writes.load(Ordering::Acquire),
        outside: match header.options & option::SCHEDULE {
            0 => Vec::new(),
            _ => outside(shared),
        },
        inputs: super::inputs::read(shared),
        identity: super::inputs::identity(shared),
        ..Totals::default()
    };
    (totals.printed, totals.unprinted) = super::texts::read(shared);
    let noted = |bytes: &[AtomicU8]| {
        let bytes: Vec<u8> = bytes
            .iter()
            .map(|byte| byte.load(Ordering::Acquire))
            .collect();
        Some(text(&bytes)).filter(|text| !text.is_empty())
    };
    totals.left_out = noted(&header.left_out);
    totals.unfollowed_first = noted(&header.unfollowed_first);
    if header.failed.load(Ordering::Acquire) != 0 {
        totals.failure = Some(text(&header.report).trim_end().to_owned());
    }
    let end = header
        .next_slot
        .load(Ordering::Acquire)
        .min(crate::layout::MAX_SLOTS);
    // By process: whether a thread ended by itself, and whether one had such signals blocked.
    let mut processes = BTreeMap::new();
    if let Some(blocks) = &mut blocks {
        blocks.marks(end);
    }
    let mut logs = Vec::new();
    for slot in 1..end {
        let Ok(page) = shared.context(slot) else {
            continue;
        };
        let word = |at| u32::from_le_bytes(field(page.as_slice(), at));
        let status = word(offset_of!(Context, state));
        if status == state::LOG {
            logs.push(slot);
        }
        if matches!(
            status,
            state::FREE | state::LOG | state::RETIRING | state::MARK
        ) {
            continue;
        }
        let leader = word(offset_of!(Context, leader));
        let blocked = u64::from_le_bytes(field(page.as_slice(), offset_of!(Context, virtual_mask)));
        let process: &mut (bool, bool) = processes.entry(leader).or_default();
        process.0 |= status != state::LIVE;
        process.1 |= blocked != 0;
        let events = blocks
            .as_mut()
            .map(|blocks| blocks.thread(slot, leader, page.as_slice()));
        if let Some(calls) = &mut calls {
            calls.thread(slot, page.as_slice(), status != state::LIVE);
        }
        // Beside counters of blocks the running total is only what a tree of calls or the engine's clock goes by.
        let total = || {
            let lane = |number: usize| offset_of!(Context, count) + 8 * number;
            let lanes =
                (0..8).map(|number| u64::from_le_bytes(field(page.as_slice(), lane(number))));
            lanes.fold(0, u64::wrapping_add)
        };
        totals.threads.push(ThreadTotals {
            slot,
            leader,
            pid: word(offset_of!(Context, pid)),
            parent: word(offset_of!(Context, parent)),
            tid: word(offset_of!(Context, tid)),
            name: text(&field::<64>(page.as_slice(), offset_of!(Context, name))),
            instructions: events.map_or_else(total, |events| events[0]),
            events,
            entries: u64::from_le_bytes(field(page.as_slice(), offset_of!(Context, entries))),
            translated: u64::from_le_bytes(field(page.as_slice(), offset_of!(Context, translated))),
            cached: u64::from_le_bytes(field(page.as_slice(), offset_of!(Context, cached))),
            ended: status != state::LIVE,
            whole: status != state::LIVE || word(offset_of!(Context, whole)) != 0,
        });
    }
    // Behind the threads: nodes of those that had ended are as they stay.
    if let Some(calls) = &mut calls {
        for slot in logs {
            if let Ok(page) = shared.context(slot) {
                calls.nodes(shared, slot, page.as_slice());
            }
        }
    }
    if header.faults_left.load(Ordering::Acquire) != 0 {
        let killed = processes
            .values()
            .filter(|&&(ended, blocked)| !ended && blocked);
        totals.unseen_faults = killed.count() as u32;
    }
    totals.threads.extend(retired(header));
    (
        totals,
        blocks.map(Reader::finish),
        calls.map(|calls| calls.finish(shared)),
    )
}
