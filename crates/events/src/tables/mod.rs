//! Event tables: names and codes of the events of every CPU that Linux' `tools/perf/pmu-events` describes, looked up
//! on any machine for any CPU.
//!
//! The table is one compressed file, `data/events.bin`, written by `cargo xtask gen-events` from Debian's
//! `linux-source-6.12` (names and codes, which are facts; no sentence of the descriptions). Events that are in no
//! public table are written by hand in `data/undocumented.tsv`, with a source beside each row. The vendor's own JSON
//! files can be read too (feature `event-dir`).
//!
//! ```
//! use truecount_events::tables::Tables;
//! let skylake = Tables::embedded().model("skl").unwrap();
//! let event = &skylake.find("mem_load_retired.l1_hit")[0];
//! assert_eq!(event.raw(), Some(0x01d1));
//! assert_eq!(event.perf(), "cpu/event=0xd1,umask=0x1/");
//! ```

mod blob;
mod catalogue;
mod cpuid;
mod event;
mod notes;
#[cfg(feature = "event-dir")]
pub mod vendor;

pub use blob::{BlobError, MAGIC};
pub use catalogue::{ModelCatalogue, with_tables};
pub use event::{Arch, CodeKey, Precise, TableEvent};
pub use notes::description;

use crate::{Cpu, did_you_mean};
use std::sync::OnceLock;

/// All models with their events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    pub(crate) source: String,
    pub(crate) models: Vec<ModelData>,
    /// All distinct events, sorted by name; models hold indices.
    pub(crate) events: Vec<TableEvent>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelData {
    pub(crate) name: String,
    pub(crate) patterns: Vec<String>,
    pub(crate) version: String,
    /// Sorted.
    pub(crate) events: Vec<u32>,
}

/// One model (a micro-architecture, or a server part of one) and its events.
#[derive(Debug, Clone, Copy)]
pub struct Model<'a> {
    tables: &'a Tables,
    data: &'a ModelData,
}

/// What a look-up by name over all models says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Models that have the event.
    pub models: Vec<String>,
    /// Names of this model that are near.
    pub near: Vec<String>,
}

static EMBEDDED: OnceLock<Tables> = OnceLock::new();

impl Tables {
    /// The table that is built in. Decoded at the first call (some milliseconds), then shared.
    ///
    /// The file is part of the program and checked by a test; should it not decode, the table is empty.
    #[must_use]
    pub fn embedded() -> &'static Self {
        EMBEDDED.get_or_init(|| {
            let mut tables =
                Self::decode(include_bytes!("../../data/events.bin")).unwrap_or_default();
            tables.add_undocumented();
            tables
        })
    }

    /// Decodes a file of `cargo xtask gen-events`.
    ///
    /// # Errors
    /// Not such a file, or a damaged one.
    pub fn decode(bytes: &[u8]) -> Result<Self, BlobError> {
        blob::decode(bytes)
    }

    /// What the table was made from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// All distinct events, sorted by name.
    #[must_use]
    pub fn distinct(&self) -> &[TableEvent] {
        &self.events
    }

    /// All models, in the order in which CPUs are matched.
    pub fn models(&self) -> impl Iterator<Item = Model<'_>> {
        self.models.iter().map(|data| Model { tables: self, data })
    }

    /// The model of this name or short name (`skylake`, `skl`, `zen2`, `neoverse-n1`), case ignored.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<Model<'_>> {
        let wanted = cpuid::canonical(name);
        self.models()
            .find(|m| m.name().eq_ignore_ascii_case(name))
            .or_else(|| self.models().find(|m| m.name() == wanted))
    }

    /// Names and short names near to one that [`Self::model`] does not know.
    #[must_use]
    pub fn near_models(&self, name: &str) -> Vec<String> {
        let names = self
            .models()
            .flat_map(|m| std::iter::once(m.name()).chain(m.aliases().iter().copied()));
        did_you_mean(name, names)
    }

    /// The model of a CPU.
    #[must_use]
    pub fn model_of(&self, cpu: Cpu) -> Option<Model<'_>> {
        self.models()
            .find(|m| m.data.patterns.iter().any(|p| cpuid::matches(p, cpu)))
    }

    /// Names of all models that have an event of this name.
    #[must_use]
    pub fn having(&self, name: &str) -> Vec<&str> {
        let ids: Vec<u32> = self
            .range(name)
            .filter_map(|i| u32::try_from(i).ok())
            .collect();
        self.models
            .iter()
            .filter(|m| ids.iter().any(|id| m.events.binary_search(id).is_ok()))
            .map(|m| m.name.as_str())
            .collect()
    }

    /// Where in `events` the name stands, case ignored.
    fn range(&self, name: &str) -> std::ops::Range<usize> {
        let order = |event: &TableEvent| cmp_ignoring_case(&event.name, name);
        let start = self.events.partition_point(|e| order(e).is_lt());
        let end = self.events.partition_point(|e| order(e).is_le());
        start..end
    }

    /// Sorts events by name and makes the models' indices follow. Every constructor ends with it.
    pub(crate) fn sort(&mut self) {
        let mut order: Vec<u32> =
            (0..u32::try_from(self.events.len()).unwrap_or(u32::MAX)).collect();
        let key = |i: u32| self.events.get(i as usize);
        order.sort_by(|&a, &b| match (key(a), key(b)) {
            (Some(a), Some(b)) => cmp_ignoring_case(&a.name, &b.name).then_with(|| a.cmp(b)),
            _ => std::cmp::Ordering::Equal,
        });
        let mut place = vec![0u32; order.len()];
        for (new, &old) in (0u32..).zip(&order) {
            if let Some(slot) = place.get_mut(old as usize) {
                *slot = new;
            }
        }
        let old = std::mem::take(&mut self.events);
        let mut placed: Vec<(u32, TableEvent)> = place.iter().copied().zip(old).collect();
        placed.sort_by_key(|&(at, _)| at);
        self.events = placed.into_iter().map(|(_, event)| event).collect();
        for model in &mut self.models {
            for id in &mut model.events {
                if let Some(&new) = place.get(*id as usize) {
                    *id = new;
                }
            }
            model.events.sort_unstable();
            model.events.dedup();
        }
    }
}

