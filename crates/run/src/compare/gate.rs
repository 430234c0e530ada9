//! What the gates say. The rule itself is `truecount_stats::Gate`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use truecount_stats::{Allowed, Gate, GateExit, Outcome, Worse};

use super::limit::{Limit, limit_of};
use super::pairs::Pair;

/// What one gate says about one comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateRow {
    /// What the gate is about; empty where a command is gone, with all that it had.
    pub metric: String,
    /// The largest change that passes, as a share; `None` where it is given in counts and no share says it.
    pub limit: Option<f64>,
    /// The largest change that passes, where it was given in counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<f64>,
    /// Name of the command compared with.
    pub base: Option<String>,
    /// Name of the command that is judged.
    pub other: Option<String>,
    /// `passed`, `regressed`, `undecided`, `incomparable`.
    pub outcome: String,
    /// Why, in full.
    pub explanation: String,
    /// Where one side's count is known to vary: what came into its runs from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// Where the counts differ: the inputs that do, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
}

/// Names of commands that only one side has.
#[derive(Default, Clone, Copy)]
pub(super) struct Lone<'a> {
    /// The baseline does not have them.
    pub(super) new: &'a [String],
    /// Only the baseline has them, and should not.
    pub(super) lost: &'a [String],
}

/// What the gates say together, and one row for each gate and comparison.
pub(super) fn gate(
    limits: &[Limit],
    own: &BTreeMap<String, Vec<Limit>>,
    pairs: &[Pair],
    lone: Lone<'_>,
) -> (GateExit, Vec<GateRow>) {
    let mut outcomes = Vec::new();
    let mut rows = Vec::new();
    let all = limits.iter().map(|limit| (None, limit));
    let each = own
        .iter()
        .flat_map(|(name, limits)| limits.iter().map(move |l| (Some(name), l)));
    for (whose, limit) in all.chain(each) {
        let before = outcomes.len();
        let counts = match limit.allowed {
            Allowed::Share(_) => None,
            Allowed::Counts(counts) => Some(counts),
        };
        let plain = limit.allowed.share(f64::NAN, Worse::Higher);
        let mut say = |metric: &str,
                       who: Option<(&str, &str)>,
                       outcome: Outcome,
                       why: &str,
                       pair: Option<&Pair>| {
            let open = pair.and_then(|pair| pair.open.clone());
            let inputs = pair.and_then(|pair| pair.inputs.clone());
            let mut explanation = why.to_owned();
            if let Some(open) = &open {
                explanation.push_str(&format!("; {open}"));
            }
            if let Some(inputs) = &inputs {
                explanation.push_str(&format!("; inputs differ: {inputs}"));
            }
            rows.push(GateRow {
                metric: metric.to_owned(),
                limit: plain,
                counts,
                base: who.map(|(base, _)| base.to_owned()),
                other: who.map(|(_, other)| other.to_owned()),
                outcome: word(&outcome).to_owned(),
                explanation,
                open,
                inputs,
            });
            outcomes.push(outcome);
        };
        let mine = |pair: &&Pair| {
            let chosen = limit_of(limits, own, &pair.other, &pair.metric);
            pair.gated && chosen.is_some_and(|chosen| std::ptr::eq(chosen, limit))
        };
        for pair in pairs.iter().filter(mine) {
            let who = Some((pair.base.as_str(), pair.other.as_str()));
            let outcome = judge(limit, pair);
            say(&pair.metric, who, outcome, &pair.explanation, Some(pair));
        }
        for name in lone
            .new
            .iter()
            .filter(|name| whose.is_none_or(|whose| whose == *name))
        {
            let who = Some(("the baseline", name.as_str()));
            let why = "the baseline has no command of this name";
            say(&limit.metric, who, Outcome::Undecided, why, None);
        }
        let own_instead = whose.is_none()
            && pairs
                .iter()
                .any(|pair| pair.gated && limit.covers(&pair.metric));
        if outcomes.len() == before && !own_instead {
            rows.push(GateRow {
                metric: limit.metric.clone(),
                limit: plain,
                counts,
                base: None,
                other: whose.map(ToOwned::to_owned),
                outcome: word(&Outcome::Undecided).to_owned(),
                explanation: "there is no comparison of this metric".to_owned(),
                open: None,
                inputs: None,
            });
            outcomes.push(Outcome::Undecided);
        }
    }
    for name in lone.lost {
        rows.push(GateRow {
            metric: String::new(),
            limit: None,
            counts: None,
            base: Some("the baseline".to_owned()),
            other: Some(name.clone()),
            outcome: word(&Outcome::Undecided).to_owned(),
            explanation: "gone: only the baseline has it; save a new one where that is meant"
                .to_owned(),
            open: None,
            inputs: None,
        });
        outcomes.push(Outcome::Undecided);
    }
    (GateExit::of(&outcomes), rows)
}

fn judge(limit: &Limit, pair: &Pair) -> Outcome {
    let Some(judged) = pair.judged.as_ref().filter(|_| pair.reasons.is_empty()) else {
        return Outcome::Incomparable(pair.reasons.clone());
    };
    pair.worse.map_or(Outcome::Undecided, |worse| {
        let gate = Gate {
            metric: pair.metric.clone(),
            limit: limit.allowed,
            worse,
        };
        match (limit.allowed, pair.medians) {
            // Exact counts have nothing to estimate; the logarithm of a ratio may miss the limit by its last digit.
            (Allowed::Counts(_), Some((base, other))) if judged.exact() => {
                gate.judge_exact(base, other, Vec::new())
            }
            (_, medians) => {
                let base = medians.map_or(f64::NAN, |(base, _)| base);
                gate.judge_of(base, judged, Vec::new())
            }
        }
    })
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "passed",
        Outcome::Regression => "regressed",
        Outcome::Undecided => "undecided",
        Outcome::Incomparable(_) => "incomparable",
    }
}
