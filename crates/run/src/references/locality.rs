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
    /// By function, those with the most touches of lines that were 512 others ago (32 KiB) or more, or never, first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionLocality>,
    /// Distinct lines and pages over time, of at most 16 threads, those with the most touches first.
    pub working_sets: Vec<ThreadWorkingSet>,
}

/// The order of a function's references among all of their threads'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionLocality {
    /// Path of the file with the code, or `[jit]`, `[vdso]`.
    pub module: String,
    /// Name of the symbol.
    pub function: String,
    /// As in [`Locality`].
    #[serde(flatten)]
    pub order: OfCode,
}

/// What is known of a piece of code's place in the order of references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OfCode {
    /// Touches of lines.
    pub touches: u64,
    /// Of lines that the thread had not touched before.
    pub first_touches: u64,
    /// The others, by how many other lines the thread, in whatever function, touched in between.
    pub reuse: Vec<Reuse>,
    /// References by how far they are from where the same operand was the time before.
    pub strides: StrideCounts,
}

/// Lines of 32 KiB.
const NEAR: u64 = 512;

impl OfCode {
    /// Touches of lines that were 512 others ago or more, or never: those that a cache of 32 KiB would not have, least
    /// recently used lines replaced, any line anywhere.
    pub fn far(&self) -> u64 {
        let far = self.reuse.iter().filter(|reuse| reuse.from >= NEAR);
        self.first_touches + far.map(|reuse| reuse.touches).sum::<u64>()
    }
}

/// What an operand's references came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    strides: Strides,
    firsts: u64,
    /// By the class of the distance.
    classes: Vec<u64>,
}

impl Counted {
    #[inline]
    fn touch(&mut self, class: Option<usize>) {
        let Some(class) = class else {
            self.firsts += 1;
            return;
        };
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0);
        }
        if let Some(times) = self.classes.get_mut(class) {
            *times += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.strides.add(&other.strides);
        self.firsts += other.firsts;
        if self.classes.len() < other.classes.len() {
            self.classes.resize(other.classes.len(), 0);
        }
        for (sum, times) in self.classes.iter_mut().zip(&other.classes) {
            *sum += times;
        }
    }

    pub(crate) fn of_code(&self) -> OfCode {
        OfCode {
            touches: self.firsts + self.classes.iter().sum::<u64>(),
            first_touches: self.firsts,
            reuse: reuse(&self.classes),
            strides: StrideCounts::of(&self.strides),
        }
    }
}

fn reuse(classes: &[u64]) -> Vec<Reuse> {
    let last = classes.iter().rposition(|&times| times != 0);
    let classes = classes.iter().take(last.map_or(0, |last| last + 1));
    let one = |(class, &touches): (usize, &u64)| {
        let (from, to) = class_range(class);
        Reuse { from, to, touches }
    };
    classes.enumerate().map(one).collect()
}

impl StrideCounts {
    fn of(strides: &Strides) -> Self {
        Self {
            first: strides.first,
            same: strides.same,
            next: strides.next,
            constant: strides.constant,
            changing: strides.changing,
        }
    }
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
    /// By the instruction's address and the operand's number.
    operands: FxHashMap<(u64, usize), (truecount_memory::Stride, Counted)>,
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
        let Self { locality, operands } = self;
        for (at, instruction) in executed.instructions() {
            in_order(executed, at, runs, |number, reference| {
                let operand = operands.entry((instruction.pc, number)).or_default();
                let (stride, counted) = operand;
                let Reference { address, size, .. } = reference;
                counted.strides.count(stride, address, size);
                locality.reference_each(address, size, |class| counted.touch(class));
            });
        }
    }

    /// What each operand's references came to, with the address of its instruction.
    pub(super) fn each(&self, see: &mut dyn FnMut(u64, &Counted)) {
        for ((pc, _), (_, counted)) in &self.operands {
            see(*pc, counted);
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
        order.each(&mut |_, counted| strides.add(&counted.strides));
        sets.push((order.locality.touches(), tid, order));
    }
    sets.sort_by_key(|&(touches, tid, _)| (std::cmp::Reverse(touches), tid));
    Locality {
        touches,
        first_touches,
        reuse: reuse(&classes),
        strides: StrideCounts::of(&strides),
        functions: Vec::new(),
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
