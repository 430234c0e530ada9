//! Commands measured in interleaved rounds: every command once a round, in shuffled order, each with its hooks, until a
//! rule is content; then the runs whose counts come from the virtual PMU or from single steps.
//!
//! - [`Written`]: the commands as written, with parameters; [`Job`]: one of them;
//! - [`Plan`]: what is counted in which run;
//! - [`Rule`]: when it ends;
//! - [`Setting::measure`]: the runs, which give [`Command`]s with their samples.

mod capture;
mod hooks;
mod jobs;
mod metrics;
mod params;
mod plan;
mod profile;
mod result;
mod stop;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use truecount_model::{Reading, SourceKind};
use truecount_stats::{Repeats, Rotation, Schedule};

use crate::calls::CallTree;
use crate::closed::Closed;
use crate::determinism::{self, Fixed, Missing};
use crate::error::{Error, ErrorKind};
use crate::request::RequestGroup;
use crate::runner::{Exit, Launch};
use crate::session::Session;
use crate::source::{Run, Source, Switching, Target};
use capture::Capture;
pub use hooks::Hooks;
pub use jobs::{Job, Written, jobs_of_all};
pub use plan::{Plan, Request};
pub use profile::{Function, Profile};
pub use result::{Command, Map, Metric};
pub use stop::{Decided, RoundOptions, Rule, percent};
pub use truecount_events::metrics::Worse as Direction;

/// Failures that do not end the bench.
pub enum Ignore {
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
pub enum Sink {
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
pub struct Setting<'a> {
    /// The commands.
    pub jobs: &'a [Job],
    /// The commands around them.
    pub hooks: Hooks,
    /// Failures that do not end it.
    pub ignore: Ignore,
    /// Where their output goes.
    pub sink: Sink,
    /// Their standard input.
    pub input: OwnedFd,
    /// The CPUs that they may use; none: all.
    pub cpus: Vec<usize>,
    /// Leave the randomisation of addresses on.
    pub keep_aslr: bool,
    /// What is held constant.
    pub fixed: Option<&'a Fixed>,
    /// Ends a run, and all.
    pub timeout: Option<Duration>,
}

/// In which order it is measured, and when it ends.
pub struct Course<'a> {
    /// Seed of the order of runs.
    pub seed: u64,
    /// Rounds before the measured ones.
    pub warmup: usize,
    /// When the rounds end.
    pub rule: &'a Rule,
    /// Whether the comparisons are decided.
    pub decided: &'a Decided<'a>,
    /// Runs of each command that the virtual PMU or single steps count.
    pub repeats: Repeats,
    /// One run more of each command counts its functions.
    pub functions: bool,
    /// One run more of each command keeps its tree of calls.
    pub calls: bool,
    /// One run of a closed program is enough: nothing is compared with its counts.
    pub one_if_closed: bool,
}

/// Who shows how far it is.
pub trait Progress {
    /// So many steps begin, or steps until a time is over, where that is known.
    fn begin(&mut self, what: &'static str, total: Option<usize>, time: Option<Duration>);
    /// One more step is done.
    fn step(&mut self);
    /// All are done.
    fn finish(&mut self);
}

/// What was measured.
#[derive(Default)]
pub struct Outcome {
    /// Every command with its samples.
    pub commands: Vec<Command>,
    /// Measured rounds, the last one perhaps cut short.
    pub rounds: usize,
    /// Why it ended early: what was measured until then is here.
    pub stopped: Option<Error>,
    /// Randomisation of addresses could not be switched off.
    pub aslr_refused: bool,
    /// What was to be held constant and was not.
    pub missing: Vec<Missing>,
    /// Where the counts of each command were spent, where that was asked for.
    pub profiles: Vec<Profile>,
    /// The tree of calls of each command, in their order, where that was asked for.
    pub trees: Vec<CallTree>,
}

/// A measurement under way.
struct Measurement<'a> {
    setting: &'a Setting<'a>,
    plan: &'a Plan,
    session: &'a mut Session,
    capture: Capture,
    progress: &'a mut dyn Progress,
    outcome: Outcome,
    /// What came into the run before this one from outside.
    closed: Option<Closed>,
}

impl Setting<'_> {
    /// Measures everything: rounds until the rule is content, the user stops it, or a command fails; then what the
    /// `source` counts in runs of its own.
    ///
    /// # Errors
    /// `--setup` fails. What comes later is in the outcome, beside what was measured until then.
    pub fn measure(
        &self,
        session: &mut Session,
        source: &mut dyn Source,
        plan: &Plan,
        course: &Course<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Outcome, Error> {
        let metrics = plan.metrics();
        let commands = self.jobs.iter().map(|job| job.command(metrics.clone()));
        let mut all = Measurement {
            setting: self,
            plan,
            session,
            capture: Capture::new()?,
            progress,
            outcome: Outcome {
                commands: commands.collect(),
                ..Outcome::default()
            },
            closed: None,
        };
        for job in self.jobs {
            self.hooks.setup.run(all.session, job)?;
        }
        let mut done = all.rounds(course);
        all.progress.finish();
        if done.is_ok() && !plan.engine.is_empty() {
            done = all.exact_runs(source, course);
            all.progress.finish();
        }
        if done.is_ok() && course.functions {
            done = all.profiles();
            all.progress.finish();
        }
        if done.is_ok() && course.calls {
            done = all.trees();
            all.progress.finish();
        }
        for job in self.jobs {
            done = done.and(self.hooks.cleanup.run(all.session, job));
        }
        let mut outcome = all.outcome;
        outcome.stopped = done.err();
        for command in &mut outcome.commands {
            command.finish(outcome.rounds);
        }
        Ok(outcome)
    }
}

