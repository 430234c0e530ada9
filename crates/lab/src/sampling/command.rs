//! A command as the workload: run undisturbed and sampled, in shuffled rounds; its CPU time tells the price.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use truecount_sample::abi::record as rt;
use truecount_stats::Schedule;

use truecount_record::choose::ChosenEvent;
use truecount_record::{Chosen, Opened, Scope};
use truecount_run::request::Resource;
use truecount_run::runner::wait::Ticker;
use truecount_run::runner::{Hook, Launch, Launcher, Stop, resolve};
use truecount_run::session::{dev_null, launch_failure};
use truecount_run::{Error, ErrorKind};

use super::{Cell, Cost, Method, Outcome, Plan, estimate, slowdown};

/// How often the rings are emptied.
const DRAIN: Duration = Duration::from_millis(5);
/// Room for records, MiB per CPU.
const RING: u32 = 4;

/// One run of the command.
#[derive(Default)]
struct Sampled {
    cpu_ns: f64,
    samples: u64,
    throttled: u64,
    lost: u64,
    seconds: f64,
    interrupted: Option<i32>,
}

/// The runs of one cell.
#[derive(Default)]
struct Runs {
    cpu: BTreeMap<usize, f64>,
    samples: BTreeMap<usize, u64>,
    throttled: u64,
    lost: u64,
    seconds: f64,
}

/// A run that failed after others had been measured.
pub struct Trouble {
    /// Which run, and why.
    pub note: String,
    /// What failed.
    pub failure: Error,
}

/// Runs the command again and again until the time is over, every cell at least once, or a run fails.
///
/// # Errors
/// The command cannot be run, and no cell was measured before.
pub fn with_command(
    launcher: &mut Launcher,
    stop: &Stop<'_>,
    plan: &Plan,
    argv: &[OsString],
) -> Result<(Outcome, Option<Trouble>), Error> {
    let begun = Instant::now();
    let tried = super::try_cells(&plan.cells);
    let mut outcome = Outcome {
        not_here: tried.not_here,
        cycles_per_second: tried.cycles_per_second,
        sees_kernel: tried.sees_kernel,
        ..Outcome::default()
    };
    let cells: Vec<Option<Cell>> = std::iter::once(None)
        .chain(tried.open.into_iter().map(Some))
        .collect();
    let mut runs: Vec<Runs> = Vec::new();
    runs.resize_with(cells.len(), Runs::default);
    let mut schedule = Schedule::new(cells.len(), plan.seed);
    let mut made = 0u64;
    let mut trouble = None;
    'rounds: loop {
        for step in schedule.next_round() {
            let (Some(&cell), Some(into)) = (cells.get(step.command), runs.get_mut(step.command))
            else {
                continue;
            };
            made += 1;
            let ran = match once(launcher, stop, argv, cell, &outcome) {
                Ok(ran) => ran,
                Err(failure) => {
                    outcome.partial = outcome.rounds == 0;
                    let when = if outcome.partial {
                        " before every cell was visited"
                    } else {
                        ""
                    };
                    let note = format!("Run {made} ({}) failed{when}: {failure}.", name(cell));
                    trouble = Some(Trouble { note, failure });
                    break 'rounds;
                }
            };
            if stop.told(ran.interrupted) {
                outcome.partial = outcome.rounds == 0;
                break 'rounds;
            }
            into.cpu.insert(step.round, ran.cpu_ns);
            into.samples.insert(step.round, ran.samples);
            into.throttled += ran.throttled;
            into.lost += ran.lost;
            into.seconds += ran.seconds;
        }
        outcome.rounds += 1;
        if begun.elapsed() >= plan.time {
            break;
        }
    }
    let mut runs = runs.into_iter();
    if let Some(base) = runs.next() {
        for (cell, runs) in cells.into_iter().flatten().zip(runs) {
            if !runs.cpu.is_empty() {
                let cost = cost(cell, &base, &runs, outcome.cycles_per_second);
                outcome.cells.push(cost);
            }
        }
    }
    outcome.seconds = begun.elapsed().as_secs_f64();
    match trouble {
        Some(trouble) if outcome.cells.is_empty() => Err(trouble.failure),
        trouble => Ok((outcome, trouble)),
    }
}

