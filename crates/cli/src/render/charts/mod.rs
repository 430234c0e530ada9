//! Pictures: axes, round ticks, colours of both schemes, and the histogram of cycles. Colours are CSS variables, which a
//! page or the picture itself brings; without scripts and without anything from elsewhere.

mod axis;
pub(crate) mod histogram;

pub(crate) use axis::{Axis, Scale, plain};

use std::fmt::Write as _;

use super::markup::escape;

/// Rules of everything drawn here, in terms of the colours.
pub(crate) const STYLE: &str = include_str!("charts.css");

const LIGHT: &str = "--back:#fff;--text:#1d232b;--dim:#667080;--line:#dfe3e8;--card:#f6f7f9;\
    --good:#1a7f43;--bad:#c0352b;--warn:#996300;\
    --s0:#3366cc;--s1:#d9662b;--s2:#2f9e6e;--s3:#9353b8;--s4:#b59410;--s5:#3a97b0";
const DARK: &str = "--back:#14181d;--text:#e4e8ed;--dim:#93a0ae;--line:#2c343d;--card:#1b2128;\
    --good:#55c98a;--bad:#f0766b;--warn:#e0b04c;\
    --s0:#7da7ff;--s1:#f59a63;--s2:#5fd0a0;--s3:#c98fe6;--s4:#e0c34c;--s5:#71cde4";

/// The least width of a picture alone in a window that is upright, as in pages.
const LEGIBLE: &str =
    "@media (max-width:640px) and (orientation:portrait){svg.chart{min-width:640px}}";

/// Number of colours for series: classes `s0` and on.
pub(crate) const SERIES: usize = 6;

/// The colours for what a selector names, light or dark as the reader has it.
pub(crate) fn colours(selector: &str) -> String {
    format!(
        "{selector}{{color-scheme:light dark;{LIGHT}}}@media(prefers-color-scheme:dark){{{selector}{{{DARK}}}}}"
    )
}

/// Where a picture stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// In a page that has [`STYLE`] and [`colours`].
    Page,
    /// A file of its own.
    File,
}

impl Frame {
    /// Begins a picture of so many units; `label` is for those who do not see it.
    pub(crate) fn open(self, width: f64, height: f64, label: &str) -> String {
        // In a page the element says by itself what it is, and a page names nothing from elsewhere.
        let space = match self {
            Self::File => " xmlns=\"http://www.w3.org/2000/svg\"",
            Self::Page => "",
        };
        let mut svg = format!(
            "<svg class=\"chart\"{space} viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\"",
            escape(label)
        );
        if self == Self::File {
            // A phone's window scrolls rather than makes its text too small to read; where the picture is embedded its
            // window has its own shape.
            let legible = if width > height { LEGIBLE } else { "" };
            let _ = write!(
                svg,
                " width=\"{width:.0}\" height=\"{height:.0}\" style=\"max-width:100%\"><style>{}{STYLE}{legible}</style>",
                colours("svg.chart")
            );
            svg.push_str("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>");
        } else {
            svg.push('>');
        }
        svg.push('\n');
        svg
    }
}

/// Text of at most so many characters.
pub(crate) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

/// Vertical lines at round values with their labels below (`y` is the label's base line).
pub(crate) fn columns(
    svg: &mut String,
    axis: &Axis,
    most: usize,
    (top, bottom, y): (f64, f64, f64),
    label: impl Fn(f64) -> String,
) {
    for tick in axis.ticks(most) {
        let x = axis.at(tick);
        let class = if axis.scale == Scale::SymmetricLog && tick == 0.0 {
            "zero"
        } else {
            "grid"
        };
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(&label(tick))
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_alone_brings_both_colour_schemes() {
        let alone = Frame::File.open(100.0, 50.0, "a<b");
        assert!(alone.contains("prefers-color-scheme:dark") && alone.contains("a&lt;b"));
        assert!(alone.contains("xmlns") && alone.contains("min-width:640px"));
        assert!(
            !Frame::File
                .open(50.0, 100.0, "x")
                .contains("min-width:640px")
        );
        let inside = Frame::Page.open(100.0, 50.0, "x");
        assert!(!inside.contains("<style>") && !inside.contains("http"));
        // Every colour that the rules name is there, in both schemes.
        for part in STYLE.split("var(--").skip(1) {
            let name = part.split(')').next().unwrap_or_default();
            let name = format!("--{name}:");
            assert!(LIGHT.contains(&name) && DARK.contains(&name), "{name}");
        }
        assert_eq!(LIGHT.matches("--s").count(), SERIES);
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(short("ab", 3), "ab");
        assert_eq!(short("abcdé", 4), "abc…");
    }
}