impl Measurement<'_> {
    /// The rounds of native runs.
    fn rounds(&mut self, course: &Course<'_>) -> Result<(), Error> {
        let (jobs, batches) = (self.setting.jobs, &self.plan.batches);
        let (rule, warmup) = (course.rule, course.warmup);
        let mut source = self.plan.native();
        let mut schedule = Schedule::new(jobs.len(), course.seed)
            .warmup(warmup)
            .batches(batches.len(), Rotation::OverRounds);
        // Counted in runs of their own only: one round says that the commands run at all.
        let idle = !self.plan.engine.is_empty()
            && batches
                .iter()
                .flatten()
                .all(|group| group.members.is_empty());
        let total = match rule.rounds() {
            None if idle => Some(1 + warmup),
            rounds => rounds.map(|rounds| rounds + warmup),
        };
        self.progress.begin("round", total, rule.time(jobs.len()));
        let mut start = Instant::now();
        loop {
            let mut measured = false;
            for run in schedule.next_round() {
                if run.warmup {
                    start = Instant::now();
                } else if !measured {
                    measured = true;
                    self.outcome.rounds = run.round - warmup + 1;
                }
                let (Some(job), Some(groups)) = (jobs.get(run.command), batches.get(run.batch))
                else {
                    continue;
                };
                let (readings, failed) = self.one(&mut source, groups, job)?;
                if let Some(command) = self.outcome.commands.get_mut(run.command)
                    && !run.warmup
                {
                    command.runs += 1;
                    command.failures += usize::from(failed);
                    command.add(run.round - warmup, &readings);
                }
            }
            self.progress.step();
            let Outcome {
                rounds, commands, ..
            } = &self.outcome;
            let enough = idle && rule.rounds().is_none();
            if measured && (enough || rule.done(*rounds, start, commands, course.decided)) {
                return Ok(());
            }
        }
    }

    /// The runs whose counts come from the virtual PMU or from single steps: as many as an exact count needs, and more
    /// while the counts of a command differ.
    fn exact_runs(&mut self, source: &mut dyn Source, course: &Course<'_>) -> Result<(), Error> {
        let (jobs, repeats) = (self.setting.jobs, course.repeats);
        let total = Some(repeats.min * jobs.len());
        self.progress.begin(source.kind().name(), total, None);
        let time = course.rule.exact_time(jobs.len());
        let start = Instant::now();
        let mut runs = 0u32;
        loop {
            for (at, job) in jobs.iter().enumerate() {
                let (readings, _) = self.one(source, &self.plan.engine, job)?;
                let closed = self.closed.take();
                if let Some(command) = self.outcome.commands.get_mut(at) {
                    command.came_in(closed);
                    command.add(runs as usize, &readings);
                }
                self.progress.step();
            }
            runs += 1;
            let differ = Command::differ(&self.outcome.commands);
            let elapsed = start.elapsed();
            let in_time = elapsed + elapsed / runs <= time;
            let closed = self.outcome.commands.iter().all(Command::is_closed);
            if course.one_if_closed && closed || repeats.enough(runs as usize, differ, in_time) {
                return Ok(());
            }
        }
    }

    /// One run of one job: what it told, and whether it failed.
    fn one(
        &mut self,
        source: &mut dyn Source,
        groups: &[RequestGroup],
        job: &Job,
    ) -> Result<(Vec<Reading>, bool), Error> {
        let setting = self.setting;
        if let Some(signal) = self.session.signals.stop_requested() {
            return Err(interrupted(signal));
        }
        setting.hooks.prepare.run(self.session, job)?;
        self.capture.clear_if_used();
        let capture = Some(self.capture.fd());
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
            switching: Switching::default(),
            parts: &[],
        };
        let result = source.run(self.session, &run, None)?;
        let mut missing = result.missing;
        // Native runs tell times; what only the virtual PMU can hold constant is about its counts.
        if !self.plan.engine.is_empty()
            && matches!(source.kind(), SourceKind::Hardware | SourceKind::Software)
        {
            missing.retain(|each| !each.factor.is_virtual());
        }
        determinism::merge(&mut self.outcome.missing, missing);
        let Some(finished) = result.ended else {
            return Err(Error::new(ErrorKind::Setup, "the run gave no result"));
        };
        if let Some(signal) = result.interrupted {
            return Err(interrupted(signal));
        }
        if finished.timed_out {
            let limit = setting.timeout.unwrap_or_default();
            let cause = format!("`{}` ran longer than --timeout {limit:?}", job.name);
            return Err(Error::new(ErrorKind::Timeout, cause));
        }
        let failed = !finished.exit.success();
        if failed && !setting.ignore.covers(finished.exit) {
            let output = match setting.sink {
                Sink::Discard(_) | Sink::Keep => self.capture.shown(),
                Sink::File(_) | Sink::Inherit => String::new(),
            };
            let cause = format!("`{}` ended with {}{output}", job.name, finished.exit);
            return Err(Error::new(ErrorKind::ProgramFailed, cause)
                .hint("repair the command, or add --ignore-failure"));
        }
        setting.hooks.conclude.run(self.session, job)?;
        self.outcome.aslr_refused |= finished.aslr_refused;
        self.closed = result.executed.closed;
        let readings = self.plan.metrics.of_run(groups, result.readings);
        Ok((readings, failed))
    }
}

fn interrupted(signal: i32) -> Error {
    let cause = "interrupted: what was measured until then is printed";
    Error::new(ErrorKind::Interrupted(signal), cause)
}
