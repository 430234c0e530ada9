//! `stat -r N`: the same command several times. One real run stands for all, the one in the middle; beside it, how much
//! each event differs over all of them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::perf::Mean;
use crate::failure::Failure;
use crate::render::style::{DIM, GOOD, HEAD, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::Reading;
use truecount_model::number::{compact, exact};
use truecount_run::result::RunResult;
use truecount_run::session::Session;
use truecount_run::source::{Run, Source};
use truecount_run::{Error, ErrorKind};

/// One event over all runs.
#[derive(Debug, Serialize)]
pub(super) struct Repeat {
    event: String,
    unit: String,
    scale: f64,
    /// One for each run, in their order; null where it was not counted.
    values: Vec<Option<u64>>,
    min: Option<u64>,
    max: Option<u64>,
    /// Half the distance of `max` and `min`, in the unit of the values; null where a run was not counted.
    plus_minus: Option<f64>,
}

/// Every run.
#[derive(Debug, Serialize)]
pub(crate) struct Repeats {
    /// How many there were.
    runs: usize,
    /// Which one is shown in full, from 1: the one in the middle by the first event.
    shown: usize,
    /// How often the command ended how.
    exits: BTreeMap<String, u32>,
    /// The status of the first that failed.
    #[serde(skip)]
    pub(super) failed: Option<u8>,
    events: Vec<Repeat>,
}

/// What a number of runs came to.
pub(super) struct Runs {
    /// The run that is shown.
    pub(super) measurement: RunResult,
    /// Where several were asked for.
    pub(super) repeats: Option<Repeats>,
    /// Why there were not as many as asked for, where that is a failure: to be reported after the result.
    pub(super) trouble: Option<Failure>,
}

/// Makes the runs, to the last or to the one that the user, the time limit or a failure ends. Fails where the first did.
pub(super) fn runs(
    runs: u32,
    session: &mut Session,
    source: &mut dyn Source,
    run: &Run<'_>,
) -> Result<Runs, Failure> {
    let mut all: Vec<RunResult> = Vec::new();
    let (mut stopped, mut trouble) = (None, None);
    for _ in 0..runs {
        let measurement = match source.run(session, run, None) {
            Ok(measurement) => measurement,
            Err(Error {
                kind: ErrorKind::Interrupted(signal),
                ..
            }) if !all.is_empty() => {
                stopped = Some(signal);
                break;
            }
            Err(failure) => {
                trouble = Some(failure);
                break;
            }
        };
        let ended = measurement.ended;
        stopped = measurement.interrupted;
        // Half a run is none, where there are whole ones.
        if stopped.is_none() || all.is_empty() {
            all.push(measurement);
        }
        if stopped.is_none() {
            stopped = session.signals.stop_requested();
        }
        if stopped.is_some() || ended.is_some_and(|ended| ended.timed_out) {
            break;
        }
    }
    let mut exits = BTreeMap::new();
    let mut failed = None;
    let mut missing = Vec::new();
    for measurement in &mut all {
        if let Some(ended) = measurement.ended {
            *exits.entry(ended.exit.to_string()).or_default() += 1;
            let code = if ended.timed_out {
                124
            } else {
                ended.exit.shell_code()
            };
            failed = failed.or(Some(code).filter(|&code| code != 0));
        }
        truecount_run::determinism::merge(&mut missing, std::mem::take(&mut measurement.missing));
    }
    let first = all.first();
    let events = first
        .iter()
        .flat_map(|first| first.readings.iter().chain(&first.resources).enumerate())
        .map(|(place, reading)| {
            let of = |measurement: &RunResult| {
                let mut readings = measurement.readings.iter().chain(&measurement.resources);
                readings.nth(place).and_then(Reading::value)
            };
            let values: Vec<Option<u64>> = all.iter().map(of).collect();
            let known = values.iter().flatten();
            let (min, max) = (known.clone().min().copied(), known.clone().max().copied());
            let whole = known.count() == values.len();
            Repeat {
                event: reading.event.clone(),
                unit: reading.unit.clone(),
                scale: reading.scale,
                plus_minus: min
                    .zip(max)
                    .filter(|_| whole)
                    .map(|(min, max)| max.saturating_sub(min) as f64 / 2.0),
                values,
                min,
                max,
            }
        })
        .collect();
    let (shown, made) = (middle(&all), all.len());
    if shown >= made {
        return Err(trouble.map_or_else(|| Failure::new(125, "there was no run"), Into::into));
    }
    let mut measurement = all.swap_remove(shown);
    measurement.missing = missing;
    measurement.interrupted = stopped;
    if let Some(failure) = &trouble {
        let note = format!(
            "Run {} of {runs} failed: {failure}.",
            made.saturating_add(1)
        );
        measurement.notes.push(note);
    }
    Ok(Runs {
        measurement,
        repeats: Some(Repeats {
            runs: made,
            shown: shown.saturating_add(1),
            exits,
            failed,
            events,
        }),
        trouble: trouble.map(Into::into),
    })
}

/// The run with the median of the first event that was counted, else of the time.
fn middle(all: &[RunResult]) -> usize {
    let key = |measurement: &RunResult| {
        let mut counted = measurement.readings.iter().filter_map(Reading::value);
        counted.next().unwrap_or(measurement.wall_ns)
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&at| all.get(at).map(key));
    let half = order.len().saturating_sub(1) / 2;
    order.get(half).copied().unwrap_or(0)
}

impl Repeats {
    /// Of the event at this place.
    pub(super) fn mean(&self, place: usize) -> Option<Mean> {
        Mean::of(&self.events.get(place)?.values)
    }

    /// Prints the table.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let line = format!(
            "{} runs; run {}, the median, is shown above",
            self.runs, self.shown
        );
        writeln!(out, "{}", paint(HEAD, &line))?;
        writeln!(out)?;
        let mut table = Table::new([
            ("varies by", Align::Right),
            ("of it", Align::Right),
            ("min", Align::Right),
            ("max", Align::Right),
            ("event", Align::Left),
        ]);
        for each in &self.events {
            let (Some(min), Some(max), Some(half)) = (each.min, each.max, each.plus_minus) else {
                continue;
            };
            let number = |value: u64| exact(value, each.scale, &each.unit);
            let middle = (min as f64 + max as f64) / 2.0;
            let (varies, share) = if min == max {
                (Cell::styled(GOOD, "±0"), Cell::new("the same"))
            } else {
                let share = format!("{:.2} %", half / middle * 100.0);
                (plus_minus(half, each).into(), Cell::styled(DIM, share))
            };
            table.row(vec![
                varies,
                share,
                number(min).into(),
                number(max).into(),
                Cell::styled(HEAD, each.event.clone()),
            ]);
        }
        table.write(out)?;
        writeln!(out)?;
        let odd = self.exits.len() > 1;
        for (exit, times) in self.exits.iter().filter(|_| odd) {
            writeln!(out, "{times} × {exit}")?;
        }
        Ok(())
    }
}

fn plus_minus(half: f64, each: &Repeat) -> String {
    if each.unit == "count" && half < 1000.0 {
        return format!("±{half}");
    }
    if each.unit == "count" {
        return format!("±{}", compact(half));
    }
    format!("±{}", exact(half.round() as u64, each.scale, &each.unit))
}
