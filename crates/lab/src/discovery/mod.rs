//! The scan for what event selectors count: selector after selector, in batches of as many as the PMU takes at once,
//! over repeated identical runs of a workload, beside references that are counted in the same runs.
//!
//! The method is that of the report that found r0420 on Zen: try every selector, see which count, see where they count, and
//! hold them against what is known. Only `perf_event_open` is used; nothing writes to an MSR by itself.

pub mod builtin;
mod command;
mod keep;
pub mod open;
mod outcome;
mod prepare;
mod references;
mod relate;
mod select;
mod stages;
mod state;
mod workload;

pub use builtin::Builtin;
pub use command::Command;
pub use keep::{Keeper, kept_state};
pub use outcome::{Found, InPhase, Outcome, Range, Silent, Unavailable, outcome};
pub use prepare::{ScanRequest, Told};
pub use relate::{
    CORRELATED, Envelope, Kind, MIN_POINTS, MOSTLY, Relation, Series, Sum, relate, sum,
};
pub use select::{Layout, Selector, condense, parse_codes};
pub use stages::{Known, Stage, Umasks};
pub use state::{Batch, NotCounted, State};
pub use workload::{Counts, Phase, Problem, Workload};

use open::Why;
use std::collections::{BTreeSet, VecDeque};
use truecount_model::SourceKind;
use truecount_perf::{EventAttr, SharedKernel};
use truecount_stats::plan_batches;

/// How often a run is tried whose counters others took.
const ATTEMPTS: u32 = 3;

/// Sums of two selectors that are tried at most.
const MAX_SUMS: usize = 64;

/// What a reference is counted by.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are a handful of references"
)]
pub enum By {
    /// An event, minus another where it is a difference.
    Events {
        /// What counts.
        plus: EventAttr,
        /// What is subtracted.
        minus: Option<EventAttr>,
    },
    /// All interrupts of the CPU, from `/proc/interrupts`.
    Interrupts,
}

/// Something known that selectors are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Who counts it.
    pub source: SourceKind,
    /// How it is counted.
    pub by: By,
}

impl Reference {
    fn attrs(&self) -> impl Iterator<Item = EventAttr> + use<> {
        let (plus, minus) = match &self.by {
            By::Events { plus, minus } => (Some(*plus), *minus),
            By::Interrupts => (None, None),
        };
        plus.into_iter().chain(minus)
    }
}

/// What to try.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Event codes.
    pub codes: Vec<u16>,
    /// How they are encoded.
    pub layout: Layout,
    /// Which single bits of unit masks.
    pub umasks: Umasks,
    /// Runs of each batch.
    pub runs: u32,
    /// Type and filter of every selector.
    pub raw: EventAttr,
    /// The filter as it stands behind a name: `u`, `uk`.
    pub filter: String,
    /// What they are compared with.
    pub references: Vec<Reference>,
    /// Events that this CPU's tables name.
    pub known: Vec<Known>,
}

impl Plan {
    /// A selector as `-e` takes it: `r01cb:u`.
    #[must_use]
    pub fn name(&self, selector: Selector) -> String {
        format!("{}:{}", selector.name(self.layout), self.filter)
    }

    fn attr(&self, selector: Selector) -> EventAttr {
        self.raw.config(selector.config(self.layout))
    }

    fn anchors(&self) -> Vec<EventAttr> {
        self.references.iter().flat_map(Reference::attrs).collect()
    }

    /// Whether all references can be on the PMU together with one selector.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn check(&self, kernel: &SharedKernel) -> Result<(), String> {
        let hardware = self
            .references
            .iter()
            .filter(|r| r.source == SourceKind::Hardware);
        if hardware.count() == 0 {
            return Ok(());
        }
        // Code 0 stands for any: it is not restricted to some counters.
        let mut attrs = vec![self.attr(Selector {
            code: 0,
            umask: self.layout.has_umasks().then_some(0),
        })];
        attrs.extend(self.anchors());
        if open::fits(kernel, &attrs) {
            Ok(())
        } else {
            Err(
                "the references take all counters of the PMU, and none is left to try with"
                    .to_owned(),
            )
        }
    }
}

