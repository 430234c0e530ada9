//! Functions with what they cost, by place: names and numbers for [`super::lines`] and [`super::edges`].

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::{Names, base_name, jit_map, jit_name};
use crate::functions::kept::Chain;
use crate::references::Simulated;
use truecount_engine::virt::{Counts, Mapping};
use truecount_sample::symbols::Frame;

/// What is kept apart in `line_costs`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail {
    /// Every instruction; else every line.
    pub instructions: bool,
    /// Lines; else the functions alone.
    pub lines: bool,
    /// What is inlined on a line: see [`LineCost::inlined`].
    pub inlined: bool,
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
    /// What it calls, where the run kept the tree of calls; by callee and place.
    pub calls: Vec<Edge>,
}

/// What the instructions of one line cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineCost {
    /// Source file where it is another one than the function's (inlined code).
    pub file: Option<String>,
    /// Offset in the object's file; 0 where instructions are not kept apart.
    pub address: u64,
    /// Line; 0: not known.
    pub line: u32,
    /// Names of the functions that are inlined there, outermost first; none: the function's own code, or not kept apart.
    pub inlined: Vec<String>,
    /// Every event.
    pub counts: Counts,
    /// What a model made of it, where the run had one.
    pub simulated: Simulated,
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

/// Calls of one function from one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edge {
    /// The function that is called: its place among the functions of the piece.
    pub callee: usize,
    /// How often.
    pub calls: u64,
    /// Instructions of these calls; of a caller that calls itself, without what it executed in them anew.
    pub inclusive: u64,
    /// The same for the events that the tree of calls was asked for, in their order; where paths were modelled, for
    /// [`SIMULATED`](crate::references::SIMULATED) instead.
    pub events: Vec<u64>,
    /// Where the function is: address in its object's own terms (0 where instructions are not kept apart) …
    pub callee_address: u64,
    /// … and line; 0: not known.
    pub callee_line: u32,
    /// Source file of the call where it is another one than the caller's.
    pub file: Option<String>,
    /// Address of the call; 0 where instructions are not kept apart.
    pub address: u64,
    /// Its line; 0: not known.
    pub line: u32,
}

/// Where an instruction is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    /// Number of its function.
    pub(super) function: usize,
    /// Number of its source file.
    pub(super) file: usize,
    pub(super) line: u32,
    /// Number of what is inlined there, where that is kept apart; 0: nothing.
    pub(super) chain: usize,
}

/// Names of functions and files by number.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) functions: Vec<FunctionCosts>,
    by_name: HashMap<(usize, String), usize>,
    pub(super) files: Vec<String>,
    by_file: HashMap<String, usize>,
    /// Files of functions.
    own_files: FxHashMap<usize, usize>,
    /// Places by their frames as they are kept, for each module …
    by_frames: Vec<Vec<Option<Place>>>,
    /// … by the stretches of code that have the same names …
    by_stretch: Vec<Vec<Option<Place>>>,
    /// … and by their offsets, where frames are not kept.
    places: FxHashMap<(usize, u64), Place>,
    /// Whether places are told apart by what is inlined there.
    inlined: bool,
    /// Names of inlined functions, outermost first, by their number less 1.
    chains: Vec<Vec<String>>,
    by_chain: HashMap<Vec<String>, usize>,
}

impl Numbers {
    pub(super) fn new(detail: Detail) -> Self {
        Self {
            inlined: detail.inlined,
            ..Self::default()
        }
    }

    /// The number of what is inlined at a place, from its names: innermost first, the function itself last.
    fn chain(&mut self, frames: &[Frame]) -> usize {
        let inlined = frames.split_last().map_or(&[][..], |(_, inlined)| inlined);
        if !self.inlined || inlined.is_empty() {
            return 0;
        }
        let outermost_first = inlined.iter().rev();
        let names: Vec<String> = outermost_first
            .map(|frame| frame.function.clone())
            .collect();
        if let Some(&known) = self.by_chain.get(&names) {
            return known;
        }
        self.chains.push(names.clone());
        self.by_chain.insert(names, self.chains.len());
        self.chains.len()
    }

