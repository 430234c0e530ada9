//! What the sampling interrupt costs, cell by cell: {frequency, fixed period} × {nothing, call chain, stack, branch
//! stack} × rates, each cell visited many times in shuffled rounds, with an undisturbed visit in every round.
//!
//! A visit watches the clock for gaps, then does a fixed amount of work. The gaps that hold a sample's time are what
//! sampling stole, interrupt by interrupt; the work's CPU time against the undisturbed one is the slowdown. Where the
//! kernel's tracepoints may be read, a second part of the visit takes the handler's own time from them (apart, because
//! tracing costs time in the handler itself).

mod cell;
mod gaps;
mod live;
mod trace;

use crate::loops::{self, Arena, framed};
use crate::machine::Pinned;
use live::Live;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trace::Trace;
use truecount_perf::{Cause, Event as Counter, OpenOptions, SharedKernel, Target, linux};
use truecount_stats::{Options, Schedule, compare_paired, walsh_interval, walsh_median};

pub use cell::{Cell, Event, Method, Payload};
pub use gaps::{Gap, Matched, Spread, match_up, now, step, threshold, watch};
pub use live::Taken;
pub use trace::{Run, with_samples};

/// How long a visit watches.
const WATCH: Duration = Duration::from_millis(25);
/// How much work it does then, undisturbed.
const WORK: Duration = Duration::from_millis(10);
/// How long it watches with tracing.
const TRACED: Duration = Duration::from_millis(12);
/// Gaps kept a visit.
const ROOM: usize = 1 << 15;
/// Values kept a cell.
const MOST: usize = 1 << 17;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The cells.
    pub cells: Vec<Cell>,
    /// For how long; every cell is visited once at least.
    pub time: Duration,
    /// Of the order of visits.
    pub seed: u64,
    /// Where; `None` chooses.
    pub cpu: Option<usize>,
    /// Frames with frame pointers on the stack of the sampled code.
    pub depth: u32,
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Hodges–Lehmann estimate over the visits.
    pub value: f64,
    /// 95 % interval, where there were visits enough for one.
    pub interval: Option<(f64, f64)>,
    /// Visits (or rounds) that it rests on.
    pub n: u64,
}

/// What one cell cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Which.
    #[serde(flatten)]
    pub cell: Cell,
    /// Events from one sample to the next, where that is fixed.
    pub period: Option<u64>,
    /// Visits.
    pub visits: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples a second really taken.
    pub rate_seen: f64,
    /// Time that one sample stole, ns, as the program saw it.
    pub stolen: Option<Spread>,
    /// The visits' means of it, ns.
    pub stolen_mean: Option<Estimate>,
    /// Share of the time that sampling stole: `rate_seen` times the mean of `stolen`.
    pub share: Option<f64>,
    /// Time in the kernel's handler, ns, by its tracepoints.
    pub handler: Option<Spread>,
    /// CPU time of fixed work against undisturbed work, 1 is no slowdown.
    pub slowdown: Option<Estimate>,
    /// Times that the kernel stopped sampling because there were too many interrupts.
    pub throttled: u64,
    /// Records lost because the ring was full.
    pub lost: u64,
    /// Gaps left out: with two samples in them, or with the thread off the CPU.
    pub left_out: u64,
    /// Samples in no gap.
    pub unmatched: u64,
    /// Frames of a call chain, on average.
    pub frames: Option<f64>,
    /// Branches of a branch stack, on average.
    pub branches: Option<f64>,
}

/// A cell that cannot be had, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotHere {
    /// Which.
    #[serde(flatten)]
    pub cell: Cell,
    /// Why.
    pub reason: String,
    /// Whether hardware counters (or branch stacks) would give it.
    pub needs_hardware: bool,
}

/// Where the handler's time is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handler {
    /// The event sampled.
    pub event: Event,
    /// The tracepoints.
    pub tracepoints: Option<String>,
    /// Why there are none.
    pub reason: Option<String>,
}

