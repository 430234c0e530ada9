//! Comparisons of commands measured together and with a saved baseline. What may be compared, the verdicts and the
//! gates are rules of `truecount-stats`; this module brings the pairs together.

use std::collections::BTreeMap;

use truecount_stats::{
    Allowed, Comparison, Floors, Incomparable, Judged, Options, Provenance, Verdict, Wording,
    Worse, compare_paired, compare_unpaired, described, incomparable, verdicts,
};

use super::limit::{Limit, limit_of, worse};
use crate::env_record::{Environment, VARIABLE, variables_differ};
use crate::rounds::{Command, Metric};
use truecount_model::split_filter;

/// One metric of one command against another's.
pub struct Pair {
    /// Name of the command compared with, or `baseline: NAME`.
    pub base: String,
    /// Name of the command that is judged.
    pub other: String,
    /// The metric.
    pub metric: String,
    /// Which direction is worse; `None` where neither is.
    pub worse: Option<Worse>,
    /// The words for its changes.
    pub wording: Wording,
    /// Gates are about this pair: with a baseline about it, not about the commands among themselves.
    pub gated: bool,
    /// Why the two sides do not mean the same thing.
    pub reasons: Vec<Incomparable>,
    /// The comparison, where the sides mean the same thing.
    pub comparison: Option<Comparison>,
    /// Ratio of the medians.
    pub median_ratio: Option<f64>,
    /// The medians, in the metric's unit.
    pub medians: Option<(f64, f64)>,
    /// The counter of one side is known to deviate from the truth: equal counts are not exact ones.
    pub deviates: bool,
    /// Both sides are counts; what is none may be equal and is not exact.
    pub counts: bool,
    advice: Advice,
    /// The verdict, where there is a comparison.
    pub judged: Option<Judged>,
    /// The verdict in words.
    pub explanation: String,
    /// Which side's count may vary, and what came into its runs from outside.
    pub open: Option<String>,
    /// Where counts of closed runs differ: the inputs that do.
    pub inputs: Option<String>,
}

/// What gives more samples of a metric.
#[derive(Debug, Clone, Copy)]
enum Advice {
    /// `-n`, with so many rounds for each sample (batches of events take turns).
    Rounds(f64),
    /// `--exact-runs`.
    ExactRuns,
    /// A baseline that is saved anew, with so few samples as it has.
    Baseline(usize),
}

impl Advice {
    fn of(before: &Metric, after: &Metric, rounds: usize, saved: bool) -> Self {
        if saved && before.samples.len() < after.samples.len() {
            Self::Baseline(before.samples.len())
        } else if after.undisturbed() {
            Self::ExactRuns
        } else {
            let samples = after.samples.len().max(1);
            Self::Rounds((rounds as f64 / samples as f64).max(1.0))
        }
    }

    /// The option that gives so many samples.
    fn to_have(self, samples: usize) -> String {
        match self {
            Self::Rounds(each) => format!("-n {:.0}", (samples as f64 * each).ceil()),
            Self::ExactRuns => format!("--exact-runs {samples}"),
            Self::Baseline(has) => {
                format!("the baseline has {has}, save one with {samples}")
            }
        }
    }
}

/// A result of before.
pub struct Saved {
    /// What was measured.
    pub commands: Vec<Command>,
    /// Under which conditions.
    pub environment: Environment,
}

/// What is compared with what.
pub(super) struct Sides<'d> {
    pub commands: &'d [Command],
    pub environment: &'d Environment,
    pub baseline: Option<&'d Saved>,
    pub accept: Accept,
    /// Measured rounds.
    pub rounds: usize,
    /// How often the rounds may have been looked at before they ended.
    pub looks: usize,
    /// Commands are not compared among themselves.
    pub apart: bool,
}

/// Differences between the baseline and today that the user takes for harmless.
#[derive(Debug, Clone, Copy, Default)]
pub struct Accept {
    /// CPU, kernel, governor.
    pub machine: bool,
    /// Variables, randomisation, CPUs.
    pub environment: bool,
}

