//! What every instruction cost, by function and source line: what Callgrind's format wants. From the executions of
//! every block, so exact.

use std::collections::{BTreeMap, HashMap};

use super::{Names, base_name, jit_map, jit_name};
use crate::result::RunResult;
use truecount_engine::virt::{Counts, Executed, Mapping};

/// What is kept apart in [`line_costs`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail {
    /// Every instruction; else every line.
    pub instructions: bool,
    /// Lines; else the functions alone.
    pub lines: bool,
    /// Threads.
    pub threads: bool,
}

/// A function and what it cost itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionCosts {
    /// Path of the file with the code.
    pub object: String,
    /// Source file; empty: not known.
    pub file: String,
    /// Name of the symbol; an address where there is none.
    pub name: String,
    /// By place, in order of (source file, address, line).
    pub costs: Vec<LineCost>,
}

/// What the instructions of one line cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineCost {
    /// Source file where it is another one than the function's (inlined code).
    pub file: Option<String>,
    /// Address in the object's own terms; 0 where instructions are not kept apart.
    pub address: u64,
    /// Line; 0: not known.
    pub line: u32,
    /// Every event.
    pub counts: Counts,
}

/// Which piece of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Piece {
    /// Slot of the first thread of the process image.
    pub image: u32,
    /// The thread's slot; 0: all threads.
    pub thread: u32,
    /// How many marks of the process were before.
    pub part: u32,
}

/// Where an instruction is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    /// Number of its function.
    pub(super) function: usize,
    /// Number of its source file.
    pub(super) file: usize,
    pub(super) line: u32,
}

/// Names of functions and files by number.
#[derive(Default)]
pub(super) struct Numbers {
    functions: Vec<FunctionCosts>,
    by_name: HashMap<(usize, String), usize>,
    files: Vec<String>,
    by_file: HashMap<String, usize>,
    places: HashMap<(usize, u64), Place>,
}

impl Numbers {
    fn file(&mut self, name: &str) -> usize {
        if let Some(&known) = self.by_file.get(name) {
            return known;
        }
        self.files.push(name.to_owned());
        self.by_file.insert(name.to_owned(), self.files.len() - 1);
        self.files.len() - 1
    }

    fn function(&mut self, module: usize, object: &str, name: &str, file: &str) -> usize {
        let key = (module, name.to_owned());
        if let Some(&known) = self.by_name.get(&key) {
            return known;
        }
        self.functions.push(FunctionCosts {
            object: object.to_owned(),
            file: file.to_owned(),
            name: name.to_owned(),
            costs: Vec::new(),
        });
        self.by_name.insert(key, self.functions.len() - 1);
        self.functions.len() - 1
    }

    /// Where the instruction at `pc` is. Code of files is looked up once; other code may change.
    pub(super) fn place(
        &mut self,
        names: &mut Names,
        mapping: Option<&Mapping>,
        pc: u64,
        pid: u32,
    ) -> Place {
        let Some(mapping) = mapping else {
            let function = self.function(usize::MAX, "", "???", "");
            return Place {
                function,
                file: self.file(""),
                line: 0,
            };
        };
        let module = names.module(mapping);
        let offset = pc.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
        if let Some(known) = self.places.get(&(module, offset)) {
            return known.clone();
        }
        let Some(known) = names.known.get(module) else {
            let function = self.function(usize::MAX, "", "???", "");
            return Place {
                function,
                file: self.file(""),
                line: 0,
            };
        };
        let object = known.path.clone();
        let Some(file) = known.file.clone() else {
            let name = match object.as_str() {
                "[jit]" => jit_name(names.jit.entry(pid).or_insert_with(|| jit_map(pid)), pc).0,
                other => other,
            };
            let function = self.function(module, &object, name, "");
            return Place {
                function,
                file: self.file(""),
                line: 0,
            };
        };
        let location = names.symbols.locate_once(&file, offset);
        let (own, inner) = (location.frames.last(), location.frames.first());
        let own_file = own.and_then(|frame| frame.file.as_deref()).unwrap_or("");
        let name = match own {
            Some(frame) => frame.function.clone(),
            None => format!("[no symbol in {}]", base_name(&object)),
        };
        let function = self.function(module, &object, &name, own_file);
        let inner_file = inner.and_then(|frame| frame.file.as_deref());
        let place = Place {
            function,
            file: self.file(inner_file.unwrap_or(own_file)),
            line: inner.and_then(|frame| frame.line).unwrap_or(0),
        };
        self.places.insert((module, offset), place.clone());
        place
    }
}

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
    all.into_iter()
        .map(|(piece, sums)| (piece, numbers.functions_of(sums)))
        .collect()
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
        let address = match (detail.instructions, executed.mapping) {
            (false, _) => 0,
            (true, None) => pc,
            (true, Some(mapping)) => pc.wrapping_sub(mapping.start).wrapping_add(mapping.offset),
        };
        facts.add(executed.times, sums.entry((place, address)).or_default());
        pc = pc.wrapping_add(facts.len());
    }
}

impl Numbers {
    fn own_file(&mut self, function: usize) -> usize {
        let name = self.functions.get(function).map(|f| f.file.clone());
        self.file(&name.unwrap_or_default())
    }

    /// Object and name of a function.
    pub(super) fn object_and_name(&self, function: usize) -> (&str, &str) {
        let known = self.functions.get(function);
        known.map_or(("", "???"), |known| (&known.object, &known.name))
    }

    /// A source file.
    pub(super) fn path(&self, file: usize) -> &str {
        self.files.get(file).map_or("", String::as_str)
    }

    /// The functions with their costs; what is 0 is left out.
    fn functions_of(&self, sums: Sums) -> Vec<FunctionCosts> {
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
        found.into_values().collect()
    }
}
