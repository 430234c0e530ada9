//! The runs of every setting as a picture: one row a setting, one dot a run, at its distance from the setting's median.
//!
//! Causes differ by orders of magnitude, and the least of them is a few instructions: the axis is logarithmic to both
//! sides, linear within one instruction (x = sign(d) · log10(1 + |d|)). Colours come from the page's style sheet; the
//! picture alone brings its own.

use std::fmt::Write as _;

use super::document::{Document, Spread, median};
use super::text::{plus_minus, said};
use crate::render::markup::escape;
use truecount_run::determinism::Factor;

/// Width of the picture, in its own units.
const WIDTH: f64 = 980.0;
/// Where the axis begins, and where it ends.
const LEFT: f64 = 286.0;
const RIGHT: f64 = 716.0;
/// Right end of the numbers, left of the verdicts.
const NUMBERS: f64 = 800.0;
const VERDICTS: f64 = 814.0;
/// Height of a row, and of what is above the first.
const ROW: f64 = 40.0;
const TOP: f64 = 30.0;

/// Styles of the picture; `--…` are colours of the page.
pub(super) const STYLE: &str = "\
.strip text{fill:var(--text);font-size:13px}.strip .name{text-anchor:end}.strip .n{text-anchor:end;font-weight:600}\
.strip .t{text-anchor:middle;fill:var(--dim);font-size:12px}.strip .dim{fill:var(--dim)}\
.strip line{stroke:var(--line)}.strip line.zero{stroke:var(--dim);stroke-dasharray:3 3}\
.strip rect{fill-opacity:.18}.strip circle{fill-opacity:.72}\
.strip .cause rect,.strip .cause circle,.strip .cause .n,.strip .cause .v{fill:var(--bad)}\
.strip .none rect,.strip .none circle,.strip .none .n,.strip .none .v{fill:var(--good)}\
.strip .still rect,.strip .still circle,.strip .still .n,.strip .still .v{fill:var(--dim)}\
.strip .all rect,.strip .all circle,.strip .all .n,.strip .all .v{fill:var(--s0)}";

/// A row.
struct Row<'d> {
    name: &'d str,
    class: &'static str,
    spread: &'d Spread,
    verdict: String,
}

fn rows(document: &Document) -> Vec<Row<'_>> {
    let mut factors: Vec<&Spread> = document.factors.iter().collect();
    let size = |spread: &Spread| spread.plus_minus.unwrap_or(-1.0);
    factors.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let mut rows: Vec<Row<'_>> = factors
        .into_iter()
        .map(|spread| Row {
            name: spread.factor.map_or("", Factor::title),
            class: match (spread.cause, spread.p) {
                (Some(true), _) => "cause",
                (Some(false), None) => "none",
                _ => "still",
            },
            verdict: said(spread),
            spread,
        })
        .collect();
    let quiet = document.residual.plus_minus == Some(0.0);
    rows.push(Row {
        name: "nothing (residual)",
        class: if quiet { "none" } else { "still" },
        spread: &document.residual,
        verdict: match document.residual.plus_minus {
            Some(0.0) => "every run the same".to_owned(),
            Some(_) => "cannot be held constant".to_owned(),
            None => "too few runs".to_owned(),
        },
    });
    rows.push(Row {
        name: "everything",
        class: "all",
        spread: &document.together,
        verdict: "as usual".to_owned(),
    });
    rows
}

fn distance(count: u64, median: u64) -> f64 {
    let size = count.abs_diff(median) as f64;
    if count < median { -size } else { size }
}

/// Where a distance is on the axis, from -1 to 1, for the largest distance.
fn place(distance: f64, largest: f64) -> f64 {
    let log = |size: f64| (1.0 + size).log10();
    distance.signum() * log(distance.abs()) / log(largest.max(9.0))
}

fn x(place: f64) -> f64 {
    let (middle, half) = (f64::midpoint(LEFT, RIGHT), (RIGHT - LEFT) / 2.0 - 10.0);
    middle + place * half
}

/// A power of ten in few characters.
fn power(size: f64) -> String {
    let units = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(unit, _)| size >= *unit) {
        Some((unit, name)) => format!("{:.0} {name}", size / unit),
        None => format!("{size:.0}"),
    }
}

fn ticks(h: &mut String, largest: f64, bottom: f64) {
    let powers = (0..19).map(|power| 10f64.powi(power));
    let all: Vec<f64> = powers
        .take_while(|&tick| tick <= largest.max(9.0))
        .collect();
    // 1, 10, 100 … leave room for four labels on each side.
    let every = all.len().div_ceil(4).max(1);
    let mut tick = |at: f64, text: &str, class: &str| {
        let x = x(at);
        let _ = write!(
            h,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"t\" x=\"{x:.1}\" y=\"{:.1}\">{text}</text>",
            TOP - 10.0
        );
    };
    tick(0.0, "median", "zero");
    for size in all.iter().rev().step_by(every) {
        // Labels nearer to the middle would run into its own.
        if place(*size, largest) > 0.2 {
            tick(place(*size, largest), &format!("+{}", power(*size)), "grid");
            tick(
                place(-*size, largest),
                &format!("−{}", power(*size)),
                "grid",
            );
        }
    }
}

