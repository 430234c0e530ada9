//! Metrics: numbers computed from counts, as data. One row a metric: its formula, its unit, from when on it deserves a
//! look and where to look next. The built-in rows are in `data/metrics.toml`, with the source and version of each
//! pack; users add files of the same form.
//!
//! A pack holds metrics of some CPUs. Its formulas use short names, which the pack maps to events; the constants that
//! the caller knows (`smt`, `wall_ns`); and other metrics of the pack. A metric whose counts are missing, or whose
//! divisor is 0, has no value but a reason.
//!
//! ```
//! use truecount_events::metrics::{Context, Metrics};
//! let metrics = Metrics::embedded();
//! let packs = metrics.packs_for(&["skylake"]);
//! let general = packs.iter().find(|p| p.name == "general").unwrap();
//! let counts = |event: &str| match event { "instructions" => Some(300.0), "cycles" => Some(200.0), _ => None };
//! let values = general.evaluate(&["ipc"], &counts, &Context::default());
//! assert_eq!(values[0].result, Ok(1.5));
//! ```

mod expr;
mod pack;
mod place;

pub use expr::{Expr, NoValue, Op, ParseError};
pub use pack::{Context, Flag, Metric, Pack, SumCheck, Value, Worse};
pub use place::Placed;

use crate::{Cpu, Vendor, did_you_mean};
use std::fmt;
use std::sync::OnceLock;

/// Packs of metrics.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    packs: Vec<Pack>,
}

/// A file of metrics that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsError {
    /// The file.
    pub file: String,
    /// What is wrong, and where.
    pub reason: String,
}

impl fmt::Display for MetricsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)
    }
}

impl std::error::Error for MetricsError {}

static EMBEDDED: OnceLock<Metrics> = OnceLock::new();

impl Metrics {
    /// The built-in packs. They are checked by a test; should they not parse, there are none.
    #[must_use]
    pub fn embedded() -> &'static Self {
        EMBEDDED.get_or_init(|| {
            Self::parse(include_str!("../../data/metrics.toml"), "built-in metrics")
                .unwrap_or_default()
        })
    }

    /// Reads a file; `name` is for error messages.
    ///
    /// # Errors
    /// No TOML, an unknown or missing field, a formula that cannot be parsed or that uses a name nobody defines.
    pub fn parse(text: &str, name: &str) -> Result<Self, MetricsError> {
        pack::parse(text)
            .map(|packs| Self { packs })
            .map_err(|reason| MetricsError {
                file: name.to_owned(),
                reason,
            })
    }

    /// Both; a pack of `other` with the name of one here replaces it.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.packs
            .retain(|pack| other.packs.iter().all(|o| o.name != pack.name));
        self.packs.extend(other.packs);
        self
    }

    /// All packs.
    #[must_use]
    pub fn packs(&self) -> &[Pack] {
        &self.packs
    }

    /// The worse direction of a metric of this name, whatever the pack; `None` where none has it, or its row does not
    /// say. Packs that share a name agree (a test sees to it for the built-in ones).
    ///
    /// ```
    /// use truecount_events::metrics::{Metrics, Worse};
    /// assert_eq!(Metrics::embedded().worse("IPC"), Some(Worse::Lower));
    /// ```
    #[must_use]
    pub fn worse(&self, name: &str) -> Option<Worse> {
        let metrics = self.packs.iter().rev().flat_map(|pack| &pack.metrics);
        metrics
            .filter(|metric| metric.name.eq_ignore_ascii_case(name))
            .find_map(|metric| metric.worse)
    }

    /// The packs for a CPU that goes by these names (see [`names_of`]), the special ones first.
    #[must_use]
    pub fn packs_for(&self, names: &[&str]) -> Vec<&Pack> {
        let mut packs: Vec<&Pack> = self.packs.iter().filter(|p| p.is_for(names)).collect();
        packs.sort_by_key(|pack| pack.is_general());
        packs
    }

    /// The pack and the metrics that `name` means for this CPU: one metric, or a whole pack or level of one.
    ///
    /// # Errors
    /// Near names, and the CPUs that have the metric if this one lacks it.
    pub fn find(&self, name: &str, names: &[&str]) -> Result<(&Pack, Vec<&str>), Unknown> {
        let same = |text: &str| text.eq_ignore_ascii_case(name);
        for pack in self.packs_for(names) {
            if same(&pack.name) {
                return Ok((pack, pack.metrics.iter().map(|m| m.name.as_str()).collect()));
            }
            if let Some(metric) = pack.metrics.iter().find(|m| same(&m.name)) {
                return Ok((pack, vec![&metric.name]));
            }
            let group: Vec<&str> = pack
                .metrics
                .iter()
                .filter(|m| m.group.as_deref().is_some_and(same))
                .map(|m| m.name.as_str())
                .collect();
            if !group.is_empty() {
                return Ok((pack, group));
            }
        }
        let has = |pack: &&Pack| {
            same(&pack.name)
                || pack
                    .metrics
                    .iter()
                    .any(|m| same(&m.name) || m.group.as_deref().is_some_and(same))
        };
        let elsewhere = self
            .packs
            .iter()
            .filter(has)
            .flat_map(|p| p.cpus.clone())
            .collect();
        let known = self.packs_for(names).into_iter().flat_map(|pack| {
            pack.metrics
                .iter()
                .flat_map(|m| std::iter::once(m.name.as_str()).chain(m.group.as_deref()))
                .chain(std::iter::once(pack.name.as_str()))
        });
        Err(Unknown {
            name: name.to_owned(),
            elsewhere,
            near: did_you_mean(name, known),
        })
    }
}

/// No such metric for this CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// What was asked for.
    pub name: String,
    /// CPUs that have it.
    pub elsewhere: Vec<String>,
    /// Names that this CPU has and that are near.
    pub near: Vec<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no metric {} for this CPU", self.name)?;
        if !self.elsewhere.is_empty() {
            return write!(f, "; there is one for {}", self.elsewhere.join(", "));
        }
        if !self.near.is_empty() {
            return write!(f, "; did you mean {}?", self.near.join(", "));
        }
        f.write_str("; truecount events --metrics lists them")
    }
}

impl std::error::Error for Unknown {}

/// The names by which packs may mean a CPU: its model in the tables, and where one model stands for several cores, the
/// core's own name.
#[must_use]
pub fn names_of(cpu: Cpu) -> Vec<String> {
    let mut names = Vec::new();
    // Arm's part numbers (Arm Neoverse technical reference manuals, MIDR_EL1).
    match (cpu.vendor, cpu.model) {
        (Vendor::Arm(0x41), 0xd49) => names.push("neoverse-n2".to_owned()),
        (Vendor::Arm(0x41), 0xd4f) => names.push("neoverse-v2".to_owned()),
        _ => {}
    }
    #[cfg(feature = "tables")]
    names.extend(
        crate::tables::Tables::embedded()
            .model_of(cpu)
            .map(|model| model.name().to_owned()),
    );
    names
}

#[cfg(test)]
mod tests;
