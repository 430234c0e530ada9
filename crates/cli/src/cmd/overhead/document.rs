//! The result of `overhead` as a document: schema `truecount.overhead/1` (`docs/schemas/overhead.json`).

use serde::Serialize;
use truecount_lab::model::Inputs;
use truecount_lab::overhead::{Advice, Model, advise, run};
use truecount_lab::reads::Read;
use truecount_lab::sampling::Outcome;

use super::Args;
use crate::failure::Failure;
use truecount_run::env_record::Environment;
use truecount_run::runner::command_line;

/// Everything that was found.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    pub(super) seed: u64,
    /// The signal by which the user stopped it.
    pub(super) interrupted: Option<i32>,
    /// The command; `None`: the built-in workload.
    pub(super) command: Option<String>,
    /// Frames of the built-in workload.
    pub(super) depth: u32,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    pub(super) reads: Vec<Read>,
    pub(super) advice: Option<Advice>,
    pub(super) model: Option<Model>,
    /// What the reader should know: which run failed.
    pub(super) notes: Vec<String>,
    environment: Environment,
}

impl Document {
    pub(super) fn new(
        args: &Args,
        seed: u64,
        outcome: Outcome,
        reads: Vec<Read>,
        base: &Inputs,
        interrupted: Option<i32>,
        environment: Environment,
    ) -> Result<Self, Failure> {
        // The advice needs the fitted inputs whether the model is shown or not.
        let model = run(base, &outcome)?;
        let measured = !args.model_only;
        Ok(Self {
            schema: "truecount.overhead/1",
            seed,
            interrupted,
            command: (!args.command.is_empty()).then(|| command_line(&args.command)),
            depth: args.depth,
            advice: measured.then(|| {
                let bound = model
                    .fitted
                    .as_ref()
                    .is_some_and(|fitted| fitted.upper_bound);
                advise(&outcome, args.max_share, &model.inputs, bound)
            }),
            model: (args.model || args.model_only).then_some(model),
            outcome,
            reads,
            notes: Vec::new(),
            environment,
        })
    }
}
