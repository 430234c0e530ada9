//! The list for people.

use std::io::{self, Write};

use super::document::{Document, Models, Row};
use crate::render::style::{DIM, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};

/// All models.
pub(super) fn models(out: &mut dyn Write, models: &Models) -> io::Result<()> {
    let mut table = Table::new([
        ("model", Align::Left),
        ("also", Align::Left),
        ("events", Align::Right),
        ("CPUs", Align::Left),
    ])
    .whole();
    for model in &models.models {
        table.row(vec![
            Cell::styled(HEAD, model.name.clone()),
            model.aliases.join(" ").into(),
            model.events.to_string().into(),
            model.cpus.join(" ").into(),
        ]);
    }
    table.write(out)?;
    writeln!(out, "\n{}", paint(DIM, &models.source))
}

/// The events of a document.
pub(super) fn events(out: &mut dyn Write, document: &Document, long: bool) -> io::Result<()> {
    let who = match &document.model {
        Some(model) => format!("{} ({})", model.name, model.version),
        None => "a CPU that the tables do not know".to_owned(),
    };
    if document.asked {
        writeln!(out, "{}", paint(HEAD, &who))?;
    } else {
        writeln!(out, "{} {}", paint(HEAD, "this machine:"), who)?;
        if !document.pmu_here {
            let engine = if document.events.iter().any(|row| row.origin == "virtual") {
                "what the virtual PMU counts (from: virtual), "
            } else {
                ""
            };
            let text = format!(
                "no hardware PMU here: of these, only {engine}software events and clocks can be counted on this machine"
            );
            writeln!(out, "{}", paint(WARN, &text))?;
        }
    }
    if long {
        for row in &document.events {
            writeln!(out)?;
            details(out, row)?;
        }
    } else {
        let mut table = Table::new([
            ("event", Align::Left),
            ("raw", Align::Left),
            ("-e", Align::Left),
            ("from", Align::Left),
        ])
        .whole();
        for row in &document.events {
            table.row(vec![
                row.name.clone().into(),
                row.raw.clone().unwrap_or_default().into(),
                if row.perf == row.name {
                    "".into()
                } else {
                    row.perf.clone().into()
                },
                Cell::styled(DIM, marks(row)),
            ]);
        }
        table.write(out)?;
    }
    let count = document.events.len();
    let plural = if count == 1 { "event" } else { "events" };
    writeln!(
        out,
        "\n{}",
        paint(
            DIM,
            &format!("{count} {plural}; table: {}", document.source)
        )
    )
}

/// Where it is from, and what is special about it, in a few words.
fn marks(row: &Row) -> String {
    let mut text = row.origin.to_owned();
    if row.precise == "must" {
        text.push_str(", PEBS only");
    }
    if row.deprecated {
        text.push_str(", deprecated");
    }
    text
}

fn details(out: &mut dyn Write, row: &Row) -> io::Result<()> {
    writeln!(out, "{}", paint(HEAD, &row.name))?;
    let mut line = |name: &str, text: &str| writeln!(out, "  {name:<10} {text}");
    if let Some(text) = row.description {
        line("meaning", text)?;
    }
    line("-e", &row.perf)?;
    if let Some(raw) = &row.raw {
        line("raw", raw)?;
    }
    if let (Some(code), Some(umask)) = (row.code, row.umask) {
        line(
            "encoding",
            &format!("event {code:#04x}, umask {umask:#04x}"),
        )?;
    }
    if let (Some(config), Some(config1)) = (row.config, row.config1)
        && config1 != 0
    {
        line(
            "words",
            &format!("config {config:#x}, config1 {config1:#x}"),
        )?;
    }
    if let Some(counters) = &row.counters {
        line("counters", counters)?;
    }
    match row.precise {
        "can" => line("PEBS", "can be precise: add :p or :pp")?,
        "must" => line("PEBS", "must be precise; the -e above says so with pp")?,
        _ => {}
    }
    if let Some(scale) = &row.scale {
        line("unit", scale)?;
    }
    if row.deprecated {
        line("note", "the vendor calls it deprecated")?;
    }
    line("from", row.provenance.as_deref().unwrap_or(row.origin))
}
