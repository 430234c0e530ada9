//! The runs of `noise`, in shuffled rounds.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use truecount_engine::xlate::facts::Event as StaticEvent;
use truecount_stats::Rng;

use super::regions::{Regions, Watch};
use super::setup::{self, Below, NotTested, Setup};
use super::who::{Numbers, Sample, Who};
use super::{Args, Count, Released};
use crate::failure::Failure;
use truecount_run::determinism::Factor;
use truecount_run::functions::{AskedEvent, Names, functions_of};
use truecount_run::result::RunResult;
use truecount_run::session::Session;

/// Functions by program, module and name, with their instructions.
pub(super) type Functions = BTreeMap<(String, String, String), u64>;

/// A run that was kept: the least or the largest.
struct Kept {
    count: u64,
    /// With the virtual PMU: the functions are in it.
    ran: Option<Box<RunResult>>,
    regions: Option<Regions>,
}

/// The runs of one setting.
pub(super) struct Setting {
    pub(super) released: Released,
    pub(super) counts: Vec<u64>,
    least: Option<Kept>,
    most: Option<Kept>,
}

impl Setting {
    pub(super) fn empty(released: Released) -> Self {
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
        let keep = || Kept {
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
        wishes: &[AskedEvent],
        names: &mut Names,
    ) -> Option<(Functions, Functions)> {
        let mut of = |kept: &Kept| {
            let mut sums = Functions::new();
            for function in functions_of(kept.ran.as_ref()?, wishes, names)? {
                let key = (function.program, function.module, function.function);
                let sum = sums.entry(key).or_default();
                *sum = function.first.wrapping_add(*sum);
            }
            Some(sums)
        };
        Some((of(self.least.as_ref()?)?, of(self.most.as_ref()?)?))
    }

    /// Regions of the min and of the max run, when they differ.
    pub(super) fn regions(&self) -> Option<[Option<&Regions>; 2]> {
        let (least, most) = (self.least.as_ref()?, self.most.as_ref()?);
        Some([least.regions.as_ref(), most.regions.as_ref()])
    }
}

/// All threads' instructions; every run counts them.
pub(super) fn instructions(ran: &RunResult) -> u64 {
    ran.event(StaticEvent::Instructions).unwrap_or_default()
}

/// Everything that was measured.
pub(super) struct Outcome {
    pub(super) settings: Vec<Setting>,
    pub(super) who: Who,
    /// Factors that were asked for and cannot be varied here, and what never can.
    pub(super) not_tested: Vec<NotTested>,
    /// Of every setting.
    pub(super) runs: u32,
    /// How often the program ended how.
    pub(super) exits: BTreeMap<String, u32>,
    /// Runs whose count was not the whole.
    pub(super) inexact: u32,
    /// The kernel keeps randomising addresses.
    pub(super) aslr_refused: bool,
    pub(super) interrupted: Option<i32>,
    /// What ended it before all runs were made.
    pub(super) stopped: Option<Failure>,
    pub(super) notes: Vec<String>,
    /// Where programs saw the tree under other names.
    pub(super) below: PathBuf,
}

/// Runs of a setting where the user names no number.
const RUNS: u32 = 8;
/// As long as there are many settings, and all runs of the residual are the same: else so few prove nothing.
const FEW: u32 = 5;

/// Whether nothing varies.
pub(super) fn quiet(residual: &[u64]) -> bool {
    residual
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a == b))
}

/// Runs the program in every setting.
pub(super) fn measure(
    args: &Args,
    session: &mut Session,
    mut who: Who,
    program: &Path,
    seed: u64,
) -> Result<Outcome, Failure> {
    let mut watch = Watch::new(&args.profile)?;
    let directory = Below::make()?;
    let mut rng = Rng::new(seed);
    let make = |released, factors: &[Factor], rng: &mut Rng| {
        Setup::new(
            released,
            factors,
            rng,
            program,
            &args.command,
            directory.path(),
        )
    };
    let first = make(Released::Nothing, &[], &mut rng)?;
    let first = who.first(args, session, &first, &mut watch)?;
    let (factors, not_tested) = tried(args, &first, directory.path());
    let few = args.runs.is_none() && factors.len() > 4;
    let runs = args.runs.unwrap_or(if few { FEW } else { RUNS });
    let mut settings = vec![Setting::empty(Released::Nothing)];
    let each = factors.iter().map(|&factor| Released::One(factor));
    settings.extend(each.map(Setting::empty));
    settings.push(Setting::empty(Released::Everything));
    let mut outcome = Outcome {
        settings: Vec::new(),
        who,
        not_tested,
        runs,
        exits: BTreeMap::new(),
        inexact: 0,
        aslr_refused: false,
        interrupted: first.interrupted,
        stopped: None,
        notes: first.notes,
        below: directory.path().to_owned(),
    };
    let bar = progress(settings.len() as u64 * u64::from(runs));
    let mut numbers = Numbers::default();
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
                    outcome.who.run(args, session, &setup, true)
                })
            });
            let failure = match made {
                Ok(Count::Of(sample)) => Ok(sample),
                Ok(Count::None(reason)) => Err(Failure::new(1, reason)),
                Err(failure) => Err(failure),
            };
            let sample = match failure {
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
            let written = watch.written();
            setting.add(sample, || watch.read(&written));
            bar.inc(1);
        }
        round += 1;
        let residual = settings.first().map(|setting| &setting.counts);
        if few && round == FEW && residual.is_some_and(|counts| !quiet(counts)) {
            outcome.runs = RUNS;
            bar.set_length(settings.len() as u64 * u64::from(RUNS));
        }
    }
    bar.finish_and_clear();
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

/// The factors that can be varied here, and the others with the reason. What the first run could not hold constant cannot
/// be varied either.
fn tried(args: &Args, first: &Sample, directory: &Path) -> (Vec<Factor>, Vec<NotTested>) {
    let mut factors = Vec::new();
    let mut not_tested: Vec<NotTested> = first.missing.iter().map(NotTested::factor).collect();
    for &factor in &args.factors.factors {
        if first.missing.iter().any(|each| each.factor == factor) {
            continue;
        }
        match setup::refusal(factor, directory) {
            None => factors.push(factor),
            Some(reason) => {
                not_tested.push(NotTested::factor(
                    &truecount_run::determinism::Missing::new(factor, reason),
                ));
            }
        }
    }
    if args.factors.all {
        not_tested.extend(setup::never());
    }
    (factors, not_tested)
}

fn progress(total: u64) -> indicatif::ProgressBar {
    if std::io::stderr().is_terminal() {
        indicatif::ProgressBar::new(total)
    } else {
        indicatif::ProgressBar::hidden()
    }
}
