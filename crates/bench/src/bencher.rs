//! One benchmark and how it is counted.

use crate::{alloc, ends};
use std::fmt;
use std::hint::black_box;
use std::io::Write as _;
use truecount::{Counter, Error, Fence};
use truecount_engine::pmu::{OWN, Quantity};

/// A benchmark of the suite; the attribute [`bench`](macro@crate::bench) makes it.
pub struct Benchmark {
    module: &'static str,
    group: Option<&'static str>,
    name: &'static str,
    pub(crate) run: fn(&mut Bencher<'_>),
}

inventory::collect!(Benchmark);

impl Benchmark {
    #[doc(hidden)]
    #[must_use]
    pub const fn __new(
        module: &'static str,
        group: Option<&'static str>,
        name: &'static str,
        run: fn(&mut Bencher<'_>),
    ) -> Self {
        Self {
            module,
            group,
            name,
            run,
        }
    }

    /// Its group, or the module inside the suite, and its name.
    pub(crate) fn full_name(&self) -> String {
        // The first part is the suite's own name.
        let inside = self.module.split_once("::").map(|(_, inside)| inside);
        match self.group.or(inside) {
            Some(group) => format!("{group}::{}", self.name),
            None => self.name.to_owned(),
        }
    }
}

impl fmt::Debug for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full_name())
    }
}

/// A counter with what counting nothing counts.
pub(crate) struct Calibrated {
    counter: Counter<Fence>,
    overhead: u64,
}

/// What the calibration calls: in the shape of a benchmark that does nothing.
fn nothing() {}

/// The virtual PMU's own number of an event that perf has no name for.
fn own_number(event: &str) -> Option<u64> {
    let quantity = match event {
        "loads:u" => Quantity::Loads,
        "stores:u" => Quantity::Stores,
        _ => return None,
    };
    Some(OWN | quantity as u64)
}

impl Calibrated {
    /// Opens an event; `inside`: of the virtual PMU.
    pub(crate) fn open(event: &str, inside: bool) -> Result<Self, String> {
        let opened = match own_number(event) {
            None => Counter::<Fence>::open(event),
            Some(number) if inside => Counter::<Fence>::open(&format!("r{number:x}:u")),
            Some(_) => {
                return Err(
                    "this CPU's event for it counts something else; --source virtual counts it"
                        .to_owned(),
                );
            }
        };
        let counter = opened.map_err(|error: Error| error.to_string())?;
        let mut overhead = u64::MAX;
        for _ in 0..32 {
            let (count, ()) = counted(&counter, (), |(): ()| nothing());
            overhead = overhead.min(count);
        }
        Ok(Self { counter, overhead })
    }

    pub(crate) fn counter(&self) -> &Counter<Fence> {
        &self.counter
    }
}

/// Calls a function between two reads. Not inlined, and the function is a pointer that the compiler does not know: the
/// way around a benchmark is the same as around the one that does nothing.
#[inline(never)]
fn counted<I, O>(counter: &Counter<Fence>, input: I, run: fn(I) -> O) -> (u64, O) {
    let run = black_box(run);
    let start = counter.read();
    let output = run(input);
    let end = counter.read();
    (counter.between(start, end), output)
}

/// How many counted runs a case has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// So many.
    Just(u32),
    /// So many, or as many as it takes until the last [`AGREEING`] are equal.
    UntilEqual(u32),
}

/// Equal counts in a row after which another run tells nothing new where nothing but the program makes counts differ.
const AGREEING: usize = 3;

impl Runs {
    fn most(self) -> usize {
        let (Self::Just(most) | Self::UntilEqual(most)) = self;
        most as usize
    }

    /// Uncounted runs before them, where nobody asks for a number: what is there to settle for a PMU; else the first one, as
    /// what has not settled then is seen.
    fn usual_warmup(self) -> u32 {
        match self {
            Self::Just(_) => 3,
            Self::UntilEqual(_) => 1,
        }
    }

    /// Where the equal ones begin that are enough, if there are.
    fn settled(self, counts: &[u64]) -> Option<usize> {
        let first = counts.len().checked_sub(AGREEING)?;
        let equal = counts[first..].windows(2).all(|pair| pair[0] == pair[1]);
        (equal && matches!(self, Self::UntilEqual(_))).then_some(first)
    }

    /// Room for all counts, made before the first run: between runs nothing else uses the allocator.
    fn room(self) -> Vec<u64> {
        Vec::with_capacity(self.most())
    }

