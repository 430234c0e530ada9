//! The tree of calls in Callgrind's format (`run --callgrind`): own costs by source line, calls by the line they are on.

use std::collections::{BTreeMap, HashMap};

use truecount_profile::export::{CallCost, CallgrindFile, CostedFunction, PlaceCost};
use truecount_run::calls::{CallTree, EventCost, Kind};
use truecount_run::functions::FunctionCosts;

use super::told::{Calls, Costs};
use crate::render::callgrind::functions;

/// Where code is that is in no file.
const UNKNOWN: &str = "[unknown]";

/// The file: each function's own costs sum to what it has in the tree, and so do those of all functions to the total.
pub(super) fn file(calls: &Calls, costs: &Costs, event: &str, command: &str) -> CallgrindFile {
    let tree = &calls.tree;
    let mut functions = costed(tree, &costs.lines);
    let places = places(tree, &mut functions);
    let mut own: Vec<Vec<u64>> = vec![vec![0; 1 + tree.counted()]; functions.len()];
    for sum in &calls.sums {
        let at = places.get(sum.function).and_then(|&at| own.get_mut(at));
        if let Some(own) = at {
            *own = with_events(sum.own, counted(tree, &sum.events), |event| event.own);
        }
    }
    let mut moved = 0u64;
    for (function, own) in functions.iter_mut().zip(&own) {
        moved = moved.wrapping_add(fit(&mut function.costs, own));
    }
    add_roots(tree, &places, &mut functions);
    let names = tree.events.iter().take(tree.counted());
    let names = std::iter::once(event).chain(names.map(String::as_str));
    let mut descriptions = vec!["Trigger: Program termination".to_owned()];
    if moved > 0 {
        descriptions.push(format!(
            "Lines: {moved} instructions are without a line, those of functions of which others executed a part"
        ));
    }
    CallgrindFile {
        creator: format!("truecount-{}", env!("CARGO_PKG_VERSION")),
        pid: costs.pid,
        command: command.to_owned(),
        part: 1,
        thread: None,
        descriptions,
        events: names
            .map(|name| (name.replace([':', '-'], "_"), Some(name.to_owned())))
            .collect(),
        functions,
    }
}

/// The functions with lines and calls, by the tree's names.
fn costed(tree: &CallTree, lines: &[FunctionCosts]) -> Vec<CostedFunction> {
    let mut functions = functions(lines, &|cost| tree.costs_of(&cost.counts), &|edge| {
        let events = edge.events.iter().take(tree.counted()).copied();
        std::iter::once(edge.inclusive).chain(events).collect()
    });
    for function in &mut functions {
        if function.object.is_empty() && function.name == "???" {
            (function.object, function.name) = (UNKNOWN.to_owned(), UNKNOWN.to_owned());
        }
    }
    functions
}

/// Where each of the tree's functions is; those that only the tree has, as programs, are added.
fn places(tree: &CallTree, functions: &mut Vec<CostedFunction>) -> Vec<usize> {
    let known = functions.iter().zip(0..);
    let known: HashMap<(String, String), usize> = known
        .map(|(function, at)| ((function.object.clone(), function.name.clone()), at))
        .collect();
    let mut place = |called: &truecount_run::calls::Called| {
        let key = (called.module.clone(), called.name.clone());
        known.get(&key).copied().unwrap_or_else(|| {
            functions.push(CostedFunction {
                object: key.0,
                name: key.1,
                ..CostedFunction::default()
            });
            functions.len() - 1
        })
    };
    tree.functions.iter().map(&mut place).collect()
}

/// Costs of those events that are known of lines, too.
fn counted<'a>(tree: &CallTree, events: &'a [EventCost]) -> &'a [EventCost] {
    events.get(..tree.counted()).unwrap_or(events)
}

fn with_events(first: u64, events: &[EventCost], of: impl Fn(&EventCost) -> u64) -> Vec<u64> {
    std::iter::once(first)
        .chain(events.iter().map(of))
        .collect()
}

