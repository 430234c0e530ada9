//! The runs, in shuffled rounds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use truecount_stats::Rng;

use super::conditions::{self, NotTested, ScratchDir, Setup};
use super::counting::{Counting, Numbers, Sample};
use super::regions::{Regions, Watch};
use super::{Condition, Count, Plan};
use truecount_run::closed::Closed;
use truecount_run::determinism::Factor;
use truecount_run::exactness::Verdicts;
use truecount_run::functions::{AskedEvent, Names, functions_of};
use truecount_run::result::RunResult;
use truecount_run::session::Session;
use truecount_run::{Error, ErrorKind};

/// Functions by program, module and name, with their instructions.
pub(super) type Functions = BTreeMap<(String, String, String), u64>;

/// A run that was kept: the least or the largest.
struct Extreme {
    count: u64,
    /// With the virtual PMU: the functions are in it.
    ran: Option<Box<RunResult>>,
    regions: Option<Regions>,
}

/// The runs of one setting.
pub(super) struct Setting {
    pub(super) released: Condition,
    pub(super) counts: Vec<u64>,
    least: Option<Extreme>,
    most: Option<Extreme>,
}

impl Setting {
    pub(super) fn empty(released: Condition) -> Self {
        Self {
            released,
            counts: Vec::new(),
            least: None,
            most: None,
        }
    }

    /// Adds a run; its regions are read only if it is kept.
    fn add(&mut self, sample: Sample, regions: impl FnOnce() -> Option<Regions>) {
        let count = sample.count;
        self.counts.push(count);
        let keep = || Extreme {
            count,
            ran: sample.ran,
            regions: regions(),
        };
        let largest = self.most.as_ref().or(self.least.as_ref());
        match &self.least {
            None => self.least = Some(keep()),
            Some(least) if count < least.count => {
                let before = self.least.replace(keep());
                // The first run of all is both.
                if self.most.is_none() {
                    self.most = before;
                }
            }
            Some(_) if largest.is_some_and(|largest| count > largest.count) => {
                self.most = Some(keep());
            }
            Some(_) => {}
        }
    }

    /// Functions of the min and of the max run, when they differ.
    pub(super) fn functions(
        &self,
        events: &[AskedEvent],
        names: &mut Names,
    ) -> Option<(Functions, Functions)> {
        let mut of = |kept: &Extreme| {
            let mut sums = Functions::new();
            for function in functions_of(kept.ran.as_ref()?, events, names)? {
                let key = (function.program, function.module, function.function);
                let sum = sums.entry(key).or_default();
                *sum = function.first.wrapping_add(*sum);
            }
            Some(sums)
        };
        Some((of(self.least.as_ref()?)?, of(self.most.as_ref()?)?))
    }

    /// The min and the max run, when they differ.
    pub(super) fn kept(&self) -> Option<[&RunResult; 2]> {
        let (least, most) = (self.least.as_ref()?, self.most.as_ref()?);
        Some([least.ran.as_deref()?, most.ran.as_deref()?])
    }

    /// Regions of the min and of the max run, when they differ.
    pub(super) fn regions(&self) -> Option<[Option<&Regions>; 2]> {
        let (least, most) = (self.least.as_ref()?, self.most.as_ref()?);
        Some([least.regions.as_ref(), most.regions.as_ref()])
    }
}

/// Everything that was measured.
pub struct Outcome {
    pub(super) settings: Vec<Setting>,
    pub(super) counting: Counting,
    /// Factors that were asked for and cannot be varied here, and what never can.
    pub(super) not_tested: Vec<NotTested>,
    /// Of every setting.
    pub(super) runs: u32,
    /// How often the program ended how.
    pub(super) exits: BTreeMap<String, u32>,
    /// Runs whose count was not the whole.
    pub(super) inexact: u32,
    /// What came in from outside with everything held constant.
    pub(super) outside: Option<Closed>,
    /// The kernel keeps randomising addresses.
    pub(super) aslr_refused: bool,
    /// The signal by which the user stopped it.
    pub interrupted: Option<i32>,
    /// What ended it before all runs were made.
    pub stopped: Option<Error>,
    pub(super) notes: Vec<String>,
    /// Where programs saw the tree under other names.
    pub(super) below: PathBuf,
}

impl Outcome {
    /// Adds what came into a run with everything held constant.
    fn came_in(&mut self, sample: &mut Sample) {
        let ran = sample.ran.as_mut();
        match (
            &mut self.outside,
            ran.and_then(|ran| ran.executed.closed.take()),
        ) {
            (Some(all), Some(closed)) => all.merge(closed),
            (all @ None, closed) => *all = closed,
            (Some(_), None) => {}
        }
    }
}

/// Runs of a setting where the user names no number.
const RUNS: u32 = 8;
/// As long as there are many settings, and all runs of the residual are the same: else so few prove nothing.
const FEW: u32 = 5;

/// A p below this calls a factor a cause, where the residual is not 0.
pub(super) const SIGNIFICANT: f64 = 0.05;

/// Runs of every setting that tell a cause from chance where the residual is not 0.
pub(super) fn needed(factors: usize) -> usize {
    truecount_stats::runs_to_tell(SIGNIFICANT, factors)
}

/// Runs of a setting where the residual is not 0: a test decides then, which needs a number of them.
fn more_runs(asked: Option<u32>, few: bool, factors: usize) -> u32 {
    let needed = u32::try_from(needed(factors)).unwrap_or(RUNS);
    match asked {
        Some(asked) => asked.max(needed),
        None if few => needed.max(RUNS),
        None => RUNS,
    }
}

