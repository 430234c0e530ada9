//! Stacks with what they cost: what the exports of call trees (folded stacks, pprof, flame graphs) are made of, be they
//! samples of a recording or regions of a program.

use super::process_name;
use super::tree::Tree;
use crate::file::Profile;

/// What was measured of each stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// Its name: `cycles`, `instructions:u`, `time`.
    pub name: String,
    /// What its occurrences are called: `cycles samples`, `intervals`.
    pub occurrences: String,
    /// It counts nanoseconds; else events.
    pub nanoseconds: bool,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The program or library it is in; empty: not known.
    pub module: String,
    /// Its source file, when known.
    pub file: Option<String>,
}

/// A function at a place, with its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Index into [`Stacks::functions`].
    pub function: usize,
    /// Line in its source file, when known.
    pub line: Option<u32>,
    /// Inlined into the next one.
    pub inlined: bool,
}

/// A place in code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Address or offset in its file; 0: none.
    pub address: u64,
    /// In the kernel.
    pub kernel: bool,
    /// The functions there, innermost first: several where calls were inlined.
    pub lines: Vec<Line>,
}

/// Whose stack it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Name of the process.
    pub process: String,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}

/// A stack and its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Index into [`Stacks::measures`].
    pub measure: usize,
    /// Whose it is, when that is known.
    pub owner: Option<Owner>,
    /// Indices into [`Stacks::places`], innermost first.
    pub places: Vec<usize>,
    /// How often it was seen: samples, intervals.
    pub count: u64,
    /// What it cost itself, without what it called.
    pub cost: u64,
}

/// Stacks with their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stacks {
    /// What is the whole: a process, a file.
    pub title: String,
    /// What was measured.
    pub measures: Vec<Measure>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Places.
    pub places: Vec<Place>,
    /// The stacks.
    pub stacks: Vec<Stack>,
    /// When the measurement began, in nanoseconds since 1970.
    pub start: Option<u64>,
    /// How long it took, in nanoseconds.
    pub duration: Option<u64>,
    /// When each stack was seen: nanoseconds and an index into `stacks`; empty when that is not known.
    pub timeline: Vec<(u64, usize)>,
}

impl Stacks {
    /// Of a region profile: every region is a function, the process the outermost one, whose own cost is what lies
    /// between the recorded intervals.
    #[must_use]
    pub fn of_regions(profile: &Profile) -> Self {
        let tree = Tree::new(profile);
        let time = profile.unit().is_time();
        let root = tree.labels.len();
        let mut stacks = Vec::new();
        for (number, node) in tree.nodes.iter().enumerate() {
            let cost = u64::try_from(node.own).unwrap_or(0);
            if cost == 0 && node.count == 0 {
                continue;
            }
            let mut places = Vec::new();
            let mut at = number;
            while at != 0 {
                let Some(node) = tree.nodes.get(at) else {
                    break;
                };
                places.push(node.label as usize);
                at = node.parent as usize;
            }
            places.push(root);
            stacks.push(Stack {
                measure: 0,
                owner: None,
                places,
                count: node.count,
                cost,
            });
        }
        let names = tree.labels.iter().map(String::as_str);
        let functions: Vec<Function> = names
            .chain([process_name(profile)])
            .map(|name| Function {
                name: name.to_owned(),
                module: String::new(),
                file: None,
            })
            .collect();
        let line = |function| Line {
            function,
            line: None,
            inlined: false,
        };
        let places = (0..functions.len()).map(|function| Place {
            lines: vec![line(function)],
            ..Place::default()
        });
        Self {
            title: process_name(profile).to_owned(),
            measures: vec![Measure {
                name: if time {
                    "time".to_owned()
                } else {
                    profile.unit().counter.clone()
                },
                occurrences: "intervals".to_owned(),
                nanoseconds: time,
            }],
            places: places.collect(),
            functions,
            stacks,
            start: profile.metadata().start_time,
            duration: None,
            timeline: Vec::new(),
        }
    }

    /// The functions of a stack, outermost first, each with its place.
    pub(super) fn chain<'s>(&'s self, stack: &'s Stack) -> impl Iterator<Item = Frame<'s>> {
        let places = stack.places.iter().rev();
        places
            .filter_map(|&place| self.places.get(place))
            .flat_map(|place| place.lines.iter().rev().map(move |line| (place, line)))
            .filter_map(|(place, line)| {
                Some(Frame {
                    function: self.functions.get(line.function)?,
                    kernel: place.kernel,
                    inlined: line.inlined,
                })
            })
    }
}

/// A function in a stack.
pub(super) struct Frame<'s> {
    pub(super) function: &'s Function,
    pub(super) kernel: bool,
    pub(super) inlined: bool,
}
