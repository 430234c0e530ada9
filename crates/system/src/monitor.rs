//! The reading side put together: plan, counters, and the moment before.

use std::time::Instant;

use truecount_events::Machine;
use truecount_events::metrics::{Context, Pack};
use truecount_events::tables::with_tables;
use truecount_perf::probe::Root;
use truecount_perf::{SharedKernel, linux};

use crate::counters::Counters;
use crate::plan::Plan;
use crate::rates::Interval;
use crate::snapshot::Snapshot;
use crate::view::{Scope, View};

/// Watches a machine, interval by interval.
#[derive(Debug)]
pub struct Monitor {
    root: Root,
    plan: Plan,
    counters: Counters,
    started: Instant,
    before: Snapshot,
}

impl Monitor {
    /// The machine this runs on.
    #[must_use]
    pub fn this() -> Self {
        Self::on(Root::system(), &linux(), &with_tables(Machine::this()), &[])
    }

    /// The machine this runs on, with further metrics by pack.
    #[must_use]
    pub fn with_metrics(machine: &Machine, asked: &[(Pack, Vec<String>)]) -> Self {
        Self::on(Root::system(), &linux(), machine, asked)
    }

    /// Any machine: its files below `root`, its kernel, and how its events are called.
    #[must_use]
    pub fn on(
        root: Root,
        kernel: &SharedKernel,
        machine: &Machine,
        asked: &[(Pack, Vec<String>)],
    ) -> Self {
        let smt = root.text("sys/devices/system/cpu/smt/active");
        let context = Context {
            smt: smt.and_then(|text| match text.as_str() {
                "0" => Some(false),
                "1" => Some(true),
                _ => None,
            }),
            wall_ns: None,
            slots: machine
                .core_pmus()
                .first()
                .and_then(|pmu| pmu.capability("slots"))
                .map(|slots| slots as f64),
        };
        let online = root.online_cpus().unwrap_or_default();
        let first = online.first().copied().unwrap_or(0);
        let plan = Plan::new(machine, context, kernel, first, asked);
        let mut counters = Counters::open(kernel, &plan);
        counters.follow(&plan, &online);
        let started = Instant::now();
        let before = Snapshot::take(&root, 0, counters.read());
        Self {
            root,
            plan,
            counters,
            started,
            before,
        }
    }

    /// What happened since the step before (or since the start).
    pub fn step(&mut self) -> Interval {
        let at = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let readings = self.counters.read();
        let after = Snapshot::take(&self.root, at, readings);
        let interval = Interval::between(&self.before, &after, &self.plan);
        let online: Vec<u32> = after.topology.cpus.keys().copied().collect();
        self.before = after;
        // Events of a CPU that came online count from here.
        let known = self.before.counters.cpus.len();
        self.counters.follow(&self.plan, &online);
        let new = |cpu: &u32| !self.before.counters.cpus.contains_key(cpu);
        if online.len() > known || online.iter().any(new) {
            for (cpu, readings) in self.counters.read().cpus {
                self.before.counters.cpus.entry(cpu).or_insert(readings);
            }
        }
        interval
    }

    /// The interval as rows and cells.
    #[must_use]
    pub fn view(&self, interval: &Interval, scope: Scope) -> View {
        View::new(interval, &self.plan, scope)
    }

    /// What is counted.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}
