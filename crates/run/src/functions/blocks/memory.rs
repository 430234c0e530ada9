//! What functions and lines did with memory: noted references, brought together with where their instructions are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::Names;
use super::costs::{Numbers, Place, own_address};
use super::data::{ByData, Objects};
use super::heap;
use super::places::Places;
use crate::references::{
    AllocationSite, CodeMemory, Costs, Counted, DataPlace, FunctionLocality, FunctionMemory,
    LineMemory, SharedLine,
};
use crate::result::RunResult;
use truecount_engine::virt::Mapping;

/// Lines, and pieces of data, that are told.
const MOST: usize = 1000;

/// Adds to what is known of the run's memory which functions and lines did it, and whose data it was.
pub fn memory_of(ran: &mut RunResult, names: &mut Names) {
    let (Some(noted), Some(blocks)) = (&ran.executed.noted, &ran.executed.blocks) else {
        return;
    };
    names.forget_processes();
    let threads = || ran.executed.threads.iter();
    let images: HashMap<u32, u32> = threads().map(|one| (one.slot, one.image)).collect();
    let pids: HashMap<u32, u32> = threads().rev().map(|one| (one.image, one.pid)).collect();
    let mut numbers = Numbers::default();
    let mut places = Places::default();
    let mut objects = Objects::default();
    let mut mappings: BTreeMap<(u32, u64), Mapping> = BTreeMap::new();
    blocks.each(&mut |executed| {
        if let Some(mapping) = executed.mapping {
            objects.see(names, executed.image, mapping);
            let place = (executed.image, mapping.start);
            mappings.entry(place).or_insert_with(|| mapping.clone());
        }
        let pid = pids.get(&executed.image).copied().unwrap_or(0);
        let mut pc = executed.pc;
        for facts in executed.facts {
            let place = numbers.place(names, executed.mapping, pc, pid);
            places.set(executed.image, pc, place);
            pc = pc.wrapping_add(facts.len());
        }
    });
    places.is_nowhere(numbers.place(names, None, 0, 0));
    let mut sums = Vec::new();
    noted.each(&mut |part, pc, costs| {
        let image = images.get(&part.slot).copied().unwrap_or(0);
        places.add(&mut sums, (image, pc), costs);
    });
    let lines = places.by_place(sums);
    let mut functions: BTreeMap<usize, Costs> = BTreeMap::new();
    for (place, costs) in &lines {
        functions.entry(place.function).or_default().add(costs);
    }
    let mut orders: BTreeMap<usize, Counted> = BTreeMap::new();
    noted.each_order(&mut |slot, pc, counted| {
        let image = images.get(&slot).copied().unwrap_or(0);
        if let Some(place) = places.at(image, pc) {
            orders.entry(place.function).or_default().add(counted);
        }
    });
    let orders = localities(&numbers, orders);
    let mut by_data = ByData::default();
    let mut shared = ran
        .executed
        .memory
        .as_mut()
        .and_then(|memory| memory.sharing.take());
    noted.each_touched(&mut |memory, touched, allocated| {
        let image = images.get(&memory).copied().unwrap_or(0);
        let pid = pids.get(&image).copied().unwrap_or(0);
        let mut site = |address| call_site(&mut numbers, names, &mappings, (image, pid), address);
        by_data.add(&objects, (memory, image), (touched, allocated), &mut site);
        let lines = shared.iter_mut().flatten();
        for line in lines.filter(|line| line.memory == memory) {
            line.data = heap::place(allocated, line.address, &mut site);
        }
    });
    let modelled = noted.is_modelled();
    let rank = |costs: &Costs| {
        Reverse((
            costs.penalty(),
            costs.totals.load_bytes + costs.totals.store_bytes,
        ))
    };
    let mut functions: Vec<_> = functions.into_iter().collect();
    // Among equals by name: their numbers follow the order of translation.
    let name = |function: usize| numbers.object_and_name(function);
    functions.sort_by(|(a, costs), (b, other)| {
        let by_rank = rank(costs).cmp(&rank(other));
        by_rank.then_with(|| name(*a).cmp(&name(*b)))
    });
    let functions = functions.into_iter().map(|(function, costs)| {
        let (module, name) = numbers.object_and_name(function);
        FunctionMemory {
            module: module.to_owned(),
            function: name.to_owned(),
            of: CodeMemory::of(&costs, modelled),
        }
    });
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.retain(|(_, costs)| {
        costs.totals.loads + costs.totals.stores + costs.wrong() + costs.fetch_l1 != 0
    });
    lines.sort_by(|(a, costs), (b, other)| {
        let key = |at: &Place| (name(at.function), numbers.path(at.file), at.line);
        let by_rank = rank(costs).cmp(&rank(other));
        by_rank.then_with(|| key(a).cmp(&key(b)))
    });
    let lines = lines.into_iter().take(MOST).map(|(place, costs)| {
        let (module, name) = numbers.object_and_name(place.function);
        LineMemory {
            module: module.to_owned(),
            function: name.to_owned(),
            file: numbers.path(place.file).to_owned(),
            line: place.line,
            of: CodeMemory::of(&costs, modelled),
        }
    });
    let (functions, lines) = (functions.collect(), lines.collect());
    if let Some(memory) = &mut ran.executed.memory {
        (memory.functions, memory.lines) = (functions, lines);
        (memory.heap, memory.sharing) = (Some(by_data.heap()), shared);
        for line in memory.sharing.iter_mut().flatten() {
            let image = images.get(&line.memory).copied().unwrap_or(0);
            if line.data.is_none() {
                line.data = Some(place_of(line, &objects, &by_data, image));
            }
        }
        memory.data = by_data.finish(modelled, MOST);
        if let Some(locality) = &mut memory.locality {
            locality.functions = orders;
        }
    }
}

