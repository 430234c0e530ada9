//! Recorded trees of `/proc` and `/sys`, and a scripted kernel: known differences, wraps, CPUs that come and go, missing
//! and hostile files.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use truecount_events::metrics::Context;
use truecount_events::tables::with_tables;
use truecount_events::{Cpu, Machine, Vendor};
use truecount_model::Precision;
use truecount_perf::fake::{FakeKernel, Tree};
use truecount_system::plan::{Plan, Uncore};
use truecount_system::{Monitor, Scope, View};

/// Two sockets of one core with two threads each, two nodes.
fn tree() -> Tree {
    let tree = Tree::new().unwrap();
    online(&tree, "0-3");
    for cpu in 0..4 {
        let base = format!("sys/devices/system/cpu/cpu{cpu}");
        let socket = cpu / 2;
        tree.file(
            &format!("{base}/topology/physical_package_id"),
            &format!("{socket}\n"),
        );
        tree.file(&format!("{base}/topology/core_id"), "0\n");
        tree.file(&format!("{base}/cache/index3/id"), &format!("{socket}\n"));
    }
    tree.file("sys/devices/system/node/node0/cpulist", "0-1\n");
    tree.file("sys/devices/system/node/node1/cpulist", "2-3\n");
    stat(&tree, 0, &[0, 1, 2, 3]);
    interrupts(&tree, &[0, 1, 2, 3], [4_294_967_290, 7], 100);
    tree.file(
        "proc/vmstat",
        "nr_free_pages 1\npgfault 1000\npgmajfault 3\n",
    );
    tree
}

fn online(tree: &Tree, list: &str) {
    tree.file("sys/devices/system/cpu/online", list);
}

/// After `seconds`: CPU 0 was busy in user mode, the others idle but for a tenth in the kernel.
fn stat(tree: &Tree, seconds: u64, cpus: &[u32]) {
    let mut text = "cpu 1 2 3 4 5 6 7 8 9 10\n".to_owned();
    for cpu in cpus {
        let ticks = seconds * 100;
        let (user, kernel) = if *cpu == 0 {
            (ticks, 0)
        } else {
            (0, ticks / 10)
        };
        let idle = ticks - user - kernel;
        text.push_str(&format!("cpu{cpu} {user} 0 {kernel} {idle} 0 0 0 0 0 0\n"));
    }
    text.push_str(&format!(
        "intr 5 1 2\nctxt {}\nbtime 1\n",
        5_000 + seconds * 100
    ));
    tree.file("proc/stat", &text);
}

fn interrupts(tree: &Tree, cpus: &[u32], timer: [u32; 2], local: u32) {
    let mut text = " ".to_owned();
    let columns = |value: &dyn Fn(u32) -> u32| {
        let words: Vec<String> = cpus.iter().map(|&cpu| value(cpu).to_string()).collect();
        words.join(" ")
    };
    for cpu in cpus {
        text.push_str(&format!(" CPU{cpu}"));
    }
    let of_timer = |cpu: u32| *timer.get(cpu as usize).unwrap_or(&0);
    text.push_str(&format!(
        "\n 0: {} IO-APIC 2-edge timer\n",
        columns(&of_timer)
    ));
    text.push_str(&format!(
        "LOC: {} Local timer interrupts\nERR: 9\n",
        columns(&|_| local)
    ));
    tree.file("proc/interrupts", &text);
}

fn skylake() -> Machine {
    with_tables(Machine::unknown().with_cpu(Cpu {
        vendor: Vendor::Intel,
        family: 6,
        model: 0x5e,
        stepping: 3,
    }))
}

fn value(view: &View, row: usize, column: &str) -> Result<f64, String> {
    let at = view.columns.iter().position(|c| c.name == column);
    let cell = &view.rows[row].cells[at.unwrap_or_else(|| panic!("no column {column}"))];
    cell.value().ok_or_else(|| cell.cause().to_owned())
}

/// One second by the files, whatever the clock says: rates are compared as ratios.
fn second(tree: &Tree, monitor: &mut Monitor) -> truecount_system::Interval {
    stat(tree, 1, &[0, 1, 2, 3]);
    // 0: wraps on CPU 0 (10 more), was freed and taken again on CPU 1 (3); LOC: 50 more on each.
    interrupts(tree, &[0, 1, 2, 3], [4, 3], 150);
    tree.file("proc/vmstat", "pgfault 1300\n");
    let mut interval = monitor.step();
    interval.wall_ns = 1_000_000_000;
    interval
}

