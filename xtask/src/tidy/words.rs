//! The list of words: those of `perf`, the vendors' manuals and the kernel's documentation, one for each thing.
//!
//! Searched in every text: prose, messages, help, keys and identifiers (`_` parts words there). `words.tsv` has the list:
//! what must not be written, what to write instead, and below which paths it may stand all the same.

use super::Finding;

const LIST: &str = include_str!("words.tsv");

/// A row of the list.
struct Row<'a> {
    not: Vec<&'a str>,
    instead: &'a str,
    except: Vec<&'a str>,
}

fn rows(list: &str) -> impl Iterator<Item = Row<'_>> {
    list.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut cells = line.split('\t');
            let not = cells.next().unwrap_or_default().split(", ").collect();
            let instead = cells.next().unwrap_or_default();
            let except = cells
                .next()
                .unwrap_or_default()
                .split(' ')
                .filter(|path| !path.is_empty());
            Row {
                not,
                instead,
                except: except.collect(),
            }
        })
}

/// What stands in `text` and must not.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    // The list itself.
    if path.starts_with("xtask/src/tidy/words.")
        || path == "xtask/src/tidy/known.tsv"
        || path == "docs/style.md"
    {
        return Vec::new();
    }
    against(LIST, path, text)
}

fn against(list: &str, path: &str, text: &str) -> Vec<Finding> {
    let rows: Vec<Row<'_>> = rows(list)
        .filter(|row| !row.except.iter().any(|place| path.starts_with(place)))
        .collect();
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let plain = line.to_lowercase().replace('_', " ");
        for row in &rows {
            for not in row.not.iter().filter(|not| has(&plain, not)) {
                let message = format!("\"{not}\": write \"{}\" (docs/style.md)", row.instead);
                findings.push(Finding::new(path, number + 1, message));
            }
        }
    }
    findings
}

/// Whether `words` stands in the line as whole words.
fn has(line: &str, words: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    line.match_indices(words).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        let after = line
            .get(at + words.len()..)
            .and_then(|after| after.chars().next());
        let inside =
            |c: Option<char>, own: Option<char>| own.is_some_and(char::is_alphanumeric) && part(c);
        !inside(before, words.chars().next()) && !inside(after, words.chars().next_back())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE_UP: &str =
        "# a comment\nfoo, foos\tbar\nold way\tnew way\tcrates/a/ docs/x.md\n--opt\t--option\n";

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        against(MADE_UP, path, text)
            .into_iter()
            .map(|f| (f.line, f.message))
            .collect()
    }

    #[test]
    fn whole_words_are_found_in_prose_and_identifiers() {
        let text = "a Foo\nfood, kung-foo and seafoo\nlet my_foos_x = 1;\nthe OLD way, old_way\nthe older way";
        let lines: Vec<usize> = found("crates/b/x.rs", text).iter().map(|f| f.0).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
        assert!(found("x.md", "foo")[0].1.contains("\"bar\""));
        assert_eq!(found("x.md", "use --opt=3").len(), 1);
        assert_eq!(found("x.md", "use --option"), []);
    }

    #[test]
    fn exceptions_are_by_path() {
        assert_eq!(found("crates/a/src/x.rs", "old way"), []);
        assert_eq!(found("docs/x.md", "old way"), []);
        assert_eq!(found("crates/ab/src/x.rs", "old way").len(), 1);
    }

    #[test]
    fn every_row_says_what_to_write() {
        let mut number = 0;
        for row in rows(LIST) {
            number += 1;
            assert!(
                !row.instead.is_empty() && row.not.iter().all(|not| !not.is_empty()),
                "row {number}"
            );
            assert!(
                row.not.iter().all(|not| not.to_lowercase() == *not),
                "row {number} is not in lower case"
            );
        }
        assert!(number > 10);
    }
}
