//! The facts about a machine that decide why a perf system call failed.
//!
//! Gathered only after an error (or for `check`), from files under a root directory, so that tests use
//! made-up trees. Sources: `Documentation/admin-guide/sysctl/kernel.rst`,
//! `Documentation/admin-guide/perf-security.rst`, capabilities(7), proc(5).

use crate::probe::{Pmu, Root};

/// `CAP_SYS_PTRACE`
const CAP_SYS_PTRACE: u32 = 19;
/// `CAP_SYS_ADMIN`
const CAP_SYS_ADMIN: u32 = 21;
/// `CAP_IPC_LOCK`
const CAP_IPC_LOCK: u32 = 14;
/// `CAP_PERFMON` (Linux 5.8)
const CAP_PERFMON: u32 = 38;

/// What the machine says about itself. `None`: it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Facts {
    /// `kernel.perf_event_paranoid`; `None`: the kernel has no perf events, or `/proc` is not there.
    pub paranoid: Option<i32>,
    /// `/proc/sys/kernel` can be read, so that a missing file in it means something.
    pub proc_readable: bool,
    /// `kernel.perf_event_mlock_kb`
    pub mlock_kb: Option<u64>,
    /// `kernel.perf_event_max_sample_rate`
    pub max_sample_rate: Option<u64>,
    /// `kernel.perf_event_max_stack`
    pub max_stack: Option<u64>,
    /// `kernel.nmi_watchdog`
    pub nmi_watchdog: Option<bool>,
    /// Whether the hard-lockup watchdog holds a counter of every CPU while it is on; `None`: the kernel does not say.
    /// Since Linux 6.5 it can be the buddy detector, where CPUs watch each other by timers (`kernel/watchdog_buddy.c`).
    pub watchdog_counts: Option<bool>,
    /// `kernel.perf_user_access` (arm64)
    pub user_access: Option<bool>,
    /// `kernel.randomize_va_space`: 0 no, 1 without heap, 2 with heap.
    pub randomize_va_space: Option<u32>,
    /// Address randomisation is switched off for this process (`personality`).
    pub aslr_off_here: bool,
    /// Kernel release, e.g. `6.12.0-1-amd64`.
    pub release: Option<String>,
    /// `CAP_PERFMON` is effective.
    pub cap_perfmon: bool,
    /// `CAP_SYS_ADMIN` is effective.
    pub cap_sys_admin: bool,
    /// `CAP_SYS_PTRACE` is effective.
    pub cap_sys_ptrace: bool,
    /// `CAP_IPC_LOCK` is effective.
    pub cap_ipc_lock: bool,
    /// The process is in a user namespace of its own: its capabilities do not count for perf.
    pub user_namespace: bool,
    /// Seccomp filters apply to this process (`Seccomp: 2`).
    pub seccomp_filter: bool,
    /// Which container this seems to be, e.g. `docker`.
    pub container: Option<String>,
    /// Kernel lockdown: `integrity` or `confidentiality`.
    pub lockdown: Option<String>,
    /// The CPU says that it runs under a hypervisor; its name where it tells.
    pub hypervisor: Option<String>,
    /// Who made the (virtual) machine, as its DMI table says: `Amazon EC2`, `Google`, `Microsoft Corporation`, …
    pub machine_vendor: Option<String>,
    /// The PMUs in `/sys/bus/event_source/devices`; `None`: the directory cannot be read.
    pub pmus: Option<Vec<PmuFact>>,
    /// CPUs that are online.
    pub online_cpus: Option<Vec<u32>>,
    /// Soft limit of open files.
    pub open_files: Option<u64>,
}

/// A PMU as far as errors are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmuFact {
    /// Name of its directory.
    pub name: String,
    /// Its number in `perf_event_attr.type`.
    pub type_: Option<u32>,
    /// It counts the CPU's own events.
    pub core: bool,
    /// `caps/branches`: entries of its branch stack.
    pub branches: Option<u32>,
    /// `caps/max_precise`
    pub max_precise: Option<u32>,
    /// Samples branches as Zen 3 does (BRS): `events/branch-brs`.
    pub brs: bool,
}

