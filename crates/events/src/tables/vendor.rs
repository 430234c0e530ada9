//! Reads events from JSON files: Linux' `tools/perf/pmu-events/arch`, or Intel's perfmon, as the user has them.
//! The meaning of the fields is that of `jevents.py` in the former; the fixed encodings of the architectural
//! events too. Descriptions are not read.

use super::event::{Arch, CodeKey, Precise, TableEvent};
use super::{ModelData, Tables, cpuid};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Largest file read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// A directory that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorError {
    /// The file or directory.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl fmt::Display for VendorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for VendorError {}

fn error(path: &Path, reason: impl Into<String>) -> VendorError {
    VendorError {
        path: path.to_path_buf(),
        reason: reason.into(),
    }
}

type Object = Map<String, Value>;

/// Events that other files refer to by `ArchStdEvent`, by lower-case name.
type Standard = HashMap<String, Object>;

/// One row of a mapfile.
struct Row {
    pattern: String,
    version: String,
    path: String,
    /// `cpu_core` or `cpu_atom` for a list of one kind of core.
    pmu: &'static str,
}

impl Tables {
    /// Reads a directory with a `mapfile.csv` (`pmu-events/arch/x86`, Intel's perfmon), or a directory or file of events
    /// alone, which becomes one model with the directory's name.
    ///
    /// # Errors
    /// What cannot be read or is not such a file.
    pub fn from_dir(dir: &Path) -> Result<Self, VendorError> {
        let mut tables = Self {
            source: dir.display().to_string(),
            ..Self::default()
        };
        let mapfile = dir.join("mapfile.csv");
        if mapfile.is_file() {
            tables.add_mapped(dir, &mapfile)?;
        } else {
            let directory = dir
                .file_stem()
                .map_or("events".into(), |n| n.to_string_lossy());
            let name = directory.into_owned();
            let arch = match &name {
                n if n.starts_with("amd") => Arch::Amd,
                n if n.starts_with("cortex") || n.starts_with("neoverse") => Arch::Arm,
                _ => Arch::Intel,
            };
            let mut reader = Reader {
                standard: Standard::new(),
                arch,
                pmu: "cpu",
            };
            let events = reader.path(dir)?;
            if events.is_empty() {
                return Err(error(
                    dir,
                    "neither a mapfile.csv nor any event with a name",
                ));
            }
            tables.add_model(name, String::new(), String::new(), events);
        }
        tables.sort();
        Ok(tables)
    }

    /// Both tables in one.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        let shift = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        self.events.extend(other.events);
        for mut model in other.models {
            for id in &mut model.events {
                *id = id.saturating_add(shift);
            }
            self.models.push(model);
        }
        self.dedup();
        self
    }

    /// The same with another text as its source.
    #[must_use]
    pub fn with_source(mut self, source: &str) -> Self {
        source.clone_into(&mut self.source);
        self
    }

    fn add_mapped(&mut self, dir: &Path, mapfile: &Path) -> Result<(), VendorError> {
        let standard = standard_events(dir)?;
        for row in mapfile_rows(&text(mapfile)?) {
            let path = dir.join(row.path.trim_start_matches('/'));
            let name = Path::new(&row.path)
                .file_stem()
                .map_or(String::new(), |n| model_name(&n.to_string_lossy()));
            if row.pmu == "cpu"
                && let Some(model) = self.models.iter_mut().find(|m| m.name == name)
                && path.is_dir()
            {
                model.patterns.push(row.pattern);
                continue;
            }
            if !path.exists() {
                return Err(error(
                    &path,
                    format!("not found, though {} names it", mapfile.display()),
                ));
            }
            let mut reader = Reader {
                standard: standard.clone(),
                arch: cpuid::arch(&row.pattern),
                pmu: row.pmu,
            };
            let events = reader.path(&path)?;
            self.add_model(name, row.pattern, row.version, events);
        }
        self.dedup();
        Ok(())
    }

    fn add_model(
        &mut self,
        name: String,
        pattern: String,
        version: String,
        events: Vec<TableEvent>,
    ) {
        let first = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        let ids = (first..).take(events.len());
        match self.models.iter_mut().find(|m| m.name == name) {
            Some(model) => {
                model.events.extend(ids);
                if !model.patterns.contains(&pattern) {
                    model.patterns.push(pattern);
                }
            }
            None => self.models.push(ModelData {
                name,
                patterns: if pattern.is_empty() {
                    Vec::new()
                } else {
                    vec![pattern]
                },
                version,
                events: ids.collect(),
            }),
        }
        self.events.extend(events);
    }

    /// Makes equal events one, and sorts.
    fn dedup(&mut self) {
        let mut first: HashMap<TableEvent, u32> = HashMap::new();
        let mut place = Vec::with_capacity(self.events.len());
        let mut kept = Vec::new();
        for event in std::mem::take(&mut self.events) {
            let next = u32::try_from(kept.len()).unwrap_or(u32::MAX);
            let id = *first.entry(event.clone()).or_insert(next);
            if id == next {
                kept.push(event);
            }
            place.push(id);
        }
        self.events = kept;
        for model in &mut self.models {
            for id in &mut model.events {
                *id = place.get(*id as usize).copied().unwrap_or(u32::MAX);
            }
        }
        self.sort();
    }
}

