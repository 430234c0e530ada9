//! What the commands that run a program have in common on the command line: `--source`, `--deterministic`, `--cpu`,
//! `--input`, `--timeout`, `--no-cache`, `--code-cache`; and the progress of single-stepping, on a terminal.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use truecount_engine::step;
use truecount_model::number::grouped;
use truecount_run::determinism::{Fixed, Machine};
use truecount_run::factor::{List, parse_remedies};
use truecount_run::source::{self, Choice, Source};

use crate::failure::Failure;

/// `--source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SourceArg {
    /// Hardware if there is one, else the virtual PMU, else software
    Auto,
    /// The CPU's counters
    Hardware,
    /// The virtual PMU: exact user-mode counts without hardware
    Virtual,
    /// Single-stepping: exact and slow
    Step,
    /// Clocks, faults and switches that the kernel accounts
    Software,
}

impl SourceArg {
    /// The source, where it works here.
    pub(crate) fn select(self) -> Result<Box<dyn Source>, Failure> {
        Ok(source::select(self.choice(), Some(meter()))?)
    }

    /// What was chosen.
    pub(crate) fn choice(self) -> Choice {
        match self {
            Self::Auto => Choice::Auto,
            Self::Hardware => Choice::Hardware,
            Self::Virtual => Choice::Virtual,
            Self::Step => Choice::Step,
            Self::Software => Choice::Software,
        }
    }
}

/// The flag of the commands that run programs.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct FixedArgs {
    /// Hold constant what makes identical runs differ: all of it, or the factors given after `=`, separated by commas: aslr, at-random, getrandom, clock, env, path, malloc, cpu, pid, files; only if named, as in --deterministic=all,time,threads,random: time (virtual PMU only: clocks go on with the instructions), threads (in turn: by the virtual PMU's own scheduler; natively by real-time scheduling on one CPU) and random (virtual PMU only: /dev/urandom, /dev/random, rdrand, rdseed). Random numbers become predictable with at-random and getrandom: for measurements only
    #[arg(
        long,
        value_name = "FACTORS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_remedies,
        conflicts_with = "aslr"
    )]
    deterministic: Option<List>,
    /// Virtual PMU: show the program this machine instead of the one it runs on, so that it counts the same everywhere: x86-64-v1, x86-64-v2, x86-64-v3, x86-64-v4, valgrind, or host (default); with ,cpus=N behind it for more than one CPU
    #[arg(long, value_name = "NAME", value_parser = parse_machine)]
    machine: Option<Shown>,
    /// The same count in every run and on every machine: --machine x86-64-v3 --deterministic=all,time,threads,random. What could not be held constant is named in the result. bench counts so and times natively
    #[arg(long, conflicts_with_all = ["deterministic", "aslr"])]
    reproducible: bool,
}

/// What `--machine` names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown(Option<Machine>);

/// Parses the name of a machine; `host` is none.
fn parse_machine(text: &str) -> Result<Shown, String> {
    if text == "host" {
        return Ok(Shown(None));
    }
    Machine::named(text).map(|machine| Shown(Some(machine)))
}

/// What `--reproducible` is.
const REPRODUCIBLE: (&str, &str) = ("x86-64-v3", "all,time,threads,random");

impl FixedArgs {
    /// What a suite says, where the command line says nothing.
    pub(crate) fn or(&mut self, machine: Option<&str>, reproducible: bool) -> Result<(), Failure> {
        if self.reproducible || self.deterministic.is_some() || self.machine.is_some() {
            return Ok(());
        }
        self.reproducible = reproducible;
        let machine = machine.map(parse_machine).transpose();
        self.machine = machine.map_err(|error| Failure::new(2, format!("machine: {error}")))?;
        Ok(())
    }

    /// What was asked for.
    pub(crate) fn fixed(&self) -> Result<Option<Fixed>, Failure> {
        let usage = |error: String| Failure::new(2, error);
        let (_, factors) = REPRODUCIBLE;
        let list = match (&self.deterministic, self.reproducible) {
            (_, true) => Some(parse_remedies(factors).map_err(usage)?),
            (list, _) => list.clone(),
        };
        let shown = shown(self.machine, self.reproducible)?;
        if list.is_none() && shown.is_none() {
            return Ok(None);
        }
        let factors = list.map(|list| list.factors).unwrap_or_default();
        Ok(Some(Fixed::new(&factors).with_machine(shown)))
    }

