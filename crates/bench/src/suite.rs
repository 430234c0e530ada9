//! Runs the suite: here where counters answer, else once more under the virtual PMU.

use crate::arguments::{ALLOCATIONS, Arguments, HELP, Source, TIME};
use crate::aside::Aside;
use crate::baseline;
use crate::bencher::{Bencher, Benchmark, Calibrated, Runs, Task};
use crate::ends;
use crate::report::{Document, Metric};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use truecount::{Counter, Fence};
use truecount_engine::virt;

/// Set in the run under the virtual PMU.
const INSIDE: &str = "TRUECOUNT_BENCH_INSIDE";
/// There: the document with the times, which were taken before, outside.
const TIMES: &str = "TRUECOUNT_BENCH_TIMES";
/// Calls of which the least time is taken.
const TIMED: u32 = 30;
/// Counted runs where nobody asks for a number.
const USUAL: u32 = 5;

const CANNOT: u8 = 1;
const USAGE: u8 = 2;
const REGRESSION: u8 = 3;

/// Why the suite ends early: its exit status and one line.
struct Stop(u8, String);

/// The `main` of a suite (`harness = false`): runs the benchmarks that the command line asks for.
#[must_use]
pub fn main() -> ExitCode {
    let _watched = ends::Watched::new();
    match run() {
        Ok(status) => status,
        Err(Stop(status, why)) => {
            let _ = writeln!(std::io::stderr(), "error: {why}");
            ExitCode::from(status)
        }
    }
}

fn run() -> Result<ExitCode, Stop> {
    let given = std::env::args_os().skip(1);
    let given = given.map(|argument| {
        // Another name than the one that was given would be another file.
        let text = argument.into_string();
        text.map_err(|argument| Stop(USAGE, format!("{} is not UTF-8", argument.display())))
    });
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let mut arguments = Arguments::parse(given).map_err(|why| Stop(USAGE, why))?;
    arguments.fix_paths();
    if arguments.help {
        return print(&format!("{HELP}\n"));
    }
    let mut benchmarks: Vec<(String, &Benchmark)> = inventory::iter::<Benchmark>()
        .map(|benchmark| (benchmark.full_name(), benchmark))
        .collect();
    benchmarks.sort_by(|a, b| a.0.cmp(&b.0));
    if let Some(twice) = benchmarks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(Stop(
            USAGE,
            format!(
                "two benchmarks are named {}: give one of them a group or a name",
                twice[0].0
            ),
        ));
    }
    let wanted = |name: &str| arguments.wants(name);
    if arguments.list || !arguments.bench {
        let task = || {
            if arguments.list {
                Task::List
            } else {
                Task::Once
            }
        };
        let end = if arguments.list {
            ": benchmark"
        } else {
            ": ok"
        };
        let mut text = String::new();
        for (name, benchmark) in &benchmarks {
            for case in cases(name, benchmark, &wanted, task()) {
                text += &format!("{}{end}\n", case.name);
            }
        }
        return print(&text);
    }
    if !is_inside() && none_is_wanted(&arguments, &benchmarks)? {
        return Ok(ExitCode::SUCCESS);
    }
    if !natively(&arguments)? {
        return inside(&arguments, &benchmarks);
    }
    let before = match &arguments.baseline {
        Some(name) => Some(baseline::load(&arguments, name).map_err(|why| Stop(USAGE, why))?),
        None => None,
    };
    let mut document = Document::new();
    let aside = aside(&arguments)?;
    for (number, event) in arguments.events.iter().enumerate() {
        count(&arguments, &benchmarks, event, number == 0, &mut document);
    }
    if arguments.time {
        let times = match std::env::var_os(TIMES) {
            Some(file) => taken(Path::new(&file))?,
            None => times(&arguments, &benchmarks),
        };
        document.join(times);
    }
    drop(aside);
    finish(&arguments, &mut document, before.as_ref())
}

