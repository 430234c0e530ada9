//! Who counts the runs: the virtual PMU, or the CPU's counters.

use truecount_events::Machine;

use super::conditions::Setup;
use super::regions::Watch;
use super::{Count, Plan};
use truecount_model::{Measured, Precision, Reason, SourceKind};
use truecount_run::calls::{self, CallOptions};
use truecount_run::determinism::{Factor, Fixed, Missing};
use truecount_run::exactness::Verdicts;
use truecount_run::functions::{AskedEvent, asked_events};
use truecount_run::request::{self, RequestGroup};
use truecount_run::result::{Ended, RunResult};
use truecount_run::runner::Launch;
use truecount_run::session::Session;
use truecount_run::source::virtual_pmu;
use truecount_run::source::{
    Choice, Native, Run, Source as _, Switching, Target, hardware_available,
};
use truecount_run::{Error, ErrorKind};

/// What one run gave.
pub(super) struct Sample {
    pub(super) count: u64,
    pub(super) ended: Ended,
    pub(super) interrupted: Option<i32>,
    /// The count is that of every process to its end.
    pub(super) whole: bool,
    pub(super) missing: Vec<Missing>,
    pub(super) notes: Vec<String>,
    /// With the virtual PMU: the functions are in it.
    pub(super) ran: Option<Box<RunResult>>,
}

impl Sample {
    /// Whether a number was chosen for the process, and it got one with more or less digits: another command moved the
    /// place where numbers come from. The next ones cost a program that prints them the same.
    fn has_another_length(&self, fixed: &Fixed) -> bool {
        let chosen = self.missing.iter().all(|each| each.factor != Factor::Pid);
        let pids = fixed.pid().zip(self.ended.pid);
        chosen
            && self.interrupted.is_none()
            && pids.is_some_and(|(a, b)| a.checked_ilog10() != b.checked_ilog10())
    }
}

/// The counter and its event.
pub enum Counting {
    /// The virtual PMU.
    Virtual {
        /// instructions:u.
        events: Vec<AskedEvent>,
        /// Count functions: then the program cannot read counters of its own by `rdpmc`.
        functions: bool,
        /// Keep the tree of calls, too.
        calls: bool,
    },
    /// The CPU.
    Hardware {
        /// The event that it has.
        groups: Vec<RequestGroup>,
    },
}

/// Tried in this order: an interrupt adds one to the second on x86.
const HARDWARE: [&str; 2] = ["instructions-minus-irqs:u", "instructions:u"];

/// What is said where the program's profiler needs `rdpmc`.
const NO_FUNCTIONS: &str = "While functions are counted the program writes no region profile (its profiler reads the \
    counter by rdpmc, as rustc's does): no functions are listed.";

impl Counting {
    /// Hardware where there is any, else the virtual PMU; or what was chosen. `functions`: count them, too; `calls`: keep
    /// the tree of calls, which the virtual PMU alone can.
    ///
    /// # Errors
    /// The source does not work here, or counts no instructions.
    pub fn choose(choice: Choice, functions: bool, calls: bool) -> Result<Self, Error> {
        let failed = |reason: Reason| Error::new(ErrorKind::Unavailable, reason.to_string());
        let hardware = || Self::hardware(HARDWARE[0]);
        match choice {
            Choice::Hardware if calls => Err(Error::new(
                ErrorKind::Usage,
                "the CPU's counters keep no tree of calls",
            )
            .hint("leave --calls out, or use --source virtual")),
            Choice::Auto if !calls && hardware_available().is_ok() => hardware(),
            Choice::Hardware => {
                hardware_available().map_err(failed)?;
                hardware()
            }
            Choice::Auto | Choice::Virtual => {
                virtual_pmu::available().map_err(failed)?;
                Ok(Self::Virtual {
                    events: asked_events(&["instructions:u".to_owned()])?,
                    functions,
                    calls,
                })
            }
            _ => Err(Error::new(
                ErrorKind::Usage,
                "noise counts instructions of many runs: that takes hardware or the virtual PMU",
            )
            .hint("use --source auto, hardware or virtual")),
        }
    }

    fn hardware(event: &str) -> Result<Self, Error> {
        Ok(Self::Hardware {
            groups: request::resolve(event, &Machine::this(), false)?,
        })
    }

    pub(super) fn kind(&self) -> SourceKind {
        match self {
            Self::Virtual { .. } => SourceKind::Virtual,
            Self::Hardware { .. } => SourceKind::Hardware,
        }
    }

