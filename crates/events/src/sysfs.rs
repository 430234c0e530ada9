//! PMUs as the kernel describes them under `/sys/bus/event_source/devices`. Facts: Linux
//! `Documentation/ABI/testing/sysfs-bus-event_source-devices*`. Files are read when asked for; only which PMUs are
//! those of the cores is remembered, since every event asks.

use crate::error::{Error, ErrorKind, Span};
use crate::format::{EXPECTED, Format};
use std::fs::File;
use std::io::{ErrorKind as IoKind, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Longest sysfs file read, in bytes (sysfs files are at most a page).
const LONGEST_FILE: u64 = 16 << 10;
/// Most CPUs a list may name.
const MAX_CPUS: u32 = 1 << 16;

/// One directory of PMUs.
#[derive(Debug, Clone)]
pub struct Sysfs {
    devices: PathBuf,
    core: OnceLock<Vec<Pmu>>,
}

/// One PMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pmu {
    /// Its name: `cpu`, `cpu_core`, `armv8_pmuv3_0`, `power`, …
    pub name: String,
    /// `perf_event_attr.type`.
    pub type_: u32,
    dir: PathBuf,
    /// Formats and no files: the architecture's, for a machine whose kernel has no core PMU.
    builtin: bool,
}

/// A named event of a PMU.
#[derive(Debug, Clone, PartialEq)]
pub struct PmuEvent {
    /// `event=0xcd,umask=0x1`.
    pub terms: String,
    /// From `NAME.unit`.
    pub unit: Option<String>,
    /// From `NAME.scale`.
    pub scale: Option<f64>,
}

impl Sysfs {
    /// PMUs of the tree `root` (normally `/sys`).
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            devices: root.join("bus/event_source/devices"),
            core: OnceLock::new(),
        }
    }

    /// Names of all PMUs, sorted. Empty where there is no such directory.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        list(&self.devices)
    }

    /// The PMU of exactly this name.
    #[must_use]
    pub fn pmu(&self, name: &str) -> Option<Pmu> {
        if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
            return None;
        }
        let dir = self.devices.join(name);
        let type_ = read(&dir.join("type")).ok()??.parse().ok()?;
        Some(Pmu {
            name: name.to_owned(),
            type_,
            dir,
            builtin: false,
        })
    }

    /// PMUs that `name` means: the one of exactly this name, else all that differ by an `uncore_` in front or a
    /// number at the end (`imc` means `uncore_imc_0`, `uncore_imc_1`, …), as in perf.
    #[must_use]
    pub fn matching(&self, name: &str) -> Vec<Pmu> {
        if let Some(pmu) = self.pmu(name) {
            return vec![pmu];
        }
        self.names()
            .iter()
            .filter(|full| {
                let short = full.strip_prefix("uncore_").unwrap_or(full);
                [full.as_str(), short].iter().any(|n| {
                    *n == name
                        || n.strip_prefix(name).is_some_and(|rest| {
                            let digits = rest.strip_prefix('_').unwrap_or(rest);
                            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
                        })
                })
            })
            .filter_map(|full| self.pmu(full))
            .collect()
    }

    /// The PMUs of the CPU cores: `cpu`, or on hybrid and Arm machines those with a `cpus` file.
    #[must_use]
    pub fn core_pmus(&self) -> Vec<Pmu> {
        let find = || {
            self.names()
                .iter()
                .filter(|name| *name == "cpu" || self.devices.join(name).join("cpus").exists())
                .filter_map(|name| self.pmu(name))
                .collect()
        };
        self.core.get_or_init(find).clone()
    }
}

impl Pmu {
    /// The core PMU `cpu` of an x86 CPU whose kernel shows none (no PMU in the machine): type `PERF_TYPE_RAW` and the
    /// architecture's formats, so that expressions still resolve, for other sources and for the kernel's own answer.
    #[must_use]
    pub fn builtin_x86() -> Self {
        Self {
            name: "cpu".to_owned(),
            type_: crate::generic::TYPE_RAW,
            dir: PathBuf::new(),
            builtin: true,
        }
    }

