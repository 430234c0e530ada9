//! Comparisons of commands measured together and with a saved baseline, and the gates on them.

use truecount_stats::{
    Comparison, Floors, Options, Verdict, Wording, compare_paired, compare_unpaired, verdicts,
};

use super::document::{Command, Compared, Document, Metric};
use super::stop::percent;
use crate::failure::Failure;
use truecount_model::{Precision, SourceKind};

/// `--fail-above` and `--floor`: a metric and a share.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    pub(super) metric: String,
    pub(super) share: f64,
}

impl Limit {
    /// From `METRIC=PCT`.
    pub(super) fn parse(option: &str, text: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::new(2, format!("{option} `{text}`: {why}"))
                .hint("write it as instructions:u=0.5%")
        };
        let (metric, share) = text.split_once('=').ok_or_else(|| wrong("no `=`"))?;
        Ok(Self {
            metric: metric.trim().to_owned(),
            share: percent(share).map_err(|why| wrong(&why))?,
        })
    }

    /// Whether it is for this metric: the same name, or the name without its filter.
    pub(super) fn covers(&self, metric: &str) -> bool {
        metric == self.metric || metric.split(':').next() == Some(self.metric.as_str())
    }
}

/// A comparison before the verdicts, which need all of them.
enum Found {
    /// A test was made.
    Tested(Box<Comparison>),
    /// Both sides are exact counts: no test is needed. The ratio.
    Exact(f64),
    /// No comparison, and why.
    Incomparable(String),
}

struct Pair {
    base: String,
    other: String,
    metric: String,
    found: Found,
}

/// Sources whose counts are the truth and need no repetition.
fn exact_count(metric: &Metric) -> Option<u64> {
    let engine = matches!(metric.source, Some(SourceKind::Virtual | SourceKind::Step));
    let first = metric.samples.first()?;
    (engine && metric.exact).then_some(*first)
}

fn compare_metric(base: &Metric, other: &Metric, paired: bool) -> Option<Found> {
    if base.samples.is_empty() && other.samples.is_empty() {
        return None;
    }
    if base.samples.is_empty() || other.samples.is_empty() {
        return Some(Found::Incomparable("one side was not counted".to_owned()));
    }
    if base.source != other.source {
        let name = |source: Option<SourceKind>| source.map_or("nobody", SourceKind::name);
        return Some(Found::Incomparable(format!(
            "counted by {} and by {}",
            name(base.source),
            name(other.source)
        )));
    }
    if let (Some(before), Some(after)) = (exact_count(base), exact_count(other)) {
        let ratio = match (before, after) {
            (0, 0) => 1.0,
            (before, after) => after as f64 / before as f64,
        };
        return Some(Found::Exact(ratio));
    }
    let options = Options::default();
    let compared = if paired {
        let theirs: std::collections::BTreeMap<usize, u64> = other.by_round().collect();
        let (before, after): (Vec<u64>, Vec<u64>) = base
            .by_round()
            .filter_map(|(round, sample)| Some((sample, *theirs.get(&round)?)))
            .unzip();
        if before.is_empty() {
            return Some(Found::Incomparable("no round counted both".to_owned()));
        }
        compare_paired(&before, &after, &options)
    } else {
        compare_unpaired(&base.samples, &other.samples, &options)
    };
    Some(match compared {
        Ok(comparison) => Found::Tested(Box::new(comparison)),
        Err(error) => Found::Incomparable(error.to_string()),
    })
}

fn compare_commands(base: &Command, other: &Command, name: &str, paired: bool) -> Vec<Pair> {
    other
        .metrics
        .iter()
        .filter_map(|(metric, measured)| {
            let before = base.metrics.get(metric)?;
            Some(Pair {
                base: name.to_owned(),
                other: other.name.clone(),
                metric: metric.to_owned(),
                found: compare_metric(before, measured, paired)?,
            })
        })
        .collect()
}

/// What two environments must share for counts and times to be comparable.
const MATERIAL: [&str; 14] = [
    "arch",
    "cpu_model",
    "cpu_id",
    "microcode",
    "kernel",
    "governor",
    "turbo",
    "smt",
    "virtualised",
    "aslr",
    "pmu",
    "env_count",
    "env_bytes",
    "pinned",
];

