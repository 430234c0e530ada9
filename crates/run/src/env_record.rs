//! The environment record: what two results must share to be comparable.
//!
//! Determinism is not comparability: an environment variable more or a longer `argv[0]` changes
//! the instructions of the dynamic loader. Facts come from `/proc/cpuinfo`, `/proc/sys`,
//! `/sys/devices/system/cpu` (kernel `Documentation/ABI/testing/sysfs-devices-system-cpu`) and
//! from the program's own ELF header (`PT_INTERP`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use truecount_perf::Facts;
use truecount_perf::probe::Root;

/// The machine and the settings of a measurement. Unknown facts are `None`, never guessed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of truecount.
    pub truecount: String,
    /// Architecture, as `uname -m` says.
    pub arch: String,
    /// Model name of the CPU.
    pub cpu_model: Option<String>,
    /// Vendor, family, model, stepping: `AuthenticAMD-26-2-1`.
    pub cpu_id: Option<String>,
    /// Microcode revision.
    pub microcode: Option<String>,
    /// CPUs online.
    pub cpus: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Frequency governor of CPU 0.
    pub governor: Option<String>,
    /// Whether the CPU may exceed its nominal frequency.
    pub turbo: Option<bool>,
    /// State of simultaneous multithreading.
    pub smt: Option<String>,
    /// True when it runs under a hypervisor.
    pub virtualised: Option<bool>,
    /// `kernel.randomize_va_space`.
    pub aslr_system: Option<i64>,
    /// Whether the program's addresses were randomised.
    pub aslr: Option<bool>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i64>,
    /// `kernel.nmi_watchdog`: it takes a counter.
    pub nmi_watchdog: Option<i64>,
    /// The PMU that counted, by its name in sysfs; `None` without one.
    pub pmu: Option<String>,
    /// The reference machine that programs were shown, with the version of its table: `x86-64-v3/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Factors held constant by `--deterministic`.
    pub deterministic: Vec<String>,
    /// Factors that were to be held constant and were not, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_deterministic: Vec<crate::factor::Missing>,
    /// CPUs the program was bound to.
    pub pinned: Option<String>,
    /// Number of environment variables.
    pub env_count: u64,
    /// Bytes of all environment variables, with their terminators.
    pub env_bytes: u64,
    /// FNV-1a of the environment in its order.
    pub env_hash: String,
    /// The variables by name, with the bytes of their values (the values themselves are nobody's business), in results
    /// that are compared with others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, usize>,
    /// The program got a clean environment, not truecount's own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clean_env: bool,
    /// Bytes of the arguments of each command, with their terminators, in the order of commands.
    pub argv_bytes: Vec<u64>,
    /// Dynamic loader of each command with the hash of its file; `None` for static programs.
    pub loader: Vec<Option<String>>,
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn read_number(path: &str) -> Option<i64> {
    read(path)?.parse().ok()
}

/// Whether a program started from here has its addresses randomised.
pub fn aslr_is_on() -> bool {
    let facts = Facts::gather(&Root::system());
    !facts.aslr_off_here && facts.randomize_va_space != Some(0)
}

