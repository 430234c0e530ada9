//! The result of `exactness` as a document: schema `truecount.exactness/2` (`docs/schemas/exactness.json`).

use serde::Serialize;
use truecount_lab::exact::Outcome;

use super::Args;
use truecount_run::env_record::Environment;

/// Everything that was found.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    pub(super) seed: u64,
    pub(super) stress: bool,
    /// The signal by which the user stopped it.
    pub(super) interrupted: Option<i32>,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    pub(super) notes: Vec<String>,
    environment: Environment,
}

impl Document {
    pub(super) fn new(
        args: &Args,
        seed: u64,
        outcome: Outcome,
        interrupted: Option<i32>,
        notes: Vec<String>,
        environment: Environment,
    ) -> Self {
        Self {
            schema: "truecount.exactness/2",
            seed,
            stress: args.stress,
            interrupted,
            outcome,
            notes,
            environment,
        }
    }

    /// Whether no counter was on any loop.
    pub(super) fn measured_nothing(&self) -> bool {
        self.outcome
            .counters
            .iter()
            .all(|counter| counter.loops.is_empty())
    }
}