/// The note for a number of runs that is not the one asked for.
fn raised(asked: u32, more: u32) -> String {
    format!(
        "{asked} runs of a setting cannot tell a cause from chance where runs differ with everything held constant, as \
         they do here: {more} were made."
    )
}

/// Whether nothing varies.
pub(super) fn quiet(residual: &[u64]) -> bool {
    residual
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a == b))
}

/// Runs the program in every setting; `progress` is told how many runs of how many are done.
///
/// # Errors
/// Nothing could be measured: why. What ends it after a whole round is in [`Outcome::stopped`].
pub fn measure(
    plan: &Plan<'_>,
    session: &mut Session,
    mut counting: Counting,
    program: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome, Error> {
    let mut watch = Watch::new(plan.profile)?;
    let directory = ScratchDir::make()?;
    let mut rng = Rng::new(plan.seed);
    let make = |released, factors: &[Factor], rng: &mut Rng| {
        Setup::new(
            released,
            factors,
            rng,
            program,
            plan.command,
            directory.path(),
            plan.machine,
        )
    };
    let first = make(Condition::Nothing, &[], &mut rng)?;
    let first = counting.first(plan, session, &first, &mut watch)?;
    let (factors, not_tested) = tried(plan, &first, directory.path());
    let few = plan.runs.is_none() && factors.len() > 4;
    let runs = plan.runs.unwrap_or(if few { FEW } else { RUNS });
    let mut settings = settings_of(&factors);
    let mut outcome = Outcome {
        settings: Vec::new(),
        counting,
        not_tested,
        runs,
        exits: BTreeMap::new(),
        inexact: 0,
        outside: None,
        aslr_refused: false,
        interrupted: first.interrupted,
        stopped: None,
        notes: first.notes,
        below: directory.path().to_owned(),
    };
    let mut all = settings.len() as u64 * u64::from(runs);
    let mut done = 0;
    progress(done, all);
    let mut numbers = Numbers::default();
    let exact = outcome.counting.is_exact(Verdicts::of_this_machine());
    let mut round = 0;
    'rounds: while round < outcome.runs {
        let mut order: Vec<usize> = (0..settings.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            if outcome.interrupted.is_none() {
                outcome.interrupted = session.signals.stop_requested();
            }
            let Some(setting) = settings
                .get_mut(at)
                .filter(|_| outcome.interrupted.is_none())
            else {
                break 'rounds;
            };
            let made = make(setting.released, &factors, &mut rng).and_then(|setup| {
                numbers.run(&setup, || {
                    watch.look();
                    outcome.counting.run(plan, session, &setup, true)
                })
            });
            let failure = match made {
                Ok(Count::Of(sample)) => Ok(sample),
                Ok(Count::None(reason)) => Err(Error::new(ErrorKind::Unavailable, reason)),
                Err(failure) => Err(failure),
            };
            let mut sample = match failure {
                Ok(sample) => sample,
                Err(failure) => {
                    outcome.stopped = Some(failure);
                    break 'rounds;
                }
            };
            if sample.interrupted.is_some() {
                outcome.interrupted = sample.interrupted;
                break 'rounds;
            }
            *outcome
                .exits
                .entry(sample.ended.exit.to_string())
                .or_default() += 1;
            outcome.inexact += u32::from(!sample.whole);
            outcome.aslr_refused |= sample.ended.aslr_refused;
            if setting.released == Condition::Nothing {
                outcome.came_in(&mut sample);
            }
            let written = watch.written();
            setting.add(sample, || watch.read(&written));
            done += 1;
            progress(done, all);
        }
        round += 1;
        let residual = settings.first().map(|setting| &setting.counts);
        let varies = residual.is_some_and(|counts| !exact || !quiet(counts));
        let more = more_runs(plan.runs, few, factors.len());
        if varies && round == outcome.runs && more > round {
            let differ = residual.is_some_and(|counts| !quiet(counts));
            let asked = plan.runs.filter(|_| differ);
            outcome.notes.extend(asked.map(|asked| raised(asked, more)));
            outcome.runs = more;
            all = settings.len() as u64 * u64::from(more);
            progress(done, all);
        }
    }
    // Less than a round compares nothing.
    if settings.iter().any(|setting| setting.counts.is_empty())
        && let Some(failure) = outcome.stopped.take()
    {
        return Err(failure);
    }
    outcome.settings = settings;
    outcome.notes.extend(watch.notes());
    outcome.notes.extend(numbers.note());
    Ok(outcome)
}

/// Nothing varied, each factor alone, everything at once.
fn settings_of(factors: &[Factor]) -> Vec<Setting> {
    let each = factors.iter().map(|&factor| Condition::One(factor));
    let all = [Condition::Nothing]
        .into_iter()
        .chain(each)
        .chain([Condition::Everything]);
    all.map(Setting::empty).collect()
}

/// The factors that can be varied here, and the others with the reason. What the first run could not hold constant cannot
/// be varied either.
fn tried(plan: &Plan<'_>, first: &Sample, directory: &Path) -> (Vec<Factor>, Vec<NotTested>) {
    let mut factors = Vec::new();
    let mut not_tested: Vec<NotTested> = first.missing.iter().map(NotTested::factor).collect();
    for &factor in &plan.factors.factors {
        if first.missing.iter().any(|each| each.factor == factor) {
            continue;
        }
        match conditions::refusal(factor, directory) {
            None => factors.push(factor),
            Some(reason) => {
                not_tested.push(NotTested::factor(
                    &truecount_run::determinism::Missing::new(factor, reason),
                ));
            }
        }
    }
    (factors, not_tested)
}
