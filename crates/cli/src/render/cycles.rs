//! Histograms of cycles as numbers, as text and as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};
use truecount_sample::blocks::{Histogram, Mode};

use super::charts::histogram::bins;
use super::width::columns;
use truecount_model::number::grouped;

/// `11·20% 17·35%`.
pub(crate) fn modes(modes: &[Mode]) -> String {
    let mut out: Vec<String> = modes
        .iter()
        .take(5)
        .map(|m| format!("{}·{:.0}%", cycles(m.cycles), m.weight * 100.0))
        .collect();
    if modes.len() > 5 {
        out.push("…".to_owned());
    }
    out.join(" ")
}

/// Cycles: whole where they are, one decimal else.
pub(crate) fn cycles(value: f64) -> String {
    if value.fract().abs() < 0.05 || value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// A row of percentiles: p50, p90, p99.
pub(crate) fn percentiles(h: &Histogram) -> [Option<u16>; 3] {
    [0.5, 0.9, 0.99].map(|q| h.percentile(q))
}

/// One line on how the mean, the median and the 90th percentile changed; `None` when one of the two is empty.
pub(crate) fn compared(before: &Histogram, after: &Histogram) -> Option<String> {
    let all = |h: &Histogram| Some((h.mean()?, h.percentile(0.5)?, h.percentile(0.9)?));
    let (a, b) = (all(before)?, all(after)?);
    Some(format!(
        "mean {} → {} cycles ({:+.1} %), p50 {} → {}, p90 {} → {}",
        cycles(a.0),
        cycles(b.0),
        100.0 * (b.0 / a.0 - 1.0),
        a.1,
        b.1,
        a.2,
        b.2
    ))
}

/// A histogram in a document.
pub(crate) fn histogram(h: &Histogram) -> Value {
    let [p50, p90, p99] = percentiles(h);
    json!({
        "count": h.total(),
        "sum": h.sum(),
        "mean": h.mean(),
        "p50": p50, "p90": p90, "p99": p99,
        "modes": h.modes().iter().map(|m| json!({
            "cycles": m.cycles, "weight": m.weight, "from": m.range.0, "to": m.range.1
        })).collect::<Vec<_>>(),
        "bins": h.bins(),
    })
}

/// A histogram in characters: at most 24 rows.
pub(crate) fn bars(out: &mut dyn Write, h: &Histogram) -> io::Result<()> {
    const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    // What stands beside a bar needs some 46 columns.
    let most_blocks =
        columns().map_or(40, |columns| columns.saturating_sub(46).clamp(8, 40)) as u64;
    let rows = bins(h, 24);
    let most = rows.iter().map(|r| r.count).max().unwrap_or(1).max(1);
    let modes = h.modes();
    for row in &rows {
        let eighths = (row.count * 8 * most_blocks).div_ceil(most) as usize;
        let mut bar: String = std::iter::repeat_n('█', eighths / 8).collect();
        if !eighths.is_multiple_of(8) {
            bar.extend(BLOCKS.get(eighths % 8 - 1));
        }
        let label = if row.first == row.last {
            row.first.to_string()
        } else {
            format!("{}-{}", row.first, row.last)
        };
        let mode = modes
            .iter()
            .find(|m| (f64::from(row.first)..f64::from(row.last) + 1.0).contains(&m.cycles));
        let note = mode.map_or(String::new(), |m| {
            format!("  ◀ mode {} ({:.0} %)", cycles(m.cycles), 100.0 * m.weight)
        });
        writeln!(out, "  {label:>11}  {:>9}  {bar}{note}", grouped(row.count))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_cycles_is_not_compared_as_zero() {
        let some = Histogram::new(vec![(10, 5), (20, 5)]);
        assert_eq!(
            compared(&some, &some).unwrap(),
            "mean 15 → 15 cycles (+0.0 %), p50 10 → 10, p90 20 → 20"
        );
        let none = Histogram::default();
        assert_eq!(compared(&some, &none), None);
        assert_eq!(compared(&none, &some), None);
    }
}
