//! The same command several times. One real run stands for all, the one in the middle; beside it, how much each event
//! differs over all of them.

use std::collections::BTreeMap;

use serde::Serialize;
use truecount_model::Reading;

use crate::determinism;
use crate::error::{Error, ErrorKind};
use crate::result::{Ended, RunResult};
use crate::session::Session;
use crate::source::{Run, Source};

/// One event over all runs.
#[derive(Debug, Serialize)]
pub struct Repeat {
    /// Its name.
    pub event: String,
    /// What `value * scale` is in.
    pub unit: String,
    /// Factor from a value to the unit.
    pub scale: f64,
    /// One for each run, in their order; null where it was not counted.
    pub values: Vec<Option<u64>>,
    /// The smallest value.
    pub min: Option<u64>,
    /// The largest value.
    pub max: Option<u64>,
    /// Half the distance of `max` and `min`, in the unit of the values; null where a run was not counted.
    pub plus_minus: Option<f64>,
}

/// Every run.
#[derive(Debug, Serialize)]
pub struct Repeats {
    /// How many there were.
    pub runs: usize,
    /// Which one is shown in full, from 1: the one in the middle by the first event.
    pub shown: usize,
    /// How often the command ended how.
    pub exits: BTreeMap<String, u32>,
    /// How the first ended that failed.
    #[serde(skip)]
    pub failed: Option<Ended>,
    /// Every event.
    pub events: Vec<Repeat>,
}

/// What a number of runs came to.
pub struct Runs {
    /// The run that is shown.
    pub measurement: RunResult,
    /// Where several were asked for.
    pub repeats: Option<Repeats>,
    /// Why there were not as many as asked for, where that is a failure: to be reported after the result.
    pub trouble: Option<Error>,
}

/// Makes the runs, to the last or to the one that the user, the time limit or a failure ends.
///
/// # Errors
/// That of the first run.
pub fn runs(
    runs: u32,
    session: &mut Session,
    source: &mut dyn Source,
    run: &Run<'_>,
) -> Result<Runs, Error> {
    let mut all: Vec<RunResult> = Vec::new();
    let (mut stopped, mut trouble) = (None, None);
    for _ in 0..runs {
        let measurement = match source.run(session, run, None) {
            Ok(measurement) => measurement,
            Err(failure) => {
                trouble = Some(failure);
                break;
            }
        };
        let ended = measurement.ended;
        stopped = measurement.interrupted;
        all.push(measurement);
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
            if ended.timed_out || !ended.exit.success() {
                failed = failed.or(Some(ended));
            }
        }
        determinism::merge(&mut missing, std::mem::take(&mut measurement.missing));
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
        return Err(trouble.unwrap_or_else(|| Error::new(ErrorKind::Setup, "there was no run")));
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
        trouble,
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
