//! The rounds: every command once a round, in shuffled order, each with its hooks.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use truecount_stats::{Repeats, Rotation, Schedule};

use super::capture::Capture;
use super::collect::Collected;
use super::hooks::{Hook, shown};
use super::jobs::Job;
use super::metrics::Metrics;
use super::progress::Progress;
use super::stop::{Decided, Rule};
use crate::failure::Failure;
use truecount_run::determinism::{Fixed, Missing};
use truecount_run::request::RequestGroup;
use truecount_run::runner::{Exit, Launch};
use truecount_run::session::Session;
use truecount_run::source::{Run, Source, Target};

/// Failures that do not end the bench.
pub(super) enum Ignore {
    /// None.
    Nothing,
    /// Any failure.
    All,
    /// These exit statuses.
    Codes(Vec<i32>),
}

impl Ignore {
    fn covers(&self, exit: Exit) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Codes(codes) => exit.code.is_some_and(|code| codes.contains(&code)),
        }
    }
}

/// Where the output of the measured commands goes.
pub(super) enum Sink {
    /// `/dev/null`; what goes to stderr is kept and shown when the command fails.
    Discard(OwnedFd),
    /// Both are kept and shown when the command fails.
    Keep,
    /// A file.
    File(OwnedFd),
    /// truecount's own.
    Inherit,
}

/// Everything that stays the same over the rounds.
pub(super) struct Setting<'a> {
    pub(super) jobs: &'a [Job],
    pub(super) prepare: Hook,
    pub(super) conclude: Hook,
    pub(super) ignore: Ignore,
    pub(super) sink: Sink,
    pub(super) input: OwnedFd,
    pub(super) cpus: Vec<usize>,
    pub(super) metrics: &'a Metrics,
    pub(super) keep_aslr: bool,
    pub(super) fixed: Option<&'a Fixed>,
    pub(super) timeout: Option<Duration>,
    pub(super) capture: Capture,
}

/// Counters that are read in other runs than the times: by the engine or by single-stepping.
pub(super) struct ExactRuns<'a> {
    pub(super) source: &'a mut dyn Source,
    pub(super) groups: &'a [RequestGroup],
    /// Runs of each command.
    pub(super) repeats: Repeats,
    /// How long they may take while counts differ.
    pub(super) time: Duration,
}

/// What the rounds gave.
pub(super) struct Outcome {
    pub(super) collected: Vec<Collected>,
    /// Measured rounds, the last one perhaps cut short.
    pub(super) rounds: usize,
    /// Why it ended early: after printing, this is the failure of the whole command.
    pub(super) stopped: Option<Failure>,
    /// Randomisation of addresses could not be switched off.
    pub(super) aslr_refused: bool,
    /// What was to be held constant and was not.
    pub(super) missing: Vec<Missing>,
}

impl Outcome {
    /// Before the first round.
    pub(super) fn nothing(collected: Vec<Collected>) -> Self {
        Self {
            collected,
            rounds: 0,
            stopped: None,
            aslr_refused: false,
            missing: Vec::new(),
        }
    }
}

/// One measured run of one job.
fn one(
    setting: &Setting<'_>,
    session: &mut Session,
    source: &mut dyn Source,
    groups: &[RequestGroup],
    job: &Job,
    missing: &mut Vec<Missing>,
) -> Result<(Vec<truecount_model::Reading>, bool, bool), Failure> {
    setting.prepare.run(session, job)?;
    setting.capture.clear_if_used();
    let capture = Some(setting.capture.fd());
    let (out, err) = match &setting.sink {
        Sink::Discard(null) => (Some(null), capture),
        Sink::Keep => (capture, capture),
        Sink::File(file) => (Some(file), Some(file)),
        Sink::Inherit => (None, None),
    };
    let run = Run {
        launch: Some((
            &job.program,
            Launch {
                argv: &job.argv,
                stdio: [Some(&setting.input), out, err],
                cpus: &setting.cpus,
                keep_aslr: setting.keep_aslr,
                own_group: true,
                timeout: setting.timeout,
                fixed: setting.fixed,
            },
        )),
        groups,
        target: Target::Command,
    };
    let mut measurement = source.run(session, &run, None)?;
    truecount_run::determinism::merge(missing, std::mem::take(&mut measurement.missing));
    let Some(finished) = measurement.ended else {
        return Err(Failure::new(125, "the run gave no result"));
    };
    if let Some(signal) = measurement.interrupted {
        return Err(interrupted(signal));
    }
    if finished.timed_out {
        let limit = setting.timeout.unwrap_or_default();
        return Err(Failure::new(
            124,
            format!("`{}` ran longer than --timeout {limit:?}", job.name),
        ));
    }
    let failed = !finished.exit.success();
    if failed && !setting.ignore.covers(finished.exit) {
        let output = match setting.sink {
            Sink::Discard(_) | Sink::Keep => shown(&setting.capture.text()),
            Sink::File(_) | Sink::Inherit => String::new(),
        };
        return Err(Failure::new(
            1,
            format!("`{}` ended with {}{output}", job.name, finished.exit),
        )
        .hint("repair the command, or add --ignore-failure"));
    }
    setting.conclude.run(session, job)?;
    let readings = setting.metrics.of_run(groups, measurement.readings);
    Ok((readings, failed, finished.aslr_refused))
}

