//! The table that `stat` prints for people.

use std::io::{self, Write};
use std::time::Duration;

use super::derived;
use super::document::Document;
use crate::render::style::{DIM, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::{exact, significant, time};
use truecount_model::{Measured, Precision, Reading};
use truecount_run::metrics::{MetricRow, SumRow, Values};

/// `exact`, `counted`, or `scaled 49.8 %`: the part of the time that the counter ran.
fn precision(reading: &Reading) -> Cell {
    match (reading.result.precision(), reading.scaled_share()) {
        (Some(Precision::Scaled), Some(share)) => {
            Cell::styled(WARN, format!("scaled {:.1} %", share * 100.0))
        }
        (Some(precision), _) => precision.name().into(),
        (None, _) => "".into(),
    }
}

fn rows(table: &mut Table, readings: &[Reading], all: &[Reading], wall_ns: u64) {
    for reading in readings {
        let (value, last) = match &reading.result {
            Measured::Value { value, .. } => (
                Cell::new(exact(*value, reading.scale, &reading.unit)),
                Cell::new(derived::of(reading, all, wall_ns)),
            ),
            Measured::Missing(reason) => (
                Cell::styled(WARN, "not counted"),
                Cell::styled(DIM, reason.cause.clone()),
            ),
        };
        table.row(vec![
            value,
            Cell::styled(HEAD, reading.event.clone()),
            reading.result.source_name().into(),
            precision(reading),
            last,
        ]);
    }
}

fn table() -> Table {
    Table::new([
        ("value", Align::Right),
        ("event", Align::Left),
        ("source", Align::Left),
        ("", Align::Left),
        ("", Align::Left),
    ])
}

/// The metrics with what they say, in a table of their own.
fn metrics(out: &mut dyn Write, values: &Values) -> io::Result<()> {
    if values.metrics.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([
        ("value", Align::Right),
        ("metric", Align::Left),
        ("unit", Align::Left),
        ("", Align::Left),
        ("look at next", Align::Left),
    ]);
    for row in &values.metrics {
        let value = match row.result.value() {
            Some(value) if row.threshold.is_some() => Cell::styled(WARN, significant(value)),
            Some(value) => significant(value).into(),
            None => Cell::styled(WARN, "not counted"),
        };
        let remark = match (&row.result, row.together) {
            (Measured::Missing(reason), _) => reason.cause.as_str(),
            (_, false) => "multiplexed",
            (result, true) if result.precision() == Some(Precision::Scaled) => "scaled",
            _ => "",
        };
        table.row(vec![
            value,
            Cell::styled(HEAD, row.metric.clone()),
            row.unit.clone().into(),
            Cell::styled(DIM, remark.to_owned()),
            past(row).into(),
        ]);
    }
    table.write(out)?;
    writeln!(out)
}

/// `> 15: topdown-2`, for a value past its threshold.
fn past(row: &MetricRow) -> String {
    let (Some(value), Some(threshold)) = (row.result.value(), row.threshold) else {
        return String::new();
    };
    let sign = if value > threshold { '>' } else { '<' };
    match &row.next {
        Some(next) => format!("{sign} {threshold}: {next}"),
        None => format!("{sign} {threshold}"),
    }
}

/// Prints the whole run.
pub(super) fn document(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let subject = match document.target {
        "command" => truecount_run::runner::command_line(&document.command),
        target if document.command.is_empty() => format!("the {target}"),
        target => format!(
            "the {target}, during {}",
            truecount_run::runner::command_line(&document.command)
        ),
    };
    writeln!(out)?;
    writeln!(out, "{}", paint(HEAD, &subject))?;
    writeln!(out)?;
    let mut table = table();
    rows(
        &mut table,
        &document.counters,
        &document.counters,
        document.wall_ns,
    );
    rows(
        &mut table,
        &document.resources,
        &document.counters,
        document.wall_ns,
    );
    table.write(out)?;
    writeln!(out)?;
    metrics(out, &document.values)?;
    if let Some(repeats) = &document.repeats {
        repeats.write(out)?;
    }
    if document.timed_out {
        writeln!(out, "{}", paint(WARN, "ended by --timeout"))?;
    }
    if document.interrupted.is_some() {
        writeln!(
            out,
            "{}",
            paint(WARN, "interrupted: what was counted until then")
        )?;
    }
    if let Some(exit) = document.exit
        && !exit.success()
    {
        writeln!(
            out,
            "{}",
            paint(WARN, &format!("the program ended with {exit}"))
        )?;
    }
    let mut hints: Vec<&String> = Vec::new();
    for hint in document
        .counters
        .iter()
        .filter_map(|reading| reading.result.reason()?.hint.as_ref())
    {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    for hint in hints {
        writeln!(
            out,
            "{}",
            paint(DIM, &format!("To count what is missing: {hint}."))
        )?;
    }
    for note in &document.notes {
        writeln!(out, "{}", paint(DIM, note))?;
    }
    Ok(())
}

/// Prints one interval.
pub(super) fn interval(
    out: &mut dyn Write,
    since: Duration,
    readings: &[Reading],
    values: &Values,
    first: bool,
) -> io::Result<()> {
    if first {
        writeln!(
            out,
            "{}",
            paint(DIM, "   since start                value  event")
        )?;
    }
    for reading in readings {
        let value = match reading.value() {
            Some(value) => exact(value, reading.scale, &reading.unit),
            None => "not counted".to_owned(),
        };
        let more = match (reading.scaled_share(), reading.result.reason()) {
            (Some(share), _) => format!("  scaled {:.1} %", share * 100.0),
            (None, Some(reason)) if first => format!("  {}", reason.cause),
            _ => String::new(),
        };
        writeln!(
            out,
            "{:>14} {value:>20}  {}{more}",
            time(since.as_nanos() as f64),
            reading.event
        )?;
    }
    let at = time(since.as_nanos() as f64);
    for row in &values.metrics {
        let value = row
            .result
            .value()
            .map_or("not counted".to_owned(), significant);
        let more = match (row.result.reason(), past(row)) {
            (Some(reason), _) if first => reason.cause.clone(),
            (_, past) => past,
        };
        writeln!(
            out,
            "{at:>14} {value:>20}  {}, {}  {more}",
            row.metric, row.unit
        )?;
    }
    for warning in values.metric_sums.iter().filter_map(SumRow::warning) {
        writeln!(out, "{}", paint(WARN, &warning))?;
    }
    Ok(())
}
