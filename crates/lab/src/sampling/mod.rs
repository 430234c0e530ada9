//! What the sampling interrupt costs, cell by cell: {frequency, fixed period} × {nothing, call chain, stack, branch
//! stack} × rates, each cell visited many times in shuffled rounds, with an undisturbed visit in every round.
//!
//! A visit watches the clock for gaps, then does a fixed amount of work. The gaps that hold a sample's time are what
//! sampling stole, interrupt by interrupt; the work's CPU time against the undisturbed one is the slowdown. Where the
//! kernel's tracepoints may be read, a second part of the visit takes the handler's own time from them (apart, because
//! tracing costs time in the handler itself).

mod cell;
mod command;
mod cost;
mod gaps;
mod live;
mod registers;
mod trace;
mod work;

use crate::machine::Pinned;
use live::Live;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trace::Trace;
use truecount_perf::{Cause, Event as Counter, OpenOptions, SharedKernel, Target, linux};
use truecount_run::{Error, ErrorKind};
use truecount_stats::Schedule;
use work::{Inside, Work, cpu_time};

pub use cell::{Cell, Event, Method, Payload};
pub use command::{Trouble, with_command};
pub use cost::{Cost, Estimate, Handler, NotHere, Outcome, estimate, slowdown};
pub use gaps::{Gap, Matched, Spread, match_up, now, step, threshold, watch};
pub use live::Taken;
pub use registers::RegisterUse;
pub use trace::{Run, place as place_in_format, with_samples};

/// How long a visit watches.
const WATCH: Duration = Duration::from_millis(25);
/// How long it watches with tracing.
const TRACED: Duration = Duration::from_millis(12);
/// Gaps kept a visit.
const ROOM: usize = 1 << 15;
/// Values kept a cell.
const MAX_GAPS: usize = 1 << 17;

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

/// What visits to one cell gave so far.
#[derive(Default)]
struct Sums {
    visits: u64,
    seconds: f64,
    taken: Taken,
    samples: u64,
    stolen: Vec<u64>,
    medians: Vec<f64>,
    other_ns: u64,
    watched_ns: u64,
    left_out: u64,
    unmatched: u64,
    handler: Vec<u64>,
    /// CPU time of the work, by round.
    work: BTreeMap<usize, f64>,
}

/// How often an event happens in a second of a program.
#[must_use]
pub fn per_second(event: Event, cycles_per_second: Option<f64>) -> f64 {
    match event {
        // Nanoseconds.
        Event::CpuClock => 1e9,
        Event::Cycles => cycles_per_second.unwrap_or(1e9),
    }
}

/// By counting cycles over two milliseconds of this thread's own time: in user mode and kernel, as that time is, where
/// both may be counted. Else the kernel's share of the time is kept small: the time is asked for at the two ends only.
fn cycles_per_second(kernel: &SharedKernel) -> Option<f64> {
    let options = OpenOptions::default();
    let open = |attr| Counter::open_with(kernel, &attr, Target::CallingThread, options).ok();
    let all = Event::Cycles.attr();
    let counter = open(all).or_else(|| open(all.exclude_kernel(true).exclude_hv(true)))?;
    let (start, before) = (cpu_time(), counter.read().ok()?.value);
    let from = now();
    while now().saturating_sub(from) < 2_000_000 {
        std::hint::black_box(truecount::known_loop(10_000));
    }
    let (after, end) = (counter.read().ok()?.value, cpu_time());
    let cycles = after.saturating_sub(before);
    (cycles > 0).then(|| cycles as f64 * 1e9 / end.saturating_sub(start).max(1) as f64)
}

/// Which cells open on this machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tried {
    /// Those that do.
    pub open: Vec<Cell>,
    /// Those that do not, and why.
    pub not_here: Vec<NotHere>,
    /// Cycles a second, where they can be counted.
    pub cycles_per_second: Option<f64>,
    /// Whether samples may see the kernel.
    pub sees_kernel: bool,
}

