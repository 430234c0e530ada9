//! What `noise` prints for people.

use std::io::{self, Write};

use super::document::Document;
use crate::render::style::{BAD, DIM, GOOD, HEAD, WARN, paint};
use crate::render::table::fitted;
use crate::render::table::{Align, Cell, Table};
use truecount_lab::noise::Spread;
use truecount_model::SourceKind;
use truecount_model::number::{compact, grouped};
use truecount_run::calls::diff::change;
use truecount_run::determinism::Factor;

pub(super) fn plus_minus(spread: &Spread) -> String {
    match spread.plus_minus {
        Some(0.0) => "±0".to_owned(),
        Some(half) if half < 1000.0 => format!("±{half}"),
        Some(half) => format!("±{}", compact(half)),
        None => "not measured".to_owned(),
    }
}

fn row(table: &mut Table, name: &str, spread: &Spread, verdict: Cell) {
    let number = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), grouped);
    table.row(vec![
        Cell::styled(HEAD, name),
        plus_minus(spread).into(),
        number(spread.min).into(),
        number(spread.max).into(),
        spread.counts.len().to_string().into(),
        verdict,
    ]);
}

fn verdict(spread: &Spread) -> Cell {
    let style = match spread.cause {
        None => DIM,
        Some(true) => BAD,
        Some(false) if spread.p.is_none() => GOOD,
        Some(false) => DIM,
    };
    Cell::styled(style, said(spread))
}

/// The verdict in words.
pub(super) fn said(spread: &Spread) -> String {
    match (spread.cause, spread.p) {
        (None, _) => "too few runs".to_owned(),
        (Some(true), None) => "a cause".to_owned(),
        (Some(true), Some(p)) => format!("a cause (p = {p:.3})"),
        (Some(false), None) => "no effect seen".to_owned(),
        (Some(false), Some(p)) => format!("within the residual (p = {p:.2})"),
    }
}

/// A difference with its sign, and what is compared.
fn compared(least: String, largest: String, difference: i64) -> [Cell; 3] {
    [
        self::difference(difference).into(),
        least.into(),
        largest.into(),
    ]
}

/// A difference with its sign.
fn difference(difference: i64) -> String {
    let sign = if difference < 0 { "-" } else { "+" };
    format!("{sign}{}", grouped(difference.unsigned_abs()))
}

/// A self time; below zero where a profile's intervals cross.
pub(super) fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(value.unsigned_abs()))
}

fn functions(out: &mut dyn Write, name: &str, spread: &Spread) -> io::Result<()> {
    if spread.functions.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "Functions in which runs differ, {name}: {} of {}",
        spread.functions.len(),
        spread.diverging_functions
    )?;
    let mut table = Table::new([
        ("difference", Align::Right),
        ("min run", Align::Right),
        ("max run", Align::Right),
        ("function", Align::Left),
        ("module", Align::Left),
    ]);
    for each in &spread.functions {
        let module = each.module.rsplit('/').next().unwrap_or_default();
        let counts = (grouped(each.min_run), grouped(each.max_run));
        let mut row = Vec::from(compared(counts.0, counts.1, each.difference()));
        row.extend([Cell::styled(HEAD, fitted(&each.function)), module.into()]);
        table.row(row);
    }
    table.write(out)?;
    writeln!(out)
}

/// Functions of a path that are shown: the innermost.
const MAX_NAMES: usize = 4;

/// A path, the innermost function first.
pub(super) fn path(path: &[String]) -> String {
    let cut = path.len().saturating_sub(MAX_NAMES);
    let names: Vec<String> = path
        .iter()
        .skip(cut)
        .rev()
        .map(|name| fitted(name))
        .collect();
    let more = if cut > 0 { " ← …" } else { "" };
    format!("{}{more}", names.join(" ← "))
}

/// As [`functions`], for paths of calls.
fn paths(out: &mut dyn Write, name: &str, spread: &Spread) -> io::Result<()> {
    let Some(all) = spread.diverging_paths.filter(|_| !spread.paths.is_empty()) else {
        return Ok(());
    };
    writeln!(
        out,
        "Paths of calls in which runs differ, {name}: {} of {all}",
        spread.paths.len()
    )?;
    let mut table = Table::new([
        ("self", Align::Right),
        ("min run", Align::Right),
        ("max run", Align::Right),
        ("inclusive", Align::Right),
        ("calls", Align::Right),
        ("path", Align::Left),
    ]);
    for each in &spread.paths {
        let (least, most) = (each.min_run, each.max_run);
        let counts = (grouped(least.own), grouped(most.own));
        let mut row = Vec::from(compared(counts.0, counts.1, each.difference()));
        let calls = change(least.calls, most.calls);
        row.extend([difference(each.inclusive()), difference(calls)].map(Cell::new));
        row.push(Cell::styled(HEAD, path(&each.path)));
        table.row(row);
    }
    table.write(out)?;
    writeln!(out)
}

