//! The columns of a table: what each means, who counts it, and from which amounts it is computed.

use crate::plan::{FAULTS, Plan, PlannedMetric, Role, SWITCHES};
use crate::rates::Key;

/// Who counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// PMUs.
    Hardware,
    /// The kernel's own bookkeeping.
    Software,
}

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
    pub source: Source,
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
    let column = |name: &str, head: &str, unit: &str, about: &str, source| Column {
        name: name.to_owned(),
        head: head.to_owned(),
        unit: unit.to_owned(),
        about: about.to_owned(),
        source,
    };
    use Source::{Hardware, Software};
    let mut all = vec![
        (
            column(
                "utilisation",
                "busy %",
                "%",
                "Time not idle, of the CPU's time.",
                Software,
            ),
            Formula::Share(Key::Busy),
        ),
        (
            column("user", "user %", "%", "Time in user mode.", Software),
            Formula::Share(Key::User),
        ),
        (
            column(
                "kernel",
                "kernel %",
                "%",
                "Time in the kernel and its interrupts.",
                Software,
            ),
            Formula::Share(Key::Kernel),
        ),
        (
            column(
                "steal",
                "steal %",
                "%",
                "Time that the hypervisor gave to others.",
                Software,
            ),
            Formula::Share(Key::Steal),
        ),
    ];
    let metric = |name: &str| plan.metrics.iter().position(|m| m.name == name);
    for (name, head, unit, about) in [
        (
            "ipc",
            "IPC",
            "instructions per cycle",
            "Instructions per cycle, user and kernel.",
        ),
        ("ghz", "GHz", "GHz", "Cycles per busy nanosecond."),
        (
            "cache-mpki",
            "MPKI",
            "per 1000 instructions",
            "Last-level cache misses per 1000 instructions.",
        ),
    ] {
        let formula = match metric(name) {
            _ if name == "ghz" => Formula::Frequency,
            Some(at) => Formula::Metric(at),
            None => Formula::Without("its events have no name on this machine".to_owned()),
        };
        all.push((column(name, head, unit, about, Hardware), formula));
    }
    let topdown: Vec<(usize, &PlannedMetric)> = plan
        .metrics
        .iter()
        .enumerate()
        .filter(|(_, m)| m.role == Role::Topdown)
        .collect();
    for &(at, planned) in &topdown {
        let head = head_of(&planned.name);
        all.push((
            column(
                &planned.name,
                &head,
                &planned.unit,
                &planned.about,
                Hardware,
            ),
            Formula::Metric(at),
        ));
    }
    if topdown.is_empty() {
        let reason = plan.no_topdown.clone().unwrap_or_default();
        for name in [
            "frontend-bound",
            "bad-speculation",
            "backend-bound",
            "retiring",
        ] {
            all.push((
                column(name, &head_of(name), "%", "Top-down level 1.", Hardware),
                Formula::Without(reason.clone()),
            ));
        }
    }
    const MEBI: f64 = 1_048_576.0;
    let memory = |name, head, about, source| column(name, head, "MiB/s", about, source);
    all.extend([
        (
            memory(
                "memory-read",
                "read",
                "Read from memory, by the memory controllers.",
                Hardware,
            ),
            Formula::SocketRate(Key::Read, MEBI),
        ),
        (
            memory("memory-written", "write", "Written to memory.", Hardware),
            Formula::SocketRate(Key::Written, MEBI),
        ),
        (
            memory(
                "memory-local",
                "local",
                "To and from the own node's memory, by resctrl.",
                Hardware,
            ),
            Formula::SocketRate(Key::Local, MEBI),
        ),
        (
            memory(
                "memory-remote",
                "remote",
                "To and from other nodes' memory, by resctrl.",
                Hardware,
            ),
            Formula::Remote,
        ),
        (
            column("power", "watts", "W", "Power of the package.", Hardware),
            Formula::SocketRate(Key::Energy, 1.0),
        ),
        (
            column(
                "interrupts",
                "irq/s",
                "per second",
                "Interrupts of all kinds.",
                Software,
            ),
            Formula::Rate(Key::Interrupts),
        ),
        (
            column(
                "context-switches",
                "cs/s",
                "per second",
                "Context switches.",
                Software,
            ),
            Formula::EventRate(SWITCHES, Key::Switches),
        ),
        (
            column(
                "page-faults",
                "faults/s",
                "per second",
                "Page faults.",
                Software,
            ),
            Formula::EventRate(FAULTS, Key::Faults),
        ),
    ]);
    let asked = plan.metrics.iter().enumerate();
    for (at, planned) in asked.filter(|(_, m)| m.role == Role::Asked) {
        all.push((
            column(
                &planned.name,
                &planned.name,
                &planned.unit,
                &planned.about,
                Hardware,
            ),
            Formula::Metric(at),
        ));
    }
    all
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
