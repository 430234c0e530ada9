//! The table for people: live on a terminal, one after the other elsewhere.

use std::io::{self, Write};

use truecount_system::{Row, Scope, Topology, View};

use crate::render::style::{DIM, HEAD, WARN, paint};
use crate::render::table::{self, Align, Table};
use truecount_model::number::{grouped, time};
use truecount_model::{Measured, Precision};

/// Where tables go.
pub(super) struct Screen {
    live: bool,
    shown: u64,
}

impl Screen {
    pub(super) fn new(live: bool) -> Self {
        Self { live, shown: 0 }
    }

    /// Shows one interval; on a terminal in place of the one before.
    pub(super) fn show(
        &mut self,
        out: &mut dyn Write,
        view: &View,
        topology: &Topology,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        let rows = if self.live { rows_that_fit() } else { None };
        write(&mut text, view, topology, rows)?;
        if self.live {
            // Home, and clear what is below; the first time the whole screen (ECMA-48 CUP, ED).
            let clear: &[u8] = if self.shown == 0 {
                b"\x1b[2J\x1b[H"
            } else {
                b"\x1b[H\x1b[J"
            };
            out.write_all(clear)?;
        } else if self.shown > 0 {
            writeln!(out)?;
        }
        self.shown += 1;
        out.write_all(&text)
    }
}

/// Lines of the terminal, less those around the rows.
fn rows_that_fit() -> Option<usize> {
    // SAFETY: the call fills the local structure, whose size the kernel knows.
    let size = unsafe {
        let mut size = std::mem::zeroed::<libc::winsize>();
        if libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) != 0 {
            return None;
        }
        size
    };
    (size.ws_row > 0).then(|| usize::from(size.ws_row).saturating_sub(12).max(4))
}

/// `cpu 3`, `socket 0`.
fn name(row: &Row) -> String {
    match row.scope {
        Scope::Machine => "machine".to_owned(),
        scope => format!("{} {}", scope.name(), row.id),
    }
}

fn value(cell: &Measured<f64>, unit: &str) -> table::Cell {
    let Some(value) = cell.value() else {
        return table::Cell::styled(DIM, "n/a");
    };
    let text = match unit {
        "%" => format!("{value:.1}"),
        "per second" if value >= 0.0 => grouped(value.round() as u64),
        "MiB/s" => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    };
    if cell.precision() == Some(Precision::Scaled) {
        table::Cell::styled(WARN, format!("~{text}"))
    } else {
        text.into()
    }
}

fn write(
    out: &mut dyn Write,
    view: &View,
    topology: &Topology,
    most: Option<usize>,
) -> io::Result<()> {
    let plural = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let mut parts = vec![plural(topology.cpus.len(), "CPU")];
    parts.extend(topology.cores().map(|cores| plural(cores, "core")));
    for (count, one) in [
        (topology.sockets().len(), "socket"),
        (topology.nodes().len(), "memory node"),
    ] {
        if count > 0 {
            parts.push(plural(count, one));
        }
    }
    let head = format!("{}; {}", parts.join(", "), time(view.wall_ns as f64));
    writeln!(out, "{}", paint(HEAD, &head))?;
    // A column without any value says nothing in a table: its reason stands below.
    let shown: Vec<usize> = (0..view.columns.len())
        .filter(|&at| {
            let cells = view.rows.iter().filter_map(|row| row.cells.get(at));
            cells.clone().any(|cell| cell.value().is_some())
        })
        .collect();
    let mut columns = vec![(String::new(), Align::Left)];
    columns.extend(shown.iter().filter_map(|&at| {
        let column = view.columns.get(at)?;
        Some((column.head.clone(), Align::Right))
    }));
    let mut table = Table::of(columns);
    let most = most.unwrap_or(view.rows.len());
    for row in view.rows.iter().take(most) {
        let mut cells = vec![table::Cell::styled(HEAD, name(row))];
        cells.extend(shown.iter().filter_map(|&at| {
            let unit = &view.columns.get(at)?.unit;
            Some(value(row.cells.get(at)?, unit))
        }));
        table.row(cells);
    }
    table.write(out)?;
    if view.rows.len() > most {
        let more = view.rows.len() - most;
        let text = format!("  … {more} more rows (--per core or socket shows fewer)");
        writeln!(out, "{}", paint(DIM, &text))?;
    }
    reasons(out, view)
}

/// One line for each reason, with the columns that have it in the machine's row or anywhere.
fn reasons(out: &mut dyn Write, view: &View) -> io::Result<()> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    let mut scaled = false;
    for row in &view.rows {
        for (at, (cell, column)) in row.cells.iter().zip(&view.columns).enumerate() {
            scaled |= cell.precision() == Some(Precision::Scaled);
            let Measured::Missing(reason) = cell else {
                continue;
            };
            // What even the machine has not needs no further reason.
            let whole = view.rows.first().and_then(|row| row.cells.get(at));
            if row.scope != Scope::Machine && whole.is_some_and(|cell| cell.value().is_none()) {
                continue;
            }
            match lines.iter_mut().find(|(known, _)| *known == reason.cause) {
                Some((_, heads)) if heads.contains(&column.head.as_str()) => {}
                Some((_, heads)) => heads.push(&column.head),
                None => lines.push((reason.cause.clone(), vec![&column.head])),
            }
        }
    }
    for (reason, heads) in lines {
        let text = format!("n/a: {reason}: {}", heads.join(", "));
        writeln!(out, "{}", paint(DIM, &text))?;
    }
    if scaled {
        let text = "~ scaled: its counters were shared, and it is extrapolated";
        writeln!(out, "{}", paint(DIM, text))?;
    }
    Ok(())
}