fn name(cell: Option<Cell>) -> String {
    cell.map_or_else(
        || "undisturbed".to_owned(),
        |cell| {
            let (event, method) = (cell.event.name(), cell.method.name());
            let (payload, rate) = (cell.payload.name(), cell.rate);
            format!("{event} by {method} with {payload} at {rate} Hz")
        },
    )
}

fn cost(cell: Cell, base: &Runs, runs: &Runs, cycles_per_second: Option<f64>) -> Cost {
    let samples: u64 = runs.samples.values().sum();
    // The difference of CPU time of the same round, for each sample taken in it.
    let each: Vec<f64> = runs
        .cpu
        .iter()
        .filter_map(|(round, cpu)| {
            let samples = *runs.samples.get(round)?;
            let base = base.cpu.get(round)?;
            (samples > 0).then(|| (cpu - base) / samples as f64)
        })
        .collect();
    let slowdown = slowdown(&base.cpu, &runs.cpu);
    let per_second = super::per_second(cell.event, cycles_per_second);
    Cost {
        cell,
        period: (cell.method == Method::Period).then(|| cell.period(per_second)),
        visits: runs.cpu.len() as u64,
        samples,
        rate_seen: samples as f64 / runs.seconds.max(1e-9),
        stolen: None,
        stolen_typical: estimate(&each),
        share: slowdown.map(|s| 1.0 - 1.0 / s.value.max(f64::MIN_POSITIVE)),
        handler: None,
        slowdown,
        throttled: runs.throttled,
        lost: runs.lost,
        left_out: 0,
        unmatched: 0,
        frames: None,
        branches: None,
    }
}

/// One run; its output goes nowhere.
fn once(
    launcher: &mut Launcher,
    stop: &Stop<'_>,
    argv: &[OsString],
    cell: Option<Cell>,
    outcome: &Outcome,
) -> Result<Sampled, Error> {
    let program = match argv.first() {
        Some(name) => resolve(name)?,
        None => return Err(Error::new(ErrorKind::Usage, "no command")),
    };
    let opened: RefCell<Option<Opened>> = RefCell::new(None);
    let ran: RefCell<Sampled> = RefCell::new(Sampled::default());
    let mut hook = |pid: i32| -> Result<(), Error> {
        let Some(cell) = cell else { return Ok(()) };
        let per_second = super::per_second(cell.event, outcome.cycles_per_second);
        let attr = cell
            .attr(per_second, outcome.sees_kernel)
            .context_switch(false)
            .inherit(true);
        let chosen = Chosen {
            events: vec![ChosenEvent {
                name: cell.event.name().to_owned(),
                attr,
                cpus: truecount_events::Cpus::Any,
            }],
            notes: Vec::new(),
            branches: false,
        };
        opened.replace(Some(Opened::open(&chosen, &Scope::NewProcess(pid), RING)?));
        Ok(())
    };
    let drain = || {
        if let Some(opened) = opened.borrow_mut().as_mut() {
            let mut ran = ran.borrow_mut();
            for ring in &mut opened.rings {
                let mut left = ring.available();
                while left > 0 {
                    let Ok(Some(record)) = ring.next_record() else {
                        break;
                    };
                    left = left.saturating_sub(record.bytes.len() as u64);
                    ran.samples += u64::from(record.kind == rt::SAMPLE);
                    ran.throttled += u64::from(record.kind == rt::THROTTLE);
                }
                ring.release();
            }
        }
    };
    let mut tick = |_| drain();
    let null = dev_null()?;
    let launch = Launch {
        argv,
        stdio: [Some(&null), Some(&null), Some(&null)],
        ..Launch::default()
    };
    let hook: Hook<'_> = &mut hook;
    let begun = Instant::now();
    let finished = launcher
        .run(
            stop.signals,
            &launch,
            &program,
            Some(hook),
            Some(Ticker::new(DRAIN, &mut tick)),
        )
        .map_err(|error| launch_failure(error, &program, argv))?;
    drain();
    let lost = opened.borrow().as_ref().map_or(0, Opened::lost);
    let mut ran = ran.into_inner();
    ran.lost = lost;
    ran.seconds = begun.elapsed().as_secs_f64();
    let Some(cpu_ns) = Resource::CpuTime.of(&finished) else {
        let cause = "the kernel does not tell what CPU time the command used";
        return Err(Error::new(ErrorKind::Setup, cause));
    };
    ran.cpu_ns = cpu_ns as f64;
    ran.interrupted = finished.interrupted;
    Ok(ran)
}