impl Facts {
    /// Reads the facts below `root`. What cannot be read stays unknown; nothing fails.
    #[must_use]
    pub fn gather(root: &Root) -> Self {
        let sysctl = |name: &str| root.text(&format!("proc/sys/kernel/{name}"));
        let number = |name: &str| sysctl(name).and_then(|text| text.parse::<u64>().ok());
        let switch = |name: &str| number(name).map(|n| n != 0);
        let status = root.text("proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
        };
        let caps = field("CapEff")
            .and_then(|hex| u64::from_str_radix(hex, 16).ok())
            .unwrap_or(0);
        let has = |cap: u32| caps >> cap & 1 != 0;
        let personality = root
            .text("proc/self/personality")
            .and_then(|hex| u64::from_str_radix(&hex, 16).ok())
            .unwrap_or(0);
        Self {
            paranoid: sysctl("perf_event_paranoid").and_then(|text| text.parse().ok()),
            proc_readable: root.path("proc/sys/kernel/osrelease").exists(),
            mlock_kb: number("perf_event_mlock_kb"),
            max_sample_rate: number("perf_event_max_sample_rate"),
            max_stack: number("perf_event_max_stack"),
            nmi_watchdog: switch("nmi_watchdog"),
            watchdog_counts: watchdog_counts(root),
            user_access: switch("perf_user_access"),
            randomize_va_space: number("randomize_va_space").and_then(|n| u32::try_from(n).ok()),
            // ADDR_NO_RANDOMIZE, include/uapi/linux/personality.h
            aslr_off_here: personality & 0x004_0000 != 0,
            release: sysctl("osrelease"),
            cap_perfmon: has(CAP_PERFMON),
            cap_sys_admin: has(CAP_SYS_ADMIN),
            cap_sys_ptrace: has(CAP_SYS_PTRACE),
            cap_ipc_lock: has(CAP_IPC_LOCK),
            user_namespace: in_user_namespace(root),
            seccomp_filter: field("Seccomp") == Some("2"),
            container: container(root),
            lockdown: root
                .text("sys/kernel/security/lockdown")
                .and_then(|text| chosen(&text)),
            hypervisor: crate::probe::cpu::hypervisor(root),
            machine_vendor: root
                .text("sys/class/dmi/id/sys_vendor")
                .filter(|vendor| !vendor.is_empty()),
            pmus: PmuFact::all(root),
            online_cpus: root.online_cpus(),
            open_files: open_files(root),
        }
    }

    /// Perf restrictions do not apply: `CAP_PERFMON` or `CAP_SYS_ADMIN` in the first user namespace.
    #[must_use]
    pub fn privileged(&self) -> bool {
        (self.cap_perfmon || self.cap_sys_admin) && !self.user_namespace
    }

    /// Whether a PMU for the CPU's own events exists; `None` where `/sys` does not say.
    #[must_use]
    pub fn core_pmu(&self) -> Option<bool> {
        Some(self.pmus.as_ref()?.iter().any(|pmu| pmu.core))
    }

    /// The PMU with this type number.
    #[must_use]
    pub fn pmu_of_type(&self, type_: u32) -> Option<&PmuFact> {
        self.pmus
            .as_ref()?
            .iter()
            .find(|pmu| pmu.type_ == Some(type_))
    }

    /// Who may hold counters beside the caller, for hints: the watchdog only where it is on and may use one.
    #[must_use]
    pub fn other_users(&self) -> &'static str {
        match (self.nmi_watchdog, self.watchdog_counts) {
            (Some(false), _) => "perf, other profilers",
            (_, Some(false)) => "perf, other profilers; this kernel's watchdog holds none",
            _ => "perf, the NMI watchdog: sysctl kernel.nmi_watchdog=0",
        }
    }

    /// Major and minor number of the kernel.
    #[must_use]
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self
            .release
            .as_deref()?
            .split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

impl PmuFact {
    /// The facts of all PMUs. Reads a few files a PMU and not the hundreds of events and formats, since
    /// this is done for every error, and servers have a hundred uncore PMUs.
    fn all(root: &Root) -> Option<Vec<Self>> {
        let names = Pmu::names(root)?;
        let fact = |name: String| {
            let number = |file: &str| {
                let number = root.number(&format!("{}/{name}/{file}", Pmu::DIRECTORY))?;
                u32::try_from(number).ok()
            };
            let core = Pmu::is_core_directory(root, &name);
            Self {
                type_: number("type"),
                core,
                branches: if core { number("caps/branches") } else { None },
                max_precise: if core {
                    number("caps/max_precise")
                } else {
                    None
                },
                brs: core
                    && root
                        .path(&format!("{}/{name}/events/branch-brs", Pmu::DIRECTORY))
                        .exists(),
                name,
            }
        };
        Some(names.into_iter().map(fact).collect())
    }
}

/// By the kernel's configuration beside its image, where that can be read; before 6.5 there was only the one that counts.
fn watchdog_counts(root: &Root) -> Option<bool> {
    let release = root.text("proc/sys/kernel/osrelease")?;
    let places = [
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
    ];
    let config = places.iter().find_map(|place| root.text(place));
    if let Some(config) = config {
        let set = |name: &str| {
            config
                .lines()
                .any(|line| line.strip_prefix(name) == Some("=y"))
        };
        if set("CONFIG_HARDLOCKUP_DETECTOR_BUDDY") {
            return Some(false);
        }
        if set("CONFIG_HARDLOCKUP_DETECTOR_PERF") {
            return Some(true);
        }
    }
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let version: (u32, u32) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (version < (6, 5)).then_some(true)
}

/// The word in brackets: `none [integrity] confidentiality`; `none` is nothing.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    (word != "none").then(|| word.to_owned())
}

