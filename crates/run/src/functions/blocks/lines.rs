//! What every instruction cost, by function and source line: what Callgrind's format wants. From the executions of
//! every block, so exact.

use std::collections::{BTreeMap, HashMap};
use std::iter;

use super::Names;
use super::costs::{Detail, Edge, FunctionCosts, LineCost, Numbers, Piece, Place, own_address};
use super::edges::{Code, Edges, Stub, edges_of};
use crate::result::RunResult;
use truecount_engine::virt::{Counts, Executed};

/// By place and address (0 where instructions are not kept apart).
type Sums = BTreeMap<(Place, u64), Counts>;

/// What each function cost itself, line by line, in each piece of a run whose image is wanted; empty where blocks were
/// not counted.
pub fn line_costs(
    ran: &RunResult,
    names: &mut Names,
    detail: Detail,
    wanted: &dyn Fn(u32) -> bool,
) -> BTreeMap<Piece, Vec<FunctionCosts>> {
    let Some(blocks) = ran.executed.blocks.as_ref() else {
        return BTreeMap::new();
    };
    // Another run's process may have had the same number.
    names.jit.clear();
    let threads = ran.executed.threads.iter().rev();
    let pids: HashMap<u32, u32> = threads.map(|thread| (thread.image, thread.pid)).collect();
    let mut numbers = Numbers::default();
    let mut all: BTreeMap<Piece, Sums> = BTreeMap::new();
    let mut code = Code::default();
    blocks.each(&mut |executed| {
        if !wanted(executed.image) {
            return;
        }
        let piece = Piece {
            image: executed.image,
            thread: if detail.threads { executed.thread } else { 0 },
            part: executed.part,
        };
        let sums = all.entry(piece).or_default();
        let pid = pids.get(&executed.image).copied().unwrap_or(0);
        add(&executed, pid, names, &mut numbers, detail, sums);
    });
    if ran.executed.calls.is_some() {
        blocks.each_translated(&mut |block| {
            if wanted(block.image) {
                code.see(&block, detail.instructions);
            }
        });
    }
    let (mut edges, stubs) = match &ran.executed.calls {
        Some(calls) => edges_of(ran, calls, names, &mut numbers, detail, &code),
        None => Default::default(),
    };
    // What binds a function at its first call is behind its stub.
    let rests = numbers.functions.iter().enumerate();
    let rests = rests.filter(|(_, function)| function.name == "[plt]");
    let rests: HashMap<&str, usize> = rests
        .map(|(at, function)| (function.object.as_str(), at))
        .collect();
    for stub in stubs {
        if let Some(sums) = all.get_mut(&stub.piece) {
            let object = numbers.functions.get(stub.stub);
            let rest = object.and_then(|function| rests.get(function.object.as_str()));
            move_to_caller(sums, &stub, rest.copied());
        }
    }
    for piece in edges.keys() {
        all.entry(*piece).or_default();
    }
    all.into_iter()
        .map(|(piece, sums)| {
            let edges = edges.remove(&piece).unwrap_or_default();
            (piece, numbers.functions_of(sums, edges))
        })
        .collect()
}

/// Moves what a stub executed to its caller, as much as is there, so that the sum stays; `rest`: what the table has for
/// all of them.
fn move_to_caller(sums: &mut Sums, stub: &Stub, rest: Option<usize>) {
    for &(event, cost) in &stub.costs {
        move_event(sums, stub, rest, (event as usize, cost));
    }
}

fn move_event(sums: &mut Sums, stub: &Stub, rest: Option<usize>, (event, cost): (usize, u64)) {
    let mut left = cost;
    for function in iter::once(stub.stub).chain(rest) {
        let begin = Place {
            function,
            file: 0,
            line: 0,
        };
        let end = Place {
            function: function + 1,
            ..begin
        };
        for (_, counts) in sums.range_mut((begin, 0)..(end, 0)) {
            if let Some(count) = counts.get_mut(event) {
                let moved = left.min(*count);
                *count -= moved;
                left -= moved;
            }
        }
    }
    let into = sums.entry((stub.place.clone(), stub.address)).or_default();
    if let Some(count) = into.get_mut(event) {
        *count = count.wrapping_add(cost - left);
    }
}

/// Adds what a block's executions cost, instruction by instruction.
fn add(
    executed: &Executed<'_>,
    pid: u32,
    names: &mut Names,
    numbers: &mut Numbers,
    detail: Detail,
    sums: &mut Sums,
) {
    let mut pc = executed.pc;
    for facts in executed.facts {
        let mut place = numbers.place(names, executed.mapping, pc, pid);
        if !detail.lines {
            place.line = 0;
            place.file = numbers.own_file(place.function);
        }
        let address = match detail.instructions {
            false => 0,
            true => own_address(executed.mapping, pc),
        };
        facts.add(executed.times, sums.entry((place, address)).or_default());
        pc = pc.wrapping_add(facts.len());
    }
}

impl Numbers {
    /// The functions with their costs; what is 0 is left out.
    fn functions_of(&self, sums: Sums, edges: Edges) -> Vec<FunctionCosts> {
        let mut found: BTreeMap<usize, FunctionCosts> = BTreeMap::new();
        for ((place, address), counts) in sums {
            if counts.iter().all(|&count| count == 0) {
                continue;
            }
            let Some(known) = self.functions.get(place.function) else {
                continue;
            };
            let into = found.entry(place.function).or_insert_with(|| known.clone());
            let file = self
                .files
                .get(place.file)
                .filter(|&file| *file != into.file);
            into.costs.push(LineCost {
                file: file.cloned(),
                address,
                line: place.line,
                counts,
            });
        }
        // Who only calls, or is only called, is there, too.
        for at in edges.keys().flat_map(|edge| [edge.caller, edge.callee]) {
            if let Some(known) = self.functions.get(at) {
                found.entry(at).or_insert_with(|| known.clone());
            }
        }
        let places: HashMap<usize, usize> = found.keys().copied().zip(0..).collect();
        for (key, (calls, costs)) in edges {
            let [inclusive, events @ ..] = costs;
            let (Some(&callee), Some(caller)) =
                (places.get(&key.callee), found.get_mut(&key.caller))
            else {
                continue;
            };
            let file = self.files.get(key.site.0);
            let file = file.filter(|&file| *file != caller.file).cloned();
            caller.calls.push(Edge {
                callee,
                calls,
                inclusive,
                events: events.to_vec(),
                callee_address: key.callee_at.1,
                callee_line: key.callee_at.0,
                file,
                address: key.site.2,
                line: key.site.1,
            });
        }
        found.into_values().collect()
    }
}
