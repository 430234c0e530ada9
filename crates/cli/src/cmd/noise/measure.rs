//! The runs of `noise`, in shuffled rounds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::IsTerminal as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use truecount_engine::xlate::facts::Event as StaticEvent;
use truecount_stats::Rng;

use super::{Args, Released};
use crate::cmd::run::{Wish, functions_of, wishes};
use crate::failure::Failure;
use crate::fixed::{Factor, Fixed};
use crate::model::Precision;
use crate::runner::{Launch, Signals};
use crate::source::virtual_pmu::{self, Ran};

/// Largest growth of the environment, bytes.
const GROWTH: u64 = 4096;

/// Functions by program, module and name, with their instructions.
pub(super) type Functions = BTreeMap<(String, String, String), u64>;

/// The runs of one setting.
pub(super) struct Setting {
    pub(super) released: Released,
    pub(super) counts: Vec<u64>,
    least: Option<Ran>,
    most: Option<Ran>,
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

    fn add(&mut self, ran: Ran) {
        let count = instructions(&ran);
        self.counts.push(count);
        if self.least.is_none() {
            self.least = Some(ran);
        } else if self.least.as_ref().is_some_and(|r| count < instructions(r)) {
            let before = self.least.replace(ran);
            // The first run of all is both.
            if self.most.is_none() {
                self.most = before;
            }
        } else if self
            .most
            .as_ref()
            .or(self.least.as_ref())
            .is_some_and(|r| count > instructions(r))
        {
            self.most = Some(ran);
        }
    }

    /// Functions of the least and of the largest run, when they differ.
    pub(super) fn functions(&self, wishes: &[Wish]) -> Option<(Functions, Functions)> {
        let of = |ran: &Ran| {
            let mut sums = Functions::new();
            for function in functions_of(ran, wishes)? {
                let key = (function.program, function.module, function.function);
                let sum = sums.entry(key).or_default();
                *sum = function.first.wrapping_add(*sum);
            }
            Some(sums)
        };
        Some((of(self.least.as_ref()?)?, of(self.most.as_ref()?)?))
    }
}

/// All threads' instructions; every run counts them.
fn instructions(ran: &Ran) -> u64 {
    ran.event(StaticEvent::Instructions).unwrap_or_default()
}

/// Everything that was measured.
pub(super) struct Outcome {
    pub(super) settings: Vec<Setting>,
    pub(super) wishes: Vec<Wish>,
    /// How often the program ended how.
    pub(super) exits: BTreeMap<String, u32>,
    /// Runs whose count was not the whole.
    pub(super) inexact: u32,
    /// The kernel keeps randomising addresses.
    pub(super) aslr_refused: bool,
    pub(super) interrupted: Option<i32>,
    pub(super) notes: Vec<String>,
}

/// What is held still in a setting, and whether addresses are randomised.
fn setup(released: Released, factors: &[Factor], rng: &mut Rng) -> (Fixed, bool) {
    let free = |factor: Factor| match released {
        Released::Nothing => false,
        Released::One(one) => one == factor,
        Released::Everything => factors.contains(&factor),
    };
    // The environment is let go by growing, not by leaving it as it is: that would be constant.
    let held: Vec<Factor> = Factor::ALL
        .into_iter()
        .filter(|&factor| factor == Factor::Env || !free(factor))
        .collect();
    let mut fixed = Fixed::new(&held);
    if free(Factor::Env) {
        let growth = usize::try_from(rng.below(GROWTH)).unwrap_or(0);
        fixed = fixed.more_environment(growth);
    }
    (fixed, free(Factor::Aslr))
}

struct Runner<'a> {
    args: &'a Args,
    signals: &'a Signals,
    program: &'a Path,
    null: [OwnedFd; 2],
}

impl Runner<'_> {
    fn run(&self, fixed: &Fixed, keep_aslr: bool, quiet: bool) -> Result<Ran, Failure> {
        let [input, output] = &self.null;
        let launch = Launch {
            argv: &self.args.command,
            stdio: [Some(input), Some(output), quiet.then_some(output)],
            cpus: fixed.cpus(),
            keep_aslr,
            own_group: true,
            timeout: self.args.timeout,
            fixed: Some(fixed),
        };
        let ran = virtual_pmu::execute(self.signals, self.program, &launch, true)?;
        if ran.ended.timed_out {
            let limit = self.args.timeout.unwrap_or_default();
            return Err(Failure::new(
                124,
                format!("a run took longer than --timeout {limit:?}"),
            ));
        }
        Ok(ran)
    }
}

fn open_null() -> Result<[OwnedFd; 2], Failure> {
    let failed = |error| Failure::new(125, format!("cannot open /dev/null: {error}"));
    let input = File::open("/dev/null").map_err(failed)?;
    let output = File::options()
        .write(true)
        .open("/dev/null")
        .map_err(failed)?;
    Ok([input.into(), output.into()])
}

/// Runs the program in every setting.
pub(super) fn measure(
    args: &Args,
    signals: &Signals,
    program: &Path,
    seed: u64,
) -> Result<Outcome, Failure> {
    let runner = Runner {
        args,
        signals,
        program,
        null: open_null()?,
    };
    let factors = &args.factors.0;
    let mut settings = vec![Setting::empty(Released::Nothing)];
    settings.extend(
        factors
            .iter()
            .map(|&factor| Setting::empty(Released::One(factor))),
    );
    settings.push(Setting::empty(Released::Everything));
    let mut outcome = Outcome {
        settings: Vec::new(),
        wishes: wishes(&["instructions:u".to_owned()])?,
        exits: BTreeMap::new(),
        inexact: 0,
        aslr_refused: false,
        interrupted: None,
        notes: Vec::new(),
    };
    let mut rng = Rng::new(seed);
    let total = settings.len() as u64 * u64::from(args.runs) + 1;
    let bar = progress(total);
    let (fixed, keep_aslr) = setup(Released::Nothing, factors, &mut rng);
    let first = runner.run(&fixed, keep_aslr, false)?;
    bar.inc(1);
    outcome.notes.extend(first.notes());
    outcome.interrupted = first.interrupted;
    'rounds: for _ in 0..args.runs {
        let mut order: Vec<usize> = (0..settings.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            if outcome.interrupted.is_none() {
                outcome.interrupted = signals.stop_requested();
            }
            let Some(setting) = settings
                .get_mut(at)
                .filter(|_| outcome.interrupted.is_none())
            else {
                break 'rounds;
            };
            let (fixed, keep_aslr) = setup(setting.released, factors, &mut rng);
            let ran = runner.run(&fixed, keep_aslr, true)?;
            if ran.interrupted.is_some() {
                outcome.interrupted = ran.interrupted;
                break 'rounds;
            }
            *outcome.exits.entry(ran.ended.exit.to_string()).or_default() += 1;
            outcome.inexact += u32::from(ran.precision() != Precision::Exact);
            outcome.aslr_refused |= ran.ended.aslr_refused;
            setting.add(ran);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    outcome.settings = settings;
    Ok(outcome)
}

fn progress(total: u64) -> indicatif::ProgressBar {
    if std::io::stderr().is_terminal() {
        indicatif::ProgressBar::new(total)
    } else {
        indicatif::ProgressBar::hidden()
    }
}