/// The first user namespace maps all ids onto themselves (user_namespaces(7)).
fn in_user_namespace(root: &Root) -> bool {
    root.text("proc/self/uid_map").is_some_and(|map| {
        let mut words = map.split_whitespace();
        (words.next(), words.next(), words.next()) != (Some("0"), Some("0"), Some("4294967295"))
    })
}

fn open_files(root: &Root) -> Option<u64> {
    let limits = root.text("proc/self/limits")?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Marks that container runtimes leave: files at the root, or their name in a cgroup path.
fn container(root: &Root) -> Option<String> {
    if root.path(".dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if root.path("run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    if let Some(name) = root
        .text("run/systemd/container")
        .filter(|name| !name.is_empty())
    {
        return Some(name);
    }
    let cgroups = root.text("proc/self/cgroup")?;
    ["kubepods", "docker", "libpod", "lxc", "containerd"]
        .into_iter()
        .find(|name| cgroups.contains(name))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Tree;

    /// Hints name the watchdog only where it may hold a counter.
    #[test]
    fn a_watchdog_of_buddies_holds_no_counter() {
        let other_users = |release: &str, on: &str, config: Option<&str>| {
            let tree = Tree::new().expect("a temporary directory");
            tree.sysctl("osrelease", release);
            tree.sysctl("nmi_watchdog", on);
            if let Some(config) = config {
                tree.file(&format!("boot/config-{release}"), config);
            }
            Facts::gather(&tree.root()).other_users()
        };
        let buddy = "CONFIG_HARDLOCKUP_DETECTOR=y\nCONFIG_HARDLOCKUP_DETECTOR_BUDDY=y\n";
        let counting =
            "# CONFIG_HARDLOCKUP_DETECTOR_BUDDY is not set\nCONFIG_HARDLOCKUP_DETECTOR_PERF=y\n";
        for (release, on, config, named) in [
            ("6.5.0", "1", Some(buddy), false),
            ("6.5.0", "1", Some(counting), true),
            ("6.12.9-amd64", "1", None, true),
            ("6.1.0-18-amd64", "1", None, true),
            ("6.1.0-18-amd64", "0", None, false),
        ] {
            let text = other_users(release, on, config);
            assert_eq!(
                text.contains("sysctl"),
                named,
                "{release} {on} {config:?}: {text}"
            );
        }
    }

    #[test]
    fn a_made_up_machine() {
        let tree = Tree::new().expect("a temporary directory");
        tree.sysctl("perf_event_paranoid", "3");
        tree.sysctl("osrelease", "6.12.9-amd64");
        tree.sysctl("nmi_watchdog", "1");
        tree.sysctl("randomize_va_space", "2");
        tree.file(
            "proc/self/status",
            "Name:\tx\nCapEff:\t0000004000000000\nSeccomp:\t2\nSeccomp_filters:\t1\n",
        );
        tree.file("proc/self/uid_map", "         0       1000          1\n");
        tree.file("proc/self/personality", "00040000\n");
        tree.file(
            "proc/self/limits",
            "Limit  Soft  Hard Units\nMax open files            1024                 4096 files\n",
        );
        tree.file(".dockerenv", "");
        tree.file(
            "sys/kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        );
        tree.pmu(
            "cpu",
            4,
            &[("caps/branches", "32"), ("caps/max_precise", "3")],
        );
        tree.pmu("software", 1, &[]);
        let facts = Facts::gather(&tree.root());
        assert_eq!(
            (facts.paranoid, facts.nmi_watchdog, facts.user_access),
            (Some(3), Some(true), None)
        );
        assert!(facts.proc_readable && facts.cap_perfmon && !facts.cap_sys_admin);
        assert!(facts.user_namespace && !facts.privileged());
        assert!(facts.seccomp_filter && facts.aslr_off_here);
        assert_eq!(facts.container.as_deref(), Some("docker"));
        assert_eq!(facts.lockdown.as_deref(), Some("integrity"));
        assert_eq!(facts.version(), Some((6, 12)));
        assert_eq!(facts.open_files, Some(1024));
        assert_eq!(facts.core_pmu(), Some(true));
        assert_eq!(facts.pmu_of_type(4).and_then(|pmu| pmu.branches), Some(32));
        assert_eq!(facts.pmu_of_type(7), None);
    }

    #[test]
    fn nothing_is_known_of_an_empty_tree() {
        let tree = Tree::new().expect("a temporary directory");
        let facts = Facts::gather(&tree.root());
        assert_eq!(
            (facts.paranoid, facts.core_pmu(), facts.version()),
            (None, None, None)
        );
        assert!(!facts.proc_readable && !facts.user_namespace && !facts.privileged());
        tree.file("sys/bus/event_source/devices/.keep", "");
        assert_eq!(Facts::gather(&tree.root()).core_pmu(), Some(false));
    }
}