/// Who watches a scan.
pub trait Watch {
    /// Whether the user wants it to end.
    fn stop(&mut self) -> bool;
    /// So many batches are done, of so many known of now.
    fn step(&mut self, done: usize, of: usize);
    /// Called after each batch, to keep the state.
    fn save(&mut self, state: &State);
}

/// A run of the workload that failed, and with it the scan. The state holds what was found before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broke {
    /// What was to be counted.
    pub selectors: Vec<Selector>,
    /// Which run of them, from 1.
    pub run: usize,
    /// Why.
    pub why: truecount_run::Error,
}

/// How a batch went.
enum Measured {
    Stopped,
    Batch(Batch),
    Lost(Why),
}

struct Scan<'h> {
    kernel: &'h SharedKernel,
    plan: &'h Plan,
    workload: &'h mut dyn Workload,
    watch: &'h mut dyn Watch,
}

/// Scans, or goes on from `state` where it was interrupted; what has been found is in `state`, whose `complete` says
/// whether it came to its end.
///
/// # Errors
/// The workload's own, and where it happened.
pub fn run(
    kernel: &SharedKernel,
    plan: &Plan,
    workload: &mut dyn Workload,
    state: &mut State,
    watch: &mut dyn Watch,
) -> Result<(), Broke> {
    state.phases = workload.phases().to_vec();
    let mut scan = Scan {
        kernel,
        plan,
        workload,
        watch,
    };
    for stage in Stage::ORDER {
        if !scan.stage(stage, state)? {
            return Ok(());
        }
    }
    state.complete = scan.sums(state)?;
    Ok(())
}