/// The differences that forbid a comparison.
pub(super) fn material(differences: &[String]) -> Vec<String> {
    differences
        .iter()
        .filter(|line| {
            MATERIAL
                .iter()
                .any(|name| line.starts_with(&format!("{name}:")))
        })
        .cloned()
        .collect()
}

/// Compares every command with the first, and with the baseline where there is one.
pub(super) fn all(
    commands: &[Command],
    baseline: Option<&Document>,
    incomparable: Option<&str>,
    floors: &Floors,
) -> Vec<Compared> {
    let mut pairs = Vec::new();
    if let Some(baseline) = baseline {
        for command in commands {
            // By name; a baseline of one command is meant for the one command of today.
            let before = baseline
                .commands
                .iter()
                .find(|before| before.name == command.name)
                .or(match (baseline.commands.as_slice(), commands) {
                    ([only], [_]) => Some(only),
                    _ => None,
                });
            if let Some(before) = before {
                let name = format!("baseline: {}", before.name);
                let mut found = compare_commands(before, command, &name, false);
                if let Some(reason) = incomparable {
                    for pair in &mut found {
                        pair.found = Found::Incomparable(reason.to_owned());
                    }
                }
                pairs.extend(found);
            }
        }
    }
    if let Some((base, others)) = commands.split_first() {
        for other in others {
            pairs.extend(compare_commands(base, other, &base.name, true));
        }
    }
    let tested = pairs.iter().filter_map(|pair| match &pair.found {
        Found::Tested(comparison) => Some((pair.metric.clone(), **comparison)),
        _ => None,
    });
    let mut judged = verdicts(tested, floors).into_iter();
    pairs
        .into_iter()
        .filter_map(|pair| {
            let floor = floors.of(&pair.metric);
            let finite = |value: f64| value.is_finite().then_some(value);
            Some(match pair.found {
                Found::Tested(comparison) => {
                    let judged = judged.next()?;
                    Compared {
                        verdict: judged.verdict.word(Wording::of(&pair.metric)).to_owned(),
                        explanation: judged.to_string(),
                        base: pair.base,
                        other: pair.other,
                        metric: pair.metric,
                        ratio: finite(comparison.ratio),
                        interval: comparison
                            .interval
                            .map(|(low, high)| (finite(low), finite(high))),
                        confidence: comparison.confidence,
                        p: finite(comparison.p),
                        p_adjusted: Some(judged.p_adjusted),
                        floor,
                        exact: comparison.exact_change.is_some(),
                    }
                }
                Found::Exact(ratio) => {
                    let verdict = if (ratio - 1.0).abs() <= floor {
                        Verdict::Same
                    } else if ratio > 1.0 {
                        Verdict::Higher
                    } else {
                        Verdict::Lower
                    };
                    let word = verdict.word(Wording::of(&pair.metric)).to_owned();
                    Compared {
                        explanation: format!("{word} (exact counts)"),
                        verdict: word,
                        base: pair.base,
                        other: pair.other,
                        metric: pair.metric,
                        ratio: finite(ratio),
                        interval: finite(ratio).map(|ratio| (Some(ratio), Some(ratio))),
                        confidence: 1.0,
                        p: None,
                        p_adjusted: None,
                        floor,
                        exact: true,
                    }
                }
                Found::Incomparable(reason) => Compared {
                    verdict: "incomparable".to_owned(),
                    explanation: format!("incomparable: {reason}"),
                    base: pair.base,
                    other: pair.other,
                    metric: pair.metric,
                    ratio: None,
                    interval: None,
                    confidence: 0.95,
                    p: None,
                    p_adjusted: None,
                    floor,
                    exact: false,
                },
            })
        })
        .collect()
}