impl Environment {
    /// Reads the machine's part. `aslr` and `pinned` are what the run is going to do.
    pub fn gather(aslr: bool, cpus: &[usize]) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let info = first_cpu(&cpuinfo);
        let get = |key: &str| info.get(key).map(|value| (*value).to_owned());
        let cpu_id = match (get("vendor_id"), get("cpu family")) {
            (Some(vendor), Some(family)) => Some(format!(
                "{vendor}-{family}-{}-{}",
                get("model").unwrap_or_default(),
                get("stepping").unwrap_or_default()
            )),
            // aarch64 writes the fields of MIDR_EL1.
            _ => get("CPU implementer").map(|implementer| {
                format!(
                    "{implementer}-{}-{}-{}",
                    get("CPU part").unwrap_or_default(),
                    get("CPU variant").unwrap_or_default(),
                    get("CPU revision").unwrap_or_default()
                )
            }),
        };
        let mut record = Self {
            truecount: env!("CARGO_PKG_VERSION").to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpu_model: get("model name"),
            cpu_id,
            microcode: get("microcode"),
            cpus: read("/sys/devices/system/cpu/online"),
            kernel: read("/proc/sys/kernel/osrelease"),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            turbo: read_number("/sys/devices/system/cpu/intel_pstate/no_turbo")
                .map(|off| off == 0)
                .or_else(|| read_number("/sys/devices/system/cpu/cpufreq/boost").map(|on| on != 0)),
            smt: read("/sys/devices/system/cpu/smt/control"),
            virtualised: info
                .get("flags")
                .map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            aslr_system: read_number("/proc/sys/kernel/randomize_va_space"),
            aslr: Some(aslr),
            perf_event_paranoid: read_number("/proc/sys/kernel/perf_event_paranoid"),
            nmi_watchdog: read_number("/proc/sys/kernel/nmi_watchdog"),
            pmu: core_pmu(),
            reference: None,
            deterministic: Vec::new(),
            not_deterministic: Vec::new(),
            pinned: (!cpus.is_empty()).then(|| {
                let names: Vec<String> = cpus.iter().map(ToString::to_string).collect();
                names.join(",")
            }),
            env_count: 0,
            env_bytes: 0,
            env_hash: String::new(),
            variables: BTreeMap::new(),
            clean_env: false,
            argv_bytes: Vec::new(),
            loader: Vec::new(),
        };
        record.set_variables(std::env::vars_os());
        // Named only where results are compared: a list of variables is long.
        record.variables.clear();
        record
    }

    /// Notes the variables that programs get.
    pub fn set_variables(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        let mut all = Vec::new();
        self.env_count = 0;
        self.variables.clear();
        for (name, value) in variables {
            all.extend_from_slice(name.as_bytes());
            all.push(b'=');
            all.extend_from_slice(value.as_bytes());
            all.push(0);
            self.env_count += 1;
            self.variables
                .insert(name.to_string_lossy().into_owned(), value.as_bytes().len());
        }
        self.env_bytes = all.len() as u64;
        self.env_hash = format!("{:016x}", fnv1a(all));
    }

    /// Adds a command: the length of its arguments and its loader.
    pub fn add_command<S: AsRef<OsStr>>(&mut self, argv: &[S], program: Option<&Path>) {
        let bytes = argv
            .iter()
            .map(|word| word.as_ref().as_bytes().len() as u64 + 1)
            .sum();
        self.argv_bytes.push(bytes);
        self.loader.push(program.and_then(loader));
    }

    /// Every fact by its name, as text; unknown ones are left out.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let Ok(serde_json::Value::Object(all)) = serde_json::to_value(self) else {
            return BTreeMap::new();
        };
        let variables = self
            .variables
            .iter()
            .map(|(name, bytes)| (format!("{VARIABLE}{name}"), format!("{bytes} bytes")));
        all.into_iter()
            // The variables by name say more than their number and size.
            .filter(|(name, _)| match name.as_str() {
                "variables" => false,
                "env_count" | "env_bytes" => self.variables.is_empty(),
                _ => true,
            })
            .filter_map(|(name, value)| match value {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some((name, text)),
                other => Some((name, other.to_string())),
            })
            .chain(variables)
            .collect()
    }

    /// The facts in which two records differ: `name: mine, was theirs`. What concerns only the form of
    /// the commands (their number) is left to the caller.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let (mine, theirs) = (self.facts(), other.facts());
        let names: BTreeSet<&String> = mine.keys().chain(theirs.keys()).collect();
        let show = |value: Option<&String>| value.cloned().unwrap_or_else(|| "unknown".to_owned());
        let mut variables = Vec::new();
        let mut lines = Vec::new();
        for name in names {
            let (mine, theirs) = (mine.get(name), theirs.get(name));
            if mine == theirs || matches!(name.as_str(), "argv_bytes" | "loader" | "env_hash") {
                continue;
            }
            match name.strip_prefix(VARIABLE) {
                Some(variable) => variables.push(variable.to_owned()),
                None => lines.push(format!("{name}: {}, was {}", show(mine), show(theirs))),
            }
        }
        lines.extend(variables_differ(&variables));
        lines
    }
}

/// What the name of a fact begins with that is a variable of the environment.
pub const VARIABLE: &str = "variable ";

/// One line for variables that differ.
#[must_use]
pub fn variables_differ(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("variables that differ: {}", names.join(", ")))
}

/// `key: value` pairs of the first processor of `/proc/cpuinfo`.
fn first_cpu(cpuinfo: &str) -> BTreeMap<&str, &str> {
    cpuinfo
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect()
}

/// The first CPU PMU in sysfs: it has a `type` and is the core's (`cpu`, `cpu_core`, `armv8_…`).
pub fn core_pmu() -> Option<String> {
    let mut names: Vec<String> = fs::read_dir("/sys/bus/event_source/devices")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            matches!(name.as_str(), "cpu" | "cpu_core")
                || (name.starts_with("armv") || name.starts_with("arm_"))
                    && !name.starts_with("arm_spe")
        })
        .collect();
    names.sort();
    names.into_iter().next()
}

/// 64-bit FNV-1a (Fowler, Noll, Vo).
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// As [`fnv1a`], eight bytes at a time (the last ones filled up with zeros): for whole files.
fn fnv1a_words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        u64::from_le_bytes(word)
    });
    words.fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        (hash ^ word)
            .rotate_left(23)
            .wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// `path (hash of the file)` of the loader that the ELF file asks for.
fn loader(program: &Path) -> Option<String> {
    let interpreter = truecount_elf::interpreter(&fs::File::open(program).ok()?)?;
    // The name is the program's: it may be anything.
    let regular = fs::metadata(&interpreter).is_ok_and(|file| file.is_file());
    let bytes = regular.then(|| fs::read(&interpreter).ok()).flatten();
    let hash = bytes.map_or_else(
        || "unreadable".to_owned(),
        |bytes| format!("{:016x}", fnv1a_words(&bytes)),
    );
    Some(format!("{interpreter} ({hash})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_is_the_published_function() {
        assert_eq!(fnv1a(*b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(*b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn differences_name_the_fact_and_both_values() {
        let mine = Environment::gather(false, &[]);
        assert!(mine.differences(&mine.clone()).is_empty());
        let mut other = mine.clone();
        other.kernel = Some("1.2.3".into());
        other.aslr = Some(true);
        let differences = mine.differences(&other);
        assert_eq!(differences.len(), 2, "{differences:?}");
        assert!(differences.iter().any(|line| line.contains("was 1.2.3")));
    }

    #[test]
    fn the_loader_of_this_test_is_found() {
        let found = loader(&std::env::current_exe().unwrap());
        assert!(found.is_none_or(|path| path.starts_with('/') && path.ends_with(')')));
        assert_eq!(loader(Path::new("/proc/cpuinfo")), None);
    }
}
