//! What a timed run gave, as it is printed, drawn, kept as JSON and read again for a comparison.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use truecount_engine::virt::{Interval, Times};
use truecount_sample::blocks::{Histogram, PrefetchWindow};

use crate::cmd::blocks::json::histogram;
use crate::failure::Failure;

/// One interval, the stamps' own time subtracted.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) at: Interval,
    pub(super) cycles: Histogram,
    /// Executions that took no longer than the stamps' own time; they stand as 1 cycle.
    pub(super) below_cost: u64,
    /// Executions of 65535 cycles or more.
    pub(super) longer: u64,
}

/// What the stamps take by themselves.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Cost {
    /// Median of the empty intervals, in TSC cycles: what was subtracted.
    pub(super) cycles: u16,
    /// 10 % and 90 % of them are at or below.
    pub(super) p10: u16,
    /// See `p10`.
    pub(super) p90: u16,
    /// Empty intervals measured.
    pub(super) measured: u64,
    /// The counter advances by this many cycles at a time.
    pub(super) step: u16,
}

/// A run.
pub(super) struct Result {
    pub(super) command: String,
    pub(super) program: String,
    pub(super) processes: u32,
    pub(super) exit: u8,
    pub(super) cost: Option<Cost>,
    pub(super) rows: Vec<Row>,
    pub(super) notes: Vec<String>,
}

/// The greatest number that divides all values seen: how far the counter advances at a time.
fn step<'a>(bins: impl Iterator<Item = &'a (u16, u64)>) -> u16 {
    let divisor = bins.fold(0u16, |mut a, &(mut b, _)| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    });
    divisor.max(1)
}

impl Row {
    /// The histogram without the comb that a coarse counter makes: an interval read as `c` lies
    /// within `step` cycles around it, for all that the counter tells. For modes and bars; percentiles and JSON have `cycles`.
    pub(super) fn smooth(&self, step: u16) -> Histogram {
        // A file to compare with may claim any step. Values of a counter that advances by it, less the stamps' own
        // time (or 1), leave room for so many bins; and then the work is that of one for each value, twice.
        let comb = usize::from(u16::MAX / step.max(1)).saturating_add(2);
        if step <= 2 || self.cycles.bins().len() > comb {
            return self.cycles.clone();
        }
        // Both ends are off by less than a step: their difference is so by a triangle.
        let (width, mut bins) = (i64::from(step), Vec::new());
        for &(cycles, n) in self.cycles.bins() {
            let (mut weight, all) = (0u64, u128::from(width.unsigned_abs().pow(2)));
            let part = |weight: u64| (u128::from(n) * u128::from(weight) / all) as u64;
            for off in 1 - width..width {
                let before = part(weight);
                weight += (width - off.abs()).unsigned_abs();
                let at = i64::from(cycles) + off;
                // Nothing takes less than a cycle: mirrored.
                let at = if at < 1 { 2 - at } else { at };
                let at = u16::try_from(at).unwrap_or(u16::MAX);
                bins.push((at, part(weight) - before));
            }
        }
        Histogram::new(bins)
    }
}

fn cost(times: &Times) -> Option<Cost> {
    let empty = &times.empty;
    let timed = times.intervals.iter().flat_map(|timed| &timed.cycles);
    let all = Histogram::new(empty.cycles.clone());
    Some(Cost {
        cycles: all.percentile(0.5)?,
        p10: all.percentile(0.1)?,
        p90: all.percentile(0.9)?,
        measured: all.total(),
        step: step(all.bins().iter().chain(timed)),
    })
}

impl Result {
    /// Subtracts the cost.
    pub(super) fn new(specs: &[String], at: &[Interval], times: &Times) -> Self {
        let cost = cost(times);
        let own = cost.map_or(0, |cost| cost.cycles);
        let rows = specs
            .iter()
            .zip(at)
            .zip(&times.intervals)
            .map(|((name, at), timed)| {
                let bins = timed.cycles.iter();
                Row {
                    name: name.clone(),
                    at: *at,
                    below_cost: bins.clone().filter(|b| b.0 <= own).map(|b| b.1).sum(),
                    cycles: Histogram::new(
                        bins.map(|&(c, n)| (c.saturating_sub(own).max(1), n))
                            .collect(),
                    ),
                    longer: timed.longer,
                }
            })
            .collect();
        Self {
            command: String::new(),
            program: String::new(),
            processes: times.processes,
            exit: 0,
            cost,
            rows,
            notes: Vec::new(),
        }
    }

    /// How far the counter advances at a time.
    pub(super) fn step(&self) -> u16 {
        self.cost.map_or(1, |cost| cost.step)
    }

    /// The document (schema `truecount.blocks/1`), the other run in it.
    pub(super) fn document(&self, other: Option<&Self>) -> Value {
        let mut document = json!({
            "schema": "truecount.blocks/1",
            "source": "engine",
            "unit": "time stamp counter cycles, stamp to stamp, the stamps' own time subtracted",
            "command": self.command,
            "program": self.program,
            "processes": self.processes,
            "exit": self.exit,
            "cost": self.cost,
            "intervals": self.rows.iter().map(|r| row(r, self.step())).collect::<Vec<_>>(),
            "notes": self.notes,
        });
        if let (Some(object), Some(other)) = (document.as_object_mut(), other) {
            object.insert("compared_with".to_owned(), other.document(None));
        }
        document
    }

