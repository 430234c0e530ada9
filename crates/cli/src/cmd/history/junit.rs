//! A comparison as JUnit XML, which every CI shows: a test case for each metric of each benchmark.

use std::fmt::Write as _;

use truecount_history::decide::compare::Row;
use truecount_model::number::{change as percent, quantity};

use super::comparison::Document;
use super::{benchmark, explained};

/// The document.
pub(super) fn xml(document: &Document) -> String {
    let rows = &document.found.rows;
    let failed = rows.iter().filter(|row| failure(row).is_some()).count();
    let silent = rows.iter().filter(|row| skipped(row).is_some()).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"truecount\" tests=\"{}\" failures=\"{failed}\" skipped=\"{silent}\" errors=\"0\">\n",
        rows.len()
    );
    for row in rows {
        let name = benchmark(&row.suite, &row.benchmark, &row.parameters);
        let _ = write!(
            text,
            "<testcase classname=\"{}\" name=\"{}\"",
            escape(&name),
            escape(&row.metric)
        );
        let value = |value: Option<f64>| {
            value.map_or_else(
                || "not measured".to_owned(),
                |v| quantity(v, 1.0, &row.unit),
            )
        };
        let mut told = format!("{} → {}", value(row.base), value(row.other));
        if let Some(ratio) = row.ratio.filter(|_| row.verdict != "incomparable") {
            let _ = write!(told, " ({})", percent(ratio));
        }
        for line in explained::lines(&row.moved, &row.paths) {
            let _ = write!(told, "\n{line}");
        }
        match (failure(row), skipped(row)) {
            (Some(kind), _) => {
                let _ = writeln!(
                    text,
                    "><failure type=\"{kind}\" message=\"{}\">{}</failure></testcase>",
                    escape(&row.explanation),
                    escape(&told)
                );
            }
            (None, Some(why)) => {
                let _ = writeln!(text, "><skipped message=\"{}\"/></testcase>", escape(why));
            }
            (None, None) => {
                let _ = writeln!(
                    text,
                    "><system-out>{}</system-out></testcase>",
                    escape(&told)
                );
            }
        }
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

/// What makes a gate fail: worse, or not known.
fn failure(row: &Row) -> Option<&str> {
    let gate = row.gate.as_deref()?;
    matches!(gate, "regressed" | "undecided" | "incomparable").then_some(gate)
}

fn skipped(row: &Row) -> Option<&str> {
    let quiet = matches!(row.verdict.as_str(), "incomparable" | "new" | "gone");
    (quiet && failure(row).is_none()).then_some(&row.explanation)
}

/// Text of XML 1.0: five characters are written otherwise, and most control characters cannot be there at all.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push(c),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if c < ' ' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_has_no_character_for_is_replaced() {
        assert_eq!(
            escape("a<b>&\"'\u{1}\n"),
            "a&lt;b&gt;&amp;&quot;&apos;\u{fffd}&#10;"
        );
    }
}
