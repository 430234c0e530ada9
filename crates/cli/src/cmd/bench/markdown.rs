//! The result of `bench` in compact tables for reviews and documents: Markdown, AsciiDoc, Org. One row a command, one
//! column a metric; then the comparisons and the gates.

use std::io::{self, Write};

use super::document::Document;
use super::sentence::sentences;
use super::text::{conclusion, gate_line, interval, median, missing, p, plural, relative, spread};
use truecount_model::number::change;
use truecount_run::rounds::Metric;

/// How a kind of document writes a table.
#[derive(Clone, Copy)]
enum Form {
    Markdown,
    AsciiDoc,
    Org,
}

/// A column: its heading, and whether it holds numbers.
type Column = (String, bool);

/// Writes Markdown (GitHub's tables).
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    all(out, document, Form::Markdown)
}

/// Writes AsciiDoc.
pub(super) fn asciidoc(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    all(out, document, Form::AsciiDoc)
}

/// Writes Emacs' Org mode.
pub(super) fn orgmode(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    all(out, document, Form::Org)
}

impl Form {
    /// Text inside a cell.
    fn cell(self, text: &str) -> String {
        let text = text.replace('\n', " ");
        match self {
            Self::Markdown | Self::AsciiDoc => text.replace('|', "\\|"),
            Self::Org => text.replace('|', "\\vert{}"),
        }
    }

    /// A command's words.
    fn code(self, text: &str) -> String {
        match self {
            Self::Markdown | Self::AsciiDoc => format!("`{}`", self.cell(text)),
            Self::Org => format!("={}=", self.cell(text)),
        }
    }

    fn table(self, out: &mut dyn Write, head: &[Column], rows: &[Vec<String>]) -> io::Result<()> {
        let names: Vec<&str> = head.iter().map(|(name, _)| name.as_str()).collect();
        match self {
            Self::Markdown => {
                writeln!(out, "| {} |", names.join(" | "))?;
                let sides = head
                    .iter()
                    .map(|(_, number)| if *number { "--:" } else { ":--" });
                writeln!(out, "|{}|", sides.collect::<Vec<_>>().join("|"))?;
            }
            Self::AsciiDoc => {
                let sides = head
                    .iter()
                    .map(|(_, number)| if *number { ">" } else { "<" });
                let sides = sides.collect::<Vec<_>>().join(",");
                writeln!(out, "[cols=\"{sides}\",options=\"header\"]\n|===")?;
                writeln!(out, "| {}\n", names.join(" | "))?;
            }
            Self::Org => {
                writeln!(out, "| {} |", names.join(" | "))?;
                writeln!(out, "|{}|", vec!["--"; head.len()].join("+"))?;
            }
        }
        for row in rows {
            match self {
                Self::Markdown | Self::Org => writeln!(out, "| {} |", row.join(" | "))?,
                Self::AsciiDoc => writeln!(out, "| {}", row.join(" | "))?,
            }
        }
        match self {
            Self::AsciiDoc => writeln!(out, "|===\n"),
            Self::Markdown | Self::Org => writeln!(out),
        }
    }
}

/// Names of the metrics that somebody counted, each once.
fn counted(document: &Document) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, metric) in document.commands.iter().flat_map(|c| c.metrics.iter()) {
        if !metric.samples.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// `12.34 ms ± 1.2 %`.
fn value(metric: &Metric) -> String {
    match spread(metric) {
        spread if spread.starts_with('±') => format!("{} {spread}", median(metric)),
        _ => median(metric),
    }
}

fn all(out: &mut dyn Write, document: &Document, form: Form) -> io::Result<()> {
    for sentence in sentences(document) {
        writeln!(out, "{sentence}\n")?;
    }
    let several = document.commands.len() > 1;
    let names = counted(document);
    let mut head: Vec<Column> = vec![("command".to_owned(), false)];
    for name in &names {
        head.push(((*name).to_owned(), true));
        if several {
            head.push(("relative".to_owned(), true));
        }
    }
    let rows: Vec<Vec<String>> = document
        .commands
        .iter()
        .map(|command| {
            let mut row = vec![form.code(&command.name)];
            for name in &names {
                let metric = command.metrics.get(name);
                row.push(metric.map_or_else(String::new, value));
                if several {
                    row.push(metric.map_or_else(String::new, |m| relative(name, m, document)));
                }
            }
            row
        })
        .collect();
    form.table(out, &head, &rows)?;
    comparisons(out, document, form)?;
    for gate in &document.gates {
        writeln!(out, "{}\n", form.cell(&gate_line(gate)))?;
    }
    let environment = &document.environment;
    writeln!(
        out,
        "{}, seed {}; {}, {}",
        plural(document.rounds, "round"),
        document.seed,
        environment.cpu_model.as_deref().unwrap_or("unknown CPU"),
        environment.kernel.as_deref().unwrap_or("unknown kernel"),
    )?;
    for line in missing(document).iter().chain(&document.notes) {
        writeln!(out, "\n{line}")?;
    }
    Ok(())
}

/// What was judged; what is only described stands in the first table.
fn comparisons(out: &mut dyn Write, document: &Document, form: Form) -> io::Result<()> {
    let rows: Vec<Vec<String>> = document
        .comparisons
        .iter()
        .filter(|compared| compared.verdict != "described")
        .map(|compared| {
            vec![
                form.code(&compared.other),
                form.code(&compared.base),
                compared.metric.clone(),
                compared.ratio.map_or(String::new(), change),
                interval(compared),
                p(compared.p_adjusted),
                form.cell(&conclusion(compared)),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let head = [
        ("compared", false),
        ("with", false),
        ("metric", false),
        ("change", true),
        ("interval", false),
        ("p adjusted", true),
        ("verdict", false),
    ];
    let head = head.map(|(name, number)| (name.to_owned(), number));
    form.table(out, &head, &rows)
}
