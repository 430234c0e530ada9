//! Histograms of cycles: bars on a linear or logarithmic axis, modes marked, the prefetch window as a bracket, two series
//! laid over each other.

use std::fmt::Write as _;

use truecount_sample::blocks::{Histogram, PrefetchWindow};

use super::{Axis, Frame, Scale, plain};
use crate::render::cycles::cycles as number;
use crate::render::markup::escape;
use truecount_model::number::grouped;

/// Width of a picture, in its own units, and where its plot stands.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 20.0;
/// Width of a letter of the labels, about.
const LETTER: f64 = 7.2;

/// One histogram of a chart.
pub(crate) struct Series {
    pub(crate) name: String,
    /// As counted, for the legend.
    pub(crate) median: Option<u16>,
    /// As drawn.
    pub(crate) cycles: Histogram,
}

impl Series {
    pub(crate) fn new(name: String, cycles: Histogram) -> Self {
        Self {
            name,
            median: cycles.percentile(0.5),
            cycles,
        }
    }
}

/// A bar: values from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bin {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) count: u64,
}

/// Where bars begin and end: at most about `most` of them, of equal width or (`log`) of equal ratio.
struct Edges {
    edges: Vec<(u16, u16)>,
    log: bool,
    /// Ratio of a bar's end to its beginning on a logarithmic axis, before it is rounded to whole cycles.
    ratio: f64,
    /// Some bar has several values: what it is high depends on how many it takes.
    joined: bool,
}

