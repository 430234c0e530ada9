//! The analysis as text: what was cleaned, blocks, loops, paths.

use std::io::{self, Write};

use super::view::{View, WIDEST, cleaned};
use crate::render::cycles::{cycles, modes, percentiles};
use crate::render::style::{DIM, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::grouped;
use truecount_sample::blocks::MispredictionCost;

pub(super) fn print(out: &mut dyn Write, view: &mut View<'_>, top: usize) -> io::Result<()> {
    summary(out, view)?;
    blocks(out, view, top)?;
    loops(out, view, top.min(10))?;
    paths(out, view, top.min(5))
}

pub(super) fn summary(out: &mut dyn Write, view: &View<'_>) -> io::Result<()> {
    let a = &view.analysis;
    let c = &a.cleaning;
    writeln!(
        out,
        "{}: {} samples, {} branch entries, {} with cycles, {} mispredicted",
        paint(HEAD, &view.path.display().to_string()),
        grouped(c.samples),
        grouped(c.entries),
        grouped(c.entries_with_cycles),
        grouped(c.mispredicted)
    )?;
    if let Some(cpu) = &view.cpu {
        writeln!(out, "{}", paint(DIM, &format!("  {cpu}")))?;
    }
    if view.truncated {
        writeln!(
            out,
            "{}",
            paint(WARN, "  the recording was cut off: what is there was read")
        )?;
    }
    if a.losses.throttled > 0 {
        let line = format!(
            "  sampling was throttled {} times",
            grouped(a.losses.throttled)
        );
        writeln!(out, "{}", paint(DIM, &line))?;
    }
    let lines = cleaned(a);
    if !lines.is_empty() {
        writeln!(out, "\n{}", paint(HEAD, "CLEANED"))?;
        for line in lines {
            writeln!(out, "  {line}")?;
        }
    }
    writeln!(
        out,
        "  left: {} blocks counted, {} of them timed, {} distinct",
        grouped(c.blocks),
        grouped(c.timed_blocks),
        grouped(a.blocks.len() as u64)
    )?;
    match (&a.misprediction, &a.no_cycles) {
        (_, Some(why)) => writeln!(
            out,
            "\n{}",
            paint(WARN, &format!("No cycles: {why}. Counts and paths only."))
        )?,
        (Some(m), None) => writeln!(
            out,
            "\nA misprediction costs about {} cycles (quartiles {} and {}; {} in {}).",
            cycles(m.cycles),
            cycles(m.quartiles.0),
            cycles(m.quartiles.1),
            counted(m.arrivals, "arrival"),
            counted(m.blocks, "block")
        )?,
        (None, None) if MispredictionCost::has_data(&a.blocks) => writeln!(
            out,
            "\nCost of a misprediction: none to be seen, blocks take no longer after a mispredicted branch."
        )?,
        (None, None) => writeln!(
            out,
            "\nCost of a misprediction: not available, too few mispredicted arrivals."
        )?,
    }
    Ok(())
}

fn blocks(out: &mut dyn Write, view: &mut View<'_>, top: usize) -> io::Result<()> {
    let timed = view.analysis.no_cycles.is_none();
    let by = if timed {
        "BLOCKS by cycles"
    } else {
        "BLOCKS by executions"
    };
    writeln!(out, "\n{}", paint(HEAD, by))?;
    let mut table = Table::new([
        ("share", Align::Right),
        ("seen", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("modes", Align::Left),
        ("mispred.", Align::Right),
        ("instr.", Align::Right),
        ("IPC", Align::Right),
        ("block", Align::Left),
        ("source", Align::Left),
    ]);
    let total = if timed {
        view.analysis.total_cycles()
    } else {
        view.analysis.cleaning.blocks
    };
    let mut too_wide = false;
    for at in 0..view.analysis.blocks.len().min(top) {
        let Some(b) = view.block(at) else { break };
        let (count, wrong) = (b.count(), b.mispredicted.count());
        let part = if timed { b.total_cycles() } else { count };
        let all = b.all_cycles();
        let [p50, p90, p99] =
            percentiles(&all).map(|p| Cell::new(p.map_or(String::new(), |p| p.to_string())));
        let code = view.code(at).ok();
        let ipc = code.as_ref().and_then(|c| view.ipc(at, c));
        too_wide |= ipc.is_some_and(|i| i > WIDEST);
        table.row(vec![
            Cell::new(format!(
                "{:.1} %",
                100.0 * part as f64 / total.max(1) as f64
            )),
            Cell::new(grouped(count)),
            p50,
            p90,
            p99,
            Cell::new(modes(&all.modes())),
            Cell::new(if wrong > 0 {
                grouped(wrong)
            } else {
                String::new()
            }),
            Cell::new(code.map_or(String::new(), |c| c.instructions.len().to_string())),
            Cell::new(ipc.map_or(String::new(), |i| {
                format!("{i:.2}{}", if i > WIDEST { "*" } else { "" })
            })),
            Cell::new(view.block_name(at)),
            Cell::styled(DIM, view.source(at).unwrap_or_default()),
        ]);
    }
    table.write(out)?;
    if too_wide {
        writeln!(
            out,
            "  * more than a CPU retires: part of its time stands in a neighbour; see its loop or path"
        )?;
    }
    let more = view.analysis.blocks.len().saturating_sub(top);
    if more > 0 {
        writeln!(
            out,
            "{}",
            paint(DIM, &format!("  and {} more (--top)", grouped(more as u64)))
        )?;
    }
    Ok(())
}

fn loops(out: &mut dyn Write, view: &mut View<'_>, top: usize) -> io::Result<()> {
    if view.analysis.loops.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(HEAD, "LOOPS"))?;
    let mut table = Table::new([
        ("share", Align::Right),
        ("iterations", Align::Right),
        ("trip count", Align::Right),
        ("cycles/iteration", Align::Right),
        ("p90", Align::Right),
        ("modes", Align::Left),
        ("instr.", Align::Right),
        ("IPC", Align::Right),
        ("header", Align::Left),
        ("body", Align::Left),
    ]);
    let total = view.analysis.total_cycles().max(1);
    let loops: Vec<_> = view.analysis.loops.iter().take(top).cloned().collect();
    for l in loops {
        let trips = match l.trip_count() {
            // Entries are counted, so their number carries the error of a count.
            Some(t) => format!("{t:.1} ±{:.0} %", 100.0 / (l.entries as f64).sqrt()),
            None => format!("≥ {}", grouped(l.header_executions)),
        };
        let first = l.bodies.first();
        let main: Vec<u32> = first.map(|b| b.blocks.clone()).unwrap_or_default();
        let instructions: Option<usize> = main
            .iter()
            .map(|b| view.code(*b as usize).ok().map(|c| c.instructions.len()))
            .sum();
        let ipc = instructions
            .zip(first.and_then(|b| b.cycles.mean()))
            .map(|(n, mean)| format!("{:.2}", n as f64 / mean));
        let sum = l.cycles.sum();
        table.row(vec![
            Cell::new(if sum == 0 {
                String::new()
            } else {
                format!("{:.1} %", 100.0 * sum as f64 / total as f64)
            }),
            Cell::new(grouped(l.iterations)),
            Cell::new(trips),
            Cell::new(
                l.cycles
                    .percentile(0.5)
                    .map_or(String::new(), |c| c.to_string()),
            ),
            Cell::new(
                l.cycles
                    .percentile(0.9)
                    .map_or(String::new(), |c| c.to_string()),
            ),
            Cell::new(modes(&l.cycles.modes())),
            Cell::new(instructions.map_or(String::new(), |n| n.to_string())),
            Cell::new(ipc.unwrap_or_default()),
            Cell::new(view.place(l.file, l.header)),
            Cell::new(body(&l)),
        ]);
    }
    table.write(out)?;
    writeln!(
        out,
        "{}",
        paint(
            DIM,
            "  trip count: header executions / entries seen, with the counting error of the entries; whole iterations only"
        )
    )
}

/// How many blocks the usual way through a loop has, and how many ways there are.
pub(super) fn body(l: &truecount_sample::blocks::Loop) -> String {
    let n = l.bodies.first().map_or(0, |b| b.blocks.len());
    let ways = if l.bodies.len() > 1 {
        format!(", {} ways", l.bodies.len())
    } else {
        String::new()
    };
    format!("{}{ways}", counted(n as u64, "block"))
}

/// `1 block`, `2 blocks`.
pub(super) fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

fn paths(out: &mut dyn Write, view: &mut View<'_>, top: usize) -> io::Result<()> {
    if view.analysis.paths.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(HEAD, "HOT PATHS"))?;
    let total = view.analysis.total_cycles().max(1);
    let paths: Vec<_> = view.analysis.paths.iter().take(top).cloned().collect();
    for p in paths {
        let mut head = format!("  {} blocks, {} times", p.blocks.len(), grouped(p.count));
        if let Some(c) = p.cycles_per_pass {
            head.push_str(&format!(
                ", {} cycles a pass, {:.1} % of all cycles",
                cycles(c),
                100.0 * p.total_cycles as f64 / total as f64
            ));
        }
        if p.is_loop {
            head.push_str(", then again from its first block");
        }
        writeln!(out, "{head}")?;
        for b in p.blocks.iter().take(8) {
            let median = view
                .block(*b as usize)
                .and_then(|b| b.all_cycles().percentile(0.5));
            let median = median.map_or(String::new(), |m| format!("{m}"));
            let name = view.block_name(*b as usize);
            writeln!(out, "    {median:>6}  {name}")?;
        }
        if p.blocks.len() > 8 {
            writeln!(out, "            and {} more", p.blocks.len() - 8)?;
        }
    }
    Ok(())
}
