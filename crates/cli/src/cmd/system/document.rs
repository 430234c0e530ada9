//! An interval as JSON (`truecount.system/1`, `docs/schemas/system.json`) and as CSV.

use std::io::{self, Write};

use serde::Serialize;
use truecount_system::{Scope, Topology, View};

use crate::render::{csv, json};
use truecount_model::Measured;

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
    cells: &'a [Measured<f64>],
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
                cells: &row.cells,
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
        for (cell, column) in row.cells.iter().zip(&view.columns) {
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
                    cell.value().map(|v| v.to_string()).unwrap_or_default(),
                    column.unit.clone(),
                    cell.precision_name().to_owned(),
                    cell.cause().to_owned(),
                ],
            )?;
        }
    }
    Ok(())
}
