//! The handler by options of `perf record`, as the patch of counter freezing showed it: mean and max by frequency and by
//! fixed period, and the difference.

use std::io::{self, Write};

use truecount_lab::model::PatchRow;
use truecount_lab::sampling::{Cost, Event, Method, Payload, Spread};

use crate::render::style::{DIM, HEAD, paint};
use crate::render::table::{Align, Table};
use truecount_model::number::time;

/// The option that asks for a payload.
fn option(payload: Payload) -> &'static str {
    match payload {
        Payload::None => "(none)",
        Payload::Fp => "-g",
        Payload::Dwarf => "--call-graph dwarf",
        Payload::Lbr => "-b",
        Payload::LbrUser => "-j any,u",
        Payload::LbrStack => "--call-graph lbr",
    }
}

/// A row: event, option, by frequency, by period.
type Row = (Event, Payload, Spread, Spread);

/// Cells of the same event, payload and rate, by frequency and by period. The handler's own time where the kernel tells
/// it, else what the program missed: said by the second part.
fn rows(cells: &[Cost]) -> (Vec<Row>, bool) {
    let of = |handler: bool| {
        let spread = |cost: &Cost| if handler { cost.handler } else { cost.stolen };
        let mut rows: Vec<Row> = Vec::new();
        for cost in cells.iter().filter(|c| c.cell.method == Method::Frequency) {
            let fixed = cells.iter().find(|other| {
                other.cell.method == Method::Period
                    && (other.cell.event, other.cell.payload, other.cell.rate)
                        == (cost.cell.event, cost.cell.payload, cost.cell.rate)
            });
            let both = (spread(cost), fixed.and_then(spread));
            let known = rows
                .iter()
                .any(|row| (row.0, row.1) == (cost.cell.event, cost.cell.payload));
            if let ((Some(a), Some(b)), false) = (both, known) {
                rows.push((cost.cell.event, cost.cell.payload, a, b));
            }
        }
        rows
    };
    let handler = of(true);
    if handler.is_empty() {
        (of(false), false)
    } else {
        (handler, true)
    }
}

/// Prints the table, where there are cells for it.
pub(super) fn write(out: &mut dyn Write, cells: &[Cost]) -> io::Result<()> {
    let (rows, handler) = rows(cells);
    if rows.is_empty() {
        return Ok(());
    }
    let what = if handler {
        "The handler, by options of perf record"
    } else {
        "A sample, by options of perf record (as the program sees it)"
    };
    writeln!(out, "\n{}", paint(HEAD, what))?;
    let mut table = Table::new([
        ("event", Align::Left),
        ("option", Align::Left),
        ("-F: mean", Align::Right),
        ("max", Align::Right),
        ("-c: mean", Align::Right),
        ("max", Align::Right),
        ("difference", Align::Right),
    ]);
    for (event, payload, frequency, period) in rows {
        table.row(vec![
            event.name().into(),
            option(payload).into(),
            time(frequency.mean).into(),
            time(frequency.max as f64).into(),
            time(period.mean).into(),
            time(period.max as f64).into(),
            percent((period.mean - frequency.mean) / frequency.mean * 100.0).into(),
        ]);
    }
    table.write(out)
}

fn percent(value: f64) -> String {
    if value.is_finite() {
        format!("{value:+.0} %")
    } else {
        String::new()
    }
}

/// What was published with counter freezing on Skylake, and what the model makes of it.
pub(super) fn patch(out: &mut dyn Write, rows: &[PatchRow]) -> io::Result<()> {
    writeln!(
        out,
        "\n{}",
        paint(
            HEAD,
            "What was published with counter freezing (Skylake), and the model"
        )
    )?;
    let mut table = Table::new([
        ("option", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("difference", Align::Right),
        ("the model's", Align::Right),
    ]);
    for row in rows {
        let name = if row.option.is_empty() {
            "(none)"
        } else {
            &row.option
        };
        table.row(vec![
            name.into(),
            time(row.before_ns).into(),
            time(row.after_ns).into(),
            percent(row.percent).into(),
            percent(row.model_percent).into(),
        ]);
    }
    table.write(out)?;
    for row in rows {
        if let Some(note) = &row.note {
            writeln!(out, "  {}", paint(DIM, &format!("{}: {note}", row.option)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_lab::sampling::Cell;

    fn cost(method: Method, handler: Option<f64>) -> Cost {
        let spread = |mean: f64| Spread {
            n: 9,
            mean,
            p50: 1,
            p99: 2,
            max: 5_000,
        };
        Cost {
            cell: Cell {
                event: Event::Cycles,
                method,
                payload: Payload::LbrStack,
                rate: 1000,
            },
            period: None,
            visits: 1,
            samples: 9,
            rate_seen: 1000.0,
            stolen: Some(spread(4_000.0)),
            stolen_typical: None,
            share: None,
            handler: handler.map(spread),
            slowdown: None,
            throttled: 0,
            lost: 0,
            left_out: 0,
            unmatched: 0,
            frames: None,
            branches: None,
        }
    }

    #[test]
    fn rows_are_options_and_columns_are_mean_max_and_difference() {
        let cells = [
            cost(Method::Frequency, Some(3770.0)),
            cost(Method::Period, Some(2433.0)),
        ];
        let mut out = Vec::new();
        write(&mut out, &cells).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in [
            "The handler",
            "--call-graph lbr",
            "3.770 µs",
            "2.433 µs",
            "-35 %",
            "5.000 µs",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Without the kernel's tracepoints by what the program saw; one method alone is no row.
        let mut out = Vec::new();
        write(
            &mut out,
            &[cost(Method::Frequency, None), cost(Method::Period, None)],
        )
        .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("as the program sees it") && text.contains("+0 %"),
            "{text}"
        );
        let mut out = Vec::new();
        write(&mut out, &[cost(Method::Period, Some(1.0))]).unwrap();
        assert!(out.is_empty());
    }
}
