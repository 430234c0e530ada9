//! The tables that `overhead` prints for people.

use std::io::{self, Write};

use truecount_lab::model::{Handler, Inputs, Stack};
use truecount_lab::overhead::{Advice, Model};
use truecount_lab::reads::Read;
use truecount_lab::sampling::{Cost, Estimate, NotHere, Outcome, Spread};

use super::document::Document;
use super::options;
use crate::render::style::{DIM, HEAD, WARN, paint};
use crate::render::table::{Align, Table};
use truecount_model::number::{grouped, significant, time};

/// Prints everything.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let found = &document.outcome;
    if document.interrupted.is_some() {
        let how = if found.partial {
            "interrupted before every cell was visited: a partial result"
        } else {
            "interrupted: what was measured until then"
        };
        writeln!(out, "{}", paint(WARN, how))?;
    }
    for note in &document.notes {
        writeln!(out, "{}", paint(WARN, note))?;
    }
    let workload = document.command.as_deref().map_or_else(
        || format!("the built-in workload, {} frames deep", document.depth),
        str::to_owned,
    );
    if !found.cells.is_empty() {
        writeln!(
            out,
            "\n{} on {workload}",
            paint(HEAD, "What a sample costs")
        )?;
        cells(out, &found.cells, document.command.is_some())?;
        options::write(out, &found.cells)?;
        let mut facts = vec![format!("{} rounds in {:.1} s", found.rounds, found.seconds)];
        facts.extend(found.cpu.map(|cpu| format!("CPU {cpu}")));
        if found.step_ns > 0 {
            facts.push(format!(
                "the clock is looked at every {} ns, gaps above {} ns are seen",
                found.step_ns, found.threshold_ns
            ));
        }
        facts.extend(found.background_share.map(|share| {
            format!(
                "without sampling {:.2} % of the time is stolen",
                share * 100.0
            )
        }));
        if !found.sees_kernel {
            facts.push("user mode only".to_owned());
        }
        facts.push(format!("seed {}", document.seed));
        writeln!(out, "  {}", paint(DIM, &facts.join("; ")))?;
    }
    for handler in &found.handlers {
        let text = match (&handler.tracepoints, &handler.reason) {
            (Some(name), _) => format!("handler times of {}: {name}", handler.event.name()),
            (None, Some(why)) => format!("no handler times of {}: {why}", handler.event.name()),
            (None, None) => continue,
        };
        writeln!(out, "  {}", paint(DIM, &text))?;
    }
    registers(out, found)?;
    not_here(out, &found.not_here)?;
    reads(out, &document.reads)?;
    if let Some(advice) = &document.advice {
        advise(out, advice)?;
    }
    if let Some(model) = &document.model {
        show_model(out, model)?;
    }
    out.flush()
}

fn interval(estimate: Option<Estimate>, show: impl Fn(f64) -> String) -> String {
    match estimate {
        None => String::new(),
        Some(e) => match e.interval {
            Some((low, high)) => format!("{} [{}, {}]", show(e.value), show(low), show(high)),
            None => show(e.value),
        },
    }
}