/// Functions by how far apart they use lines again.
fn localities(numbers: &Numbers, orders: BTreeMap<usize, Counted>) -> Vec<FunctionLocality> {
    let told = |(function, counted): (usize, Counted)| {
        let (module, name) = numbers.object_and_name(function);
        FunctionLocality {
            module: module.to_owned(),
            function: name.to_owned(),
            order: counted.of_code(),
        }
    };
    let mut all: Vec<_> = orders.into_iter().map(told).collect();
    all.sort_by(|a, b| {
        let rank = |one: &FunctionLocality| Reverse((one.order.far(), one.order.touches));
        let by_rank = rank(a).cmp(&rank(b));
        by_rank.then_with(|| (&a.module, &a.function).cmp(&(&b.module, &b.function)))
    });
    all
}

/// Where a call of an allocator is that returns to an address of an image.
fn call_site(
    numbers: &mut Numbers,
    names: &mut Names,
    mappings: &BTreeMap<(u32, u64), Mapping>,
    (image, pid): (u32, u32),
    address: u64,
) -> AllocationSite {
    // The call itself lies in front of where it returns to.
    let call = address.wrapping_sub(1);
    let before = mappings.range((image, 0)..=(image, call)).next_back();
    let mapping = before
        .map(|(_, mapping)| mapping)
        .filter(|one| call < one.end);
    let place = numbers.place(names, mapping, call, pid);
    let (module, function) = numbers.object_and_name(place.function);
    AllocationSite {
        module: module.to_owned(),
        function: function.to_owned(),
        file: numbers.path(place.file).to_owned(),
        line: place.line,
        offset: own_address(mapping, address),
        ..AllocationSite::default()
    }
}

/// Whose data a shared line is that no block of the heap was used in.
fn place_of(line: &SharedLine, objects: &Objects, by_data: &ByData, image: u32) -> DataPlace {
    let stack = by_data.is_stack(line.memory, line.address);
    let threads = line.threads.iter();
    let used = threads.fold(0, |used, thread| used | thread.read | thread.written);
    objects.place(image, line.address, used, stack)
}
