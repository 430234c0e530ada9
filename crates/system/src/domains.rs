//! Energy and memory traffic that the kernel counts for a socket or a cache: powercap (`intel-rapl`) and resctrl
//! (memory bandwidth monitoring). Facts: Linux `Documentation/power/powercap/powercap.rst`,
//! `Documentation/arch/x86/resctrl.rst`. Both only read files; resctrl has to be mounted by the administrator.

use std::collections::BTreeMap;

use truecount_perf::probe::Root;

use crate::files::{number, text};
use crate::topology::Topology;

/// A counter of energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Energy {
    /// Microjoules.
    pub microjoules: u64,
    /// After this many it starts from 0 (`max_energy_range_uj`).
    pub range: u64,
}

/// Energy of each socket, by its number.
///
/// # Errors
/// There is no powercap, or it may not be read.
pub fn energy(root: &Root) -> Result<BTreeMap<u32, Energy>, String> {
    let base = "sys/class/powercap";
    let names = root
        .names(base)
        .ok_or("no powercap in this kernel, or no RAPL in this machine")?;
    let mut sockets = BTreeMap::new();
    let mut refused = None;
    for zone in names {
        // intel-rapl:0 is a package; intel-rapl:0:1 a part of it; intel-rapl-mmio counts the same again.
        let Some(rest) = zone.strip_prefix("intel-rapl:") else {
            continue;
        };
        if rest.contains(':') {
            continue;
        }
        let name = text(root, &format!("{base}/{zone}/name")).unwrap_or_default();
        let Some(socket) = name
            .trim()
            .strip_prefix("package-")
            .and_then(|rest| rest.split('-').next()?.parse().ok())
        else {
            continue;
        };
        let read = number(root, &format!("{base}/{zone}/energy_uj"));
        let range = number(root, &format!("{base}/{zone}/max_energy_range_uj"));
        match (read, range) {
            (Ok(microjoules), Ok(range)) => {
                let energy = Energy { microjoules, range };
                // Dies of one package (package-0-die-1) are not told apart here: the first stands.
                sockets.entry(socket).or_insert(energy);
            }
            (Err(why), _) | (_, Err(why)) => refused = Some(why),
        }
    }
    match (sockets.is_empty(), refused) {
        (false, _) => Ok(sockets),
        (true, Some(why)) => Err(why),
        (true, None) => Err("no RAPL package in powercap".to_owned()),
    }
}

/// Bytes that a socket's cores moved from and to memory since counting began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// To memory of the own node.
    pub local: u64,
    /// To any memory.
    pub total: u64,
}

/// Memory traffic of each socket by resctrl.
///
/// # Errors
/// resctrl is not mounted, or the CPU has no bandwidth monitoring.
pub fn traffic(root: &Root, topology: &Topology) -> Result<BTreeMap<u32, Traffic>, String> {
    let base = "sys/fs/resctrl/mon_data";
    let names = root.names(base).ok_or(
        "resctrl is not mounted (mount -t resctrl resctrl /sys/fs/resctrl, where the CPU has memory bandwidth monitoring)",
    )?;
    let mut sockets: BTreeMap<u32, Traffic> = BTreeMap::new();
    let mut refused = "resctrl has no memory bandwidth monitoring on this CPU".to_owned();
    for domain in names {
        let Some(cache) = domain
            .strip_prefix("mon_L3_")
            .and_then(|n| n.parse::<u64>().ok())
        else {
            continue;
        };
        let Some(socket) = socket_of_cache(root, topology, cache) else {
            continue;
        };
        let local = number(root, &format!("{base}/{domain}/mbm_local_bytes"));
        let total = number(root, &format!("{base}/{domain}/mbm_total_bytes"));
        match (local, total) {
            (Ok(local), Ok(total)) => {
                let sum = sockets.entry(socket).or_default();
                sum.local = sum.local.saturating_add(local);
                sum.total = sum.total.saturating_add(total);
            }
            (Err(why), _) | (_, Err(why)) => refused = why,
        }
    }
    if sockets.is_empty() {
        return Err(refused);
    }
    Ok(sockets)
}

/// The socket of the CPUs that share this L3 cache.
fn socket_of_cache(root: &Root, topology: &Topology, cache: u64) -> Option<u32> {
    topology.cpus.iter().find_map(|(cpu, place)| {
        let id = number(
            root,
            &format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/id"),
        );
        (id == Ok(cache)).then_some(place.socket).flatten()
    })
}
