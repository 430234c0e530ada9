//! `cargo xtask vm-test`: the tests that need a PMU, inside virtual machines that have one.
//!
//! Each crate of [`plan::SUITES`] with a `tests/hardware.rs` is built for the rig's architecture, stripped,
//! and run there once as root and, where the plan says so, without privilege under
//! `kernel.perf_event_paranoid`. The test runners' own closing lines are printed, and all output of a run
//! that failed. The architectures run side by side: a rig keeps one processor busy.

mod build;
mod outcome;
mod plan;
mod programs;
mod rig;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

use build::Builder;
use outcome::{Tally, judge};
use plan::{Arch, Privilege, SUITES, Suite};

const USAGE: &str = "\
usage: cargo xtask vm-test [--only x86|arm64] [--package NAME] [--release] [--verbose] [FILTER]
  Runs tests/hardware.rs of the crates inside the PMU rigs of $TRUECOUNT_SHARED (../shared).
  FILTER goes to the test runners: only tests whose name contains it.";

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    only: Option<Arch>,
    package: Option<String>,
    release: bool,
    verbose: bool,
    filter: Option<String>,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--only" => {
                let name = rest.next().map(String::as_str);
                let arch = name.and_then(Arch::named);
                options.only =
                    Some(arch.with_context(|| format!("--only takes x86 or arm64\n{USAGE}"))?);
            }
            "--package" | "-p" => {
                let name = rest
                    .next()
                    .with_context(|| format!("--package takes a name\n{USAGE}"))?;
                if !SUITES.iter().any(|suite| suite.package == name) {
                    let all: Vec<_> = SUITES.iter().map(|suite| suite.package).collect();
                    bail!(
                        "{name} has no tests for the rigs: {} have\n{USAGE}",
                        all.join(", ")
                    );
                }
                options.package = Some(name.clone());
            }
            "--release" => options.release = true,
            "--verbose" | "-v" => options.verbose = true,
            other if other.starts_with('-') || options.filter.is_some() => {
                bail!("unknown argument {other}\n{USAGE}")
            }
            filter => options.filter = Some(filter.to_owned()),
        }
    }
    Ok(options)
}

/// The directory with the rigs: `TRUECOUNT_SHARED`, or `../shared` beside the workspace.
fn shared(root: &Path) -> PathBuf {
    std::env::var_os("TRUECOUNT_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from)
}

/// The task.
pub fn main(root: &Path, arguments: &[String]) -> Result<()> {
    if arguments
        .iter()
        .any(|argument| argument == "--help" || argument == "-h")
    {
        println!("{USAGE}");
        return Ok(());
    }
    let options = parse(arguments)?;
    let rigs = shared(root).join("rigs");
    let archs = Arch::ALL
        .into_iter()
        .filter(|arch| options.only.is_none_or(|only| only == *arch));
    let (rigs, options) = (&rigs, &options);
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = archs
            .map(|arch| scope.spawn(move || run_arch(root, rigs, arch, options)))
            .collect();
        let results = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        results.collect::<Vec<_>>()
    });
    let mut total = Tally::default();
    let mut ran = false;
    for result in results {
        // A panic of a thread has been printed; what else ran is still told.
        match result.unwrap_or_else(|_| Err(anyhow::anyhow!("a run of an architecture panicked"))) {
            Ok(None) => {}
            Ok(Some(tally)) => {
                ran = true;
                total.add(&tally);
            }
            Err(error) => {
                ran = true;
                println!("failed: {error:#}");
                total.failed += 1;
            }
        }
    }
    if ran {
        println!("vm-test: {} passed, {} failed", total.passed, total.failed);
    }
    if total.failed > 0 {
        bail!("{} of the tests in virtual machines failed", total.failed);
    }
    if ran && total.passed == 0 {
        bail!("no test ran: the filter is in no test's name");
    }
    Ok(())
}

