//! The result of `noise` as a document: schema `truecount.noise/2` (`docs/schemas/noise.json`).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use truecount_stats::{Rng, holm};

use super::measure::{Functions, Outcome, Setting, quiet};
use super::setup::NotTested;
use super::who::Who;
use super::{Args, Released};
use truecount_model::SourceKind;
use truecount_run::determinism::Factor;
use truecount_run::env_record::Environment;
use truecount_run::functions::Names;

/// The probability that so much of the distances from the median falls to `counts`, if runs of both
/// kinds vary alike: a permutation test (9,999 shuffles with a fixed seed).
fn permutation(residual: &[u64], counts: &[u64]) -> f64 {
    const SHUFFLES: u32 = 9_999;
    let mine = distances(counts);
    let mut all = distances(residual);
    all.extend(&mine);
    let observed: f64 = mine.iter().sum();
    let mut rng = Rng::new(1);
    let mut hits = 0u32;
    for _ in 0..SHUFFLES {
        rng.shuffle(&mut all);
        let sum: f64 = all.iter().take(mine.len()).sum();
        hits += u32::from(sum >= observed);
    }
    f64::from(hits + 1) / f64::from(SHUFFLES + 1)
}

/// A p below this calls a factor a cause, where the residual is not 0.
const SIGNIFICANT: f64 = 0.05;

/// A function in the min and in the max run of a setting.
#[derive(Debug, Serialize)]
pub(super) struct Divergence {
    pub(super) program: String,
    pub(super) module: String,
    pub(super) function: String,
    /// Instructions in the min run.
    pub(super) min_run: u64,
    /// Instructions in the max run.
    pub(super) max_run: u64,
}

impl Divergence {
    pub(super) fn difference(&self) -> i64 {
        self.max_run.wrapping_sub(self.min_run).cast_signed()
    }
}

/// A region of the program's own profiles in the min and in the max run of a setting: its self time.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    pub(super) region: String,
    /// Counted in the min run.
    pub(super) min_run: i64,
    /// Counted in the max run.
    pub(super) max_run: i64,
}

impl Difference {
    pub(super) fn difference(&self) -> i64 {
        self.max_run.saturating_sub(self.min_run)
    }
}

/// The runs of one setting.
#[derive(Debug, Serialize)]
pub(super) struct Spread {
    /// `None` for the residual and for all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) factor: Option<Factor>,
    pub(super) counts: Vec<u64>,
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
    /// Half the distance of `max` and `min`.
    pub(super) plus_minus: Option<f64>,
    /// `None` where no test was needed or possible.
    pub(super) p: Option<f64>,
    /// Whether the factor makes runs differ; `None` with less than two runs.
    pub(super) cause: Option<bool>,
    pub(super) diverging_functions: usize,
    pub(super) functions: Vec<Divergence>,
    /// What the program's own profiles count, where both runs have written one.
    pub(super) region_counter: Option<String>,
    pub(super) diverging_regions: usize,
    pub(super) regions: Vec<Difference>,
}

/// Everything that was found.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    pub(super) command: Vec<String>,
    pub(super) event: String,
    pub(super) source: SourceKind,
    pub(super) runs: u32,
    pub(super) seed: u64,
    pub(super) dominant_factor: Option<Factor>,
    pub(super) factors: Vec<Spread>,
    pub(super) residual: Spread,
    pub(super) together: Spread,
    /// What was not varied, and why.
    pub(super) not_tested: Vec<NotTested>,
    /// How often the program ended how.
    pub(super) exits: BTreeMap<String, u32>,
    pub(super) interrupted: Option<i32>,
    /// Why it ended before all runs were made, if not by the user.
    pub(super) stopped: Option<String>,
    pub(super) notes: Vec<String>,
    pub(super) environment: Environment,
}

