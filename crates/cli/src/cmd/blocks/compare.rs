//! Two recordings of one block: before and after a change, in one chart and in one line.

use std::io::{self, Write};

use truecount_sample::blocks::Block;

use super::view::View;
use crate::failure::Failure;
use crate::render::charts::Frame;
use crate::render::charts::histogram::{Series, chart};
use crate::render::cycles::{compared, modes};
use crate::render::style::{HEAD, paint};
use truecount_record::names::base_name;

pub(super) type Other<'a> = (View<'a>, usize);

/// The chart of a block, with a second series when there is another recording.
pub(super) fn svg(
    view: &mut View<'_>,
    at: usize,
    other: Option<&Other<'_>>,
    frame: Frame,
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
    let window = view.prefetch(at).ok();
    Ok(chart(frame, &title, &series, window.as_ref(), 440.0))
}

pub(super) fn label(view: &View<'_>) -> String {
    base_name(&view.path.display().to_string()).to_owned()
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
    let Some(line) = compared(&first, &second) else {
        return writeln!(out, "  one of the two has no cycles");
    };
    writeln!(out, "  {line}")?;
    writeln!(
        out,
        "  modes {}  →  {}",
        modes(&first.modes()),
        modes(&second.modes())
    )
}