    /// Who counts then: only the virtual PMU shows another machine.
    pub(crate) fn source(&self, asked: SourceArg) -> Result<SourceArg, Failure> {
        who_shows(self.machine, self.reproducible, asked)
    }
}

/// As [`FixedArgs`], for `noise`, which holds everything constant by itself.
#[derive(clap::Args, Debug)]
pub(crate) struct MachineArgs {
    /// Virtual PMU: show the program this machine in every run, instead of the one it runs on: x86-64-v1, x86-64-v2, x86-64-v3, x86-64-v4, valgrind, or host (default); with ,cpus=N behind it for more than one CPU
    #[arg(long, value_name = "NAME", value_parser = parse_machine)]
    machine: Option<Shown>,
    /// As --machine x86-64-v3: what varies in runs of stat, run and bench with --reproducible, and what they hold constant
    #[arg(long)]
    reproducible: bool,
}

impl MachineArgs {
    /// What programs are shown.
    pub(crate) fn shown(&self) -> Result<Option<Machine>, Failure> {
        shown(self.machine, self.reproducible)
    }

    /// Who counts then.
    pub(crate) fn source(&self, asked: SourceArg) -> Result<SourceArg, Failure> {
        who_shows(self.machine, self.reproducible, asked)
    }
}

/// The machine that is shown, where this CPU has its features.
fn shown(machine: Option<Shown>, reproducible: bool) -> Result<Option<Machine>, Failure> {
    let shown = match (machine, reproducible) {
        (Some(Shown(machine)), _) => machine,
        (None, true) => {
            let named = Machine::named(REPRODUCIBLE.0);
            Some(named.map_err(|error| Failure::new(2, error))?)
        }
        (None, false) => None,
    };
    match shown.and_then(|machine| Some((machine, machine.lacking()?))) {
        None => Ok(shown),
        Some((machine, feature)) => Err(Failure::new(
            1,
            format!(
                "this CPU lacks {feature}, which the reference machine {} has: features can only be hidden",
                machine.name()
            ),
        )
        .hint("name a lower level, such as --machine x86-64-v2")),
    }
}

/// Only the virtual PMU shows another machine.
fn who_shows(
    machine: Option<Shown>,
    reproducible: bool,
    asked: SourceArg,
) -> Result<SourceArg, Failure> {
    let shows = match machine {
        Some(Shown(machine)) => machine.is_some(),
        None => reproducible,
    };
    match asked {
        SourceArg::Auto if shows => Ok(SourceArg::Virtual),
        SourceArg::Auto | SourceArg::Virtual => Ok(asked),
        _ if shows => Err(Failure::new(
            2,
            "--machine and --reproducible are the virtual PMU's: no other source can show a program another machine",
        )
        .hint("leave --source out, or write --source virtual")),
        _ => Ok(asked),
    }
}

/// Set (and neither empty nor 0): as `--no-cache`.
const VARIABLE: &str = "TRUECOUNT_NO_CACHE";

/// Flags of every command that can use the virtual PMU.
#[derive(clap::Args, Debug, Default, Clone)]
pub(crate) struct CacheArgs {
    /// Virtual PMU: use no translations of earlier runs, and keep none (also: TRUECOUNT_NO_CACHE=1)
    #[arg(long)]
    no_cache: bool,
    /// Virtual PMU: memory for translated code in each process, 1M to 2G [default: 512M]. At the bound the code that was translated first is taken out, and translated again where it is needed
    #[arg(long, value_name = "SIZE", value_parser = parse_code_cache)]
    code_cache: Option<u64>,
}

impl CacheArgs {
    /// As without the flags, for commands that cannot have them.
    pub(crate) fn apply_default() {
        Self::default().apply();
    }

    /// Holds for the whole process from here on.
    pub(crate) fn apply(&self) {
        let variable = std::env::var_os(VARIABLE);
        let off = self.no_cache || is_set(variable.as_deref());
        source::virtual_pmu::keep_translations(!off);
        if let Some(bytes) = self.code_cache {
            source::virtual_pmu::bound_code(bytes);
        }
    }
}