/// Everything measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it was stopped before every cell was visited.
    pub partial: bool,
    /// Seconds it took.
    pub seconds: f64,
    /// Whole rounds.
    pub rounds: u64,
    /// Where.
    pub cpu: Option<usize>,
    /// From one look at the clock to the next, ns.
    pub step_ns: u64,
    /// Longer gaps are seen, ns.
    pub threshold_ns: u64,
    /// Time that the machine steals without sampling: share of an undisturbed visit.
    pub background_share: Option<f64>,
    /// Each cell.
    pub cells: Vec<Cost>,
    /// Cells that cannot be had here.
    pub not_here: Vec<NotHere>,
    /// Where handler times are from.
    pub handlers: Vec<Handler>,
    /// Cycles a second, where they can be counted.
    pub cycles_per_second: Option<f64>,
    /// Whether samples see the kernel, too.
    pub sees_kernel: bool,
}

/// What visits to one cell gave so far.
#[derive(Default)]
struct Sums {
    visits: u64,
    seconds: f64,
    taken: Taken,
    samples: u64,
    stolen: Vec<u64>,
    means: Vec<f64>,
    other_ns: u64,
    left_out: u64,
    unmatched: u64,
    handler: Vec<u64>,
    /// CPU time of the work, by round.
    work: BTreeMap<usize, f64>,
}

/// CPU time of this thread, ns.
fn cpu_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// How much work takes how long.
struct Work {
    body: loops::Body,
    times: u64,
    arena: Arena,
}

impl Work {
    fn new() -> std::io::Result<Self> {
        let plain = loops::named("plain").ok_or_else(|| {
            std::io::Error::new(
                std::io::ErrorKind::Unsupported,
                "there are no loops of known length for this architecture",
            )
        })?;
        let mut work = Self {
            body: plain.body,
            times: plain.times,
            arena: Arena::new(16)?,
        };
        let least = (0..5).map(|_| work.run()).min().unwrap_or(1).max(1);
        let wished = WORK.as_nanos() as f64 / least as f64 * plain.times as f64;
        work.times = (wished as u64).clamp(1000, 1 << 32);
        Ok(work)
    }

    /// CPU time that it took, ns.
    fn run(&self) -> u64 {
        let start = cpu_time();
        // SAFETY: the plain loop touches no memory.
        unsafe { (self.body)(self.times, self.arena.memory(), self.arena.stride()) };
        cpu_time().saturating_sub(start)
    }
}

/// What happens inside the frames: watch, then work.
struct Inside<'a> {
    gaps: &'a mut Vec<Gap>,
    watch: Duration,
    threshold: u64,
    work: Option<&'a Work>,
    work_ns: u64,
    left_out: u64,
    seconds: f64,
}

impl Inside<'_> {
    fn go(&mut self) {
        let begin = now();
        let end = begin.saturating_add(self.watch.as_nanos() as u64);
        self.left_out = watch(end, self.threshold, self.gaps);
        self.work_ns = self.work.map_or(0, Work::run);
        self.seconds = now().saturating_sub(begin) as f64 / 1e9;
    }
}

/// The experiment under way.
struct Experiment<'p> {
    plan: &'p Plan,
    kernel: SharedKernel,
    work: Work,
    step: u64,
    gaps: Vec<Gap>,
    traces: Vec<(Event, Trace)>,
    sums: Vec<Sums>,
    outcome: Outcome,
    /// Cells that open, with their indices in the plan; the first place is the undisturbed visit.
    open: Vec<Option<Cell>>,
}

/// Measures. `stop` is asked between visits, some tens of milliseconds apart.
///
/// # Errors
/// The machine gives no memory or no CPU, or there are no loops for this architecture.
pub fn run(plan: &Plan, stop: &mut dyn FnMut() -> bool) -> std::io::Result<Outcome> {
    let begun = Instant::now();
    let pinned = Pinned::to(plan.cpu)?;
    let result = measure(plan, pinned.cpu, begun, stop);
    let restored = pinned.before.apply();
    let outcome = result?;
    restored?;
    Ok(outcome)
}

