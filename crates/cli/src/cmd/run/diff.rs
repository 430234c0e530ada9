//! What paths of calls gained and lost since a saved result.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use truecount_model::number::grouped;
use truecount_profile::export::{FlameGraph, Level};
use truecount_run::calls::CallTree;
use truecount_run::calls::diff::CallDiff;
use truecount_run::input;

use super::INSTRUCTIONS;
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Picture};
use crate::render::{calls_diff, json};

/// What the two are called.
pub(super) const NAMES: [&str; 2] = ["before", "now"];
/// Levels of a path in the flame graph.
const MAX_DEPTH: usize = 1024;

/// The tree in a saved result.
pub(super) fn saved(option: &str, path: &Path) -> Result<CallTree, Failure> {
    let bad = |why: String| {
        Failure::new(2, format!("{option} {}: {why}", path.display()))
            .hint("save one by: truecount run --calls --json=FILE -- COMMAND")
    };
    let text = input::json(path).map_err(|error| bad(error.to_string()))?;
    let document = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    CallTree::from_document(&document).map_err(bad)
}

/// Two saved results, compared.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    old: String,
    new: String,
    calls_diff: &'a CallDiff,
}

/// Compares two saved results.
pub(super) fn of_saved(
    (old, new): (&Path, &Path),
    json_to: Option<&Path>,
    output: Option<&PathBuf>,
    picture: Option<&PathBuf>,
) -> CmdResult {
    let diff = CallDiff::of(&saved("--diff", old)?, &saved("--saved", new)?);
    let mut out = Output::result(json_to, output.map(PathBuf::as_path), false)?;
    let picture = Picture::create(picture.map(PathBuf::as_path))?;
    let shown = match json_to {
        Some(_) => json::write(
            &mut out,
            &Document {
                schema: "truecount.run-diff/1",
                old: old.display().to_string(),
                new: new.display().to_string(),
                calls_diff: &diff,
            },
        ),
        None => calls_diff::write(&mut out, &diff, NAMES).and_then(|()| out.flush()),
    };
    let drawn = picture.map_or(Ok(()), |picture| picture.write(&flame(&diff)));
    Failure::of_all([shown.map_err(Failure::from), drawn])?;
    Ok(Outcome::OK)
}

/// Red grew, blue shrank: whole stacks.
pub(super) fn flame(diff: &CallDiff) -> String {
    let mut flame = FlameGraph::new("all", INSTRUCTIONS, None);
    for node in &diff.nodes {
        if (node.old.own, node.new.own) == (0, 0) {
            continue;
        }
        let path = diff.path(node);
        let chain = path.into_iter().take(MAX_DEPTH).map(Level::new);
        flame.add_compared(chain, node.old.own, node.new.own);
    }
    flame.svg(&format!(
        "{} {INSTRUCTIONS} before, {} now: red grew, blue shrank",
        grouped(diff.old_total),
        grouped(diff.new_total)
    ))
}
