//! How wide the text may be, and breaking it at words.

use std::io::IsTerminal as _;

/// Narrower terminals get lines of this width.
const NARROWEST: usize = 60;
/// Sentences are broken here where nothing says how wide the reader's window is.
const SENTENCE: usize = 100;

/// Columns of the reader's window: `COLUMNS`, else the terminal's; `None` for a file or a pipe.
pub(crate) fn columns() -> Option<usize> {
    let set = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok())
        .filter(|&columns| columns > 0);
    let of_terminal = || {
        std::io::stdout()
            .is_terminal()
            .then(ratatui::crossterm::terminal::size)
            .and_then(Result::ok)
            .map(|(columns, _)| usize::from(columns))
            .filter(|&columns| columns > 0)
    };
    set.or_else(of_terminal)
        .map(|columns| columns.max(NARROWEST))
}

/// The width for sentences.
pub(crate) fn sentence() -> usize {
    columns().unwrap_or(SENTENCE)
}

/// Lines of at most `width` characters, broken at blanks; a longer word stands alone.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_words_only() {
        let text = "a count that was scaled decides nothing at all";
        for width in [1, 8, 12, 20, 200] {
            let lines = wrap(text, width);
            assert_eq!(lines.join(" "), text);
            assert!(
                lines
                    .iter()
                    .all(|line| line.chars().count() <= width || !line.contains(' ')),
                "{lines:?}"
            );
        }
        assert_eq!(wrap("", 5), [""]);
    }
}
