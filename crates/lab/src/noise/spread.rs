//! What the runs of every setting say: how far they are apart, what makes them differ, and where.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use truecount_model::SourceKind;
use truecount_run::closed::{Closed, named};
use truecount_run::determinism::Factor;
use truecount_run::exactness::Verdicts;
use truecount_run::functions::Names;
use truecount_stats::{holm, varies_more};

use super::conditions::NotTested;
use super::counting::Counting;
use super::measure::{Functions, Outcome, SIGNIFICANT, Setting, needed, quiet};
use super::paths::{self, PathDivergence};
use super::regions::Difference;
use super::{Condition, Plan};

/// A function in the min and in the max run of a setting.
#[derive(Debug, Serialize)]
pub struct Divergence {
    /// File name of the program.
    pub program: String,
    /// Path of the file with the code.
    pub module: String,
    /// Its name.
    pub function: String,
    /// Instructions in the min run.
    pub min_run: u64,
    /// Instructions in the max run.
    pub max_run: u64,
}

impl Divergence {
    /// Of the max run against the min.
    #[must_use]
    pub fn difference(&self) -> i64 {
        self.max_run.wrapping_sub(self.min_run).cast_signed()
    }
}

/// The runs of one setting.
#[derive(Debug, Serialize)]
pub struct Spread {
    /// `None` for the residual and for all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<Factor>,
    /// Every run, in order.
    pub counts: Vec<u64>,
    /// The least.
    pub min: Option<u64>,
    /// The largest.
    pub max: Option<u64>,
    /// Half the distance of `max` and `min`.
    pub plus_minus: Option<f64>,
    /// `None` where no test was needed or possible.
    pub p: Option<f64>,
    /// Whether the factor makes runs differ; `None` with less than two runs.
    pub cause: Option<bool>,
    /// Functions that differ, of which `functions` has the first.
    pub diverging_functions: usize,
    /// Those with the largest differences.
    pub functions: Vec<Divergence>,
    /// Paths of calls that differ, of which `paths` has the first; `None`: none were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diverging_paths: Option<usize>,
    /// Those with the largest differences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathDivergence>,
    /// What the program's own profiles count, where both runs have written one.
    pub region_counter: Option<String>,
    /// Regions that differ, of which `regions` has the first.
    pub diverging_regions: usize,
    /// Those with the largest differences.
    pub regions: Vec<Difference>,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// What was counted.
    pub event: String,
    /// Who counted.
    pub source: SourceKind,
    /// Runs of each setting.
    pub runs: u32,
    /// What makes runs differ most; `None` when nothing was seen to.
    pub dominant_factor: Option<Factor>,
    /// One factor varied, all others held constant.
    pub factors: Vec<Spread>,
    /// Everything held constant.
    pub residual: Spread,
    /// Everything varied.
    pub together: Spread,
    /// What came in from outside with everything held constant: the causes of the residual. Only under the virtual PMU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<Closed>,
    /// What was not varied, and why.
    pub not_tested: Vec<NotTested>,
    /// How often the program ended how.
    pub exits: BTreeMap<String, u32>,
    /// The signal by which the user stopped it.
    pub interrupted: Option<i32>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

fn divergences(least: &Functions, most: &Functions) -> Vec<Divergence> {
    let keys: BTreeSet<_> = least.keys().chain(most.keys()).cloned().collect();
    let mut found: Vec<Divergence> = keys
        .into_iter()
        .map(|key| {
            let (a, b) = (
                least.get(&key).copied().unwrap_or(0),
                most.get(&key).copied().unwrap_or(0),
            );
            let (program, module, function) = key;
            Divergence {
                program,
                module,
                function,
                min_run: a,
                max_run: b,
            }
        })
        .filter(|each| each.min_run != each.max_run)
        .collect();
    found.sort_by_key(|each| std::cmp::Reverse(each.difference().unsigned_abs()));
    found
}

/// The p of a test whether counts vary more than the residual's; `None`: none is needed, as every run of the residual is
/// the same and the counting `exact`, or none is possible. Runs of a counter with errors of its own that happen to be
/// equal say nothing of the next.
fn tested(exact: bool, residual: &[u64], counts: &[u64]) -> Option<f64> {
    let certain = exact && quiet(residual);
    (!certain && counts.len() > 1 && residual.len() > 1).then(|| varies_more(residual, counts))
}

impl Spread {
    fn new(
        setting: &Setting,
        residual: &[u64],
        (counting, exact): (&Counting, bool),
        plan: &Plan<'_>,
        names: &mut Names,
    ) -> Self {
        let counts = setting.counts.clone();
        let (min, max) = (counts.iter().min().copied(), counts.iter().max().copied());
        let range = match (min, max) {
            (Some(min), Some(max)) if counts.len() > 1 => Some(max.abs_diff(min)),
            _ => None,
        };
        let of_factor = matches!(setting.released, Condition::One(_));
        let p = tested(exact, residual, &counts).filter(|_| of_factor);
        let cause = match (of_factor, range) {
            (true, Some(range)) if residual.len() > 1 => Some(range > 0 && p.is_none()),
            _ => None,
        };
        let mut functions = match range {
            Some(range) if range > 0 => match counting {
                Counting::Virtual { events, .. } => setting
                    .functions(events, names)
                    .map(|(least, most)| divergences(&least, &most))
                    .unwrap_or_default(),
                Counting::Hardware { .. } => Vec::new(),
            },
            _ => Vec::new(),
        };
        let paths = range.filter(|&range| range > 0);
        let paths = paths.and_then(|_| paths::of(setting, names, plan.functions));
        let (diverging_paths, paths) = paths.unzip();
        let diverging_functions = functions.len();
        functions.truncate(plan.functions);
        let mut regions = Vec::new();
        let mut region_counter = None;
        if let (Some(1..), Some([Some(least), Some(most)])) = (range, setting.regions())
            && let Some(found) = least.differences(most)
        {
            region_counter = Some(least.counter.clone());
            regions = found;
        }
        let diverging_regions = regions.len();
        regions.truncate(plan.regions);
        Self {
            factor: match setting.released {
                Condition::One(factor) => Some(factor),
                _ => None,
            },
            counts,
            min,
            max,
            plus_minus: range.map(|range| range as f64 / 2.0),
            p,
            cause,
            diverging_functions,
            functions,
            diverging_paths,
            paths: paths.unwrap_or_default(),
            region_counter,
            diverging_regions,
            regions,
        }
    }
}

impl Findings {
    /// Compares the settings.
    #[must_use]
    pub fn new(plan: &Plan<'_>, outcome: Outcome) -> Self {
        Self::knowing(plan, outcome, Verdicts::of_this_machine())
    }

