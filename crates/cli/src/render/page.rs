//! Pages for people: one style for all of them, light and dark, from a phone to a wide screen. No script and nothing from
//! elsewhere.

use super::charts;
use super::markup::escape;

const STYLE: &str = include_str!("page.css");

/// Begins a page; `more` are rules that only it has. [`CLOSE`] ends it.
pub(crate) fn open(title: &str, more: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{}\n{STYLE}{}{more}</style>\n</head>\n<body>\n",
        escape(title),
        charts::colours(":root"),
        charts::STYLE
    )
}

/// Ends a page.
pub(crate) const CLOSE: &str = "</body>\n</html>\n";

/// A row of figures: value, what it is, and a class (`good`, `bad`, `warn`) or nothing.
pub(crate) fn tiles<'t>(tiles: impl IntoIterator<Item = (&'t str, &'t str, &'t str)>) -> String {
    let mut h = "<div class=\"tiles\">".to_owned();
    for (value, what, class) in tiles {
        h.push_str(&format!(
            "<div class=\"tile\"><b class=\"{class}\">{}</b><span>{}</span></div>",
            escape(value),
            escape(what)
        ));
    }
    h.push_str("</div>\n");
    h
}
