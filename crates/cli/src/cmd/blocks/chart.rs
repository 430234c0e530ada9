//! Histograms as SVG: bars on a linear or logarithmic axis, modes marked, the prefetch window as a bracket, two
//! series laid over each other. Nothing in it but text and shapes: it opens in any browser.

use std::fmt::Write as _;

use truecount_sample::blocks::{Histogram, PrefetchWindow};

use super::view::cycles as number;
use crate::render::markup::escape;

/// One histogram of a chart.
pub(super) struct Series {
    pub(super) name: String,
    /// As counted, for the legend.
    pub(super) median: Option<u16>,
    /// As drawn.
    pub(super) cycles: Histogram,
}

impl Series {
    pub(super) fn new(name: String, cycles: Histogram) -> Self {
        Self {
            name,
            median: cycles.percentile(0.5),
            cycles,
        }
    }
}

/// A bar: values from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) count: u64,
}

/// Where bars begin and end: at most about `most` of them, of equal width or (`log`) of equal ratio.
struct Axis {
    edges: Vec<(u16, u16)>,
    log: bool,
    /// Ratio of a bar's end to its beginning on a logarithmic axis, before it is rounded to whole cycles.
    ratio: f64,
}

impl Axis {
    fn of(h: &Histogram, most: usize) -> Self {
        let low = h.bins().first().map_or(1, |b| b.0).max(1);
        let top = h.bins().last().map_or(1, |b| b.0).max(low);
        // The last half percent may reach far (interrupts): the axis ends before, the text says what is beyond.
        let near = f64::from(h.percentile(0.995).unwrap_or(top)) * 1.15 + 2.0;
        let high = (near.min(f64::from(top)) as u16).max(low);
        let log = f64::from(high) / f64::from(low) > 24.0 && high > 48;
        let mut edges = Vec::new();
        let ratio = (f64::from(high) / f64::from(low)).powf(1.0 / most.max(1) as f64);
        let width = (u32::from(high - low) + 1)
            .div_ceil(most.max(1) as u32)
            .max(1);
        let mut at = u32::from(low);
        while at <= u32::from(high) {
            let next = if log {
                ((f64::from(at) * ratio).ceil() as u32).max(at + 1)
            } else {
                at + width
            };
            let last = (next - 1).min(u32::from(u16::MAX));
            edges.push((at as u16, last as u16));
            at = next;
        }
        Self { edges, log, ratio }
    }

    /// What a bar's share is multiplied with, so that its area tells the share: whole cycles make bars of a
    /// logarithmic axis unequally wide.
    fn scale(&self, bin: &Bin) -> f64 {
        if !self.log {
            return 1.0;
        }
        let own = ((f64::from(bin.last) + 1.0) / f64::from(bin.first.max(1))).ln();
        self.ratio.ln().max(1e-9) / own.max(1e-9)
    }

    fn count(&self, h: &Histogram) -> Vec<Bin> {
        let mut out: Vec<Bin> = self
            .edges
            .iter()
            .map(|&(first, last)| Bin {
                first,
                last,
                count: 0,
            })
            .collect();
        for (value, n) in h.bins() {
            let i = out.partition_point(|b| b.last < *value);
            if let Some(bin) = out.get_mut(i)
                && bin.first <= *value
            {
                bin.count += n;
            }
        }
        out
    }
}

/// Bars of one histogram.
pub(super) fn bins(h: &Histogram, most: usize) -> Vec<Bin> {
    Axis::of(h, most).count(h)
}

const COLORS: [&str; 2] = ["#2563eb", "#ea580c"];
const INK: &str = "#1f2937";
const FAINT: &str = "#6b7280";

/// The chart of one or two histograms of the same block.
pub(super) fn chart(title: &str, series: &[Series], width: u32, height: u32) -> String {
    let all = series
        .iter()
        .fold(Histogram::default(), |sum, s| sum.merged(&s.cycles));
    let axis = Axis::of(&all, 96);
    // Each bar with its height.
    let counted: Vec<Vec<(Bin, f64)>> = series
        .iter()
        .map(|s| {
            let all = s.cycles.total().max(1) as f64;
            let height = |b: Bin| (b, axis.scale(&b) * 100.0 * b.count as f64 / all);
            axis.count(&s.cycles).into_iter().map(height).collect()
        })
        .collect();
    let top = counted.iter().flatten().map(|b| b.1).fold(0.1f64, f64::max);
    let plot = Plot {
        left: 64.0,
        right: f64::from(width) - 20.0,
        top: 104.0,
        bottom: f64::from(height) - 52.0,
        low: f64::from(axis.edges.first().map_or(1, |e| e.0)),
        high: f64::from(axis.edges.last().map_or(1, |e| e.1)) + 1.0,
        log_x: axis.log,
        // A mode whose bar would be a line at the bottom asks for a logarithmic height.
        log_y: series.iter().zip(&counted).any(|(s, bins)| {
            s.cycles.modes().iter().any(|m| {
                let at = bins.iter().find(|(b, _)| {
                    (f64::from(b.first)..f64::from(b.last) + 1.0).contains(&m.cycles)
                });
                at.is_some_and(|b| b.1 < top * 0.04)
            })
        }),
        max: top * 1.08,
        min: 0.01,
    };
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" font-family=\"system-ui, sans-serif\" role=\"img\" aria-label=\"{0}\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
         <text x=\"20\" y=\"28\" font-size=\"17\" font-weight=\"600\" fill=\"{INK}\">{0}</text>",
        escape(title)
    );
    legend(&mut svg, series);
    axes(&mut svg, &plot, f64::from(height));
    for (i, (bins, s)) in counted.iter().zip(series).enumerate() {
        bars(
            &mut svg,
            &plot,
            bins,
            s,
            COLORS.get(i % 2).copied().unwrap_or(INK),
            series.len() > 1,
        );
    }
    for (i, s) in series.iter().enumerate() {
        marks(
            &mut svg,
            &plot,
            s,
            i,
            COLORS.get(i % 2).copied().unwrap_or(INK),
            series.len() > 1,
        );
    }
    let beyond: u64 = series
        .iter()
        .flat_map(|s| s.cycles.bins())
        .filter(|(c, _)| f64::from(*c) >= plot.high)
        .map(|b| b.1)
        .sum();
    if beyond > 0 {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"{FAINT}\" text-anchor=\"end\">{beyond} beyond →</text>",
            plot.right,
            plot.bottom + 38.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}

struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    low: f64,
    high: f64,
    log_x: bool,
    log_y: bool,
    max: f64,
    min: f64,
}

impl Plot {
    fn x(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let part = if self.log_x {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.left + part * (self.right - self.left)
    }

    fn y(&self, percent: f64) -> f64 {
        let part = if self.log_y {
            (percent.max(self.min) / self.min).ln() / (self.max / self.min).ln()
        } else {
            percent / self.max
        };
        self.bottom - part * (self.bottom - self.top)
    }
}

fn legend(svg: &mut String, series: &[Series]) {
    let mut x = 20.0;
    for (i, s) in series.iter().enumerate() {
        let color = COLORS.get(i % 2).copied().unwrap_or(INK);
        let median = s
            .median
            .map_or_else(String::new, |m| format!(", median {m} cycles"));
        let text = format!(
            "{}: {} executions{median}",
            s.name,
            truecount_model::number::grouped(s.cycles.total()),
        );
        let _ = write!(
            svg,
            "<rect x=\"{x:.0}\" y=\"40\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{color}\"/>\
             <text x=\"{:.0}\" y=\"50\" font-size=\"13\" fill=\"{INK}\">{}</text>",
            x + 18.0,
            escape(&text)
        );
        x += 40.0 + 6.8 * text.chars().count() as f64;
    }
}

/// Round numbers between `low` and `high`.
fn ticks(low: f64, high: f64, log: bool) -> Vec<f64> {
    let mut out = Vec::new();
    if log {
        let mut decade = 1.0;
        while decade <= high {
            let steps: &[f64] = if high / low > 200.0 {
                &[1.0, 3.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            out.extend(
                steps
                    .iter()
                    .map(|s| s * decade)
                    .filter(|v| (low..=high).contains(v)),
            );
            decade *= 10.0;
        }
        return out;
    }
    let raw = (high - low) / 8.0;
    let magnitude = 10f64.powf(raw.max(1e-9).log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|s| s * magnitude)
        .find(|s| *s >= raw);
    let step = nice.unwrap_or(1.0);
    let mut at = (low / step).ceil() * step;
    while at <= high && out.len() < 40 {
        out.push(at);
        at += step;
    }
    out
}

fn axes(svg: &mut String, p: &Plot, height: f64) {
    for value in ticks(p.low, p.high, p.log_x) {
        if value.fract() > 0.0 {
            continue;
        }
        // A value's tick stands in the middle of its own width where that is visible.
        let x = p.x(value + if p.log_x { 0.0 } else { 0.5 });
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{0:.1}\" y2=\"{1:.1}\" stroke=\"{FAINT}\"/>\
             <text x=\"{x:.1}\" y=\"{2:.1}\" font-size=\"12\" fill=\"{FAINT}\" text-anchor=\"middle\">{value:.0}</text>",
            p.bottom,
            p.bottom + 5.0,
            p.bottom + 19.0
        );
    }
    let heights = if p.log_y {
        [0.01, 0.1, 1.0, 10.0, 100.0]
            .into_iter()
            .filter(|v| *v <= p.max)
            .collect()
    } else {
        ticks(0.0, p.max, false)
    };
    for value in heights {
        let y = p.y(value);
        let _ = write!(
            svg,
            "<line x1=\"{0:.1}\" x2=\"{1:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e5e7eb\"/>\
             <text x=\"{2:.1}\" y=\"{3:.1}\" font-size=\"12\" fill=\"{FAINT}\" text-anchor=\"end\">{value} %</text>",
            p.left,
            p.right,
            p.left - 8.0,
            y + 4.0
        );
    }
    let scale = match (p.log_x, p.log_y) {
        (true, true) => " (both axes logarithmic)",
        (true, false) => " (logarithmic)",
        (false, true) => " (height logarithmic)",
        (false, false) => "",
    };
    let unit = if p.log_x {
        "area: share of the executions"
    } else {
        "height: share of the executions"
    };
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"13\" fill=\"{INK}\" text-anchor=\"middle\">cycles per execution{scale}; {unit}</text>",
        (p.left + p.right) / 2.0,
        height - 10.0
    );
}

fn bars(svg: &mut String, p: &Plot, bins: &[(Bin, f64)], s: &Series, color: &str, overlaid: bool) {
    let opacity = if overlaid { 0.45 } else { 0.85 };
    let _ = write!(svg, "<g fill=\"{color}\" fill-opacity=\"{opacity}\">");
    for (bin, height) in bins.iter().filter(|b| b.0.count > 0) {
        let percent = 100.0 * bin.count as f64 / s.cycles.total().max(1) as f64;
        let (x0, x1) = (p.x(f64::from(bin.first)), p.x(f64::from(bin.last) + 1.0));
        let y = p.y(*height);
        let label = if bin.first == bin.last {
            format!("{} cycles", bin.first)
        } else {
            format!("{}–{} cycles", bin.first, bin.last)
        };
        let _ = write!(
            svg,
            "<rect x=\"{x0:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}: {label}: {} ({percent:.2} %)</title></rect>",
            (x1 - x0 - 0.6).max(0.8),
            (p.bottom - y).max(0.0),
            escape(&s.name),
            bin.count
        );
    }
    svg.push_str("</g>");
}

/// Modes as lines with labels, and the window from the first to the miss.
fn marks(svg: &mut String, p: &Plot, s: &Series, index: usize, color: &str, overlaid: bool) {
    let modes = s.cycles.modes();
    // Each series has its own two rows of labels above the plot.
    let row = p.top - 20.0 + if overlaid { 0.0 } else { 6.0 } + 13.0 * index as f64;
    let mut last_end = f64::MIN;
    let mut heavy: Vec<_> = modes.iter().filter(|m| m.weight >= 0.02).collect();
    heavy.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
    for mode in heavy {
        let x = p.x(mode.cycles + if p.log_x { 0.25 } else { 0.5 });
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{color}\" stroke-dasharray=\"3 3\"/>",
            row + 3.0,
            p.bottom
        );
        let text = format!("{} ({:.0} %)", number(mode.cycles), 100.0 * mode.weight);
        let half = 3.8 * text.chars().count() as f64;
        let center = x.max(last_end + half + 6.0).max(p.left + half - 30.0);
        if center + half > p.right + 18.0 {
            continue;
        }
        let _ = write!(
            svg,
            "<text x=\"{center:.1}\" y=\"{row:.1}\" font-size=\"12\" font-weight=\"600\" fill=\"{color}\" text-anchor=\"middle\">{text}</text>"
        );
        last_end = center + half;
    }
    if index == 0
        && let Some(w) = PrefetchWindow::of(&s.cycles, false)
    {
        let (x0, x1) = (p.x(w.base + 0.5), p.x(w.miss + 0.5));
        let y = p.top - 43.0;
        if x1 - x0 > 60.0 {
            let _ = write!(
                svg,
                "<path d=\"M{x0:.1} {0:.1}v-8H{x1:.1}v8\" fill=\"none\" stroke=\"{FAINT}\"/>\
                 <rect x=\"{1:.1}\" y=\"{2:.1}\" width=\"196\" height=\"15\" fill=\"#fff\"/>\
                 <text x=\"{3:.1}\" y=\"{4:.1}\" font-size=\"12\" fill=\"{INK}\" text-anchor=\"middle\">prefetch window: {5} cycles</text>",
                y + 8.0,
                (x0 + x1) / 2.0 - 98.0,
                y - 8.0,
                (x0 + x1) / 2.0,
                y + 4.0,
                number(w.window)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Series, bins, chart};
    use truecount_sample::blocks::Histogram;

    #[test]
    fn no_execution_is_lost_in_the_bars() {
        let h = Histogram::new((1..400).map(|c| (c, u64::from(c % 7))).collect());
        let total: u64 = bins(&h, 24).iter().map(|b| b.count).sum();
        assert!(total as f64 >= 0.98 * h.total() as f64);
        let narrow = Histogram::new(vec![(3, 10), (5, 20)]);
        assert_eq!(bins(&narrow, 24).iter().map(|b| b.count).sum::<u64>(), 30);
        assert!(bins(&Histogram::default(), 24).iter().all(|b| b.count == 0));
    }

    #[test]
    fn a_chart_is_well_formed() {
        let s = |h| Series::new("a<b & \"c\"".to_owned(), h);
        let svg = chart(
            "x<y",
            &[
                s(Histogram::new(vec![(20, 900), (300, 100)])),
                s(Histogram::default()),
            ],
            960,
            420,
        );
        assert!(
            svg.starts_with("<svg")
                && svg.ends_with("</svg>\n")
                && !svg.contains("x<y")
                && !svg.contains("NaN")
        );
    }
}