#[test]
fn known_differences_of_every_scope() {
    let tree = tree();
    let fake = FakeKernel::new();
    fake.set_rate(0, 0, 2); // cycles
    fake.set_rate(0, 1, 3); // instructions
    let kernel = fake.shared();
    let mut monitor = Monitor::on(tree.root(), &kernel, &skylake(), &[]);
    fake.advance(1_000_000);
    let interval = second(&tree, &mut monitor);
    let cpus = monitor.view(&interval, Scope::Cpu);
    assert_eq!(cpus.rows.len(), 5);
    assert_eq!(value(&cpus, 1, "utilisation"), Ok(100.0));
    assert_eq!(value(&cpus, 2, "utilisation"), Ok(10.0));
    assert_eq!(value(&cpus, 2, "kernel"), Ok(10.0));
    assert_eq!(value(&cpus, 0, "utilisation"), Ok(32.5));
    assert_eq!(value(&cpus, 1, "interrupts"), Ok(60.0));
    assert_eq!(value(&cpus, 2, "interrupts"), Ok(53.0));
    assert_eq!(value(&cpus, 3, "interrupts"), Ok(50.0));
    // The machine's by the kernel's own counts.
    assert_eq!(value(&cpus, 0, "context-switches"), Ok(100.0));
    assert_eq!(value(&cpus, 0, "page-faults"), Ok(300.0));
    for row in 0..5 {
        let ipc = value(&cpus, row, "ipc").unwrap();
        assert!((ipc - 1.5).abs() < 1e-9, "{ipc}");
    }
    let sockets = monitor.view(&interval, Scope::Socket);
    assert_eq!(sockets.rows.len(), 3);
    assert_eq!(sockets.rows[1].cpus, [0, 1]);
    assert_eq!(value(&sockets, 1, "utilisation"), Ok(55.0));
    assert_eq!(value(&sockets, 2, "utilisation"), Ok(10.0));
    let cores = monitor.view(&interval, Scope::Core);
    assert_eq!(cores.rows[2].cpus, [2, 3]);
    assert_eq!(cores.rows[2].id, 2);
    let nodes = monitor.view(&interval, Scope::Node);
    assert_eq!(nodes.rows[1].cpus, [0, 1]);
    // Power and memory need what this tree has not.
    for name in ["power", "memory-read", "memory-local", "memory-remote"] {
        assert!(value(&sockets, 1, name).is_err(), "{name}");
    }
}

#[test]
fn energy_and_traffic_of_sockets() {
    let tree = tree();
    let zone = |n: u32, energy: u64| {
        let base = format!("sys/class/powercap/intel-rapl:{n}");
        tree.file(&format!("{base}/name"), &format!("package-{n}\n"));
        tree.file(&format!("{base}/energy_uj"), &format!("{energy}\n"));
        tree.file(&format!("{base}/max_energy_range_uj"), "262143328850\n");
        // A part of the package is not added to it.
        tree.file(&format!("{base}:0/name"), "core\n");
        tree.file(&format!("{base}:0/energy_uj"), "77\n");
    };
    let traffic = |n: u32, local: u64, total: u64| {
        let base = format!("sys/fs/resctrl/mon_data/mon_L3_{n:02}");
        tree.file(&format!("{base}/mbm_local_bytes"), &format!("{local}\n"));
        tree.file(&format!("{base}/mbm_total_bytes"), &format!("{total}\n"));
    };
    zone(0, 262_143_328_000);
    zone(1, 10_000_000);
    traffic(0, 0, 0);
    traffic(1, 0, 0);
    let kernel = FakeKernel::new().shared();
    let mut monitor = Monitor::on(tree.root(), &kernel, &skylake(), &[]);
    zone(0, 19_999_150); // wrapped: 850 + 19,999,150 µJ
    zone(1, 15_000_000);
    traffic(0, 1 << 20, 3 << 20);
    traffic(1, 0, 0);
    let interval = second(&tree, &mut monitor);
    let view = monitor.view(&interval, Scope::Socket);
    assert_eq!(value(&view, 1, "power"), Ok(20.0));
    assert_eq!(value(&view, 2, "power"), Ok(5.0));
    assert_eq!(value(&view, 0, "power"), Ok(25.0));
    assert_eq!(value(&view, 1, "memory-local"), Ok(1.0));
    assert_eq!(value(&view, 1, "memory-remote"), Ok(2.0));
    assert_eq!(value(&view, 2, "memory-local"), Ok(0.0));
    let cpus = monitor.view(&interval, Scope::Cpu);
    assert!(
        value(&cpus, 1, "power")
            .unwrap_err()
            .contains("--per socket")
    );
    // One socket's file goes: its power and the machine's are gone, the other's stands.
    std::fs::remove_file(
        tree.root()
            .path("sys/class/powercap/intel-rapl:1/energy_uj"),
    )
    .unwrap();
    let interval = monitor.step();
    let view = monitor.view(&interval, Scope::Socket);
    assert!(value(&view, 1, "power").is_ok());
    assert!(value(&view, 2, "power").is_err() && value(&view, 0, "power").is_err());
}

