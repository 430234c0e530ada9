//! `cargo xtask fuzz [--mutants N] [--threads N] [--keep FILE] [--first N] [--seed N] [TARGET…]`: mutants over all
//! parsers of outside data, in one process, optimized and with the checks of overflows and of the debug build. The work
//! is in `crates/fuzz-targets/src/bin/mutants.rs`; libFuzzer's targets, which look for more by coverage, are in `fuzz/`.

use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// Where nothing else was asked for.
const MUTANTS: &str = "10000000";

pub(crate) fn main(root: &Path, arguments: &[String]) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args([
        "run",
        "--release",
        "-p",
        "truecount-fuzz-targets",
        "--bin",
        "mutants",
    ]);
    for setting in [
        "lto=false",
        "codegen-units=16",
        "overflow-checks=true",
        "debug-assertions=true",
    ] {
        cargo.args(["--config", &format!("profile.release.{setting}")]);
    }
    cargo.args(["--target-dir", "target/fuzz", "--"]);
    if !arguments.iter().any(|word| word == "--mutants") {
        cargo.args(["--mutants", MUTANTS]);
    }
    // Some parsers want files: millions of them belong into memory.
    if Path::new("/dev/shm").is_dir() {
        cargo.env("TMPDIR", "/dev/shm");
    }
    if !cargo.args(arguments).status()?.success() {
        bail!("a mutant failed: its number is above");
    }
    Ok(())
}
