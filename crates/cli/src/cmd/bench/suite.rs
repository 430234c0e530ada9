//! `bench --suite`: the benchmarks that `truecount.toml` names. Those that are measured the same way take turns with each
//! other, in one course of rounds; all are one result.

use std::collections::BTreeMap;
use std::path::Path;

use truecount_run::compare::Limit;
use truecount_run::rounds::{Hooks, Job, Written, jobs_of_all};
use truecount_run::session::Session;
use truecount_run::suite::{Benchmark, Settings, Suite, Values, Words};

use super::args::Args;
use super::document::Document;
use super::{can_be_written, conclude, in_directory, judge, measure};
use crate::CmdResult;
use crate::failure::Failure;
use crate::program_args::{SourceArg, parse_duration};

/// Benchmarks that are measured the same way.
struct Group<'s> {
    args: Args,
    settings: Settings,
    benchmarks: Vec<&'s Benchmark>,
}

/// What one benchmark is, as `Written` wants it.
struct Text {
    lines: Vec<String>,
    words: Vec<std::ffi::OsString>,
    names: Vec<String>,
    ranges: Vec<String>,
    lists: Vec<String>,
    shell: Option<String>,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let path = match args.suite.as_deref() {
        Some(path) if !path.is_dir() => path.to_owned(),
        directory => Suite::find(directory.unwrap_or(Path::new(".")))?,
    };
    let suite = Suite::read(&path)?;
    let mut args = args.clone();
    args.directory.get_or_insert(suite.directory.clone());
    // Read before the directory changes.
    let saved = judge(&args, BTreeMap::new())?.baseline().is_some();
    let baseline = args.baseline.as_deref().map(std::path::absolute);
    args.baseline = baseline.transpose()?;
    let args = in_directory(&args)?;
    let mut session = Session::start()?;
    can_be_written(&args)?;
    let groups = groups(&suite, &args)?;
    let mut result: Option<Document> = None;
    let mut limits: BTreeMap<String, Vec<Limit>> = BTreeMap::new();
    let mut stopped = None;
    let jobs = groups.iter().map(|group| jobs(&suite, group));
    let jobs = jobs.collect::<Result<Vec<Vec<Job>>, Failure>>()?;
    let all = jobs.iter().map(Vec::len).sum();
    for (group, jobs) in groups.iter().zip(&jobs) {
        if saved {
            for (benchmark, job) in jobs
                .iter()
                .filter_map(|job| Some((group.benchmarks.get(job.written)?, job)))
            {
                limits.insert(job.name.clone(), suite.limits(benchmark)?);
            }
        }
        let hooks = hooks(&suite, group, jobs)?;
        let mut judge = judge(&group.args, limits.clone())?;
        judge.all = all;
        let (document, early) = measure(&group.args, &mut judge, &mut session, jobs, hooks)?;
        match &mut result {
            None => result = Some(document),
            Some(all) => join(all, document),
        }
        stopped = early;
        if stopped.is_some() {
            break;
        }
    }
    let Some(mut document) = result else {
        return Err(Failure::new(2, "the suite has no benchmark"));
    };
    document.suite.clone_from(&suite.suite);
    document.declared.clone_from(&suite.facts);
    let mut judge = judge(&args, limits)?;
    judge.whole = args.filter.is_empty() && stopped.is_none();
    conclude(&args, &judge, document, stopped)
}

/// Puts a result behind another.
fn join(all: &mut Document, more: Document) {
    all.commands.extend(more.commands);
    all.profiles.extend(more.profiles);
    all.rounds = all.rounds.max(more.rounds);
    all.stopped = all.stopped.take().or(more.stopped);
    for note in more.notes {
        if !all.notes.contains(&note) {
            all.notes.push(note);
        }
    }
    let (environment, other) = (&mut all.environment, more.environment);
    environment.argv_bytes.extend(other.argv_bytes);
    environment.loader.extend(other.loader);
    for missing in other.not_deterministic {
        if !environment.not_deterministic.contains(&missing) {
            environment.not_deterministic.push(missing);
        }
    }
}

/// The benchmarks, put together by how they are measured, in the order of the file.
fn groups<'s>(suite: &'s Suite, args: &Args) -> Result<Vec<Group<'s>>, Failure> {
    let mut groups: Vec<Group<'s>> = Vec::new();
    for benchmark in suite.filtered(&args.filter)? {
        let mut settings = suite.settings(benchmark);
        // What each may have of its own in one course of rounds.
        settings.limits.clear();
        settings.shell = None;
        for hook in [
            &mut settings.setup,
            &mut settings.prepare,
            &mut settings.conclude,
            &mut settings.cleanup,
        ] {
            *hook = None;
        }
        match groups.iter_mut().find(|group| group.settings == settings) {
            Some(group) => group.benchmarks.push(benchmark),
            None => groups.push(Group {
                args: with(suite, &settings, args)?,
                settings,
                benchmarks: vec![benchmark],
            }),
        }
    }
    Ok(groups)
}