/// Which metrics are judged; the others are described.
pub(super) struct Family<'l> {
    /// With gates, what they are about.
    pub gates: &'l [Limit],
    /// The same of single commands.
    pub own_gates: &'l BTreeMap<String, Vec<Limit>>,
    /// What the user asked for by name.
    pub asked: &'l [String],
}

impl Family<'_> {
    /// Whether there is no gate.
    pub(super) fn gates_none(&self) -> bool {
        self.gates.is_empty() && self.own_gates.values().all(Vec::is_empty)
    }

    /// Whether a pair is judged: with gates only what they are about.
    fn judges(&self, pair: &Pair) -> bool {
        if self.gates_none() {
            return self.has(&pair.metric);
        }
        // With gates the commands among themselves are described only: the baseline is what is judged.
        pair.gated && limit_of(self.gates, self.own_gates, &pair.other, &pair.metric).is_some()
    }

    /// Whether a metric is judged.
    pub(super) fn has(&self, metric: &str) -> bool {
        if !self.gates_none() {
            let own = self.own_gates.values().flatten();
            return self.gates.iter().chain(own).any(|gate| gate.covers(metric));
        }
        let plain = metric.split(':').next().unwrap_or(metric);
        plain == "instructions"
            || plain == "wall-time"
            || self
                .asked
                .iter()
                .any(|name| name == metric || name == plain)
    }
}

/// Facts of the machine that decide whether counts and times are comparable.
const MACHINE: [&str; 10] = [
    "arch",
    "cpu_model",
    "cpu_id",
    "microcode",
    "kernel",
    "governor",
    "turbo",
    "smt",
    "virtualised",
    "pmu",
];

/// The reference machine that was shown: counts of different ones are not compared, whatever else is accepted.
const REFERENCE: &str = "reference";

/// Facts of the program's environment that do.
const ENVIRONMENT: [&str; 5] = ["aslr", "env_count", "env_bytes", "pinned", "deterministic"];

/// The facts of a metric's conditions that two results must share.
#[must_use]
pub fn provenance(
    environment: Option<&Environment>,
    accept: Accept,
    name: &str,
    metric: &Metric,
) -> Provenance {
    let all = environment.map(Environment::facts).unwrap_or_default();
    let only = |names: &[&str], accepted: bool| -> BTreeMap<String, String> {
        let wanted = all.iter().filter(|(name, _)| {
            let variable = names == ENVIRONMENT && name.starts_with(VARIABLE);
            !accepted && (variable || names.contains(&name.as_str()))
        });
        wanted.map(|(n, v)| (n.clone(), v.clone())).collect()
    };
    // Where a reference machine was shown, the one that it ran on does not matter; which was shown always does.
    let shown = metric.undisturbed() && all.contains_key(REFERENCE);
    let mut environment = only(&ENVIRONMENT, accept.environment);
    if metric.undisturbed() {
        environment.extend(only(&[REFERENCE], false));
    }
    Provenance {
        machine: only(&MACHINE, accept.machine || shown),
        environment,
        filter: split_filter(name).1.to_owned(),
        source: metric.source,
        precision: metric.precision,
        samples: metric.samples.len(),
    }
}

fn compare_metric(base: &Metric, other: &Metric, paired: bool) -> Option<Comparison> {
    let options = Options::default();
    // Counts of the engine do not drift with the machine: a permutation of the runs says more than pairs.
    if !paired || other.undisturbed() {
        return compare_unpaired(&base.samples, &other.samples, &options).ok();
    }
    let theirs: BTreeMap<usize, u64> = other.by_round().collect();
    let (before, after): (Vec<u64>, Vec<u64>) = base
        .by_round()
        .filter_map(|(round, sample)| Some((sample, *theirs.get(&round)?)))
        .unzip();
    compare_paired(&before, &after, &options).ok()
}

/// The words for changes of a metric: by its name where it is an event or a resource, `lower` and `higher` of ratios.
#[must_use]
pub fn wording(name: &str, metric: &Metric) -> Wording {
    match metric.unit.as_str() {
        "count" | "ns" | "bytes" => Wording::of(name),
        _ => Wording::Level,
    }
}

