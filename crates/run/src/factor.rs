//! The names of what makes identical runs differ.

use serde::{Deserialize, Serialize};

/// One thing that differs between identical runs and that truecount can hold constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Factor {
    /// Randomisation of addresses
    Aslr,
    /// The 16 random bytes that the kernel gives every program: glibc's stack and pointer guards
    AtRandom,
    /// What the system call getrandom answers: hash seeds
    Getrandom,
    /// Clocks read by the vDSO, whose loops depend on the time; held constant, they are read by system calls
    Clock,
    /// What the clocks and the time stamp counter say (virtual PMU only; held constant, they go on with the instructions)
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
    /// PIDs, and their length in digits
    Pid,
    /// The order in which the files of a directory are listed
    Files,
    /// Thread scheduling; held constant, threads run in turn on one CPU
    Threads,
    /// What /dev/urandom, /dev/random, rdrand and rdseed give (virtual PMU only)
    Random,
    /// The machine: its CPU, kernel, memory, addresses; held constant, a reference machine is shown (virtual PMU only)
    Machine,
}

impl Factor {
    /// Every factor, in the order of reports.
    pub const ALL: [Self; 15] = [
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
        Self::Threads,
        Self::Random,
        Self::Machine,
    ];

    /// As on the command line and in documents.
    pub fn name(self) -> &'static str {
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
            Self::Threads => "threads",
            Self::Random => "random",
            Self::Machine => "machine",
        }
    }

    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Aslr => "ASLR (randomised addresses)",
            Self::AtRandom => "AT_RANDOM (stack and pointer guards)",
            Self::Getrandom => "getrandom (hash randomisation)",
            Self::Clock => "vDSO clock reads",
            Self::Time => "time of day, clocks, rdtsc",
            Self::Env => "environment size",
            Self::Path => "length of the program's path",
            Self::Cwd => "length of the working directory",
            Self::Malloc => "allocator settings",
            Self::Cpu => "CPU and migration",
            Self::Pid => "PID length",
            Self::Files => "directory order",
            Self::Threads => "thread scheduling",
            Self::Random => "random devices and instructions",
            Self::Machine => "machine (CPU, kernel, memory, addresses)",
        }
    }

    /// Whether `--deterministic` can do something about it. A working directory cannot be another without being
    /// another; its runs are the same as long as they are in the same one. The machine is `--machine`'s.
    pub fn has_remedy(self) -> bool {
        !matches!(self, Self::Cwd | Self::Machine)
    }

    /// Those for which `--deterministic` has a remedy.
    pub fn remedies() -> Vec<Self> {
        Self::ALL
            .into_iter()
            .filter(|factor| factor.has_remedy())
            .collect()
    }

    /// Whether `--deterministic` holds it constant only where it is named: what a program may notice, or other programs.
    pub fn on_request(self) -> bool {
        matches!(self, Self::Threads | Self::Time | Self::Random)
    }

    /// What `--deterministic` holds constant by itself.
    pub fn usual() -> Vec<Self> {
        let mut usual = Self::remedies();
        usual.retain(|factor| !factor.on_request());
        usual
    }

    /// Whether only the virtual PMU can hold it constant.
    pub fn is_virtual(self) -> bool {
        matches!(self, Self::Time | Self::Random | Self::Machine)
    }

    /// What is held constant with it, where it is named: in turn is one after the other on one CPU only, and the vDSO
    /// reads the real clock.
    fn brings(self) -> Option<Self> {
        match self {
            Self::Threads => Some(Self::Cpu),
            Self::Time => Some(Self::Clock),
            Self::Random => Some(Self::Getrandom),
            _ => None,
        }
    }
}

/// A factor that was to be held constant and was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which one.
    pub factor: Factor,
    /// Why not.
    pub reason: String,
}

impl Missing {
    /// This factor, for this reason.
    pub fn new(factor: Factor, reason: impl Into<String>) -> Self {
        Self {
            factor,
            reason: reason.into(),
        }
    }
}

/// The word for those that are taken where none is named.
const ALL: &str = "all";

/// A list of factors of `among`, separated by commas; `all` means those of `usual`, and so does none.
fn parse(text: &str, among: &[Factor], usual: &[Factor]) -> Result<List, String> {
    let mut found = Vec::new();
    let names = text.split(',').map(str::trim);
    let mut all = true;
    for name in names.filter(|name| !name.is_empty()) {
        all = false;
        if name == ALL {
            found.extend(usual);
            continue;
        }
        let factor = among.iter().find(|factor| factor.name() == name);
        let Some(&factor) = factor else {
            let known: Vec<&str> = among.iter().map(|factor| factor.name()).collect();
            let others: Vec<&str> = among
                .iter()
                .filter(|factor| !usual.contains(factor))
                .map(|factor| factor.name())
                .collect();
            let but = match others.as_slice() {
                [] => String::new(),
                others => format!(" but {}", others.join(", ")),
            };
            return Err(format!(
                "`{name}` is not a factor; there are {}, and {ALL} for all{but}",
                known.join(", ")
            ));
        };
        found.push(factor);
    }
    if all {
        found = usual.to_vec();
    }
    found.sort();
    found.dedup();
    Ok(List {
        factors: found,
        all,
    })
}

/// Factors as one value of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Which ones, each once, in the order of reports.
    pub factors: Vec<Factor>,
    /// None was named.
    pub all: bool,
}

/// Factors of `noise` (the machine only where it is named: what is counted is then another program's path), as they are written on a command line.
pub fn parse_list(text: &str) -> Result<List, String> {
    let usual: Vec<Factor> = Factor::ALL
        .into_iter()
        .filter(|&factor| factor != Factor::Machine)
        .collect();
    parse(text, &Factor::ALL, &usual)
}

/// Factors of `--deterministic`, as they are written on a command line.
pub fn parse_remedies(text: &str) -> Result<List, String> {
    let mut list = parse(text, &Factor::remedies(), &Factor::usual())?;
    let with: Vec<Factor> = list
        .factors
        .iter()
        .filter_map(|each| each.brings())
        .collect();
    list.factors.extend(with);
    list.factors.sort();
    list.factors.dedup();
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_named_once_and_none_means_all() {
        let usual = parse_list("").unwrap().factors;
        assert_eq!(usual, Factor::ALL[..Factor::ALL.len() - 1]);
        assert_eq!(parse_list("all,machine").unwrap().factors, Factor::ALL);
        assert_eq!(
            parse_list("env, aslr,env").unwrap(),
            List {
                factors: vec![Factor::Aslr, Factor::Env],
                all: false
            }
        );
        assert!(parse_list("alsr").unwrap_err().contains("at-random"));
        assert_eq!(parse_list("all").unwrap().factors, usual);
        assert!(parse_remedies("cwd").is_err());
    }

    #[test]
    fn what_is_held_constant_on_request_only_has_to_be_named() {
        let of = |text| parse_remedies(text).unwrap().factors;
        assert_eq!(of(""), Factor::usual());
        assert_eq!(of("all"), of(""));
        assert_eq!(of("").len() + 5, Factor::ALL.len());
        assert!(!of("all").contains(&Factor::Threads) && !of("all").contains(&Factor::Time));
        assert_eq!(of("all, threads,time,random"), Factor::remedies());
        assert_eq!(of("time"), [Factor::Clock, Factor::Time]);
        assert_eq!(of("threads"), [Factor::Cpu, Factor::Threads]);
        let error = parse_remedies("moon").unwrap_err();
        assert!(
            error.ends_with("and all for all but time, threads, random"),
            "{error}"
        );
    }
}
