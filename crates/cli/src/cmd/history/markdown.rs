//! A comparison as a comment of a pull request: GitHub's Markdown, never longer than a comment may be, details folded.

use std::fmt::Write as _;

use truecount_history::decide::compare::Row;
use truecount_history::git::short;
use truecount_model::number::{change as percent, quantity};

use super::comparison::{Document, summary, tells};
use super::{benchmark, explained, number_of};

/// A comment of GitHub has at most 65,536 characters, GitLab's a million; room is left for what a script adds.
const MAX: usize = 60_000;

/// By this a script finds the comment of before.
const MARK: &str = "<!-- truecount history compare -->";

/// The comment. `link` is where more is shown.
pub(super) fn comment(document: &Document, link: Option<&str>) -> String {
    let mut text = format!("{MARK}\n### truecount: {}\n\n", verdict(document));
    let _ = writeln!(
        text,
        "`{}` {} against `{}` {}{}\n",
        short(&document.new.hash),
        plain(&document.new.subject),
        short(&document.base.hash),
        plain(&document.base.subject),
        match document.skipped {
            0 => String::new(),
            n => format!(
                " (the nearest ancestor with a record: {} without)",
                number_of(n, "commit")
            ),
        }
    );
    let _ = writeln!(text, "{}\n", plain(&summary(&document.found)));
    if let Some(link) = link {
        let _ = writeln!(
            text,
            "[All numbers](<{}>)\n",
            link.replace(['<', '>', '\n'], "")
        );
    }
    for note in &document.found.notes {
        let _ = writeln!(text, "{}\n", plain(note));
    }
    let (loud, quiet): (Vec<&Row>, Vec<&Row>) =
        document.found.rows.iter().partition(|row| tells(row));
    // What fails first: it must be seen whatever is cut off.
    let mut loud = loud;
    loud.sort_by_key(|row| match (row.gate.as_deref(), row.regression) {
        (Some("regressed"), _) => 0,
        (_, Some(true)) => 1,
        (Some("undecided" | "incomparable"), _) => 2,
        (_, Some(false)) => 3,
        _ => 4,
    });
    let mut left = 0;
    if !loud.is_empty() {
        text.push_str(TABLE);
        left += rows(&mut text, &loud, MAX / 2);
        text.push('\n');
    }
    let mut moved = String::new();
    for row in loud {
        let lines = explained::lines(&row.moved, &row.paths);
        if lines.is_empty() {
            continue;
        }
        let mut one = format!(
            "\n**{}** {}\n\n```text\n",
            plain(&benchmark(&row.suite, &row.benchmark, &row.parameters)),
            plain(&row.metric)
        );
        for line in lines {
            let _ = writeln!(one, "{}", line.replace("```", "'''"));
        }
        one.push_str("```\n");
        if text.len() + moved.len() + one.len() > MAX - 4000 {
            left += 1;
            break;
        }
        moved.push_str(&one);
    }
    if !moved.is_empty() {
        fold(&mut text, "Functions that moved", &moved);
    }
    if !quiet.is_empty() {
        let mut table = TABLE.to_owned();
        let room = MAX.saturating_sub(text.len() + 1000);
        left += rows(&mut table, &quiet, room);
        fold(
            &mut text,
            &format!("{} without a change", number_of(quiet.len(), "row")),
            &table,
        );
    }
    if left > 0 {
        let _ = writeln!(
            text,
            "\n{} more did not fit: `truecount history compare --all` shows them.",
            number_of(left, "row")
        );
    }
    text
}

const TABLE: &str =
    "| benchmark | metric | base | new | change | gate | |\n|:--|:--|--:|--:|--:|:--|:--|\n";

fn fold(text: &mut String, title: &str, body: &str) {
    let _ = writeln!(
        text,
        "<details>\n<summary>{title}</summary>\n\n{body}\n</details>\n"
    );
}

/// What the gates come to, in a word that says it without colours.
fn verdict(document: &Document) -> &'static str {
    let gated = document.found.rows.iter().any(|row| row.gate.is_some());
    let worse = document
        .found
        .rows
        .iter()
        .any(|row| row.regression == Some(true));
    match (document.found.status, gated, worse) {
        (3, ..) => "❌ regressed",
        (4, ..) => "⚠️ undecided",
        (_, true, _) => "✅ passed",
        (_, false, true) => "worse (no gate was asked for)",
        (_, false, false) => "no gate was asked for",
    }
}

/// Rows as long as there is room; how many were left out.
fn rows(text: &mut String, all: &[&Row], room: usize) -> usize {
    let start = text.len();
    for (done, row) in all.iter().enumerate() {
        let value = |value: Option<f64>| {
            value.map_or_else(String::new, |value| quantity(value, 1.0, &row.unit))
        };
        let change = match row.verdict.as_str() {
            "incomparable" => String::new(),
            _ => row.ratio.map_or_else(String::new, percent),
        };
        let gate = match row.gate.as_deref() {
            Some("regressed") => "**regressed**",
            Some(other) => other,
            None => "",
        };
        let line = format!(
            "| {} | {} | {} | {} | {change} | {gate} | {} |\n",
            plain(&benchmark(&row.suite, &row.benchmark, &row.parameters)),
            plain(&row.metric),
            value(row.base),
            value(row.other),
            plain(&row.explanation),
        );
        if text.len() - start + line.len() > room {
            return all.len() - done;
        }
        text.push_str(&line);
    }
    0
}

/// Text that is nothing but text in a table of GitHub: no markup, no mention, no link, no other issue.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars().take(300) {
        match c {
            '\n' | '\r' | '\t' => plain.push(' '),
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            // A name behind it would be told, a number would be linked.
            '@' => plain.push_str("@\u{200b}"),
            '#' => plain.push_str("#\u{200b}"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' | '$' => {
                plain.push('\\');
                plain.push(c);
            }
            c if c.is_control() => plain.push('\u{fffd}'),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(plain("a|b `c`\n<b>"), "a\\|b \\`c\\` &lt;b&gt;");
        assert_eq!(plain("@you #1"), "@\u{200b}you #\u{200b}1");
        assert!(plain(&"x".repeat(9000)).len() <= 300);
    }
}