    /// Whether a single count says how much was executed: by the virtual PMU, and by a counter that `exactness` found
    /// exact here. Else the counter's own errors may come and go, and a difference is none before it is tested.
    pub(super) fn is_exact(&self, known: &Verdicts) -> bool {
        match self {
            Self::Virtual { .. } => true,
            Self::Hardware { .. } => known.is_exact(&self.event(), SourceKind::Hardware),
        }
    }

    /// What is counted.
    pub(super) fn event(&self) -> String {
        match self {
            Self::Virtual { .. } => "instructions:u".to_owned(),
            Self::Hardware { groups } => {
                let mut names = groups.iter().flat_map(|group| &group.members);
                names
                    .next()
                    .map(|wanted| wanted.name.clone())
                    .unwrap_or_default()
            }
        }
    }

    /// The first run, not counted: on hardware it shows which event there is, with the virtual PMU whether the program
    /// can write the profiles that the user expects while functions are counted.
    pub(super) fn first(
        &mut self,
        plan: &Plan<'_>,
        session: &mut Session,
        setup: &Setup,
        watch: &mut Watch,
    ) -> Result<Sample, Error> {
        watch.look();
        let first = self.run(plan, session, setup, false)?;
        let written = !watch.written().is_empty();
        let first = match first {
            Count::Of(sample) if written || !watch.expects() => return Ok(sample),
            Count::Of(sample) => {
                return self.without_functions(plan, session, setup, watch, sample);
            }
            Count::None(reason) => reason,
        };
        *self = Self::hardware(HARDWARE[1])?;
        match self.run(plan, session, setup, false)? {
            Count::Of(sample) => Ok(sample),
            Count::None(reason) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("{}: {reason}; {}: {first}", HARDWARE[1], HARDWARE[0]),
            )
            .hint("use --source virtual")),
        }
    }

    /// The first run once more where no profile was written while functions were counted: if one is written now, they
    /// are not counted any more.
    fn without_functions(
        &mut self,
        plan: &Plan<'_>,
        session: &mut Session,
        setup: &Setup,
        watch: &mut Watch,
        first: Sample,
    ) -> Result<Sample, Error> {
        match self {
            Self::Virtual { functions, .. } if *functions => *functions = false,
            _ => return Ok(first),
        }
        watch.look();
        let again = self.run(plan, session, setup, true)?;
        if watch.written().is_empty() {
            if let Self::Virtual { functions, .. } = self {
                *functions = true;
            }
            return Ok(first);
        }
        Ok(match again {
            Count::Of(mut again) => {
                again.notes.push(NO_FUNCTIONS.to_owned());
                again
            }
            Count::None(_) => first,
        })
    }

    /// One run.
    pub(super) fn run(
        &self,
        plan: &Plan<'_>,
        session: &mut Session,
        setup: &Setup,
        quiet: bool,
    ) -> Result<Count, Error> {
        let null = truecount_run::session::dev_null()?;
        let launch = Launch {
            argv: &setup.argv,
            stdio: [Some(&null), Some(&null), quiet.then_some(&null)],
            cpus: setup.fixed.cpus(),
            keep_aslr: setup.keep_aslr,
            own_group: true,
            timeout: plan.timeout,
            fixed: Some(&setup.fixed),
        };
        let sample = match self {
            Self::Virtual {
                functions, calls, ..
            } => {
                let (signals, program) = (&session.signals, &setup.program);
                let ran = match *functions && *calls {
                    true => {
                        let options = CallOptions::default();
                        virtual_pmu::execute_calls(signals, program, &launch, options)?
                    }
                    false => virtual_pmu::execute(signals, program, &launch, *functions)?,
                };
                calls::check(&ran).map_err(|cause| Error::new(ErrorKind::EngineCheck, cause))?;
                Sample {
                    count: ran.instructions(),
                    ended: ran.ended.unwrap_or_default(),
                    interrupted: ran.interrupted,
                    whole: ran.precision() == Precision::Exact,
                    missing: ran.missing.clone(),
                    notes: ran.virtual_notes(),
                    ran: Some(Box::new(ran)),
                }
            }
            Self::Hardware { groups } => {
                let run = Run {
                    launch: Some((&setup.program, launch)),
                    groups,
                    target: Target::Command,
                    switching: Switching::default(),
                    parts: &[],
                };
                let measured = Native::hardware().run(session, &run, None)?;
                let reading = measured.readings.into_iter().next();
                let (Some(reading), Some(ended)) = (reading, measured.ended) else {
                    return Err(Error::new(ErrorKind::Setup, "the run gave no result"));
                };
                let (count, precision) = match reading.result {
                    Measured::Value {
                        value, precision, ..
                    } => (value, precision),
                    Measured::Missing(reason) => return Ok(Count::None(reason.cause)),
                };
                Sample {
                    count,
                    ended,
                    interrupted: measured.interrupted,
                    whole: precision != Precision::Scaled,
                    missing: measured.missing,
                    notes: measured.notes,
                    ran: None,
                }
            }
        };
        if sample.ended.timed_out {
            let limit = plan.timeout.unwrap_or_default();
            return Err(Error::new(
                ErrorKind::Timeout,
                format!("a run took longer than --timeout {limit:?}"),
            ));
        }
        Ok(Count::Of(sample))
    }
}

