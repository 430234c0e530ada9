//! How wide the text may be, and breaking it at words.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU8, Ordering};

/// Narrower terminals get lines of this width.
const NARROWEST: usize = 60;
/// Sentences are broken here where nothing says how wide the reader's window is.
const SENTENCE: usize = 100;

/// Where the text goes, which says whose window it has to fit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Stdout = 0,
    Stderr = 1,
    /// Has no window.
    File = 2,
}

static READER: AtomicU8 = AtomicU8::new(Reader::Stdout as u8);

/// From here on text is for this one.
pub(crate) fn is_read_at(reader: Reader) {
    READER.store(reader as u8, Ordering::Relaxed);
}

/// Columns of the reader's window: `COLUMNS`, else the terminal's; `None` for a file or a pipe.
pub(crate) fn columns() -> Option<usize> {
    let reader = READER.load(Ordering::Relaxed);
    if reader == Reader::File as u8 {
        return None;
    }
    let set = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok())
        .filter(|&columns| columns > 0);
    let terminal = match reader == Reader::Stderr as u8 {
        true => std::io::stderr().is_terminal(),
        false => std::io::stdout().is_terminal(),
    };
    let of_terminal = || {
        terminal
            .then(ratatui::crossterm::terminal::size)
            .and_then(Result::ok)
            .map(|(columns, _)| usize::from(columns))
            .filter(|&columns| columns > 0)
    };
    set.or_else(of_terminal)
        .map(|columns| columns.max(NARROWEST))
}

/// Breaks lines that are too long for the window at blanks, as they come; what follows stands a little further in. Styles
/// take no room.
pub(crate) struct Folding {
    width: usize,
    /// The beginning of a line.
    begun: Vec<u8>,
}

impl Folding {
    pub(crate) fn to(width: usize) -> Self {
        Self {
            width,
            begun: Vec::new(),
        }
    }

    /// Passes whole lines on.
    pub(crate) fn write(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.pass_on(out)?;
            }
        }
        Ok(())
    }

    /// Passes on what there is.
    pub(crate) fn pass_on(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let line = std::mem::take(&mut self.begun);
        match std::str::from_utf8(&line) {
            Ok(text) if line.len() > self.width => out.write_all(fold(text, self.width).as_bytes()),
            _ => out.write_all(&line),
        }
    }
}

/// A line in as many as it needs.
fn fold(line: &str, width: usize) -> String {
    let first = line.chars().take_while(|c| *c == ' ').count();
    let indent = match first + 2 {
        indent if indent * 2 <= width => indent,
        _ => 4,
    };
    let mut out = String::with_capacity(line.len() + 16);
    let (mut from, mut column, mut blank) = (0, 0, None);
    let mut escape = false;
    for (at, c) in line.char_indices() {
        match c {
            '\x1b' => escape = true,
            _ if escape => escape = !c.is_ascii_alphabetic(),
            '\n' => {}
            ' ' if column >= indent && (column <= width || blank.is_none()) => {
                blank = Some((at, column));
                column += 1;
            }
            _ => {
                column += 1;
                if column > width
                    && let Some((end, used)) = blank.take()
                {
                    let text = line.get(from..end).unwrap_or_default();
                    out.push_str(text.trim_end_matches(' '));
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', indent));
                    let rest = line.get(end..at).unwrap_or_default();
                    from = end + rest.len() - rest.trim_start_matches(' ').len();
                    let blanks = from - end;
                    column = indent + (column - used - blanks);
                }
            }
        }
    }
    out.push_str(line.get(from..).unwrap_or_default());
    out
}

/// The beginning and the end of a text that has to fit.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let head: String = text.chars().take(width / 2).collect();
    let tail = width.saturating_sub(width / 2 + 1);
    let tail: String = text.chars().skip(length - tail).collect();
    format!("{head}…{tail}")
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

    #[test]
    fn long_lines_are_folded_and_short_ones_are_not() {
        let folded = |text: &str, width| {
            let mut out = Vec::new();
            let mut folding = Folding::to(width);
            // In whatever pieces they come.
            for piece in text.as_bytes().chunks(7) {
                folding.write(piece, &mut out).unwrap();
            }
            folding.pass_on(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = "  a count that was scaled\nshort\n\nno end";
        assert_eq!(folded(text, 80), text);
        let short = folded(text, 16);
        assert_eq!(short, "  a count that\n    was scaled\nshort\n\nno end");
        let styled = "\x1b[1mseven letters\x1b[0m and a word-that-is-too-long-for-any-line of it\n";
        let lines = folded(styled, 20);
        assert_eq!(
            lines.replace("\x1b[1m", "").replace("\x1b[0m", ""),
            "seven letters and a\n  word-that-is-too-long-for-any-line\n  of it\n"
        );
        assert_eq!(folded("2 µs und ≥ 3 ms\n", 10), "2 µs und ≥\n  3 ms\n");
    }

    #[test]
    fn names_keep_both_ends() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcdefgh", 5), "ab…gh");
        for width in 1..10 {
            assert_eq!(shortened("abcdefghijklm", width).chars().count(), width);
        }
    }
}