/// All suites of one architecture; nothing where there is no rig for it.
fn run_arch(root: &Path, rigs: &Path, arch: Arch, options: &Options) -> Result<Option<Tally>> {
    let script = rigs.join(arch.script());
    if !script.is_file() {
        println!(
            "skipped: {}: no rig at {} (set TRUECOUNT_SHARED)",
            arch.name(),
            script.display()
        );
        return Ok(None);
    }
    let builder = Builder::new(root, arch, options.release)?;
    let mut total = None;
    for suite in SUITES.iter().filter(|suite| suite.archs.contains(&arch)) {
        if options
            .package
            .as_ref()
            .is_none_or(|only| only == suite.package)
        {
            let tally = run_suite(root, &script, &builder, suite, options)?;
            total.get_or_insert_with(Tally::default).add(&tally);
        }
    }
    Ok(total)
}

/// Builds what a suite ships into the guest: its test executable, and the programs that it starts.
fn ship(builder: &Builder, suite: &Suite) -> Result<(PathBuf, Vec<rig::Extra>)> {
    let test = builder.hardware_test(suite.package)?;
    let mut extras = Vec::new();
    for binary in suite.binaries {
        extras.push(rig::Extra {
            variable: binary.variable,
            source: builder.binary(binary.package, binary.name)?,
            destination: format!("/tmp/{}", binary.name),
        });
    }
    for program in suite.programs {
        match programs::built(builder, program)? {
            Ok(source) => extras.push(rig::Extra {
                variable: program.variable,
                destination: format!("/tmp/{}", program.variable.to_lowercase()),
                source,
            }),
            Err(why) => println!("skipped: {}: {why}", program.source),
        }
    }
    Ok((test, extras))
}

/// Builds a suite and runs it under each privilege of its plan.
fn run_suite(
    root: &Path,
    script: &Path,
    builder: &Builder,
    suite: &Suite,
    options: &Options,
) -> Result<Tally> {
    let name = format!("{} {}", builder.arch().name(), suite.package);
    let mut tally = Tally::default();
    if !root
        .join(suite.directory)
        .join("tests/hardware.rs")
        .is_file()
    {
        println!("skipped: {name}: it has no tests/hardware.rs");
        return Ok(tally);
    }
    let (test, files) = match ship(builder, suite) {
        Ok(shipped) => shipped,
        Err(error) => {
            // The other suites can still say something.
            println!("failed: {name}: {error:#}");
            tally.failed += 1;
            return Ok(tally);
        }
    };
    let runs = suite.runs.iter();
    for privilege in runs.filter(|run| run.exists_on(builder.arch())) {
        let Some(filters) = privilege.filters(options.filter.as_deref()) else {
            continue;
        };
        let run = rig::run(
            script,
            builder.arch(),
            &test,
            &files,
            *privilege,
            &filters,
            options.verbose,
        )?;
        let verdict = judge(&run, matches!(privilege, Privilege::Root));
        // In one piece: another architecture prints beside it.
        let mut report = format!("vm-test: {name}, {}\n", privilege.describe(builder.arch()));
        if verdict.failed() && !options.verbose {
            report.push_str(&run.output);
        }
        for line in verdict.closing.iter().chain(&verdict.complaints) {
            report.push_str(&format!("  {line}\n"));
        }
        print!("{report}");
        tally.add(&verdict.tally);
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn command_lines() {
        assert_eq!(parse(&[]).unwrap(), Options::default());
        let options = parse(&words("--only arm64 --release -v -p truecount groups")).unwrap();
        assert_eq!(options.only, Some(Arch::Arm64));
        assert!(options.release && options.verbose);
        assert_eq!(options.filter.as_deref(), Some("groups"));
        assert_eq!(options.package.as_deref(), Some("truecount"));
        for bad in [
            "--only",
            "--only riscv",
            "--nope",
            "a b",
            "--package",
            "-p truecount-capi",
        ] {
            let error = parse(&words(bad)).unwrap_err().to_string();
            assert!(error.contains("usage:"), "{bad}: {error}");
        }
    }
}
