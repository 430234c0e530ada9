//! The verdict of every pair, and what its gate says.

use std::collections::BTreeMap;

use truecount_run::env_record::VARIABLE;
use truecount_stats::{Allowed, Floors, Gate, Incomparable, Judged, Outcome, Worse, verdicts};

use super::pair::{Asked, Pending, limit};

/// Gives every pair its verdict.
pub(super) fn judge(pending: &mut [Pending], asked: &Asked<'_>) {
    let gated = !asked.gates.is_empty() || !asked.own_gates.is_empty();
    // Each pair has a floor of its own, so each has a name of its own.
    let name = |index: usize| format!("#{index}");
    let mut floors = Floors::default();
    let mut family = Vec::new();
    for (index, pair) in pending.iter().enumerate() {
        let Some(compared) = pair.compared else {
            continue;
        };
        // Of counts the share of this base: where there is none (a base of 0), nothing is the same.
        let base = pair.row.base.unwrap_or(f64::NAN);
        let limit = limit(asked, &pair.row.benchmark, &pair.row.metric).map(|limit| {
            limit
                .allowed
                .share(base, pair.worse.unwrap_or_default())
                .unwrap_or(0.0)
        });
        let noise = asked
            .noise
            .and_then(|noise| noise(&pair.key))
            .unwrap_or(0.0);
        let usual = limit.unwrap_or_else(|| Floors::default().of(&pair.row.metric));
        floors = floors.with(name(index), usual.max(noise));
        let plain = pair.row.metric.split(':').next().unwrap_or_default();
        let judged = if gated {
            limit.is_some()
        } else {
            matches!(plain, "instructions" | "wall-time")
        };
        if judged {
            family.push((index, compared));
        }
    }
    let tested = verdicts(family.iter().map(|(index, c)| (name(*index), *c)), &floors);
    let mut tested: BTreeMap<usize, Judged> =
        family.iter().map(|(index, _)| *index).zip(tested).collect();
    for (index, pair) in pending.iter_mut().enumerate() {
        let judged = match (tested.remove(&index), pair.compared) {
            (Some(judged), _) => Some(judged),
            (None, Some(compared)) => {
                Some(truecount_stats::described(name(index), compared, &floors))
            }
            (None, None) => None,
        };
        say(pair, judged, asked);
    }
}

/// The verdict of a pair, in a word and in full.
fn say(pair: &mut Pending, judged: Option<Judged>, asked: &Asked<'_>) {
    let row = &mut pair.row;
    if !pair.reasons.is_empty() {
        row.verdict = "incomparable".to_owned();
        row.explanation = refusal(&pair.reasons);
        return;
    }
    let change = |rose: bool| pair.worse.map(|worse| rose == (worse == Worse::Higher));
    let limit = limit(asked, &row.benchmark, &row.metric);
    let limit = limit.map_or(Allowed::Share(0.0), |limit| limit.allowed);
    if let (true, Some(was), Some(is)) = (row.exact, row.base, row.other) {
        use truecount_stats::Verdict::{Higher, Lower, Same};
        let verdict = if is > was {
            Higher
        } else if is < was {
            Lower
        } else {
            Same
        };
        row.verdict = verdict.word(pair.wording).to_owned();
        row.explanation = format!("{} (exact)", row.verdict);
        row.regression = (verdict != Same).then(|| change(is > was)).flatten();
        if let Some(worse) = pair.worse {
            let gate = Gate {
                metric: row.metric.clone(),
                limit,
                worse,
            };
            row.gate = Some(word(&gate.judge_exact(was, is, Vec::new())).to_owned());
        }
        return;
    }
    let Some(judged) = judged else {
        row.verdict = "incomparable".to_owned();
        row.explanation = "incomparable: one side has no counted sample".to_owned();
        return;
    };
    row.verdict = judged.verdict.word(pair.wording).to_owned();
    row.explanation = judged.say(pair.wording);
    row.regression = match judged.verdict {
        truecount_stats::Verdict::Higher => change(true),
        truecount_stats::Verdict::Lower => change(false),
        _ => None,
    };
    if let Some(worse) = pair.worse {
        let gate = Gate {
            metric: row.metric.clone(),
            limit,
            worse,
        };
        let base = row.base.unwrap_or(f64::NAN);
        row.gate = Some(word(&gate.judge_of(base, &judged, Vec::new())).to_owned());
    }
}

/// Why numbers are not compared, with what lets them be.
fn refusal(reasons: &[Incomparable]) -> String {
    let mut variables = Vec::new();
    let mut lines = Vec::new();
    for reason in reasons {
        match reason {
            Incomparable::Differs { what, .. } if what.starts_with(VARIABLE) => {
                variables.extend(what.strip_prefix(VARIABLE));
            }
            other => lines.push(other.to_string()),
        }
    }
    if !variables.is_empty() {
        lines.push(format!(
            "variables that differ: {} (bench --clean-env makes them the same, --accept environment lets them differ)",
            variables.join(", ")
        ));
    }
    format!("incomparable: {}", lines.join("; "))
}

/// What the gate of a pair says, and whether an accepted change lets it pass.
pub(super) fn gate(pair: &mut Pending, asked: &Asked<'_>) -> Option<Outcome> {
    let row = &mut pair.row;
    let Some(limit) = limit(asked, &row.benchmark, &row.metric) else {
        row.gate = None;
        return None;
    };
    match limit.allowed {
        Allowed::Share(share) => row.limit = Some(share),
        Allowed::Counts(counts) => row.limit_counts = Some(counts),
    }
    let outcome = if !pair.reasons.is_empty() {
        Outcome::Incomparable(pair.reasons.clone())
    } else {
        match row.gate.as_deref() {
            Some("passed") => Outcome::Pass,
            Some("regressed") => Outcome::Regression,
            _ => Outcome::Undecided,
        }
    };
    row.gate = Some(word(&outcome).to_owned());
    let blessing = asked
        .blessings
        .iter()
        .find(|blessing| blessing.covers(&row.benchmark, &row.metric));
    if let (Outcome::Regression, Some(blessing)) = (&outcome, blessing) {
        row.gate = Some("blessed".to_owned());
        row.explanation = format!(
            "{}; accepted at {}: {}",
            row.explanation,
            crate::git::short(&blessing.commit),
            blessing.reason
        );
        return Some(Outcome::Pass);
    }
    Some(outcome)
}

pub(super) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "passed",
        Outcome::Regression => "regressed",
        Outcome::Undecided => "undecided",
        Outcome::Incomparable(_) => "incomparable",
    }
}
