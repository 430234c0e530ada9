//! `truecount bench`: commands measured in interleaved rounds, described and compared.

mod args;
mod baseline;
mod capture;
mod collect;
mod compare;
mod document;
mod gate;
mod hooks;
mod html;
mod jobs;
mod judge;
mod markdown;
mod measure;
mod metrics;
mod params;
mod plan;
mod progress;
mod separated;
mod stop;
mod svg;
mod text;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, cannot_write};
use crate::program_args::parse_online_cpus;
use crate::render::json;
pub(crate) use args::Args;
use capture::Capture;
use document::{Command, Document, Map, SCHEMA};
use hooks::Hook;
use judge::Judge;
use measure::{ExactRuns, Setting};
use truecount_run::determinism::Fixed;
use truecount_run::env_record::Environment;
use truecount_run::session::{Session, fresh_seed};

/// Runs `truecount bench`.
pub(crate) fn run(args: &Args) -> CmdResult {
    let judge = Judge::new(args)?;
    if let Some(path) = &args.from {
        let document = baseline::read(path)?;
        if let Some(command) = document.commands.first() {
            judge.check(document.commands.len(), &command.metrics)?;
        }
        return conclude(args, &judge, document, None);
    }
    // The launcher is forked before anything grows.
    let mut session = Session::start()?;
    let parameters = params::parse(&args.parameter_range, &args.parameter_list)?;
    let jobs = jobs::make(
        &args.commands,
        &args.words,
        &args.name,
        args.shell.as_deref(),
        &parameters,
    )?;
    let words = args.words.iter().map(|word| word.to_string_lossy());
    let commands: Vec<_> = args.commands.iter().map(Into::into).chain(words).collect();
    params::check_use(&parameters, &commands)?;
    for path in [
        &args.save,
        &args.json,
        &args.csv,
        &args.markdown,
        &args.html,
    ] {
        path.as_deref()
            .map_or(Ok(()), crate::output::can_be_written)?;
    }
    let written = jobs.iter().map(|job| job.written + 1).max().unwrap_or(0);
    let setup = Hook::new("--setup", &args.setup, written)?;
    let cleanup = Hook::new("--cleanup", &args.cleanup, written)?;
    let rule = stop::Rule::from_args(args.rounds, args.budget, &args.until)?;
    let fixed = args.fixed.fixed();
    let cpus = match &args.cpu {
        Some(text) => {
            parse_online_cpus(text).map_err(|error| Failure::new(2, format!("--cpu: {error}")))?
        }
        None => fixed.as_ref().map_or(&[][..], Fixed::cpus).to_vec(),
    };
    args.cache.apply();
    let mut source = args.source.select()?;
    let machine = truecount_run::machine::this(args.event_dir.as_deref())?;
    let plan = plan::make(args, &mut *source, &machine)?;
    judge.check(jobs.len(), &plan.collected().finish(0))?;
    let setting = Setting {
        jobs: &jobs,
        prepare: Hook::new("--prepare", &args.prepare, written)?,
        conclude: Hook::new("--conclude", &args.conclude, written)?,
        ignore: args.ignore()?,
        sink: args.sink()?,
        input: args.input()?,
        cpus,
        metrics: &plan.metrics,
        keep_aslr: args.aslr,
        fixed: fixed.as_ref(),
        timeout: args.timeout,
        capture: Capture::new()?,
    };
    // Opened before the runs: a wrong path must not cost them. What exists is kept until the end.
    let mut environment = Environment::gather(args.aslr, &setting.cpus);
    for job in &jobs {
        environment.add_command(&job.argv, Some(&job.program));
    }
    let seed = args.seed.unwrap_or_else(fresh_seed);

    for job in &jobs {
        setup.run(&mut session, job)?;
    }
    let mut collected: Vec<collect::Collected> = jobs.iter().map(|_| plan.collected()).collect();
    let mut stopped = None;
    let mut measured = 0;
    let mut missing = Vec::new();
    if plan.engine.is_empty() || args.rounds != Some(0) {
        let mut native = plan.native();
        let outcome = measure::rounds(
            &setting,
            &mut session,
            &mut native,
            &plan.batches,
            collected,
            (seed, args.warmup),
            &rule,
        );
        collected = outcome.collected;
        measured = outcome.rounds;
        stopped = outcome.stopped;
        missing = outcome.missing;
        if outcome.aslr_refused {
            environment.aslr = Some(true);
        }
    }
    if stopped.is_none() && !plan.engine.is_empty() {
        let mut exact = ExactRuns {
            source: &mut *source,
            groups: &plan.engine,
            runs: args.exact_runs,
        };
        stopped = measure::exact_runs(
            &setting,
            &mut session,
            &mut exact,
            &mut collected,
            &mut missing,
        )
        .err();
    }
    for job in &jobs {
        cleanup.run(&mut session, job)?;
    }

    let commands: Vec<Command> = jobs
        .iter()
        .zip(collected)
        .map(|(job, collected)| Command {
            command: job
                .argv
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            name: job.name.clone(),
            parameters: Map(job.values.clone()),
            runs: collected.runs,
            failures: collected.failures,
            metrics: collected.finish(measured),
        })
        .collect();
    let mut notes = plan.notes;
    if let Some(fixed) = &fixed {
        notes.extend(fixed.record(&missing, &mut environment));
    }
    notes.extend(small_memory(session.launcher.floor(), &commands));
    let document = Document {
        schema: SCHEMA.to_owned(),
        commands,
        comparisons: Vec::new(),
        gates: Vec::new(),
        seed,
        rounds: measured,
        warmup: args.warmup,
        stopped: stopped.as_ref().map(|failure| failure.cause.clone()),
        notes,
        environment,
    };
    conclude(args, &judge, document, stopped)
}

/// Judges a result, shows it and writes the files.
fn conclude(
    args: &Args,
    judge: &Judge,
    mut document: Document,
    stopped: Option<Failure>,
) -> CmdResult {
    let gate = judge.apply(&mut document);
    let any = document.commands.iter().any(|command| {
        let mut metrics = command.metrics.iter();
        command.runs > 0 || metrics.any(|(_, metric)| !metric.samples.is_empty())
    });
    let mut failures = Vec::new();
    if any {
        failures = show(args, &document);
    }
    // Whoever closed a pipe has seen enough; the gate's answer stands.
    failures.retain(|failure| !failure.closed_pipe);
    Failure::of_all(stopped.into_iter().chain(failures).map(Err))?;
    Ok(Outcome(gate))
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
    type Writer = fn(&mut dyn Write, &Document) -> std::io::Result<()>;
    let forms: [(&Option<std::path::PathBuf>, Writer); 5] = [
        (&args.save, json::write),
        (&args.json, json::write),
        (&args.csv, separated::write),
        (&args.markdown, markdown::write),
        (&args.html, html::write),
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
        let written = File::create(path).and_then(|file| {
            let mut out = BufWriter::new(file);
            write(&mut out, document)?;
            out.flush()
        });
        if let Err(error) = written {
            failures.push(cannot_write(path, &error));
        }
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
