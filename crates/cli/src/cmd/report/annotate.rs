//! A function's instructions with the share of its samples, and its source lines.

use std::collections::BTreeMap;
use std::io::Write;

use truecount_sample::code;
use truecount_sample::spaces::MappedFile;

use super::view::{View, base_name, short};
use crate::failure::Failure;
use crate::render::number::grouped;
use crate::render::style::{DIM, HEAD, WARN, paint};

pub(super) fn print(out: &mut dyn Write, view: &mut View, function: &str) -> Result<(), Failure> {
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
            .is_some_and(|n| n.function == function || short(&n.function) == function);
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
        .mend("`truecount report` lists the functions; the kernel's code is not in the recording")
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
    let instructions = instructions(view, &mapped, function, start, last)?;
    let mut source = None;
    for (address, text) in &instructions {
        let at = view.symbols.locate(&mapped, *address);
        let now = at
            .frames
            .first()
            .and_then(|f| Some((f.file.clone()?, f.line?, f.function.clone())));
        if now.is_some() && now != source {
            if let Some((file, line, inner)) = &now {
                let text = line_of(file, *line).unwrap_or_default();
                let head = format!("{}:{line}", base_name(file));
                let inner = if inner == function || short(inner) == function {
                    String::new()
                } else {
                    format!(" {} (inlined)", short(inner))
                };
                writeln!(
                    out,
                    "                  {}  {text}",
                    paint(DIM, &format!("{head}{inner}"))
                )?;
            }
            source = now;
        }
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
    Ok(())
}

/// Instructions from a function's start to its end: to the next symbol, at least past the last sample.
fn instructions(
    view: &mut View,
    mapped: &MappedFile,
    function: &str,
    start: u64,
    last: u64,
) -> Result<Vec<(u64, String)>, Failure> {
    /// Longer functions are shown to their last sample.
    const MOST: u64 = 1 << 16;
    let found = view.symbols.find(mapped).map_err(|why| {
        Failure::new(1, format!("the code of {function} is not available: {why}"))
            .mend("give --binary or --symfs")
    })?;
    if found.elf.machine != 62 {
        return Err(Failure::new(1, "only x86-64 code can be annotated"));
    }
    let first = usize::try_from(start).unwrap_or(usize::MAX);
    let limit = last.saturating_sub(start).saturating_add(MOST);
    let bytes = found.elf.bytes().get(first..).unwrap_or_default();
    let bytes: Vec<u8> = bytes
        .get(..bytes.len().min(limit as usize))
        .unwrap_or_default()
        .to_vec();
    let mut out = Vec::new();
    for instruction in code::listing(&bytes, start) {
        let here = view.symbols.locate(mapped, instruction.address);
        if instruction.address > last
            && here
                .frames
                .last()
                .is_none_or(|f| f.function != function && short(&f.function) != function)
        {
            break;
        }
        out.push((instruction.address, instruction.text));
    }
    Ok(out)
}

/// A line of a source file, where it is on this machine.
fn line_of(path: &str, line: u32) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().nth(line.checked_sub(1)? as usize)?;
    Some(line.trim_end().to_owned())
}
