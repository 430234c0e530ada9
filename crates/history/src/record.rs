//! The record: what was measured of one commit, as a document of its own (schema `truecount.record/1`,
//! `docs/schemas/record.json`). Benchmarks have the form that `bench` gives its commands, so that nothing is lost.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use truecount_model::{Precision, SourceKind};
use truecount_run::calls::CallTree;
use truecount_run::env_record::Environment;
use truecount_run::rounds::{Command, Map, Metric};
pub use truecount_run::rounds::{Function, Profile};
use truecount_stats::{Number, Summary};

use crate::error::{Error, unavailable, usage};

/// The schema's name.
pub const SCHEMA: &str = "truecount.record/1";

/// What was measured of one commit at one time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was measured.
    pub commit: Commit,
    /// When it was measured, in seconds since 1970.
    pub taken: i64,
    /// The suite that the benchmarks are of; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suite: String,
    /// The tool that measured, where it was not truecount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What the user declares: `machine`, `compiler`, `flags`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub declared: BTreeMap<String, String>,
    /// Machine and settings.
    #[serde(default)]
    pub environment: Environment,
    /// Every benchmark with its metrics.
    pub benchmarks: Vec<Command>,
    /// Where the counts of benchmarks were spent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
}

/// A commit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Its whole name.
    pub hash: String,
    /// Its parents' names.
    #[serde(default)]
    pub parents: Vec<String>,
    /// When it was committed, in seconds since 1970.
    #[serde(default)]
    pub time: i64,
    /// The branch that was checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The first line of its message.
    #[serde(default)]
    pub subject: String,
}

impl Record {
    /// Reads a record, and sees that it can be used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| unavailable(format!("it is not JSON: {error}")))?;
        match value.get("schema").and_then(serde_json::Value::as_str) {
            Some(SCHEMA) => {}
            Some(other) => {
                return Err(unavailable(format!("its schema is {other}, not {SCHEMA}")));
            }
            None => return Err(unavailable("it has no schema")),
        }
        // From the text, not from the value: metrics keep their order, so a record that is read is the same record.
        let record: Self =
            serde_json::from_str(text).map_err(|error| unavailable(error.to_string()))?;
        record.check()?;
        Ok(record)
    }

    /// Sees that every benchmark and metric is there once, with numbers that can be used.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), Error> {
        if self.commit.hash.is_empty() {
            return Err(unavailable("it names no commit"));
        }
        let mut seen = BTreeSet::new();
        for benchmark in &self.benchmarks {
            let key = (benchmark.name.as_str(), parameters(benchmark));
            if !seen.insert(key) {
                return Err(unavailable(format!(
                    "the benchmark `{}` is in it twice",
                    benchmark.name
                ))
                .hint("give every command a name of its own: bench -N NAME"));
            }
            let mut metrics = BTreeSet::new();
            for (name, metric) in benchmark.metrics.iter() {
                if !metrics.insert(name) {
                    let cause = format!("`{}` has {name} twice", benchmark.name);
                    return Err(unavailable(cause));
                }
                if !(metric.scale.is_finite() && metric.scale > 0.0) {
                    let cause = format!("the scale of {name} is {}", metric.scale);
                    return Err(unavailable(cause));
                }
            }
        }
        Ok(())
    }

    /// The document as text: the same for the same record, whoever writes it.
    ///
    /// # Errors
    /// A number that JSON does not have.
    pub fn text(&self) -> Result<String, Error> {
        serde_json::to_string(self).map_err(|error| unavailable(error.to_string()))
    }

    /// The name of this record: a hash of its text. The same record is one record, wherever it was copied to.
    #[must_use]
    pub fn digest(text: &str) -> String {
        let mut name = String::with_capacity(64);
        for byte in Sha256::digest(text.as_bytes()) {
            name.push_str(&format!("{byte:02x}"));
        }
        name
    }
}

/// Parameters as text, `level=9 size=4`.
#[must_use]
pub fn parameters(benchmark: &Command) -> String {
    let all = benchmark.parameters.iter();
    let all: Vec<String> = all.map(|(name, value)| format!("{name}={value}")).collect();
    all.join(" ")
}