/// Says where the filters leave no case. No error: `cargo bench -- FILTER` asks every suite of the package, and ends at the
/// first that fails.
fn none_is_wanted(
    arguments: &Arguments,
    benchmarks: &[(String, &Benchmark)],
) -> Result<bool, Stop> {
    let wanted = |name: &str| arguments.wants(name);
    let mut names = BTreeSet::new();
    for (name, benchmark) in benchmarks {
        for case in cases(name, benchmark, &wanted, Task::List) {
            if let Some(twice) = names.replace(case.name) {
                let why = format!(
                    "two cases are named {twice}: `args` must differ in what {{:?}} shows of them"
                );
                return Err(Stop(USAGE, why));
            }
        }
    }
    if !names.is_empty() {
        return Ok(false);
    }
    if !arguments.ignored {
        let why = if benchmarks.is_empty() {
            "this suite has no benchmarks (#[bench])"
        } else {
            "no benchmark of this suite has such a name (--list): nothing was counted"
        };
        let _ = writeln!(std::io::stderr(), "note: {why}");
    }
    Ok(true)
}

/// Where the document goes to stdout: what benchmarks print would be in the middle of it.
fn aside(arguments: &Arguments) -> Result<Option<Aside>, Stop> {
    let wanted = arguments.json == Some(None);
    let aside = wanted.then(Aside::new).transpose();
    aside.map_err(|error| Stop(CANNOT, format!("cannot redirect stdout: {error}")))
}

/// Whether this is the run under the virtual PMU.
fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The times of the benchmarks, taken in this process.
fn times(arguments: &Arguments, benchmarks: &[(String, &Benchmark)]) -> Document {
    let mut document = Document::new();
    count(arguments, benchmarks, TIME, false, &mut document);
    document
}

/// Times that the process outside wrote.
fn taken(file: &Path) -> Result<Document, Stop> {
    let cannot = |error: &dyn std::fmt::Display| Stop(CANNOT, format!("no times: {error}"));
    let text = std::fs::read(file).map_err(|error| cannot(&error))?;
    serde_json::from_slice(&text).map_err(|error| cannot(&error))
}

/// Runs the cases of one benchmark that are asked for.
fn cases(
    name: &str,
    benchmark: &Benchmark,
    wanted: &dyn Fn(&str) -> bool,
    task: Task<'_>,
) -> Vec<crate::bencher::Case> {
    let mut bencher = Bencher {
        benchmark: name,
        wanted,
        task,
        cases: Vec::new(),
    };
    (benchmark.run)(&mut bencher);
    bencher.cases
}

/// Whether to count in this process.
fn natively(arguments: &Arguments) -> Result<bool, Stop> {
    if is_inside() {
        return Ok(true);
    }
    let here = Calibrated::open("instructions:u", false);
    match (arguments.source, here) {
        (Source::Virtual, _) | (Source::Auto, Err(_)) => Ok(false),
        (Source::Auto | Source::Native, Ok(_)) => Ok(true),
        (Source::Native, Err(error)) => Err(Stop(
            CANNOT,
            format!("{error} (--source virtual counts without a PMU)"),
        )),
    }
}

/// A file for the run under the virtual PMU, removed when that is over.
struct Kept(PathBuf);

impl Kept {
    fn new(document: &Document) -> std::io::Result<Self> {
        let text = serde_json::to_vec(document)?;
        // A suite that was killed has left its own.
        let mut number = 0;
        let (path, mut file) = loop {
            // The name's length is part of the environment, which must be the same in every run.
            let name = format!(
                "truecount-bench-{:010}-{number:02}.json",
                std::process::id()
            );
            let path = std::env::temp_dir().join(name);
            match std::fs::File::create_new(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 99 => {
                    number += 1;
                }
                made => break (path, made?),
            }
        };
        let kept = Self(path);
        file.write_all(&text)?;
        Ok(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The same program again, under the virtual PMU.
fn inside(arguments: &Arguments, benchmarks: &[(String, &Benchmark)]) -> Result<ExitCode, Stop> {
    let cannot = |why: String| {
        Stop(
            CANNOT,
            format!("the virtual PMU cannot run the suite: {why}"),
        )
    };
    let own = std::env::current_exe().map_err(|error| cannot(error.to_string()))?;
    let mut command = Command::new(own);
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    let kept;
    if arguments.time {
        let _aside = aside(arguments)?;
        kept =
            Kept::new(&times(arguments, benchmarks)).map_err(|error| cannot(error.to_string()))?;
        command.env(TIMES, &kept.0);
    }
    // Branches come from counters of every block.
    let blocks = arguments
        .events
        .iter()
        .any(|event| event != "instructions:u");
    let outcome =
        virt::run_held_constant(&mut command, blocks).map_err(|error| cannot(error.to_string()))?;
    let status = outcome.status;
    match status.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(CANNOT))),
        None => Err(Stop(CANNOT, format!("the suite ended by {status}"))),
    }
}

