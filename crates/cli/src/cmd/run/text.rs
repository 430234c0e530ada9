//! The tables that `run` prints for people.

use std::io::{self, Write};

use super::document::Document;
use crate::render::number::{exact, grouped};
use crate::render::style::{HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};

/// Prints the whole run.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    writeln!(out)?;
    writeln!(out, "{}", paint(HEAD, &document.command.join(" ")))?;
    writeln!(out)?;
    let mut table = Table::new([
        ("value", Align::Right),
        ("event", Align::Left),
        ("source", Align::Left),
        ("", Align::Left),
    ]);
    for reading in &document.counters {
        table.row(vec![
            match reading.value {
                Some(value) => Cell::new(exact(value, reading.scale, &reading.unit)),
                None => Cell::styled(WARN, "not counted"),
            },
            Cell::styled(HEAD, reading.event.clone()),
            reading.source.map_or("", |source| source.name()).into(),
            reading.precision.map_or("", |how| how.name()).into(),
        ]);
    }
    table.write(out)?;
    writeln!(out)?;
    if let Some(processes) = &document.processes {
        let mut table = Table::new([
            ("instructions:u", Align::Right),
            ("pid", Align::Right),
            ("parent", Align::Right),
            ("threads", Align::Right),
            ("program", Align::Left),
        ]);
        for process in processes {
            table.row(vec![
                grouped(process.instructions).into(),
                process.pid.to_string().into(),
                process.parent.to_string().into(),
                process.threads.to_string().into(),
                process.program.clone().into(),
            ]);
        }
        table.write(out)?;
        writeln!(out)?;
    }
    if let Some(threads) = &document.threads {
        let mut table = Table::new([
            ("instructions:u", Align::Right),
            ("pid", Align::Right),
            ("tid", Align::Right),
            ("program", Align::Left),
        ]);
        for thread in threads {
            table.row(vec![
                grouped(thread.instructions).into(),
                thread.pid.to_string().into(),
                thread.tid.to_string().into(),
                thread.program.clone().into(),
            ]);
        }
        table.write(out)?;
        writeln!(out)?;
    }
    if document.interrupted.is_some() {
        let line = "interrupted: what was counted until then";
        writeln!(out, "{}", paint(WARN, line))?;
    }
    for note in &document.notes {
        writeln!(out, "{note}")?;
    }
    out.flush()
}