#[test]
fn a_cpu_goes_and_comes_back() {
    let tree = tree();
    let fake = FakeKernel::new();
    let kernel = fake.shared();
    let mut monitor = Monitor::on(tree.root(), &kernel, &skylake(), &[]);
    fake.advance(1_000_000);
    online(&tree, "0-2");
    stat(&tree, 1, &[0, 1, 2]);
    interrupts(&tree, &[0, 1, 2], [4_294_967_290, 7], 101);
    let interval = monitor.step();
    let view = monitor.view(&interval, Scope::Cpu);
    assert_eq!(view.rows.len(), 4, "the machine and three CPUs");
    assert!(value(&view, 0, "ipc").is_ok());
    online(&tree, "0-3");
    stat(&tree, 2, &[0, 1, 2, 3]);
    interrupts(&tree, &[0, 1, 2, 3], [4_294_967_290, 7], 102);
    fake.advance(1_000_000);
    let interval = monitor.step();
    let view = monitor.view(&interval, Scope::Cpu);
    for name in ["utilisation", "interrupts", "ipc"] {
        let reason = value(&view, 4, name).unwrap_err();
        assert!(reason.contains("came online"), "{name}: {reason}");
        assert!(value(&view, 0, name).is_ok(), "{name}: the others stand");
    }
    stat(&tree, 3, &[0, 1, 2, 3]);
    fake.advance(1_000_000);
    let interval = monitor.step();
    let view = monitor.view(&interval, Scope::Cpu);
    assert_eq!(value(&view, 4, "utilisation"), Ok(10.0));
    assert!(value(&view, 4, "ipc").is_ok());
}

#[test]
fn no_pmu_is_a_reason_and_the_rest_stands() {
    let tree = tree();
    let kernel = FakeKernel::without_pmu().shared();
    let mut monitor = Monitor::on(tree.root(), &kernel, &skylake(), &[]);
    let interval = second(&tree, &mut monitor);
    let view = monitor.view(&interval, Scope::Cpu);
    for name in ["ipc", "ghz", "cache-mpki", "frontend-bound"] {
        let reason = value(&view, 1, name).unwrap_err();
        assert!(reason.contains("no PMU"), "{name}: {reason}");
    }
    assert_eq!(value(&view, 1, "utilisation"), Ok(100.0));
}

#[test]
fn shared_counters_are_scaled_and_taken_ones_are_said() {
    let tree = tree();
    let fake = FakeKernel::new();
    fake.set_counters(2);
    let kernel = fake.ticking();
    let mut monitor = Monitor::on(tree.root(), &kernel, &skylake(), &[]);
    fake.advance(1_000_000);
    let interval = second(&tree, &mut monitor);
    let view = monitor.view(&interval, Scope::Cpu);
    let at = view.columns.iter().position(|c| c.name == "ipc").unwrap();
    let cell = &view.rows[1].cells[at];
    assert_eq!(cell.precision(), Some(Precision::Scaled), "{cell:?}");
    fake.set_stolen(2);
    fake.advance(1_000_000);
    // The interval in which they are taken is a mixture; the next has none.
    monitor.step();
    fake.advance(1_000_000);
    let interval = monitor.step();
    let view = monitor.view(&interval, Scope::Cpu);
    let reason = value(&view, 1, "ipc").unwrap_err();
    assert!(reason.contains("no counter was free"), "{reason}");
}

