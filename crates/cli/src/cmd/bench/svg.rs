//! Pictures of samples: a strip of dots for each command over one axis, and intervals of changes.

use std::fmt::Write as _;

use crate::render::charts::{Axis, Frame, SERIES, columns, short};
use crate::render::markup::escape;

/// Width of a picture, in its own units.
const WIDTH: f64 = 900.0;
/// Where the axis begins: room for names on the left.
const LEFT: f64 = 190.0;
/// And where it ends.
const RIGHT: f64 = 856.0;
/// Height of one command's row.
const ROW: f64 = 44.0;
/// Characters that fit the left margin.
const NAME: usize = 26;

/// One command's samples.
pub(super) struct Strip<'a> {
    pub(super) name: &'a str,
    pub(super) samples: Vec<f64>,
    pub(super) median: f64,
    pub(super) q1: f64,
    pub(super) q3: f64,
}

/// Dots, quartiles and median of each command over one axis.
pub(super) fn strips(strips: &[Strip<'_>], label: impl Fn(f64) -> String + Copy) -> String {
    let all = || {
        strips
            .iter()
            .flat_map(|strip| strip.samples.iter().copied())
    };
    let low = all().fold(f64::INFINITY, f64::min);
    let high = all().fold(f64::NEG_INFINITY, f64::max);
    if !low.is_finite() || !high.is_finite() {
        return String::new();
    }
    // A few far outliers must not squeeze all the rest into a line: they stand at the edge.
    let fence = |strip: &Strip<'_>| 5.0 * (strip.q3 - strip.q1).max(0.002 * strip.median.abs());
    let from = strips
        .iter()
        .map(|s| s.q1 - fence(s))
        .fold(f64::INFINITY, f64::min);
    let to = strips
        .iter()
        .map(|s| s.q3 + fence(s))
        .fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (low.max(from).min(high), high.min(to).max(low));
    let axis = Axis::over(low, high, (LEFT, RIGHT));
    let bottom = ROW * strips.len() as f64 + 8.0;
    let height = bottom + 26.0;
    let mut svg = Frame::Page.open(WIDTH, height, "distribution");
    columns(&mut svg, &axis, 6, (4.0, bottom, bottom + 17.0), label);
    for (index, strip) in strips.iter().enumerate() {
        let middle = ROW * index as f64 + ROW / 2.0 + 4.0;
        let series = index % SERIES;
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\"><title>{}</title>{}</text>",
            LEFT - 14.0,
            middle + 4.0,
            escape(strip.name),
            escape(&short(strip.name, NAME))
        );
        let (from, to) = (axis.at(strip.q1), axis.at(strip.q3));
        let _ = writeln!(
            svg,
            "<rect class=\"box s{series}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"26\" rx=\"3\"/>",
            from - 1.0,
            middle - 13.0,
            (to - from).max(0.0) + 2.0
        );
        for (order, sample) in strip.samples.iter().enumerate() {
            // Spread over the row in the order measured, so that drift shows as a slope.
            let share = (order as f64 + 0.5) / strip.samples.len() as f64;
            let place = axis.at(*sample).clamp(LEFT, RIGHT);
            let edge = if place == axis.at(*sample) {
                ""
            } else {
                " edge"
            };
            let _ = writeln!(
                svg,
                "<circle class=\"dot s{series}{edge}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.6\"><title>{}</title></circle>",
                place,
                middle + (share - 0.5) * 24.0,
                escape(&label(*sample))
            );
        }
        let x = axis.at(strip.median);
        let _ = writeln!(
            svg,
            "<line class=\"median s{series}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            middle - 17.0,
            middle + 17.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// One interval of a change against the line "no change", with the floor as a band. All are shares.
pub(super) fn change(low: f64, centre: f64, high: f64, floor: f64) -> String {
    const HALF: f64 = 90.0;
    let reach = [low, centre, high, floor * 2.0]
        .into_iter()
        .filter(|value| value.is_finite())
        .fold(0.0f64, |most, value| most.max(value.abs()))
        .max(1e-9);
    let x = |value: f64| HALF + (value.clamp(-reach, reach) / reach) * (HALF - 6.0);
    let (from, to) = (x(low), x(high));
    format!(
        "<svg class=\"forest\" viewBox=\"0 0 180 20\" role=\"img\" aria-label=\"interval\">\
         <rect class=\"floor\" x=\"{:.1}\" y=\"2\" width=\"{:.1}\" height=\"16\"/>\
         <line class=\"zero\" x1=\"90\" x2=\"90\" y1=\"0\" y2=\"20\"/>\
         <line class=\"reach\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"10\" y2=\"10\"/>\
         <circle class=\"centre\" cx=\"{:.1}\" cy=\"10\" r=\"3.5\"/></svg>",
        x(-floor),
        x(floor) - x(-floor),
        x(centre)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(samples: &[f64]) -> Strip<'static> {
        Strip {
            name: "a<b>",
            samples: samples.to_vec(),
            median: samples[0],
            q1: samples[0],
            q3: samples[0],
        }
    }

    #[test]
    fn equal_samples_and_zeros_give_finite_numbers() {
        for samples in [
            vec![0.0, 0.0],
            vec![5.0],
            vec![1e18, 1e18],
            vec![0.0, 1e12],
            vec![1.0, 1e9],
        ] {
            let svg = strips(&[strip(&samples)], |value| format!("{value}"));
            assert!(svg.contains("<circle"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
            assert!(svg.contains("a&lt;b&gt;"));
        }
        assert_eq!(strips(&[strip(&[f64::NAN])], |_| String::new()), "");
    }
}