fn measure(
    plan: &Plan,
    cpu: usize,
    begun: Instant,
    stop: &mut dyn FnMut() -> bool,
) -> std::io::Result<Outcome> {
    let kernel = linux();
    let step = step();
    let mut experiment = Experiment {
        plan,
        work: Work::new()?,
        step,
        gaps: Vec::with_capacity(ROOM),
        traces: Vec::new(),
        sums: Vec::new(),
        outcome: Outcome {
            cpu: Some(cpu),
            step_ns: step,
            threshold_ns: threshold(step),
            ..Outcome::default()
        },
        open: vec![None],
        kernel,
    };
    experiment.outcome.cycles_per_second = experiment.cycles_per_second();
    experiment.try_all();
    experiment.trace_all();
    experiment.rounds(begun, stop);
    experiment.sum_up();
    experiment.outcome.seconds = begun.elapsed().as_secs_f64();
    Ok(experiment.outcome)
}

impl Experiment<'_> {
    /// By counting them for a while.
    fn cycles_per_second(&self) -> Option<f64> {
        let attr = Event::Cycles.attr().exclude_kernel(true).exclude_hv(true);
        let options = OpenOptions::default();
        let counter =
            Counter::open_with(&self.kernel, &attr, Target::CallingThread, options).ok()?;
        let (start, before) = (now(), counter.read().ok()?.value);
        self.work.run();
        let (end, after) = (now(), counter.read().ok()?.value);
        let cycles = after.saturating_sub(before);
        (cycles > 0).then(|| cycles as f64 * 1e9 / end.saturating_sub(start).max(1) as f64)
    }

    fn per_second(&self, event: Event) -> f64 {
        match event {
            // Nanoseconds.
            Event::CpuClock => 1e9,
            Event::Cycles => self.outcome.cycles_per_second.unwrap_or(1e9),
        }
    }

    /// Which cells open here: with the kernel in sight, else without.
    fn try_all(&mut self) {
        let opens = |experiment: &Self, cell: &Cell, kernel: bool| {
            let per_second = experiment.per_second(cell.event);
            Live::open(&experiment.kernel, cell, per_second, kernel).map(drop)
        };
        self.outcome.sees_kernel = self
            .plan
            .cells
            .iter()
            .any(|cell| opens(self, cell, true).is_ok());
        for cell in &self.plan.cells {
            match opens(self, cell, self.outcome.sees_kernel) {
                Ok(()) => self.open.push(Some(*cell)),
                Err(error) => {
                    let needs_hardware = cell.event == Event::Cycles
                        && self.outcome.cycles_per_second.is_none()
                        || cell.payload == Payload::Lbr
                        || error.cause() == Cause::NoPmu;
                    let lbr = cell.payload == Payload::Lbr && cell.event == Event::CpuClock;
                    self.outcome.not_here.push(NotHere {
                        cell: *cell,
                        reason: if lbr {
                            "only the PMU's interrupt reads branch stacks".to_owned()
                        } else {
                            error.reason().to_owned()
                        },
                        needs_hardware,
                    });
                }
            }
        }
        self.sums.resize_with(self.open.len(), Sums::default);
    }

    /// The tracepoints of every event that is sampled.
    fn trace_all(&mut self) {
        for event in [Event::CpuClock, Event::Cycles] {
            if !self.open.iter().flatten().any(|cell| cell.event == event) {
                continue;
            }
            let mut handler = Handler {
                event,
                tracepoints: None,
                reason: None,
            };
            match Trace::open(&self.kernel, event) {
                Ok(trace) => {
                    handler.tracepoints = Some(trace.name.to_owned());
                    self.traces.push((event, trace));
                }
                Err(reason) => handler.reason = Some(reason),
            }
            self.outcome.handlers.push(handler);
        }
    }

    fn rounds(&mut self, begun: Instant, stop: &mut dyn FnMut() -> bool) {
        let mut schedule = Schedule::new(self.open.len(), self.plan.seed);
        loop {
            for step in schedule.next_round() {
                if stop() {
                    self.outcome.partial = self.outcome.rounds == 0;
                    return;
                }
                self.visit(step.command, step.round);
                // Whole rounds, so that every cell has an undisturbed partner; but not for ever.
                if self.outcome.rounds > 0 && begun.elapsed() >= self.plan.time.mul_f64(1.5) {
                    return;
                }
            }
            self.outcome.rounds += 1;
            if begun.elapsed() >= self.plan.time {
                return;
            }
        }
    }

    fn visit(&mut self, place: usize, round: usize) {
        let Some(cell) = self.open.get(place).copied() else {
            return;
        };
        let mut live = match cell {
            None => None,
            // It opened a moment ago; a visit that does not is left out.
            Some(cell) => match Live::open(
                &self.kernel,
                &cell,
                self.per_second(cell.event),
                self.outcome.sees_kernel,
            ) {
                Ok(live) => Some(live),
                Err(_) => return,
            },
        };
        let (gaps, inside) = self.inside(WATCH, true, live.as_ref());
        let (work_ns, seconds, left_out) = inside;
        let taken = live.as_mut().map(Live::take).unwrap_or_default();
        let matched = match_up(&gaps, &taken.samples, &taken.switches, self.step);
        let handler = cell.and_then(|cell| self.traced(&cell, live.as_mut()));
        self.gaps = gaps;
        let Some(sums) = self.sums.get_mut(place) else {
            return;
        };
        sums.visits += 1;
        sums.seconds += seconds;
        sums.samples += taken.samples.len() as u64;
        sums.other_ns += matched.other_ns;
        sums.left_out += matched.left_out + left_out;
        sums.unmatched += matched.unmatched;
        if let Some(spread) = Spread::of(&matched.with_sample) {
            sums.means.push(spread.mean);
        }
        let room = MOST.saturating_sub(sums.stolen.len());
        sums.stolen
            .extend(matched.with_sample.into_iter().take(room));
        let room = MOST.saturating_sub(sums.handler.len());
        sums.handler
            .extend(handler.unwrap_or_default().into_iter().take(room));
        sums.taken.throttled += taken.throttled;
        sums.taken.lost += taken.lost;
        sums.taken.frames += taken.frames;
        sums.taken.branches += taken.branches;
        sums.work.insert(round, work_ns as f64);
    }

    /// Watches (and works) below as many frames as the plan says, with the event on. Gives the gaps, and the work's
    /// time, the whole time in seconds, and the gaps that found no room.
    fn inside(
        &mut self,
        watch: Duration,
        work: bool,
        live: Option<&Live>,
    ) -> (Vec<Gap>, (u64, f64, u64)) {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.clear();
        let mut inside = Inside {
            gaps: &mut gaps,
            watch,
            threshold: self.outcome.threshold_ns,
            work: work.then_some(&self.work),
            work_ns: 0,
            left_out: 0,
            seconds: 0.0,
        };
        // An event that cannot be switched on takes no samples, and the visit says so by their number.
        let _ = live.map(|live| live.event.enable());
        framed(self.plan.depth, &mut || inside.go());
        let _ = live.map(|live| live.event.disable());
        let told = (inside.work_ns, inside.seconds, inside.left_out);
        (gaps, told)
    }

    /// The handler's times with tracing on.
    fn traced(&mut self, cell: &Cell, live: Option<&mut Live>) -> Option<Vec<u64>> {
        let live = live?;
        let place = self
            .traces
            .iter()
            .position(|(event, _)| *event == cell.event)?;
        let (_, trace) = self.traces.get(place)?;
        trace.enable().ok()?;
        let (gaps, _) = self.inside(TRACED, false, Some(live));
        self.gaps = gaps;
        let (_, trace) = self.traces.get_mut(place)?;
        trace.disable().ok()?;
        let runs = trace.take();
        Some(with_samples(&runs, &live.take().samples))
    }

    fn sum_up(&mut self) {
        let mut sums = std::mem::take(&mut self.sums).into_iter();
        let Some(base) = sums.next() else { return };
        self.outcome.background_share = (base.seconds > 0.0)
            .then(|| base.other_ns as f64 / 1e9 / (base.visits as f64 * WATCH.as_secs_f64()));
        let cells: Vec<Cell> = self.open.iter().flatten().copied().collect();
        for (cell, sums) in cells.into_iter().zip(sums) {
            if sums.visits == 0 {
                continue;
            }
            let period =
                (cell.method == Method::Period).then(|| cell.period(self.per_second(cell.event)));
            self.outcome.cells.push(cost(cell, period, &sums, &base));
        }
    }
}

