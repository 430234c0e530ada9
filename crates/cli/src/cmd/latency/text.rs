//! What was timed, as text.

use std::io::{self, Write};

use crate::render::cycles::{bars, compared, cycles, modes, percentiles};
use crate::render::style::{DIM, HEAD, paint};
use truecount_model::number::grouped;
use truecount_record::names::base_name;
use truecount_run::latency::{Row, Timed};

/// The command, short enough for a legend.
pub(super) fn label(run: &Timed) -> String {
    let mut words = run.command.split(' ');
    let first = base_name(words.next().unwrap_or_default()).to_owned();
    let text = words.fold(first, |all, word| all + " " + word);
    match text.char_indices().nth(28) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text,
    }
}

pub(super) fn title(row: &Row) -> String {
    match row.at.end {
        None => format!("{}, from one execution to the next", row.name),
        Some(_) => row.name.clone(),
    }
}

pub(super) fn cost(run: &Timed) -> String {
    match run.cost {
        Some(c) => {
            let step = if c.step > 1.0 {
                format!(
                    "; the counter advances by about {} at a time: modes and bars are spread over that",
                    c.step
                )
            } else {
                String::new()
            };
            format!(
                "the stamps' own time is subtracted: {} cycles (median of {} empty intervals, 80 % in {} to {}){step}",
                c.cycles,
                grouped(c.measured),
                c.p10,
                c.p90
            )
        }
        None => "the stamps' own time is not known and not subtracted".to_owned(),
    }
}

pub(super) fn print(out: &mut dyn Write, run: &Timed, other: Option<&Timed>) -> io::Result<()> {
    writeln!(out, "{}  {}", paint(HEAD, "TIMED"), run.command)?;
    writeln!(
        out,
        "  {}",
        paint(
            DIM,
            "TSC cycles between inline time stamps under the virtual PMU; each waits for what came before"
        )
    )?;
    writeln!(out, "  {}", paint(DIM, &cost(run)))?;
    for (at, row) in run.rows.iter().enumerate() {
        writeln!(out, "\n{}  {:#x}", paint(HEAD, &title(row)), row.at.start)?;
        let total = row.cycles.total().saturating_add(row.longer);
        writeln!(out, "  {} timed", grouped(total))?;
        if row.longer > 0 {
            writeln!(
                out,
                "  {} of 65535 cycles or more (counted, not in the histogram)",
                grouped(row.longer)
            )?;
        }
        if row.below_cost > 0 {
            writeln!(
                out,
                "  {} took no longer than the stamps themselves (shown as 1 cycle)",
                grouped(row.below_cost)
            )?;
        }
        if let [Some(p50), Some(p90), Some(p99)] = percentiles(&row.cycles) {
            writeln!(
                out,
                "  cycles p50 {p50}, p90 {p90}, p99 {p99}; modes {}\n",
                modes(&row.smooth(run.step()).modes())
            )?;
            bars(out, &row.smooth(run.step()))?;
        }
        if let Some(w) = row.prefetch(run.step()) {
            writeln!(
                out,
                "\n  Between the first mode ({}) and the costliest later one ({}): {} cycles, which a prefetch could win if they are cache misses.",
                cycles(w.base),
                cycles(w.miss),
                cycles(w.window)
            )?;
        }
        if let Some(before) = other.and_then(|other| other.like(&row.name, at)) {
            let line = compared(&before.cycles, &row.cycles)
                .unwrap_or_else(|| "one of the two has no cycles".to_owned());
            writeln!(
                out,
                "\n{}  {} → {}\n  {line}\n  modes {}  →  {}",
                paint(HEAD, "COMPARED"),
                other.map(label).unwrap_or_default(),
                label(run),
                modes(&before.smooth(other.map_or(1.0, Timed::step)).modes()),
                modes(&row.smooth(run.step()).modes())
            )?;
        }
    }
    for note in &run.notes {
        writeln!(out, "\n{note}")?;
    }
    out.flush()
}
