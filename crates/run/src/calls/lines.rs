//! Source lines and inlined functions of a tree's functions, from debug information: what every line executed itself.
//!
//! Lines come from the executions of every block, paths from the calls: a line's count is its function's, over all paths.
//! Where another function jumps into the middle of one, what it executes there is that function's in the tree, but the
//! code is the other's; and paths for which there was no room are no function's. A function's row without a line makes up
//! for it, so that its rows sum to its own cost.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use truecount_engine::virt::{Counts, Event};

use super::{CallTree, FunctionCost};
use crate::functions::FunctionCosts;

/// What a function executed on one source line itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    /// The source file; none: the line is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line; none: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Names of the functions that are inlined there, outermost first; none: the function's own code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<String>,
    /// Instructions. Only where no line is known it may be below 0: so much of the lines is other functions' in the tree,
    /// which jumped into the middle of this one, or `[other]`'s.
    #[serde(rename = "self")]
    pub own: i64,
    /// The same for those of [`CallTree::events`] that follow from instructions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<i64>,
}

/// What a function executed itself in one of those that are inlined in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InlinedCost {
    /// Names of the inlined functions, outermost first; none: the function's own code.
    pub functions: Vec<String>,
    /// Instructions of the last one of them, without what is inlined in it further.
    #[serde(rename = "self")]
    pub own: i64,
    /// The same for those of [`CallTree::events`] that follow from instructions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<i64>,
}

/// What is inlined, file and line; all empty: the function's own code on lines that are not known.
type Place = (Vec<String>, String, u32);

/// Instructions and the tree's events.
type Costs = Vec<i64>;

fn add(sums: &mut Costs, more: impl Iterator<Item = i64>) {
    for (at, more) in more.enumerate() {
        match sums.get_mut(at) {
            Some(sum) => *sum = sum.wrapping_add(more),
            None => sums.push(more),
        }
    }
}

impl CallTree {
    /// Instructions and those of the tree's events that follow from instructions ([`CallTree::counted`]), in their order, of
    /// all events of an instruction.
    pub fn costs_of(&self, counts: &Counts) -> Vec<u64> {
        let named = |name: &String| {
            let name = name.strip_suffix(":u").unwrap_or(name);
            Event::ALL.into_iter().find(|event| event.name() == name)
        };
        let events = self.events.iter().take(self.counted()).map(named);
        let all = std::iter::once(Some(Event::Instructions)).chain(events);
        let count = |event: Option<Event>| counts.get(event? as usize).copied();
        all.map(|event| count(event).unwrap_or(0)).collect()
    }

    /// Adds to each function's sums what its lines, and what is inlined in it, cost. `costs` has every function of the
    /// run once, by line and by what is inlined.
    pub fn add_lines(&self, sums: &mut [FunctionCost], costs: &[FunctionCosts]) {
        let names = costs.iter();
        let names: HashMap<(&str, &str), &FunctionCosts> = names
            .map(|function| ((&*function.object, &*function.name), function))
            .collect();
        for sum in sums.iter_mut() {
            let Some(called) = self.functions.get(sum.function) else {
                continue;
            };
            let known = names.get(&(&*called.module, &*called.name)).copied();
            let rows = self.rows(sum, known);
            let mut inlined: BTreeMap<&[String], Costs> = BTreeMap::new();
            for ((chain, ..), costs) in &rows {
                let into = inlined.entry(chain).or_default();
                add(into, costs.iter().copied());
            }
            if inlined.keys().any(|chain| !chain.is_empty()) {
                let costs = inlined.into_iter().filter_map(|(chain, costs)| {
                    let (&own, events) = costs.split_first()?;
                    Some(InlinedCost {
                        functions: chain.to_vec(),
                        own,
                        events: events.to_vec(),
                    })
                });
                sum.inlined = costs.collect();
                sum.inlined.sort_by_key(|one| std::cmp::Reverse(one.own));
            }
            let lines = rows
                .into_iter()
                .filter_map(|((inlined, file, line), costs)| {
                    let (&own, events) = costs.split_first()?;
                    Some(SourceLine {
                        file: (line != 0).then_some(file),
                        line: (line != 0).then_some(line),
                        inlined,
                        own,
                        events: events.to_vec(),
                    })
                });
            sum.lines = lines.collect();
            sum.lines.sort_by_key(|line| std::cmp::Reverse(line.own));
        }
    }