/// A metric of whole numbers, with its order statistics.
#[must_use]
pub fn metric(
    unit: &str,
    scale: f64,
    source: Option<SourceKind>,
    precision: Option<Precision>,
    samples: Vec<u64>,
) -> Metric {
    let mut metric = Metric {
        unit: unit.to_owned(),
        scale,
        source,
        precision,
        samples,
        ..Metric::default()
    };
    if let Ok(summary) = Summary::of(&metric.samples) {
        metric.min = metric.samples.iter().min().copied();
        metric.max = metric.samples.iter().max().copied();
        metric.median = match summary.median {
            Number::Count(count) => Some(count.into()),
            Number::Real(real) => serde_json::Number::from_f64(real),
        };
        metric.mad = Some(summary.mad);
        metric.distinct = summary.distinct;
        metric.exact = summary.exact && precision.is_some() && metric.is_count();
    }
    metric
}

/// What a document of truecount tells, before it is known of which commit.
#[derive(Debug, Default)]
pub struct Measurements {
    /// The tool, where it was not truecount.
    pub tool: Option<String>,
    /// Machine and settings.
    pub environment: Environment,
    /// Every benchmark with its metrics.
    pub benchmarks: Vec<Command>,
    /// Where counts were spent.
    pub profiles: Vec<Profile>,
    /// The suite; empty without one.
    pub suite: String,
    /// What is declared.
    pub declared: BTreeMap<String, String>,
}

/// A result of `bench`, as far as it is needed.
#[derive(Deserialize)]
struct Bench {
    commands: Vec<Command>,
    #[serde(default)]
    stopped: Option<String>,
    environment: Environment,
    #[serde(default)]
    suite: String,
    #[serde(default)]
    declared: BTreeMap<String, String>,
    #[serde(default)]
    profiles: Vec<Profile>,
}

/// A result of `run` or `stat`, as far as it is needed.
#[derive(Deserialize)]
struct Run {
    command: Vec<String>,
    #[serde(default)]
    counters: Vec<Counter>,
    #[serde(default)]
    interrupted: Option<i32>,
    #[serde(default)]
    functions: Vec<RunFunction>,
    #[serde(default)]
    calls: Option<CallTree>,
    #[serde(default)]
    environment: Environment,
}

/// A reading, as documents have it.
#[derive(Deserialize)]
struct Counter {
    event: String,
    value: Option<u64>,
    source: Option<SourceKind>,
    precision: Option<Precision>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    hint: Option<String>,
    unit: String,
    #[serde(default = "one")]
    scale: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Deserialize)]
struct RunFunction {
    module: String,
    function: String,
    events: BTreeMap<String, u64>,
}

