//! What makes identical runs differ, and the remedies that truecount applies to the child: the
//! factors of `truecount noise` and of `--deterministic`.
//!
//! Addresses: `personality(2)`. Random bytes: `AT_RANDOM` of `getauxval(3)` and `getrandom(2)`. The
//! environment lies above the stack, so its size moves every stack address (Mytkowicz and others,
//! "Producing wrong data without doing anything obviously wrong", ASPLOS 2009). Allocators:
//! `GLIBC_TUNABLES` (glibc manual, Memory Allocation Tunables), `MALLOC_CONF` (`jemalloc(3)`).

mod random;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use serde::{Deserialize, Serialize};

pub(crate) use random::Answers;

/// One thing that differs between identical runs and that truecount can hold still.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Factor {
    /// Randomisation of addresses
    Aslr,
    /// The 16 random bytes that the kernel gives every program: glibc's stack and pointer guards
    AtRandom,
    /// What the system call getrandom answers: hash seeds
    Getrandom,
    /// Clocks read by the vDSO, whose loops depend on the time; held still, they are read by system calls
    Clock,
    /// Bytes of the environment
    Env,
    /// Arenas and timers of glibc's and jemalloc's allocators
    Malloc,
    /// Which CPU the program is on, and that it migrates
    Cpu,
}

impl Factor {
    /// Every factor, in the order of reports.
    pub(crate) const ALL: [Self; 7] = [
        Self::Aslr,
        Self::AtRandom,
        Self::Getrandom,
        Self::Clock,
        Self::Env,
        Self::Malloc,
        Self::Cpu,
    ];

    /// As on the command line and in documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Aslr => "aslr",
            Self::AtRandom => "at-random",
            Self::Getrandom => "getrandom",
            Self::Clock => "clock",
            Self::Env => "env",
            Self::Malloc => "malloc",
            Self::Cpu => "cpu",
        }
    }

    /// In words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Aslr => "ASLR (randomised addresses)",
            Self::AtRandom => "AT_RANDOM (stack and pointer guards)",
            Self::Getrandom => "getrandom (hash randomisation)",
            Self::Clock => "clock (loops of the vDSO)",
            Self::Env => "environment size",
            Self::Malloc => "allocator settings",
            Self::Cpu => "CPU and migration",
        }
    }
}

/// A list of factors, separated by commas; empty means all.
pub(crate) fn parse_factors(text: &str) -> Result<Vec<Factor>, String> {
    let mut found = Vec::new();
    for name in text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        let factor = Factor::ALL.into_iter().find(|factor| factor.name() == name);
        let Some(factor) = factor else {
            let known = Factor::ALL.map(Factor::name).join(", ");
            return Err(format!("`{name}` is no factor; there are {known}"));
        };
        if !found.contains(&factor) {
            found.push(factor);
        }
    }
    if found.is_empty() {
        found = Factor::ALL.to_vec();
    }
    found.sort();
    Ok(found)
}

/// The flag of the commands that run programs.
#[derive(clap::Args, Debug)]
pub(crate) struct FixedArgs {
    /// Hold still what makes identical runs differ: all of it, or the factors given after `=`, separated by commas: aslr, at-random, getrandom, clock, env, malloc, cpu. Random numbers become predictable with at-random and getrandom: for measurements only
    #[arg(
        long,
        value_name = "FACTORS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_list,
        conflicts_with = "aslr"
    )]
    deterministic: Option<List>,
}

/// Factors as one value of the command line.
#[derive(Debug, Clone)]
pub(crate) struct List(pub(crate) Vec<Factor>);

/// [`parse_factors`] for clap.
pub(crate) fn parse_list(text: &str) -> Result<List, String> {
    parse_factors(text).map(List)
}

impl FixedArgs {
    /// What was asked for.
    pub(crate) fn fixed(&self) -> Option<Fixed> {
        let list = self.deterministic.as_ref()?;
        Some(Fixed::new(&list.0))
    }
}

/// Bytes to which the environment is padded: strings, terminators and pointers. More goes to the
/// next multiple.
const ENVIRONMENT: usize = 16 << 10;
/// The variable that fills up.
const PAD: &str = "TRUECOUNT_PAD";
/// Any seed is as good; it is in the record.
const SEED: u64 = 0x7472_7565;

/// Which remedies are applied to a program, and with which values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fixed {
    factors: Vec<Factor>,
    /// Bytes more of environment, for `noise`.
    more: usize,
    cpus: Vec<usize>,
}

impl Fixed {
    /// Holds these factors still.
    pub(crate) fn new(factors: &[Factor]) -> Self {
        let cpus = if factors.contains(&Factor::Cpu) {
            last_cpu().into_iter().collect()
        } else {
            Vec::new()
        };
        Self {
            factors: factors.to_vec(),
            more: 0,
            cpus,
        }
    }

