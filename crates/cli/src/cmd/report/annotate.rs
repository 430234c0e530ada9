//! A function's instructions with the share of its samples, and its source lines.

use std::collections::BTreeMap;
use std::io::Write;

use super::view::View;
use crate::failure::Failure;
use crate::render::style::{DIM, HEAD, WARN, paint};
use truecount_model::number::grouped;
use truecount_record::listing::{self, CodeLine, Function, is_it};

pub(super) fn print(out: &mut dyn Write, view: &mut View, function: &str) -> Result<(), Failure> {
    if view.from_text {
        return Err(Failure::new(
            1,
            "--annotate needs the recording: the text of perf script does not say where its files were loaded",
        )
        .hint("give the perf.data file itself"));
    }
    let entries: Vec<_> = view
        .profile
        .entries
        .iter()
        .filter_map(|(c, w)| Some((c.event, *c.frames.first()?, *w)))
        .collect();
    let first_event = entries.iter().map(|e| e.0).min().unwrap_or(0);
    let mut found: Option<(u32, u64)> = None;
    let mut samples: BTreeMap<u64, u64> = BTreeMap::new();
    for (event, place, weight) in entries {
        if event != first_event {
            continue;
        }
        // Inlined functions are part of the one around them, whose code this shows.
        let is_it = view
            .named(place)
            .last()
            .is_some_and(|n| is_it(&n.function, function));
        let Some(file) = place.file.filter(|_| is_it) else {
            continue;
        };
        if let Some(mapped) = view.profile.files.get(file as usize).cloned()
            && found.is_none()
        {
            let at = view.symbols.locate(&mapped, place.offset);
            found = Some((file, place.offset.saturating_sub(at.offset)));
        }
        if found.is_some_and(|(f, _)| f == file) {
            *samples.entry(place.offset).or_default() += weight.samples;
        }
    }
    let missing = || {
        Failure::new(
            1,
            format!("no sample fell into a function named {function} whose code is in a file"),
        )
        .hint("`truecount report` lists the functions; the kernel's code is not in the recording")
    };
    let (file, start) = found.ok_or_else(missing)?;
    let mapped = view
        .profile
        .files
        .get(file as usize)
        .cloned()
        .ok_or_else(missing)?;
    let total: u64 = samples.values().sum();
    writeln!(
        out,
        "{}  {} samples of {} in {}",
        paint(HEAD, function),
        grouped(total),
        view.event_name(first_event),
        mapped.path
    )?;
    let last = samples.keys().next_back().copied().unwrap_or(start);
    let code = Function {
        file: &mapped,
        name: function,
        start,
        last,
    };
    let lines = listing::listing(&mut view.symbols, code)
        .map_err(|why| Failure::new(1, why).hint("give --binary or --symfs"))?;
    for line in &lines {
        match line {
            CodeLine::Source { place, text } => {
                writeln!(out, "                  {}  {text}", paint(DIM, place))?;
            }
            CodeLine::Instruction { address, text } => {
                let n = samples.get(address).copied().unwrap_or(0);
                let share = 100.0 * n as f64 / total.max(1) as f64;
                let margin = if n == 0 {
                    String::new()
                } else {
                    format!("{share:.1} %")
                };
                let margin = format!("{margin:>8}");
                let margin = if share >= 10.0 {
                    paint(WARN, &margin)
                } else {
                    margin
                };
                let n = if n == 0 { String::new() } else { grouped(n) };
                writeln!(out, "  {margin} {n:>7} │ {address:#8x}  {text}")?;
            }
        }
    }
    Ok(())
}
