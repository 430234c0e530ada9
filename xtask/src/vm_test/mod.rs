//! `cargo xtask vm-test`: the tests that need a PMU, inside virtual machines that have one.
//!
//! Each crate of [`plan::SUITES`] with a `tests/hardware.rs` is built for the rig's architecture, stripped,
//! and run there once as root and, where the plan says so, without privilege under
//! `kernel.perf_event_paranoid`. The test runners' own closing lines are printed, and all output of a run
//! that failed. Runs go side by side ([`jobs`]), while what the next ones need is built.

mod build;
mod jobs;
mod outcome;
mod plan;
mod programs;
mod rig;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use build::Builder;
use jobs::{Job, Shipped};
use outcome::Tally;
use plan::{Arch, SUITES, Suite};

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
    let (sender, jobs) = channel();
    let mut ran = false;
    let total = jobs::run_all(jobs, || {
        let mut unbuilt = Tally::default();
        for arch in archs {
            match offer_arch(root, &rigs, arch, &options, &sender) {
                Ok(None) => {}
                Ok(Some(failed)) => {
                    ran = true;
                    unbuilt.add(&failed);
                }
                Err(error) => {
                    ran = true;
                    println!("failed: {error:#}");
                    unbuilt.failed += 1;
                }
            }
        }
        // No more will come.
        drop(sender);
        unbuilt
    });
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

/// Builds all suites of one architecture and offers their runs; what could not be built; nothing where there is no rig for
/// it.
fn offer_arch(
    root: &Path,
    rigs: &Path,
    arch: Arch,
    options: &Options,
    jobs: &Sender<Job>,
) -> Result<Option<Tally>> {
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
            let unbuilt = offer_suite(root, &script, &builder, suite, options, jobs);
            total.get_or_insert_with(Tally::default).add(&unbuilt);
        }
    }
    Ok(total)
}

/// Builds what a suite ships into the guest: its test executable, and the programs that it starts.
fn ship(builder: &Builder, suite: &Suite) -> Result<Shipped> {
    let test = builder.hardware_test(suite.package)?;
    let mut files = Vec::new();
    for binary in suite.binaries {
        files.push(rig::Extra {
            variable: binary.variable,
            source: builder.binary(binary.package, binary.name)?,
            destination: format!("/tmp/{}", binary.name),
        });
    }
    for program in suite.programs {
        match programs::built(builder, program)? {
            Ok(source) => files.push(rig::Extra {
                variable: program.variable,
                destination: format!("/tmp/{}", program.variable.to_lowercase()),
                source,
            }),
            Err(why) => println!("skipped: {}: {why}", program.source),
        }
    }
    Ok(Shipped { test, files })
}

/// Builds a suite and offers its runs under each privilege of its plan; what failed before that.
fn offer_suite(
    root: &Path,
    script: &Path,
    builder: &Builder,
    suite: &Suite,
    options: &Options,
    jobs: &Sender<Job>,
) -> Tally {
    let arch = builder.arch();
    let name = format!("{} {}", arch.name(), suite.package);
    let mut tally = Tally::default();
    if !root
        .join(suite.directory)
        .join("tests/hardware.rs")
        .is_file()
    {
        println!("skipped: {name}: it has no tests/hardware.rs");
        return tally;
    }
    let shipped = match ship(builder, suite) {
        Ok(shipped) => Arc::new(shipped),
        Err(error) => {
            // The other suites can still say something.
            println!("failed: {name}: {error:#}");
            tally.failed += 1;
            return tally;
        }
    };
    let runs = suite.runs.iter().filter(|run| run.exists_on(arch));
    for &privilege in runs {
        let Some(filters) = privilege.filters(options.filter.as_deref()) else {
            continue;
        };
        // (Who takes them is there as long as this is.)
        let _ = jobs.send(Job {
            name: name.clone(),
            script: script.to_path_buf(),
            arch,
            shipped: shipped.clone(),
            privilege,
            filters,
            verbose: options.verbose,
        });
    }
    tally
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
