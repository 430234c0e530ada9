//! What the commands that read recordings share.

use std::path::Path;

use truecount_sample::Error;

use crate::failure::Failure;

/// What makes the file that is missing.
pub(crate) enum Wanted {
    /// Any recording: works on every machine.
    Samples,
    /// One with branch stacks, which need a PMU.
    BranchStacks,
}

/// Turns a reader's error into the command's.
pub(crate) fn unreadable(path: &Path, error: &Error, wanted: Wanted) -> Failure {
    let failure = match error {
        Error::Io { .. } => Failure::new(1, error.to_string()),
        _ => Failure::new(1, format!("{}: {error}", path.display())),
    };
    match error {
        Error::Io { .. } => failure.hint(match wanted {
            Wanted::Samples => "record one with `truecount record -o FILE -- CMD`",
            Wanted::BranchStacks => {
                "record one with `truecount record -b -o FILE -- CMD`, or without a PMU time blocks with `truecount latency`"
            }
        }),
        Error::Damaged { .. } => failure.hint("record again, or cut the file before that offset"),
        _ => failure,
    }
}

/// A number of an address: decimal, or hexadecimal after 0x.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
