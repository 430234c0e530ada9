//! The result of `bench` as comma-separated values: one record for each command and metric, with its comparison (with the
//! baseline where there is one, else with the first command) and what a gate said.

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
        "base",
        "ratio",
        "low",
        "high",
        "p_adjusted",
        "verdict",
        "gate",
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
            let cells = cells
                .into_iter()
                .chain(compared(document, &command.name, name));
            let values = command.parameters.iter().map(|(_, value)| value.clone());
            csv::row(out, cells.chain(values))?;
        }
    }
    Ok(())
}

/// The comparison of a metric of a command: base, ratio, interval, p, verdict, gate; empty where there is none.
fn compared(document: &Document, command: &str, metric: &str) -> [String; 7] {
    let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
    let row = document
        .comparisons
        .iter()
        .find(|row| row.other == command && row.metric == metric);
    let Some(row) = row else {
        return Default::default();
    };
    let (low, high) = row.interval.unwrap_or_default();
    let gate = document.gates.iter().find(|gate| {
        gate.metric == metric
            && gate.other.as_deref() == Some(command)
            && gate.base.as_ref() == Some(&row.base)
    });
    [
        row.base.clone(),
        number(row.ratio),
        number(low),
        number(high),
        number(row.p_adjusted),
        row.verdict.clone(),
        gate.map(|gate| gate.outcome.clone()).unwrap_or_default(),
    ]
}
