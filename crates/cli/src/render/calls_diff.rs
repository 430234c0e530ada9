//! What paths of calls gained and lost, as tables: `run --diff` and `bench --calls` print them.

use std::io::{self, Write};

use truecount_model::number::grouped;
use truecount_run::calls::Kind;
use truecount_run::calls::diff::{CallDiff, change};
use truecount_run::functions::base_name;

use super::style::{HEAD, paint};
use super::table::{Align, Cell, Table, fitted};

/// What is counted.
const INSTRUCTIONS: &str = "instructions:u";
/// Rows of each table.
const MAX_ROWS: usize = 25;
/// Functions of a path that are shown: the innermost.
const MAX_NAMES: usize = 4;

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

/// The tables; the two are called by these words.
pub(crate) fn write(
    out: &mut dyn Write,
    diff: &CallDiff,
    [first, second]: [&'static str; 2],
) -> io::Result<()> {
    let (old, new) = (diff.old_total, diff.new_total);
    let line = format!(
        "{INSTRUCTIONS}: {} {first}, {} {second}: {}",
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
        (first, Align::Right),
        (second, Align::Right),
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
