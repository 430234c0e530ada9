//! Development tasks: `cargo xtask TASK`.

mod conformance;
mod dist;
mod docs;
mod fuzz;
mod gen_events;
mod speed;
mod tidy;
mod vm_test;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

const USAGE: &str = "\
usage: cargo xtask TASK
  vm-test [--only x86|arm64] [FILTER]        runs the tests that need a PMU in virtual machines
  tidy                                       checks the invariants of docs/architecture.md
  docs [--check]                             makes, or compares, the output that pages show
  fuzz [--mutants N] [TARGET…]               feeds every parser millions of damaged inputs
  gen-events --source DIR                    writes the event tables from Linux' pmu-events
  check-events [--count N] [--seed N]        compares the event tables with libpfm4
  dist [--arch ARCH] [--out DIRECTORY]       makes the packages that people install
  conformance [--all|--ci] [--OPTION…] [FILTER…]  programs behave under the virtual PMU as natively
  speed [--rounds N] [--valgrind] [FILTER…]  what the virtual PMU costs, in CPU time against native";

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    match task.as_str() {
        "check-events" => gen_events::oracle::main(&rest),
        "gen-events" => gen_events::main(&root(), &rest),
        "dist" => dist::main(&root(), &rest),
        "conformance" => conformance::main(&root(), &rest),
        "fuzz" => fuzz::main(&root(), &rest),
        "docs" => docs::main(&root(), &rest),
        "tidy" => tidy::main(&root()),
        "vm-test" => vm_test::main(&root(), &rest),
        "speed" => speed::main(&root(), &rest),
        _ => bail!("{USAGE}"),
    }
}

/// The workspace's directory.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
