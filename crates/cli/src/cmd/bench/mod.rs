//! `truecount bench`: commands measured in interleaved rounds, described and compared.

mod args;
mod baseline;
mod document;
mod html;
mod markdown;
mod progress;
mod sentence;
mod separated;
mod suite;
mod svg;
mod text;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use truecount_model::number::show_times_in;
use truecount_run::compare::{Accept, Asked, Judge, Limit, Saved, measured};
use truecount_run::determinism::{Fixed, clean_environment};
use truecount_run::env_record::Environment;
use truecount_run::rounds::{Command, Course, Hooks, Job, Plan, Rule, Setting};
use truecount_run::session::{Session, fresh_seed};
use truecount_stats::{GateExit, Repeats};

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, ResultFile};
use crate::program_args::parse_online_cpus;
use crate::render::json;
pub(crate) use args::Args;
use args::Sort;
use document::{Compared, Document, SCHEMA};

/// Runs `truecount bench`.
pub(crate) fn run(args: &Args) -> CmdResult {
    if args.suite.is_some() {
        return suite::run(args);
    }
    let mut judge = judge(args, BTreeMap::new())?;
    if let Some(path) = &args.from {
        let document = baseline::read(path)?;
        if let Some(command) = document.commands.first() {
            judge.check(document.commands.len(), &command.metrics)?;
        }
        return conclude(args, &judge, document, None);
    }
    let args = &in_directory(args)?;
    // The launcher is forked before anything grows.
    let mut session = Session::start()?;
    let jobs = args.written().jobs()?;
    can_be_written(args)?;
    let hooks = Hooks::new(
        &jobs,
        [&args.setup, &args.prepare, &args.conclude, &args.cleanup],
    )?;
    let (document, stopped) = measure(args, &mut judge, &mut session, &jobs, hooks)?;
    conclude(args, &judge, document, stopped)
}

/// Goes to the directory that commands run in; the files of the command line keep their meaning.
fn in_directory(args: &Args) -> Result<Args, Failure> {
    let mut args = args.clone();
    let Some(directory) = args.directory.clone() else {
        return Ok(args);
    };
    let show = &mut args.show;
    let files = [
        &mut args.save,
        &mut args.json,
        &mut args.csv,
        &mut args.markdown,
        &mut args.html,
        &mut args.input,
        &mut args.event_dir,
        &mut show.export_json,
        &mut show.export_csv,
        &mut show.export_markdown,
        &mut show.export_asciidoc,
        &mut show.export_orgmode,
    ];
    let named = files.into_iter().flatten().chain(&mut args.metrics_file);
    for path in named.filter(|path| path.as_path() != Path::new("-")) {
        *path = std::path::absolute(&path)?;
    }
    std::env::set_current_dir(&directory).map_err(|error| {
        Failure::new(2, format!("--directory {}: {error}", directory.display()))
    })?;
    Ok(args)
}

/// Sees that every file can be written, before anything is measured.
fn can_be_written(args: &Args) -> Result<(), Failure> {
    let show = &args.show;
    for path in [
        &args.save,
        &args.json,
        &args.csv,
        &args.markdown,
        &args.html,
        &show.export_json,
        &show.export_csv,
        &show.export_markdown,
        &show.export_asciidoc,
        &show.export_orgmode,
    ] {
        path.as_deref()
            .map_or(Ok(()), crate::output::can_be_written)?;
    }
    Ok(())
}

