//! Two recordings of one block: before and after a change, in one chart and in one line.

use std::io::{self, Write};

use truecount_sample::blocks::Block;

use super::chart::{Series, chart};
use super::view::{View, cycles};
use crate::failure::Failure;
use crate::render::style::{HEAD, paint};

pub(super) type Other<'a> = (View<'a>, usize);

/// The chart of a block, with a second series when there is another recording.
pub(super) fn svg(
    view: &mut View<'_>,
    at: usize,
    other: Option<&Other<'_>>,
) -> Result<String, Failure> {
    if let Some(why) = &view.analysis.no_cycles {
        return Err(Failure::new(
            1,
            format!("{}: no chart: {why}", view.path.display()),
        ));
    }
    let title = view.block_name(at);
    let own = view.block(at).map(Block::all_cycles).unwrap_or_default();
    let mut series = vec![Series::new(label(view), own)];
    if let Some((other, at)) = other {
        series.push(Series::new(
            label(other),
            other.block(*at).map(Block::all_cycles).unwrap_or_default(),
        ));
    }
    Ok(chart(&title, &series, 960, 420))
}

pub(super) fn label(view: &View<'_>) -> String {
    super::view::base_name(&view.path.display().to_string()).to_owned()
}

pub(super) fn print(
    out: &mut dyn Write,
    a: &View<'_>,
    at_a: usize,
    b: &View<'_>,
    at_b: usize,
) -> io::Result<()> {
    let cycles_of = |view: &View<'_>, at| view.block(at).map(Block::all_cycles).unwrap_or_default();
    let (first, second) = (cycles_of(a, at_a), cycles_of(b, at_b));
    writeln!(out, "\n{}", paint(HEAD, "COMPARED"))?;
    let (Some(before), Some(after)) = (first.mean(), second.mean()) else {
        return writeln!(out, "  one of the two has no cycles");
    };
    writeln!(
        out,
        "  mean {} → {} cycles ({:+.1} %), p50 {} → {}, p90 {} → {}",
        cycles(before),
        cycles(after),
        100.0 * (after / before - 1.0),
        first.percentile(0.5).unwrap_or(0),
        second.percentile(0.5).unwrap_or(0),
        first.percentile(0.9).unwrap_or(0),
        second.percentile(0.9).unwrap_or(0),
    )?;
    writeln!(
        out,
        "  modes {}  →  {}",
        super::view::modes(&first.modes()),
        super::view::modes(&second.modes())
    )
}
