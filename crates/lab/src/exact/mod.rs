//! How exact counters are: each counter on each loop of known length, many times, in shuffled rounds.
//!
//! What is compared with the truth is the count between two reads of the same counter, minus what two reads around a
//! loop of nothing count (the least of many). What an interrupt adds is found by counting the interrupts themselves in
//! the same windows, with the CPU's event for them.

pub mod inside;
mod measure;
mod order;
pub mod profile;
mod speclock;
mod stress;
mod tally;
mod truth;
mod verdict;

use crate::loops::{self, Arena, Loop, Needs};
use crate::machine::{self, Pinned};
use measure::Bench;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use stress::Company;
use truecount::{Counter, Fence, Method};
use truecount_events::{Machine, irq};
use truecount_model::SourceKind;
use truecount_run::{Error, ErrorKind};
use truecount_stats::Schedule;

pub use order::Ordering;
pub use speclock::{SpecLockMap, Status};
pub use tally::{Bar, MIN_INTERRUPTS, Sample, Summed, Tally};
pub use truecount_run::exactness::{Kind, Verdict};
pub use truth::{Quantity, Target};
pub use verdict::{of_counter, of_loop};

/// Lines of a histogram that are kept.
pub const BARS: usize = 12;

/// Time of one visit of a counter to a loop.
const VISIT: Duration = Duration::from_millis(6);

/// Pages that the loop of page faults may take.
const PAGES: usize = 128;

/// A cache line (of any CPU's size) of its own.
#[repr(align(256))]
struct Line(AtomicU64);

static LINE: Line = Line(AtomicU64::new(0));

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The counters.
    pub targets: Vec<Target>,
    /// For how long; every counter is measured on every loop at least once.
    pub time: Duration,
    /// Of the order of rounds.
    pub seed: u64,
    /// With threads that disturb.
    pub stress: bool,
    /// The CPU to measure on; `None` chooses.
    pub cpu: Option<usize>,
}

/// One counter on one loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OnLoop {
    /// The loop.
    pub name: String,
    /// Turns of one measurement.
    pub times: u64,
    /// What it ought to count in them.
    pub truth: u64,
    /// What was found.
    #[serde(flatten)]
    pub summed: Summed,
    /// Sum of deviations per second measured.
    pub per_second: f64,
    /// What one turn adds beyond the truth, and what a turn is.
    pub per_turn: f64,
    /// The name of a turn (`page fault`).
    pub turn: String,
    /// All interrupts of the CPU meanwhile, kernel mode included, by `/proc/interrupts`.
    pub cpu_interrupts: Option<u64>,
    /// In a word and in words.
    pub verdict: Verdict,
}

/// One counter on all loops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OnCounter {
    /// Its name.
    pub event: String,
    /// Against what it was held.
    pub truth: Quantity,
    /// Who counted.
    pub source: SourceKind,
    /// How it was read.
    pub method: String,
    /// Each loop that was measured.
    pub loops: Vec<OnLoop>,
    /// In a word and in words.
    pub verdict: Verdict,
}

/// What could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// An event or a loop.
    pub name: String,
    /// Why.
    pub reason: String,
    /// What to do, where something can be done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
}

/// The event that counts interrupts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptEvent {
    /// As an expression.
    pub event: String,
    /// The vendor's name.
    pub name: String,
    /// Where that is from.
    pub source: String,
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it was stopped before every counter had been on every loop.
    pub partial: bool,
    /// Seconds it took.
    pub seconds: f64,
    /// Whole rounds.
    pub rounds: u64,
    /// CPU it ran on.
    pub cpu: Option<usize>,
    /// Timer interrupts a second.
    pub timer_hertz: Option<u32>,
    /// What counted interrupts, if anything could.
    pub interrupt_event: Option<InterruptEvent>,
    /// Each counter.
    pub counters: Vec<OnCounter>,
    /// Counters that could not be opened.
    pub unavailable: Vec<Missing>,
    /// Loops that this CPU cannot run.
    pub missing_loops: Vec<Missing>,
    /// Orderings of a read.
    pub orderings: Vec<Ordering>,
    /// Which ordering is needed.
    pub ordering_verdict: Option<String>,
    /// AMD Zen's.
    pub spec_lock_map: Option<SpecLockMap>,
}

/// How a counter is read, in a word.
#[must_use]
pub fn method_name(method: Method) -> &'static str {
    match method {
        Method::Fast => "register",
        Method::FastDifference => "two registers",
        Method::Safe => "page protocol",
        Method::Syscall => "system call",
        Method::Clock => "clock",
        _ => "other",
    }
}