/// Opens every cell on the calling thread: with the kernel in sight, else without.
#[must_use]
pub fn try_cells(cells: &[Cell]) -> Tried {
    let kernel = linux();
    let cycles_per_second = cycles_per_second(&kernel);
    let opens = |cell: &Cell, sees_kernel: bool| {
        let per_second = per_second(cell.event, cycles_per_second);
        Live::open(&kernel, cell, per_second, sees_kernel).map(drop)
    };
    let mut tried = Tried {
        cycles_per_second,
        sees_kernel: cells.iter().any(|cell| opens(cell, true).is_ok()),
        ..Tried::default()
    };
    for cell in cells {
        let Err(error) = opens(cell, tried.sees_kernel) else {
            tried.open.push(*cell);
            continue;
        };
        let timer_stack = cell.payload.is_branch_stack() && cell.event == Event::CpuClock;
        tried.not_here.push(NotHere {
            cell: *cell,
            reason: if timer_stack {
                "only the PMU's interrupt reads branch stacks".to_owned()
            } else {
                error.reason().to_owned()
            },
            needs_hardware: !timer_stack
                && (cell.payload.is_branch_stack()
                    || cell.event == Event::Cycles && cycles_per_second.is_none()
                    || error.cause() == Cause::NoPmu),
        });
    }
    tried
}

/// What a visit was, beside its gaps.
struct Visited {
    work_ns: u64,
    seconds: f64,
    left_out: u64,
    watched: (u64, u64),
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
    /// Their events with rings, once opened: a ring that is given back is freed by the kernel later, in another visit.
    lives: Vec<Option<Live>>,
}

/// Measures. `stop` is asked between visits, some tens of milliseconds apart.
///
/// # Errors
/// The machine gives no memory or no CPU, or there are no loops for this architecture.
pub fn run(plan: &Plan, stop: &mut dyn FnMut() -> bool) -> Result<Outcome, Error> {
    alone(plan, stop)
        .map_err(|error| Error::new(ErrorKind::Setup, format!("cannot measure: {error}")))
}

fn alone(plan: &Plan, stop: &mut dyn FnMut() -> bool) -> std::io::Result<Outcome> {
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
        lives: Vec::new(),
        kernel,
    };
    let tried = try_cells(&plan.cells);
    experiment.outcome.cycles_per_second = tried.cycles_per_second;
    experiment.outcome.sees_kernel = tried.sees_kernel;
    experiment.outcome.not_here = tried.not_here;
    experiment.open.extend(tried.open.into_iter().map(Some));
    experiment
        .sums
        .resize_with(experiment.open.len(), Sums::default);
    experiment.trace_all();
    experiment.rounds(begun, stop);
    experiment.registers(stop);
    experiment.sum_up();
    experiment.outcome.seconds = begun.elapsed().as_secs_f64();
    Ok(experiment.outcome)
}