    fn knowing(plan: &Plan<'_>, outcome: Outcome, known: &Verdicts) -> Self {
        let counts_of = |released: Condition| {
            let mut settings = outcome.settings.iter();
            let found = settings.find(|setting| setting.released == released);
            found
                .map(|setting| setting.counts.clone())
                .unwrap_or_default()
        };
        let residual = counts_of(Condition::Nothing);
        let mut names = Names::below(&outcome.below);
        let exact = outcome.counting.is_exact(known);
        let counting = (&outcome.counting, exact);
        let mut factors = Vec::new();
        let mut ends = [None, None];
        for setting in &outcome.settings {
            let spread = Spread::new(setting, &residual, counting, plan, &mut names);
            match setting.released {
                Condition::Nothing => ends[0] = Some(spread),
                Condition::One(_) => factors.push(spread),
                Condition::Everything => ends[1] = Some(spread),
            }
        }
        // Several factors are tried: Holm's correction.
        let raw: Vec<Option<f64>> = factors.iter().map(|spread| spread.p).collect();
        let least = needed(raw.len());
        for (spread, p) in factors.iter_mut().zip(holm(&raw)) {
            spread.p = p;
            let runs = spread.counts.len().min(residual.len());
            if let (Some(cause), Some(p)) = (&mut spread.cause, p) {
                *cause = p < SIGNIFICANT;
                // Stopped early: what could not have been seen was not looked for.
                if !*cause && runs < least {
                    spread.cause = None;
                }
            }
        }
        let mut empty = |released| {
            let none = Setting::empty(released);
            Spread::new(&none, &residual, counting, plan, &mut names)
        };
        let [fixed, together] = ends;
        let is_cause =
            |spread: &Spread, factor| spread.factor == Some(factor) && spread.cause == Some(true);
        // With the vDSO the time is varied, too.
        let by_time = factors.iter().any(|spread| is_cause(spread, Factor::Time));
        let dominant_factor = factors
            .iter()
            .filter(|spread| spread.cause == Some(true))
            .filter(|spread| !(by_time && is_cause(spread, Factor::Clock)))
            .max_by(|a, b| {
                a.plus_minus
                    .unwrap_or(0.0)
                    .total_cmp(&b.plus_minus.unwrap_or(0.0))
            })
            .and_then(|spread| spread.factor);
        let residual_spread = fixed.unwrap_or_else(|| empty(Condition::Nothing));
        let together = together.unwrap_or_else(|| empty(Condition::Everything));
        let mut notes = outcome.notes.clone();
        let lacks = |setting: &Setting| {
            let [least, most] = setting.regions().unwrap_or_default();
            least.is_some() != most.is_some()
        };
        let lacking = outcome.settings.iter().filter(|setting| lacks(setting));
        match lacking.count() {
            0 => {}
            count => notes.push(format!(
                "In {count} setting(s) only one of the two runs that are compared has region profiles that can be \
                 used: regions are not compared there."
            )),
        }
        if outcome.exits.keys().any(|exit| exit != "exit status 0") {
            let list: Vec<String> = outcome
                .exits
                .iter()
                .map(|(exit, times)| format!("{times} × {exit}"))
                .collect();
            notes.push(format!("The program ended with: {}.", list.join(", ")));
        }
        if outcome.inexact > 0 {
            notes.push(format!(
                "{} run(s) were not counted to the end of every process: their differences may be \
                 the counting's.",
                outcome.inexact
            ));
        }
        if outcome.aslr_refused {
            notes.push(
                "The kernel refused to switch randomisation of addresses off: it is in every row."
                    .to_owned(),
            );
        }
        if matches!(outcome.counting, Counting::Hardware { .. }) {
            notes.push(
                "Counted by the CPU: a difference is tested unless truecount exactness found the counter exact, and the \
                 residual holds the counter's own errors too. The functions in which \
                 runs differ are told by the virtual PMU (--source virtual)."
                    .to_owned(),
            );
        }
        Self {
            event: outcome.counting.event(),
            source: outcome.counting.kind(),
            runs: outcome.runs,
            dominant_factor,
            factors,
            residual: residual_spread,
            together,
            outside: named(outcome.outside),
            not_tested: outcome.not_tested,
            exits: outcome.exits,
            interrupted: outcome.interrupted,
            notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_a_counter_that_deviates_is_tested() {
        let residual = [1000; 8];
        let counts = [1000, 1000, 1000, 1001, 1000, 1000, 1000, 1000];
        assert_eq!(tested(true, &residual, &counts), None);
        let p = tested(false, &residual, &counts);
        assert!(p.is_some_and(|p| p > SIGNIFICANT), "{p:?}");
        let wide = [1000, 1400, 1800, 1300, 1700, 1100, 1900, 1600];
        let p = tested(false, &residual, &wide);
        assert!(p.is_some_and(|p| p < SIGNIFICANT), "{p:?}");
        assert_eq!(tested(false, &residual, &[1000]), None);
    }
}