/// Parses `64M`, `1G`: what the code cache can hold.
fn parse_code_cache(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        other => return Err(format!("unknown unit `{other}`; use K, M or G")),
    };
    let bytes = digits
        .parse::<u64>()
        .map_err(|_| format!("`{text}` is not a size; write 64M or 1G"))?
        .checked_mul(1 << shift)
        .filter(|bytes| (1 << 20..=2 << 30).contains(bytes));
    bytes.ok_or_else(|| format!("`{text}` is not between 1M and 2G"))
}

fn is_set(value: Option<&std::ffi::OsStr>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
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

/// Progress of single-stepping on stderr, on a terminal, after a second.
fn meter() -> source::Meter {
    let terminal = std::io::stderr().is_terminal();
    let mut shown = false;
    Box::new(move |progress, before| match progress {
        Some(progress) if terminal && progress.elapsed >= Duration::from_secs(1) => {
            shown = true;
            show(progress, before);
        }
        None if shown => {
            shown = false;
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        _ => {}
    })
}

fn show(progress: &step::Progress, before: Option<u64>) {
    let estimate = match before {
        Some(before) if before > progress.instructions && progress.per_second > 0.0 => {
            let left = (before - progress.instructions) as f64 / progress.per_second;
            format!(", about {left:.0} s left")
        }
        Some(_) => String::new(),
        None => ", the end is unknown (a program that runs 1 s natively takes hours)".to_owned(),
    };
    let _ = write!(
        std::io::stderr(),
        "\r\x1b[Kstepping: {} instructions, {} a second{estimate}",
        grouped(progress.instructions),
        grouped(progress.per_second as u64)
    );
}

/// Parses `0`, `0,2`, `0-3`.
pub(crate) fn parse_cpus(text: &str) -> Result<Vec<usize>, String> {
    match truecount_events::cpu_list(text) {
        Some(cpus) if cpus.iter().any(|&cpu| cpu >= 1024) => {
            Err(format!("`{text}` goes beyond CPU 1023"))
        }
        Some(cpus) if !cpus.is_empty() => Ok(cpus.into_iter().map(|cpu| cpu as usize).collect()),
        _ => Err(format!(
            "`{text}` is not a list of CPUs; write 0, 0,2 or 0-3"
        )),
    }
}

/// As [`parse_cpus`], of CPUs that are online: the kernel's own answer to another comes from the program's start.
pub(crate) fn parse_online_cpus(text: &str) -> Result<Vec<usize>, String> {
    let cpus = parse_cpus(text)?;
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let Some(online) = truecount_events::cpu_list(&list) else {
        return Ok(cpus);
    };
    let missing = cpus
        .iter()
        .find(|&&cpu| u32::try_from(cpu).is_ok_and(|cpu| !online.contains(&cpu)));
    match missing {
        Some(cpu) => Err(format!(
            "CPU {cpu} is not online; there are {}",
            list.trim()
        )),
        None => Ok(cpus),
    }
}

/// A number from 0 to 100.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100.0).contains(&percent) {
        Ok(percent)
    } else {
        Err("a percentage is from 0 to 100".to_owned())
    }
}

/// Parses a time such as `10`, `1.5s`, `250ms`, `2m`; a bare number is seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
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
    Duration::try_from_secs_f64(value * factor)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("`{text}` is not a time above 0"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpus("0,2-4").unwrap(), [0, 2, 3, 4]);
        for bad in ["", "a", "3-1", "0-99999999999999999999", "1024"] {
            assert!(parse_cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_of_the_code_cache() {
        for (text, bytes) in [
            ("1M", 1 << 20),
            ("2g", 2 << 30),
            ("1048576", 1 << 20),
            ("64MiB", 64 << 20),
        ] {
            assert_eq!(parse_code_cache(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "M",
            "0",
            "1K",
            "3G",
            "1.5M",
            "-1M",
            "64X",
            "99999999999999999999G",
        ] {
            assert!(parse_code_cache(bad).is_err(), "{bad}");
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

    #[test]
    fn the_variable_counts_when_it_says_something() {
        for (value, set) in [("", false), ("0", false), ("1", true), ("yes", true)] {
            assert_eq!(is_set(Some(OsStr::new(value))), set, "{value}");
        }
        assert!(!is_set(None));
    }
}
