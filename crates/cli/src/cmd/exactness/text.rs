//! The tables that `exactness` prints for people.

use std::io::{self, Write};

use truecount_lab::exact::{Kind, OnCounter, OnLoop, Ordering, Status};

use super::document::Document;
use crate::render::style::{BAD, DIM, GOOD, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};
use truecount_model::number::{grouped, significant};

/// Prints everything.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let found = &document.outcome;
    if document.interrupted.is_some() {
        let how = if found.partial {
            "interrupted before every counter was on every loop: a partial result"
        } else {
            "interrupted: what was measured until then"
        };
        writeln!(out, "{}", paint(WARN, how))?;
    }
    for counter in &found.counters {
        one(out, counter)?;
    }
    orderings(out, &found.orderings)?;
    for missing in found.unavailable.iter().chain(&found.missing_loops) {
        writeln!(
            out,
            "{} {}: {}",
            paint(WARN, "not measured"),
            missing.name,
            missing.reason
        )?;
    }
    writeln!(out)?;
    writeln!(out, "{}", paint(HEAD, "Verdict"))?;
    for counter in &found.counters {
        let style = match counter.verdict.kind {
            Kind::Exact => GOOD,
            Kind::PerInterrupt | Kind::Unmeasured => WARN,
            _ => BAD,
        };
        writeln!(
            out,
            "  {} ({}): {}",
            counter.event,
            counter.source,
            paint(style, &counter.verdict.text)
        )?;
    }
    if let Some(words) = &found.ordering_verdict {
        writeln!(out, "  {words}")?;
    }
    if let Some(lock) = &found.spec_lock_map {
        let style = if lock.status == Status::On { BAD } else { DIM };
        writeln!(out, "  {}", paint(style, &lock.detail))?;
        if let Some(hint) = &lock.hint {
            writeln!(out, "    {hint}")?;
        }
    }
    let mut facts = vec![format!("{} rounds in {:.1} s", found.rounds, found.seconds)];
    facts.extend(found.cpu.map(|cpu| format!("CPU {cpu}")));
    facts.extend(found.timer_hertz.map(|hertz| format!("CONFIG_HZ={hertz}")));
    facts.extend(
        found
            .interrupt_event
            .as_ref()
            .map(|event| format!("interrupts by {} ({})", event.event, event.name)),
    );
    facts.push(format!("seed {}", document.seed));
    if document.stress {
        facts.push("with stress".to_owned());
    }
    writeln!(out, "  {}", paint(DIM, &facts.join(", ")))?;
    for note in &document.notes {
        writeln!(out, "  {note}")?;
    }
    out.flush()
}

fn histogram(each: &OnLoop) -> String {
    let s = &each.summed;
    let mut bars: Vec<String> = s
        .histogram
        .iter()
        .map(|bar| format!("{:+}: {}", bar.deviation, grouped(bar.samples)))
        .collect();
    if bars.len() > 5 {
        bars.truncate(5);
        bars.push(format!("… to {:+}", s.max));
    }
    bars.join("  ")
}

fn one(out: &mut dyn Write, counter: &OnCounter) -> io::Result<()> {
    writeln!(
        out,
        "\n{} {}",
        paint(HEAD, &counter.event),
        paint(
            DIM,
            &format!(
                "({}, by {}; against the known {})",
                counter.source,
                counter.method,
                counter.truth.name()
            )
        )
    )?;
    if counter.loops.is_empty() {
        return writeln!(out, "  not measured");
    }
    let mut table = Table::new([
        ("loop", Align::Left),
        ("truth", Align::Right),
        ("n", Align::Right),
        ("under", Align::Right),
        ("exact", Align::Right),
        ("over", Align::Right),
        ("irqs", Align::Right),
        ("/irq", Align::Right),
        ("per turn", Align::Right),
        ("/s", Align::Right),
        ("deviation: measurements", Align::Left),
    ]);
    for each in &counter.loops {
        let s = &each.summed;
        let style = if s.exact == s.samples { GOOD } else { WARN };
        let per_turn = if s.base == 0 {
            String::new()
        } else {
            format!("{:+.3} per {}", each.per_turn, each.turn)
        };
        let rate = if s.total == 0 {
            String::new()
        } else {
            significant(each.per_second)
        };
        table.row(vec![
            each.name.clone().into(),
            grouped(each.truth).into(),
            grouped(s.samples).into(),
            grouped(s.under).into(),
            Cell::styled(style, grouped(s.exact)),
            grouped(s.over).into(),
            s.interrupts.map(grouped).unwrap_or_default().into(),
            s.per_interrupt
                .map(|k| format!("{k:+}"))
                .unwrap_or_default()
                .into(),
            per_turn.into(),
            rate.into(),
            histogram(each).into(),
        ]);
    }
    table.write(out)
}

fn orderings(out: &mut dyn Write, orderings: &[Ordering]) -> io::Result<()> {
    if orderings.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(HEAD, "Ordering of a read"))?;
    let mut table = Table::new([
        ("before the read", Align::Left),
        ("n", Align::Right),
        ("under", Align::Right),
        ("exact", Align::Right),
        ("over", Align::Right),
        ("from", Align::Right),
        ("to", Align::Right),
        ("ns a read", Align::Right),
        ("instructions a region", Align::Right),
        ("", Align::Left),
    ]);
    for o in orderings {
        let number = |value: u64| {
            if o.samples == 0 {
                String::new()
            } else {
                grouped(value)
            }
        };
        table.row(vec![
            o.policy.clone().into(),
            number(o.samples).into(),
            number(o.under).into(),
            number(o.exact).into(),
            number(o.over).into(),
            o.range
                .map(|(from, _)| format!("{from:+}"))
                .unwrap_or_default()
                .into(),
            o.range
                .map(|(_, to)| format!("{to:+}"))
                .unwrap_or_default()
                .into(),
            o.ns.map(significant).unwrap_or_default().into(),
            o.instructions.map(grouped).unwrap_or_default().into(),
            o.reason.clone().unwrap_or_default().into(),
        ]);
    }
    table.write(out)
}