fn strip(h: &mut String, row: &Row<'_>, top: f64, largest: f64) {
    let middle = top + ROW / 2.0;
    let _ = write!(
        h,
        "<g class=\"{}\"><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        row.class,
        LEFT - 14.0,
        middle + 4.5,
        escape(row.name)
    );
    let counts = &row.spread.counts;
    if let (Some(center), Some(min), Some(max)) = (median(counts), row.spread.min, row.spread.max) {
        let at = |count: u64| x(place(distance(count, center), largest));
        let (from, to) = (at(min) - 6.0, at(max) + 6.0);
        let _ = write!(
            h,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"6\"/>",
            top + 5.0,
            to - from,
            ROW - 10.0
        );
        // From top to bottom in the order of runs.
        let step = (ROW - 18.0) / (counts.len() as f64 - 1.0).max(1.0);
        for (index, &count) in counts.iter().enumerate() {
            let y = if counts.len() == 1 {
                middle
            } else {
                top + 9.0 + index as f64 * step
            };
            let _ = write!(
                h,
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"3.2\"><title>run {}: {count}</title></circle>",
                at(count),
                index + 1
            );
        }
    }
    let _ = write!(
        h,
        "<text class=\"n\" x=\"{NUMBERS}\" y=\"{0:.1}\">{1}</text><text class=\"v\" x=\"{VERDICTS}\" y=\"{0:.1}\">{2}</text></g>",
        middle + 4.5,
        escape(&plus_minus(row.spread)),
        escape(&row.verdict)
    );
}

/// The picture, for a page that has [`STYLE`] and its colours.
pub(super) fn picture(document: &Document, style: &str) -> String {
    let rows = rows(document);
    let largest = rows
        .iter()
        .flat_map(|row| {
            let center = median(&row.spread.counts).unwrap_or(0);
            let counts = row.spread.counts.iter();
            counts.map(move |&count| distance(count, center).abs())
        })
        .fold(0.0, f64::max);
    // A gap before what is not a factor.
    let gap = 14.0;
    let bottom = TOP + rows.len() as f64 * ROW + gap;
    let mut h = String::new();
    let _ = write!(
        h,
        "<svg class=\"strip\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" \
         aria-label=\"Distance of every run from the median of its setting\">{style}",
        bottom + 10.0
    );
    ticks(&mut h, largest, bottom);
    let factors = document.factors.len();
    for (index, row) in rows.iter().enumerate() {
        let below = if index >= factors { gap } else { 0.0 };
        strip(&mut h, row, TOP + index as f64 * ROW + below, largest);
    }
    let line = TOP + factors as f64 * ROW + gap / 2.0;
    let _ = write!(
        h,
        "<line x1=\"20\" x2=\"{:.0}\" y1=\"{line:.1}\" y2=\"{line:.1}\"/></svg>",
        WIDTH - 20.0
    );
    h
}

/// The picture as a file of its own.
pub(super) fn alone(document: &Document) -> String {
    const COLOURS: &str = "svg{--back:#fff;--text:#1d232b;--dim:#667080;--line:#dfe3e8;--good:#1a7f43;--bad:#c0352b;\
        --s0:#3366cc;font-family:system-ui,'DejaVu Sans',sans-serif;background:var(--back)}\
        @media(prefers-color-scheme:dark){svg{--back:#14181d;--text:#e4e8ed;--dim:#93a0ae;--line:#2c343d;\
        --good:#55c98a;--bad:#f0766b;--s0:#7da7ff}}";
    picture(document, &format!("<style>{COLOURS}{STYLE}</style>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_symmetric_and_ends_at_the_largest() {
        assert!((place(15_000.0, 15_000.0) - 1.0).abs() < 1e-9);
        assert!((place(-15_000.0, 15_000.0) + 1.0).abs() < 1e-9);
        assert!(place(0.0, 0.0).abs() < 1e-9);
        assert!(place(1.0, 15_000.0) > 0.05 && place(10.0, 15_000.0) > place(1.0, 15_000.0));
        assert!(x(-1.0) > LEFT && x(1.0) < RIGHT);
        assert!(distance(3, 7) < 0.0 && distance(u64::MAX, 0) > 0.0);
        assert_eq!(median(&[9, 1, 5]), Some(5));
        assert_eq!(median(&[]), None);
        let told = [1.0, 100.0, 1e3, 1e5, 1e6].map(power);
        assert_eq!(told, ["1", "100", "1 k", "100 k", "1 M"]);
    }
}
