//! When `stat` begins to count, and who switches it: perf's `-D` and `--control` (perf-stat(1)).

use std::time::Duration;

use crate::failure::Failure;
use truecount_run::source::{Begin, Control};

/// Options of `stat` that say when.
#[derive(clap::Args)]
pub(super) struct SwitchArgs {
    /// Begin to count MS milliseconds after the start; -1: only when --control says so
    #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true, value_parser = begin)]
    delay: Option<Begin>,
    /// Take commands from a descriptor or a named pipe while it counts: enable, disable (with the name of an event: only
    /// that), ping; each is answered by `ack` on the second, where there is one
    #[arg(
        long,
        value_name = "fd:CTL[,ACK]|fifo:CTL[,ACK]",
        conflicts_with = "repeat"
    )]
    control: Option<String>,
}

impl SwitchArgs {
    /// Whether counting may begin later than the command.
    pub(super) fn are_used(&self) -> bool {
        self.delay.is_some_and(|begin| begin != Begin::AtOnce) || self.control.is_some()
    }

    /// When counting begins.
    pub(super) fn begin(&self) -> Result<Begin, Failure> {
        let begin = self.delay.unwrap_or_default();
        if begin == Begin::Off && self.control.is_none() {
            let cause = "--delay -1 counts nothing until somebody switches it on, and nobody can";
            return Err(Failure::new(2, cause).hint("add --control"));
        }
        Ok(begin)
    }

    /// The descriptors of --control.
    pub(super) fn control(&self) -> Result<Option<Control>, Failure> {
        let open = |text: &String| Control::open(text).map_err(Failure::from);
        self.control.as_ref().map(open).transpose()
    }
}

fn begin(text: &str) -> Result<Begin, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(Begin::Off),
        Ok(0) => Ok(Begin::AtOnce),
        // Longer than a year is a slip.
        Ok(ms) if ms > 0 && ms < 40_000_000_000 => {
            Ok(Begin::After(Duration::from_millis(ms.unsigned_abs())))
        }
        _ => Err("not a number of milliseconds, or -1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_perfs() {
        assert_eq!(begin("250"), Ok(Begin::After(Duration::from_millis(250))));
        assert_eq!(begin("0"), Ok(Begin::AtOnce));
        assert_eq!(begin("-1"), Ok(Begin::Off));
        for bad in ["", "-2", "x", "1s", "1.5", "99999999999999"] {
            assert!(begin(bad).is_err(), "{bad}");
        }
    }
}