/// `skylake_core_v1.2` of perfmon is `skylake`; a directory's name stays.
fn model_name(stem: &str) -> String {
    let stem = stem.to_ascii_lowercase();
    match stem.split_once('_') {
        Some((name, _)) => name.to_owned(),
        None => stem,
    }
}

fn mapfile_rows(text: &str) -> Vec<Row> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("Family-model"))
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let (pattern, version, path) = (fields.first()?, fields.get(1)?, fields.get(2)?);
            let kind = fields.get(3).copied().unwrap_or("core");
            let role = fields.get(6).copied().unwrap_or("");
            let pmu = match (kind, role.to_ascii_lowercase().as_str()) {
                ("core", _) => "cpu",
                ("hybridcore", "core") => "cpu_core",
                ("hybridcore", "atom" | "lowpower_atom") => "cpu_atom",
                // Lists of uncore events and of matrices for offcore, fp and retire latency are not core lists.
                _ => return None,
            };
            Some(Row {
                pattern: (*pattern).to_owned(),
                version: (*version).to_owned(),
                path: (*path).to_owned(),
                pmu,
            })
        })
        .collect()
}

fn text(path: &Path) -> Result<String, VendorError> {
    use std::io::Read as _;
    // The bound is on what is read: a device has no size.
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|e| error(path, e.to_string()))?;
    if read as u64 > MAX_BYTES {
        return Err(error(path, "larger than 64 MiB"));
    }
    Ok(text)
}

/// The array of events of a file: the file itself, or `Events` of perfmon. Other JSON holds none.
fn objects(path: &Path) -> Result<Vec<Object>, VendorError> {
    let value: Value =
        serde_json::from_str(&text(path)?).map_err(|e| error(path, e.to_string()))?;
    let list = match value {
        Value::Array(list) => list,
        Value::Object(mut object) => match object.remove("Events") {
            Some(Value::Array(list)) => list,
            _ => return Ok(Vec::new()),
        },
        _ => return Ok(Vec::new()),
    };
    Ok(list
        .into_iter()
        .filter_map(|v| match v {
            Value::Object(object) => Some(object),
            _ => None,
        })
        .collect())
}

fn json_files(dir: &Path) -> Result<Vec<PathBuf>, VendorError> {
    let entries = std::fs::read_dir(dir).map_err(|e| error(dir, e.to_string()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "json") && p.is_file())
        .collect();
    files.sort();
    Ok(files)
}