/// As [`functions`], for the program's own profiles.
fn regions(out: &mut dyn Write, name: &str, spread: &Spread) -> io::Result<()> {
    let (Some(counter), false) = (&spread.region_counter, spread.regions.is_empty()) else {
        return Ok(());
    };
    writeln!(
        out,
        "Regions in which runs differ, {name}: {} of {} ({counter} of the program's own profiles)",
        spread.regions.len(),
        spread.diverging_regions
    )?;
    let mut table = Table::new([
        ("difference", Align::Right),
        ("min run", Align::Right),
        ("max run", Align::Right),
        ("region", Align::Left),
    ]);
    for each in &spread.regions {
        let counts = (signed(each.min_run), signed(each.max_run));
        let mut row = Vec::from(compared(counts.0, counts.1, each.difference()));
        row.push(Cell::styled(HEAD, fitted(&each.region)));
        table.row(row);
    }
    table.write(out)?;
    writeln!(out)
}

/// Who counted, in words.
pub(super) fn counted_by(document: &Document) -> &'static str {
    match document.findings.source {
        SourceKind::Hardware => "the CPU",
        _ => "the virtual PMU",
    }
}

/// What was not tested, and why.
fn not_tested(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    if document.findings.not_tested.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([("not tested", Align::Left), ("why", Align::Left)]);
    for each in &document.findings.not_tested {
        table.row(vec![
            Cell::new(each.title.to_owned()),
            Cell::styled(DIM, each.reason.clone()),
        ]);
    }
    table.write(out)?;
    writeln!(out)
}

/// The command that holds the causes constant, where there is a remedy for any.
pub(super) fn remedy(document: &Document) -> Option<String> {
    let causes = document
        .findings
        .factors
        .iter()
        .filter(|s| s.cause == Some(true));
    let list: Vec<&str> = causes
        .filter_map(|spread| spread.factor.filter(|f| f.has_remedy()))
        .map(Factor::name)
        .collect();
    let command = truecount_run::runner::command_line(&document.command);
    let stat = "truecount stat --deterministic";
    (!list.is_empty()).then(|| format!("{stat}={} -- {command}", list.join(",")))
}

/// Prints everything.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    writeln!(
        out,
        "{}",
        paint(
            HEAD,
            &truecount_run::runner::command_line(&document.command)
        )
    )?;
    writeln!(
        out,
        "{} by {}; one factor varied at a time, the others held constant (seed {})\n",
        document.findings.event,
        counted_by(document),
        document.seed
    )?;
    let mut table = Table::new([
        ("varied", Align::Left),
        ("varies by", Align::Right),
        ("min", Align::Right),
        ("max", Align::Right),
        ("runs", Align::Right),
        ("", Align::Left),
    ]);
    for spread in &document.findings.factors {
        let name = spread.factor.map_or("", Factor::title);
        row(&mut table, name, spread, verdict(spread));
    }
    let nothing = match document.findings.residual.plus_minus {
        Some(0.0) => Cell::styled(GOOD, "held constant: every run is the same"),
        Some(_) => Cell::styled(WARN, "what truecount cannot hold constant"),
        None => Cell::styled(DIM, "too few runs"),
    };
    row(
        &mut table,
        "nothing (residual)",
        &document.findings.residual,
        nothing,
    );
    row(
        &mut table,
        "everything",
        &document.findings.together,
        "".into(),
    );
    table.write(out)?;
    writeln!(out)?;
    let causes: Vec<&Spread> = document
        .findings
        .factors
        .iter()
        .filter(|spread| spread.cause == Some(true))
        .collect();
    match document.findings.dominant_factor {
        Some(main) => {
            let spread = causes.iter().find(|spread| spread.factor == Some(main));
            let line = format!(
                "dominant factor: {}, {}",
                main.title(),
                spread.map(|s| plus_minus(s)).unwrap_or_default()
            );
            writeln!(out, "{}", paint(BAD, &line))?;
            if let Some(remedy) = remedy(document) {
                writeln!(out, "to hold it constant: {remedy}")?;
            }
        }
        None if document.findings.factors.iter().any(|s| s.cause.is_none()) => {
            writeln!(out, "too few runs to say which factor makes runs differ")?;
        }
        None => writeln!(out, "no factor was seen to make runs differ")?,
    }
    writeln!(out)?;
    for spread in causes {
        let name = spread.factor.map_or("", Factor::name);
        functions(out, name, spread)?;
        paths(out, name, spread)?;
        regions(out, name, spread)?;
    }
    functions(
        out,
        "with everything held constant",
        &document.findings.residual,
    )?;
    paths(
        out,
        "with everything held constant",
        &document.findings.residual,
    )?;
    regions(
        out,
        "with everything held constant",
        &document.findings.residual,
    )?;
    if let Some(outside) = &document.findings.outside {
        writeln!(out, "with everything held constant: {}", outside.what())?;
        writeln!(out)?;
    }
    not_tested(out, document)?;
    if document.findings.interrupted.is_some() {
        let line = "interrupted: what was measured until then";
        writeln!(out, "{}", paint(WARN, line))?;
    }
    if let Some(cause) = &document.stopped {
        let line = format!("stopped: what was measured until then; {cause}");
        writeln!(out, "{}", paint(WARN, &line))?;
    }
    for note in &document.findings.notes {
        writeln!(out, "{note}")?;
    }
    out.flush()
}
