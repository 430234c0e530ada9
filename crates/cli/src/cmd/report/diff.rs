//! Two recordings: how the share of each row changed, with 95 % intervals.
//!
//! A row's share is a proportion of independent samples; the interval of the difference of two such shares is that
//! of [`Share`], which keeps its level for small counts. Many rows are compared at once, so a row counts as changed at
//! a level divided by the number of rows (Bonferroni).

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::json;
use truecount_stats::Share;

use super::rows::{Rows, columns};
use super::view::{View, short};
use crate::render;
use crate::render::style::{BAD, DIM, GOOD, HEAD, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::grouped;

/// A row's interval leaves out the true change this often.
const LEVEL: f64 = 0.05;

struct Row {
    key: String,
    before: f64,
    after: f64,
    interval: (f64, f64),
    changed: bool,
}

fn rows(before: &mut View, after: &mut View, by: &Rows) -> Vec<Row> {
    let events = |v: &View| v.sampled_events().first().copied().unwrap_or(0);
    let (e1, e2) = (events(before), events(after));
    let (n1, n2) = (before.total(e1).samples, after.total(e2).samples);
    let mut counts: HashMap<String, (u64, u64)> = HashMap::new();
    for (key, sum) in before.sums(e1, by, false) {
        counts.entry(key).or_default().0 = sum.own.samples;
    }
    for (key, sum) in after.sums(e2, by, false) {
        counts.entry(key).or_default().1 = sum.own.samples;
    }
    let strict = LEVEL / counts.len().max(1) as f64;
    let mut out: Vec<Row> = counts
        .into_iter()
        .filter_map(|(key, (k1, k2))| {
            // A sample is in a row at most once.
            let share = |k: u64, n: u64| Share::new(k, n.max(k));
            let (before, after) = (share(k1, n1)?, share(k2, n2)?);
            let rise = |alpha| after.rise_since(before, alpha).unwrap_or((-1.0, 1.0));
            let (low, high) = rise(strict);
            Some(Row {
                key,
                before: before.value(),
                after: after.value(),
                interval: rise(LEVEL),
                changed: low > 0.0 || high < 0.0,
            })
        })
        .collect();
    out.sort_by(|a, b| {
        let size = |r: &Row| (r.after - r.before).abs();
        size(b).total_cmp(&size(a)).then_with(|| a.key.cmp(&b.key))
    });
    out
}

/// A row's key in one column.
fn shown(key: &str) -> String {
    columns(key).collect::<Vec<_>>().join("  ")
}

pub(super) fn print(
    out: &mut dyn Write,
    before: &mut View,
    after: &mut View,
    by: &Rows,
    top: usize,
    as_json: bool,
) -> io::Result<()> {
    let rows = rows(before, after, by);
    let event = |v: &View| v.event_name(v.sampled_events().first().copied().unwrap_or(0));
    let (first, second) = (event(before), event(after));
    let total = |v: &View| v.total(v.sampled_events().first().copied().unwrap_or(0));
    let (t1, t2) = (total(before), total(after));
    if as_json {
        let listed: Vec<_> = rows
            .iter()
            .take(top)
            .map(|r| {
                json!({
                    "key": shown(&r.key), "before": r.before, "after": r.after, "difference": r.after - r.before,
                    "interval95": [r.interval.0, r.interval.1], "changed": r.changed,
                })
            })
            .collect();
        let document = json!({
            "schema": "truecount.report-diff/1",
            "before": {"recording": before.path.display().to_string(), "event": first, "samples": t1.samples, "events": t1.events},
            "after": {"recording": after.path.display().to_string(), "event": second, "samples": t2.samples, "events": t2.events},
            "rows": listed,
        });
        return render::json::write(out, &document);
    }
    for (what, view, event, t) in [
        ("before", &*before, &first, t1),
        ("after", &*after, &second, t2),
    ] {
        writeln!(
            out,
            "{what:>7}: {}  {} samples, {} {event}",
            paint(HEAD, &view.path.display().to_string()),
            grouped(t.samples),
            grouped(t.events)
        )?;
    }
    if first != second {
        writeln!(
            out,
            "{}",
            paint(
                BAD,
                "  the two recorded different events: shares of different things"
            )
        )?;
    }
    writeln!(out)?;
    let mut table = Table::new([
        ("before", Align::Right),
        ("after", Align::Right),
        ("change", Align::Right),
        ("95 % interval", Align::Left),
        ("", Align::Left),
        ("of all samples", Align::Left),
    ]);
    for r in rows.iter().take(top) {
        let d = 100.0 * (r.after - r.before);
        let (style, mark) = match (r.changed, d > 0.0) {
            (true, true) => (BAD, "more"),
            (true, false) => (GOOD, "less"),
            (false, _) => (DIM, "undecided"),
        };
        table.row(vec![
            Cell::new(format!("{:.2} %", 100.0 * r.before)),
            Cell::new(format!("{:.2} %", 100.0 * r.after)),
            Cell::styled(style, format!("{d:+.2}")),
            Cell::new(format!(
                "[{:+.2}, {:+.2}]",
                100.0 * r.interval.0,
                100.0 * r.interval.1
            )),
            Cell::styled(style, mark),
            Cell::new(short(&shown(&r.key))),
        ]);
    }
    table.write(out)?;
    writeln!(
        out,
        "{}",
        paint(
            DIM,
            "  shares of samples in percentage points; Newcombe intervals; more/less: beyond chance also when all rows are compared at once"
        )
    )
}