fn interrupted(signal: i32) -> Failure {
    let code = u8::try_from(128 + signal).unwrap_or(130);
    Failure::new(code, "interrupted: what was measured until then is printed")
}

/// Makes the rounds until the rule is content, the user stops it, or a command fails.
pub(super) fn rounds(
    setting: &Setting<'_>,
    session: &mut Session,
    source: &mut dyn Source,
    batches: &[Vec<RequestGroup>],
    mut collected: Vec<Collected>,
    schedule: (u64, usize),
    (rule, decided): (&Rule, &Decided<'_>),
) -> Outcome {
    let (seed, warmup) = schedule;
    let mut schedule = Schedule::new(setting.jobs.len(), seed)
        .warmup(warmup)
        .batches(batches.len(), Rotation::OverRounds);
    let mut progress = Progress::new(
        "round",
        rule.rounds().map(|rounds| rounds + warmup),
        rule.time(setting.jobs.len()),
    );
    let mut stopped = None;
    let mut aslr_refused = false;
    let mut missing = Vec::new();
    let mut done = 0;
    let mut start = Instant::now();
    'rounds: loop {
        let mut measured = false;
        for run in schedule.next_round() {
            if run.warmup {
                start = Instant::now();
            } else if !measured {
                measured = true;
                done = run.round - warmup + 1;
            }
            let (Some(job), Some(groups)) = (setting.jobs.get(run.command), batches.get(run.batch))
            else {
                continue;
            };
            let result = match session.signals.stop_requested() {
                Some(signal) => Err(interrupted(signal)),
                None => one(setting, session, source, groups, job, &mut missing),
            };
            match result {
                Ok((readings, failed, refused)) => {
                    aslr_refused |= refused;
                    if let Some(collected) = collected.get_mut(run.command)
                        && !run.warmup
                    {
                        collected.runs += 1;
                        collected.failures += usize::from(failed);
                        collected.add(run.round - warmup, &readings);
                    }
                }
                Err(failure) => {
                    stopped = Some(failure);
                    break 'rounds;
                }
            }
        }
        progress.step();
        if measured && rule.done(done, start, &collected, decided) {
            break;
        }
    }
    progress.finish();
    Outcome {
        collected,
        rounds: done,
        stopped,
        aslr_refused,
        missing,
    }
}

/// Makes the runs whose counts come from the engine or from single-stepping: as many as an exact count needs, and more
/// while the counts of a command differ.
pub(super) fn exact_runs(
    setting: &Setting<'_>,
    session: &mut Session,
    exact: &mut ExactRuns<'_>,
    collected: &mut [Collected],
    missing: &mut Vec<Missing>,
) -> Result<(), Failure> {
    let mut progress = Progress::new(
        exact.source.kind().name(),
        Some(exact.repeats.min * setting.jobs.len()),
        None,
    );
    let start = Instant::now();
    let mut runs = 0u32;
    loop {
        for (job, collected) in setting.jobs.iter().zip(collected.iter_mut()) {
            if let Some(signal) = session.signals.stop_requested() {
                return Err(interrupted(signal));
            }
            let (readings, _, _) = one(setting, session, exact.source, exact.groups, job, missing)?;
            collected.add(runs as usize, &readings);
            progress.step();
        }
        runs += 1;
        let differ = Collected::differ(collected);
        let elapsed = start.elapsed();
        let in_time = elapsed + elapsed / runs <= exact.time;
        if exact.repeats.enough(runs as usize, differ, in_time) {
            break;
        }
    }
    progress.finish();
    Ok(())
}