    /// The rows of a function, which sum to its own cost.
    fn rows(&self, sum: &FunctionCost, known: Option<&FunctionCosts>) -> BTreeMap<Place, Costs> {
        let mut rows: BTreeMap<Place, Costs> = BTreeMap::new();
        let events = sum.events.iter().take(self.counted());
        let events = events.map(|event| event.own);
        let own = std::iter::once(sum.own).chain(events);
        let mut rest: Costs = own.map(u64::cast_signed).collect();
        for cost in known.iter().flat_map(|function| &function.costs) {
            let file = cost.file.as_deref().or(known.map(|known| &*known.file));
            let file = file.filter(|file| cost.line != 0 && !file.is_empty());
            let place = match file {
                Some(file) => (cost.inlined.clone(), file.to_owned(), cost.line),
                None => (cost.inlined.clone(), String::new(), 0),
            };
            let costs = self.costs_of(&cost.counts);
            let costs = || costs.iter().map(|cost| cost.cast_signed());
            add(rows.entry(place).or_default(), costs());
            add(&mut rest, costs().map(i64::wrapping_neg));
        }
        let unknown = (Vec::new(), String::new(), 0);
        add(rows.entry(unknown).or_default(), rest.into_iter());
        rows.retain(|_, costs| costs.iter().any(|&cost| cost != 0));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;
    use crate::functions::LineCost;

    fn cost(line: u32, inlined: &[&str], count: u64) -> LineCost {
        let mut counts = Counts::default();
        counts[Event::Instructions as usize] = count;
        LineCost {
            file: None,
            address: 0,
            line,
            inlined: inlined.iter().map(|&name| name.to_owned()).collect(),
            counts,
            simulated: Default::default(),
        }
    }

    fn rows(own: u64, costs: Vec<LineCost>) -> FunctionCost {
        let tree = tree(&["f"], &[(None, 0, 1, own)]);
        let function = FunctionCosts {
            object: tree.functions[0].module.clone(),
            file: "f.c".to_owned(),
            name: "f".to_owned(),
            costs,
            calls: Vec::new(),
        };
        let mut sums = tree.by_function();
        tree.add_lines(&mut sums, &[function]);
        sums.remove(0)
    }

    fn told(sum: &FunctionCost) -> Vec<(Option<u32>, usize, i64)> {
        let lines = sum.lines.iter();
        lines
            .map(|line| (line.line, line.inlined.len(), line.own))
            .collect()
    }

    #[test]
    fn rows_sum_to_the_own_cost() {
        let costs = vec![
            cost(3, &[], 10),
            cost(3, &["g"], 20),
            cost(9, &["g", "h"], 5),
            cost(0, &["g"], 2),
            cost(0, &[], 1),
        ];
        // 2 more are executed elsewhere: no line is known.
        let sum = rows(40, costs.clone());
        let expected = [
            (Some(3), 1, 20),
            (Some(3), 0, 10),
            (Some(9), 2, 5),
            (None, 0, 3),
            (None, 1, 2),
        ];
        assert_eq!(told(&sum), expected);
        let inlined: Vec<_> = sum
            .inlined
            .iter()
            .map(|one| (&one.functions[..], one.own))
            .collect();
        let names = ["g", "h"].map(str::to_owned);
        assert_eq!(inlined, [(&names[..1], 22), (&[][..], 13), (&names[..], 5)]);
        // Of the lines, 7 belong to who jumped there.
        let sum = rows(31, costs);
        assert_eq!(
            sum.lines.last().map(|line| (line.line, line.own)),
            Some((None, -6))
        );
        assert_eq!(sum.lines.iter().map(|line| line.own).sum::<i64>(), 31);
    }

    #[test]
    fn without_debug_information_there_is_one_row() {
        let sum = rows(7, vec![cost(0, &[], 7)]);
        assert_eq!(told(&sum), [(None, 0, 7)]);
        assert_eq!(sum.inlined, []);
        assert_eq!(told(&rows(0, Vec::new())), []);
    }
}