/// The options that settings stand for; the command line goes before them.
fn with(suite: &Suite, settings: &Settings, args: &Args) -> Result<Args, Failure> {
    let mut args = args.clone();
    let wrong =
        |key: &str, error: String| Failure::new(2, format!("{}: {key}: {error}", suite.suite));
    if args.event.is_empty() && args.metric.is_empty() {
        args.event = settings.events.clone().unwrap_or_default();
        args.metric = settings.metrics.clone().unwrap_or_default();
        if !settings.times.unwrap_or(false) && !args.detailed {
            if args.event.is_empty() && args.metric.is_empty() {
                args.event.push("instructions:u".to_owned());
            }
            args.only = true;
        }
    }
    if let (None, Some(time)) = (args.timeout, &settings.timeout) {
        args.timeout =
            Some(parse_duration(time).map_err(|error| wrong("timeout", error.to_string()))?);
    }
    if args.input.is_none() {
        args.input.clone_from(&settings.input);
    }
    if let (None, Some(codes)) = (&args.ignore_failure, &settings.ignore_failure) {
        let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
        args.ignore_failure = Some(codes.join(","));
    }
    if let (SourceArg::Auto, Some(source)) = (args.source, &suite.source) {
        args.source = <SourceArg as clap::ValueEnum>::from_str(source, false)
            .map_err(|error| wrong("source", error))?;
    }
    args.fixed.or(
        suite.machine.as_deref(),
        suite.is_reproducible() && args.source == SourceArg::Auto,
    )?;
    let counted = args.fixed.source(args.source)?;
    let exact = matches!(counted, SourceArg::Virtual | SourceArg::Step);
    if args.rounds.is_none() && args.budget.is_none() && args.until.is_empty() {
        args.rounds = settings.runs;
        if args.only && exact {
            // Nothing varies and nothing is timed: runs of their own count, so often as an exact count needs.
            args.rounds = Some(1);
            args.warmup = 0;
            args.exact_runs = args.exact_runs.or(settings.runs);
        }
    }
    args.functions |= suite.functions || suite.calls;
    args.keep_calls = suite.calls;
    if !args.keep_env {
        args.clean_env = true;
        args.env.extend(suite.env.iter().map(Into::into));
    }
    Ok(args)
}

/// The jobs of a group.
fn jobs(suite: &Suite, group: &Group<'_>) -> Result<Vec<Job>, Failure> {
    let texts: Vec<Text> = group.benchmarks.iter().map(|b| text(suite, b)).collect();
    let written: Vec<Written<'_>> = texts
        .iter()
        .map(|text| Written {
            lines: &text.lines,
            words: &text.words,
            names: &text.names,
            shell: text.shell.as_deref(),
            ranges: &text.ranges,
            lists: &text.lists,
        })
        .collect();
    Ok(jobs_of_all(&written)?)
}

fn text(suite: &Suite, benchmark: &Benchmark) -> Text {
    let mut name = benchmark.name.clone();
    let (mut ranges, mut lists) = (Vec::new(), Vec::new());
    for (parameter, values) in &benchmark.parameters {
        match values {
            Values::Range(range) => ranges.extend([parameter.clone(), range.clone()]),
            Values::List(words) => lists.extend([parameter.clone(), words.join(",")]),
        }
    }
    // Behind the name as a record tells them: ranges first, as jobs have them.
    for pair in ranges.chunks(2).chain(lists.chunks(2)) {
        if let [parameter, _] = pair {
            name.push_str(&format!(" {parameter}={{{parameter}}}"));
        }
    }
    let (lines, words) = match &benchmark.command {
        Words::Line(line) => (vec![line.clone()], Vec::new()),
        Words::Words(words) => (Vec::new(), words.iter().map(Into::into).collect()),
    };
    Text {
        lines,
        words,
        names: vec![name],
        ranges,
        lists,
        shell: suite.settings(benchmark).shell,
    }
}

/// The commands around those of a group.
fn hooks(suite: &Suite, group: &Group<'_>, jobs: &[Job]) -> Result<Hooks, Failure> {
    let all: Vec<Settings> = group.benchmarks.iter().map(|b| suite.settings(b)).collect();
    let of = |hook: fn(&Settings) -> &Option<String>| -> Vec<String> {
        let lines = all.iter().map(|settings| hook(settings).clone());
        lines.map(Option::unwrap_or_default).collect()
    };
    Ok(Hooks::new(
        jobs,
        [
            &of(|s| &s.setup),
            &of(|s| &s.prepare),
            &of(|s| &s.conclude),
            &of(|s| &s.cleanup),
        ],
    )?)
}