/// The order of names: ASCII case ignored.
fn cmp_ignoring_case(a: &str, b: &str) -> std::cmp::Ordering {
    let a = a.bytes().map(|b| b.to_ascii_lowercase());
    let b = b.bytes().map(|b| b.to_ascii_lowercase());
    a.cmp(b)
}

impl<'a> Model<'a> {
    /// The name as in Linux' `pmu-events`: `skylake`, `amdzen2`, `neoverse-n1`.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.data.name
    }

    /// Short and other names: `skl`.
    #[must_use]
    pub fn aliases(&self) -> &'static [&'static str] {
        cpuid::aliases(&self.data.name)
    }

    /// The version of the vendor's list, as the source states it.
    #[must_use]
    pub fn version(&self) -> &'a str {
        &self.data.version
    }

    /// Which CPUs are meant: `GenuineIntel-6-(4E|5E|8E|9E|A5|A6)`, or an Arm MIDR.
    #[must_use]
    pub fn cpus(&self) -> &'a [String] {
        &self.data.patterns
    }

    /// The kind of encoding.
    #[must_use]
    pub fn arch(&self) -> Arch {
        cpuid::arch(self.data.patterns.first().map_or("", String::as_str))
    }

    /// Where its events stand in [`Tables::distinct`], ascending.
    #[must_use]
    pub fn rows(&self) -> &'a [u32] {
        &self.data.events
    }

    /// All events, by name.
    pub fn events(&self) -> impl Iterator<Item = &'a TableEvent> + use<'a> {
        let tables = self.tables;
        self.data
            .events
            .iter()
            .filter_map(move |&id| tables.events.get(id as usize))
    }

    /// The events of this name, case ignored: none, one, or on a hybrid CPU one per kind of core.
    #[must_use]
    pub fn find(&self, name: &str) -> Vec<&'a TableEvent> {
        let range = self.tables.range(name);
        let tables = self.tables;
        range
            .filter(|&i| {
                u32::try_from(i).is_ok_and(|id| self.data.events.binary_search(&id).is_ok())
            })
            .filter_map(|i| tables.events.get(i))
            .collect()
    }

    /// For a name that this model lacks: which models have it, and which names of this model are near.
    #[must_use]
    pub fn elsewhere(&self, name: &str) -> Elsewhere {
        Elsewhere {
            models: self
                .tables
                .having(name)
                .into_iter()
                .map(str::to_owned)
                .collect(),
            near: did_you_mean(name, self.events().map(|e| e.name.as_str())),
        }
    }
}

#[cfg(test)]
mod tests;