/// Measures these jobs: the result, and why it ended early.
fn measure(
    args: &Args,
    judge: &mut Judge,
    session: &mut Session,
    jobs: &[Job],
    hooks: Hooks,
) -> Result<(Document, Option<Failure>), Failure> {
    if args.calls && jobs.len() < 2 {
        return Err(
            Failure::new(2, "--calls compares commands, and there is one")
                .hint("give two, or look at one by: truecount run --calls"),
        );
    }
    let (fixed, clean) = held(args, judge)?;
    let cpus = match &args.cpu {
        Some(text) => {
            parse_online_cpus(text).map_err(|error| Failure::new(2, format!("--cpu: {error}")))?
        }
        None => fixed.as_ref().map_or(&[][..], Fixed::cpus).to_vec(),
    };
    let setting = Setting {
        jobs,
        hooks,
        ignore: args.ignore()?,
        sink: args.sink()?,
        input: args.input()?,
        cpus,
        keep_aslr: args.aslr,
        fixed: fixed.as_ref(),
        timeout: args.timeout,
    };
    args.cache.apply();
    let mut source = args.fixed.source(args.source)?.select()?;
    let machine = truecount_run::machine::this(args.event_dir.as_deref())?;
    let plan = Plan::new(&args.wanted(), &mut *source, &machine)?;
    let planned = plan.metrics();
    judge.check(jobs.len(), &planned)?;
    measured("--floor", &args.floor, &planned)?;
    let precisions: Vec<String> = args
        .until
        .iter()
        .filter(|text| text.contains('='))
        .cloned()
        .collect();
    measured("--until", &precisions, &planned)?;
    let tests = judge.tests(jobs.len(), &planned);
    let rule = Rule::new(&args.wish(), tests, plan.batches.len())?;
    judge.looks = rule.looks();
    let mut environment = record(args, &setting, clean);
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let course = Course {
        seed,
        warmup: args.warmup,
        rule: &rule,
        decided: &|commands, rounds| judge.decided(commands, &environment, rounds),
        repeats: args
            .exact_runs
            .map_or_else(|| Repeats::for_family(tests), Repeats::exactly),
        functions: args.functions,
        calls: args.calls || args.keep_calls,
        one_if_closed: jobs.len() == 1
            && args.exact_runs.is_none()
            && args.suite.is_none()
            && !args.is_compared(),
    };
    let mut bar = progress::Shown::new();
    let mut outcome = setting.measure(session, &mut *source, &plan, &course, &mut bar)?;

    if outcome.aslr_refused {
        environment.aslr = Some(true);
    }
    let mut notes = plan.notes;
    if environment.clean_env && !args.clean_env && args.env.is_empty() {
        notes.push(CLEANED.to_owned());
    }
    if let Some(fixed) = &fixed {
        notes.extend(fixed.record(&outcome.missing, &mut environment));
    }
    notes.extend(small_memory(session.launcher.floor(), &outcome.commands));
    if args.keep_calls {
        notes.extend(outcome.keep_trees());
    }
    let calls = document::PathsCompared::of(&outcome.commands, &outcome.trees);
    let document = Document {
        schema: SCHEMA.to_owned(),
        commands: outcome.commands,
        comparisons: Vec::new(),
        gates: Vec::new(),
        seed,
        rounds: outcome.rounds,
        warmup: args.warmup,
        stopped: outcome.stopped.as_ref().map(|error| error.cause.clone()),
        notes,
        environment,
        suite: String::new(),
        declared: BTreeMap::new(),
        profiles: outcome.profiles,
        calls,
    };
    Ok((document, outcome.stopped.map(Into::into)))
}

/// What a result is judged by; the baseline is read now, so that a wrong path costs no runs.
fn judge(args: &Args, own_gates: BTreeMap<String, Vec<Limit>>) -> Result<Judge, Failure> {
    let names = args.event.iter().chain(&args.metric);
    let saved = args.baseline.as_deref().map(baseline::read).transpose()?;
    Ok(Judge::new(Asked {
        gates: &args.fail_above,
        floors: &args.floor,
        named: names.map(String::as_str).collect(),
        baseline: saved.map(|document| Saved {
            commands: document.commands,
            environment: document.environment,
        }),
        accept: Accept {
            machine: args.ignore_machine,
            environment: args.ignore_environment,
        },
        own_gates,
        apart: args.suite.is_some(),
    })?)
}

/// The note where nobody asked for a clean environment.
const CLEANED: &str = "Programs got a clean environment (PATH, LANG), so that the result can be compared elsewhere; \
    --keep-env hands down this one, --env NAME a variable of it.";

/// Variables of an environment.
type Variables = Vec<(OsString, OsString)>;

/// What is held constant in the programs, and the clean environment that they get.
fn held(args: &Args, judge: &Judge) -> Result<(Option<Fixed>, Option<Variables>), Failure> {
    let fixed = args.fixed.fixed()?;
    // Asked for, or because the result is to be compared with others.
    let saved = judge.baseline();
    let before = saved.is_some_and(|baseline| baseline.environment.clean_env);
    let asked = args.clean_env || !args.env.is_empty();
    if !asked && (args.keep_env || args.save.is_none() && !before) {
        return Ok((fixed, None));
    }
    let variables = clean_environment(&args.env)?;
    let fixed = fixed.unwrap_or_else(|| Fixed::new(&[]));
    Ok((
        Some(fixed.with_environment(variables.clone())),
        Some(variables),
    ))
}

/// The record of what the result depends on.
fn record(args: &Args, setting: &Setting<'_>, clean: Option<Variables>) -> Environment {
    let mut environment = Environment::gather(args.aslr, &setting.cpus);
    environment.clean_env = clean.is_some();
    environment.set_variables(clean.unwrap_or_else(|| std::env::vars_os().collect()));
    for job in setting.jobs {
        environment.add_command(&job.argv, Some(&job.program));
    }
    environment
}

