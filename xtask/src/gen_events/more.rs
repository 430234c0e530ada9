//! Models that Linux' `pmu-events` lacks, from what else is public: Intel's perfmon, Arm's `data`, and the list in Linux'
//! driver of Apple's PMU. Each becomes a directory as [`Tables::from_dir`] reads it.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use truecount_events::tables::Tables;

/// The cores whose PMU the driver `apple_m1_cpu_pmu.c` serves, with their MIDR (`arch/arm64/include/asm/cputype.h`).
const APPLE: &[(&str, &[u32])] = &[
    ("apple-icestorm", &[0x022, 0x024, 0x028]),
    ("apple-firestorm", &[0x023, 0x025, 0x029]),
    ("apple-blizzard", &[0x032, 0x034, 0x038]),
    ("apple-avalanche", &[0x033, 0x035, 0x039]),
];

/// What each further source adds.
#[derive(Debug, Clone)]
pub(super) enum More {
    /// Intel's perfmon: its models that are not there yet.
    Perfmon(PathBuf),
    /// Arm's `data`: files below `pmu/` of cores that are not there yet.
    Arm(PathBuf),
    /// `drivers/perf/apple_m1_cpu_pmu.c`.
    Apple(PathBuf),
}

impl More {
    /// The tables with the models that this source has and they do not.
    pub(super) fn add_to(&self, tables: Tables) -> Result<Tables> {
        let scratch = Scratch::new()?;
        match self {
            Self::Perfmon(dir) => perfmon(dir, &tables, &scratch.0)?,
            Self::Arm(dir) => arm(dir, &tables, &scratch.0)?,
            Self::Apple(file) => apple(file, &scratch.0)?,
        }
        let source = tables.source().to_owned();
        let more = Tables::from_dir(&scratch.0)?;
        if more.models().next().is_none() {
            return Ok(tables);
        }
        for model in more.models() {
            println!("+ {} ({} events)", model.name(), model.rows().len());
        }
        let from = match self {
            Self::Perfmon(_) => "Intel perfmon",
            Self::Arm(_) => "Arm data",
            Self::Apple(_) => "Linux apple_m1_cpu_pmu.c",
        };
        let source = format!("{source}; {from} ({} models)", more.models().count());
        Ok(tables.join(more).with_source(&source))
    }
}

/// A directory that is gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("gen-events-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Rows of the mapfile whose model is new; the files stay where they are.
fn perfmon(dir: &Path, tables: &Tables, into: &Path) -> Result<()> {
    let mut rows = String::new();
    for row in read(&dir.join("mapfile.csv"))?.lines() {
        let path = row.split(',').nth(2).unwrap_or("").trim_start_matches('/');
        let stem = Path::new(path)
            .file_stem()
            .map_or(String::new(), |stem| stem.to_string_lossy().to_lowercase());
        let name = stem.split('_').next().unwrap_or("");
        if name.is_empty() || tables.model(name).is_some() || !path.contains("/events/") {
            continue;
        }
        // perfmon calls these by their place in the family; the tables have them under another name.
        if ["nehalemep", "westmereep", "westmereex", "nehalemex"].contains(&name) {
            continue;
        }
        writeln!(rows, "{row}")?;
        let to = into.join(path);
        std::fs::create_dir_all(to.parent().context("a path without a directory")?)?;
        std::fs::copy(dir.join(path), to).with_context(|| path.to_owned())?;
    }
    std::fs::write(into.join("mapfile.csv"), rows)?;
    Ok(())
}

/// Every Neoverse, Cortex-A and Cortex-X of ARMv8 and later that is new: `{"cpuid": "0x41d84", "events": [{"code", "name"}]}`.
fn arm(dir: &Path, tables: &Tables, into: &Path) -> Result<()> {
    let mut rows = String::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir.join("pmu"))
        .with_context(|| dir.join("pmu").display().to_string())?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    for file in files {
        let stem = file
            .file_stem()
            .map_or(String::new(), |stem| stem.to_string_lossy().to_lowercase());
        let wanted = ["neoverse-", "cortex-a", "cortex-x"]
            .iter()
            .any(|kind| stem.starts_with(kind));
        if !wanted || tables.model(&stem).is_some() {
            continue;
        }
        let value: Value =
            serde_json::from_str(&read(&file)?).with_context(|| file.display().to_string())?;
        let architecture = value.get("architecture").and_then(Value::as_str);
        if !architecture.is_some_and(|a| a.starts_with("armv8") || a.starts_with("armv9")) {
            continue;
        }
        let (Some(cpuid), Some(events)) = (
            value.get("cpuid").and_then(Value::as_str),
            value.get("events").and_then(Value::as_array),
        ) else {
            bail!("{}: no cpuid or no events", file.display());
        };
        let id = u32::from_str_radix(cpuid.trim_start_matches("0x"), 16)
            .with_context(|| format!("{}: cpuid {cpuid}", file.display()))?;
        let known = tables
            .models()
            .any(|model| model.cpus().contains(&midr(id >> 12, id & 0xfff)));
        if known {
            continue;
        }
        let events: Vec<(String, u64)> = events
            .iter()
            .filter_map(|event| {
                let name = event.get("name")?.as_str()?.to_owned();
                Some((name, event.get("code")?.as_u64()?))
            })
            .collect();
        write_model(into, &stem, &events)?;
        writeln!(rows, "{},v1,/{stem},core", midr(id >> 12, id & 0xfff))?;
    }
    std::fs::write(into.join("mapfile.csv"), rows)?;
    Ok(())
}

/// `M1_PMU_PERFCTR_INST_ALL = 0x8c,` of the driver's enumeration. Names without a meaning (`UNKNOWN_9f`) are none.
fn apple(file: &Path, into: &Path) -> Result<()> {
    let text = read(file)?;
    let mut events = Vec::new();
    for line in text.lines() {
        let Some((name, code)) = line
            .trim()
            .strip_prefix("M1_PMU_PERFCTR_")
            .and_then(|rest| rest.split_once('='))
        else {
            continue;
        };
        let name = name.trim();
        let Some(hex) = code.trim().trim_end_matches(',').strip_prefix("0x") else {
            continue;
        };
        if !name.starts_with("UNKNOWN") {
            events.push((name.to_owned(), u64::from_str_radix(hex, 16)?));
        }
    }
    if events.len() < 20 {
        bail!("{}: {} events found", file.display(), events.len());
    }
    let mut rows = String::new();
    for (name, parts) in APPLE {
        write_model(into, name, &events)?;
        for &part in *parts {
            writeln!(rows, "{},v1,/{name},core", midr(0x61, part))?;
        }
    }
    std::fs::write(into.join("mapfile.csv"), rows)?;
    Ok(())
}

/// As mapfiles write an Arm CPU: implementer in bits 24 to 31, architecture 0xf, part in bits 4 to 15.
fn midr(implementer: u32, part: u32) -> String {
    format!("0x{:016x}", implementer << 24 | 0xf << 16 | part << 4)
}

fn write_model(into: &Path, name: &str, events: &[(String, u64)]) -> Result<()> {
    let dir = into.join(name);
    std::fs::create_dir_all(&dir)?;
    let list: Vec<Value> = events
        .iter()
        .map(|(name, code)| json!({"EventName": name, "EventCode": format!("{code:#x}")}))
        .collect();
    std::fs::write(dir.join("events.json"), Value::Array(list).to_string())?;
    Ok(())
}
