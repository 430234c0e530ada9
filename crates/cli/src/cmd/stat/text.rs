//! The table that `stat` prints for people.

use std::io::{self, Write};

use super::derived;
use super::document::Document;
use super::places::Label;
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

/// Counts that stand together: of one part, or of all.
struct Rows<'a> {
    part: &'a str,
    readings: &'a [Reading],
    /// What ratios are made of.
    all: &'a [Reading],
    /// The control group of each reading; no entries without -G.
    cgroups: &'a [String],
    wall_ns: u64,
}

/// The event, with its control group as perf writes it.
fn named(reading: &Reading, cgroup: Option<&String>) -> String {
    match cgroup {
        Some(cgroup) if !cgroup.is_empty() => format!("{} {cgroup}", reading.event),
        _ => reading.event.clone(),
    }
}

fn rows(table: &mut Table, rows: &Rows<'_>) {
    let Rows {
        part, all, wall_ns, ..
    } = *rows;
    for (place, reading) in rows.readings.iter().enumerate() {
        // Ratios of events of different groups say nothing.
        let of = rows.cgroups.get(place);
        let mixed = rows.cgroups.iter().any(|other| Some(other) != of);
        let all = if mixed { &[] } else { all };
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
            part.into(),
            value,
            Cell::styled(HEAD, named(reading, of)),
            reading.result.source_name().into(),
            precision(reading),
            last,
        ]);
    }
}

fn table() -> Table {
    Table::new([
        ("on", Align::Left),
        ("value", Align::Right),
        ("event", Align::Left),
        ("source", Align::Left),
        ("", Align::Left),
        ("", Align::Left),
    ])
}

/// The metrics with what they say, in a table of their own.
fn metrics(out: &mut dyn Write, parts: &[(&str, &Values)]) -> io::Result<()> {
    if parts.iter().all(|(_, values)| values.metrics.is_empty()) {
        return Ok(());
    }
    let mut table = Table::new([
        ("on", Align::Left),
        ("value", Align::Right),
        ("metric", Align::Left),
        ("unit", Align::Left),
        ("", Align::Left),
        ("look at next", Align::Left),
    ]);
    let rows = parts.iter().flat_map(|(part, values)| {
        let rows = values.metrics.iter();
        rows.map(move |row| (*part, row))
    });
    for (part, row) in rows {
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
            part.into(),
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

/// The counts: of each part, or of all with what the program used.
fn counts(table: &mut Table, document: &Document) {
    let whole = |readings| Rows {
        part: "",
        readings,
        all: &document.counters,
        cgroups: &[],
        wall_ns: document.wall_ns,
    };
    let cgroups = &document.cgroups;
    for part in &document.parts {
        let part = Rows {
            part: &part.name,
            all: &part.counters,
            cgroups,
            ..whole(&part.counters)
        };
        rows(table, &part);
    }
    if document.parts.is_empty() {
        let counters = whole(&document.counters);
        rows(
            table,
            &Rows {
                cgroups,
                ..counters
            },
        );
        rows(table, &whole(&document.resources));
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
    counts(&mut table, document);
    table.write(out)?;
    writeln!(out)?;
    let parts = document.parts.iter();
    let apart: Vec<(&str, &Values)> = parts.map(|part| (&*part.name, &part.values)).collect();
    match apart.is_empty() {
        true => metrics(out, &[("", &document.values)])?,
        false => metrics(out, &apart)?,
    }
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
    if let Some(outside) = &document.outside {
        writeln!(out, "{}", paint(DIM, &outside.sentence()))?;
    }
    Ok(())
}

/// Prints one interval.
pub(super) fn interval(
    out: &mut dyn Write,
    label: Label<'_>,
    readings: &[Reading],
    cgroups: &[String],
    values: &Values,
    first: bool,
) -> io::Result<()> {
    let at = time(label.since.unwrap_or_default().as_nanos() as f64);
    let on = match label.part {
        Some((part, _)) => format!("{part:<9} "),
        None => String::new(),
    };
    if first {
        writeln!(
            out,
            "{}",
            paint(DIM, "   since start                value  event")
        )?;
    }
    for (place, reading) in readings.iter().enumerate() {
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
            "{at:>14} {value:>20}  {on}{}{more}",
            named(reading, cgroups.get(place))
        )?;
    }
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
            "{at:>14} {value:>20}  {on}{}, {}  {more}",
            row.metric, row.unit
        )?;
    }
    for warning in values.metric_sums.iter().filter_map(SumRow::warning) {
        writeln!(out, "{}", paint(WARN, &warning))?;
    }
    Ok(())
}