/// Makes the costs of a function's lines sum to its own cost in the tree. What is missing is on no line (line 0). Where it
/// is too much, another function executed some of it by a jump into the middle of this one, or it is in `[other]`: nobody
/// knows on which lines, so that none are told. How many instructions are without a line for that.
fn fit(costs: &mut Vec<PlaceCost>, own: &[u64]) -> u64 {
    let nothing = || vec![0u64; own.len()];
    let mut rows: BTreeMap<(Option<String>, u32), Vec<u64>> = BTreeMap::new();
    let mut sums = nothing();
    for cost in costs.drain(..) {
        let row = rows.entry((cost.file, cost.line)).or_insert_with(nothing);
        for ((row, sum), more) in row.iter_mut().zip(&mut sums).zip(&cost.costs) {
            (*row, *sum) = (row.wrapping_add(*more), sum.wrapping_add(*more));
        }
    }
    let fits = sums.iter().zip(own).all(|(sum, own)| sum <= own);
    if !fits {
        rows.clear();
        sums = nothing();
    }
    let unknown = rows.entry((None, 0)).or_insert_with(nothing);
    for ((unknown, own), sum) in unknown.iter_mut().zip(own).zip(sums) {
        *unknown += own - sum;
    }
    let rows = rows.into_iter();
    let rows = rows.filter(|(_, costs)| costs.iter().any(|&cost| cost != 0));
    costs.extend(rows.map(|((file, line), costs)| PlaceCost {
        file,
        address: 0,
        line,
        costs,
    }));
    match own.first() {
        Some(&own) if !fits => own,
        _ => 0,
    }
}

/// Threads and programs call where they began, and their signal handlers.
fn add_roots(tree: &CallTree, places: &[usize], functions: &mut [CostedFunction]) {
    let mut calls: BTreeMap<(usize, usize), (u64, Vec<u64>)> = BTreeMap::new();
    for node in &tree.nodes {
        let root = node.parent.and_then(|parent| tree.nodes.get(parent));
        let Some(root) = root.filter(|root| root.kind == Kind::Thread) else {
            continue;
        };
        let of = |function: usize| places.get(function).copied();
        let (Some(caller), Some(callee)) = (of(root.function), of(node.function)) else {
            continue;
        };
        let (count, sums) = calls.entry((caller, callee)).or_default();
        *count = count.wrapping_add(node.calls);
        let events = counted(tree, &node.events);
        let costs = with_events(node.inclusive, events, |event| event.inclusive);
        sums.resize(costs.len(), 0);
        for (sum, more) in sums.iter_mut().zip(costs) {
            *sum = sum.wrapping_add(more);
        }
    }
    for ((caller, callee), (count, costs)) in calls {
        if let Some(caller) = functions.get_mut(caller) {
            caller.calls.push(CallCost {
                callee,
                count,
                site: PlaceCost {
                    costs,
                    ..PlaceCost::default()
                },
                ..CallCost::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(file: Option<&str>, line: u32, costs: &[u64]) -> PlaceCost {
        PlaceCost {
            file: file.map(str::to_owned),
            address: 0,
            line,
            costs: costs.to_vec(),
        }
    }

    #[test]
    fn lines_sum_to_the_own_cost() {
        let lines = [cost(None, 4, &[10, 2]), cost(Some("b.h"), 9, &[30, 0])];
        // More than the lines have: the rest is on none; the same place twice is one.
        let mut costs = [&lines[..], &lines[..1]].concat();
        assert_eq!(fit(&mut costs, &[53, 4]), 0);
        let expected = [
            cost(None, 0, &[3, 0]),
            cost(None, 4, &[20, 4]),
            cost(Some("b.h"), 9, &[30, 0]),
        ];
        assert_eq!(costs, expected);
        // Less, of one event: on which lines is not known.
        assert_eq!(fit(&mut costs, &[48, 5]), 48);
        assert_eq!(costs, [cost(None, 0, &[48, 5])]);
        assert_eq!(fit(&mut costs, &[0, 0]), 0);
        assert_eq!(costs, []);
    }
}
