//! The result of `noise` as a document: schema `truecount.noise/2` (`docs/schemas/noise.json`).

use serde::Serialize;
use truecount_lab::noise::Findings;
use truecount_run::env_record::Environment;

use super::Args;

/// Everything that was found, and of what.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    pub(super) command: Vec<String>,
    pub(super) seed: u64,
    #[serde(flatten)]
    pub(super) findings: Findings,
    /// Why it ended before all runs were made, if not by the user.
    pub(super) stopped: Option<String>,
    pub(super) environment: Environment,
}

impl Document {
    pub(super) fn new(
        args: &Args,
        seed: u64,
        findings: Findings,
        environment: Environment,
    ) -> Self {
        let words = args.command.iter();
        Self {
            schema: "truecount.noise/2",
            command: words
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            seed,
            findings,
            stopped: None,
            environment,
        }
    }
}