/// The interrupt event of this CPU, where it opens and is the hardware's (or the virtual PMU's).
fn interrupt_event() -> Option<(InterruptEvent, Counter)> {
    let known = irq::interrupts(Machine::this().cpu()?)?;
    let event = format!("r{:04x}:u", known.config);
    let counter = Counter::open(&event).ok()?;
    let told = InterruptEvent {
        event,
        name: known.name.to_owned(),
        source: known.source.to_owned(),
    };
    Some((told, counter))
}

/// One counter on one loop, while measuring.
struct Cell {
    target: usize,
    each: &'static Loop,
    tally: Tally,
    cpu_interrupts: Option<u64>,
}

/// One run of the experiment.
struct Run<'p> {
    plan: &'p Plan,
    pinned: Pinned,
    arena: Arena,
    empty: Loop,
    /// The word of the loop that is fought for.
    line: &'static AtomicU64,
    outcome: Outcome,
    /// Source and method of each target that opened.
    told: Vec<Option<(SourceKind, &'static str)>>,
}

/// Measures. `stop` is asked between measurements, some milliseconds apart; what was measured until then is given.
///
/// # Errors
/// The machine gives no memory or no CPU, or there are no loops for this architecture.
pub fn run(plan: &Plan, stop: &mut dyn FnMut() -> bool) -> Result<Outcome, Error> {
    rounds(plan, stop)
        .map_err(|error| Error::new(ErrorKind::Setup, format!("cannot measure: {error}")))
}

fn rounds(plan: &Plan, stop: &mut dyn FnMut() -> bool) -> std::io::Result<Outcome> {
    let empty = loops::empty().ok_or_else(|| {
        std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "there are no loops of known length for this architecture",
        )
    })?;
    let begun = Instant::now();
    let pinned = Pinned::to(plan.cpu)?;
    let mut run = Run {
        plan,
        pinned,
        arena: Arena::new(PAGES)?,
        empty,
        line: &LINE.0,
        outcome: Outcome {
            cpu: Some(pinned.cpu),
            timer_hertz: machine::timer_hertz(),
            ..Outcome::default()
        },
        told: vec![None; plan.targets.len()],
    };
    let result = run.everything(begun, stop);
    let restored = pinned.before.apply();
    result?;
    restored?;
    run.outcome.seconds = begun.elapsed().as_secs_f64();
    Ok(run.outcome)
}