/// The middle of the counts: an observed one.
pub(super) fn median(counts: &[u64]) -> Option<u64> {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Distances of the others from the median. Its own, always 0, would hide part of what the others say (the structural
/// zero of Hines and O'Hara Hines, "Increased power with modified forms of the Levene test", Biometrics 56, 2000).
fn distances(counts: &[u64]) -> Vec<f64> {
    let Some(median) = median(counts) else {
        return Vec::new();
    };
    let own = counts.iter().position(|&count| count == median);
    let others = counts.iter().enumerate().filter(|&(at, _)| Some(at) != own);
    others.map(|(_, &c)| c.abs_diff(median) as f64).collect()
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

impl Spread {
    fn new(setting: &Setting, residual: &[u64], who: &Who, args: &Args, names: &mut Names) -> Self {
        let counts = setting.counts.clone();
        let (min, max) = (counts.iter().min().copied(), counts.iter().max().copied());
        let range = match (min, max) {
            (Some(min), Some(max)) if counts.len() > 1 => Some(max.abs_diff(min)),
            _ => None,
        };
        let quiet = quiet(residual);
        let of_factor = matches!(setting.released, Released::One(_));
        let p = (of_factor && !quiet && counts.len() > 1 && residual.len() > 1)
            .then(|| permutation(residual, &counts));
        let cause = match (of_factor, range) {
            (true, Some(range)) if residual.len() > 1 => Some(range > 0 && p.is_none()),
            _ => None,
        };
        let mut functions = match range {
            Some(range) if range > 0 => match who {
                Who::Virtual { wishes, .. } => setting
                    .functions(wishes, names)
                    .map(|(least, most)| divergences(&least, &most))
                    .unwrap_or_default(),
                Who::Hardware { .. } => Vec::new(),
            },
            _ => Vec::new(),
        };
        let diverging_functions = functions.len();
        functions.truncate(args.functions);
        let mut regions = Vec::new();
        let mut region_counter = None;
        if let (Some(1..), Some([Some(least), Some(most)])) = (range, setting.regions())
            && let Some(found) = least.differences(most)
        {
            region_counter = Some(least.counter.clone());
            regions = found;
        }
        let diverging_regions = regions.len();
        regions.truncate(args.regions);
        Self {
            factor: match setting.released {
                Released::One(factor) => Some(factor),
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
            region_counter,
            diverging_regions,
            regions,
        }
    }
}

impl Document {
    pub(super) fn new(args: &Args, seed: u64, outcome: Outcome, environment: Environment) -> Self {
        let counts_of = |released: Released| {
            let mut settings = outcome.settings.iter();
            let found = settings.find(|setting| setting.released == released);
            found
                .map(|setting| setting.counts.clone())
                .unwrap_or_default()
        };
        let residual = counts_of(Released::Nothing);
        let mut names = Names::below(&outcome.below);
        let mut factors = Vec::new();
        let mut ends = [None, None];
        for setting in &outcome.settings {
            let spread = Spread::new(setting, &residual, &outcome.who, args, &mut names);
            match setting.released {
                Released::Nothing => ends[0] = Some(spread),
                Released::One(_) => factors.push(spread),
                Released::Everything => ends[1] = Some(spread),
            }
        }
        // Several factors are tried: Holm's correction.
        let raw: Vec<Option<f64>> = factors.iter().map(|spread| spread.p).collect();
        for (spread, p) in factors.iter_mut().zip(holm(&raw)) {
            spread.p = p;
            if let (Some(cause), Some(p)) = (&mut spread.cause, p) {
                *cause = p < SIGNIFICANT;
            }
        }
        let mut empty = |released| {
            let none = Setting::empty(released);
            Spread::new(&none, &residual, &outcome.who, args, &mut names)
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
        let residual_spread = fixed.unwrap_or_else(|| empty(Released::Nothing));
        let together = together.unwrap_or_else(|| empty(Released::Everything));
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
        if matches!(outcome.who, Who::Hardware { .. }) {
            notes.push(
                "Counted by the CPU: the residual holds the counter's own errors too. The functions in which \
                 runs differ are told by the virtual PMU (--source virtual)."
                    .to_owned(),
            );
        }
        Self {
            schema: "truecount.noise/2",
            command: args
                .command
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            event: outcome.who.event(),
            source: outcome.who.kind(),
            runs: outcome.runs,
            seed,
            dominant_factor,
            factors,
            residual: residual_spread,
            together,
            not_tested: outcome.not_tested,
            exits: outcome.exits,
            interrupted: outcome.interrupted,
            stopped: None,
            notes,
            environment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_more_is_told_from_what_does_not() {
        let residual = [664, 620, 620, 664, 664];
        let wide = [150_753, 162_721, 171_140, 167_854, 166_389];
        // 1 of the 70 ways to choose four distances of eight.
        let p = permutation(&residual, &wide);
        assert!((p - 1.0 / 70.0).abs() < 0.005, "{p}");
        assert!(permutation(&residual, &residual) > 0.3);
        assert!(permutation(&wide, &residual) > 0.9);
        assert!((permutation(&[5], &[7]) - 1.0).abs() < 1e-9);
    }

    /// Called a cause by chance as often as the level says: two settings that do not differ.
    #[test]
    fn the_level_is_kept() {
        let mut rng = Rng::new(7);
        for runs in [5, 8] {
            let mut draw = || -> Vec<u64> {
                let one = |rng: &mut Rng| (0..12).map(|_| rng.below(1000)).sum();
                (0..runs).map(|_| one(&mut rng)).collect()
            };
            let tries = 200;
            let hits = (0..tries).filter(|_| permutation(&draw(), &draw()) < SIGNIFICANT);
            // 5 % of 200, and four standard errors.
            let hits = hits.count();
            assert!(hits <= 10 + 13, "{hits} of {tries} with {runs} runs");
        }
    }
}