impl Scan<'_> {
    /// Whether it came to its end.
    fn stage(&mut self, stage: Stage, state: &mut State) -> Result<bool, Broke> {
        let plan = self.plan;
        let counting = state.counting_codes();
        let counted = |code| counting.contains(&code);
        let tried = state.tried();
        let mut open = Vec::new();
        for selector in
            stage.selectors(&plan.codes, plan.layout, plan.umasks, &plan.known, &counted)
        {
            if tried.contains(&selector) {
                continue;
            }
            match open::alone(self.kernel, &plan.attr(selector)) {
                Ok(()) => open.push(selector),
                Err(why) => state.not_opened.push(NotCounted { selector, why }),
            }
        }
        let anchors = plan.anchors();
        let batches = plan_batches(&[], &open, |selectors: &[Selector]| {
            let attrs: Vec<EventAttr> = selectors
                .iter()
                .map(|&selector| plan.attr(selector))
                .chain(anchors.iter().copied())
                .collect();
            open::fits(self.kernel, &attrs)
        });
        let of = state.batches.len() + batches.iter().filter(|b| !b.is_empty()).count();
        let mut queue: VecDeque<Vec<Selector>> = batches.into();
        while let Some(batch) = queue.pop_front() {
            if batch.is_empty() {
                continue;
            }
            match self.measure(&batch)? {
                Measured::Stopped => return Ok(false),
                Measured::Batch(batch) => state.add(batch),
                Measured::Lost(why) => match batch.as_slice() {
                    &[selector] => state.not_counted.push(NotCounted { selector, why }),
                    // One of them may keep the others off.
                    several => {
                        for &selector in several.iter().rev() {
                            queue.push_front(vec![selector]);
                        }
                    }
                },
            }
            self.watch.step(state.batches.len(), of);
            self.watch.save(state);
        }
        Ok(true)
    }

    /// Runs the workload as often as planned, with these selectors and all references.
    fn measure(&mut self, selectors: &[Selector]) -> Result<Measured, Broke> {
        let plan = self.plan;
        let attrs: Vec<EventAttr> = selectors
            .iter()
            .map(|&selector| plan.attr(selector))
            .chain(plan.anchors())
            .collect();
        let interrupts = plan.references.iter().any(|r| r.by == By::Interrupts);
        let mut runs: Vec<Vec<Counts>> = Vec::new();
        let mut attempts = 0;
        while runs.len() < plan.runs as usize {
            if self.watch.stop() {
                return Ok(Measured::Stopped);
            }
            let why = match self.workload.run(&attrs, interrupts) {
                Ok(counts) if all_counted(&counts, attrs.len()) => {
                    runs.push(counts);
                    attempts = 0;
                    continue;
                }
                Ok(_) => Why {
                    reason: "it was not on a counter all the time: others use the PMU".to_owned(),
                    hint: format!(
                        "stop other users of the PMU ({}), and try again",
                        truecount_perf::linux().facts().other_users()
                    ),
                },
                Err(Problem::Counters(error)) => Why::from(&error),
                Err(Problem::Stopped) => return Ok(Measured::Stopped),
                Err(Problem::Broken(why)) => {
                    return Err(Broke {
                        selectors: selectors.to_vec(),
                        run: runs.len() + 1,
                        why,
                    });
                }
            };
            attempts += 1;
            if attempts == ATTEMPTS {
                return Ok(Measured::Lost(why));
            }
        }
        Ok(Measured::Batch(batch(plan, selectors, &runs)))
    }

    /// References that may be the sum of two selectors: counted together. Whether it came to its end.
    fn sums(&mut self, state: &mut State) -> Result<bool, Broke> {
        let plan = self.plan;
        let mut wanted = state.possible_sums();
        wanted.truncate(MAX_SUMS);
        let asked: BTreeSet<(usize, Selector, Selector)> = state.asked.iter().copied().collect();
        wanted.retain(|ask| !asked.contains(ask));
        let of = state.batches.len() + wanted.len();
        for (done, ask) in (state.batches.len() + 1..).zip(wanted) {
            let (reference, first, second) = ask;
            let pair = [first, second];
            let attrs: Vec<EventAttr> = pair
                .iter()
                .map(|&selector| plan.attr(selector))
                .chain(plan.anchors())
                .collect();
            if open::fits(self.kernel, &attrs) {
                match self.measure(&pair)? {
                    Measured::Stopped => return Ok(false),
                    Measured::Batch(batch) => state.add_sum(plan, reference, &batch),
                    Measured::Lost(_) => {}
                }
            }
            state.asked.push(ask);
            self.watch.step(done, of);
            self.watch.save(state);
        }
        Ok(true)
    }
}

fn all_counted(counts: &[Counts], events: usize) -> bool {
    !counts.is_empty()
        && counts
            .iter()
            .all(|phase| phase.events.len() == events && phase.events.iter().all(Option::is_some))
}

/// The series of one batch.
fn batch(plan: &Plan, selectors: &[Selector], runs: &[Vec<Counts>]) -> Batch {
    let series = |index: usize| {
        let of_run = |run: &Vec<Counts>| {
            let at = |phase: &Counts| phase.events.get(index).copied().flatten().unwrap_or(0);
            run.iter().map(at).collect()
        };
        Series(runs.iter().map(of_run).collect())
    };
    let mut counted = Vec::new();
    let mut silent = Vec::new();
    for (index, &selector) in selectors.iter().enumerate() {
        let own = series(index);
        if own.counts() {
            counted.push((selector, own));
        } else {
            silent.push(selector);
        }
    }
    let mut at = selectors.len();
    let references = plan
        .references
        .iter()
        .map(|reference| {
            let first = at;
            at += reference.attrs().count();
            match &reference.by {
                By::Events { minus: None, .. } => Some(series(first)),
                By::Events { minus: Some(_), .. } => series(first).minus(&series(first + 1)),
                By::Interrupts => {
                    let of_run = |run: &Vec<Counts>| run.iter().map(|p| p.interrupts).collect();
                    let runs: Option<Vec<Vec<u64>>> = runs.iter().map(of_run).collect();
                    runs.map(Series)
                }
            }
        })
        .collect();
    Batch {
        counted,
        silent,
        references,
    }
}

#[cfg(test)]
mod tests;
