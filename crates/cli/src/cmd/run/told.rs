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
    /// Places of those of the tree's events that the text has.
    #[serde(skip)]
    pub(super) columns: Vec<usize>,
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
pub(super) fn heads(calls: &Calls, what: &[&str]) -> Vec<(String, Align)> {
    let names = ["inclusive", "share", "self"].map(str::to_owned);
    let events = calls.columns.iter();
    let events = events.filter_map(|&place| calls.tree.events.get(place));
    let numbers = names
        .into_iter()
        .chain(events.cloned())
        .chain(["calls".to_owned()]);
    let numbers = numbers.map(|name| (name, Align::Right));
    let what = what.iter().map(|&name| (name.to_owned(), Align::Left));
    numbers.chain(what).collect()
}

pub(super) fn event_cells(calls: &Calls, events: &[EventCost]) -> impl Iterator<Item = Cell> {
    let events = calls.columns.iter().filter_map(|&place| events.get(place));
    events.map(|event| grouped(event.inclusive).into())
}

/// Events of memory in the text's tree, unless others are asked for: facts, and with a model.
const OF_MEMORY: [&[&str]; 2] = [
    &["load-bytes", "store-bytes", "lines-touched"],
    &["lines-touched", "l1d-misses", "ll-misses", "mispredicts"],
];

/// Places of those of the tree's events that the text has: those that were `asked` for by name, or the usual ones.
pub(super) fn columns(tree: &CallTree, asked: &[&str]) -> Vec<usize> {
    let [facts, modelled] = OF_MEMORY;
    let usual = match (asked, tree.modelled.is_empty()) {
        ([], true) => facts,
        ([], false) => modelled,
        _ => asked,
    };
    let events = tree.events.iter().enumerate();
    let shown = events.filter(|(place, name)| *place < tree.counted() || usual.contains(&&***name));
    shown.map(|(place, _)| place).collect()
}