impl Edges {
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
        let values = |&(first, last): &(u16, u16)| {
            let from = h.bins().partition_point(|(value, _)| *value < first);
            let to = h.bins().partition_point(|(value, _)| *value <= last);
            to - from
        };
        let joined = edges.iter().any(|edge| values(edge) > 1);
        Self {
            edges,
            log,
            ratio,
            joined,
        }
    }

    /// Whether a bar's area tells the share, rather than its height: whole cycles make bars of a logarithmic axis
    /// unequally wide, so that values close to each other would stand as a comb.
    fn by_area(&self) -> bool {
        self.log && self.joined
    }

    /// What a bar's share is multiplied with for its height.
    fn scale(&self, bin: &Bin) -> f64 {
        if !self.by_area() {
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
pub(crate) fn bins(h: &Histogram, most: usize) -> Vec<Bin> {
    Edges::of(h, most).count(h)
}

/// The chart of one or two histograms of the same block, `height` units high, with the prefetch window that the text
/// tells of, if any.
pub(crate) fn chart(
    frame: Frame,
    title: &str,
    series: &[Series],
    window: Option<&PrefetchWindow>,
    height: f64,
) -> String {
    let all = series
        .iter()
        .fold(Histogram::default(), |sum, s| sum.merged(&s.cycles));
    let edges = Edges::of(&all, 96);
    // Each bar with its height.
    let counted: Vec<Vec<(Bin, f64)>> = series
        .iter()
        .map(|s| {
            let all = s.cycles.total().max(1) as f64;
            let height = |b: Bin| (b, edges.scale(&b) * 100.0 * b.count as f64 / all);
            edges.count(&s.cycles).into_iter().map(height).collect()
        })
        .collect();
    let most = counted.iter().flatten().map(|b| b.1).fold(0.1f64, f64::max);
    // A mode whose bar would be a line at the bottom asks for a logarithmic height.
    let flat = series.iter().zip(&counted).any(|(s, bins)| {
        s.cycles.modes().iter().any(|m| {
            let at = bins
                .iter()
                .find(|(b, _)| (f64::from(b.first)..f64::from(b.last) + 1.0).contains(&m.cycles));
            at.is_some_and(|b| b.1 < most * 0.04)
        })
    });
    // From the top: title, a line for each series, the window, a line of modes for each series, the plot.
    let n = series.len() as f64;
    let bracket = 44.0 + 18.0 * n;
    let modes = bracket + if window.is_some() { 34.0 } else { 14.0 };
    let top = modes + 15.0 * (n - 1.0) + 6.0;
    let bottom = height - 52.0;
    let x_scale = if edges.log { Scale::Log } else { Scale::Linear };
    let (low, high) = (
        f64::from(edges.edges.first().map_or(1, |e| e.0)),
        f64::from(edges.edges.last().map_or(1, |e| e.1)) + 1.0,
    );
    let (y_low, y_scale) = if flat {
        (0.01, Scale::Log)
    } else {
        (0.0, Scale::Linear)
    };
    let plot = Plot {
        x: Axis::new(low, high, x_scale, (LEFT, RIGHT)),
        y: Axis::new(y_low, most * 1.08, y_scale, (bottom, top)),
        top,
        bottom,
        by_area: edges.by_area(),
    };
    let mut svg = frame.open(WIDTH, height, title);
    let _ = write!(
        svg,
        "<text class=\"title\" x=\"20\" y=\"26\">{}</text>",
        escape(&super::short(title, 90))
    );
    axes(&mut svg, &plot, height);
    let kind = if series.len() > 1 {
        "overlaid"
    } else {
        "solid"
    };
    for (i, (bins, s)) in counted.iter().zip(series).enumerate() {
        legend(&mut svg, s, i);
        bars(&mut svg, &plot, bins, s, &format!("{kind} s{i}"));
    }
    for (i, s) in series.iter().enumerate() {
        marks(&mut svg, &plot, s, i, modes + 15.0 * i as f64);
    }
    if let Some(window) = window {
        draw_window(&mut svg, &plot, window, bracket);
    }
    let beyond: u64 = series
        .iter()
        .flat_map(|s| s.cycles.bins())
        .filter(|(c, _)| f64::from(*c) >= high)
        .map(|b| b.1)
        .sum();
    if beyond > 0 {
        let _ = write!(
            svg,
            "<text class=\"dim end\" x=\"{RIGHT:.1}\" y=\"{:.1}\">{} beyond →</text>",
            bottom + 38.0,
            grouped(beyond)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

struct Plot {
    x: Axis,
    y: Axis,
    top: f64,
    bottom: f64,
    /// A bar's area is its share; else its height.
    by_area: bool,
}

impl Plot {
    fn x(&self, value: f64) -> f64 {
        self.x.at(value.clamp(self.x.low, self.x.high))
    }

    fn y(&self, percent: f64) -> f64 {
        self.y.at(percent.max(self.y.low))
    }

    /// The middle of a value's own bar.
    fn middle(&self, value: f64) -> f64 {
        self.x(value
            + if self.x.scale == Scale::Log {
                0.25
            } else {
                0.5
            })
    }
}

fn legend(svg: &mut String, s: &Series, index: usize) {
    let y = 38.0 + 18.0 * index as f64;
    let median = s
        .median
        .map_or_else(String::new, |m| format!(", median {m} cycles"));
    let name = super::short(&s.name, 60);
    let text = format!("{name}: {} executions{median}", grouped(s.cycles.total()));
    let _ = write!(
        svg,
        "<rect class=\"s{index}\" x=\"20\" y=\"{y:.0}\" width=\"12\" height=\"12\" rx=\"2\"/>\
         <text x=\"38\" y=\"{:.0}\">{}</text>",
        y + 10.5,
        escape(&text)
    );
}

fn axes(svg: &mut String, p: &Plot, height: f64) {
    let log = p.x.scale == Scale::Log;
    for value in p.x.ticks(9) {
        if value.fract() > 0.0 {
            continue;
        }
        // A value's tick stands in the middle of its own width where that is visible.
        let x = p.x(value + if log { 0.0 } else { 0.5 });
        let _ = write!(
            svg,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{0:.1}\" y2=\"{1:.1}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{2:.1}\">{value:.0}</text>",
            p.bottom,
            p.bottom + 5.0,
            p.bottom + 19.0
        );
    }
    for value in p.y.ticks(6) {
        let y = p.y(value);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick y\" x=\"{:.1}\" y=\"{:.1}\">{} %</text>",
            LEFT - 8.0,
            y + 4.0,
            plain(value)
        );
    }
    let scale = match (log, p.y.scale == Scale::Log) {
        (true, true) => " (both axes logarithmic)",
        (true, false) => " (logarithmic)",
        (false, true) => " (height logarithmic)",
        (false, false) => "",
    };
    let unit = if p.by_area {
        "area: share of the executions"
    } else {
        "height: share of the executions"
    };
    let _ = write!(
        svg,
        "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">cycles per execution{scale}; {unit}</text>",
        f64::midpoint(LEFT, RIGHT),
        height - 10.0
    );
}

fn bars(svg: &mut String, p: &Plot, bins: &[(Bin, f64)], s: &Series, class: &str) {
    let _ = writeln!(svg, "<g class=\"{class}\">");
    for (bin, height) in bins.iter().filter(|b| b.0.count > 0) {
        let percent = 100.0 * bin.count as f64 / s.cycles.total().max(1) as f64;
        let (x0, x1) = (p.x(f64::from(bin.first)), p.x(f64::from(bin.last) + 1.0));
        let y = p.y(*height);
        let label = if bin.first == bin.last {
            format!("{} cycles", bin.first)
        } else {
            format!("{}–{} cycles", bin.first, bin.last)
        };
        let _ = writeln!(
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

/// Modes as lines, with labels in a row of their own; the heavier ones where not all have room.
fn marks(svg: &mut String, p: &Plot, s: &Series, index: usize, row: f64) {
    let mut modes = s.cycles.modes();
    modes.retain(|m| m.weight >= 0.02);
    modes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let mut labels = String::new();
    for mode in modes {
        let x = p.middle(mode.cycles);
        let _ = write!(
            svg,
            "<line class=\"mode s{index}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            p.top - 2.0,
            p.bottom
        );
        let text = format!("{} ({:.0} %)", number(mode.cycles), 100.0 * mode.weight);
        let half = LETTER / 2.0 * text.chars().count() as f64;
        let center = x.clamp(20.0 + half, WIDTH - 8.0 - half);
        let (from, to) = (center - half - 4.0, center + half + 4.0);
        if taken.iter().all(|other| to <= other.0 || other.1 <= from) {
            taken.push((from, to));
            let _ = write!(
                labels,
                "<text class=\"mode halo s{index}\" x=\"{center:.1}\" y=\"{row:.1}\">{text}</text>"
            );
        }
    }
    svg.push_str(&labels);
}

/// The window from the first mode to the miss.
fn draw_window(svg: &mut String, p: &Plot, w: &PrefetchWindow, y: f64) {
    let (x0, x1) = (p.middle(w.base), p.middle(w.miss));
    let text = format!("prefetch window: {} cycles", number(w.window));
    let half = LETTER / 2.0 * text.chars().count() as f64;
    // Inside the bracket, else beside it.
    let (center, gap) = if x1 - x0 > 2.0 * half + 16.0 {
        let center = f64::midpoint(x0, x1);
        let (left, right) = (center - half - 6.0, center + half + 6.0);
        (center, format!("H{left:.1}M{right:.1} {:.1}", y + 8.0))
    } else if x1 + 2.0 * half + 20.0 < WIDTH {
        (x1 + half + 12.0, String::new())
    } else {
        (x0 - half - 12.0, String::new())
    };
    let _ = write!(
        svg,
        "<path class=\"bracket\" d=\"M{x0:.1} {:.1}v-8{gap}H{x1:.1}v8\"/>",
        y + 16.0
    );
    let _ = write!(
        svg,
        "<text class=\"middle\" x=\"{center:.1}\" y=\"{:.1}\">{text}</text>",
        y + 12.0
    );
}

#[cfg(test)]
mod tests {
    use super::super::Frame;
    use super::{Series, bins, chart};
    use truecount_sample::blocks::{Histogram, PrefetchWindow};

    #[test]
    fn no_execution_is_lost_in_the_bars() {
        let h = Histogram::new((1..400).map(|c| (c, u64::from(c % 7))).collect());
        let total: u64 = bins(&h, 24).iter().map(|b| b.count).sum();
        assert!(total as f64 >= 0.98 * h.total() as f64);
        let narrow = Histogram::new(vec![(3, 10), (5, 20)]);
        assert_eq!(bins(&narrow, 24).iter().map(|b| b.count).sum::<u64>(), 30);
        assert!(bins(&Histogram::default(), 24).iter().all(|b| b.count == 0));
    }

    /// Five executions of one block, each as often as the others: bars of one height, whatever their width.
    #[test]
    fn equal_shares_stand_at_equal_heights() {
        let heights = |bins: Vec<(u16, u64)>| {
            let series = [Series::new("all".to_owned(), Histogram::new(bins))];
            let svg = chart(Frame::Page, "t", &series, None, 420.0);
            let (_, bars) = svg.split_once("<g class=\"solid").unwrap();
            let attribute = |tag: &str| -> f64 {
                let value = tag.split(" height=\"").nth(1).unwrap();
                value.split('"').next().unwrap().parse().unwrap()
            };
            let heights: Vec<f64> = bars.split("<rect ").skip(1).map(attribute).collect();
            (heights, svg)
        };
        let (equal, svg) = heights([3, 17, 64, 338, 651].map(|cycles| (cycles, 1)).into());
        assert_eq!(equal.len(), 5);
        assert!(equal.iter().all(|height| *height == equal[0]), "{equal:?}");
        assert!(svg.contains("(logarithmic); height: share"), "{svg}");
        // Where bars join values their area is the share: a constant density is a line, not a comb.
        let (dense, svg) = heights(
            (100..2600)
                .map(|cycles| (cycles, 260_000 / u64::from(cycles)))
                .collect(),
        );
        assert!(svg.contains("(logarithmic); area: share"), "{svg}");
        let inner = &dense[2..dense.len() - 2];
        let (low, high) = (
            inner.iter().copied().fold(f64::MAX, f64::min),
            inner.iter().copied().fold(0.0, f64::max),
        );
        assert!(high / low < 1.1, "{dense:?}");
    }

    #[test]
    fn a_chart_is_well_formed() {
        let s = |h| Series::new("a<b & \"c\"".to_owned(), h);
        let svg = chart(
            Frame::Page,
            "x<y",
            &[
                s(Histogram::new(vec![(20, 900), (300, 100)])),
                s(Histogram::default()),
            ],
            None,
            420.0,
        );
        assert!(
            svg.starts_with("<svg")
                && svg.ends_with("</svg>\n")
                && !svg.contains("x<y")
                && !svg.contains("NaN")
        );
    }

    #[test]
    fn the_window_drawn_is_the_one_told() {
        let both = Histogram::new(vec![(20, 900), (338, 400), (650, 300)]);
        let told = PrefetchWindow::of(&Histogram::new(vec![(20, 900), (338, 400)]), false);
        let told = told.unwrap();
        let series = [Series::new("all".to_owned(), both)];
        let svg = |window| chart(Frame::Page, "t", &series, window, 420.0);
        assert!(svg(Some(&told)).contains("prefetch window: 318 cycles"));
        assert!(!svg(None).contains("prefetch window"));
    }

    /// Text elements as (x, y, class, length).
    fn texts(svg: &str) -> Vec<(f64, f64, String, usize)> {
        let attribute = |tag: &str, name: &str| {
            let from = tag.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
            tag[from..].split('"').next().unwrap().to_owned()
        };
        svg.split("<text ")
            .skip(1)
            .map(|rest| {
                let tag = format!(" {}", rest.split('>').next().unwrap());
                let text = rest.split('>').nth(1).unwrap().split('<').next().unwrap();
                let class = if tag.contains(" class=") {
                    attribute(&tag, "class")
                } else {
                    String::new()
                };
                let number = |name| attribute(&tag, name).parse().unwrap();
                (number("x"), number("y"), class, text.chars().count())
            })
            .collect()
    }

    #[test]
    fn labels_do_not_overlap() {
        let near = |shift: u16| {
            Histogram::new(
                [12u16, 14, 17, 22, 29, 40, 300]
                    .into_iter()
                    .map(|c| (c + shift, 1000))
                    .collect(),
            )
        };
        let series = [
            Series::new("before".repeat(20), near(0)),
            Series::new("after".repeat(20), near(1)),
        ];
        let window = PrefetchWindow::of(&series[0].cycles, false);
        let svg = chart(
            Frame::File,
            &"title ".repeat(30),
            &series,
            window.as_ref(),
            420.0,
        );
        let texts = texts(&svg);
        let extent = |(x, _, class, length): &(f64, f64, String, usize)| {
            let wide = *length as f64 * 6.4;
            match class.split(' ').next_back().unwrap_or_default() {
                "y" | "end" => (x - wide, *x),
                _ if class.contains("tick")
                    || class.contains("middle")
                    || class.contains("mode") =>
                {
                    (x - wide / 2.0, x + wide / 2.0)
                }
                _ => (*x, x + wide),
            }
        };
        for (at, a) in texts.iter().enumerate() {
            for b in &texts[..at] {
                let ((a0, a1), (b0, b1)) = (extent(a), extent(b));
                assert!(
                    (a.1 - b.1).abs() >= 12.0 || a1 <= b0 || b1 <= a0,
                    "{a:?} {b:?}"
                );
            }
        }
    }
}
