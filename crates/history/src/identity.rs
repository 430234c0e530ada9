//! Which numbers are of one series. A series is keyed by what is declared: suite, benchmark, parameters, metric, and the
//! machine by its declared name, by the reference machine that was shown, or by the CPU's model. Never by measured
//! speed: a machine that is slower today is the same machine.

use truecount_run::rounds::Metric;

use crate::record::Record;

/// Name of the fact by which the user names a machine.
pub const MACHINE: &str = "machine";

/// The machine that a metric's series belongs to.
#[must_use]
pub fn machine(record: &Record, metric: &Metric) -> String {
    if let Some(name) = record.declared.get(MACHINE) {
        return name.clone();
    }
    let environment = &record.environment;
    // Exact counts under a reference machine are the same wherever they were counted.
    if let Some(reference) = environment
        .reference
        .as_ref()
        .filter(|_| metric.undisturbed())
    {
        return format!("reference {reference}");
    }
    let model = environment
        .cpu_model
        .as_deref()
        .or(environment.cpu_id.as_deref());
    match (model, environment.arch.as_str()) {
        (Some(model), arch) if !arch.is_empty() => format!("{arch} {model}"),
        (Some(model), _) => model.to_owned(),
        (None, "") => "unknown machine".to_owned(),
        (None, arch) => arch.to_owned(),
    }
}

/// Who counted: a source of truecount, or another tool.
#[must_use]
pub fn source(record: &Record, metric: &Metric) -> String {
    match (metric.source, &record.tool) {
        (Some(source), _) => source.name().to_owned(),
        (None, Some(tool)) => tool.clone(),
        (None, None) => String::new(),
    }
}
