//! Compares what was measured, among itself and with a saved result, and says what the gates say. The same for what was
//! just measured and for a saved result. What may be compared, the verdicts and the gates are rules of `truecount-stats`.

mod gate;
mod limit;
mod pairs;

use std::collections::BTreeMap;

use truecount_stats::{Floors, GateExit, Verdict};

use crate::env_record::Environment;
use crate::error::{Error, ErrorKind};
use crate::rounds::{Command, Map, Metric};
pub use gate::GateRow;
use gate::Lone;
pub use limit::{Limit, measured, worse};
pub use pairs::{Accept, Pair, Saved, provenance, wording};
use pairs::{Family, Sides};

/// What is asked of a result.
#[derive(Default)]
pub struct Asked<'a> {
    /// `METRIC=PCT`: what may not get worse by more.
    pub gates: &'a [String],
    /// `METRIC=PCT`: the smallest changes that matter.
    pub floors: &'a [String],
    /// Lists of metrics that the user names: judged where there is no gate.
    pub named: Vec<&'a str>,
    /// What it is compared with.
    pub baseline: Option<Saved>,
    /// Which differences to the baseline are harmless.
    pub accept: Accept,
    /// Limits of single commands, by their names; they go before those for all.
    pub own_gates: BTreeMap<String, Vec<Limit>>,
    /// Commands are not compared among themselves: each is something else.
    pub apart: bool,
}

/// Everything that a result is judged by.
pub struct Judge {
    gates: Vec<Limit>,
    floors: Floors,
    named: Vec<String>,
    baseline: Option<Saved>,
    accept: Accept,
    own_gates: BTreeMap<String, Vec<Limit>>,
    apart: bool,
    /// All that the baseline may have was measured: what it has beyond that is lost, and its gate with it.
    pub whole: bool,
    /// How often the rounds may have been looked at before they ended.
    pub looks: usize,
    /// How many commands will be judged together, where they are measured in several courses.
    pub all: usize,
}

/// What was found.
pub struct Judgement {
    /// Every metric of every command against another's.
    pub pairs: Vec<Pair>,
    /// What each gate says about each comparison.
    pub gates: Vec<GateRow>,
    /// What they say together.
    pub exit: GateExit,
    /// What differs between the conditions of the baseline and those of today.
    pub note: Option<String>,
}

impl Judge {
    /// From what is asked.
    ///
    /// # Errors
    /// A limit that cannot be read.
    pub fn new(asked: Asked<'_>) -> Result<Self, Error> {
        let gates = Limit::parse_all("--fail-above", asked.gates)?;
        let set = asked.floors.iter();
        let set = set.map(|text| limit::share_of("--floor", text));
        let set = set.collect::<Result<Vec<_>, Error>>()?;
        let names = asked.named.iter().flat_map(|list| list.split(','));
        Ok(Self {
            floors: limit::floors(set, &gates),
            gates,
            named: names
                .map(|name| name.trim_matches(['{', '}', ' ']).to_owned())
                .collect(),
            baseline: asked.baseline,
            accept: asked.accept,
            own_gates: asked.own_gates,
            apart: asked.apart,
            whole: false,
            looks: 1,
            all: 0,
        })
    }

    /// Refuses gates that could never decide, before anything is measured.
    ///
    /// # Errors
    /// Nothing to compare with, a metric that is not measured, or one without a worse direction.
    pub fn check(&self, commands: usize, metrics: &Map<Metric>) -> Result<(), Error> {
        let alone = commands < 2 || self.apart;
        if !self.gates.is_empty() && self.baseline.is_none() && alone {
            return Err(Error::new(
                ErrorKind::Usage,
                "--fail-above needs something to compare with",
            )
            .hint("give --baseline FILE or a second command"));
        }
        limit::check(&self.gates, metrics)?;
        self.own_gates
            .values()
            .try_for_each(|gates| limit::directions(gates, metrics))
    }

    /// What it is compared with.
    pub fn baseline(&self) -> Option<&Saved> {
        self.baseline.as_ref()
    }

    fn family(&self) -> Family<'_> {
        Family {
            gates: &self.gates,
            own_gates: &self.own_gates,
            asked: &self.named,
        }
    }

    /// How many comparisons will be judged together.
    pub fn tests(&self, commands: usize, metrics: &Map<Metric>) -> usize {
        let judged = metrics.iter().filter(|(name, metric)| {
            // What nobody can count has its reason already.
            self.family().has(name) && metric.reason.is_none()
        });
        // What is measured apart is compared with a baseline, today or later.
        let saved = match (&self.baseline, self.apart) {
            (_, true) => commands.max(self.all),
            (Some(_), false) => commands,
            (None, false) => 0,
        };
        let together = if self.apart {
            0
        } else if self.family().gates_none() || self.baseline.is_none() {
            commands.saturating_sub(1)
        } else {
            0
        };
        judged.count().saturating_mul(saved + together).max(1)
    }

    /// Whether everything that is judged of these commands is decided.
    pub fn decided(&self, commands: &[Command], environment: &Environment, rounds: usize) -> bool {
        let (pairs, _) = self.compare(commands, environment, rounds);
        let (_, rows) = gate::gate(&self.gates, &self.own_gates, &pairs, Lone::default());
        let open = |pair: &Pair| {
            let verdict = pair.judged.as_ref().map(|judged| judged.verdict);
            matches!(
                verdict,
                Some(Verdict::Undecided { .. } | Verdict::TooSmall { .. })
            )
        };
        if self.family().gates_none() {
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
            apart: self.apart,
        };
        pairs::all(&sides, &self.family(), &self.floors)
    }

    /// The commands that only the baseline has, where all of it should be measured and something is gated.
    fn lost(&self, commands: &[Command]) -> Vec<String> {
        let baseline = self.baseline.as_ref().filter(|_| self.whole);
        let saved = baseline.iter().flat_map(|saved| &saved.commands);
        let now = |name: &str| commands.iter().any(|command| command.name == name);
        saved
            .filter(|before| !self.family().gates_none() && !now(&before.name))
            .map(|before| before.name.clone())
            .collect()
    }

    /// Compares everything and asks the gates.
    pub fn judge(
        &self,
        commands: &[Command],
        environment: &Environment,
        rounds: usize,
    ) -> Judgement {
        let (pairs, unmatched) = self.compare(commands, environment, rounds);
        let lost = self.lost(commands);
        let lone = Lone {
            new: &unmatched,
            lost: &lost,
        };
        let (exit, gates) = gate::gate(&self.gates, &self.own_gates, &pairs, lone);
        let differences = self.baseline.as_ref().map_or_else(Vec::new, |baseline| {
            environment.differences(&baseline.environment)
        });
        let note = (!differences.is_empty()).then(|| {
            format!(
                "The baseline was measured under other conditions: {}.",
                differences.join("; ")
            )
        });
        Judgement {
            pairs,
            gates,
            exit,
            note,
        }
    }
}