#[test]
fn nothing_there_and_hostile_files_are_reasons() {
    let empty = Tree::new().unwrap();
    let kernel = FakeKernel::new().shared();
    let mut monitor = Monitor::on(empty.root(), &kernel, &Machine::unknown(), &[]);
    let interval = monitor.step();
    let view = monitor.view(&interval, Scope::Cpu);
    assert_eq!(view.rows.len(), 1);
    for cell in &view.rows[0].cells {
        assert!(!cell.cause().is_empty());
    }
    let tree = tree();
    let mut monitor = Monitor::on(tree.root(), &kernel, &skylake(), &[]);
    for text in [
        "",
        "\0\0\0",
        "cpu0 x\ncpu99999999999 1 2 3 4\nctxt -1\n",
        "cpu0 18446744073709551615 18446744073709551615 1 18446744073709551615 1 1 1 1\n",
        "CPU0 CPU1 CPU4294967295\n0: 1 2 99999999999999999999\nLOC 5\n: 1 2 3\n",
        "pgfault x\n",
    ] {
        for file in [
            "proc/stat",
            "proc/interrupts",
            "proc/vmstat",
            "sys/devices/system/cpu/cpu0/topology/core_id",
            "sys/devices/system/node/node0/cpulist",
            "sys/class/powercap/intel-rapl:0/name",
            "sys/class/powercap/intel-rapl:0/energy_uj",
        ] {
            tree.file(file, text);
        }
        let interval = monitor.step();
        for scope in [
            Scope::Machine,
            Scope::Socket,
            Scope::Node,
            Scope::Core,
            Scope::Cpu,
        ] {
            let view = monitor.view(&interval, scope);
            for cell in view.rows.iter().flat_map(|row| &row.cells) {
                match cell.value() {
                    Some(value) => assert!(value.is_finite()),
                    None => assert!(!cell.cause().is_empty()),
                }
            }
        }
    }
}

#[test]
fn further_metrics_are_columns() {
    let tree = tree();
    let metrics = truecount_events::metrics::Metrics::embedded();
    let (pack, names) = metrics.find("branch-miss-ratio", &[]).unwrap();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let fake = FakeKernel::new();
    fake.set_rate(0, 4, 100); // branches
    let kernel = fake.ticking();
    let asked = [(pack.clone(), names)];
    let mut monitor = Monitor::on(tree.root(), &kernel, &skylake(), &asked);
    fake.advance(1_000_000);
    let interval = second(&tree, &mut monitor);
    let view = monitor.view(&interval, Scope::Machine);
    assert_eq!(value(&view, 0, "branch-miss-ratio"), Ok(1.0));
}

mod hostile {
    use proptest::prelude::*;
    use truecount_system::proc::{Interrupts, Stat};

    proptest! {
        /// Whatever the bytes: no panic, and no more lines than there are.
        #[test]
        fn files_of_any_content(text in "[ -~\n\t]{0,400}", numbers in proptest::collection::vec(any::<u64>(), 0..40)) {
            let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
            for text in [
                text.clone(),
                format!("cpu0 {}\n{text}", words.join(" ")),
                format!(" CPU0 CPU1\n{text}\nLOC: {}", words.join(" ")),
            ] {
                let lines = text.lines().count();
                prop_assert!(Stat::parse(&text).cpus.len() <= lines);
                prop_assert!(Interrupts::parse(&text).lines.len() <= lines);
            }
        }
    }
}

/// The memory controllers of Zen 4 and 5 have no named events in sysfs: their formats, and what the tables say.
#[test]
fn memory_controllers_of_amd_are_planned() {
    let tree = tree();
    for index in [0, 1] {
        let pmu = format!("sys/bus/event_source/devices/amd_umc_{index}");
        tree.file(&format!("{pmu}/type"), &format!("{}\n", 40 + index));
        tree.file(&format!("{pmu}/cpumask"), "0,2\n");
        tree.file(&format!("{pmu}/format/event"), "config:0-7\n");
        tree.file(&format!("{pmu}/format/rdwrmask"), "config:8-9\n");
    }
    let machine = Machine::at(tree.path());
    let kernel = FakeKernel::new().shared();
    let plan = Plan::new(&machine, Context::default(), &kernel, 0, &[]);
    let found: Vec<_> = plan
        .uncore
        .iter()
        .map(|u| (u.what, u.encoding.type_, u.encoding.config, u.scale))
        .collect();
    assert_eq!(
        found,
        [
            (Uncore::Read, 40, 0x10a, 64.0),
            (Uncore::Read, 41, 0x10a, 64.0),
            (Uncore::Written, 40, 0x20a, 64.0),
            (Uncore::Written, 41, 0x20a, 64.0),
        ]
    );
    assert!(plan.uncore.iter().all(|u| u.cpus == [0, 2]));
}
