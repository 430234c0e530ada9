//! `--once`: samples for a time and prints the table, as text or JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::draw::{amount, ratio};
use super::model::Model;
use crate::render;
use crate::render::style::{DIM, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::{grouped, size};
use truecount_record::live::Weight;
use truecount_record::names::short;

/// What only the end knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    /// CPU seconds of top itself.
    pub(super) own_seconds: f64,
    pub(super) top: usize,
}

fn at(weights: &[Weight], event: usize) -> Weight {
    weights.get(event).copied().unwrap_or_default()
}

fn share(weight: Weight, all: Weight) -> Option<f64> {
    (all.events > 0).then(|| weight.events as f64 / all.events as f64)
}

pub(super) fn text(out: &mut dyn Write, model: &Model, end: Outcome) -> io::Result<()> {
    let about = &model.about;
    let seconds = model.time.as_secs_f64();
    writeln!(
        out,
        "{}  {}  by {}  {seconds:.1} s{}",
        paint(HEAD, "truecount top"),
        about.scope,
        model.by.name(),
        if model.ended {
            ", until the process ended"
        } else {
            ""
        }
    )?;
    for (i, event) in about.events.iter().enumerate() {
        let all = at(&model.all, i);
        writeln!(
            out,
            "  {}  {}  {} samples  ≈ {}",
            paint(HEAD, &event.name),
            event.rate,
            grouped(all.samples),
            amount(event, all)
        )?;
    }
    let (lost, throttled, broken) = model.losses;
    let own = format!(
        "top itself: {:.1} % of a CPU, {}",
        100.0 * model.own.cpu,
        size(model.own.memory as f64)
    );
    let mut said = format!(
        "  {} lost · throttled {} times · ",
        grouped(lost),
        grouped(throttled)
    );
    if broken > 0 {
        said.push_str(&format!("{} records not understood · ", grouped(broken)));
    }
    let style = if lost + throttled + broken > 0 {
        WARN
    } else {
        DIM
    };
    writeln!(out, "{}{}", paint(style, &said), paint(DIM, &own))?;
    for note in &about.notes {
        writeln!(out, "  {}", paint(WARN, note))?;
    }
    writeln!(out)?;
    if model.rows.is_empty() {
        return writeln!(
            out,
            "  no sample in this time: nothing ran, or the event did not occur"
        );
    }
    table(out, model, end.top)?;
    if model.rows.len() > end.top {
        let more = format!(
            "  and {} more (--top)",
            grouped((model.rows.len() - end.top) as u64)
        );
        writeln!(out, "{}", paint(DIM, &more))?;
    }
    Ok(())
}

fn table(out: &mut dyn Write, model: &Model, top: usize) -> io::Result<()> {
    let name = |e: usize| model.about.events.get(e).map_or("", |e| e.name.as_str());
    let second = model.second();
    let mut table = Table::of(vec![
        (name(model.sort).to_owned(), Align::Right),
        ("≈ events".to_owned(), Align::Right),
        ("samples".to_owned(), Align::Right),
        (second.map_or("", name).to_owned(), Align::Right),
        ("ratio".to_owned(), Align::Right),
        (super::heading(model.by).to_owned(), Align::Left),
        (String::new(), Align::Left),
    ]);
    let percent = |weight: Weight, event: usize| {
        share(weight, at(&model.all, event))
            .map_or_else(|| "–".to_owned(), |s| format!("{:.2} %", 100.0 * s))
    };
    for row in model.rows.iter().take(top) {
        let weight = at(&row.weights, model.sort);
        let shown = model.about.events.get(model.sort);
        let other = second.map(|e| (at(&row.weights, e), e));
        table.row(vec![
            Cell::new(percent(weight, model.sort)),
            Cell::new(shown.map_or_else(String::new, |e| amount(e, weight))),
            Cell::new(grouped(weight.samples)),
            Cell::new(other.map_or_else(String::new, |(w, e)| percent(w, e))),
            Cell::new(other.map_or_else(String::new, |(w, _)| {
                ratio(weight, w).map_or_else(|| "–".to_owned(), |r| format!("{r:.3}"))
            })),
            Cell::new(short(&row.key.name)),
            Cell::styled(DIM, row.key.of.trim_matches(['[', ']'])),
        ]);
    }
    table.write(out)
}

pub(super) fn json(out: &mut dyn Write, model: &Model, end: Outcome) -> io::Result<()> {
    let events = &model.about.events;
    let values = |weights: &[Weight]| -> Vec<Value> {
        (0..events.len())
            .map(|e| {
                let weight = at(weights, e);
                json!({
                    "samples": weight.samples,
                    "events": weight.events,
                    "share": share(weight, at(&model.all, e)),
                })
            })
            .collect()
    };
    let rows = model.rows.iter().take(end.top).map(|row| {
        let pair = model
            .second()
            .and_then(|second| ratio(at(&row.weights, model.sort), at(&row.weights, second)));
        json!({
            "name": &*row.key.name,
            "of": &*row.key.of,
            "values": values(&row.weights),
            "ratio": pair,
        })
    });
    let (lost, throttled, broken) = model.losses;
    let document = json!({
        "schema": "truecount.top/1",
        "scope": model.about.scope,
        "by": model.by.name(),
        "seconds": model.time.as_secs_f64(),
        "process_ended": model.ended,
        "notes": model.about.notes,
        "events": events.iter().enumerate().map(|(i, e)| json!({
            "name": e.name,
            "rate": e.rate,
            "unit": if e.is_time { "ns" } else { "count" },
            "estimate": true,
            "samples": at(&model.all, i).samples,
            "events": at(&model.all, i).events,
        })).collect::<Vec<_>>(),
        "rows_in_all": model.rows.len(),
        "rows": rows.collect::<Vec<_>>(),
        "others": {"rows": model.folded, "values": values(&model.others)},
        "losses": {"records": lost, "throttled": throttled, "not_understood": broken},
        "own": {"cpu_seconds": end.own_seconds, "cpu_share": model.own.cpu, "resident_bytes": model.own.memory},
    });
    render::json::write(out, &document)
}