/// The medians of both sides, in the metric's unit.
fn medians(base: &Metric, other: &Metric) -> Option<(f64, f64)> {
    let median = |metric: &Metric| Some(metric.summary()?.median.to_f64() * metric.scale);
    Some((median(base)?, median(other)?))
}

fn median_ratio(base: &Metric, other: &Metric) -> Option<f64> {
    let (before, after) = (
        base.summary()?.median.to_f64(),
        other.summary()?.median.to_f64(),
    );
    let ratio = if before == after { 1.0 } else { after / before };
    ratio.is_finite().then_some(ratio)
}

/// The inputs that differ between two commands whose counts are the virtual PMU's.
fn inputs(before: (&Command, &Metric), after: (&Command, &Metric)) -> Option<String> {
    let identity = |(command, metric): (&'_ Command, &Metric)| {
        let outside = command.outside.clone();
        outside.filter(|_| metric.undisturbed())?.identity
    };
    identity(before)?.difference(&identity(after)?)
}

fn pairs_of(
    base: &Command,
    other: &Command,
    name: &str,
    environments: Option<(&Environment, &Environment)>,
    sides: &Sides<'_>,
) -> Vec<Pair> {
    let (paired, accept) = (environments.is_none(), sides.accept);
    let both = other
        .metrics
        .iter()
        .filter_map(|(metric, after)| Some((metric, base.metrics.get(metric)?, after)));
    both.filter(|(_, before, after)| !(before.samples.is_empty() && after.samples.is_empty()))
        .map(|(metric, before, after)| {
            let mut reasons = incomparable(
                &provenance(environments.map(|(base, _)| base), accept, metric, before),
                &provenance(environments.map(|(_, other)| other), accept, metric, after),
            );
            let mut comparison = compare_metric(before, after, paired);
            // Runs of the engine end by what one command shows, never by how two compare.
            if let Some(comparison) = comparison.as_mut().filter(|_| !after.undisturbed()) {
                comparison.looks = sides.looks;
            }
            if comparison.is_none() && reasons.is_empty() {
                // No round counted both.
                reasons.push(Incomparable::NotCounted);
            }
            Pair {
                base: name.to_owned(),
                other: other.name.clone(),
                metric: metric.to_owned(),
                worse: worse(metric, after),
                wording: wording(metric, after),
                gated: true,
                median_ratio: median_ratio(before, after).filter(|_| comparison.is_some()),
                medians: medians(before, after),
                deviates: before.deviation.is_some() || after.deviation.is_some(),
                counts: before.is_count() && after.is_count(),
                advice: Advice::of(before, after, sides.rounds, !paired),
                // Numbers that do not mean the same have no ratio; scaled ones have one, and decide nothing.
                comparison: comparison
                    .filter(|_| reasons.iter().all(|reason| *reason == Incomparable::Scaled)),
                reasons,
                judged: None,
                explanation: String::new(),
                open: [(base, before), (other, after)]
                    .into_iter()
                    .find_map(|(command, metric)| command.open(metric)),
                inputs: (before.samples != after.samples)
                    .then(|| inputs((base, before), (other, after)))
                    .flatten(),
            }
        })
        .collect()
}

/// The command of the baseline that this one is compared with: by name; a baseline of one command is meant for the one
/// command of today.
fn counterpart<'b>(
    baseline: &'b Saved,
    command: &Command,
    commands: &[Command],
) -> Option<&'b Command> {
    let named = baseline.commands.iter().find(|b| b.name == command.name);
    named.or(match (baseline.commands.as_slice(), commands) {
        ([only], [_]) => Some(only),
        _ => None,
    })
}

