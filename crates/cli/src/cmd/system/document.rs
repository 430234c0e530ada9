//! An interval as JSON (`truecount.system/1`, `docs/schemas/system.json`) and as CSV.

use std::io::{self, Write};

use serde::Serialize;
use truecount_system::{Cell, Scope, Source, Topology, View};

use crate::render::{csv, json};
use truecount_model::{Precision, SourceKind};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    /// Number of the interval, from 1.
    interval: u64,
    wall_ns: u64,
    cpus: usize,
    cores: Option<usize>,
    sockets: usize,
    nodes: usize,
    columns: Vec<ColumnRow<'a>>,
    rows: Vec<RowRow<'a>>,
}

#[derive(Serialize)]
struct ColumnRow<'a> {
    name: &'a str,
    unit: &'a str,
    about: &'a str,
}

#[derive(Serialize)]
struct RowRow<'a> {
    scope: &'static str,
    id: u32,
    cpus: &'a [u32],
    /// In the order of the columns.
    cells: Vec<CellRow<'a>>,
}

#[derive(Serialize)]
struct CellRow<'a> {
    value: Option<f64>,
    source: Option<SourceKind>,
    precision: Option<Precision>,
    reason: Option<&'a str>,
}

fn cell<'a>(cell: &'a Cell, source: Source) -> CellRow<'a> {
    match &cell.value {
        Ok(value) => CellRow {
            value: Some(*value),
            source: Some(match source {
                Source::Hardware => SourceKind::Hardware,
                Source::Software => SourceKind::Software,
            }),
            precision: Some(if cell.scaled {
                Precision::Scaled
            } else {
                Precision::Counted
            }),
            reason: None,
        },
        Err(reason) => CellRow {
            value: None,
            source: None,
            precision: None,
            reason: Some(reason),
        },
    }
}

/// One line.
pub(super) fn json(
    out: &mut dyn Write,
    view: &View,
    topology: &Topology,
    interval: u64,
) -> io::Result<()> {
    let document = Document {
        schema: "truecount.system/1",
        interval,
        wall_ns: view.wall_ns,
        cpus: topology.cpus.len(),
        cores: topology.cores(),
        sockets: topology.sockets().len(),
        nodes: topology.nodes().len(),
        columns: view
            .columns
            .iter()
            .map(|column| ColumnRow {
                name: &column.name,
                unit: &column.unit,
                about: &column.about,
            })
            .collect(),
        rows: view
            .rows
            .iter()
            .map(|row| RowRow {
                scope: row.scope.name(),
                id: row.id,
                cpus: &row.cpus,
                cells: row
                    .cells
                    .iter()
                    .zip(&view.columns)
                    .map(|(value, column)| cell(value, column.source))
                    .collect(),
            })
            .collect(),
    };
    json::line(out, &document)
}

/// One line for each cell.
pub(super) fn csv(out: &mut dyn Write, view: &View, interval: u64) -> io::Result<()> {
    if interval == 1 {
        let head = [
            "interval",
            "scope",
            "id",
            "metric",
            "value",
            "unit",
            "precision",
            "reason",
        ];
        csv::row(out, head)?;
    }
    for row in &view.rows {
        for (value, column) in row.cells.iter().zip(&view.columns) {
            let shown = cell(value, column.source);
            let id = match row.scope {
                Scope::Machine => String::new(),
                _ => row.id.to_string(),
            };
            csv::row(
                out,
                [
                    interval.to_string(),
                    row.scope.name().to_owned(),
                    id,
                    column.name.clone(),
                    shown.value.map(|v| v.to_string()).unwrap_or_default(),
                    column.unit.clone(),
                    shown.precision.map_or("", Precision::name).to_owned(),
                    shown.reason.unwrap_or("").to_owned(),
                ],
            )?;
        }
    }
    Ok(())
}