    /// The format of a term; `Ok(None)` where the PMU has no such term.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn format(&self, term: &str) -> Result<Option<Format>, Error> {
        if self.builtin {
            // arch/x86/events/intel/core.c and amd/core.c: intel_arch_formats_attr, skl_format_attr,
            // lnc_hybrid_extra_attr (umask2), amd_format_attr
            let text = match term {
                "event" => "config:0-7,32-35",
                "umask" => "config:8-15,40-47",
                "edge" => "config:18",
                "any" => "config:21",
                "inv" => "config:23",
                "cmask" => "config:24-31",
                "offcore_rsp" => "config1:0-63",
                "ldlat" => "config1:0-15",
                "frontend" => "config1:0-23",
                _ => return Ok(None),
            };
            return Ok(text.parse().ok());
        }
        if !is_file_name(term) {
            return Ok(None);
        }
        let path = self.dir.join("format").join(term);
        match read(&path)? {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| bad(&path, EXPECTED)),
        }
    }

    /// Names of the terms in `format/`.
    #[must_use]
    pub fn formats(&self) -> Vec<String> {
        if self.builtin {
            return [
                "any",
                "cmask",
                "edge",
                "event",
                "frontend",
                "inv",
                "ldlat",
                "offcore_rsp",
                "umask",
            ]
            .map(str::to_owned)
            .to_vec();
        }
        list(&self.dir.join("format"))
    }

    /// The event of this name in `events/` (case ignored if there is none of exactly this spelling).
    ///
    /// # Errors
    /// The files cannot be read or understood.
    pub fn event(&self, name: &str) -> Result<Option<PmuEvent>, Error> {
        if self.builtin || !is_file_name(name) || is_attribute(name) {
            return Ok(None);
        }
        let dir = self.dir.join("events");
        let (name, terms) = match read(&dir.join(name))? {
            Some(terms) => (name.to_owned(), terms),
            None => {
                let Some(other) = self
                    .events()
                    .into_iter()
                    .find(|e| e.eq_ignore_ascii_case(name))
                else {
                    return Ok(None);
                };
                let Some(terms) = read(&dir.join(&other))? else {
                    return Ok(None);
                };
                (other, terms)
            }
        };
        let unit = read(&dir.join(format!("{name}.unit")))?;
        let path = dir.join(format!("{name}.scale"));
        let scale = match read(&path)? {
            None => None,
            Some(text) => match text.parse::<f64>() {
                Ok(scale) if scale.is_finite() => Some(scale),
                _ => return Err(bad(&path, "a number such as 2.3e-10")),
            },
        };
        Ok(Some(PmuEvent { terms, unit, scale }))
    }

    /// Names of the events in `events/`.
    #[must_use]
    pub fn events(&self) -> Vec<String> {
        if self.builtin {
            return Vec::new();
        }
        list(&self.dir.join("events"))
            .into_iter()
            .filter(|name| !is_attribute(name))
            .collect()
    }

    /// The event numbers that its `events/` lists: the term `event` of each.
    #[must_use]
    pub fn event_numbers(&self) -> Vec<u64> {
        let number = |name: String| {
            let terms = read(&self.dir.join("events").join(name)).ok()??;
            let event = terms
                .split(',')
                .find_map(|term| term.strip_prefix("event="))?;
            crate::parse::number(event)
        };
        self.events().into_iter().filter_map(number).collect()
    }

    /// `cpus`: the CPUs of a core PMU of a hybrid machine.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn cpus(&self) -> Result<Option<Vec<u32>>, Error> {
        self.cpu_list("cpus")
    }

    /// `cpumask`: the CPUs on which an uncore PMU is to be opened.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn cpumask(&self) -> Result<Option<Vec<u32>>, Error> {
        self.cpu_list("cpumask")
    }

    fn cpu_list(&self, file: &str) -> Result<Option<Vec<u32>>, Error> {
        if self.builtin {
            return Ok(None);
        }
        let path = self.dir.join(file);
        match read(&path)? {
            None => Ok(None),
            Some(text) => cpu_list(&text)
                .map(Some)
                .ok_or_else(|| bad(&path, "a list of CPUs such as 0-3,8")),
        }
    }

    /// A number in `caps/` (`max_precise`, `slots`, …).
    #[must_use]
    pub fn capability(&self, name: &str) -> Option<u64> {
        if self.builtin || !is_file_name(name) {
            return None;
        }
        let text = read(&self.dir.join("caps").join(name)).ok()??;
        crate::parse::number(&text)
    }
}

/// A list of CPUs as the kernel writes it and users give it: `0-3,8`; each once and in order. `None` where it is none.
///
/// ```
/// use truecount_events::cpu_list;
/// assert_eq!(cpu_list("8,0-2\n"), Some(vec![0, 1, 2, 8]));
/// assert_eq!(cpu_list(""), Some(vec![]));
/// assert_eq!([cpu_list("0-"), cpu_list("3-1"), cpu_list("0-99999999")], [None, None, None]);
/// ```
#[must_use]
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for run in text.split(',').map(str::trim).filter(|run| !run.is_empty()) {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
        if cpus.len() > MAX_CPUS as usize {
            return None;
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// `NAME.unit`, `NAME.scale`, `NAME.per-pkg`, `NAME.snapshot` describe the event NAME.
fn is_attribute(name: &str) -> bool {
    [".unit", ".scale", ".per-pkg", ".snapshot"]
        .iter()
        .any(|end| name.ends_with(end))
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 256 && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// Sorted names of a directory's entries; empty where it cannot be read.
fn list(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The trimmed text of a small file; `None` where there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Error> {
    let mut text = String::new();
    let unreadable = |e: std::io::Error| {
        Error::new(
            ErrorKind::Unreadable {
                path: path.display().to_string(),
                reason: e.to_string(),
            },
            "",
            Span::default(),
        )
    };
    match File::open(path) {
        Err(e) if matches!(e.kind(), IoKind::NotFound | IoKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(unreadable(e)),
        Ok(file) => match file.take(LONGEST_FILE).read_to_string(&mut text) {
            Ok(_) => {}
            Err(e) if e.kind() == IoKind::IsADirectory => return Ok(None),
            Err(e) => return Err(unreadable(e)),
        },
    }
    Ok(Some(text.trim().to_owned()))
}

fn bad(path: &Path, expected: &'static str) -> Error {
    Error::new(
        ErrorKind::BadSysfs {
            path: path.display().to_string(),
            expected,
        },
        "",
        Span::default(),
    )
}