/// How often a run is repeated whose PID has another length than the one chosen.
const AGAIN: u32 = 3;

/// Whether runs had PIDs like those that were chosen for them.
#[derive(Default)]
pub(super) struct Numbers {
    /// Runs that had others.
    others: u32,
}

impl Numbers {
    /// Repeats a run until its number is as long as the one that `setup` chose. Once that did not help, no other run is
    /// repeated: whoever moves numbers may go on.
    pub(super) fn run(
        &mut self,
        setup: &Setup,
        mut run: impl FnMut() -> Result<Count, Error>,
    ) -> Result<Count, Error> {
        let mut left = if self.others == 0 { AGAIN } else { 0 };
        loop {
            let count = run()?;
            let other = match &count {
                Count::Of(sample) => sample.has_another_length(&setup.fixed),
                Count::None(_) => false,
            };
            if !other || left == 0 {
                self.others = self.others.saturating_add(u32::from(other));
                return Ok(count);
            }
            left = left.saturating_sub(1);
        }
    }

    pub(super) fn note(&self) -> Option<String> {
        (self.others > 0).then(|| {
            format!(
                "{} run(s) had a PID of another length than the one chosen: programs that print theirs may \
                 differ by it. Something else on this machine moves PIDs, as another truecount noise does.",
                self.others
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Condition;
    use std::path::Path;
    use truecount_run::runner::Exit;
    use truecount_stats::Rng;

    fn sample(pid: i32, missing: Vec<Missing>) -> Count {
        Count::Of(Sample {
            count: 1,
            ended: Ended {
                pid: Some(pid),
                exit: Exit {
                    code: Some(0),
                    signal: None,
                },
                timed_out: false,
                aslr_refused: false,
            },
            interrupted: None,
            whole: true,
            missing,
            notes: Vec::new(),
            ran: None,
        })
    }

    #[test]
    fn runs_whose_number_others_moved_are_repeated() {
        let (mut rng, program) = (Rng::new(1), Path::new("/bin/true"));
        let argv = ["true".into()];
        let setup = Setup::new(
            Condition::Nothing,
            &[],
            &mut rng,
            program,
            &argv,
            program,
            None,
        )
        .unwrap();
        let held = setup.fixed.pid().unwrap();
        let mut numbers = Numbers::default();
        let mut made = |pids: &[i32], missing: &[Missing]| {
            let mut pids = pids.iter();
            let mut runs = 0;
            let count = numbers.run(&setup, || {
                runs += 1;
                Ok(sample(*pids.next().unwrap(), missing.to_vec()))
            });
            assert!(matches!(count, Ok(Count::Of(_))));
            (runs, numbers.note())
        };
        assert_eq!(made(&[held], &[]), (1, None));
        // The next one costs a program the same.
        assert_eq!(made(&[held + 1], &[]), (1, None));
        assert_eq!(made(&[held - 1, 345, held], &[]), (3, None));
        let missing = [Missing::new(Factor::Pid, "not root")];
        assert_eq!(made(&[345], &missing), (1, None));
        let (runs, note) = made(&[345; 9], &[]);
        assert!(runs == 4 && note.unwrap().starts_with("1 run(s) had"));
        let (runs, note) = made(&[345; 9], &[]);
        assert!(runs == 1 && note.unwrap().starts_with("2 run(s) had"));
    }

    /// A counter of which nothing is known may have errors of its own, and so has one that was seen to have them.
    #[test]
    fn only_a_counter_that_was_found_exact_is() {
        let verdicts = |kind: &str| {
            let text = format!(
                r#"{{"schema": "{}", "counters": [{{"event": "instructions:u", "source": "hardware",
                    "verdict": {{"kind": "{kind}", "text": ""}}, "measured": 1}}]}}"#,
                truecount_run::exactness::SCHEMA
            );
            Verdicts::parse(&text).unwrap()
        };
        let counting = Counting::hardware("instructions:u").unwrap();
        assert!(!counting.is_exact(&Verdicts::default()));
        for (kind, exact) in [
            ("exact", true),
            ("per-turn", false),
            ("per-interrupt", false),
        ] {
            assert_eq!(counting.is_exact(&verdicts(kind)), exact, "{kind}");
        }
    }
}
