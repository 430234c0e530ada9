//! Two recordings: how the share of each row changed, with 95 % intervals.
//!
//! A row's share is a proportion of independent samples; the interval of the difference of two such shares is
//! Newcombe's hybrid score interval (Statistics in Medicine 17, 1998, method 10), which keeps its level for small
//! counts. Many rows are compared at once, so a row counts as changed at a level divided by the number of rows
//! (Bonferroni).

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::json;

use super::By;
use super::view::{View, short};
use crate::render::number::grouped;
use crate::render::style::{BAD, DIM, GOOD, HEAD, paint};
use crate::render::table::{Align, Cell, Table};

/// Wilson's score interval of `k` of `n`.
fn wilson(k: f64, n: f64, z: f64) -> (f64, f64) {
    if n <= 0.0 {
        return (0.0, 1.0);
    }
    let p = k / n;
    let z2 = z * z;
    let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// Newcombe's interval of `after − before`.
fn newcombe(before: (f64, f64), after: (f64, f64), z: f64) -> (f64, f64) {
    let (p1, p2) = (before.0 / before.1.max(1.0), after.0 / after.1.max(1.0));
    let (l1, u1) = wilson(before.0, before.1, z);
    let (l2, u2) = wilson(after.0, after.1, z);
    let d = p2 - p1;
    (
        d - ((p2 - l2).powi(2) + (u1 - p1).powi(2)).sqrt(),
        d + ((u2 - p2).powi(2) + (p1 - l1).powi(2)).sqrt(),
    )
}

/// Standard normal quantile for the two-sided level `alpha` (Abramowitz and Stegun 26.2.23, error below 4.5e-4).
fn quantile(alpha: f64) -> f64 {
    let t = (-2.0 * (alpha / 2.0).clamp(1e-300, 0.5).ln()).sqrt();
    t - (2.515_517 + 0.802_853 * t + 0.010_328 * t * t)
        / (1.0 + 1.432_788 * t + 0.189_269 * t * t + 0.001_308 * t * t * t)
}

struct Row {
    key: String,
    before: f64,
    after: f64,
    interval: (f64, f64),
    changed: bool,
}

fn rows(before: &mut View, after: &mut View, by: By) -> Vec<Row> {
    let events = |v: &View| v.sampled_events().first().copied().unwrap_or(0);
    let (e1, e2) = (events(before), events(after));
    let (n1, n2) = (
        before.total(e1).samples as f64,
        after.total(e2).samples as f64,
    );
    let mut counts: HashMap<String, (f64, f64)> = HashMap::new();
    for (key, sum) in before.sums(e1, by) {
        counts.entry(key).or_default().0 = sum.own.samples as f64;
    }
    for (key, sum) in after.sums(e2, by) {
        counts.entry(key).or_default().1 = sum.own.samples as f64;
    }
    let strict = quantile(0.05 / counts.len().max(1) as f64);
    let mut out: Vec<Row> = counts
        .into_iter()
        .map(|(key, (k1, k2))| {
            let (low, high) = newcombe((k1, n1), (k2, n2), strict);
            Row {
                key,
                before: k1 / n1.max(1.0),
                after: k2 / n2.max(1.0),
                interval: newcombe((k1, n1), (k2, n2), quantile(0.05)),
                changed: low > 0.0 || high < 0.0,
            }
        })
        .collect();
    out.sort_by(|a, b| {
        let size = |r: &Row| (r.after - r.before).abs();
        size(b).total_cmp(&size(a)).then_with(|| a.key.cmp(&b.key))
    });
    out
}

pub(super) fn print(
    out: &mut dyn Write,
    before: &mut View,
    after: &mut View,
    by: By,
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
                    "key": r.key, "before": r.before, "after": r.after, "difference": r.after - r.before,
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
        serde_json::to_writer_pretty(&mut *out, &document)?;
        return writeln!(out);
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
            Cell::new(short(&r.key)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_newcombes() {
        // Newcombe 1998, table II: 56/70 against 48/80, method 10: 0.0524 to 0.3339.
        let (low, high) = newcombe((48.0, 80.0), (56.0, 70.0), 1.959_964);
        assert!(
            (low - 0.0524).abs() < 5e-4 && (high - 0.3339).abs() < 5e-4,
            "{low} {high}"
        );
        assert!((quantile(0.05) - 1.96).abs() < 1e-3);
        let (low, high) = newcombe((0.0, 0.0), (1.0, 10.0), 1.96);
        assert!(low <= 0.0 && high >= 0.0);
    }
}
