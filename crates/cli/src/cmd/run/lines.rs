//! Functions with what is inlined in them, and source lines, as text.

use std::io::{self, Write};

use truecount_model::number::grouped;
use truecount_run::calls::{CallTree, FunctionCost, SourceLine};
use truecount_run::functions::base_name;

use super::told::{Calls, event_cells, heads, share};
use crate::render::style::{HEAD, paint};
use crate::render::table::{Align, Cell, Table, fitted};

/// Functions in the text's table.
const MAX_FUNCTIONS: usize = 20;
/// Lines in the text's table.
const MAX_LINES: usize = 30;

/// The functions with the largest inclusive costs; below each what is inlined in it, but for what is less than `percent`
/// of the run, which is summed.
pub(super) fn write_functions(out: &mut dyn Write, calls: &Calls, percent: f64) -> io::Result<()> {
    let tree = &calls.tree;
    let mut table = Table::of(heads(calls, &["function", "module"]));
    let named = calls.sums.iter().filter_map(|cost| {
        let called = tree.functions.get(cost.function)?;
        (!called.module.is_empty()).then_some((cost, called))
    });
    for (cost, called) in named.take(MAX_FUNCTIONS) {
        let mut cells = vec![
            grouped(cost.inclusive).into(),
            format!("{:.2} %", 100.0 * share(cost.inclusive, tree.total)).into(),
            grouped(cost.own).into(),
        ];
        cells.extend(event_cells(calls, &cost.events));
        cells.push(grouped(cost.calls).into());
        cells.push(Cell::styled(HEAD, fitted(&called.name)));
        cells.push(base_name(&called.module).into());
        table.row(cells);
        for (own, name) in inlined(tree, cost, percent) {
            let mut cells: Vec<Cell> = vec!["".into(), "".into(), signed(own).into()];
            cells.extend(calls.columns.iter().map(|_| "".into()));
            cells.extend(["".into(), format!("  {name}").into(), "".into()]);
            table.row(cells);
        }
    }
    table.write(out)?;
    writeln!(out)
}

/// What a function's own cost is made of, where something is inlined in it.
fn inlined(tree: &CallTree, cost: &FunctionCost, percent: f64) -> Vec<(i64, String)> {
    let mut rows = Vec::new();
    let (mut others, mut sum) = (0u64, 0i64);
    for one in &cost.inlined {
        let own = u64::try_from(one.own).unwrap_or(0);
        let is_small = 100.0 * share(own, tree.total) < percent;
        match one.functions.split_last() {
            None => rows.push((one.own, "not inlined".to_owned())),
            Some(_) if is_small => {
                others += 1;
                sum = sum.wrapping_add(one.own);
            }
            Some(_) => rows.push((one.own, chain(&one.functions))),
        }
    }
    if others > 0 {
        rows.push((sum, format!("{others} other inlined")));
    }
    rows
}

/// `inner (inlined) in outer (inlined)`.
fn chain(inlined: &[String]) -> String {
    let names = inlined.iter().rev();
    let names: Vec<String> = names
        .map(|name| format!("{} (inlined)", fitted(name)))
        .collect();
    names.join(" in ")
}

fn signed(number: i64) -> String {
    let minus = if number < 0 { "-" } else { "" };
    format!("{minus}{}", grouped(number.unsigned_abs()))
}

/// The lines that executed most themselves, and how much of the run is on lines that are known.
pub(super) fn write(out: &mut dyn Write, calls: &Calls) -> io::Result<()> {
    let tree = &calls.tree;
    let mut lines: Vec<(&SourceLine, &str)> = Vec::new();
    for cost in &calls.sums {
        let name = tree
            .functions
            .get(cost.function)
            .map_or("", |called| &called.name);
        let known = cost.lines.iter().filter(|line| line.line.is_some());
        lines.extend(known.map(|line| (line, name)));
    }
    lines.sort_by_key(|(line, _)| std::cmp::Reverse(line.own));
    let names = ["self", "share"].map(str::to_owned);
    let numbers = names
        .into_iter()
        .chain(tree.events.iter().take(tree.counted()).cloned());
    let numbers = numbers.map(|name| (name, Align::Right));
    let what = ["line", "function"].map(|name| (name.to_owned(), Align::Left));
    let mut table = Table::of(numbers.chain(what).collect());
    for (line, function) in lines.iter().take(MAX_LINES) {
        let own = u64::try_from(line.own).unwrap_or(0);
        let mut cells: Vec<Cell> = vec![
            signed(line.own).into(),
            format!("{:.2} %", 100.0 * share(own, tree.total)).into(),
        ];
        cells.extend(line.events.iter().map(|&count| signed(count).into()));
        let file = base_name(line.file.as_deref().unwrap_or("?"));
        cells.push(Cell::styled(
            HEAD,
            format!("{file}:{}", line.line.unwrap_or(0)),
        ));
        cells.push(match &line.inlined[..] {
            [] => fitted(function).into(),
            inlined => format!("{} in {}", chain(inlined), fitted(function)).into(),
        });
        table.row(cells);
    }
    let known = lines
        .iter()
        .fold(0i64, |sum, (line, _)| sum.wrapping_add(line.own));
    if lines.is_empty() {
        let sentence =
            "no source lines are known: programs tell them where they are compiled with -g";
        return writeln!(out, "{sentence}\n");
    }
    table.write(out)?;
    if let Some(more) = lines.len().checked_sub(MAX_LINES).filter(|&more| more > 0) {
        writeln!(
            out,
            "… and {} more lines: --json has them all",
            grouped(more as u64)
        )?;
    }
    let known = u64::try_from(known).unwrap_or(0);
    writeln!(
        out,
        "{}\n",
        paint(
            HEAD,
            &format!(
                "source lines are known of {} instructions ({:.2} %)",
                grouped(known),
                100.0 * share(known, tree.total)
            )
        )
    )
}
