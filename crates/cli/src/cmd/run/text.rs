//! The tables that `run` prints for people.

use std::io::{self, Write};

use serde_json::{Map, Value};

use super::document::Document;
use crate::render::style::{HEAD, WARN, paint};
use crate::render::table::fitted;
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::{exact, grouped};
use truecount_run::functions::{Function, base_name};

/// Functions that the table shows.
const SHOWN: usize = 30;

/// Prints the whole run.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    writeln!(out)?;
    writeln!(
        out,
        "{}",
        paint(
            HEAD,
            &truecount_run::runner::command_line(&document.command)
        )
    )?;
    writeln!(out)?;
    let mut table = Table::new([
        ("value", Align::Right),
        ("event", Align::Left),
        ("source", Align::Left),
        ("", Align::Left),
    ]);
    for reading in &document.counters {
        table.row(vec![
            match reading.value() {
                Some(value) => Cell::new(exact(value, reading.scale, &reading.unit)),
                None => Cell::styled(WARN, "not counted"),
            },
            Cell::styled(HEAD, reading.event.clone()),
            reading.result.source_name().into(),
            reading.result.precision_name().into(),
        ]);
    }
    table.write(out)?;
    writeln!(out)?;
    let names: Vec<&str> = document.counters.iter().map(|r| r.event.as_str()).collect();
    if let Some(processes) = &document.processes {
        let head = [
            ("pid", Align::Right),
            ("parent", Align::Right),
            ("threads", Align::Right),
            ("program", Align::Left),
        ];
        let mut table = Table::of(heads(&names, &head));
        for process in processes {
            let mut cells = counts(&names, &process.events);
            cells.extend([
                process.pid.to_string().into(),
                process.parent.to_string().into(),
                process.threads.to_string().into(),
                process.program.clone().into(),
            ]);
            table.row(cells);
        }
        table.write(out)?;
        writeln!(out)?;
    }
    if let Some(threads) = &document.threads {
        let head = [
            ("pid", Align::Right),
            ("tid", Align::Right),
            ("program", Align::Left),
        ];
        let mut table = Table::of(heads(&names, &head));
        for thread in threads {
            let mut cells = counts(&names, &thread.events);
            cells.extend([
                thread.pid.to_string().into(),
                thread.tid.to_string().into(),
                thread.program.clone().into(),
            ]);
            table.row(cells);
        }
        table.write(out)?;
        writeln!(out)?;
    }
    if let Some(memory) = &document.memory {
        let precision = document.counters.first();
        let precision = precision.map_or("", |reading| reading.result.precision_name());
        super::memory::write(out, memory, precision)?;
    }
    if let Some(functions) = &document.functions {
        write_functions(out, functions, &names)?;
    }
    if let Some(diff) = &document.calls_diff {
        crate::render::calls_diff::write(out, diff, super::diff::NAMES)?;
    } else if let Some(calls) = &document.calls {
        super::calls::write(out, calls)?;
    }
    if document.interrupted.is_some() {
        let line = "interrupted: what was counted until then";
        writeln!(out, "{}", paint(WARN, line))?;
    }
    for note in &document.notes {
        writeln!(out, "{note}")?;
    }
    if let Some(outside) = &document.outside {
        writeln!(out, "{}", outside.sentence())?;
    }
    out.flush()
}

/// Columns of the events, then others.
fn heads(names: &[&str], rest: &[(&str, Align)]) -> Vec<(String, Align)> {
    let rest = rest
        .iter()
        .map(|(name, align)| ((*name).to_owned(), *align));
    names
        .iter()
        .map(|name| ((*name).to_owned(), Align::Right))
        .chain(rest)
        .collect()
}

fn counts(names: &[&str], events: &Map<String, Value>) -> Vec<Cell> {
    names
        .iter()
        .map(|name| match events.get(*name).and_then(Value::as_u64) {
            Some(count) => grouped(count).into(),
            None => Cell::styled(WARN, "not counted"),
        })
        .collect()
}

/// The largest functions, with their share of the first event.
fn write_functions(out: &mut dyn Write, functions: &[Function], names: &[&str]) -> io::Result<()> {
    let total: u64 = functions.iter().map(|f| f.first).fold(0, u64::wrapping_add);
    let head = [
        ("share", Align::Right),
        ("function", Align::Left),
        ("module", Align::Left),
        ("program", Align::Left),
    ];
    let mut table = Table::of(heads(names, &head));
    for function in functions.iter().take(SHOWN) {
        let mut cells = counts(names, &function.events);
        let share = 100.0 * function.first as f64 / total.max(1) as f64;
        cells.extend([
            format!("{share:.2} %").into(),
            Cell::styled(HEAD, fitted(&function.function)),
            base_name(&function.module).into(),
            function.program.clone().into(),
        ]);
        table.row(cells);
    }
    table.write(out)?;
    if let Some(more) = functions.len().checked_sub(SHOWN).filter(|&more| more > 0) {
        writeln!(out, "… and {more} more functions: --json has them all")?;
    }
    writeln!(out)
}