impl Measurements {
    /// Reads a result of `bench` or `run`. A run's benchmark is called `name`, or as its program.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, name: Option<&str>) -> Result<Self, Error> {
        let wrong = |error: serde_json::Error| unavailable(error.to_string());
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| unavailable(format!("it is not JSON: {error}")))?;
        let schema = value.get("schema").and_then(serde_json::Value::as_str);
        match schema {
            Some("truecount.bench/2") => {
                Self::of_bench(serde_json::from_str(text).map_err(wrong)?, name)
            }
            Some("truecount.run/2") => {
                Self::of_run(serde_json::from_str(text).map_err(wrong)?, name)
            }
            Some(other) => Err(unavailable(format!(
                "its schema is {other}, which is not kept"
            ))),
            None => Err(unavailable("it has no schema")),
        }
        .map_err(|error| match error.hint {
            None => error
                .hint("results of bench --save, bench --json and run --json are kept, and records"),
            Some(_) => error,
        })
    }

    fn of_bench(bench: Bench, name: Option<&str>) -> Result<Self, Error> {
        if let Some(why) = bench.stopped {
            return Err(unavailable(format!("the bench was stopped: {why}")));
        }
        let mut benchmarks = bench.commands;
        match (name, benchmarks.as_mut_slice()) {
            (None, _) => {}
            (Some(name), [only]) => only.name = name.to_owned(),
            (Some(_), many) => {
                let cause = format!("--name is for one benchmark, it has {}", many.len());
                return Err(usage(cause).hint("name commands by bench -N NAME"));
            }
        }
        let mut profiles = bench.profiles;
        if let (Some(name), [only]) = (name, profiles.as_mut_slice()) {
            only.benchmark = name.to_owned();
        }
        // Parameters stand beside the name.
        for benchmark in &mut benchmarks {
            let parameters = parameters(benchmark);
            plain(&mut benchmark.name, &parameters);
        }
        for profile in &mut profiles {
            plain(&mut profile.benchmark, &profile.parameters);
        }
        Ok(Self {
            tool: None,
            environment: bench.environment,
            benchmarks,
            profiles,
            suite: bench.suite,
            declared: bench.declared,
        })
    }

    fn of_run(run: Run, name: Option<&str>) -> Result<Self, Error> {
        if run.interrupted.is_some() {
            return Err(unavailable("the run was interrupted"));
        }
        let name = match name {
            Some(name) => name.to_owned(),
            None => run.command.join(" "),
        };
        let metrics = run.counters.into_iter().map(|counter| {
            let samples = counter.value.into_iter().collect();
            let new = Metric {
                reason: counter.reason,
                hint: counter.hint,
                ..metric(
                    &counter.unit,
                    counter.scale,
                    counter.source,
                    counter.precision,
                    samples,
                )
            };
            (counter.event, new)
        });
        let metrics = Map(metrics.collect());
        let profiles = profiles(&name, &run.functions, run.calls);
        Ok(Self {
            tool: None,
            environment: run.environment,
            benchmarks: vec![Command {
                command: run.command,
                name,
                runs: 1,
                metrics,
                ..Command::default()
            }],
            profiles,
            ..Self::default()
        })
    }

    /// The record of a commit.
    #[must_use]
    pub fn of_commit(self, commit: Commit, taken: i64) -> Record {
        Record {
            schema: SCHEMA.to_owned(),
            commit,
            taken,
            suite: self.suite,
            tool: self.tool,
            declared: self.declared,
            environment: self.environment,
            benchmarks: self.benchmarks,
            profiles: self.profiles,
        }
    }
}

/// Takes parameters off the end of a name.
fn plain(name: &mut String, parameters: &str) {
    let left = name.strip_suffix(parameters).map(str::trim_end);
    if let Some(left) = left.filter(|left| !left.is_empty() && !parameters.is_empty()) {
        *name = left.to_owned();
    }
}

/// What trees of calls count.
const TREE: &str = "instructions:u";

/// A profile for every event that functions were counted by; one function of one file once. The tree of calls is that of
/// instructions.
fn profiles(benchmark: &str, functions: &[RunFunction], calls: Option<CallTree>) -> Vec<Profile> {
    let mut events: BTreeMap<&str, BTreeMap<(&str, &str), u64>> = BTreeMap::new();
    for function in functions {
        let module = function.module.rsplit('/').next().unwrap_or_default();
        for (event, count) in &function.events {
            let sum = events
                .entry(event)
                .or_default()
                .entry((module, function.function.as_str()))
                .or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    let profile = |(event, functions): (&str, BTreeMap<(&str, &str), u64>)| {
        let function = |((module, function), value): ((&str, &str), u64)| Function {
            module: module.to_owned(),
            function: function.to_owned(),
            value,
        };
        Profile {
            benchmark: benchmark.to_owned(),
            parameters: String::new(),
            metric: event.to_owned(),
            functions: functions.into_iter().map(function).collect(),
            calls: None,
        }
    };
    let mut all: Vec<Profile> = events.into_iter().map(profile).collect();
    let Some(mut calls) = calls else {
        return all;
    };
    for called in &mut calls.functions {
        let name = called.module.rsplit('/').next().unwrap_or_default();
        called.module = name.to_owned();
    }
    match all.iter_mut().find(|profile| profile.metric == TREE) {
        Some(profile) => profile.calls = Some(calls),
        None => all.push(Profile {
            benchmark: benchmark.to_owned(),
            parameters: String::new(),
            metric: TREE.to_owned(),
            functions: Vec::new(),
            calls: Some(calls),
        }),
    }
    all
}
