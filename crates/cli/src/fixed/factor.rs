//! The names of what makes identical runs differ.

use serde::{Deserialize, Serialize};

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
    /// What the clocks and the time stamp counter say (virtual PMU only; held still, they go on with the instructions)
    Time,
    /// Bytes of the environment
    Env,
    /// Bytes of the program's path and of its arguments
    Path,
    /// Bytes of the working directory's path
    Cwd,
    /// Arenas and timers of glibc's and jemalloc's allocators
    Malloc,
    /// Which CPU the program is on, and that it migrates
    Cpu,
    /// Process numbers, and how many digits they have
    Pid,
    /// The order in which the files of a folder are listed
    Files,
}

impl Factor {
    /// Every factor, in the order of reports.
    pub(crate) const ALL: [Self; 12] = [
        Self::Aslr,
        Self::AtRandom,
        Self::Getrandom,
        Self::Clock,
        Self::Time,
        Self::Env,
        Self::Path,
        Self::Cwd,
        Self::Malloc,
        Self::Cpu,
        Self::Pid,
        Self::Files,
    ];

    /// As on the command line and in documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Aslr => "aslr",
            Self::AtRandom => "at-random",
            Self::Getrandom => "getrandom",
            Self::Clock => "clock",
            Self::Time => "time",
            Self::Env => "env",
            Self::Path => "path",
            Self::Cwd => "cwd",
            Self::Malloc => "malloc",
            Self::Cpu => "cpu",
            Self::Pid => "pid",
            Self::Files => "files",
        }
    }

    /// In words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Aslr => "ASLR (randomised addresses)",
            Self::AtRandom => "AT_RANDOM (stack and pointer guards)",
            Self::Getrandom => "getrandom (hash randomisation)",
            Self::Clock => "clock (loops of the vDSO)",
            Self::Time => "time of day, clocks, rdtsc",
            Self::Env => "environment size",
            Self::Path => "length of the program's path",
            Self::Cwd => "length of the working directory",
            Self::Malloc => "allocator settings",
            Self::Cpu => "CPU and migration",
            Self::Pid => "process numbers (digits)",
            Self::Files => "order of files in a folder",
        }
    }

    /// Whether `--deterministic` can do something about it. A working directory cannot be another without being
    /// another; its runs are the same as long as they are in the same one.
    pub(crate) fn has_remedy(self) -> bool {
        self != Self::Cwd
    }

    /// Those for which `--deterministic` has a remedy.
    pub(crate) fn remedies() -> Vec<Self> {
        Self::ALL
            .into_iter()
            .filter(|factor| factor.has_remedy())
            .collect()
    }
}

/// A list of factors of `among`, separated by commas; empty means all of them.
fn parse(text: &str, among: &[Factor]) -> Result<List, String> {
    let mut found = Vec::new();
    for name in text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        let factor = among.iter().find(|factor| factor.name() == name);
        let Some(&factor) = factor else {
            let known: Vec<&str> = among.iter().map(|factor| factor.name()).collect();
            return Err(format!(
                "`{name}` is no factor; there are {}",
                known.join(", ")
            ));
        };
        if !found.contains(&factor) {
            found.push(factor);
        }
    }
    let all = found.is_empty();
    if all {
        found = among.to_vec();
    }
    found.sort();
    Ok(List {
        factors: found,
        all,
    })
}

/// Factors as one value of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) factors: Vec<Factor>,
    /// None was named.
    pub(crate) all: bool,
}

/// Factors of `noise`, for clap.
pub(crate) fn parse_list(text: &str) -> Result<List, String> {
    parse(text, &Factor::ALL)
}

/// Factors of `--deterministic`, for clap.
pub(super) fn parse_remedies(text: &str) -> Result<List, String> {
    parse(text, &Factor::remedies())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_named_once_and_none_means_all() {
        assert_eq!(parse_list("").unwrap().factors, Factor::ALL);
        assert_eq!(
            parse_list("env, aslr,env").unwrap(),
            List {
                factors: vec![Factor::Aslr, Factor::Env],
                all: false
            }
        );
        assert!(parse_list("alsr").unwrap_err().contains("at-random"));
        let remedies = parse_remedies("").unwrap().factors;
        assert_eq!(remedies.len() + 1, Factor::ALL.len());
        assert!(parse_remedies("cwd").is_err());
    }
}
