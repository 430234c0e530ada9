//! The result of `discover` as a document: schema `truecount.discover/2` (`docs/schemas/discover.json`).

use serde::Serialize;
use truecount_lab::discovery::{Outcome, Phase, Plan, Range, State, Told, condense, outcome};

use super::Args;
use truecount_model::SourceKind;
use truecount_run::env_record::Environment;

/// A reference, over all runs.
#[derive(Serialize)]
pub(super) struct Reference {
    pub(super) event: String,
    source: SourceKind,
    /// Of whole runs; `None` where it was never counted.
    #[serde(flatten)]
    pub(super) range: Option<Range>,
}

/// Everything that was found.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    /// Codes, as `--select` takes them.
    pub(super) select: String,
    pub(super) codes: usize,
    umasks: truecount_lab::discovery::Umasks,
    pub(super) filter: String,
    pub(super) runs: u32,
    /// The command; empty for the built-in workload.
    pub(super) command: Vec<String>,
    pub(super) phases: Vec<Phase>,
    pub(super) cpu: usize,
    /// The model in the event tables by which selectors are named.
    pub(super) table: Option<String>,
    pub(super) references: Vec<Reference>,
    #[serde(flatten)]
    pub(super) found: Outcome,
    /// Whether everything planned was tried.
    pub(super) complete: bool,
    /// Whether some of it is from an earlier call.
    pub(super) resumed: bool,
    /// The signal by which the user stopped it.
    pub(super) interrupted: Option<i32>,
    /// Of this call.
    pub(super) seconds: f64,
    pub(super) notes: Vec<String>,
    environment: Environment,
}

/// How it came about.
pub(super) struct Circumstances {
    pub(super) cpu: usize,
    pub(super) seconds: f64,
    pub(super) resumed: bool,
    pub(super) interrupted: Option<i32>,
    pub(super) environment: Environment,
}

impl Document {
    pub(super) fn new(
        args: &Args,
        plan: &Plan,
        state: &State,
        told: Told,
        how: Circumstances,
    ) -> Self {
        let references = plan.references.iter().enumerate();
        let words = args.command.iter();
        Self {
            schema: "truecount.discover/2",
            select: condense(&plan.codes),
            codes: plan.codes.len(),
            umasks: plan.umasks,
            filter: plan.filter.clone(),
            runs: plan.runs,
            command: words
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            phases: state.phases.clone(),
            cpu: how.cpu,
            table: told.model,
            references: references
                .map(|(index, reference)| Reference {
                    event: reference.name.clone(),
                    source: reference.source,
                    range: Range::of(&state.reference(index).totals()),
                })
                .collect(),
            found: outcome(plan, state),
            complete: state.complete,
            resumed: how.resumed,
            interrupted: how.interrupted,
            seconds: how.seconds,
            notes: told.notes,
            environment: how.environment,
        }
    }

    /// Whether no selector was on a counter at all, though some were tried.
    pub(super) fn counted_nothing(&self) -> bool {
        self.found.events.is_empty() && self.found.silent.is_empty()
    }
}
