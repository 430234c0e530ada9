//! Which CPUs there are, and to which core, socket and memory node each belongs. Facts: Linux
//! `Documentation/admin-guide/cputopology.rst`, `Documentation/ABI/stable/sysfs-devices-node`.

use std::collections::BTreeMap;

use truecount_events::cpu_list;
use truecount_perf::probe::Root;

use crate::files::number;

/// Where a CPU is. Core numbers repeat in every socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// `topology/physical_package_id`; unknown on some virtual and Arm machines.
    pub socket: Option<u32>,
    /// `topology/die_id`; unknown on Arm and before Linux 5.2.
    pub die: Option<u32>,
    /// `topology/core_id`.
    pub core: Option<u32>,
    /// The memory node.
    pub node: Option<u32>,
}

/// The CPUs that are online.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// By CPU number.
    pub cpus: BTreeMap<u32, Place>,
}

impl Topology {
    /// Reads it. Without a list of CPUs it is empty; a CPU that goes offline meanwhile loses its place only.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let mut topology = Self::default();
        let base = "sys/devices/system/cpu";
        for cpu in root.online_cpus().unwrap_or_default() {
            let id = |name: &str| {
                let value = number(root, &format!("{base}/cpu{cpu}/topology/{name}")).ok()?;
                u32::try_from(value).ok()
            };
            topology.cpus.insert(
                cpu,
                Place {
                    socket: id("physical_package_id"),
                    die: id("die_id"),
                    core: id("core_id"),
                    node: None,
                },
            );
        }
        let nodes = root.names("sys/devices/system/node").unwrap_or_default();
        for name in nodes {
            let Some(node) = name.strip_prefix("node").and_then(|n| n.parse().ok()) else {
                continue;
            };
            let list = root.text(&format!("sys/devices/system/node/{name}/cpulist"));
            let cpus = list.and_then(|text| cpu_list(&text));
            for cpu in cpus.unwrap_or_default() {
                if let Some(place) = topology.cpus.get_mut(&cpu) {
                    place.node = Some(node);
                }
            }
        }
        topology
    }

    /// Numbers of all sockets.
    #[must_use]
    pub fn sockets(&self) -> Vec<u32> {
        self.distinct(|place| place.socket)
    }

    /// Numbers of all memory nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<u32> {
        self.distinct(|place| place.node)
    }

    /// Number of physical cores, where it is known of every CPU.
    #[must_use]
    pub fn cores(&self) -> Option<usize> {
        let mut cores: Vec<(Option<u32>, u32)> = self
            .cpus
            .values()
            .map(|place| Some((place.socket, place.core?)))
            .collect::<Option<_>>()?;
        cores.sort_unstable();
        cores.dedup();
        Some(cores.len())
    }

    fn distinct(&self, of: impl Fn(&Place) -> Option<u32>) -> Vec<u32> {
        let mut all: Vec<u32> = self.cpus.values().filter_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