fn standard_events(dir: &Path) -> Result<Standard, VendorError> {
    let mut standard = Standard::new();
    for file in json_files(dir)? {
        for object in objects(&file)? {
            let name = object.get("EventName").or_else(|| object.get("MetricName"));
            if let Some(Value::String(name)) = name {
                standard.insert(name.to_ascii_lowercase(), object);
            }
        }
    }
    Ok(standard)
}

struct Reader {
    standard: Standard,
    arch: Arch,
    /// Core PMU of events that name none.
    pmu: &'static str,
}

impl Reader {
    fn path(&mut self, path: &Path) -> Result<Vec<TableEvent>, VendorError> {
        let files = if path.is_dir() {
            json_files(path)?
        } else {
            vec![path.to_path_buf()]
        };
        let mut events = Vec::new();
        for file in files {
            for object in objects(&file)? {
                match self.event(object) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => {}
                    Err(reason) => return Err(error(&file, reason)),
                }
            }
        }
        Ok(events)
    }

    /// `Ok(None)`: a metric, or anything else without an event's name.
    fn event(&self, mut object: Object) -> Result<Option<TableEvent>, String> {
        if let Some(Value::String(name)) = object.get("ArchStdEvent") {
            let Some(standard) = self.standard.get(&name.to_ascii_lowercase()) else {
                return Err(format!(
                    "ArchStdEvent {name} is not defined in the directory above"
                ));
            };
            for (key, value) in standard {
                if !object.contains_key(key) {
                    object.insert(key.clone(), value.clone());
                }
            }
        }
        if object.contains_key("MetricName") || object.contains_key("MetricExpr") {
            return Ok(None);
        }
        let Some(name) = string(&object, "EventName") else {
            return Ok(None);
        };
        let number = |key: &str| number(&object, key).map_err(|e| format!("{name}: {key}: {e}"));
        let (key, code) = if let Some(code) = number("ConfigCode")? {
            (CodeKey::Config, code)
        } else if let Some(code) = number("EventidCode")? {
            (CodeKey::EventId, code)
        } else {
            let extension = number("ExtSel")?.unwrap_or(0);
            (
                CodeKey::Event,
                number("EventCode")?.unwrap_or(0) | extension << 8,
            )
        };
        let mut umask = number("UMask")?.unwrap_or(0);
        if let Some(high) = number("UMaskExt")? {
            // perfmon of uncore events; the upper bits of umask in the kernel's format (8-15,32-55).
            umask |= high << 8;
        }
        let mut extra: Vec<String> = Vec::new();
        for (field, term) in TERMS {
            if let Some(value) = number(field)?.filter(|&v| v != 0) {
                extra.push(if value < 10 {
                    format!("{term}={value}")
                } else {
                    format!("{term}={value:#x}")
                });
            }
        }
        extra.extend(string(&object, "Filter").filter(|f| f != "null" && f != "na"));
        if let (Some(register), Some(value)) = (number("MSRIndex")?, number("MSRValue")?)
            && let Some(term) = msr_term(register)
            && value != 0
        {
            extra.push(format!("{term}={value:#x}"));
        }
        let unit = string(&object, "Unit").filter(|u| !u.is_empty());
        let core = matches!(unit.as_deref(), None | Some("cpu_core" | "cpu_atom"));
        let mut event = TableEvent {
            pmu: pmu_of(unit.as_deref(), self.pmu),
            code,
            key,
            umask,
            extra: extra.join(","),
            // Newer lists of perfmon say `Precise`, which is 1 for load latencies too; without PEBS those count nothing.
            precise: match number("PEBS")?.or(number("Precise")?) {
                None | Some(0) => Precise::No,
                Some(1) if number("MSRIndex")? == Some(MSR_PEBS_LD_LAT) => Precise::Must,
                Some(1) => Precise::Can,
                Some(_) => Precise::Must,
            },
            deprecated: number("Deprecated")? == Some(1),
            counters: string(&object, "Counter")
                .filter(|_| core)
                .unwrap_or_default(),
            scale: string(&object, "ScaleUnit").unwrap_or_default(),
            arch: self.arch,
            provenance: String::new(),
            name,
        };
        architectural(&mut event);
        Ok(Some(event))
    }
}