    /// Names of the inlined functions with this number.
    pub(super) fn inlined(&self, chain: usize) -> Vec<String> {
        let names = chain.checked_sub(1).and_then(|at| self.chains.get(at));
        names.cloned().unwrap_or_default()
    }

    /// A place in a function of which no line is known.
    fn without_line(&mut self, function: usize) -> Place {
        Place {
            function,
            file: self.file(""),
            line: 0,
            chain: 0,
        }
    }

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
            ..FunctionCosts::default()
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
            return self.without_line(function);
        };
        let module = names.module(mapping);
        let offset = pc.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
        let Some(known) = names.known.get(module) else {
            let function = self.function(usize::MAX, "", "???", "");
            return self.without_line(function);
        };
        let kept = known.kept;
        // (What is kept for other runs is kept by place.)
        let file = known.found.as_ref().filter(|_| !names.kept.keeps(kept));
        let stretch = file.and_then(|file| file.stretch(offset));
        let chain = match known.file {
            Some(_) if stretch.is_none() => names.kept.chain(kept, offset),
            _ => None,
        };
        let place = match (stretch, chain) {
            (Some(at), _) => numbered(&mut self.by_stretch, module, at).and_then(|at| at.clone()),
            (None, Some(Chain(at))) => {
                numbered(&mut self.by_frames, module, at).and_then(|at| at.clone())
            }
            (None, None) => self.places.get(&(module, offset)).cloned(),
        };
        if let Some(place) = place {
            return place;
        }
        let object = known.path.clone();
        let Some(file) = known.file.clone() else {
            let name = match object.as_str() {
                "[jit]" => jit_name(names.jit.entry(pid).or_insert_with(|| jit_map(pid)), pc).0,
                other => other,
            };
            let function = self.function(module, &object, name, "");
            return self.without_line(function);
        };
        let location = names.kept.locate(&mut names.symbols, &file, offset);
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
            chain: self.chain(&location.frames),
        };
        let chain = match stretch {
            Some(_) => None,
            None => names.kept.chain(kept, offset),
        };
        let known = match (stretch, chain) {
            (Some(at), _) => numbered(&mut self.by_stretch, module, at),
            (None, Some(Chain(at))) => numbered(&mut self.by_frames, module, at),
            (None, None) => {
                self.places.insert((module, offset), place.clone());
                None
            }
        };
        if let Some(known) = known {
            *known = Some(place.clone());
        }
        place
    }

    pub(super) fn own_file(&mut self, function: usize) -> usize {
        if let Some(&known) = self.own_files.get(&function) {
            return known;
        }
        let name = self.functions.get(function).map(|f| f.file.clone());
        let file = self.file(&name.unwrap_or_default());
        self.own_files.insert(function, file);
        file
    }

    /// What stands for paths for which there was no room.
    pub(super) fn other(&mut self) -> usize {
        self.function(usize::MAX, "", "[other]", "")
    }

    /// Name of a function.
    pub(super) fn name(&self, function: usize) -> &str {
        self.functions.get(function).map_or("", |known| &known.name)
    }
}

/// Where the place with this number is kept, in a module.
fn numbered(
    all: &mut Vec<Vec<Option<Place>>>,
    module: usize,
    at: u32,
) -> Option<&mut Option<Place>> {
    if all.len() <= module {
        all.resize_with(module + 1, Vec::new);
    }
    let all = all.get_mut(module)?;
    let at = at as usize;
    if all.len() <= at {
        all.resize(at + 1, None);
    }
    all.get_mut(at)
}

/// Where an instruction is in its file.
pub(super) fn own_address(mapping: Option<&Mapping>, pc: u64) -> u64 {
    mapping.map_or(pc, |mapping| {
        pc.wrapping_sub(mapping.start).wrapping_add(mapping.offset)
    })
}

impl Numbers {
    /// Object and name of a function.
    pub(super) fn object_and_name(&self, function: usize) -> (&str, &str) {
        let known = self.functions.get(function);
        known.map_or(("", "???"), |known| (&known.object, &known.name))
    }

    /// A source file.
    pub(super) fn path(&self, file: usize) -> &str {
        self.files.get(file).map_or("", String::as_str)
    }
}
