//! A model's events as a [`Catalogue`] of the resolver.

use super::{Model, Precise, TableEvent, Tables};
use crate::{Catalogue, Cpu, Definition, Machine, Sysfs};
use std::sync::Arc;

/// Whose tables.
#[derive(Debug, Clone)]
enum Source {
    Embedded,
    Given(Arc<Tables>),
}

/// The events of one model, for [`Machine::with_catalogue`].
///
/// ```
/// use truecount_events::{Catalogue, tables::{ModelCatalogue, Tables}};
/// let catalogue = ModelCatalogue::embedded("skl").unwrap();
/// let found = catalogue.find("MEM_LOAD_RETIRED.L1_HIT", None);
/// assert_eq!(found[0].terms, "event=0xd1,umask=0x1");
/// ```
#[derive(Debug, Clone)]
pub struct ModelCatalogue {
    source: Source,
    model: String,
}

impl ModelCatalogue {
    /// Of the built-in tables. `None`: no such model.
    #[must_use]
    pub fn embedded(model: &str) -> Option<Self> {
        let model = Tables::embedded().model(model)?.name().to_owned();
        Some(Self {
            source: Source::Embedded,
            model,
        })
    }

    /// Of other tables (a vendor's files). `None`: no such model.
    #[must_use]
    pub fn of(tables: Arc<Tables>, model: &str) -> Option<Self> {
        let model = tables.model(model)?.name().to_owned();
        Some(Self {
            source: Source::Given(tables),
            model,
        })
    }

    fn tables(&self) -> &Tables {
        match &self.source {
            Source::Embedded => Tables::embedded(),
            Source::Given(tables) => tables,
        }
    }

    fn model(&self) -> Option<Model<'_>> {
        self.tables().model(&self.model)
    }
}

/// Whether an event of the PMU `own` is asked for by the name `asked` in sysfs: `uncore_imc_3` asks for `uncore_imc`.
fn is_pmu(own: &str, asked: &str) -> bool {
    own == asked
        || asked.strip_prefix(own).is_some_and(|rest| {
            rest.strip_prefix('_')
                .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        })
}

fn definition(event: &TableEvent, pmu: Option<&str>) -> Definition {
    let scale = event.scale_and_unit();
    Definition {
        name: event.name.clone(),
        pmu: pmu.map_or_else(|| event.pmu.clone(), str::to_owned),
        terms: event.terms(),
        unit: scale.map(|(_, unit)| unit.to_owned()),
        scale: scale.map(|(factor, _)| factor),
        precise: event.precise == Precise::Must,
    }
}

fn find(model: Option<Model<'_>>, name: &str, pmu: Option<&str>) -> Vec<Definition> {
    let events = model.map(|m| m.find(name)).unwrap_or_default();
    events
        .into_iter()
        .filter(|e| pmu.is_none_or(|asked| is_pmu(&e.pmu, asked)))
        .map(|e| definition(e, pmu))
        .collect()
}

fn names(model: Option<Model<'_>>, pmu: Option<&str>) -> Vec<String> {
    let Some(model) = model else {
        return Vec::new();
    };
    model
        .events()
        .filter(|e| pmu.is_none_or(|asked| is_pmu(&e.pmu, asked)))
        .map(|e| e.name.clone())
        .collect()
}

fn elsewhere(tables: &Tables, name: &str) -> Vec<String> {
    tables.having(name).into_iter().map(str::to_owned).collect()
}

impl Catalogue for ModelCatalogue {
    fn find(&self, name: &str, pmu: Option<&str>) -> Vec<Definition> {
        find(self.model(), name, pmu)
    }

    fn names(&self, pmu: Option<&str>) -> Vec<String> {
        names(self.model(), pmu)
    }

    fn elsewhere(&self, name: &str) -> Vec<String> {
        elsewhere(self.tables(), name)
    }
}

/// The built-in events of a CPU. The tables are decoded only when a name is asked for, which the resolver does only
/// for names that nothing else knows: a program that counts `instructions:u` does not pay for them. Where cores differ
/// and each kind has a PMU of its own, that PMU's name says which table is its (`armv8_cortex_a72`).
#[derive(Debug, Clone)]
struct OfCpu {
    cpu: Option<Cpu>,
    sysfs: Option<Sysfs>,
}

/// The table of a core PMU by its name in sysfs (`drivers/perf/arm_pmuv3.c`, `apple_m1_cpu_pmu.c`).
fn model_of_pmu(pmu: &str) -> Option<Model<'static>> {
    let core = match pmu.strip_suffix("_pmu") {
        Some(apple) => apple,
        None => pmu.strip_prefix("armv")?.split_once('_')?.1,
    };
    Tables::embedded().model(&core.replace('_', "-"))
}

impl OfCpu {
    fn model(&self) -> Option<Model<'static>> {
        Tables::embedded().model_of(self.cpu?)
    }

    /// Core PMUs with a table each, where there are several.
    fn kinds(&self) -> Vec<(String, Model<'static>)> {
        let cores = self
            .sysfs
            .as_ref()
            .map(Sysfs::core_pmus)
            .unwrap_or_default();
        if cores.len() < 2 {
            return Vec::new();
        }
        cores
            .into_iter()
            .filter_map(|pmu| model_of_pmu(&pmu.name).map(|model| (pmu.name, model)))
            .collect()
    }

    /// What each of these PMUs has under the name.
    fn by_kind(&self, name: &str, asked: Option<&str>) -> Vec<Definition> {
        let kinds = self.kinds();
        let wanted = kinds
            .iter()
            .filter(|(pmu, _)| asked.is_none_or(|asked| asked == pmu));
        wanted
            .flat_map(|(pmu, model)| {
                let own = find(Some(*model), name, Some("cpu")).into_iter();
                own.map(move |definition| Definition {
                    pmu: pmu.clone(),
                    ..definition
                })
            })
            .collect()
    }
}

impl Catalogue for OfCpu {
    fn find(&self, name: &str, pmu: Option<&str>) -> Vec<Definition> {
        let by_kind = self.by_kind(name, pmu);
        // A kind that lacks the event is asked again as `cpu`: another kind's number would count something else.
        let core = pmu == Some("cpu") && !self.kinds().is_empty();
        if core || !by_kind.is_empty() {
            return by_kind;
        }
        find(self.model(), name, pmu)
    }

    fn names(&self, pmu: Option<&str>) -> Vec<String> {
        let kinds = self.kinds();
        let own = kinds
            .iter()
            .filter(|(own, _)| pmu.is_none_or(|pmu| pmu == own));
        let mut all: Vec<String> = own
            .flat_map(|(_, model)| names(Some(*model), Some("cpu")))
            .collect();
        if all.is_empty() {
            return names(self.model(), pmu);
        }
        all.sort();
        all.dedup();
        all
    }

    fn elsewhere(&self, name: &str) -> Vec<String> {
        elsewhere(Tables::embedded(), name)
    }
}

/// The machine with the built-in events of its CPU. A CPU that the tables do not know has none, but an unknown event
/// is then still told which CPUs have it.
#[must_use]
pub fn with_tables(machine: Machine) -> Machine {
    let catalogue = OfCpu {
        cpu: machine.cpu(),
        sysfs: machine.sysfs().cloned(),
    };
    machine.with_catalogue(catalogue)
}
