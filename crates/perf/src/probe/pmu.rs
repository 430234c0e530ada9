//! PMUs as `/sys/bus/event_source/devices` describes them.
//!
//! Source: `Documentation/ABI/testing/sysfs-bus-event_source-devices*`; which PMU counts the CPU's own
//! events: named `cpu`, or with a `cpus` file (hybrid x86, Arm), as the kernel's perf tool decides it.

use std::collections::BTreeMap;

use super::files::Root;

/// One PMU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pmu {
    /// Name of its directory, e.g. `cpu`, `cpu_core`, `armv8_pmuv3_0`, `uncore_imc_0`.
    pub name: String,
    /// Its number for `perf_event_attr.type`.
    pub type_: Option<u32>,
    /// CPUs it belongs to (core PMUs of hybrid x86 and Arm).
    pub cpus: Option<Vec<u32>>,
    /// CPUs to open system-wide events on (uncore PMUs: one a package).
    pub cpumask: Option<Vec<u32>>,
    /// Terms of its configuration, e.g. `event` → `config:0-7`.
    pub format: BTreeMap<String, String>,
    /// Its named events, e.g. `instructions` → `event=0xc0`.
    pub events: BTreeMap<String, String>,
    /// Its capabilities, e.g. `branches` → `32`, `max_precise`, `pmu_name`.
    pub caps: BTreeMap<String, String>,
    /// x86: who may read counters in user mode: 0 nobody, 1 who has one mapped, 2 everybody.
    pub rdpmc: Option<u32>,
}

impl Pmu {
    pub(crate) const DIRECTORY: &'static str = "sys/bus/event_source/devices";

    /// All PMUs below `root`, by name; `None` where the directory cannot be read.
    #[must_use]
    pub fn all(root: &Root) -> Option<Vec<Self>> {
        let names = Self::names(root)?;
        Some(names.iter().map(|name| Self::read(root, name)).collect())
    }

    /// Names of the PMUs, sorted.
    pub(crate) fn names(root: &Root) -> Option<Vec<String>> {
        let mut names = root.names(Self::DIRECTORY)?;
        names.retain(|name| !name.starts_with('.'));
        Some(names)
    }

    /// [`Pmu::is_core`] without reading the PMU.
    pub(crate) fn is_core_directory(root: &Root, name: &str) -> bool {
        let cpus = || {
            root.path(&format!("{}/{name}/cpus", Self::DIRECTORY))
                .exists()
        };
        is_core_name(name) || cpus()
    }

    fn read(root: &Root, name: &str) -> Self {
        let directory = format!("{}/{name}", Self::DIRECTORY);
        let file = |file: &str| root.text(&format!("{directory}/{file}"));
        let table = |sub: &str| -> BTreeMap<String, String> {
            let directory = format!("{directory}/{sub}");
            let names = root.names(&directory).unwrap_or_default();
            names
                .into_iter()
                .filter_map(|name| Some((root.text(&format!("{directory}/{name}"))?, name)))
                .map(|(text, name)| (name, text))
                .collect()
        };
        Self {
            name: name.to_owned(),
            type_: file("type").and_then(|text| text.parse().ok()),
            cpus: file("cpus").and_then(|text| truecount_events::cpu_list(&text)),
            cpumask: file("cpumask").and_then(|text| truecount_events::cpu_list(&text)),
            format: table("format"),
            events: table("events"),
            caps: table("caps"),
            rdpmc: file("rdpmc").and_then(|text| text.parse().ok()),
        }
    }

    /// Whether it counts the CPU's own events.
    #[must_use]
    pub fn is_core(&self) -> bool {
        is_core_name(&self.name) || self.cpus.is_some()
    }

    /// A capability that is a number.
    #[must_use]
    pub fn cap_number(&self, name: &str) -> Option<u32> {
        self.caps.get(name)?.parse().ok()
    }
}

/// The names that need no `cpus` file: x86 that is not hybrid, s390.
fn is_core_name(name: &str) -> bool {
    matches!(name, "cpu" | "cpum_cf")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Tree;

    #[test]
    fn a_hybrid_machine() {
        let tree = Tree::new().unwrap();
        tree.pmu(
            "cpu_core",
            4,
            &[
                ("cpus", "0-3"),
                ("rdpmc", "1"),
                ("format/event", "config:0-7"),
                ("format/umask", "config:8-15"),
                ("events/instructions", "event=0xc0"),
                ("caps/branches", "32"),
                ("caps/pmu_name", "alderlake_hybrid"),
            ],
        );
        tree.pmu("cpu_atom", 10, &[("cpus", "4-7")]);
        tree.pmu("uncore_imc_0", 17, &[("cpumask", "0")]);
        tree.pmu("software", 1, &[]);
        let pmus = Pmu::all(&tree.root()).unwrap();
        let named = |name: &str| pmus.iter().find(|pmu| pmu.name == name).unwrap();
        assert_eq!(pmus.iter().filter(|pmu| pmu.is_core()).count(), 2);
        let core = named("cpu_core");
        assert_eq!(
            (core.type_, core.rdpmc, core.cap_number("branches")),
            (Some(4), Some(1), Some(32))
        );
        assert_eq!(core.cpus, Some(vec![0, 1, 2, 3]));
        assert_eq!(core.format["umask"], "config:8-15");
        assert_eq!(core.events["instructions"], "event=0xc0");
        assert_eq!(core.cap_number("pmu_name"), None);
        assert_eq!(named("uncore_imc_0").cpumask, Some(vec![0]));
        assert!(!named("software").is_core());
    }

    #[test]
    fn no_directory_is_not_no_pmu() {
        let tree = Tree::new().unwrap();
        assert_eq!(Pmu::all(&tree.root()), None);
    }
}