    /// With so many bytes more in the environment.
    pub(crate) fn more_environment(mut self, bytes: usize) -> Self {
        self.more = bytes;
        self
    }

    pub(crate) fn has(&self, factor: Factor) -> bool {
        self.factors.contains(&factor)
    }

    /// The CPU to bind to, if that is a factor.
    pub(crate) fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Seed of what `getrandom` answers.
    pub(crate) fn getrandom(&self) -> Option<u64> {
        self.has(Factor::Getrandom).then_some(SEED)
    }

    /// The random bytes of every program.
    pub(crate) fn at_random(&self) -> Option<[u8; 16]> {
        self.has(Factor::AtRandom).then_some(*b"truecount fixed!")
    }

    /// Variables to set, on top of those that are handed down.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        let mut set: Vec<(OsString, OsString)> = Vec::new();
        if self.has(Factor::Malloc) {
            let jemalloc = "narenas:1,background_thread:false,dirty_decay_ms:-1,muzzy_decay_ms:-1";
            set.push(appended("GLIBC_TUNABLES", "glibc.malloc.arena_max=1", ":"));
            set.push(appended("MALLOC_CONF", jemalloc, ","));
            set.push(appended("_RJEM_MALLOC_CONF", jemalloc, ","));
        }
        if self.has(Factor::Env) || self.more > 0 {
            let kept = std::env::vars_os().filter(|(name, _)| {
                name.as_os_str() != OsStr::new(PAD) && set.iter().all(|(other, _)| other != name)
            });
            let used: usize = kept
                .map(|(name, value)| entry(&name, &value))
                .chain(set.iter().map(|(name, value)| entry(name, value)))
                .sum::<usize>()
                + entry(OsStr::new(PAD), OsStr::new(""));
            let whole = if self.has(Factor::Env) {
                used.next_multiple_of(ENVIRONMENT)
            } else {
                used
            };
            let fill = whole.saturating_sub(used).saturating_add(self.more);
            set.push((PAD.into(), "x".repeat(fill).into()));
        }
        set
    }

    /// The warning, where random bytes are not random.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.has(Factor::Getrandom) || self.has(Factor::AtRandom)).then(|| WARNING.to_owned())
    }

    /// What is applied, for the environment record.
    pub(crate) fn names(&self) -> Vec<String> {
        self.factors
            .iter()
            .map(|factor| factor.name().to_owned())
            .collect()
    }
}

/// Bytes of a variable above the stack.
fn entry(name: &OsStr, value: &OsStr) -> usize {
    name.as_bytes().len() + value.as_bytes().len() + 2 + size_of::<usize>()
}

/// A variable with a setting more than it has; the last setting of a name wins.
fn appended(name: &str, setting: &str, between: &str) -> (OsString, OsString) {
    let mut value = std::env::var_os(name).unwrap_or_default();
    if !value.is_empty() {
        value.push(between);
    }
    value.push(setting);
    (name.into(), value)
}

/// The last CPU that truecount may use.
fn last_cpu() -> Option<usize> {
    let mut set = [0u64; 16];
    // SAFETY: the kernel fills at most the bytes that it is told of.
    let filled = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            0,
            size_of_val(&set),
            set.as_mut_ptr(),
        )
    };
    if filled <= 0 {
        return None;
    }
    (0..1024).rev().find(|cpu| {
        set.get(cpu / 64)
            .is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    })
}

/// What the user has to know before random numbers stop being random.
const WARNING: &str = "getrandom and AT_RANDOM are not random in this run: keys, tokens \
    and nonces that the program makes are predictable. Use it for measurements only.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_named_once_and_none_means_all() {
        assert_eq!(parse_factors("").unwrap(), Factor::ALL);
        assert_eq!(
            parse_factors("env, aslr,env").unwrap(),
            [Factor::Aslr, Factor::Env]
        );
        assert!(parse_factors("alsr").unwrap_err().contains("at-random"));
    }

    #[test]
    fn the_environment_has_the_same_size_whatever_else_is_set() {
        let size = |factors: &[Factor], more| {
            let set = Fixed::new(factors).more_environment(more).variables();
            let kept: usize = std::env::vars_os()
                .filter(|(name, _)| set.iter().all(|(other, _)| other != name))
                .map(|(name, value)| entry(&name, &value))
                .sum();
            kept + set.iter().map(|(n, v)| entry(n, v)).sum::<usize>()
        };
        let plain = size(&[Factor::Env], 0);
        assert_eq!(plain % ENVIRONMENT, 0);
        assert_eq!(size(&[Factor::Env, Factor::Malloc], 0), plain);
        assert_eq!(size(&[Factor::Env], 77), plain + 77);
        assert!(Fixed::new(&[Factor::Aslr]).variables().is_empty());
    }
}
