//! The Prometheus text exposition format, version 0.0.4. Facts: prometheus.io, "Exposition formats", and its naming
//! conventions (base units, the unit at the end of the name).

use std::fmt::Write as _;

use truecount_model::Measured;
use truecount_system::{Column, Row, Scope, Topology, View};

/// The metric's name, its factor to the base unit, and help.
fn metric(column: &Column) -> (String, f64) {
    // A user's metric may have any name.
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = column.name.chars().map(allowed).collect();
    let (suffix, factor) = match column.unit.as_str() {
        "%" => ("_ratio", 0.01),
        "GHz" => return ("truecount_frequency_hertz".to_owned(), 1e9),
        "MiB/s" => ("_bytes_per_second", 1_048_576.0),
        "W" => ("_watts", 1.0),
        "per second" => ("_per_second", 1.0),
        "instructions per cycle" => {
            return ("truecount_instructions_per_cycle".to_owned(), 1.0);
        }
        _ => ("", 1.0),
    };
    (format!("truecount_{name}{suffix}"), factor)
}

/// A label's value: backslash, quote and line feed are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn labels(row: &Row) -> String {
    match row.scope {
        Scope::Machine => "{scope=\"machine\"}".to_owned(),
        scope => format!("{{scope=\"{0}\",{0}=\"{1}\"}}", scope.name(), row.id),
    }
}

/// One interval. Cells without value are left out; a series of its own says why, column by column.
pub(super) fn text(view: &View, topology: &Topology) -> String {
    // Writing to a String cannot fail.
    let mut out = String::new();
    let mut gauge = |name: &str, help: &str, samples: &mut dyn Iterator<Item = (String, f64)>| {
        let mut first = true;
        for (labels, value) in samples {
            if first {
                first = false;
                let _ = writeln!(
                    out,
                    "# HELP {name} {}",
                    help.replace('\\', "\\\\").replace('\n', " ")
                );
                let _ = writeln!(out, "# TYPE {name} gauge");
            }
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let one = |value: f64| std::iter::once((String::new(), value));
    gauge(
        "truecount_interval_seconds",
        "Length of the interval that the other values are of.",
        &mut one(view.wall_ns as f64 / 1e9),
    );
    gauge(
        "truecount_cpus_online",
        "CPUs that are online.",
        &mut one(topology.cpus.len() as f64),
    );
    for (at, column) in view.columns.iter().enumerate() {
        let (name, factor) = metric(column);
        let mut samples = view.rows.iter().filter_map(|row| {
            let value = row.cells.get(at)?.value()?;
            Some((labels(row), value * factor))
        });
        gauge(&name, &column.about, &mut samples);
    }
    let mut missing = Vec::new();
    for row in view.rows.iter().take(1) {
        for (cell, column) in row.cells.iter().zip(&view.columns) {
            if let Measured::Missing(reason) = cell {
                let (name, _) = metric(column);
                let labels = format!(
                    "{{metric=\"{name}\",reason=\"{}\"}}",
                    escaped(&reason.cause)
                );
                missing.push((labels, 1.0));
            }
        }
    }
    gauge(
        "truecount_unavailable",
        "Metrics that are not available on this machine, and why.",
        &mut missing.into_iter(),
    );
    out
}