    /// Counts until these are enough. What came before equal ones and cost more was not settled: it belongs to the warm-up.
    fn take(self, counts: &mut Vec<u64>, mut once: impl FnMut() -> u64) {
        while counts.len() < self.most() {
            counts.push(once());
            if let Some(first) = self.settled(counts) {
                let count = counts[first];
                if counts[..first].iter().all(|before| *before > count) {
                    counts.drain(..first);
                }
                break;
            }
        }
    }
}

/// What is done with each case of a benchmark.
pub(crate) enum Task<'a> {
    /// Its name.
    List,
    /// Run once, uncounted.
    Once,
    /// Count by this event.
    Count {
        by: &'a Calibrated,
        runs: Runs,
        warmup: Option<u32>,
        allocations: bool,
    },
}

/// One case: what was counted in each run, and allocations (calls, bytes) of one run.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) counts: Vec<u64>,
    pub(crate) allocations: Option<(u64, u64)>,
}

/// Says whose the panic is that unwinds through it, and whose an end of the process.
struct Named<'a>(&'a str);

impl<'a> Named<'a> {
    fn new(name: &'a str) -> Self {
        ends::running(Some(name));
        Self(name)
    }
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        ends::running(None);
        if std::thread::panicking() {
            let name = self.0;
            let _ = writeln!(
                std::io::stderr(),
                "error: the benchmark {name} panicked: nothing was counted"
            );
        }
    }
}

/// Runs the cases of a benchmark.
pub struct Bencher<'a> {
    pub(crate) benchmark: &'a str,
    pub(crate) wanted: &'a dyn Fn(&str) -> bool,
    pub(crate) task: Task<'a>,
    pub(crate) cases: Vec<Case>,
}

impl fmt::Debug for Bencher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bencher")
            .field("benchmark", &self.benchmark)
            .finish_non_exhaustive()
    }
}

impl Bencher<'_> {
    /// One case: `setup` makes what `run` takes and `teardown` takes what it gives; only `run` is counted.
    pub fn case<I, O>(
        &mut self,
        label: &str,
        mut setup: impl FnMut() -> I,
        run: fn(I) -> O,
        mut teardown: impl FnMut(O),
    ) {
        let name = match label {
            "" => self.benchmark.to_owned(),
            label => format!("{}/{label}", self.benchmark),
        };
        if !(self.wanted)(&name) {
            return;
        }
        let named = Named::new(&name);
        let mut counts = Vec::new();
        let mut allocated = None;
        match &self.task {
            Task::List => {}
            Task::Once => teardown(black_box(run(black_box(setup())))),
            Task::Count {
                by,
                runs,
                warmup,
                allocations,
            } => {
                counts = runs.room();
                let mut once = || {
                    let input = black_box(setup());
                    let (count, output) = counted(&by.counter, input, run);
                    teardown(black_box(output));
                    count.saturating_sub(by.overhead)
                };
                for _ in 0..warmup.unwrap_or(runs.usual_warmup()) {
                    once();
                }
                runs.take(&mut counts, once);
                // A run for these alone, where somebody counts them.
                if *allocations && alloc::now().is_some() {
                    let input = black_box(setup());
                    let before = alloc::now();
                    let output = run(input);
                    let after = alloc::now();
                    teardown(black_box(output));
                    allocated = before.zip(after).map(|(before, after)| {
                        (
                            after.0.saturating_sub(before.0),
                            after.1.saturating_sub(before.1),
                        )
                    });
                }
            }
        }
        drop(named);
        self.cases.push(Case {
            name,
            counts,
            allocations: allocated,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_three_in_a_row_are_equal() {
        for (given, wanted) in [
            ([7, 7, 7, 8, 9], &[7, 7, 7][..]),
            ([9, 7, 7, 7, 8], &[7, 7, 7]),
            ([9, 8, 7, 7, 7], &[7, 7, 7]),
            // What cost less is a count.
            ([6, 7, 7, 7, 8], &[6, 7, 7, 7]),
            ([9, 6, 7, 7, 7], &[9, 6, 7, 7, 7]),
            ([7, 9, 7, 9, 7], &[7, 9, 7, 9, 7]),
            ([0, 0, 1, 0, 0], &[0, 0, 1, 0, 0]),
        ] {
            let take = |runs: Runs| {
                let mut given = given.into_iter();
                let mut counts = runs.room();
                runs.take(&mut counts, || given.next().unwrap());
                counts
            };
            assert_eq!(take(Runs::UntilEqual(5)), wanted);
            assert_eq!(take(Runs::UntilEqual(2)), given[..2]);
            for asked in 1..=5 {
                assert_eq!(take(Runs::Just(asked)), given[..asked as usize]);
            }
        }
    }
}
