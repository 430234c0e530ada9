//! The list as a document: schema `truecount.events/1` (`docs/schemas/events.json`).

use serde::Serialize;
use truecount_events::Machine;
use truecount_events::tables::{Model, Tables};

/// One event.
#[derive(Serialize, Clone, Default)]
pub(super) struct Row {
    pub(super) name: String,
    /// The PMU in sysfs; null: none in particular.
    pub(super) pmu: Option<String>,
    /// `rNNNN`, where one word says everything.
    pub(super) raw: Option<String>,
    /// As `-e` takes it.
    pub(super) perf: String,
    pub(super) code: Option<u64>,
    pub(super) umask: Option<u64>,
    pub(super) config: Option<u64>,
    pub(super) config1: Option<u64>,
    /// `generic`, `virtual` (by the virtual PMU), `truecount`, `sysfs`, `table`, `undocumented`.
    pub(super) origin: &'static str,
    pub(super) description: Option<&'static str>,
    /// PEBS: `no`, `can`, `must`.
    pub(super) precise: &'static str,
    pub(super) deprecated: bool,
    /// The counters that can count it, as the vendor writes it.
    pub(super) counters: Option<String>,
    /// Factor and unit, `64Bytes`.
    pub(super) scale: Option<String>,
    /// Where an event that no public table has is from.
    pub(super) provenance: Option<String>,
}

impl Row {
    pub(super) fn new(name: &str, origin: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            origin,
            description: truecount_events::tables::description(name),
            precise: "no",
            ..Self::default()
        }
    }
}

/// A model of the tables.
#[derive(Serialize)]
pub(super) struct ModelInfo {
    pub(super) name: String,
    pub(super) aliases: Vec<&'static str>,
    /// Patterns of the CPUs that are meant.
    pub(super) cpus: Vec<String>,
    /// The version of the vendor's list.
    pub(super) version: String,
    /// Number of events.
    pub(super) events: usize,
}

impl ModelInfo {
    fn new(model: Model<'_>) -> Self {
        Self {
            name: model.name().to_owned(),
            aliases: model.aliases().to_vec(),
            cpus: model.cpus().to_vec(),
            version: model.version().to_owned(),
            events: model.rows().len(),
        }
    }
}

/// The answer to a question about events.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    /// What the tables were made from.
    pub(super) source: String,
    /// Whether --cpu asked for a model; else the list is this machine's.
    pub(super) asked: bool,
    /// The model; null: the tables do not know this machine's CPU.
    pub(super) model: Option<ModelInfo>,
    /// Whether this machine's kernel shows a PMU of the cores.
    pub(super) pmu_here: bool,
    pub(super) events: Vec<Row>,
}

impl Document {
    pub(super) fn new(
        tables: &Tables,
        model: Option<Model<'_>>,
        machine: &Machine,
        asked: bool,
        events: Vec<Row>,
    ) -> Self {
        Self {
            schema: "truecount.events/1",
            source: tables.source().to_owned(),
            asked,
            model: model.map(ModelInfo::new),
            pmu_here: !machine.core_pmus().is_empty(),
            events,
        }
    }
}

/// All models.
#[derive(Serialize)]
pub(super) struct Models {
    schema: &'static str,
    pub(super) source: String,
    pub(super) models: Vec<ModelInfo>,
}

impl Models {
    pub(super) fn new(tables: &Tables) -> Self {
        let mut models: Vec<ModelInfo> = tables.models().map(ModelInfo::new).collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            schema: "truecount.models/1",
            source: tables.source().to_owned(),
            models,
        }
    }
}
