//! How much each event differs over the runs of `stat -n N`.

use std::io::{self, Write};

use crate::render::style::{DIM, GOOD, HEAD, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::{compact, exact};
use truecount_run::repeat::{Repeat, Repeats};

/// Prints the table.
pub(super) fn write(repeats: &Repeats, out: &mut dyn Write) -> io::Result<()> {
    let line = format!(
        "{} runs; run {}, the median, is shown above",
        repeats.runs, repeats.shown
    );
    writeln!(out, "{}", paint(HEAD, &line))?;
    writeln!(out)?;
    let mut table = Table::new([
        ("varies by", Align::Right),
        ("of it", Align::Right),
        ("min", Align::Right),
        ("max", Align::Right),
        ("event", Align::Left),
    ]);
    for each in &repeats.events {
        let (Some(min), Some(max), Some(half)) = (each.min, each.max, each.plus_minus) else {
            continue;
        };
        let number = |value: u64| exact(value, each.scale, &each.unit);
        let middle = (min as f64 + max as f64) / 2.0;
        let (varies, share) = if min == max {
            (Cell::styled(GOOD, "±0"), Cell::new("the same"))
        } else {
            let share = format!("{:.2} %", half / middle * 100.0);
            (plus_minus(half, each).into(), Cell::styled(DIM, share))
        };
        table.row(vec![
            varies,
            share,
            number(min).into(),
            number(max).into(),
            Cell::styled(HEAD, each.event.clone()),
        ]);
    }
    table.write(out)?;
    writeln!(out)?;
    let odd = repeats.exits.len() > 1;
    for (exit, times) in repeats.exits.iter().filter(|_| odd) {
        writeln!(out, "{times} × {exit}")?;
    }
    Ok(())
}

fn plus_minus(half: f64, each: &Repeat) -> String {
    if each.unit == "count" && half < 1000.0 {
        return format!("±{half}");
    }
    if each.unit == "count" {
        return format!("±{}", compact(half));
    }
    format!("±{}", exact(half.round() as u64, each.scale, &each.unit))
}
