//! What a result is judged by: the baseline, the gates, the floors. The same for what was just measured and for a saved
//! result (`--from`).

use truecount_stats::Floors;

use super::args::Args;
use super::baseline;
use super::compare::{self, Accept, Family, Sides};
use super::document::{Compared, Document, Map, Metric};
use super::gate::{self, GateRow, Limit};
use crate::failure::Failure;

/// Everything that the options ask of a result.
pub(super) struct Judge {
    gates: Vec<Limit>,
    floors: Floors,
    /// Metrics asked for by name: judged where there is no gate.
    asked: Vec<String>,
    baseline: Option<Document>,
    accept: Accept,
}

impl Judge {
    /// From the options; the baseline is read now, so that a wrong path costs no runs.
    ///
    /// # Errors
    /// Status 2: a limit that cannot be read; status 1: no baseline in the file.
    pub(super) fn new(args: &Args) -> Result<Self, Failure> {
        let gates = Limit::parse_all("--fail-above", &args.fail_above)?;
        let set = Limit::parse_all("--floor", &args.floor)?;
        let names = args.event.iter().chain(&args.metric);
        Ok(Self {
            floors: gate::floors(&set, &gates),
            gates,
            asked: names
                .flat_map(|list| list.split(','))
                .map(|name| name.trim_matches(['{', '}', ' ']).to_owned())
                .collect(),
            baseline: match &args.baseline {
                Some(path) => Some(baseline::read(path)?),
                None => None,
            },
            accept: Accept {
                machine: args.ignore_machine,
                environment: args.ignore_environment,
            },
        })
    }

    /// Refuses gates that could never decide, before anything is measured.
    ///
    /// # Errors
    /// Status 2: nothing to compare with, a metric that is not measured, or one without a worse direction.
    pub(super) fn check(&self, commands: usize, metrics: &Map<Metric>) -> Result<(), Failure> {
        if !self.gates.is_empty() && self.baseline.is_none() && commands < 2 {
            return Err(
                Failure::new(2, "--fail-above needs something to compare with")
                    .hint("give --baseline FILE or a second command"),
            );
        }
        gate::check(&self.gates, metrics)
    }

    /// Fills the comparisons, the gates and the notes; the exit status of the gates.
    pub(super) fn apply(&self, document: &mut Document) -> u8 {
        let note = self
            .baseline
            .as_ref()
            .and_then(|baseline| baseline::note(baseline, &document.environment));
        let (pairs, unmatched) = compare::all(
            &Sides {
                commands: &document.commands,
                environment: &document.environment,
                baseline: self.baseline.as_ref(),
                accept: self.accept,
                rounds: document.rounds,
            },
            &Family {
                gates: &self.gates,
                asked: &self.asked,
            },
            &self.floors,
        );
        let (code, rows): (u8, Vec<GateRow>) = gate::gate(&self.gates, &pairs, &unmatched);
        document.comparisons = pairs.iter().map(Compared::from).collect();
        document.gates = rows;
        document.notes.extend(note);
        code
    }
}
