//! What `discover` prints for people.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use truecount_lab::discovery::{Found, InPhase, Kind, Range, Relation, Sum, Unavailable, condense};

use super::document::Document;
use crate::render::style::{DIM, GOOD, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::grouped;

/// Names and phases that are shown of an event.
const FEW: usize = 2;

fn median(range: Range) -> String {
    if range.median.fract() == 0.0 {
        grouped(range.median as u64)
    } else {
        format!("{}.5", grouped(range.median as u64))
    }
}

fn repeats(range: Range) -> Cell {
    if range.exact {
        Cell::styled(GOOD, "exact")
    } else if range.min == range.max {
        Cell::new("equal")
    } else {
        Cell::styled(WARN, format!("within {}", grouped(range.max - range.min)))
    }
}

/// The first few of a list, and how many more there are.
fn few(words: &[String]) -> String {
    let mut text = words
        .iter()
        .take(FEW)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if words.len() > FEW {
        text.push_str(&format!(" +{}", words.len() - FEW));
    }
    text
}

fn name(found: &Found, has_table: bool) -> Cell {
    match (
        found.names.is_empty(),
        &found.provenance,
        found.names_of_code,
    ) {
        (false, None, _) => Cell::new(few(&found.names)),
        (false, Some(_), _) => Cell::styled(WARN, format!("{} (by hand)", few(&found.names))),
        _ if !has_table => Cell::styled(DIM, "no table of this CPU"),
        (true, _, 0) => Cell::styled(WARN, "undocumented"),
        (true, _, 1) => Cell::styled(DIM, "code has 1 name"),
        (true, _, names) => Cell::styled(DIM, format!("code has {names} names")),
    }
}

fn in_phase(phase: &InPhase) -> String {
    match phase.per_turn {
        Some(rate) if rate >= 0.01 => format!("{} {rate:.2} per {}", phase.phase, phase.turn),
        _ => format!("{} {}", phase.phase, median(phase.range)),
    }
}

fn compared(relation: &Relation) -> String {
    let name = &relation.reference;
    match relation.relation {
        Kind::Equal => format!("= {name}"),
        Kind::Multiple => format!("{:.0} × {name}", relation.ratio.unwrap_or(0.0)),
        Kind::Correlated => format!(
            "~ {name} r {:.3} (same at {} of {})",
            relation.pearson.unwrap_or(0.0),
            relation.equal_points,
            relation.points
        ),
    }
}

fn events(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let builtin = document.command.is_empty();
    // A column in which nothing stands is not printed.
    let mut table = Table::new([
        ("event", Align::Left),
        ("min", Align::Right),
        ("median", Align::Right),
        ("max", Align::Right),
        ("repeats", Align::Left),
        ("name", Align::Left),
        ("counts in", Align::Left),
        ("reference", Align::Left),
    ]);
    for found in &document.found.events {
        let phases: Vec<String> = found.phases.iter().map(in_phase).collect();
        let relations: Vec<String> = found.relations.iter().map(compared).collect();
        table.row(vec![
            Cell::styled(HEAD, found.event.clone()),
            grouped(found.range.min).into(),
            median(found.range).into(),
            grouped(found.range.max).into(),
            repeats(found.range),
            name(found, document.table.is_some()),
            if builtin { few(&phases) } else { String::new() }.into(),
            relations.join(", ").into(),
        ]);
    }
    table.write(out)
}

fn sums(out: &mut dyn Write, sums: &[Sum]) -> io::Result<()> {
    if sums.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(HEAD, "Sums of two"))?;
    for sum in sums {
        let off = match sum.max_off {
            0 => String::new(),
            off => format!(", off by at most {}", grouped(off)),
        };
        let [first, second] = &sum.of;
        writeln!(
            out,
            "  {} = {first} + {second} (at {} of {} points{off})",
            sum.event, sum.equal_points, sum.points
        )?;
    }
    Ok(())
}

