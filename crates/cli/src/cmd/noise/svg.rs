//! The runs of every setting as a picture: one row a setting, one dot a run, at its distance from the setting's median.
//!
//! Causes differ by orders of magnitude, and the least of them is a few instructions: the axis is logarithmic to both
//! sides, linear within one instruction.

use std::fmt::Write as _;

use super::document::Document;
use super::text::{plus_minus, said};
use crate::render::charts::{Axis, Frame, Scale, columns};
use crate::render::markup::escape;
use truecount_lab::noise::Spread;
use truecount_run::determinism::Factor;
use truecount_stats::median;

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

/// A row.
struct Row<'d> {
    name: &'d str,
    class: &'static str,
    spread: &'d Spread,
    verdict: String,
}

fn rows(document: &Document) -> Vec<Row<'_>> {
    let mut factors: Vec<&Spread> = document.findings.factors.iter().collect();
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
    let quiet = document.findings.residual.plus_minus == Some(0.0);
    rows.push(Row {
        name: "nothing (residual)",
        class: if quiet { "none" } else { "still" },
        spread: &document.findings.residual,
        verdict: match document.findings.residual.plus_minus {
            Some(0.0) => "every run the same".to_owned(),
            Some(_) => "cannot be held constant".to_owned(),
            None => "too few runs".to_owned(),
        },
    });
    rows.push(Row {
        name: "everything",
        class: "all",
        spread: &document.findings.together,
        verdict: "as usual".to_owned(),
    });
    rows
}

fn distance(count: u64, median: u64) -> f64 {
    let size = count.abs_diff(median) as f64;
    if count < median { -size } else { size }
}

/// The axis to the largest distance; at least to one digit.
fn axis(largest: f64) -> Axis {
    let largest = largest.max(9.0);
    let stretch = (LEFT + 10.0, RIGHT - 10.0);
    Axis::new(-largest, largest, Scale::SymmetricLog, stretch)
}

/// A power of ten in few characters.
fn power(size: f64) -> String {
    let units = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(unit, _)| size >= *unit) {
        Some((unit, name)) => format!("{:.0} {name}", size / unit),
        None => format!("{size:.0}"),
    }
}

/// What stands at a tick.
fn label(distance: f64) -> String {
    match distance {
        0.0 => "median".to_owned(),
        size if size < 0.0 => format!("−{}", power(-size)),
        size => format!("+{}", power(size)),
    }
}

fn strip(h: &mut String, row: &Row<'_>, top: f64, axis: &Axis) {
    let middle = top + ROW / 2.0;
    let _ = write!(
        h,
        "<g class=\"strip {}\"><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        row.class,
        LEFT - 14.0,
        middle + 4.5,
        escape(row.name)
    );
    let counts = &row.spread.counts;
    if let (Some(center), Some(min), Some(max)) = (median(counts), row.spread.min, row.spread.max) {
        let at = |count: u64| axis.at(distance(count, center));
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

/// The picture.
pub(super) fn picture(document: &Document, frame: Frame) -> String {
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
    let axis = axis(largest);
    let told = "Distance of every run from the median of its setting";
    let mut h = frame.open(WIDTH, bottom + 10.0, told);
    columns(&mut h, &axis, 9, (TOP, bottom, TOP - 10.0), label);
    let factors = document.findings.factors.len();
    for (index, row) in rows.iter().enumerate() {
        let below = if index >= factors { gap } else { 0.0 };
        strip(&mut h, row, TOP + index as f64 * ROW + below, &axis);
    }
    let line = TOP + factors as f64 * ROW + gap / 2.0;
    let _ = write!(
        h,
        "<line x1=\"20\" x2=\"{:.0}\" y1=\"{line:.1}\" y2=\"{line:.1}\"/></svg>",
        WIDTH - 20.0
    );
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_symmetric_and_ends_at_the_largest() {
        let axis = axis(15_000.0);
        assert!(axis.at(-15_000.0) >= LEFT && axis.at(15_000.0) <= RIGHT);
        assert!(axis.at(1.0) > axis.at(0.0) && axis.at(10.0) > axis.at(1.0));
        let labels: Vec<String> = axis.ticks(9).into_iter().map(label).collect();
        assert!(labels.contains(&"median".to_owned()), "{labels:?}");
        assert!(labels.contains(&"+10 k".to_owned()), "{labels:?}");
        assert!(labels.contains(&"−10 k".to_owned()), "{labels:?}");
        assert!(distance(3, 7) < 0.0 && distance(u64::MAX, 0) > 0.0);
        assert_eq!(median(&[9, 1, 5]), Some(5));
        assert_eq!(median(&[]), None);
        let told = [1.0, 100.0, 1e3, 1e5, 1e6].map(power);
        assert_eq!(told, ["1", "100", "1 k", "100 k", "1 M"]);
    }
}
