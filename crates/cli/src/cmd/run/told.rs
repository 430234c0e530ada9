//! What a run tells of calls: the tree with its sums, and costs by line; columns of its tables.

use serde::Serialize;
use truecount_model::number::grouped;
use truecount_run::calls::{CallTree, EventCost, FunctionCost};
use truecount_run::functions::FunctionCosts;

use crate::render::table::{Align, Cell};

/// What of the tree stands in the text.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// Paths below this share of the total are folded.
    pub(super) percent: f64,
    pub(super) lines: usize,
    pub(super) levels: usize,
}

/// The tree as it stands in the document.
#[derive(Serialize)]
pub(super) struct Calls {
    #[serde(flatten)]
    pub(super) tree: CallTree,
    /// Sums of the functions, largest inclusive cost first.
    pub(super) sums: Vec<FunctionCost>,
    #[serde(skip)]
    pub(super) shown: Shown,
    /// Lines are among the sums.
    #[serde(skip)]
    pub(super) lines: bool,
}

/// What instructions and lines of the run cost, as far as it is asked for.
#[derive(Default)]
pub(super) struct Costs {
    /// By instruction, for the page.
    pub(super) code: Vec<FunctionCosts>,
    /// By source line.
    pub(super) lines: Vec<FunctionCosts>,
    /// The PID that the run began with.
    pub(super) pid: u32,
}

pub(super) fn share(part: u64, total: u64) -> f64 {
    part as f64 / total.max(1) as f64
}

/// Columns: instructions, the other events in all, calls, and what it is.
pub(super) fn heads(tree: &CallTree, what: &[&str]) -> Vec<(String, Align)> {
    let names = ["inclusive", "share", "self"].map(str::to_owned);
    let events = tree.events.iter().cloned();
    let numbers = names.into_iter().chain(events).chain(["calls".to_owned()]);
    let numbers = numbers.map(|name| (name, Align::Right));
    let what = what.iter().map(|&name| (name.to_owned(), Align::Left));
    numbers.chain(what).collect()
}

pub(super) fn event_cells(events: &[EventCost]) -> impl Iterator<Item = Cell> {
    events.iter().map(|event| grouped(event.inclusive).into())
}
