//! Machines for tests: small sysfs trees in a temporary directory.
#![allow(dead_code, reason = "each test file uses some")]

use std::path::Path;
use tempfile::TempDir;
use truecount_events::Machine;

/// A tree that lives as long as this.
pub struct Tree {
    dir: TempDir,
}

impl Tree {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self {
            dir: TempDir::new().unwrap(),
        };
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn machine(&self) -> Machine {
        Machine::at(self.dir.path())
    }
}

const DEVICES: &str = "sys/bus/event_source/devices";

/// A Skylake-like machine with an uncore PMU of two boxes, RAPL, and one tracepoint.
pub fn skylake() -> Tree {
    let tree = Tree::new(&[
        (
            "proc/cpuinfo",
            "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 94\nstepping\t: 3\n",
        ),
        ("sys/kernel/tracing/events/sched/sched_switch/id", "318\n"),
        ("sys/kernel/tracing/events/sched/sched_wakeup/id", "319\n"),
    ]);
    for (path, text) in [
        ("cpu/type", "4\n"),
        ("cpu/format/event", "config:0-7\n"),
        ("cpu/format/umask", "config:8-15\n"),
        ("cpu/format/edge", "config:18\n"),
        ("cpu/format/inv", "config:23\n"),
        ("cpu/format/cmask", "config:24-31\n"),
        ("cpu/format/ldlat", "config1:0-15\n"),
        ("cpu/format/offcore_rsp", "config1:0-63\n"),
        ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ("cpu/events/topdown-total-slots", "event=0x3c,umask=0x0\n"),
        ("cpu/events/topdown-total-slots.scale", "4\n"),
        ("cpu/caps/max_precise", "3\n"),
        ("uncore_imc_0/type", "18\n"),
        ("uncore_imc_0/cpumask", "0,4\n"),
        ("uncore_imc_0/format/event", "config:0-7\n"),
        ("uncore_imc_0/events/data_reads", "event=0x1\n"),
        ("uncore_imc_0/events/data_reads.scale", "6.103515625e-5\n"),
        ("uncore_imc_0/events/data_reads.unit", "MiB\n"),
        ("uncore_imc_1/type", "19\n"),
        ("uncore_imc_1/cpumask", "0,4\n"),
        ("uncore_imc_1/format/event", "config:0-7\n"),
        ("power/type", "20\n"),
        ("power/cpumask", "0\n"),
        ("power/format/event", "config:0-7\n"),
        ("power/events/energy-pkg", "event=0x02\n"),
        (
            "power/events/energy-pkg.scale",
            "2.3283064365386962890625e-10\n",
        ),
        ("power/events/energy-pkg.unit", "Joules\n"),
        ("hv_24x7/type", "21\n"),
        ("hv_24x7/format/domain", "config:0-3\n"),
        ("hv_24x7/format/core", "config:16-31\n"),
        ("hv_24x7/events/CYCLES", "domain=0x2,core=?\n"),
        ("broken/type", "22\n"),
        ("broken/format/event", "config:8-0\n"),
        ("broken/events/odd", "event=,\n"),
        ("broken/events/scaled", "config=1\n"),
        ("broken/events/scaled.scale", "many\n"),
    ] {
        tree.write(&format!("{DEVICES}/{path}"), text);
    }
    tree
}

/// A hybrid machine: cores and atoms.
pub fn hybrid() -> Tree {
    let tree = Tree::new(&[(
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 151\nstepping\t: 2\n",
    )]);
    for (path, text) in [
        ("cpu_core/type", "4\n"),
        ("cpu_core/cpus", "0-3\n"),
        ("cpu_core/format/event", "config:0-7\n"),
        ("cpu_core/format/umask", "config:8-15\n"),
        ("cpu_core/events/slots", "event=0x00,umask=0x4\n"),
        ("cpu_atom/type", "10\n"),
        ("cpu_atom/cpus", "4-7\n"),
        ("cpu_atom/format/event", "config:0-7\n"),
        ("cpu_atom/format/umask", "config:8-15\n"),
    ] {
        tree.write(&format!("{DEVICES}/{path}"), text);
    }
    tree
}
