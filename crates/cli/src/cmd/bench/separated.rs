//! The result of `bench` as comma-separated values: one record for each command and metric.

use std::io::{self, Write};

use super::document::Document;
use crate::render::csv;

/// Writes a heading and the records. Values are in counts, nanoseconds or bytes.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let parameters: Vec<&str> = document
        .commands
        .first()
        .map(|command| command.parameters.iter().map(|(name, _)| name).collect())
        .unwrap_or_default();
    let head = [
        "command",
        "metric",
        "unit",
        "scale",
        "source",
        "precision",
        "n",
        "median",
        "min",
        "max",
        "mad",
        "distinct",
        "reason",
    ];
    let names: Vec<String> = parameters
        .iter()
        .map(|name| format!("parameter_{name}"))
        .collect();
    csv::row(out, head.iter().map(|name| (*name).to_owned()).chain(names))?;
    for command in &document.commands {
        for (name, metric) in command.metrics.iter() {
            let text = |value: Option<u64>| value.map(|v| v.to_string()).unwrap_or_default();
            let cells = [
                command.name.clone(),
                name.to_owned(),
                metric.unit.clone(),
                metric.scale.to_string(),
                metric.source.map_or("", |source| source.name()).to_owned(),
                metric
                    .precision
                    .map_or("", |precision| precision.name())
                    .to_owned(),
                metric.samples.len().to_string(),
                metric
                    .median
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                text(metric.min),
                text(metric.max),
                metric.mad.map(|mad| mad.to_string()).unwrap_or_default(),
                metric.distinct.to_string(),
                metric.reason.clone().unwrap_or_default(),
            ];
            let values = command.parameters.iter().map(|(_, value)| value.clone());
            csv::row(out, cells.into_iter().chain(values))?;
        }
    }
    Ok(())
}