/// Fields that become terms, in the order of `jevents.py`.
const TERMS: &[(&str, &str)] = &[
    ("AnyThread", "any"),
    ("PortMask", "ch_mask"),
    ("CounterMask", "cmask"),
    ("EdgeDetect", "edge"),
    ("FCMask", "fc_mask"),
    ("Invert", "inv"),
    ("NodeType", "type"),
    ("RdWrMask", "rdwrmask"),
    ("EnAllCores", "enallcores"),
    ("EnAllSlices", "enallslices"),
    ("SliceId", "sliceid"),
    ("ThreadMask", "threadmask"),
];

/// The threshold of load latencies (Intel SDM vol. 4).
const MSR_PEBS_LD_LAT: u64 = 0x3f6;

/// MSR_PEBS_LD_LAT, MSR_OFFCORE_RSP_0 and _1, MSR_PEBS_FRONTEND (Intel SDM vol. 4).
fn msr_term(register: u64) -> Option<&'static str> {
    match register {
        MSR_PEBS_LD_LAT => Some("ldlat"),
        0x1a6 | 0x1a7 => Some("offcore_rsp"),
        0x3f7 => Some("frontend"),
        _ => None,
    }
}

/// Events on fixed counters that the kernel takes by their programmable encoding, which it places on the fixed
/// counter itself (`jevents.py`, `real_event`; `intel_fixed_counter` constraints of `intel/core.c`).
fn architectural(event: &mut TableEvent) {
    if event.arch != Arch::Intel {
        return;
    }
    let (code, umask, extra) = match event.name.to_ascii_lowercase().as_str() {
        "inst_retired.any" | "inst_retired.any_p" => (0xc0, 0, ""),
        "cpu_clk_unhalted.ref" => (0x00, 0x03, ""),
        "cpu_clk_unhalted.thread" | "cpu_clk_unhalted.core" => (0x3c, 0, ""),
        "cpu_clk_unhalted.thread_any" => (0x3c, 0, "any=1"),
        _ => return,
    };
    (event.code, event.umask) = (code, umask);
    extra.clone_into(&mut event.extra);
}

/// The PMU of a `Unit` (`jevents.py`, `unit_to_pmu`).
fn pmu_of(unit: Option<&str>, core: &str) -> String {
    match unit {
        None => core.to_owned(),
        Some("CBO") => "uncore_cbox".to_owned(),
        Some("QPI LL") => "uncore_qpi".to_owned(),
        Some("SBO") => "uncore_sbox".to_owned(),
        Some("iMPH-U") => "uncore_arb".to_owned(),
        Some("UPI LL") => "uncore_upi".to_owned(),
        Some("L3PMC") => "amd_l3".to_owned(),
        Some("DFPMC") => "amd_df".to_owned(),
        Some("UMCPMC") => "amd_umc".to_owned(),
        Some(unit) if unit.starts_with("hisi_") || unit.starts_with("imx") => unit.to_owned(),
        Some(unit @ ("cpu_core" | "cpu_atom" | "ali_drw" | "arm_cmn")) => unit.to_owned(),
        Some(unit) => format!("uncore_{}", unit.to_ascii_lowercase()),
    }
}

fn string(object: &Object, key: &str) -> Option<String> {
    match object.get(key)? {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The first of the numbers of a field: `0xB7, 0xBB` are the two registers of one event.
fn number(object: &Object, key: &str) -> Result<Option<u64>, String> {
    let Some(text) = string(object, key) else {
        return Ok(None);
    };
    let first = text.split(',').next().unwrap_or("").trim();
    if matches!(first, "" | "null" | "na") {
        return Ok(None);
    }
    let parsed = match first
        .strip_prefix("0x")
        .or_else(|| first.strip_prefix("0X"))
    {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => first.parse(),
    };
    parsed
        .map(Some)
        .map_err(|_| format!("{first:?} is not a number"))
}
