//! What paths of calls gained and lost since a saved result.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use truecount_model::number::grouped;
use truecount_profile::export::{FlameGraph, Level};
use truecount_run::calls::diff::{CallDiff, change};
use truecount_run::calls::{CallTree, Kind};
use truecount_run::functions::base_name;
use truecount_run::input;

use super::INSTRUCTIONS;
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Picture};
use crate::render::json;
use crate::render::style::{HEAD, paint};
use crate::render::table::{Align, Cell, Table, fitted};

/// Rows of each table in the text.
const MAX_ROWS: usize = 25;
/// Functions of a path that are shown: the innermost.
const MAX_NAMES: usize = 4;
/// Levels of a path in the flame graph.
const MAX_DEPTH: usize = 1024;

/// The tree in a saved result.
pub(super) fn saved(option: &str, path: &Path) -> Result<CallTree, Failure> {
    let bad = |why: String| {
        Failure::new(2, format!("{option} {}: {why}", path.display()))
            .hint("save one by: truecount run --calls --json=FILE -- COMMAND")
    };
    let text = input::json(path).map_err(|error| bad(error.to_string()))?;
    let document = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    CallTree::from_document(&document).map_err(bad)
}

/// Two saved results, compared.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    old: String,
    new: String,
    calls_diff: &'a CallDiff,
}

/// Compares two saved results.
pub(super) fn of_saved(
    (old, new): (&Path, &Path),
    json_to: Option<&Path>,
    output: Option<&PathBuf>,
    picture: Option<&PathBuf>,
) -> CmdResult {
    let diff = CallDiff::of(&saved("--diff", old)?, &saved("--saved", new)?);
    let mut out = Output::result(json_to, output.map(PathBuf::as_path), false)?;
    let picture = Picture::create(picture.map(PathBuf::as_path))?;
    let shown = match json_to {
        Some(_) => json::write(
            &mut out,
            &Document {
                schema: "truecount.run-diff/1",
                old: old.display().to_string(),
                new: new.display().to_string(),
                calls_diff: &diff,
            },
        ),
        None => write(&mut out, &diff).and_then(|()| out.flush()),
    };
    let drawn = picture.map_or(Ok(()), |picture| picture.write(&flame(&diff)));
    Failure::of_all([shown.map_err(Failure::from), drawn])?;
    Ok(Outcome::OK)
}

fn signed(old: u64, new: u64) -> String {
    match change(old, new) {
        0 => "0".to_owned(),
        less if less < 0 => format!("-{}", grouped(less.unsigned_abs())),
        more => format!("+{}", grouped(more.unsigned_abs())),
    }
}

fn calls(old: u64, new: u64) -> String {
    match old == new {
        true => grouped(new),
        false => format!("{} → {}", grouped(old), grouped(new)),
    }
}

/// The tables.
pub(super) fn write(out: &mut dyn Write, diff: &CallDiff) -> io::Result<()> {
    let (old, new) = (diff.old_total, diff.new_total);
    let line = format!(
        "{INSTRUCTIONS}: {} before, {} now: {}",
        grouped(old),
        grouped(new),
        signed(old, new)
    );
    writeln!(out, "{}", paint(HEAD, &line))?;
    let changed = diff.changed();
    if changed.is_empty() {
        return writeln!(out, "no path changed: the same calls, at the same cost");
    }
    let mut table = Table::new([
        ("self", Align::Right),
        ("before", Align::Right),
        ("now", Align::Right),
        ("calls", Align::Right),
        ("path", Align::Left),
    ]);
    for node in changed.iter().take(MAX_ROWS) {
        let path = diff.path(node);
        let cut = path.len().saturating_sub(MAX_NAMES);
        let mut names: Vec<String> = path.iter().skip(cut).map(|name| fitted(name)).collect();
        names.reverse();
        let more = if cut > 0 { " ← …" } else { "" };
        table.row(vec![
            signed(node.old.own, node.new.own).into(),
            grouped(node.old.own).into(),
            grouped(node.new.own).into(),
            match node.kind {
                Kind::Thread | Kind::Other => "".into(),
                _ => calls(node.old.calls, node.new.calls).into(),
            },
            Cell::styled(HEAD, format!("{}{more}", names.join(" ← "))),
        ]);
    }
    table.write(out)?;
    if let Some(more) = changed.len().checked_sub(MAX_ROWS).filter(|&more| more > 0) {
        writeln!(
            out,
            "… and {} more paths: --json has all",
            grouped(more as u64)
        )?;
    }
    writeln!(out)?;
    let mut table = Table::new([
        ("self", Align::Right),
        ("inclusive", Align::Right),
        ("calls", Align::Right),
        ("function", Align::Left),
        ("module", Align::Left),
    ]);
    let rows = diff.sums.iter().filter(|sum| sum.old != sum.new);
    for sum in rows.take(MAX_ROWS) {
        let Some(called) = diff.functions.get(sum.function) else {
            continue;
        };
        table.row(vec![
            signed(sum.old.own, sum.new.own).into(),
            signed(sum.old.inclusive, sum.new.inclusive).into(),
            calls(sum.old.calls, sum.new.calls).into(),
            Cell::styled(HEAD, fitted(&called.name)),
            base_name(&called.module).into(),
        ]);
    }
    table.write(out)?;
    writeln!(out)
}

/// Red grew, blue shrank: whole stacks.
pub(super) fn flame(diff: &CallDiff) -> String {
    let mut flame = FlameGraph::new("all", INSTRUCTIONS, None);
    for node in &diff.nodes {
        if (node.old.own, node.new.own) == (0, 0) {
            continue;
        }
        let path = diff.path(node);
        let chain = path.into_iter().take(MAX_DEPTH).map(Level::new);
        flame.add_compared(chain, node.old.own, node.new.own);
    }
    flame.svg(&format!(
        "{} {INSTRUCTIONS} before, {} now: red grew, blue shrank",
        grouped(diff.old_total),
        grouped(diff.new_total)
    ))
}
