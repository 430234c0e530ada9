//! Single-stepping by `truecount-engine`: exact, slow, needs no PMU.

use std::os::unix::process::CommandExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use truecount_engine::step::{self, StepError, StepOptions, StepTotals};
use truecount_engine::xlate::facts::Event as StaticEvent;

use super::{Interval, Reason, Run, Source, Target};
use crate::determinism::{Answers, Factor, Fixed, choose_pid};
use crate::error::{Error, ErrorKind};
use crate::request::{EventRequest, RequestGroup, What};
use crate::result::{Ended, RunResult};
use crate::runner::{Exit, exec_failure};
use crate::session::Session;
use truecount_model::{Measured, Precision, Reading, SourceKind};

/// How often the main thread looks for Ctrl-C while another one steps.
const LOOK: Duration = Duration::from_millis(100);

/// Told now and then how far single-stepping is, with the instructions of the run before as an estimate of the end;
/// `None`: it has ended.
pub type Meter = Box<dyn FnMut(Option<&step::Progress>, Option<u64>) + Send>;

/// The single-stepper.
pub struct Step {
    /// Instructions of the run before: an estimate for the next one.
    before: Option<u64>,
    meter: Option<Meter>,
}

/// Whether it works here.
pub(super) fn available() -> Result<(), Reason> {
    step::available().map_err(|error| Reason::new(error.to_string()))
}

impl Step {
    /// When it works here.
    pub fn new(meter: Option<Meter>) -> Result<Self, Reason> {
        available()?;
        Ok(Self {
            before: None,
            meter,
        })
    }
}

impl Source for Step {
    fn kind(&self) -> SourceKind {
        SourceKind::Step
    }

