//! Everything that is known at one moment.

use std::collections::BTreeMap;

use truecount_perf::probe::Root;

use crate::counters::Readings;
use crate::domains::{Energy, Traffic, energy, traffic};
use crate::proc::{Interrupts, Stat, page_faults};
use crate::topology::Topology;

/// One moment. What could not be read is a reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// A monotonic clock, in ns.
    pub at_ns: u64,
    /// CPUs and where they are.
    pub topology: Topology,
    /// `/proc/stat`.
    pub stat: Result<Stat, String>,
    /// `/proc/interrupts`.
    pub interrupts: Result<Interrupts, String>,
    /// Page faults of the machine.
    pub faults: Result<u64, String>,
    /// powercap, by socket.
    pub energy: Result<BTreeMap<u32, Energy>, String>,
    /// resctrl, by socket.
    pub traffic: Result<BTreeMap<u32, Traffic>, String>,
    /// perf.
    pub counters: Readings,
}

impl Snapshot {
    /// Reads the files below `root`. The perf counters were read at the same moment.
    #[must_use]
    pub fn take(root: &Root, at_ns: u64, counters: Readings) -> Self {
        let topology = Topology::read(root);
        Self {
            at_ns,
            stat: Stat::read(root),
            interrupts: Interrupts::read(root),
            faults: page_faults(root),
            energy: energy(root),
            traffic: traffic(root, &topology),
            topology,
            counters,
        }
    }
}
