//! In which order a thread references its memory.

use super::step::kind_of;
use rustc_hash::FxHashMap;
use serde::Serialize;
use truecount_engine::virt::references::{Executed, Run};
use truecount_memory::{CLASSES, Kind, Reference, Strides, class_range};

/// Threads whose working sets are told.
const THREADS: usize = 16;

/// Facts about the order of references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Locality {
    /// Touches of lines: references, those in two lines twice.
    pub touches: u64,
    /// Touches of lines that the thread had not touched before.
    pub first_touches: u64,
    /// The others, by how many other lines the thread touched in between.
    pub reuse: Vec<Reuse>,
    /// References by how far they are from where the same operand was the time before.
    pub strides: StrideCounts,
    /// Distinct lines and pages over time, of at most 16 threads, those with the most touches first.
    pub working_sets: Vec<ThreadWorkingSet>,
}

/// Touches with distances of reuse in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reuse {
    /// Least distance.
    pub from: u64,
    /// Greatest.
    pub to: u64,
    /// How many touches.
    pub touches: u64,
}

/// See [`Strides`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StrideCounts {
    /// The first of an operand.
    pub first: u64,
    /// At the same address as the time before.
    pub same: u64,
    /// Next to it.
    pub next: u64,
    /// As far away as the time before.
    pub constant: u64,
    /// Others.
    pub changing: u64,
}

/// A thread's working set over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadWorkingSet {
    /// Thread.
    pub tid: u32,
    /// Touches in each window; the last one may have fewer.
    pub window_touches: u64,
    /// Distinct lines in each window.
    pub lines: Vec<u32>,
    /// Distinct pages.
    pub pages: Vec<u32>,
}

/// What is kept of one thread.
#[derive(Default)]
pub(super) struct Order {
    locality: truecount_memory::Locality,
    strides: Strides,
    /// By the instruction's address and the operand's number.
    operands: FxHashMap<(u64, usize), truecount_memory::Stride>,
}

/// Calls `f` for each reference of instruction `at`, in the order in which they are made: the operand's number, and
/// the reference. `runs` is room that is used again.
pub(super) fn in_order(
    executed: &Executed<'_>,
    at: usize,
    runs: &mut Vec<(usize, Kind, Run)>,
    mut f: impl FnMut(usize, Reference),
) {
    runs.clear();
    let mut by_turns = false;
    executed.references(at, |number, operand, run| {
        // Elements of repeated instructions come by turns: one is read, then written.
        by_turns |= operand.is_repeated();
        runs.push((number, kind_of(operand.access), run));
    });
    let mut one = |(number, kind, run): &(usize, Kind, Run), time: u64| {
        if time < run.times {
            let away = time.wrapping_mul(u64::from(run.size));
            let reference = Reference {
                address: run.address.wrapping_add(away),
                size: run.size,
                kind: *kind,
            };
            f(*number, reference);
        }
    };
    if !by_turns {
        for run in runs.iter() {
            (0..run.2.times).for_each(|time| one(run, time));
        }
        return;
    }
    let longest = runs.iter().map(|(.., run)| run.times).max().unwrap_or(0);
    for time in 0..longest {
        runs.iter().for_each(|run| one(run, time));
    }
}

impl Order {
    /// A block is executed.
    pub(super) fn execute(&mut self, executed: &Executed<'_>, runs: &mut Vec<(usize, Kind, Run)>) {
        let Self {
            locality,
            strides,
            operands,
        } = self;
        for (at, instruction) in executed.instructions() {
            in_order(executed, at, runs, |number, reference| {
                let operand = operands.entry((instruction.pc, number)).or_default();
                strides.count(operand, reference.address, reference.size);
                locality.reference(reference.address, reference.size);
            });
        }
    }
}

/// What all threads came to: each with its id.
pub(super) fn together<'a>(threads: impl Iterator<Item = (u32, &'a Order)>) -> Locality {
    let (mut touches, mut first_touches, mut classes) = (0, 0, [0u64; CLASSES]);
    let mut strides = Strides::default();
    let mut sets = Vec::new();
    for (tid, order) in threads {
        touches += order.locality.touches();
        first_touches += order.locality.firsts();
        for (sum, times) in classes.iter_mut().zip(order.locality.classes()) {
            *sum += times;
        }
        strides.add(&order.strides);
        sets.push((order.locality.touches(), tid, order));
    }
    sets.sort_by_key(|&(touches, tid, _)| (std::cmp::Reverse(touches), tid));
    let last = classes.iter().rposition(|&times| times != 0);
    let classes = classes.iter().take(last.map_or(0, |last| last + 1));
    Locality {
        touches,
        first_touches,
        reuse: classes
            .enumerate()
            .map(|(class, &touches)| {
                let (from, to) = class_range(class);
                Reuse { from, to, touches }
            })
            .collect(),
        strides: StrideCounts {
            first: strides.first,
            same: strides.same,
            next: strides.next,
            constant: strides.constant,
            changing: strides.changing,
        },
        working_sets: sets
            .into_iter()
            .take(THREADS)
            .map(|(_, tid, order)| {
                let set = order.locality.working_set();
                ThreadWorkingSet {
                    tid,
                    window_touches: set.window,
                    lines: set.lines,
                    pages: set.pages,
                }
            })
            .collect(),
    }
}