/// Codes by the masks that were tried without counting: `0xc1..0xc3 with masks 00 01 ff`.
fn silent(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    if document.found.silent.is_empty() {
        return Ok(());
    }
    let counting: BTreeSet<u16> = document
        .found
        .events
        .iter()
        .map(|e| e.selector.code)
        .collect();
    let mut masks: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for silent in &document.found.silent {
        let selector = silent.selector;
        let own = masks.entry(selector.code).or_default();
        own.extend(selector.umask.map(|mask| format!("{mask:02x}")));
    }
    let mut codes: BTreeMap<(bool, Vec<String>), Vec<u16>> = BTreeMap::new();
    for (code, masks) in masks {
        codes
            .entry((counting.contains(&code), masks))
            .or_default()
            .push(code);
    }
    writeln!(out, "\n{}", paint(HEAD, "Opened, never counted"))?;
    for ((counts, masks), codes) in codes {
        let masks = match (masks.is_empty(), counts) {
            (true, _) => String::new(),
            (false, false) => format!(" with masks {}", masks.join(" ")),
            (false, true) => format!(" with masks {} (others count)", masks.join(" ")),
        };
        writeln!(out, "  {}{masks}", condense(&codes))?;
    }
    let named: Vec<String> = document
        .found
        .silent
        .iter()
        .filter_map(|silent| Some(format!("{} ({})", silent.names.first()?, silent.event)))
        .collect();
    if !named.is_empty() {
        let text = format!("documented among them: {}", few(&named));
        writeln!(out, "  {}", paint(DIM, &text))?;
    }
    Ok(())
}

fn unavailable(out: &mut dyn Write, title: &str, list: &[Unavailable]) -> io::Result<()> {
    let mut reasons: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for each in list {
        let why = &each.why.why;
        let own = reasons.entry((&why.reason, &why.hint)).or_default();
        own.push(each.event.clone());
    }
    if !reasons.is_empty() {
        writeln!(out, "\n{}", paint(HEAD, title))?;
    }
    for ((reason, hint), events) in reasons {
        let events = match events.as_slice() {
            [first, .., last] if events.len() > 4 => format!("{first} … {last} ({})", events.len()),
            few => few.join(", "),
        };
        writeln!(out, "  {}: {reason}; {hint}", paint(WARN, &events))?;
    }
    Ok(())
}

fn heading(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let workload = match document.command.as_slice() {
        [] => format!("built-in workload of {} phases", document.phases.len()),
        words => words.join(" "),
    };
    let mode = if document.filter == "u" {
        "in user mode"
    } else {
        "in user mode and in the kernel"
    };
    writeln!(out, "{}", paint(HEAD, &workload))?;
    writeln!(
        out,
        "{} event codes ({}) {mode}, {} runs of each batch of up to {}, on CPU {}; names: {}",
        document.codes,
        document.select,
        document.runs,
        document.found.at_once,
        document.cpu,
        document.table.as_deref().unwrap_or("no table of this CPU"),
    )?;
    for reference in &document.references {
        let counted = match reference.range {
            None => "not counted".to_owned(),
            Some(range) if range.max == 0 => {
                "never counted: nothing can be compared with it".to_owned()
            }
            Some(range) if range.exact => format!("{} a run (exact)", grouped(range.max)),
            Some(range) if range.min == range.max => {
                format!("{} in each of a few runs", grouped(range.max))
            }
            Some(range) => format!("{} to {} a run", grouped(range.min), grouped(range.max)),
        };
        writeln!(out, "reference {}: {counted}", reference.event)?;
    }
    writeln!(out)
}

/// Prints everything.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    heading(out, document)?;
    if document.interrupted.is_some() {
        let line = "interrupted: what was found until then (--resume FILE goes on from there)";
        writeln!(out, "{}", paint(WARN, line))?;
    }
    if document.found.events.is_empty() {
        writeln!(out, "No selector counted.")?;
    } else {
        events(out, document)?;
    }
    sums(out, &document.found.sums)?;
    silent(out, document)?;
    unavailable(out, "Not opened", &document.found.not_opened)?;
    unavailable(out, "Not counted", &document.found.not_counted)?;
    writeln!(out)?;
    let mut facts = vec![
        format!("{} count", document.found.events.len()),
        format!("{} opened and never counted", document.found.silent.len()),
        format!("{} not opened", document.found.not_opened.len()),
    ];
    if !document.found.not_counted.is_empty() {
        facts.push(format!("{} not counted", document.found.not_counted.len()));
    }
    facts.push(format!("{:.1} s", document.seconds));
    if document.resumed {
        facts.push("some of it from an earlier call".to_owned());
    }
    writeln!(out, "{}", paint(DIM, &facts.join(", ")))?;
    for note in &document.notes {
        writeln!(out, "{note}")?;
    }
    out.flush()
}
