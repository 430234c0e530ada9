//! The machine's profile: the verdicts of `exactness`, kept for `truecount check` and for the commands that count.

use crate::exact::{Kind, Outcome, SpecLockMap};
use serde::{Deserialize, Serialize};

use truecount_run::env_record::Environment;
pub use truecount_run::exactness::KeptVerdict;
use truecount_run::exactness::{FILE, SCHEMA};
use truecount_run::state;

/// All that is kept of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    schema: String,
    /// One row an event and source.
    pub counters: Vec<KeptVerdict>,
    /// How reads are ordered with the code around them.
    #[serde(default)]
    pub ordering: Option<String>,
    /// Whether atomic instructions are counted twice (AMD).
    #[serde(default)]
    pub spec_lock_map: Option<SpecLockMap>,
}

impl Profile {
    /// What is known of this machine; `None` where nothing was measured, or the file is not understood.
    pub fn load(environment: &Environment) -> Option<Self> {
        let text = state::read(&state::path(FILE, environment)?)?;
        let profile: Self = serde_json::from_str(&text).ok()?;
        (profile.schema == SCHEMA).then_some(profile)
    }

    /// Puts in what was found; what was not measured this time stays as it was.
    fn merge(&mut self, outcome: &Outcome, now: u64) {
        SCHEMA.clone_into(&mut self.schema);
        for counter in &outcome.counters {
            if counter.verdict.kind == Kind::Unmeasured {
                continue;
            }
            self.counters
                .retain(|kept| kept.event != counter.event || kept.source != counter.source);
            self.counters.push(KeptVerdict {
                event: counter.event.clone(),
                source: counter.source,
                verdict: counter.verdict.clone(),
                measured: now,
            });
        }
        // The file is small whatever was tried: the oldest go first.
        let excess = self.counters.len().saturating_sub(64);
        self.counters.drain(..excess);
        if outcome.ordering_verdict.is_some() {
            self.ordering.clone_from(&outcome.ordering_verdict);
        }
        if outcome.spec_lock_map.is_some() {
            self.spec_lock_map.clone_from(&outcome.spec_lock_map);
        }
    }
}

/// Keeps the verdicts; a note where that was not possible. A run that was cut short is not kept.
pub fn keep(outcome: &Outcome, environment: &Environment) -> Option<String> {
    if outcome.partial || outcome.counters.is_empty() {
        return None;
    }
    let Some(path) = state::path(FILE, environment) else {
        return Some(
            "not kept for truecount check: neither XDG_STATE_HOME nor HOME is set".to_owned(),
        );
    };
    let mut profile = Profile::load(environment).unwrap_or_default();
    profile.merge(outcome, state::now());
    let text = match serde_json::to_string_pretty(&profile) {
        Ok(text) => text,
        Err(error) => return Some(format!("not kept for truecount check: {error}")),
    };
    match state::write(&path, &text) {
        Ok(()) => None,
        Err(error) => Some(format!(
            "not kept for truecount check: {}: {error}",
            path.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::{OnCounter, Quantity, Verdict};

    fn outcome(event: &str, kind: Kind) -> Outcome {
        Outcome {
            counters: vec![OnCounter {
                event: event.into(),
                truth: Quantity::Instructions,
                source: truecount_model::SourceKind::Hardware,
                method: "register".into(),
                loops: Vec::new(),
                verdict: Verdict {
                    kind,
                    text: format!("{kind:?}"),
                },
            }],
            ..Outcome::default()
        }
    }

    #[test]
    fn newer_verdicts_replace_older_ones_and_leave_the_others() {
        let mut profile = Profile::default();
        profile.merge(&outcome("a:u", Kind::Exact), 1);
        profile.merge(&outcome("b:u", Kind::Exact), 2);
        profile.merge(&outcome("a:u", Kind::PerInterrupt), 3);
        profile.merge(&outcome("b:u", Kind::Unmeasured), 4);
        let found: Vec<_> = profile
            .counters
            .iter()
            .map(|k| (k.event.as_str(), k.verdict.kind, k.measured))
            .collect();
        assert_eq!(
            found,
            [("b:u", Kind::Exact, 2), ("a:u", Kind::PerInterrupt, 3)]
        );
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
    }
}