fn cells(out: &mut dyn Write, cells: &[Cost], command: bool) -> io::Result<()> {
    let mut table = Table::new([
        ("event", Align::Left),
        ("by", Align::Left),
        ("carries", Align::Left),
        ("rate", Align::Right),
        ("seen/s", Align::Right),
        ("samples", Align::Right),
        (
            if command {
                "CPU time a sample"
            } else {
                "stolen: typical [95 %]"
            },
            Align::Right,
        ),
        ("mean", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("handler: mean", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("share", Align::Right),
        ("slowdown [95 %]", Align::Right),
        ("throttled", Align::Right),
        ("lost", Align::Right),
        ("left out", Align::Right),
        ("depth", Align::Right),
    ]);
    for c in cells {
        let of = |spread: Option<Spread>, which: fn(&Spread) -> f64| {
            spread.as_ref().map(|s| time(which(s))).unwrap_or_default()
        };
        let some = |count: u64| {
            if count == 0 {
                String::new()
            } else {
                grouped(count)
            }
        };
        table.row(vec![
            c.cell.event.name().into(),
            c.cell.method.name().into(),
            c.cell.payload.name().into(),
            grouped(c.cell.rate).into(),
            grouped(c.rate_seen.round() as u64).into(),
            grouped(c.samples).into(),
            interval(c.stolen_typical, time).into(),
            of(c.stolen, |s| s.mean).into(),
            of(c.stolen, |s| s.p50 as f64).into(),
            of(c.stolen, |s| s.p99 as f64).into(),
            of(c.stolen, |s| s.max as f64).into(),
            of(c.handler, |s| s.mean).into(),
            of(c.handler, |s| s.p50 as f64).into(),
            of(c.handler, |s| s.p99 as f64).into(),
            of(c.handler, |s| s.max as f64).into(),
            c.share
                .map(|share| format!("{:.2} %", share * 100.0))
                .unwrap_or_default()
                .into(),
            interval(c.slowdown, |ratio| {
                format!("{:+.2} %", (ratio - 1.0) * 100.0)
            })
            .into(),
            some(c.throttled).into(),
            some(c.lost).into(),
            some(c.left_out).into(),
            c.frames
                .or(c.branches)
                .map(|depth| format!("{depth:.1}"))
                .unwrap_or_default()
                .into(),
        ]);
    }
    table.write(out)
}

/// Register accesses of an interrupt, as counted.
fn registers(out: &mut dyn Write, found: &Outcome) -> io::Result<()> {
    for used in &found.registers {
        let each = used.per_sample;
        let line = format!(
            "registers an interrupt with {}: {} WRMSR, {} RDMSR, {} RDPMC ({} samples; tracepoints of the group msr)",
            used.cell.payload.name(),
            significant(each.wrmsr),
            significant(each.rdmsr),
            significant(each.rdpmc),
            grouped(used.samples)
        );
        writeln!(out, "  {}", paint(DIM, &line))?;
    }
    if let Some(why) = &found.registers_reason {
        let line = format!("register accesses are not counted: {why}");
        writeln!(out, "  {}", paint(DIM, &line))?;
    }
    Ok(())
}

/// One line for all cells that lack the same thing.
fn not_here(out: &mut dyn Write, cells: &[NotHere]) -> io::Result<()> {
    let mut told: Vec<&str> = Vec::new();
    for cell in cells {
        if told.contains(&cell.reason.as_str()) {
            continue;
        }
        told.push(&cell.reason);
        let same: Vec<&NotHere> = cells.iter().filter(|c| c.reason == cell.reason).collect();
        let mut kinds: Vec<String> = same
            .iter()
            .map(|c| format!("{} with {}", c.cell.event.name(), c.cell.payload.name()))
            .collect();
        kinds.dedup();
        let what = if cell.needs_hardware {
            "needs hardware counters"
        } else {
            "not available"
        };
        writeln!(
            out,
            "  {} ({} cells: {}): {}",
            paint(WARN, what),
            same.len(),
            kinds.join(", "),
            cell.reason
        )?;
    }
    Ok(())
}

fn reads(out: &mut dyn Write, reads: &[Read]) -> io::Result<()> {
    if reads.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(HEAD, "A read"))?;
    let mut table = Table::new([
        ("event", Align::Left),
        ("way", Align::Left),
        ("ns", Align::Right),
        ("instructions", Align::Right),
    ]);
    for read in reads.iter().filter(|read| read.ns.is_some()) {
        table.row(vec![
            read.event.clone().into(),
            read.way.clone().into(),
            read.ns.map(significant).unwrap_or_default().into(),
            read.instructions
                .map(|n| format!("{n:.1}"))
                .unwrap_or_default()
                .into(),
        ]);
    }
    table.write(out)?;
    // What a machine without a PMU lacks has one reason: said once, without the names in front of it.
    let core = |read: &Read| -> Option<String> {
        let reason = read.reason.as_deref()?;
        let core = reason.split_once(": ").map_or(reason, |(_, core)| core);
        Some(core.to_owned())
    };
    let mut told: Vec<String> = Vec::new();
    for read in reads {
        let Some(why) = core(read).filter(|why| !told.contains(why)) else {
            continue;
        };
        let same: Vec<String> = reads
            .iter()
            .filter(|other| core(other).as_ref() == Some(&why))
            .map(|other| format!("{} by {}", other.event, other.way))
            .collect();
        writeln!(
            out,
            "  {} {}: {why}",
            paint(WARN, "not measured"),
            same.join("; ")
        )?;
        told.push(why);
    }
    Ok(())
}

fn advise(out: &mut dyn Write, advice: &Advice) -> io::Result<()> {
    writeln!(out, "\n{}", paint(HEAD, "Advice"))?;
    for b in &advice.budgeted {
        writeln!(
            out,
            "  at most {} % of the time: {} with {}, a sample every {} ({} a second); one costs {}",
            advice.budget * 100.0,
            b.event.name(),
            b.payload.name(),
            grouped(b.period),
            significant(b.rate),
            time(b.cost_ns)
        )?;
    }
    for line in &advice.frequency {
        writeln!(out, "  {line}")?;
    }
    writeln!(out, "  {}", advice.batching)?;
    let have = if advice.freezing.available {
        "counter freezing is on"
    } else {
        "counter freezing is not available"
    };
    writeln!(out, "  {have}: {}", advice.freezing.reason)?;
    if let Some(saves) = &advice.freezing_saves {
        writeln!(out, "  it would save, by the {saves}")?;
    }
    Ok(())
}

fn show_model(out: &mut dyn Write, model: &Model) -> io::Result<()> {
    writeln!(
        out,
        "\n{} ({})",
        paint(HEAD, "The sampling interrupt of an x86 PMU"),
        model.label
    )?;
    let mut table = Table::new([
        ("handler", Align::Left),
        ("branch stack", Align::Left),
        ("WRMSR", Align::Right),
        ("RDMSR", Align::Right),
        ("RDPMC", Align::Right),
        ("time", Align::Right),
        ("in registers", Align::Right),
        ("share", Align::Right),
        ("counts of itself", Align::Right),
        ("events lost", Align::Right),
        ("of all", Align::Right),
    ]);
    for o in &model.outcomes {
        table.row(vec![
            match o.handler {
                Handler::Classic => "classic",
                Handler::Freezing => "freezing",
            }
            .into(),
            match o.stack {
                Stack::None => "none",
                Stack::FromTo => "from, to",
                Stack::Info => "from, to, info",
            }
            .into(),
            significant(o.wrmsr).into(),
            significant(o.rdmsr).into(),
            significant(o.rdpmc).into(),
            time(o.time_ns).into(),
            time(o.registers_ns).into(),
            format!("{:.3} %", o.share * 100.0).into(),
            significant(o.self_counted).into(),
            significant(o.lost).into(),
            format!("{:.5} %", o.lost_share * 100.0).into(),
        ]);
    }
    table.write(out)?;
    let classic = format!(
        "accesses of the classic handler ({})",
        model.inputs.classic.origin
    );
    writeln!(out, "  {}", paint(DIM, &classic))?;
    if model
        .fitted
        .as_ref()
        .is_some_and(|fitted| fitted.upper_bound)
    {
        let bound = "the costs of registers are upper bounds, and so is what freezing saves";
        writeln!(out, "  {}", paint(WARN, bound))?;
    }
    for (name, input) in named(&model.inputs) {
        writeln!(
            out,
            "  {}",
            paint(
                DIM,
                &format!("{name} = {} ({})", significant(input.value), input.origin)
            )
        )?;
    }
    options::patch(out, &model.patch)
}

fn named(inputs: &Inputs) -> [(&'static str, &truecount_lab::model::Input); 10] {
    [
        ("events_per_us", &inputs.events_per_us),
        ("period", &inputs.period),
        ("delivery_ns", &inputs.delivery_ns),
        ("entry_ns", &inputs.entry_ns),
        ("body_ns", &inputs.body_ns),
        ("exit_ns", &inputs.exit_ns),
        ("wrmsr_ns", &inputs.wrmsr_ns),
        ("rdmsr_ns", &inputs.rdmsr_ns),
        ("rdpmc_ns", &inputs.rdpmc_ns),
        ("handler_events_per_us", &inputs.handler_events_per_us),
    ]
}
