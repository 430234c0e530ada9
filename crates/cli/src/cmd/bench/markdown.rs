//! The result of `bench` in Markdown tables, to be pasted into a review.

use std::io::{self, Write};

use super::document::Document;
use super::text::{extent, interval, median, missing, p, plural, remarks, spread};
use truecount_model::number::change;

/// Text inside a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Writes the tables.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    writeln!(
        out,
        "{}, seed {}; {}, {}\n",
        plural(document.rounds, "round"),
        document.seed,
        document
            .environment
            .cpu_model
            .as_deref()
            .unwrap_or("unknown CPU"),
        document
            .environment
            .kernel
            .as_deref()
            .unwrap_or("unknown kernel"),
    )?;
    writeln!(
        out,
        "| command | metric | median | spread | min … max | n | source | |"
    )?;
    writeln!(out, "|:--|:--|--:|--:|:--|--:|:--|:--|")?;
    for command in &document.commands {
        for (name, metric) in command.metrics.iter() {
            writeln!(
                out,
                "| `{}` | {name} | {} | {} | {} | {} | {} | {} |",
                cell(&command.name),
                median(metric),
                spread(metric),
                extent(metric),
                metric.samples.len(),
                metric.source.map_or("", |source| source.name()),
                cell(&remarks(metric)),
            )?;
        }
    }
    if !document.comparisons.is_empty() {
        writeln!(
            out,
            "\n| compared | with | metric | change | interval | p adjusted | verdict |"
        )?;
        writeln!(out, "|:--|:--|:--|--:|:--|--:|:--|")?;
        for compared in &document.comparisons {
            writeln!(
                out,
                "| `{}` | `{}` | {} | {} | {} | {} | {} |",
                cell(&compared.other),
                cell(&compared.base),
                compared.metric,
                compared.ratio.map_or(String::new(), change),
                interval(compared),
                p(compared.p_adjusted),
                cell(&compared.explanation),
            )?;
        }
    }
    for line in missing(document).iter().chain(&document.notes) {
        writeln!(out, "\n{line}")?;
    }
    Ok(())
}