impl Experiment<'_> {
    fn per_second(&self, event: Event) -> f64 {
        per_second(event, self.outcome.cycles_per_second)
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

    /// The cell's event, opened at its first visit.
    fn live(&mut self, place: usize, cell: &Cell) -> Option<Live> {
        if self.lives.len() <= place {
            self.lives.resize_with(place + 1, || None);
        }
        let kept = self.lives.get_mut(place).and_then(Option::take);
        let per_second = self.per_second(cell.event);
        kept.or_else(|| Live::open(&self.kernel, cell, per_second, self.outcome.sees_kernel).ok())
    }

    fn visit(&mut self, place: usize, round: usize) {
        let Some(cell) = self.open.get(place).copied() else {
            return;
        };
        let mut live = match cell {
            None => None,
            Some(cell) => match self.live(place, &cell) {
                Some(live) => Some(live),
                // It opened a moment ago; a visit that does not is left out.
                None => return,
            },
        };
        let (gaps, inside) = self.inside(WATCH, true, live.as_ref());
        let Visited {
            work_ns,
            seconds,
            left_out,
            watched,
        } = inside;
        let taken = live.as_mut().map(Live::take).unwrap_or_default();
        let matched = match_up(&gaps, &taken.samples, &taken.switches, self.step);
        let handler = cell.and_then(|cell| self.traced(&cell, live.as_mut()));
        self.gaps = gaps;
        if let Some(kept) = self.lives.get_mut(place) {
            *kept = live;
        }
        let Some(sums) = self.sums.get_mut(place) else {
            return;
        };
        sums.visits += 1;
        sums.seconds += seconds;
        sums.samples += taken.samples.len() as u64;
        // Being off the CPU is not a theft: the scheduler books it to others.
        let (wall, cpu) = watched;
        sums.watched_ns += cpu;
        sums.other_ns += matched.other_ns.saturating_sub(wall.saturating_sub(cpu));
        sums.left_out += matched.left_out + left_out;
        sums.unmatched += matched.unmatched;
        if let Some(spread) = Spread::of(&matched.with_sample) {
            // Something else may run beside a sample, for a hundred times as long: the median is not moved by it.
            sums.medians.push(spread.p50 as f64);
        }
        let room = MAX_GAPS.saturating_sub(sums.stolen.len());
        sums.stolen
            .extend(matched.with_sample.into_iter().take(room));
        let room = MAX_GAPS.saturating_sub(sums.handler.len());
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
    fn inside(&mut self, watch: Duration, work: bool, live: Option<&Live>) -> (Vec<Gap>, Visited) {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.clear();
        let mut inside = Inside {
            gaps: &mut gaps,
            watch,
            threshold: self.outcome.threshold_ns,
            work: work.then_some(&self.work),
            depth: self.plan.depth,
            work_ns: 0,
            left_out: 0,
            watched: (0, 0),
            seconds: 0.0,
        };
        // An event that cannot be switched on takes no samples, and the visit says so by their number.
        let _ = live.map(|live| live.event.enable());
        inside.go();
        let _ = live.map(|live| live.event.disable());
        let told = Visited {
            work_ns: inside.work_ns,
            seconds: inside.seconds,
            left_out: inside.left_out,
            watched: inside.watched,
        };
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
        self.outcome.background_share =
            (base.watched_ns > 0).then(|| base.other_ns as f64 / base.watched_ns as f64);
        let cells: Vec<Cell> = self.open.iter().flatten().copied().collect();
        for (cell, sums) in cells.into_iter().zip(sums) {
            if sums.visits == 0 {
                continue;
            }
            let period =
                (cell.method == Method::Period).then(|| cell.period(self.per_second(cell.event)));
            self.outcome
                .cells
                .push(cost::cost(cell, period, &sums, &base));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_chains_are_as_deep_as_was_asked_for() {
        let frames = |depth: u32| -> Option<f64> {
            let plan = Plan {
                cells: vec![Cell {
                    event: Event::CpuClock,
                    method: Method::Period,
                    payload: Payload::Fp,
                    rate: 4000,
                }],
                time: Duration::from_millis(100),
                seed: 1,
                cpu: None,
                depth,
            };
            let outcome = run(&plan, &mut || false).ok()?;
            outcome.cells.first()?.frames
        };
        let Some(none) = frames(0) else {
            truecount_testing::skip!("software", "nobody samples here");
            return;
        };
        for depth in [16, 100] {
            let more = frames(depth).unwrap_or(0.0) - none;
            println!("depth {depth}: {more:.2} frames more than at depth 0 ({none:.2})");
            // A sample in a function's first or last instruction misses a frame.
            assert!(
                (more - f64::from(depth)).abs() < f64::from(depth).mul_add(0.05, 0.7),
                "depth {depth}: {more} frames more than {none}"
            );
        }
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
                truecount_testing::skip!("software", "{error}");
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
            truecount_testing::skip!("software", "the kernel lets nobody sample here");
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