/// How often a case is counted: as often as was asked for, else until it is plain, which by the virtual PMU comes sooner, as
/// there is no noise.
fn runs(asked: Option<u32>, event: &str, by: &Counter<Fence>) -> Runs {
    match asked {
        _ if event == TIME => Runs::Just(asked.unwrap_or(USUAL).max(TIMED)),
        Some(asked) => Runs::Just(asked),
        None if by.source() == truecount::Source::Virtual && by.is_exact() => {
            Runs::UntilEqual(USUAL)
        }
        None => Runs::Just(USUAL),
    }
}

fn count(
    arguments: &Arguments,
    benchmarks: &[(String, &Benchmark)],
    event: &str,
    first: bool,
    document: &mut Document,
) {
    let opened = Calibrated::open(event, is_inside());
    let wanted = |name: &str| arguments.wants(name);
    for (name, benchmark) in benchmarks {
        let task = match &opened {
            Ok(by) => Task::Count {
                by,
                runs: runs(arguments.runs, event, by.counter()),
                warmup: arguments.warmup,
                allocations: first,
            },
            Err(_) => Task::List,
        };
        for case in cases(name, benchmark, &wanted, task) {
            let (source, unit, exact, not_available) = match &opened {
                Ok(by) => {
                    let counter = by.counter();
                    let wrong = counter.check().err().map(|error| error.to_string());
                    (
                        source(counter.source()),
                        counter.unit().to_owned(),
                        counter.is_exact(),
                        wrong,
                    )
                }
                Err(error) => ("none", String::new(), false, Some(error.clone())),
            };
            let right = not_available.is_none();
            let bench = document.bench(&case.name);
            bench.metrics.push(Metric {
                event: event.to_owned(),
                unit,
                source: source.to_owned(),
                exact: exact && right,
                count: case.counts.iter().copied().min().filter(|_| right),
                counts: if right { case.counts } else { Vec::new() },
                not_available,
                baseline: None,
                regression: None,
            });
            if let Some((calls, bytes)) = case.allocations {
                let [of_calls, of_bytes] = ALLOCATIONS;
                for (event, unit, count) in [(of_calls, "count", calls), (of_bytes, "B", bytes)] {
                    bench.metrics.push(Metric {
                        event: event.to_owned(),
                        unit: unit.to_owned(),
                        source: "software".to_owned(),
                        exact: true,
                        count: Some(count),
                        counts: vec![count],
                        not_available: None,
                        baseline: None,
                        regression: None,
                    });
                }
            }
        }
    }
}

fn source(source: truecount::Source) -> &'static str {
    match source {
        truecount::Source::Hardware => "hardware",
        truecount::Source::Virtual => "virtual",
        truecount::Source::Step => "step",
        _ => "software",
    }
}

fn finish(
    arguments: &Arguments,
    document: &mut Document,
    before: Option<&Document>,
) -> Result<ExitCode, Stop> {
    let mut notes = Vec::new();
    if let Some(before) = before {
        notes = baseline::compare(arguments, document, before);
    }
    let json = serde_json::to_string_pretty(document)
        .map_err(|error| Stop(CANNOT, error.to_string()))?
        + "\n";
    match &arguments.json {
        Some(None) => print(&json)?,
        Some(Some(path)) => {
            baseline::write(path, &json)
                .map_err(|error| Stop(CANNOT, format!("{}: {error}", path.display())))?;
            print(&document.text())?
        }
        None => print(&document.text())?,
    };
    for note in notes {
        let _ = writeln!(std::io::stderr(), "note: {note}");
    }
    if let Some(name) = &arguments.save {
        let path = baseline::save(arguments, name, document).map_err(|why| Stop(CANNOT, why))?;
        let _ = writeln!(
            std::io::stderr(),
            "saved as baseline {name}: {}",
            path.display()
        );
    }
    let counted = |metric: &Metric| metric.count.is_some();
    if document.has_regression() {
        return Ok(ExitCode::from(REGRESSION));
    }
    if !document
        .benches
        .iter()
        .flat_map(|b| &b.metrics)
        .all(counted)
    {
        return Ok(ExitCode::from(CANNOT));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) -> Result<ExitCode, Stop> {
    let written = std::io::stdout().write_all(text.as_bytes());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Stop(CANNOT, format!("cannot write the result: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
