//! What lives as long as truecount measures: the blocked signals and the launcher.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::failure::Failure;
use crate::runner::{LaunchError, Launcher, Signals, exec_failure};

/// The signals and the launcher; made early, while truecount is small (see `runner`).
pub(crate) struct Session {
    pub(crate) signals: Signals,
    pub(crate) launcher: Launcher,
}

thread_local! {
    /// The session that [`start_early`] made, until a subcommand takes it.
    static EARLY: std::cell::RefCell<Option<Session>> = const { std::cell::RefCell::new(None) };
}

/// Makes the session before the command line is parsed when a subcommand is going to measure:
/// parsing grows the memory that the launcher would carry along. A failure is met again, and
/// reported, by [`Session::start`].
pub(crate) fn start_early() {
    let measures = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "bench" || word == "stat" || word == "noise");
    if measures && let Ok(session) = Session::make() {
        EARLY.set(Some(session));
    }
}

impl Session {
    /// The session made early, or a new one.
    pub(crate) fn start() -> Result<Self, Failure> {
        match EARLY.take() {
            Some(session) => Ok(session),
            None => Self::make(),
        }
    }

    /// Blocks the signals and forks the launcher.
    fn make() -> Result<Self, Failure> {
        let setup = |error: std::io::Error| {
            Failure::new(125, format!("cannot set up the launcher: {error}"))
        };
        let signals = Signals::block().map_err(setup)?;
        let launcher = Launcher::start(&signals).map_err(setup)?;
        Ok(Self { signals, launcher })
    }
}

/// The failure for a command that was not run.
pub(crate) fn launch_failure(error: LaunchError, program: &Path, argv: &[OsString]) -> Failure {
    match error {
        LaunchError::Exec(errno) => exec_failure(program, errno),
        LaunchError::Affinity(errno) => Failure::new(
            125,
            format!(
                "the kernel refuses the CPUs of --cpu: {}",
                std::io::Error::from_raw_os_error(errno)
            ),
        )
        .hint("choose among those in /sys/devices/system/cpu/online that the cpuset allows"),
        LaunchError::Setup(error) => Failure::new(
            125,
            format!(
                "cannot start `{}`: {error}",
                crate::runner::command_line(argv)
            ),
        ),
        LaunchError::Hook(failure) => failure,
    }
}

/// `/dev/null`, for reading and writing.
pub(crate) fn dev_null() -> Result<OwnedFd, Failure> {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map(OwnedFd::from)
        .map_err(|error| Failure::new(125, format!("cannot open /dev/null: {error}")))
}

/// A file for the standard input of the program.
pub(crate) fn open_input(path: &Path) -> Result<OwnedFd, Failure> {
    File::open(path).map(OwnedFd::from).map_err(|error| {
        Failure::new(
            125,
            format!("cannot open --input {}: {error}", path.display()),
        )
    })
}

/// A seed from the clock, short enough to be typed.
pub(crate) fn fresh_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_nanos()) ^ since.as_secs()) % 1_000_000
}

/// Parses `0`, `0,2`, `0-3`.
pub(crate) fn parse_cpus(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    let number = |text: &str| -> Result<usize, String> {
        text.trim()
            .parse()
            .map_err(|_| format!("`{text}` is not a CPU number; write 0, 0,2 or 0-3"))
    };
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last || last >= 1024 {
            return Err(format!("`{part}` is not a range of CPUs below 1024"));
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// Parses a time such as `10`, `1.5s`, `250ms`, `2m`; a bare number is seconds.
pub(crate) fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("unknown unit `{other}`; use ms, s, m or h")),
    };
    let value: f64 = digits
        .parse()
        .map_err(|_| format!("`{text}` is not a time; write 10s, 250ms or 2m"))?;
    std::time::Duration::try_from_secs_f64(value * factor)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("`{text}` is not a time above 0"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpus("0,2-4").unwrap(), [0, 2, 3, 4]);
        for bad in ["", "a", "3-1", "0-99999999999999999999", "1024"] {
            assert!(parse_cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(parse_duration("2").unwrap(), Duration::from_secs(2));
        assert_eq!(parse_duration("1.5 m").unwrap(), Duration::from_secs(90));
        for bad in ["", "0", "-1", "5x", "1e400h", "."] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