    fn default_events(&self, _target: Target) -> &'static str {
        "instructions:u"
    }

    fn counts(&self, wanted: &EventRequest) -> Result<(), Reason> {
        if super::command::static_event(wanted) == Some(StaticEvent::Instructions) {
            return Ok(());
        }
        Err(Reason::new("single-stepping counts instructions:u only")
            .hint("use --source auto for what the kernel and the CPU count"))
    }

    fn fits(&self, _groups: &[RequestGroup]) -> bool {
        true
    }

    fn run(
        &mut self,
        session: &mut Session,
        run: &Run<'_>,
        interval: Option<Interval<'_>>,
    ) -> Result<RunResult, Error> {
        let (program, launch) = super::command::whole(run, interval.as_ref(), "single-stepping")?;
        let (mut command, mut missing) =
            super::command::prepare(program, launch, super::command::Turns::Kernel)?;
        let mask = session.signals.original();
        // SAFETY: one async-signal-safe call on a value that the closure owns.
        unsafe {
            // Ours blocks what ends us; programs look at it (bash takes 50 instructions to repair it).
            command.pre_exec(move || {
                match libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }

        let answers = match launch.fixed {
            Some(fixed) => Answers::prepare(&mut command, fixed.wanted())?,
            None => None,
        };
        missing.extend(launch.fixed.into_iter().flat_map(Fixed::only_virtual));
        if let Some(chosen) = choose_pid(launch.fixed, Some(1), &mut missing) {
            // SAFETY: one async-signal-safe call on a value that the closure owns.
            unsafe {
                command.pre_exec(move || {
                    chosen.unlock();
                    Ok(())
                });
            }
        }
        let cancel = AtomicBool::new(false);
        let before = self.before;
        let meter = &mut self.meter;
        let mut interrupted = None;
        let totals: Result<StepTotals, StepError> = std::thread::scope(|scope| {
            let cancel = &cancel;
            // A thread of its own: the stepper waits for all children of its thread.
            let stepper = scope.spawn(move || {
                let mut tell = |progress: Option<&step::Progress>| {
                    if let Some(meter) = meter {
                        meter(progress, before);
                    }
                };
                let mut progress = |progress: step::Progress| tell(Some(&progress));
                let totals = step::run(
                    command,
                    StepOptions {
                        cancel: Some(cancel),
                        timeout: launch.timeout,
                        progress: Some(&mut progress),
                        aslr: launch.keep_aslr,
                        at_random: launch.fixed.and_then(Fixed::at_random),
                        hide_vdso: launch.fixed.is_some_and(|fixed| fixed.has(Factor::Clock)),
                        ..StepOptions::default()
                    },
                );
                tell(None);
                totals
            });
            while !stepper.is_finished() {
                if let Ok(Some(signal)) = session.signals.wait(Some(LOOK))
                    && signal != libc::SIGCHLD
                {
                    interrupted = Some(signal);
                    cancel.store(true, Ordering::Relaxed);
                }
            }
            stepper.join().unwrap_or_else(|_| {
                Err(StepError::Trace {
                    call: "the stepping thread",
                    source: std::io::Error::other("it panicked"),
                })
            })
        });
        let totals = totals.map_err(|error| {
            let problem = answers.as_ref().and_then(Answers::problem);
            problem.unwrap_or_else(|| failure(&error, program))
        })?;
        missing.extend(answers.map(Answers::finish).unwrap_or_default());
        self.before = Some(totals.instructions());
        let ended = Ended {
            pid: None,
            exit: match totals.exit {
                step::Exit::Code(code) => Exit {
                    code: Some(code),
                    signal: None,
                },
                step::Exit::Signal(signal) => Exit {
                    code: None,
                    signal: Some(signal),
                },
            },
            timed_out: totals.timed_out,
            aslr_refused: false,
        };
        let whole = totals.is_whole();
        Ok(RunResult {
            wall_ns: u64::try_from(totals.elapsed.as_nanos()).unwrap_or(u64::MAX),
            readings: run
                .groups
                .iter()
                .flat_map(|group| &group.members)
                .map(|wanted| self.reading(wanted, totals.instructions(), whole))
                .collect(),
            ended: Some(ended),
            interrupted,
            missing,
            notes: vec![note(&totals)],
            ..RunResult::default()
        })
    }
}

impl Step {
    fn reading(&self, wanted: &EventRequest, instructions: u64, whole: bool) -> Reading {
        let refused = match &wanted.what {
            What::Event(_) | What::Static(_) | What::Memory(_) => self.counts(wanted).err(),
            What::Resource(_) => Some(Reason::new(
                "it would be that of the stepping, not of the program",
            )),
        };
        match refused {
            Some(reason) => reason.missing(&wanted.name, &wanted.unit),
            None => Reading {
                scale: wanted.scale,
                ..Reading::new(
                    &wanted.name,
                    &wanted.unit,
                    Measured::Value {
                        value: instructions,
                        source: SourceKind::Step,
                        // What was counted before the program was killed is a part of the whole.
                        precision: match whole {
                            true => Precision::Exact,
                            false => Precision::Counted,
                        },
                    },
                )
            },
        }
    }
}

/// What the reader should know about a run.
fn note(totals: &StepTotals) -> String {
    let count = if totals.is_whole() {
        "the count is exact".to_owned()
    } else if totals.unfollowed > 0 {
        format!(
            "{} child(ren) could not be followed (CLONE_UNTRACED), so the count is not the whole",
            totals.unfollowed
        )
    } else {
        "the run did not come to its own end, so the count is only a part".to_owned()
    };
    format!(
        "Single-stepped: {count}; times and memory of such a run are not the program's own and are \
         not shown."
    )
}

fn failure(error: &StepError, program: &std::path::Path) -> Error {
    match error {
        StepError::Start { source, .. } => match source.raw_os_error() {
            Some(errno) => exec_failure(program, errno),
            None => Error::new(ErrorKind::Setup, error.to_string()),
        },
        _ => Error::new(ErrorKind::Setup, error.to_string()),
    }
}
