//! What every instruction cost, by function and source line: what Callgrind's format wants. From the executions of
//! every block, so exact.

use std::collections::{BTreeMap, HashMap};
use std::iter;

use super::Names;
use super::adding::{Adding, Instructions, Met, Sums};
use super::costs::{Detail, Edge, FunctionCosts, LineCost, Numbers, Piece, Place, own_address};
use super::edges::{Code, Edges, Own, Stub, edges_of};
use crate::references::{Noted, Simulated};
use crate::result::RunResult;
use truecount_engine::virt::{Counts, Event, Executed, Mapping};

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
    let mut numbers = Numbers::new(detail);
    let mut adding: BTreeMap<Piece, Adding> = BTreeMap::new();
    let mut met = Met::default();
    let mut code = Code::default();
    let modelled = ran
        .executed
        .noted
        .as_ref()
        .filter(|noted| noted.is_modelled());
    let mut instructions = modelled.map(|_| Instructions::default());
    blocks.each(&mut |executed| {
        if !wanted(executed.image) {
            return;
        }
        let piece = Piece {
            image: executed.image,
            thread: if detail.threads { executed.thread } else { 0 },
            part: executed.part,
        };
        let sums = adding.entry(piece).or_default();
        let pid = pids.get(&executed.image).copied().unwrap_or(0);
        add(&executed, sums, &mut |mapping, pc| {
            let mut place = numbers.place(names, mapping, pc, pid);
            if !detail.lines {
                place.line = 0;
                place.file = numbers.own_file(place.function);
            }
            let address = match detail.instructions {
                false => 0,
                true => own_address(mapping, pc),
            };
            let number = met.number(place, address);
            if let Some(known) = &mut instructions {
                known.insert(executed.image, pc, number);
            }
            number
        });
    });
    if let (Some(noted), Some(known)) = (modelled, &mut instructions) {
        let nowhere = met.number(numbers.place(names, None, 0, 0), 0);
        add_modelled(ran, noted, detail, wanted, &mut adding, |image, pc| {
            known.get(image, pc).unwrap_or(nowhere)
        });
    }
    let adding = adding.into_iter();
    let mut all: BTreeMap<Piece, Sums> = adding
        .map(|(piece, adding)| (piece, adding.finish(&met)))
        .collect();
    if ran.executed.calls.is_some() {
        blocks.each_translated(&mut |block| {
            if wanted(block.image) {
                code.see(&block, detail.instructions);
            }
        });
    }
    let paths = modelled.and_then(Noted::paths);
    let lanes = lanes_of(ran, paths.is_some());
    let (mut edges, stubs) = match &ran.executed.calls {
        Some(calls) => {
            let own = Own::new(calls, paths);
            edges_of(ran, &own, names, &mut numbers, detail, &code)
        }
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
            move_to_caller(sums, &stub, rest.copied(), &lanes);
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
fn move_to_caller(sums: &mut Sums, stub: &Stub, rest: Option<usize>, lanes: &[Lane]) {
    for (&lane, &cost) in lanes.iter().zip(&stub.costs) {
        move_event(sums, stub, rest, (lane, cost));
    }
}

/// Where a cost of a path is among those of a line.
#[derive(Clone, Copy)]
enum Lane {
    Counted(usize),
    Modelled(usize),
}

impl Lane {
    fn of(self, sums: &mut (Counts, Simulated)) -> Option<&mut u64> {
        match self {
            Self::Counted(event) => sums.0.get_mut(event),
            Self::Modelled(place) => sums.1.get_mut(place),
        }
    }
}

/// Which costs paths have, in order.
fn lanes_of(ran: &RunResult, modelled: bool) -> Vec<Lane> {
    let counted = |event: Event| Lane::Counted(event as usize);
    let mut lanes = vec![counted(Event::Instructions)];
    match &ran.executed.calls {
        _ if modelled => lanes.extend((0..Simulated::default().len()).map(Lane::Modelled)),
        Some(calls) => lanes.extend(calls.events.iter().copied().map(counted)),
        None => {}
    }
    lanes
}

/// Adds what a model made of each instruction; `place`: the number of where that is.
fn add_modelled(
    ran: &RunResult,
    noted: &Noted,
    detail: Detail,
    wanted: &dyn Fn(u32) -> bool,
    all: &mut BTreeMap<Piece, Adding>,
    mut place: impl FnMut(u32, u64) -> u32,
) {
    let threads = ran.executed.threads.iter();
    let images: HashMap<u32, u32> = threads.map(|one| (one.slot, one.image)).collect();
    noted.each(&mut |part, pc, costs| {
        let image = images.get(&part.slot).copied().unwrap_or(0);
        let simulated = costs.simulated();
        if !wanted(image) || simulated == Simulated::default() {
            return;
        }
        let piece = Piece {
            image,
            thread: if detail.threads { part.slot } else { 0 },
            part: part.part,
        };
        let sums = all.entry(piece).or_default();
        let Some((_, into)) = sums.at(place(image, pc)) else {
            return;
        };
        for (sum, more) in into.iter_mut().zip(simulated) {
            *sum = sum.wrapping_add(more);
        }
    });
}

fn move_event(sums: &mut Sums, stub: &Stub, rest: Option<usize>, (lane, cost): (Lane, u64)) {
    let mut left = cost;
    for function in iter::once(stub.stub).chain(rest) {
        let begin = Place {
            function,
            file: 0,
            line: 0,
            chain: 0,
        };
        let end = Place {
            function: function + 1,
            ..begin
        };
        for (_, costs) in sums.range_mut((begin, 0)..(end, 0)) {
            if let Some(count) = lane.of(costs) {
                let moved = left.min(*count);
                *count -= moved;
                left -= moved;
            }
        }
    }
    let into = sums.entry((stub.place.clone(), stub.address)).or_default();
    if let Some(count) = lane.of(into) {
        *count = count.wrapping_add(cost - left);
    }
}

/// Adds what a block's executions cost, instruction by instruction; `place`: the number of where one is.
fn add(
    executed: &Executed<'_>,
    sums: &mut Adding,
    place: &mut dyn FnMut(Option<&Mapping>, u64) -> u32,
) {
    let mut pc = executed.pc;
    for facts in executed.facts {
        let number = place(executed.mapping, pc);
        if let Some((counts, _)) = sums.at(number) {
            facts.add(executed.times, counts);
        }
        pc = pc.wrapping_add(facts.len());
    }
}

impl Numbers {
    /// The functions with their costs; what is 0 is left out.
    fn functions_of(&self, sums: Sums, edges: Edges) -> Vec<FunctionCosts> {
        let mut found: BTreeMap<usize, FunctionCosts> = BTreeMap::new();
        for ((place, address), (counts, simulated)) in sums {
            if counts.iter().chain(&simulated).all(|&count| count == 0) {
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
                inlined: self.inlined(place.chain),
                counts,
                simulated,
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
