//! The few styles of the terminal output. `anstream` drops them where they do not belong
//! (`NO_COLOR`, no terminal).

use anstyle::{AnsiColor, Style};

/// Headings.
pub(crate) const HEAD: Style = Style::new().bold();
/// What is less important.
pub(crate) const DIM: Style = Style::new().dimmed();
/// Good: faster, fewer, present.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Bad: slower, more, missing.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Needs attention.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();

/// `text` in `style`.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
