//! The table of a report, as text and as JSON.

use std::io::{self, Write};

use serde_json::json;

use super::rows::{Rows, columns};
use super::tree::{self, Order, Tree};
use super::view::{View, short};
use crate::render;
use crate::render::style::{DIM, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::grouped;

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// How the table is shown.
pub(super) struct Form {
    pub(super) rows: Rows,
    pub(super) top: usize,
    /// Sorted by the share with callees (`Some(true)`), or without that column (`Some(false)`).
    pub(super) children: Option<bool>,
    /// As a tree, with nodes of at least so many percent.
    pub(super) tree: Option<Order>,
    pub(super) percent_limit: f64,
}

pub(super) fn print(out: &mut dyn Write, view: &mut View, form: &Form) -> io::Result<()> {
    let (rows_of, top) = (&form.rows, form.top);
    let inclusive = form.children == Some(true);
    heading(out, view)?;
    for event in view.sampled_events() {
        let all = view.total(event);
        writeln!(
            out,
            "\n{}  {} samples, {} events",
            paint(HEAD, &view.event_name(event)),
            grouped(all.samples),
            grouped(all.events)
        )?;
        if let Some(order) = form.tree {
            let tree = Tree::of(view, event, order);
            tree::print(out, &tree, form.percent_limit, top)?;
            continue;
        }
        let rows = view.sums(event, rows_of, inclusive);
        let with_callees = form.children != Some(false);
        let mut heads = vec![("self", Align::Right), ("samples", Align::Right)];
        if with_callees {
            heads.push(("with callees", Align::Right));
        }
        heads.extend(rows_of.headings().into_iter().map(|h| (h, Align::Left)));
        let mut table = Table::new(heads);
        let chains = view.has_chains() && rows_of.have_callers();
        for (key, sum) in rows.iter().take(top) {
            let mut cells = vec![
                Cell::new(format!("{:.2} %", percent(sum.own.events, all.events))),
                Cell::new(grouped(sum.own.samples)),
            ];
            if with_callees {
                cells.push(Cell::new(if chains {
                    format!("{:.2} %", percent(sum.total.events, all.events))
                } else {
                    String::new()
                }));
            }
            cells.extend(columns(key).map(|part| Cell::new(short(part))));
            table.row(cells);
        }
        table.write(out)?;
        if rows.len() > top {
            let more = format!("  and {} more (--top)", grouped((rows.len() - top) as u64));
            writeln!(out, "{}", paint(DIM, &more))?;
        }
    }
    if !view.has_chains() {
        writeln!(
            out,
            "\n{}",
            paint(
                DIM,
                "No call chains were recorded: `truecount record -g` records them."
            )
        )?;
    }
    Ok(())
}

fn heading(out: &mut dyn Write, view: &View) -> io::Result<()> {
    write!(out, "{}", paint(HEAD, &view.path.display().to_string()))?;
    if let Some(cpu) = &view.features.cpu_description {
        write!(out, "  {}", paint(DIM, cpu))?;
    }
    writeln!(out)?;
    if !view.features.command_line.is_empty() {
        writeln!(
            out,
            "{}",
            paint(DIM, &format!("  {}", view.features.command_line.join(" ")))
        )?;
    }
    let l = &view.profile.losses;
    let lost = l.lost_records.saturating_add(l.lost_samples);
    if lost > 0 {
        writeln!(
            out,
            "{}",
            paint(
                WARN,
                &format!("  {} records were lost while recording", grouped(lost))
            )
        )?;
    }
    if l.throttled > 0 {
        writeln!(
            out,
            "{}",
            paint(
                WARN,
                &format!("  sampling was throttled {} times", grouped(l.throttled))
            )
        )?;
    }
    if let Some(selected) = &view.selected {
        writeln!(out, "  {selected}")?;
    }
    if view.truncated {
        writeln!(
            out,
            "{}",
            paint(WARN, "  the recording was cut off: what is there was read")
        )?;
    }
    for early in view.profile.early_ends().iter().take(MAX_EARLY_ENDS) {
        writeln!(out, "{}", paint(WARN, &format!("  {early}")))?;
    }
    Ok(())
}

/// Reasons why call chains ended early that are shown; the rest is rare, and in the JSON document.
const MAX_EARLY_ENDS: usize = 3;

pub(super) fn json(out: &mut dyn Write, view: &mut View, form: &Form) -> io::Result<()> {
    let top = form.top;
    let mut events = Vec::new();
    for event in view.sampled_events() {
        let all = view.total(event);
        let rows = view.sums(event, &form.rows, form.children == Some(true));
        let chains = view.has_chains();
        let listed: Vec<_> = rows
            .iter()
            .take(top)
            .map(|(key, s)| {
                let keys: Vec<&str> = columns(key).collect();
                json!({
                    "key": keys.join("  "),
                    "keys": keys,
                    "self": {"samples": s.own.samples, "events": s.own.events},
                    "total": chains.then(|| json!({"samples": s.total.samples, "events": s.total.events})),
                })
            })
            .collect();
        let tree = form.tree.map(|order| Tree::of(view, event, order));
        let tree = tree.map(|tree| tree.json(form.percent_limit, top));
        events.push(json!({
            "name": view.event_name(event),
            "samples": all.samples,
            "events": all.events,
            "rows_in_all": rows.len(),
            "rows": listed,
            "tree": tree,
        }));
    }
    let l = view.profile.losses;
    let document = json!({
        "schema": "truecount.report/1",
        "recording": view.path.display().to_string(),
        "command": view.features.command_line,
        "cpu": view.features.cpu_description,
        "by": form.rows.headings().join(", "),
        "selected": view.selected,
        "losses": {"records": l.lost_records, "samples": l.lost_samples, "throttled": l.throttled},
        "cut_off": view.truncated,
        "samples_without_address": view.profile.without_ip,
        "samples_with_call_chain": view.profile.with_chain,
        "chains_ended_early": view.profile.early_ends(),
        "events": events,
    });
    render::json::write(out, &document)
}
