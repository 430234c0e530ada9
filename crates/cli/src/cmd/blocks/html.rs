//! A page for a person: what was cleaned, the blocks with their histograms and code, loops, the comparison.

use std::fmt::Write as _;

use super::chart::{Series, chart};
use super::compare::{Other, label};
use super::view::{View, cleaned, cycles, modes, percentiles};
use crate::render::markup::escape;
use truecount_model::number::grouped;

pub(super) const STYLE: &str = "\
:root{color-scheme:light;--ink:#1f2937;--faint:#6b7280;--line:#e5e7eb;--blue:#2563eb}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);max-width:1040px;margin:2rem auto;padding:0 1.2rem;background:#fff}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}p.sub{color:var(--faint);margin:.2rem 0 1rem}\
.cards{display:flex;gap:.8rem;flex-wrap:wrap}.card{border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem;min-width:9rem}\
.card b{display:block;font-size:1.35rem}.card span{color:var(--faint);font-size:.85rem}\
table{border-collapse:collapse;width:100%;font-size:.9rem}th{color:var(--faint);font-weight:500;text-align:left;border-bottom:1px solid var(--line)}\
td,th{padding:.25rem .6rem .25rem 0;vertical-align:middle}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
tr+tr td{border-top:1px solid #f3f4f6}code,pre{font:13px/1.45 ui-monospace,monospace}\
pre{background:#f9fafb;border:1px solid var(--line);border-radius:6px;padding:.7rem;overflow:auto}\
.bar{background:#dbeafe;height:.9em;border-radius:2px;display:inline-block;vertical-align:middle}\
svg{max-width:100%;height:auto;border:1px solid var(--line);border-radius:8px}a{color:var(--blue);text-decoration:none}\
.warn{background:#fffbeb;border:1px solid #fde68a;border-radius:8px;padding:.6rem 1rem}li{margin:.1rem 0}pre .c{color:var(--blue);font-weight:600}";

pub(super) fn page(
    view: &mut View<'_>,
    top: usize,
    chosen: Option<usize>,
    other: Option<&Other<'_>>,
) -> String {
    let mut h = String::new();
    let title = format!("Blocks of {}", label(view));
    let _ = write!(
        h,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style><h1>{0}</h1>",
        escape(&title)
    );
    let sub = [view.command.clone(), view.cpu.clone()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" · ");
    let _ = write!(h, "<p class=\"sub\">{}</p>", escape(&sub));
    cards(&mut h, view);
    if other.is_some() {
        let at = chosen.unwrap_or(0);
        h.push_str("<h2>Before and after</h2>");
        if let Ok(svg) = super::compare::svg(view, at, other) {
            h.push_str(&svg);
        }
    }
    if let Some(at) = chosen {
        detail(&mut h, view, at);
    }
    table(&mut h, view, top);
    loops(&mut h, view, top.min(10));
    h.push_str("<h2>What was cleaned away</h2><ul>");
    for line in cleaned(&view.analysis) {
        let _ = write!(h, "<li>{}</li>", escape(&line));
    }
    h.push_str("</ul>");
    if chosen.is_none() && view.analysis.no_cycles.is_none() {
        for at in 0..view.analysis.blocks.len().min(top.min(12)) {
            detail(&mut h, view, at);
        }
    }
    h.push_str("</html>\n");
    h
}

fn cards(h: &mut String, view: &View<'_>) {
    let a = &view.analysis;
    let c = &a.cleaning;
    h.push_str("<div class=\"cards\">");
    let mut card = |value: String, what: &str| {
        let _ = write!(
            h,
            "<div class=\"card\"><b>{}</b><span>{}</span></div>",
            escape(&value),
            escape(what)
        );
    };
    card(grouped(c.samples), "samples");
    card(grouped(c.entries), "branch entries");
    card(grouped(c.timed_blocks), "blocks timed");
    card(grouped(a.blocks.len() as u64), "distinct blocks");
    if let Some(m) = &a.misprediction {
        let what = format!(
            "cycles a misprediction costs ({}–{})",
            cycles(m.quartiles.0),
            cycles(m.quartiles.1)
        );
        card(format!("≈ {}", cycles(m.cycles)), &what);
    }
    h.push_str("</div>");
    if let Some(why) = &a.no_cycles {
        let _ = write!(
            h,
            "<p class=\"warn\">No cycles: {}. Counts and paths only.</p>",
            escape(why)
        );
    }
}

fn table(h: &mut String, view: &mut View<'_>, top: usize) {
    let timed = view.analysis.no_cycles.is_none();
    let total = if timed {
        view.analysis.total_cycles()
    } else {
        view.analysis.cleaning.blocks
    };
    h.push_str(
        "<h2>Blocks</h2><table><tr><th>share<th class=n>seen<th class=n>p50<th class=n>p90<th class=n>p99<th>modes<th class=n>instr.<th class=n>IPC<th>block<th>source</tr>",
    );
    for at in 0..view.analysis.blocks.len().min(top) {
        let Some(b) = view.block(at).cloned() else {
            break;
        };
        let all = b.all_cycles();
        let part = if timed { b.total_cycles() } else { b.count() };
        let share = 100.0 * part as f64 / total.max(1) as f64;
        let [p50, p90, p99] = percentiles(&all).map(|p| p.map_or(String::new(), |p| p.to_string()));
        let code = view.code(at).ok();
        let ipc = code
            .as_ref()
            .and_then(|c| view.ipc(at, c))
            .map_or(String::new(), |i| format!("{i:.2}"));
        let n = code.map_or(String::new(), |c| c.instructions.len().to_string());
        let (name, source) = (view.block_name(at), view.source(at).unwrap_or_default());
        let _ = write!(
            h,
            "<tr><td><span class=bar style=\"width:{:.1}rem\"></span> {share:.1} %<td class=n>{}<td class=n>{p50}<td class=n>{p90}<td class=n>{p99}<td>{}<td class=n>{n}<td class=n>{ipc}<td><a href=\"#b{at}\"><code>{}</code></a><td>{}</tr>",
            share / 10.0,
            grouped(b.count()),
            modes(&all.modes()),
            escape(&name),
            escape(&source)
        );
    }
    h.push_str("</table>");
}

fn loops(h: &mut String, view: &mut View<'_>, top: usize) {
    if view.analysis.loops.is_empty() {
        return;
    }
    h.push_str("<h2>Loops</h2><table><tr><th>header<th class=n>iterations<th class=n>trip count<th class=n>cycles p50<th class=n>p90<th>modes<th>body</tr>");
    for l in view
        .analysis
        .loops
        .iter()
        .take(top)
        .cloned()
        .collect::<Vec<_>>()
    {
        let trips = l.trip_count().map_or_else(
            || format!("≥ {}", grouped(l.header_executions)),
            |t| format!("{t:.1}"),
        );
        let [p50, p90, _] =
            percentiles(&l.cycles).map(|p| p.map_or(String::new(), |p| p.to_string()));
        let _ = write!(
            h,
            "<tr><td><code>{}</code><td class=n>{}<td class=n>{trips}<td class=n>{p50}<td class=n>{p90}<td>{}<td>{}</tr>",
            escape(&view.place(l.file, l.header)),
            grouped(l.iterations),
            modes(&l.cycles.modes()),
            super::text::body(&l)
        );
    }
    h.push_str("</table>");
}

fn detail(h: &mut String, view: &mut View<'_>, at: usize) {
    let Some(b) = view.block(at).cloned() else {
        return;
    };
    let name = view.block_name(at);
    let _ = write!(h, "<h2 id=\"b{at}\"><code>{}</code></h2>", escape(&name));
    if b.predicted.cycles.is_empty() && b.mispredicted.cycles.is_empty() {
        let _ = write!(h, "<p>{} executions, no cycles.</p>", grouped(b.count()));
    } else {
        let mut series = vec![Series::new(
            "after a predicted branch".to_owned(),
            b.predicted.cycles.clone(),
        )];
        if !b.mispredicted.cycles.is_empty() {
            series.push(Series::new(
                "after a mispredicted one".to_owned(),
                b.mispredicted.cycles.clone(),
            ));
        }
        h.push_str(&chart(&name, &series, 960, 380));
    }
    match view.code(at) {
        Err(why) => {
            let _ = write!(
                h,
                "<p class=sub>Instructions: not available, {}.</p>",
                escape(&why)
            );
        }
        Ok(code) => {
            h.push_str("<pre>");
            let median = b.all_cycles().percentile(0.5);
            let last = code.instructions.len().saturating_sub(1);
            for (i, instruction) in code.instructions.iter().enumerate() {
                let margin = match median {
                    Some(m) if i == last => format!("{m} cycles"),
                    _ => String::new(),
                };
                let _ = writeln!(
                    h,
                    "<span class=c>{margin:>12}</span> │ {:#8x}  {}",
                    instruction.address,
                    escape(&instruction.text)
                );
            }
            h.push_str("</pre>");
        }
    }
}
