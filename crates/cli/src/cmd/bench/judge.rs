//! What a result is judged by: the baseline, the gates, the floors. The same for what was just measured and for a saved
//! result (`--from`).

use truecount_stats::{Floors, Verdict};

use super::args::Args;
use super::baseline;
use super::compare::{self, Accept, Family, Pair, Sides};
use super::document::{Command, Compared, Document, GateRow, Map, Metric};
use super::gate;
use super::limit::{self, Limit};
use crate::failure::Failure;
use truecount_run::env_record::Environment;

/// Everything that the options ask of a result.
pub(super) struct Judge {
    gates: Vec<Limit>,
    floors: Floors,
    /// Metrics asked for by name: judged where there is no gate.
    asked: Vec<String>,
    baseline: Option<Document>,
    accept: Accept,
    /// How often the rounds may have been looked at before they ended.
    pub(super) looks: usize,
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
            floors: limit::floors(&set, &gates),
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
            looks: 1,
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
        limit::check(&self.gates, metrics)
    }

    /// Whether programs get a clean environment: asked for, or because the result is to be compared with others.
    pub(super) fn clean_env(&self, args: &Args) -> bool {
        let saved = self.baseline.as_ref();
        let before = saved.is_some_and(|baseline| baseline.environment.clean_env);
        args.clean_env || !args.env.is_empty() || !args.keep_env && (args.save.is_some() || before)
    }

    fn family(&self) -> Family<'_> {
        Family {
            gates: &self.gates,
            asked: &self.asked,
        }
    }

    /// How many comparisons will be judged together.
    pub(super) fn tests(&self, commands: usize, metrics: &Map<Metric>) -> usize {
        let judged = metrics.iter().filter(|(name, metric)| {
            // What nobody can count has its reason already.
            self.family().has(name) && metric.reason.is_none()
        });
        let saved = self.baseline.as_ref().map_or(0, |_| commands);
        let together = if self.gates.is_empty() || self.baseline.is_none() {
            commands.saturating_sub(1)
        } else {
            0
        };
        judged.count().saturating_mul(saved + together).max(1)
    }

    /// Whether everything that is judged of these commands is decided.
    pub(super) fn decided(
        &self,
        commands: &[Command],
        environment: &Environment,
        rounds: usize,
    ) -> bool {
        let (pairs, _) = self.compare(commands, environment, rounds);
        let (_, rows) = gate::gate(&self.gates, &pairs, &[]);
        let open = |pair: &Pair| {
            let verdict = pair.judged.as_ref().map(|judged| judged.verdict);
            matches!(
                verdict,
                Some(Verdict::Undecided { .. } | Verdict::TooSmall { .. })
            )
        };
        if self.gates.is_empty() {
            !pairs.iter().any(open)
        } else {
            // A gate may have decided where the verdict has not: what it is about is counted, and not undecided.
            let counted = |row: &GateRow| row.base.is_some();
            rows.iter()
                .filter(|row| counted(row))
                .all(|row| row.outcome != "undecided")
        }
    }

    fn compare(
        &self,
        commands: &[Command],
        environment: &Environment,
        rounds: usize,
    ) -> (Vec<Pair>, Vec<String>) {
        let sides = Sides {
            commands,
            environment,
            baseline: self.baseline.as_ref(),
            accept: self.accept,
            rounds,
            looks: self.looks,
        };
        compare::all(&sides, &self.family(), &self.floors)
    }

    /// Fills the comparisons, the gates and the notes; the exit status of the gates.
    pub(super) fn apply(&self, document: &mut Document) -> u8 {
        let note = self
            .baseline
            .as_ref()
            .and_then(|baseline| baseline::note(baseline, &document.environment));
        let (pairs, unmatched) =
            self.compare(&document.commands, &document.environment, document.rounds);
        let (code, rows): (u8, Vec<GateRow>) = gate::gate(&self.gates, &pairs, &unmatched);
        document.comparisons = pairs.iter().map(Compared::from).collect();
        document.gates = rows;
        document.notes.extend(note);
        code
    }
}
