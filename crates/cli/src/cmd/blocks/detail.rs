//! One block in detail: histogram, modes, prefetch window, instructions with cycles in the margin.

use std::io::{self, Write};

use truecount_sample::blocks::{Histogram, PrefetchWindow};

use super::view::{View, WIDEST};
use crate::render::cycles::{bars, cycles, percentiles};
use crate::render::style::{DIM, HEAD, paint};
use truecount_model::number::grouped;
use truecount_record::names::base_name;

pub(super) fn print(out: &mut dyn Write, view: &mut View<'_>, at: usize) -> io::Result<()> {
    let Some(block) = view.block(at).cloned() else {
        return Ok(());
    };
    let name = view.block_name(at);
    writeln!(
        out,
        "{}  {}",
        paint(HEAD, &name),
        paint(DIM, &view.source(at).unwrap_or_default())
    )?;
    let all = block.all_cycles();
    let total = view.analysis.total_cycles();
    write!(out, "  {} executions seen", grouped(block.count()))?;
    if total > 0 {
        write!(
            out,
            ", {:.1} % of all cycles",
            100.0 * block.total_cycles() as f64 / total as f64
        )?;
    }
    writeln!(out)?;
    if let Some(why) = &view.analysis.no_cycles {
        writeln!(out, "  No cycles: {why}.")?;
    }
    for (what, side) in [
        ("after a predicted branch", &block.predicted),
        ("after a mispredicted branch", &block.mispredicted),
    ] {
        if side.count() == 0 {
            continue;
        }
        write!(out, "  {what}: {} times", grouped(side.count()))?;
        if let [Some(p50), Some(p90), Some(p99)] = percentiles(&side.cycles) {
            write!(out, ", cycles p50 {p50}, p90 {p90}, p99 {p99}")?;
        }
        if side.unknown + side.saturated > 0 {
            write!(
                out,
                " ({} without cycles, {} saturated)",
                grouped(side.unknown),
                grouped(side.saturated)
            )?;
        }
        writeln!(out)?;
    }
    if !all.is_empty() {
        writeln!(out)?;
        bars(out, &all)?;
        window(out, view, at)?;
    }
    writeln!(out)?;
    code(out, view, at, &all)
}

fn window(out: &mut dyn Write, view: &mut View<'_>, at: usize) -> io::Result<()> {
    let own = match view.prefetch(at) {
        Ok(own) => own,
        Err(why) => return writeln!(out, "\n  {why}: nothing here for a prefetch to win."),
    };
    // A loop's iteration is what a prefetch must run ahead of; a block alone otherwise.
    let around = view.loop_of(at).filter(|l| l.cycles.total() >= 20);
    writeln!(
        out,
        "\n  Prefetch window: {} cycles without the miss, {} with it: {} cycles to win.",
        cycles(own.base),
        cycles(own.miss),
        cycles(own.window)
    )?;
    match around.and_then(|l| PrefetchWindow::of(&l.cycles, true).map(|w| (l, w))) {
        Some((l, w)) if w.distance.is_some() => {
            // The block's own wait, in iterations of its loop when nothing misses.
            let distance = (own.window / w.base.max(1.0)).ceil();
            writeln!(
                out,
                "  It is in a loop of {} cycles an iteration: prefetch {distance:.0} iterations ahead (ceil({} / {})).",
                cycles(w.base),
                cycles(own.window),
                cycles(w.base)
            )?;
            if let Some(t) = l.trip_count().filter(|t| *t < distance) {
                writeln!(
                    out,
                    "  But the loop runs only {t:.1} iterations: prefetch before it is entered."
                )?;
            }
            Ok(())
        }
        _ => writeln!(
            out,
            "  Insert the prefetch at least {} cycles before the load.",
            cycles(own.window)
        ),
    }
}

fn code(out: &mut dyn Write, view: &mut View<'_>, at: usize, all: &Histogram) -> io::Result<()> {
    match view.code(at) {
        Err(why) => writeln!(out, "  Instructions: not available, {why}."),
        Ok(code) => {
            write!(
                out,
                "  {} instructions, {} loads, {} stores",
                code.instructions.len(),
                code.loads,
                code.stores
            )?;
            if let Some(ipc) = view.ipc(at, &code) {
                write!(out, ", IPC {ipc:.2}")?;
                if ipc > WIDEST {
                    write!(
                        out,
                        " (more than a CPU retires: part of its time stands in a neighbour)"
                    )?;
                }
            }
            writeln!(out)?;
            let file = view.block(at).and_then(|b| b.file);
            let last = code.instructions.len().saturating_sub(1);
            let mut line = None;
            for (i, instruction) in code.instructions.iter().enumerate() {
                let found = view.locate(file, instruction.address);
                let source = found.frames.first().and_then(|f| {
                    let name = f.file.as_deref()?;
                    Some(format!("{}:{} {}", base_name(name), f.line?, f.function))
                });
                if source.is_some() && source != line {
                    writeln!(
                        out,
                        "            {}",
                        paint(DIM, source.as_deref().unwrap_or_default())
                    )?;
                    line = source;
                }
                // All of the block's time is told where it ends.
                let margin = match all.percentile(0.5) {
                    Some(median) if i == last => format!("{median} cycles"),
                    _ => String::new(),
                };
                writeln!(
                    out,
                    "  {margin:>12} │ {:#8x}  {}",
                    instruction.address, instruction.text
                )?;
            }
            Ok(())
        }
    }
}
