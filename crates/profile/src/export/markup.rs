//! Text inside XML: SVG and HTML.

use std::borrow::Cow;

/// Text as it stands in an element or between double quotes. What XML 1.0 forbids in any form (section 2.2: control
/// characters, U+FFFE, U+FFFF) becomes U+FFFD: one such byte in a name would make a whole picture unreadable.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    let special = |c: char| {
        matches!(c, '&' | '<' | '>' | '"' | '\u{FFFE}' | '\u{FFFF}')
            || (c < ' ' && !matches!(c, '\t' | '\n' | '\r'))
    };
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len().saturating_add(16));
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if special(c) => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_forbidden_characters() {
        assert_eq!(
            escape("<a & \"b\"> é\t\n'"),
            "&lt;a &amp; &quot;b&quot;&gt; é\t\n'"
        );
        assert_eq!(
            escape("a\u{1b}[1m\0\u{FFFF}"),
            "a\u{FFFD}[1m\u{FFFD}\u{FFFD}"
        );
    }
}
