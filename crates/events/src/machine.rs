//! What names are looked up in: this machine's sysfs and tracefs, its CPU, and further catalogues.

use crate::cpu::Cpu;
use crate::sysfs::{Pmu, Sysfs};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A source of named events beyond the generic ones and sysfs, such as a table of a CPU's events.
///
/// The resolver asks, in this order: special kinds, generic names, sysfs `events/` of the core PMUs, of all other
/// PMUs, then each catalogue in the order added. The first that knows the name wins.
pub trait Catalogue: fmt::Debug + Send + Sync {
    /// The event called `name`, of the PMU `pmu` if one was named: one definition for each PMU that has it. `pmu` is
    /// the name in sysfs; a core PMU is also asked for as `cpu` if nothing is known under its own name.
    fn find(&self, name: &str, pmu: Option<&str>) -> Vec<Definition>;

    /// All names (of one PMU), for did-you-mean and listings.
    fn names(&self, pmu: Option<&str>) -> Vec<String>;

    /// Other CPUs that have an event of this name, where the catalogue knows of any.
    fn elsewhere(&self, name: &str) -> Vec<String> {
        let _ = name;
        Vec::new()
    }
}

/// An event as a catalogue describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name in the catalogue's spelling.
    pub name: String,
    /// The PMU as sysfs calls it; `cpu` means the core PMU, whatever its name.
    pub pmu: String,
    /// `event=0xc4,umask=0x20`, in the PMU's terms.
    pub terms: String,
    /// Unit of the scaled count, if it is not a plain count.
    pub unit: Option<String>,
    /// Factor to the unit.
    pub scale: Option<f64>,
    /// Samples of it must be precise (PEBS): without that it counts wrongly or not at all.
    pub precise: bool,
}

/// Where names are looked up.
///
/// ```
/// use truecount_events::{Machine, resolve};
/// // A machine about which nothing is known: generic names, raw numbers and special kinds still resolve.
/// let resolved = resolve("instructions:u,r01cb:u,wall-time", &Machine::unknown()).unwrap();
/// assert_eq!(resolved.events().count(), 3);
/// ```
#[derive(Debug)]
pub struct Machine {
    sysfs: Option<Sysfs>,
    tracefs: Vec<PathBuf>,
    /// Read when it is asked for: the kernel may ask every CPU for its frequency first, which takes milliseconds (x86,
    /// `arch_freq_prepare_all`), and counters by generic names need no CPU.
    cpu: OnceLock<Option<Cpu>>,
    cpuinfo: Option<PathBuf>,
    catalogues: Vec<Box<dyn Catalogue>>,
}

impl Machine {
    /// The machine this program runs on; its CPU may be another one for tests ([`Cpu::stated`]).
    #[must_use]
    pub fn this() -> Self {
        let this = Self::at(Path::new("/"));
        match Cpu::stated() {
            Some(cpu) => Self {
                cpu: OnceLock::from(cpu),
                ..this
            },
            None => this,
        }
    }

    /// The machine whose `sys/` and `proc/` lie under `root` (a copy of another machine's, or a test's).
    #[must_use]
    pub fn at(root: &Path) -> Self {
        let sys = root.join("sys");
        Self {
            tracefs: vec![sys.join("kernel/tracing"), sys.join("kernel/debug/tracing")],
            sysfs: Some(Sysfs::new(&sys)),
            cpu: OnceLock::new(),
            cpuinfo: Some(root.join("proc/cpuinfo")),
            catalogues: Vec::new(),
        }
    }

    /// No machine: neither sysfs nor tracefs nor a known CPU.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            sysfs: None,
            tracefs: Vec::new(),
            cpu: OnceLock::new(),
            cpuinfo: None,
            catalogues: Vec::new(),
        }
    }

    /// With another CPU than the one found.
    #[must_use]
    pub fn with_cpu(mut self, cpu: Cpu) -> Self {
        self.cpu = OnceLock::from(Some(cpu));
        self
    }

    /// With one more catalogue, asked after those already there.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: impl Catalogue + 'static) -> Self {
        self.catalogues.push(Box::new(catalogue));
        self
    }

    /// The CPU, if it could be recognised.
    #[must_use]
    pub fn cpu(&self) -> Option<Cpu> {
        *self
            .cpu
            .get_or_init(|| self.cpuinfo.as_deref().and_then(read_cpu))
    }

    /// The PMUs of the cores. More than one: a hybrid machine. None: no PMU, or not Linux' sysfs.
    #[must_use]
    pub fn core_pmus(&self) -> Vec<Pmu> {
        self.sysfs
            .as_ref()
            .map(Sysfs::core_pmus)
            .unwrap_or_default()
    }

    /// The Arm core PMU that says it does not have an event: architectural events (0x00 to 0x3f, 0x4000 to 0x403f) are
    /// in the PMU's `events/` only where the identification registers `PMCEID0_EL0` and `PMCEID1_EL0` have their bit
    /// (Linux `drivers/perf/arm_pmuv3.c`, `armv8pmu_event_attr_is_visible`). The kernel opens such an event all the
    /// same, and it reads 0. `None`: it is listed, or nothing is known.
    #[must_use]
    pub fn unlisted(&self, encoding: &crate::Encoding) -> Option<String> {
        /// Not shown by the kernel although PMUs have it: a counter's carry into the next.
        const CHAIN: u64 = 0x1e;
        let number = encoding.config & 0xffff;
        let architectural = matches!(number, 0..=0x3f | 0x4000..=0x403f) && number != CHAIN;
        if !architectural {
            return None;
        }
        let cores = self.core_pmus();
        let mut own = cores
            .iter()
            .filter(|pmu| {
                ["armv8_", "armv9_"]
                    .iter()
                    .any(|by| pmu.name.starts_with(by))
            })
            .filter(|pmu| encoding.type_ == pmu.type_ || encoding.type_ == crate::generic::TYPE_RAW)
            .peekable();
        own.peek()?;
        let mut name = None;
        for pmu in own {
            let listed = pmu.event_numbers();
            // One that lists no cycles lists nothing that could be believed.
            if listed.contains(&number) || !listed.contains(&0x11) {
                return None;
            }
            name = Some(pmu.name.clone());
        }
        name
    }

    /// The sysfs tree.
    #[must_use]
    pub fn sysfs(&self) -> Option<&Sysfs> {
        self.sysfs.as_ref()
    }

    pub(crate) fn tracefs(&self) -> &[PathBuf] {
        &self.tracefs
    }

    pub(crate) fn catalogues(&self) -> impl Iterator<Item = &dyn Catalogue> {
        self.catalogues.iter().map(AsRef::as_ref)
    }

    /// PMUs that a name in front of slashes means.
    pub(crate) fn pmus(&self, name: &str) -> Vec<Pmu> {
        let found = self
            .sysfs
            .as_ref()
            .map(|s| s.matching(name))
            .unwrap_or_default();
        if !found.is_empty() || name != "cpu" {
            return found;
        }
        let core = self.core_pmus();
        let x86 = self
            .cpu()
            .is_some_and(|c| !matches!(c.vendor, crate::Vendor::Arm(_)));
        if core.is_empty() && x86 {
            vec![Pmu::builtin_x86()]
        } else {
            core
        }
    }
}

/// Only the first processor matters: the file is long on big machines.
fn read_cpu(path: &Path) -> Option<Cpu> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .ok()?
        .take(8192)
        .read_to_end(&mut bytes)
        .ok()?;
    Cpu::from_cpuinfo(&String::from_utf8_lossy(&bytes))
}
