//! One run more of each command under the virtual PMU, which counts the instructions of every function, or keeps the tree
//! of calls: what explains a change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Job, Measurement, Outcome, interrupted};
use crate::calls::{Apart, CallTree, tree_of};
use crate::error::{Error, ErrorKind};
use crate::functions::{Names, asked_events, base_name, functions_of};
use crate::result::RunResult;
use crate::runner::Launch;
use crate::session::dev_null;
use crate::source::virtual_pmu;
use truecount_engine::virt::CallOptions;

/// What is counted of functions.
const EVENT: &str = "instructions:u";

/// Where the counts of a benchmark were spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Name of the benchmark.
    pub benchmark: String,
    /// Its parameters, `level=9`; left out without any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parameters: String,
    /// What was counted.
    pub metric: String,
    /// Every function.
    pub functions: Vec<Function>,
    /// What every path of calls executed, where that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallTree>,
}

/// A function's share of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// File name of what it is in.
    pub module: String,
    /// Its name.
    pub function: String,
    /// What it spent itself.
    pub value: u64,
}

/// So many paths of a benchmark are kept: a record is to be sent and kept, and people read a few of them.
const MAX_PATHS: usize = 50_000;

impl Outcome {
    /// Puts the trees of calls into the profiles of their commands; a sentence for each that is too large.
    pub fn keep_trees(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        for (profile, mut tree) in self.profiles.iter_mut().zip(self.trees.drain(..)) {
            if tree.nodes.len() > MAX_PATHS {
                notes.push(format!(
                    "The tree of calls of {} has {} paths, more than the {MAX_PATHS} that are kept: it is left out.",
                    profile.benchmark,
                    tree.nodes.len()
                ));
                continue;
            }
            for called in &mut tree.functions {
                // Directories are those of one build.
                called.module = base_name(&called.module).to_owned();
            }
            profile.calls = Some(tree);
        }
        notes
    }
}

impl Measurement<'_> {
    /// The profile of every command.
    pub(super) fn profiles(&mut self) -> Result<(), Error> {
        let (setting, events) = (self.setting, asked_events(&[EVENT.to_owned()])?);
        virtual_pmu::available().map_err(Error::unavailable)?;
        self.progress
            .begin("functions", Some(setting.jobs.len()), None);
        let mut names = Names::default();
        for job in setting.jobs {
            let ran = self.once(job, None)?;
            let mut functions: BTreeMap<(String, String), u64> = BTreeMap::new();
            for function in functions_of(&ran, &events, &mut names).unwrap_or_default() {
                let place = (base_name(&function.module).to_owned(), function.function);
                let sum = functions.entry(place).or_default();
                *sum = sum.saturating_add(function.first);
            }
            let values = job
                .values
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            self.outcome.profiles.push(Profile {
                benchmark: job.name.clone(),
                parameters: values.collect::<Vec<_>>().join(" "),
                metric: EVENT.to_owned(),
                functions: functions
                    .into_iter()
                    .map(|((module, function), value)| Function {
                        module,
                        function,
                        value,
                    })
                    .collect(),
                calls: None,
            });
            self.progress.step();
        }
        Ok(())
    }

    /// The tree of calls of every command.
    pub(super) fn trees(&mut self) -> Result<(), Error> {
        virtual_pmu::available().map_err(Error::unavailable)?;
        let jobs = self.setting.jobs;
        self.progress.begin("calls", Some(jobs.len()), None);
        let mut names = Names::default();
        for job in jobs {
            let ran = self.once(job, Some(CallOptions::default()))?;
            let tree = tree_of(&ran, &mut names, Apart::Programs, false)
                .map_err(|cause| Error::new(ErrorKind::EngineCheck, cause))?;
            self.outcome.trees.push(tree.unwrap_or_default());
            self.progress.step();
        }
        Ok(())
    }

    /// One run of a command under the virtual PMU, which counts its blocks, or keeps its tree of calls, too.
    fn once(&mut self, job: &Job, calls: Option<CallOptions>) -> Result<RunResult, Error> {
        let setting = self.setting;
        setting.hooks.prepare.run(self.session, job)?;
        let null = dev_null()?;
        let launch = Launch {
            argv: &job.argv,
            stdio: [Some(&setting.input), Some(&null), Some(&null)],
            cpus: &setting.cpus,
            keep_aslr: setting.keep_aslr,
            own_group: true,
            timeout: setting.timeout,
            fixed: setting.fixed,
        };
        let (signals, program) = (&self.session.signals, &job.program);
        let ran = match calls {
            None => virtual_pmu::execute(signals, program, &launch, true)?,
            Some(calls) => virtual_pmu::execute_calls(signals, program, &launch, calls)?,
        };
        if let Some(signal) = ran.interrupted {
            return Err(interrupted(signal));
        }
        let exit = ran.exit();
        if !exit.success() && !setting.ignore.covers(exit) {
            let cause = format!(
                "`{}` ended with {exit} when its functions were counted",
                job.name
            );
            return Err(Error::new(ErrorKind::ProgramFailed, cause));
        }
        setting.hooks.conclude.run(self.session, job)?;
        Ok(ran)
    }
}