    /// The document of an earlier run.
    pub(super) fn read(path: &Path) -> std::result::Result<Self, Failure> {
        let failure = |why: String| {
            Failure::new(1, format!("{}: {why}", path.display()))
                .hint("make one with `truecount blocks --time SYMBOL --json -o FILE -- CMD`")
        };
        let bytes = std::fs::read(path).map_err(|e| failure(format!("cannot read it: {e}")))?;
        let kept: Kept = serde_json::from_slice(&bytes)
            .map_err(|e| failure(format!("no JSON of a timed run: {e}")))?;
        if kept.schema != "truecount.blocks/1" || kept.source != "engine" {
            return Err(failure("no JSON of a timed run".to_owned()));
        }
        Ok(Self {
            command: kept.command,
            program: kept.program,
            processes: kept.processes,
            exit: kept.exit,
            cost: kept.cost,
            rows: kept
                .intervals
                .into_iter()
                .map(|row| Row {
                    name: row.name,
                    at: Interval {
                        start: row.start,
                        end: row.end,
                    },
                    cycles: Histogram::new(row.cycles.bins),
                    below_cost: row.below_cost,
                    longer: row.longer,
                })
                .collect(),
            notes: kept.notes,
        })
    }

    /// The row to compare one of another run with: of the same name, else at the same place.
    pub(super) fn like(&self, name: &str, at: usize) -> Option<&Row> {
        let same = self.rows.iter().find(|row| row.name == name);
        same.or_else(|| self.rows.get(at))
    }
}

#[derive(Deserialize)]
struct Kept {
    schema: String,
    source: String,
    command: String,
    program: String,
    processes: u32,
    exit: u8,
    cost: Option<Cost>,
    intervals: Vec<KeptRow>,
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct KeptRow {
    name: String,
    start: u64,
    end: Option<u64>,
    below_cost: u64,
    longer: u64,
    cycles: KeptCycles,
}

#[derive(Deserialize)]
struct KeptCycles {
    bins: Vec<(u16, u64)>,
}

fn row(row: &Row, step: u16) -> Value {
    let smooth = row.smooth(step);
    let window = PrefetchWindow::of(&smooth, row.at.end.is_none());
    let mut cycles = histogram(&row.cycles);
    if let Some(modes) = cycles.get_mut("modes") {
        *modes = histogram(&smooth)["modes"].take();
    }
    json!({
        "name": row.name,
        "start": row.at.start,
        "end": row.at.end,
        "executions": row.cycles.total().saturating_add(row.longer),
        "below_cost": row.below_cost,
        "longer": row.longer,
        "cycles": cycles,
        "prefetch_window": window.map(|w| json!({"base": w.base, "miss": w.miss, "window": w.window})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_engine::virt::Timed;

    #[test]
    fn the_cost_is_subtracted_and_the_document_reads_back() {
        let times = {
            let mut times = Times::default();
            times.empty.cycles = vec![(40, 10), (41, 80), (44, 10)];
            times.intervals = vec![Timed {
                cycles: vec![(30, 2), (41, 3), (60, 50), (300, 40)],
                longer: 7,
            }];
            times
        };
        let at = [Interval {
            start: 0x1000,
            end: None,
        }];
        let result = Result::new(&["work".to_owned()], &at, &times);
        let row = &result.rows[0];
        assert_eq!(row.cycles.bins(), [(1, 5), (19, 50), (259, 40)]);
        assert_eq!((row.below_cost, row.longer), (5, 7));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("run.json");
        std::fs::write(&file, result.document(None).to_string()).unwrap();
        let again = Result::read(&file).unwrap();
        assert_eq!(again.rows[0].cycles, row.cycles);
        assert_eq!(again.cost.unwrap().cycles, 41);
        assert_eq!(again.step(), 1);
        // A comb becomes one hill, nothing is lost.
        let smooth = row.smooth(26);
        assert_eq!(smooth.total(), row.cycles.total());
        assert_eq!(step([(52, 1), (78, 1), (1040, 1)].iter()), 26);
        std::fs::write(&file, "{\"schema\": 1}").unwrap();
        assert_eq!(Result::read(&file).err().unwrap().code, 1);
    }

    #[test]
    fn a_claimed_step_costs_no_more_than_a_true_one() {
        let row = |bins: Vec<(u16, u64)>| Row {
            name: String::new(),
            at: Interval {
                start: 0,
                end: None,
            },
            cycles: Histogram::new(bins),
            below_cost: 0,
            longer: 0,
        };
        // All values are there: whatever the step, unless 1, it is not a comb of it, and stays as it is.
        let full = row((1..=u16::MAX).map(|at| (at, 3)).collect());
        for step in [3, 1024, u16::MAX] {
            assert_eq!(full.smooth(step), full.cycles, "{step}");
        }
        // As many as the counter can show, the stamps' own 40 subtracted: smoothed, nothing lost.
        for step in [3u16, 26, 1024, u16::MAX] {
            let bins = (0..=u16::MAX / step).map(|n| ((n * step).saturating_sub(40).max(1), 7));
            let comb = row(bins.collect());
            let smooth = comb.smooth(step);
            assert_eq!(smooth.total(), comb.cycles.total());
            assert!(smooth.bins().len() > comb.cycles.bins().len(), "{step}");
        }
    }
}