fn cost(cell: Cell, period: Option<u64>, sums: &Sums, base: &Sums) -> Cost {
    let rate_seen = sums.samples as f64 / sums.seconds.max(1e-9);
    let stolen = Spread::of(&sums.stolen);
    let each = |total: u64, wanted: bool| {
        (wanted && sums.samples > 0).then(|| total as f64 / sums.samples as f64)
    };
    Cost {
        cell,
        period,
        visits: sums.visits,
        samples: sums.samples,
        rate_seen,
        share: stolen.map(|s| rate_seen * s.mean / 1e9),
        stolen,
        stolen_mean: estimate(&sums.means),
        handler: Spread::of(&sums.handler),
        slowdown: slowdown(&base.work, &sums.work),
        throttled: sums.taken.throttled,
        lost: sums.taken.lost,
        left_out: sums.left_out,
        unmatched: sums.unmatched,
        frames: each(
            sums.taken.frames,
            matches!(cell.payload, Payload::Fp | Payload::Dwarf),
        ),
        branches: each(sums.taken.branches, cell.payload == Payload::Lbr),
    }
}

fn estimate(means: &[f64]) -> Option<Estimate> {
    let value = walsh_median(means);
    value.is_finite().then(|| Estimate {
        value,
        interval: walsh_interval(means, 0.05).map(|(low, high, _)| (low, high)),
        n: means.len() as u64,
    })
}

