//! Tests of the command that need a PMU. Without one each prints `skipped: …`; `cargo xtask vm-test` runs them
//! inside virtual machines that have one. One module a topic.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

#[path = "hardware/check.rs"]
mod check;
#[path = "hardware/discover.rs"]
mod discover;
#[path = "hardware/exactness.rs"]
mod exactness;
#[path = "hardware/interrupts.rs"]
mod interrupts;
#[path = "hardware/noise.rs"]
mod noise;
#[path = "hardware/overhead.rs"]
mod overhead;
#[path = "hardware/places.rs"]
mod places;
#[path = "support/pty.rs"]
mod pty;
#[path = "hardware/record.rs"]
mod record;
#[path = "hardware/stat.rs"]
mod stat;
#[path = "hardware/system.rs"]
mod system;
#[path = "hardware/top.rs"]
mod top;

/// The command, as it was built, or where `TRUECOUNT_BIN` says that it lies.
fn truecount() -> Command {
    let built = std::env::var_os("TRUECOUNT_BIN");
    Command::new(built.unwrap_or_else(|| env!("CARGO_BIN_EXE_truecount").into()))
}

/// Says that a test is skipped; fails where it must not be.
fn skip(reason: &str) {
    truecount_testing::skip!("pmu", "{reason}");
}

/// Why the CPU's counters cannot be used, if they cannot.
fn no_hardware() -> Option<String> {
    let output = truecount()
        .args(["check", "--require", "hardware"])
        .output()
        .unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