/// Compares every command with the first, and with the baseline where there is one; the names of commands that the
/// baseline does not have.
pub(super) fn all(
    sides: &Sides<'_>,
    family: &Family<'_>,
    floors: &Floors,
) -> (Vec<Pair>, Vec<String>) {
    let mut pairs = Vec::new();
    let mut unmatched = Vec::new();
    if let Some(baseline) = sides.baseline {
        for command in sides.commands {
            match counterpart(baseline, command, sides.commands) {
                Some(before) => {
                    let name = format!("baseline: {}", before.name);
                    let both = Some((&baseline.environment, sides.environment));
                    pairs.extend(pairs_of(before, command, &name, both, sides));
                }
                None => unmatched.push(command.name.clone()),
            }
        }
    }
    if let Some((base, others)) = sides.commands.split_first().filter(|_| !sides.apart) {
        for other in others {
            let found = pairs_of(base, other, &base.name, None, sides);
            pairs.extend(found.into_iter().map(|pair| Pair {
                gated: sides.baseline.is_none(),
                ..pair
            }));
        }
    }
    judge(&mut pairs, family, floors);
    (pairs, unmatched)
}

impl Pair {
    /// Whether its verdict is about exact counts.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.counts && !self.deviates && self.judged.as_ref().is_some_and(Judged::exact)
    }
}

fn judge(pairs: &mut [Pair], family: &Family<'_>, floors: &Floors) {
    let judged = |pair: &Pair| family.judges(pair) && pair.reasons.is_empty();
    // A command's own limit is the floor of its own numbers, and counts are another share of every base: such a pair has
    // a name of its own among the floors.
    let name = |pair: &Pair| {
        let limit = limit_of(family.gates, family.own_gates, &pair.other, &pair.metric);
        let limit = limit.filter(|limit| {
            let own = family.own_gates.get(&pair.other).into_iter().flatten();
            let own = own.into_iter().any(|own| std::ptr::eq(own, *limit));
            pair.gated && (own || matches!(limit.allowed, Allowed::Counts(_)))
        })?;
        let base = pair.medians.map_or(f64::NAN, |(base, _)| base);
        let share = limit.allowed.share(base, pair.worse.unwrap_or_default())?;
        Some((format!("{} of {}", pair.metric, pair.other), share))
    };
    let named = pairs.iter().filter_map(name);
    let floors = &named.fold(floors.clone(), |floors, (name, share)| {
        floors.with(name, share)
    });
    let name = |pair: &Pair| name(pair).map_or_else(|| pair.metric.clone(), |(name, _)| name);
    let tested = pairs.iter().filter(|pair| judged(pair));
    let tested = tested.filter_map(|pair| Some((name(pair), pair.comparison?)));
    let mut verdicts = verdicts(tested, floors).into_iter();
    for pair in pairs {
        let Some(comparison) = pair.comparison else {
            pair.explanation = refusal(&pair.reasons);
            continue;
        };
        pair.judged = if judged(pair) {
            verdicts.next()
        } else {
            Some(described(name(pair), comparison, floors))
        };
        pair.explanation = match &pair.judged {
            Some(judged) if pair.reasons.is_empty() => explain(judged, pair),
            _ => refusal(&pair.reasons),
        };
    }
}

/// The verdict in full; where more samples would decide, with the option that gives them.
fn explain(judged: &Judged, pair: &Pair) -> String {
    let mut text = judged.say(pair.wording);
    if !pair.counts {
        text = text.replace("(exact counts, ", "(");
    } else if pair.deviates {
        text = text.replace("(exact counts", "(counts of a counter that deviates");
    }
    let samples = match judged.verdict {
        Verdict::TooSmall { needed, .. } => needed,
        Verdict::Undecided {
            more_rounds: Some(more),
        } => judged.comparison.n() + more,
        _ => return text,
    };
    format!("{text}: {}", pair.advice.to_have(samples))
}

fn refusal(reasons: &[Incomparable]) -> String {
    let mut variables = Vec::new();
    let mut lines = Vec::new();
    for reason in reasons {
        match reason {
            Incomparable::Differs { what, .. } if what.starts_with(VARIABLE) => {
                variables.extend(what.strip_prefix(VARIABLE).map(str::to_owned));
            }
            other => lines.push(other.to_string()),
        }
    }
    if let Some(line) = variables_differ(&variables) {
        lines.push(format!(
            "{line} (--clean-env makes them the same, --ignore-environment lets them differ)"
        ));
    }
    format!("incomparable: {}", lines.join("; "))
}
