//! The columns of a table: what each means, who counts it, and from which amounts it is computed.

use crate::plan::{FAULTS, Plan, PlannedMetric, Role, SWITCHES};
use crate::rates::Key;
use truecount_model::SourceKind::{self, Hardware, Software};

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// A stable name for documents: `ipc`.
    pub name: String,
    /// A short head for tables: `IPC`.
    pub head: String,
    /// Its unit.
    pub unit: String,
    /// What it means, in one line.
    pub about: String,
    /// Who counts it.
    pub source: SourceKind,
}

/// What a column is computed from.
pub(crate) enum Formula {
    /// A share of the CPUs' time, in percent.
    Share(Key),
    /// Occurrences a second.
    Rate(Key),
    /// An event a second; of the whole machine rather what the kernel counts by itself.
    EventRate(&'static str, Key),
    /// Cycles over busy time.
    Frequency,
    /// A metric by its place in the plan.
    Metric(usize),
    /// No formula for this CPU.
    Without(String),
    /// A socket's amount a second, over this.
    SocketRate(Key, f64),
    /// Traffic that is not local.
    Remote,
}

/// All columns with their formulas.
pub(crate) fn columns(plan: &Plan) -> Vec<(Column, Formula)> {
    let mut all = times();
    all.extend(rates_of_cycles(plan));
    all.extend(topdown(plan));
    all.extend(sockets());
    all.extend(occurrences());
    let asked = plan.metrics.iter().enumerate();
    all.extend(
        asked
            .filter(|(_, m)| m.role == Role::Asked)
            .map(|(at, planned)| of_metric(at, planned, planned.name.clone())),
    );
    all
}

/// Name, head, unit, meaning, source, formula.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    SourceKind,
    Formula,
);

fn made<const N: usize>(rows: [Row; N]) -> Vec<(Column, Formula)> {
    let column = |(name, head, unit, about, source, formula): Row| {
        let column = Column {
            name: name.to_owned(),
            head: head.to_owned(),
            unit: unit.to_owned(),
            about: about.to_owned(),
            source,
        };
        (column, formula)
    };
    rows.into_iter().map(column).collect()
}

fn of_metric(at: usize, planned: &PlannedMetric, head: String) -> (Column, Formula) {
    let column = Column {
        name: planned.name.clone(),
        head,
        unit: planned.unit.clone(),
        about: planned.about.clone(),
        source: Hardware,
    };
    (column, Formula::Metric(at))
}

#[rustfmt::skip]
fn times() -> Vec<(Column, Formula)> {
    made([
        ("utilisation", "busy %", "%", "Time not idle, of the CPU's time.", Software, Formula::Share(Key::Busy)),
        ("user", "user %", "%", "Time in user mode.", Software, Formula::Share(Key::User)),
        ("kernel", "kernel %", "%", "Time in the kernel and its interrupts.", Software, Formula::Share(Key::Kernel)),
        ("steal", "steal %", "%", "Time that the hypervisor gave to others.", Software, Formula::Share(Key::Steal)),
    ])
}

fn rates_of_cycles(plan: &Plan) -> Vec<(Column, Formula)> {
    let metric = |name: &str| match plan.metrics.iter().position(|m| m.name == name) {
        Some(at) => Formula::Metric(at),
        None => Formula::Without("its events have no name on this machine".to_owned()),
    };
    made([
        (
            "ipc",
            "IPC",
            "instructions per cycle",
            "Instructions per cycle, user and kernel.",
            Hardware,
            metric("ipc"),
        ),
        (
            "ghz",
            "GHz",
            "GHz",
            "Cycles per busy nanosecond.",
            Hardware,
            Formula::Frequency,
        ),
        (
            "cache-mpki",
            "MPKI",
            "per 1000 instructions",
            "Last-level cache misses per 1000 instructions.",
            Hardware,
            metric("cache-mpki"),
        ),
    ])
}

fn topdown(plan: &Plan) -> Vec<(Column, Formula)> {
    let planned: Vec<(Column, Formula)> = plan
        .metrics
        .iter()
        .enumerate()
        .filter(|(_, m)| m.role == Role::Topdown)
        .map(|(at, planned)| of_metric(at, planned, head_of(&planned.name)))
        .collect();
    if !planned.is_empty() {
        return planned;
    }
    let without = |name| {
        let reason = plan.no_topdown.clone().unwrap_or_default();
        (
            name,
            "",
            "%",
            "Top-down level 1.",
            Hardware,
            Formula::Without(reason),
        )
    };
    let mut none = made(
        [
            "frontend-bound",
            "bad-speculation",
            "backend-bound",
            "retiring",
        ]
        .map(without),
    );
    for (column, _) in &mut none {
        column.head = head_of(&column.name);
    }
    none
}

#[rustfmt::skip]
fn sockets() -> Vec<(Column, Formula)> {
    const MEBI: f64 = 1_048_576.0;
    let rate = |key| Formula::SocketRate(key, MEBI);
    made([
        ("memory-read", "read", "MiB/s", "Read from memory, by the memory controllers.", Hardware, rate(Key::Read)),
        ("memory-written", "write", "MiB/s", "Written to memory.", Hardware, rate(Key::Written)),
        ("memory-local", "local", "MiB/s", "To and from the own node's memory, by resctrl.", Hardware, rate(Key::Local)),
        ("memory-remote", "remote", "MiB/s", "To and from other nodes' memory, by resctrl.", Hardware, Formula::Remote),
        ("power", "watts", "W", "Power of the package.", Hardware, Formula::SocketRate(Key::Energy, 1.0)),
    ])
}

#[rustfmt::skip]
fn occurrences() -> Vec<(Column, Formula)> {
    made([
        ("interrupts", "irq/s", "per second", "Interrupts of all kinds.", Software, Formula::Rate(Key::Interrupts)),
        ("context-switches", "cs/s", "per second", "Context switches.", Software, Formula::EventRate(SWITCHES, Key::Switches)),
        ("page-faults", "faults/s", "per second", "Page faults.", Software, Formula::EventRate(FAULTS, Key::Faults)),
    ])
}

/// A short head of a top-down share.
fn head_of(name: &str) -> String {
    match name {
        "frontend-bound" => "front %",
        "bad-speculation" => "badspec %",
        "backend-bound" => "back %",
        "retiring" => "retire %",
        "smt-contention" => "smt %",
        other => other,
    }
    .to_owned()
}
