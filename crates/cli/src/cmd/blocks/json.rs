//! The analysis for machines: JSON (schema `truecount.blocks/1`) and CSV.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use truecount_model::SourceKind;
use truecount_sample::blocks::Arrivals;

use super::compare::Other;
use super::view::View;
use crate::render::cycles::{histogram, percentiles};
use crate::render::{self, csv};

fn arrivals(a: &Arrivals) -> Value {
    json!({
        "executions": a.count(),
        "without_cycles": a.unknown,
        "saturated": a.saturated,
        "cycles": histogram(&a.cycles),
    })
}

fn block(view: &mut View<'_>, at: usize) -> Value {
    let (name, source) = (view.block_name(at), view.source(at));
    let code = view.code(at);
    let ipc = code.as_ref().ok().and_then(|c| view.ipc(at, c));
    let window = view.prefetch(at).ok();
    let window = window.map(|w| json!({"base": w.base, "miss": w.miss, "window": w.window}));
    let Some(b) = view.block(at) else {
        return Value::Null;
    };
    let file = b.file.and_then(|i| view.analysis.files.get(i as usize));
    json!({
        "name": name,
        "source": source,
        "file": file.map(|f| &f.path),
        "build_id": file.and_then(truecount_sample::spaces::MappedFile::build_id_hex),
        "start": b.start,
        "end": b.end,
        "unit": if b.file.is_some() { "file offset" } else { "address" },
        "address": [b.address.0, b.address.1],
        "executions": b.count(),
        "total_cycles": b.total_cycles(),
        "predicted": arrivals(&b.predicted),
        "mispredicted": arrivals(&b.mispredicted),
        "ipc": ipc,
        "prefetch_window": window,
        "code": match &code {
            Ok(c) => json!({
                "instructions": c.instructions.len(), "loads": c.loads, "stores": c.stores,
                "divisions": c.divisions, "inner_branches": c.inner_branches, "ends_with": c.ends_with,
                "text": c.instructions.iter().map(|i| json!([i.address, i.text])).collect::<Vec<_>>(),
            }),
            Err(why) => json!({"not_available": why}),
        },
    })
}

fn document(view: &mut View<'_>, top: usize, chosen: Option<usize>) -> Value {
    let range: Vec<usize> = match chosen {
        Some(at) => vec![at],
        None => (0..view.analysis.blocks.len().min(top)).collect(),
    };
    let blocks: Vec<Value> = range.into_iter().map(|at| block(view, at)).collect();
    let loops: Vec<Value> = view.analysis.loops.iter().take(top).cloned().collect::<Vec<_>>().iter().map(|l| {
        json!({
            "header": view.place(l.file, l.header),
            "header_offset": l.header,
            "back_edge": l.back_edge,
            "iterations": l.iterations,
            "header_executions": l.header_executions,
            "entries": l.entries,
            "trip_count": l.trip_count(),
            "cycles": histogram(&l.cycles),
            "bodies": l.bodies.iter().map(|b| {
                let names: Vec<String> = b.blocks.iter().map(|i| view.block_name(*i as usize)).collect();
                json!({"blocks": names, "iterations": b.count, "cycles": histogram(&b.cycles)})
            }).collect::<Vec<_>>(),
        })
    }).collect();
    let paths: Vec<Value> = view
        .analysis
        .paths
        .iter()
        .take(top)
        .cloned()
        .collect::<Vec<_>>()
        .iter()
        .map(|p| {
            let names: Vec<String> = p
                .blocks
                .iter()
                .map(|i| view.block_name(*i as usize))
                .collect();
            json!({
                "blocks": names, "count": p.count, "is_loop": p.is_loop,
                "cycles_per_pass": p.cycles_per_pass, "total_cycles": p.total_cycles,
            })
        })
        .collect();
    let a = &view.analysis;
    let cleaning: Map<String, Value> = a
        .cleaning
        .fields()
        .iter()
        .map(|(k, v)| ((*k).to_owned(), json!(v)))
        .collect();
    json!({
        "recording": view.path.display().to_string(),
        "cpu": view.cpu,
        "command": view.command,
        "cut_off": view.truncated,
        "source": SourceKind::Hardware,
        "unit": "core clock cycles, retirement to retirement",
        "cleaning": cleaning,
        "losses": {
            "records": a.losses.lost_records, "samples": a.losses.lost_samples, "throttled": a.losses.throttled
        },
        "no_cycles": a.no_cycles,
        "distinct_blocks": a.blocks.len(),
        "total_cycles": a.total_cycles(),
        "misprediction_cost": a.misprediction.map(|m| json!({
            "cycles": m.cycles, "quartiles": [m.quartiles.0, m.quartiles.1],
            "arrivals": m.arrivals, "blocks": m.blocks,
        })),
        "blocks": blocks,
        "loops": loops,
        "paths": paths,
    })
}

pub(super) fn json(
    out: &mut dyn Write,
    view: &mut View<'_>,
    top: usize,
    chosen: Option<usize>,
    other: &mut Option<Other<'_>>,
) -> io::Result<()> {
    let mut doc = json!({"schema": "truecount.blocks/1"});
    if let (Some(doc), Value::Object(own)) = (doc.as_object_mut(), document(view, top, chosen)) {
        doc.extend(own);
        if let Some((other, at)) = other {
            doc.insert(
                "compared_with".to_owned(),
                document(other, top, chosen.map(|_| *at)),
            );
        }
    }
    render::json::write(out, &doc)
}

pub(super) fn csv(out: &mut dyn Write, view: &mut View<'_>) -> io::Result<()> {
    csv::row(
        out,
        [
            "block",
            "source",
            "file",
            "start",
            "end",
            "executions",
            "mispredicted_before",
            "timed",
            "total_cycles",
            "mean",
            "p50",
            "p90",
            "p99",
            "modes",
            "instructions",
        ],
    )?;
    for at in 0..view.analysis.blocks.len() {
        let (name, source) = (view.block_name(at), view.source(at).unwrap_or_default());
        let instructions = view
            .code(at)
            .map_or(String::new(), |c| c.instructions.len().to_string());
        let Some(b) = view.block(at) else { break };
        let file = b.file.and_then(|i| view.analysis.files.get(i as usize));
        let all = b.all_cycles();
        let [p50, p90, p99] = percentiles(&all).map(|p| p.map_or(String::new(), |p| p.to_string()));
        let modes: Vec<String> = all
            .modes()
            .iter()
            .map(|m| format!("{}:{:.4}", m.cycles, m.weight))
            .collect();
        csv::row(
            out,
            [
                name,
                source,
                file.map_or(String::new(), |f| f.path.clone()),
                format!("{:#x}", b.start),
                format!("{:#x}", b.end),
                b.count().to_string(),
                b.mispredicted.count().to_string(),
                all.total().to_string(),
                b.total_cycles().to_string(),
                all.mean().map_or(String::new(), |m| format!("{m:.3}")),
                p50,
                p90,
                p99,
                modes.join(" "),
                instructions,
            ],
        )?;
    }
    Ok(())
}
