//! A page for a person: what was cleaned, the blocks with their histograms and code, loops, the comparison.

use std::fmt::Write as _;

use super::compare::{Other, label};
use super::view::{View, cleaned};
use crate::render::charts::Frame;
use crate::render::charts::histogram::{Series, chart};
use crate::render::cycles::{cycles, modes, percentiles};
use crate::render::markup::escape;
use crate::render::page;
use truecount_model::number::grouped;

pub(super) fn page(
    view: &mut View<'_>,
    top: usize,
    chosen: Option<usize>,
    other: Option<&Other<'_>>,
) -> String {
    let title = format!("Blocks of {}", label(view));
    let mut h = page::open(&title, "");
    let sub = [view.command.clone(), view.cpu.clone()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" · ");
    let _ = write!(
        h,
        "<header><h1>{}</h1><p>{}</p></header>",
        escape(&title),
        escape(&sub)
    );
    cards(&mut h, view);
    if other.is_some() {
        let at = chosen.unwrap_or(0);
        h.push_str("<h2>Before and after</h2>");
        if let Ok(svg) = super::compare::svg(view, at, other, Frame::Page) {
            let _ = write!(h, "<figure>{svg}</figure>");
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
    h.push_str(page::CLOSE);
    h
}

fn cards(h: &mut String, view: &View<'_>) {
    let a = &view.analysis;
    let c = &a.cleaning;
    let mut tiles = vec![
        (grouped(c.samples), "samples".to_owned()),
        (grouped(c.entries), "branch entries".to_owned()),
        (grouped(c.timed_blocks), "blocks timed".to_owned()),
        (grouped(a.blocks.len() as u64), "distinct blocks".to_owned()),
    ];
    if let Some(m) = &a.misprediction {
        let what = format!(
            "cycles a misprediction costs ({}–{})",
            cycles(m.quartiles.0),
            cycles(m.quartiles.1)
        );
        tiles.push((format!("≈ {}", cycles(m.cycles)), what));
    }
    let tiles = tiles.iter();
    h.push_str(&page::tiles(
        tiles.map(|(value, what)| (value.as_str(), what.as_str(), "")),
    ));
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
        "<h2>Blocks</h2><div class=\"wide\"><table><tr><th>share<th class=\"r spare\">seen<th class=r>p50<th class=\"r spare\">p90<th class=\"r spare\">p99<th class=spare>modes<th class=\"r spare\">instr.<th class=\"r spare\">IPC<th>block<th class=spare>source</tr>",
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
            "<tr><td><span class=share style=\"width:{:.1}rem\"></span> {share:.1} %<td class=\"r spare\">{}<td class=r>{p50}<td class=\"r spare\">{p90}<td class=\"r spare\">{p99}<td class=spare>{}<td class=\"r spare\">{n}<td class=\"r spare\">{ipc}<td><a href=\"#b{at}\"><code>{}</code></a><td class=spare>{}</tr>",
            share / 10.0,
            grouped(b.count()),
            modes(&all.modes()),
            escape(&name),
            escape(&source)
        );
    }
    h.push_str("</table></div>");
}

fn loops(h: &mut String, view: &mut View<'_>, top: usize) {
    if view.analysis.loops.is_empty() {
        return;
    }
    h.push_str("<h2>Loops</h2><div class=\"wide\"><table><tr><th>header<th class=r>iterations<th class=r>trip count<th class=r>cycles p50<th class=r>p90<th>modes<th>body</tr>");
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
            "<tr><td><code>{}</code><td class=r>{}<td class=r>{trips}<td class=r>{p50}<td class=r>{p90}<td>{}<td>{}</tr>",
            escape(&view.place(l.file, l.header)),
            grouped(l.iterations),
            modes(&l.cycles.modes()),
            super::text::body(&l)
        );
    }
    h.push_str("</table></div>");
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
        let window = view.prefetch(at).ok();
        let svg = chart(Frame::Page, &name, &series, window.as_ref(), 400.0);
        let _ = write!(h, "<figure>{svg}</figure>");
    }
    match view.code(at) {
        Err(why) => {
            let _ = write!(
                h,
                "<p class=dim>Instructions: not available, {}.</p>",
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