/// Work of the same rounds.
fn slowdown(base: &BTreeMap<usize, f64>, other: &BTreeMap<usize, f64>) -> Option<Estimate> {
    let pairs = other
        .iter()
        .filter_map(|(round, &time)| Some((*base.get(round)?, time)));
    let (base, other): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let compared = compare_paired(&base, &other, &Options::default()).ok()?;
    compared.ratio.is_finite().then_some(Estimate {
        value: compared.ratio,
        interval: compared.interval,
        n: base.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_compared_round_by_round() {
        let base: BTreeMap<usize, f64> = (0..10).map(|i| (i, 100.0 + i as f64)).collect();
        let slower: BTreeMap<usize, f64> = base.iter().map(|(&i, &t)| (i, t * 1.1)).collect();
        let s = slowdown(&base, &slower).unwrap();
        assert!((s.value - 1.1).abs() < 1e-9, "{s:?}");
        assert!(
            s.interval
                .is_some_and(|(low, high)| low > 1.09 && high < 1.11)
        );
        // A round without its partner does not count.
        let other: BTreeMap<usize, f64> = [(3, 103.0), (77, 1e9)].into();
        assert_eq!(slowdown(&base, &other).unwrap().n, 1);
        assert!(slowdown(&base, &BTreeMap::new()).is_none());
        assert!(estimate(&[]).is_none());
    }

    #[test]
    fn the_timer_is_sampled_and_its_price_is_measured() {
        let cell = |payload| Cell {
            event: Event::CpuClock,
            method: Method::Period,
            payload,
            rate: 4000,
        };
        let plan = Plan {
            cells: vec![cell(Payload::None), cell(Payload::Fp), cell(Payload::Lbr)],
            time: Duration::from_millis(300),
            seed: 1,
            cpu: None,
            depth: 8,
        };
        let outcome = match run(&plan, &mut || false) {
            Ok(outcome) => outcome,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        println!("{outcome:#?}");
        assert!(!outcome.partial && outcome.rounds >= 1);
        // Branch stacks do not come with a timer.
        assert!(
            outcome
                .not_here
                .iter()
                .any(|n| n.cell.payload == Payload::Lbr)
        );
        if outcome.cells.is_empty() {
            println!("skipped: the kernel lets nobody sample here");
            return;
        }
        for cost in &outcome.cells {
            assert!(cost.samples > 0 && cost.visits >= 1, "{cost:?}");
            if let Some(stolen) = cost.stolen {
                assert!(stolen.p50 > 0 && stolen.p50 <= stolen.p99 && stolen.p99 <= stolen.max);
            }
        }
        let stopped = run(&plan, &mut || true).unwrap();
        assert!(stopped.partial && stopped.cells.is_empty());
    }
}
