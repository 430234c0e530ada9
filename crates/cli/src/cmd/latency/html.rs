//! What was timed, as a chart and as a page.

use std::fmt::Write as _;

use super::text::{cost, label, title};
use crate::render::charts::Frame;
use crate::render::charts::histogram::{Series, chart};
use crate::render::cycles::{modes, percentiles};
use crate::render::markup::escape;
use crate::render::page;
use truecount_model::number::grouped;
use truecount_run::latency::{Row, Timed};

/// The chart of a row: the earlier run first, as in a story.
pub(super) fn draw(
    run: &Timed,
    row: &Row,
    at: usize,
    other: Option<&Timed>,
    frame: Frame,
) -> String {
    let before = other.and_then(|other| Some((other, other.like(&row.name, at)?)));
    let window = match before {
        Some((run, row)) => row.prefetch(run.step()),
        None => row.prefetch(run.step()),
    };
    let series: Vec<Series> = before
        .into_iter()
        .chain([(run, row)])
        .map(|(run, row)| Series {
            name: label(run),
            median: row.cycles.percentile(0.5),
            cycles: row.smooth(run.step()),
        })
        .collect();
    let title = format!("{}: TSC cycles", title(row));
    chart(frame, &title, &series, window.as_ref(), 440.0)
}

/// The page.
pub(super) fn page(run: &Timed, other: Option<&Timed>) -> String {
    let name = format!("Latency of blocks of {}", label(run));
    let mut h = page::open(&name, "");
    let _ = write!(
        h,
        "<header><h1>{}</h1><p>{}<br>TSC cycles between inline time stamps under the virtual PMU; {}</p></header>",
        escape(&name),
        escape(&run.command),
        escape(&cost(run))
    );
    for (at, row) in run.rows.iter().enumerate() {
        let _ = write!(h, "<h2><code>{}</code></h2>", escape(&title(row)));
        if !row.cycles.is_empty() {
            let svg = draw(run, row, at, other, Frame::Page);
            let _ = write!(h, "<figure>{svg}</figure>");
        }
        h.push_str("<div class=\"wide\"><table><tr><th>run<th class=r>timed<th class=r>p50<th class=r>p90<th class=r>p99<th>modes<th class=r>65535 or more</tr>");
        let before = other.and_then(|other| Some((other, other.like(&row.name, at)?)));
        for (run, row) in before.into_iter().chain([(run, row)]) {
            let [p50, p90, p99] =
                percentiles(&row.cycles).map(|p| p.map_or(String::new(), |p| p.to_string()));
            let _ = write!(
                h,
                "<tr><td>{}<td class=r>{}<td class=r>{p50}<td class=r>{p90}<td class=r>{p99}<td>{}<td class=r>{}</tr>",
                escape(&label(run)),
                grouped(row.cycles.total().saturating_add(row.longer)),
                modes(&row.smooth(run.step()).modes()),
                grouped(row.longer)
            );
        }
        h.push_str("</table></div>");
    }
    for note in &run.notes {
        let _ = write!(h, "<p class=\"warn\">{}</p>", escape(note));
    }
    h.push_str(page::CLOSE);
    h
}
