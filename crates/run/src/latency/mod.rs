//! How long each pass through chosen blocks of a program took: inline time stamps under the virtual PMU, without the
//! stamps' own time.

mod code;
mod spec;
mod step;

use serde::{Deserialize, Serialize};
use truecount_engine::virt::{Interval, Times};
use truecount_sample::blocks::{Histogram, PrefetchWindow};

pub use code::loads;
pub use spec::parse;
use step::{of_this_clock, step_of};

/// One interval, the stamps' own time subtracted.
pub struct Row {
    /// As it was asked for.
    pub name: String,
    /// Where it is.
    pub at: Interval,
    /// How long its executions took.
    pub cycles: Histogram,
    /// Executions that took no longer than the stamps' own time; they stand as 1 cycle.
    pub below_cost: u64,
    /// Executions of 65535 cycles or more.
    pub longer: u64,
    /// Whether its code loads from memory; `None` when that is not known.
    pub loads: Option<bool>,
}

/// What the stamps take by themselves.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Cost {
    /// Median of the empty intervals, in TSC cycles: what was subtracted.
    pub cycles: u16,
    /// 10 % and 90 % of them are at or below.
    pub p10: u16,
    /// See `p10`.
    pub p90: u16,
    /// Empty intervals measured.
    pub measured: u64,
    /// The counter advances by about this many cycles at a time; 1 where no larger step shows.
    pub step: f64,
}

/// What a run gave.
pub struct Timed {
    /// The command.
    pub command: String,
    /// The program with the blocks.
    pub program: String,
    /// Processes that executed it.
    pub processes: u32,
    /// The status of the command.
    pub exit: u8,
    /// What the stamps take by themselves; `None` where nothing was executed.
    pub cost: Option<Cost>,
    /// The intervals.
    pub rows: Vec<Row>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Row {
    /// The histogram without the comb that a coarse counter makes: an interval read as `c` lies
    /// within `step` cycles around it, for all that the counter tells. For modes and bars; percentiles and JSON have `cycles`.
    pub fn smooth(&self, step: f64) -> Histogram {
        if !(2.0..=f64::from(u16::MAX)).contains(&step) {
            return self.cycles.clone();
        }
        // A file to compare with may claim any step. Values of a counter that advances by it, less the stamps' own
        // time (or 1), each rounded up or down, leave room for so many bins; then the work is bounded, too.
        let comb = 3 * ((f64::from(u16::MAX) / step) as usize + 1);
        if self.cycles.bins().len() > comb {
            return self.cycles.clone();
        }
        // Both ends are off by less than a step: their difference is so by a triangle.
        let reach = step.ceil() as i64;
        let weight = |off: i64| (step - off.abs() as f64).max(0.0);
        let all: f64 = (-reach..=reach).map(weight).sum();
        let mut bins = Vec::new();
        for &(cycles, n) in self.cycles.bins() {
            let (mut sum, mut given) = (0.0, 0u64);
            for off in -reach..=reach {
                sum += weight(off);
                let upto = if off == reach {
                    n
                } else {
                    ((n as f64 * (sum / all)) as u64).clamp(given, n)
                };
                let at = i64::from(cycles) + off;
                // Nothing takes less than a cycle: mirrored.
                let at = if at < 1 { 2 - at } else { at };
                let at = u16::try_from(at).unwrap_or(u16::MAX);
                bins.push((at, upto - given));
                given = upto;
            }
        }
        Histogram::new(bins)
    }

    /// What a prefetch could win; nothing where no load is.
    pub fn prefetch(&self, step: f64) -> Option<PrefetchWindow> {
        if self.loads == Some(false) {
            return None;
        }
        PrefetchWindow::of(&self.smooth(step), self.at.end.is_none())
    }
}

fn cost(times: &Times) -> Option<Cost> {
    let empty = &times.empty;
    let timed = times.intervals.iter().flat_map(|timed| &timed.cycles);
    let readings = empty.cycles.iter().chain(timed).copied().collect();
    let all = Histogram::new(empty.cycles.clone());
    Some(Cost {
        cycles: all.percentile(0.5)?,
        p10: all.percentile(0.1)?,
        p90: all.percentile(0.9)?,
        measured: all.total(),
        step: step_of(&of_this_clock(), Histogram::new(readings).bins()),
    })
}

impl Timed {
    /// Subtracts the cost.
    pub fn new(specs: &[String], at: &[Interval], times: &Times) -> Self {
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
                    loads: None,
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
    pub fn step(&self) -> f64 {
        self.cost.map_or(1.0, |cost| cost.step)
    }

    /// The row to compare one of another run with: of the same name, else at the same place.
    pub fn like(&self, name: &str, at: usize) -> Option<&Row> {
        let same = self.rows.iter().find(|row| row.name == name);
        same.or_else(|| self.rows.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            loads: None,
        };
        // All values are there: whatever the step, unless 1, it is not a comb of it, and stays as it is.
        let full = row((1..=u16::MAX).map(|at| (at, 3)).collect());
        for step in [3.5, 1024.0, 65535.0, f64::NAN, f64::INFINITY, -3.0] {
            let full_step: f64 = step;
            assert_eq!(full.smooth(full_step), full.cycles, "{step}");
        }
        // As many as the counter can show, the stamps' own 40 subtracted: smoothed, nothing lost.
        for step in [3u16, 26, 1024, u16::MAX] {
            let bins = (0..=u16::MAX / step).map(|n| ((n * step).saturating_sub(40).max(1), 7));
            let comb = row(bins.collect());
            let smooth = comb.smooth(f64::from(step));
            assert_eq!(smooth.total(), comb.cycles.total());
            assert!(smooth.bins().len() > comb.cycles.bins().len(), "{step}");
        }
    }

    #[test]
    fn a_coarse_counter_makes_no_modes() {
        // One hill around 60 cycles, read by a counter that advances by 24.5: each tooth was a mode of its own.
        let bins = vec![
            (1, 200),
            (25, 1500),
            (49, 4000),
            (50, 2500),
            (74, 3000),
            (98, 700),
            (99, 500),
            (123, 40),
        ];
        let mut row = Row {
            name: "work".to_owned(),
            at: Interval {
                start: 1,
                end: Some(9),
            },
            cycles: Histogram::new(bins),
            below_cost: 0,
            longer: 0,
            loads: Some(true),
        };
        let teeth = row.smooth(1.0).modes().len();
        assert!(teeth > 1, "{teeth}");
        assert_eq!(row.smooth(24.5).modes().len(), 1);
        assert_eq!(row.smooth(24.5).total(), row.cycles.total());
        assert_eq!(row.prefetch(24.5), None);
        // A block that is shorter than a step of the counter: two teeth.
        row.cycles = Histogram::new(vec![(1, 55_665), (26, 208_691), (52, 2_259)]);
        assert!(row.prefetch(1.0).is_some());
        assert_eq!(row.prefetch(26.0), None);
        // Two real modes are kept, and a block without loads has no window all the same.
        row.cycles = Histogram::new(vec![(25, 3000), (49, 3000), (319, 2000), (343, 2000)]);
        assert_eq!(row.smooth(24.5).modes().len(), 2);
        assert!(row.prefetch(24.5).is_some());
        row.loads = Some(false);
        assert_eq!(row.prefetch(24.5), None);
    }
}