impl Run<'_> {
    fn everything(
        &mut self,
        begun: Instant,
        stop: &mut dyn FnMut() -> bool,
    ) -> std::io::Result<()> {
        let mut cells = self.cells();
        self.outcome.interrupt_event = interrupt_event().map(|(told, _)| told);
        let company = self.plan.stress.then(|| {
            let here = crate::machine::Affinity::only(self.pinned.cpu);
            Company::restless(here, self.pinned.before.without(self.pinned.cpu))
        });
        let mut schedule = Schedule::new(cells.len(), self.plan.seed);
        let mut visited = vec![false; cells.len()];
        'rounds: while !cells.is_empty() {
            for step in schedule.next_round() {
                if stop() {
                    self.outcome.partial = visited.contains(&false);
                    break 'rounds;
                }
                if let (Some(cell), Some(seen)) =
                    (cells.get_mut(step.command), visited.get_mut(step.command))
                {
                    self.visit(cell, stop)?;
                    *seen = true;
                }
                if !visited.contains(&false) && begun.elapsed() >= self.plan.time {
                    break 'rounds;
                }
            }
            self.outcome.rounds += 1;
        }
        drop(company);
        self.sum_up(&cells);
        if !stop()
            && self
                .outcome
                .counters
                .iter()
                .any(|c| c.source == SourceKind::Hardware)
        {
            self.outcome.orderings = order::all("instructions:u", &mut self.arena);
            self.outcome.ordering_verdict = order::verdict(&self.outcome.orderings);
        }
        self.outcome.spec_lock_map = Some(speclock::look(&mut self.arena));
        Ok(())
    }

    /// Every counter that opens, with every loop that runs here and knows its truth.
    fn cells(&mut self) -> Vec<Cell> {
        let mut runnable = Vec::new();
        for each in loops::all() {
            match (each.unavailable)() {
                None => runnable.push(each),
                Some(reason) => self.outcome.missing_loops.push(Missing {
                    name: each.name.to_owned(),
                    reason: reason.to_owned(),
                    hint: None,
                }),
            }
        }
        let mut cells = Vec::new();
        for (index, target) in self.plan.targets.iter().enumerate() {
            match Counter::<Fence>::open(&target.event) {
                Ok(counter) => {
                    let told = (counter.source(), method_name(counter.method()));
                    if let Some(slot) = self.told.get_mut(index) {
                        *slot = Some(told);
                    }
                    let loops = runnable
                        .iter()
                        .filter(|l| target.truth.of_loop(l).is_some());
                    cells.extend(loops.map(|&each| Cell {
                        target: index,
                        each,
                        tally: Tally::default(),
                        cpu_interrupts: None,
                    }));
                }
                Err(error) => self.outcome.unavailable.push(Missing {
                    name: target.event.clone(),
                    reason: error.to_string(),
                    hint: None,
                }),
            }
        }
        cells
    }

    /// Opens the counters anew (so that as many counters as there are need to fit at once as one of them takes), and
    /// measures for some milliseconds.
    fn visit(&mut self, cell: &mut Cell, stop: &mut dyn FnMut() -> bool) -> std::io::Result<()> {
        let Some(target) = self.plan.targets.get(cell.target) else {
            return Ok(());
        };
        let Some(length) = target.truth.of_loop(cell.each) else {
            return Ok(());
        };
        // Opened a moment ago; where another program has taken the PMU since, this visit is left out.
        let Ok(counter) = Counter::<Fence>::open(&target.event) else {
            return Ok(());
        };
        let interrupts = interrupt_event().map(|(_, counter)| counter);
        let Some(bench) = Bench::new(&counter, target.truth, &self.empty, &self.arena) else {
            return Ok(());
        };
        let contender = (cell.each.needs == Needs::Contender)
            .then(|| Company::contender(self.line, self.pinned.before.without(self.pinned.cpu)));
        let times = self.times(cell.each);
        let before = machine::interrupts_of(self.pinned.cpu);
        let begun = Instant::now();
        loop {
            let line = contender.is_some().then_some(self.line);
            let sample = bench.sample(
                cell.each,
                length,
                times,
                &mut self.arena,
                interrupts.as_ref(),
                line,
            )?;
            cell.tally.add(sample);
            if begun.elapsed() >= VISIT || stop() {
                break;
            }
        }
        let after = machine::interrupts_of(self.pinned.cpu);
        if let Some(taken) = before.zip(after).map(|(b, a)| a.saturating_sub(b)) {
            *cell.cpu_interrupts.get_or_insert(0) += taken;
        }
        Ok(())
    }

    fn times(&self, each: &Loop) -> u64 {
        match each.needs {
            Needs::FreshPages => each.times.min(self.arena.pages()),
            _ => each.times,
        }
    }

    fn sum_up(&mut self, cells: &[Cell]) {
        for (index, target) in self.plan.targets.iter().enumerate() {
            let Some(&Some((source, method))) = self.told.get(index) else {
                continue;
            };
            let own = || cells.iter().filter(|cell| cell.target == index);
            let alone: Vec<i64> = own()
                .filter_map(|cell| cell.tally.summed(BARS, None)?.per_interrupt)
                .collect();
            let agreed = alone
                .first()
                .copied()
                .filter(|first| alone.iter().all(|k| k == first));
            let loops: Vec<OnLoop> = own()
                .filter_map(|cell| {
                    let times = self.times(cell.each);
                    let truth = target.truth.of_loop(cell.each)?.of(times)?;
                    let summed = cell.tally.summed(BARS, agreed)?;
                    Some(on_loop(
                        cell.each,
                        times,
                        truth,
                        summed,
                        cell.cpu_interrupts,
                    ))
                })
                .collect();
            let verdict = of_counter(&loops, self.outcome.timer_hertz);
            self.outcome.counters.push(OnCounter {
                event: target.event.clone(),
                truth: target.truth,
                source,
                method: method.to_owned(),
                loops,
                verdict,
            });
        }
    }
}

/// The result of one loop, with its verdict.
#[must_use]
pub fn on_loop(
    each: &Loop,
    times: u64,
    truth: u64,
    summed: Summed,
    cpu_interrupts: Option<u64>,
) -> OnLoop {
    let verdict = of_loop(&summed, each.turn, times);
    OnLoop {
        name: each.name.to_owned(),
        times,
        truth,
        per_second: summed.total as f64 / summed.seconds.max(1e-9),
        per_turn: summed.base as f64 / times.max(1) as f64,
        turn: each.turn.to_owned(),
        summed,
        cpu_interrupts,
        verdict,
    }
}