/// What the gates say: exit status and one line for each gate.
pub(super) fn gate(document: &Document, limits: &[Limit], baseline: bool) -> (u8, Vec<String>) {
    let mut code = 0;
    let mut lines = Vec::new();
    for limit in limits {
        let shown = truecount_model::number::significant(limit.share * 100.0);
        let asked: Vec<&Compared> = document
            .comparisons
            .iter()
            .filter(|compared| limit.covers(&compared.metric))
            // With a baseline the gate is about it, not about the commands among themselves.
            .filter(|compared| !baseline || compared.base.starts_with("baseline: "))
            .collect();
        if asked.is_empty() {
            code = worse(code, 4);
            lines.push(format!(
                "gate {} {shown} %: undecided, there is no comparison of this metric",
                limit.metric
            ));
        }
        for compared in asked {
            let scaled = document
                .commands
                .iter()
                .find(|command| command.name == compared.other)
                .and_then(|command| command.metrics.get(&compared.metric))
                .is_some_and(|metric| metric.precision == Some(Precision::Scaled));
            let (status, word) = match compared.verdict.as_str() {
                _ if scaled => (4, "undecided, a scaled count decides nothing"),
                "slower" | "more" | "larger" => (3, "regressed"),
                "same" | "faster" | "fewer" | "smaller" => (0, "passed"),
                _ => (4, "undecided"),
            };
            code = worse(code, status);
            lines.push(format!(
                "gate {} {shown} %, {} against {}: {word} ({})",
                limit.metric, compared.other, compared.base, compared.explanation
            ));
        }
    }
    (code, lines)
}

/// A regression outweighs doubt, doubt outweighs nothing.
fn worse(one: u8, other: u8) -> u8 {
    match (one, other) {
        (3, _) | (_, 3) => 3,
        (one, other) => one.max(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::bench::document::Map;

    fn metric(source: SourceKind, samples: &[u64]) -> Metric {
        let mut metric = Metric {
            unit: "count".into(),
            scale: 1.0,
            source: Some(source),
            precision: Some(Precision::Counted),
            samples: samples.to_vec(),
            rounds: vec![],
            min: None,
            median: None,
            max: None,
            mad: None,
            distinct: 0,
            exact: false,
            reason: None,
            hint: None,
        };
        metric.summarize();
        metric
    }

    fn command(name: &str, metric_name: &str, metric: Metric) -> Command {
        Command {
            command: vec![name.into()],
            name: name.into(),
            parameters: Map::default(),
            runs: metric.samples.len(),
            failures: 0,
            metrics: Map(vec![(metric_name.into(), metric)]),
        }
    }

    #[test]
    fn exact_counts_need_no_test() {
        let commands = [
            command(
                "a",
                "instructions:u",
                metric(SourceKind::Step, &[1000, 1000]),
            ),
            command(
                "b",
                "instructions:u",
                metric(SourceKind::Step, &[1010, 1010]),
            ),
            command(
                "c",
                "instructions:u",
                metric(SourceKind::Step, &[1000, 1000]),
            ),
        ];
        let compared = all(&commands, None, None, &Floors::default());
        assert_eq!(compared[0].verdict, "more");
        assert_eq!(compared[0].interval, Some((Some(1.01), Some(1.01))));
        assert_eq!(compared[1].verdict, "same");
    }

    #[test]
    fn two_inexact_values_give_no_verdict() {
        let commands = [
            command(
                "a",
                "instructions:u",
                metric(SourceKind::Step, &[1000, 1001]),
            ),
            command(
                "b",
                "instructions:u",
                metric(SourceKind::Step, &[1010, 1010]),
            ),
        ];
        let compared = all(&commands, None, None, &Floors::default());
        assert_eq!(compared[0].verdict, "n too small");
    }

    #[test]
    fn sources_do_not_mix() {
        let commands = [
            command("a", "instructions:u", metric(SourceKind::Step, &[5; 9])),
            command("b", "instructions:u", metric(SourceKind::Hardware, &[5; 9])),
        ];
        let compared = all(&commands, None, None, &Floors::default());
        assert_eq!(compared[0].verdict, "incomparable");
    }

    #[test]
    fn regressions_outweigh_doubt() {
        assert_eq!(worse(4, 3), 3);
        assert_eq!(worse(3, 4), 3);
        assert_eq!(worse(0, 4), 4);
        assert_eq!(worse(0, 0), 0);
    }
}
