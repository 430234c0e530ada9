//! The pieces of a run as one: a function that several processes executed is there once.

use std::collections::{BTreeMap, HashMap};

use super::costs::{Edge, FunctionCosts, LineCost};

/// Source file (none: the function's), address, line, what is inlined there.
type Place = (Option<String>, u64, u32, Vec<String>);

/// Callee, address and line of its beginning; source file, address and line of the call.
type Site = (usize, u64, u32, Option<String>, u64, u32);

/// A function of all pieces.
#[derive(Default)]
struct Sum {
    function: FunctionCosts,
    costs: BTreeMap<Place, LineCost>,
    calls: BTreeMap<Site, Edge>,
}

impl Sum {
    /// A source file of `function`'s, as it is told of this one.
    fn file(&self, function: &FunctionCosts, file: Option<String>) -> Option<String> {
        let file = file.unwrap_or_else(|| function.file.clone());
        (file != self.function.file).then_some(file)
    }

    fn add_costs(&mut self, function: &FunctionCosts, costs: Vec<LineCost>) {
        for mut cost in costs {
            cost.file = self.file(function, cost.file);
            let key = (
                cost.file.clone(),
                cost.address,
                cost.line,
                cost.inlined.clone(),
            );
            let Some(sum) = self.costs.get_mut(&key) else {
                self.costs.insert(key, cost);
                continue;
            };
            add(&mut sum.counts, &cost.counts);
            add(&mut sum.simulated, &cost.simulated);
        }
    }

    fn add_calls(&mut self, function: &FunctionCosts, calls: Vec<Edge>, places: &[usize]) {
        for mut edge in calls {
            let Some(&callee) = places.get(edge.callee) else {
                continue;
            };
            edge.callee = callee;
            edge.file = self.file(function, edge.file);
            let site = (
                callee,
                edge.callee_address,
                edge.callee_line,
                edge.file.clone(),
                edge.address,
                edge.line,
            );
            let Some(sum) = self.calls.get_mut(&site) else {
                self.calls.insert(site, edge);
                continue;
            };
            sum.calls = sum.calls.wrapping_add(edge.calls);
            sum.inclusive = sum.inclusive.wrapping_add(edge.inclusive);
            add(&mut sum.events, &edge.events);
        }
    }
}

fn add(sums: &mut [u64], more: &[u64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.wrapping_add(*more);
    }
}

/// The functions of all pieces, each once by object and name, in order of appearance.
pub fn merged(pieces: impl IntoIterator<Item = Vec<FunctionCosts>>) -> Vec<FunctionCosts> {
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    let mut sums: Vec<Sum> = Vec::new();
    for piece in pieces {
        let mut places = Vec::with_capacity(piece.len());
        for function in &piece {
            let key = (function.object.clone(), function.name.clone());
            let place = *known.entry(key).or_insert_with(|| {
                sums.push(Sum {
                    function: FunctionCosts {
                        object: function.object.clone(),
                        file: function.file.clone(),
                        name: function.name.clone(),
                        ..FunctionCosts::default()
                    },
                    ..Sum::default()
                });
                sums.len() - 1
            });
            places.push(place);
        }
        for (mut function, &place) in piece.into_iter().zip(&places) {
            let (costs, calls) = (
                std::mem::take(&mut function.costs),
                std::mem::take(&mut function.calls),
            );
            if let Some(sum) = sums.get_mut(place) {
                sum.add_costs(&function, costs);
                sum.add_calls(&function, calls, &places);
            }
        }
    }
    let whole = sums.into_iter().map(|sum| FunctionCosts {
        costs: sum.costs.into_values().collect(),
        calls: sum.calls.into_values().collect(),
        ..sum.function
    });
    whole.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(file: Option<&str>, line: u32, count: u64) -> LineCost {
        let mut cost = LineCost {
            file: file.map(str::to_owned),
            address: 0,
            line,
            inlined: Vec::new(),
            counts: Default::default(),
            simulated: Default::default(),
        };
        cost.counts[0] = count;
        cost
    }

    fn function(
        name: &str,
        file: &str,
        costs: Vec<LineCost>,
        callee: Option<usize>,
    ) -> FunctionCosts {
        let calls = callee.map(|callee| Edge {
            callee,
            calls: 2,
            inclusive: 10,
            events: vec![3],
            line: 7,
            ..Edge::default()
        });
        FunctionCosts {
            object: "/bin/p".to_owned(),
            file: file.to_owned(),
            name: name.to_owned(),
            costs,
            calls: calls.into_iter().collect(),
        }
    }

    #[test]
    fn places_and_calls_of_processes_are_summed() {
        let first = vec![
            function("main", "a.c", vec![cost(None, 7, 5)], Some(1)),
            function("f", "a.c", vec![cost(None, 9, 1)], None),
        ];
        // In another order, and with lines of another file.
        let second = vec![
            function(
                "f",
                "b.c",
                vec![cost(None, 9, 2), cost(Some("a.c"), 9, 4)],
                None,
            ),
            function("main", "a.c", vec![cost(None, 7, 6)], Some(0)),
        ];
        let all = merged([first, second]);
        let names: Vec<&str> = all.iter().map(|function| &*function.name).collect();
        assert_eq!(names, ["main", "f"]);
        assert_eq!(all[0].costs, [cost(None, 7, 11)]);
        assert_eq!(all[1].costs, [cost(None, 9, 5), cost(Some("b.c"), 9, 2)]);
        let call = &all[0].calls[..];
        assert_eq!(call.len(), 1);
        assert_eq!(
            (call[0].callee, call[0].calls, call[0].inclusive),
            (1, 4, 20)
        );
        assert_eq!(call[0].events, [6]);
    }
}