/// Judges a result, shows it and writes the files.
fn conclude(
    args: &Args,
    judge: &Judge,
    mut document: Document,
    stopped: Option<Failure>,
) -> CmdResult {
    if let Some(unit) = args.show.time_unit {
        show_times_in(unit);
    }
    let exit = judged(judge, &mut document);
    if args.show.sort == Sort::Time {
        document.commands.sort_by(|a, b| {
            let time = |c: &Command| c.metrics.get("wall-time")?.summary();
            let median = |c: &Command| time(c).map_or(f64::INFINITY, |s| s.median.to_f64());
            median(a).total_cmp(&median(b))
        });
    }
    let any = document.commands.iter().any(|command| {
        let mut metrics = command.metrics.iter();
        command.runs > 0 || metrics.any(|(_, metric)| !metric.samples.is_empty())
    });
    let mut failures = Vec::new();
    let mut stopped = stopped;
    if any {
        failures = show(args, &document);
    } else if let Some(failure) = stopped.as_mut().filter(|failure| failure.code > 128) {
        failure.cause = "interrupted before anything was measured".to_owned();
    }
    // Whoever closed a pipe has seen enough; the gate's answer stands.
    failures.retain(|failure| !failure.closed_pipe);
    Failure::of_all(stopped.into_iter().chain(failures).map(Err))?;
    Ok(Outcome(exit.code()))
}

/// Puts into a result how it compares.
fn judged(judge: &Judge, document: &mut Document) -> GateExit {
    let judgement = judge.judge(&document.commands, &document.environment, document.rounds);
    document.comparisons = judgement.pairs.iter().map(Compared::from).collect();
    document.gates = judgement.gates;
    document.notes.extend(judgement.note);
    judgement.exit
}

/// Reads a saved result, judges it against itself and writes it; false where it is none. For [`crate::parsers`].
pub(crate) fn takes(text: &str) -> bool {
    let (Ok(mut document), Ok(saved)) = (baseline::parse(text), baseline::parse(text)) else {
        return false;
    };
    let judge = Judge::new(Asked {
        gates: &["instructions:u=1%".to_owned()],
        floors: &[],
        named: Vec::new(),
        baseline: Some(Saved {
            commands: saved.commands,
            environment: saved.environment,
        }),
        accept: Accept {
            machine: true,
            environment: true,
        },
        ..Asked::default()
    });
    let out = &mut std::io::sink();
    judge.is_ok_and(|judge| {
        judged(&judge, &mut document);
        text::write(out, &document).is_ok() && html::write(out, &document).is_ok()
    })
}

/// Prints the result and writes the files; failures come back after everything that can be shown was shown.
fn show(args: &Args, document: &Document) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut print = |write: &dyn Fn(&mut Output) -> std::io::Result<()>| {
        let printed = Output::open(None, false).and_then(|mut out| {
            write(&mut out)?;
            Ok(out.flush()?)
        });
        failures.extend(printed.err());
    };
    // The text gives way to a machine's format on stdout.
    let taken = [&args.json, &args.csv, &args.markdown, &args.html]
        .iter()
        .any(|path| path.as_deref() == Some(Path::new("-")));
    if !taken {
        print(&|out| text::write(out, document));
    }
    let show = &args.show;
    type Writer = fn(&mut dyn Write, &Document) -> std::io::Result<()>;
    let forms: [(&Option<std::path::PathBuf>, Writer); 10] = [
        (&args.save, json::write),
        (&args.json, json::write),
        (&args.csv, separated::write),
        (&args.markdown, markdown::write),
        (&args.html, html::write),
        (&show.export_json, json::write),
        (&show.export_csv, separated::write),
        (&show.export_markdown, markdown::write),
        (&show.export_asciidoc, markdown::asciidoc),
        (&show.export_orgmode, markdown::orgmode),
    ];
    for (path, write) in forms {
        let Some(path) = path else { continue };
        if path == Path::new("-") {
            print(&|out| write(out, document));
        }
    }
    for (path, write) in forms {
        let Some(path) = path.as_deref().filter(|path| *path != Path::new("-")) else {
            continue;
        };
        let written = ResultFile::open(path).and_then(|mut file| {
            let mut text = Vec::new();
            write(&mut text, document)?;
            file.write(&text)
        });
        failures.extend(written.err());
    }
    failures
}

/// A program smaller than the launcher shows the launcher's memory (see `runner`): that is said.
fn small_memory(floor: Option<u64>, commands: &[Command]) -> Option<String> {
    let floor = floor?;
    let names: Vec<&str> = commands
        .iter()
        .filter(|command| {
            let metric = command.metrics.get("max-rss");
            metric
                .and_then(|metric| metric.min)
                .is_some_and(|min| min <= floor)
        })
        .map(|command| command.name.as_str())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "max-rss of {} is an upper bound: the process that starts it has {} itself.",
            names.join(", "),
            truecount_model::number::size(floor as f64)
        )
    })
}
