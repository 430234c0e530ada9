//! Source lines and instructions of the functions with the largest own costs, each with what it executed.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use serde::Serialize;
use truecount_engine::xlate::facts::Event;
use truecount_run::functions::FunctionCosts;
use truecount_run::input;
use truecount_sample::code::Isa;

/// Functions whose code is shown.
const MAX_FUNCTIONS: usize = 150;
/// Lines of a function's source, and instructions.
const MAX_LINES: usize = 400;
/// The longest instruction.
const LONGEST: usize = 15;

/// What a function's code cost.
#[derive(Serialize)]
pub(super) struct Code {
    sources: Vec<Source>,
    /// Place in the file, executions, text.
    instructions: Vec<(String, u64, String)>,
}

#[derive(Serialize)]
struct Source {
    file: String,
    /// Line, instructions executed, text.
    lines: Vec<(u32, u64, String)>,
}

/// The code of those that cost most, by name and module.
pub(super) fn of(costs: &[FunctionCosts]) -> BTreeMap<String, Code> {
    let own = |function: &FunctionCosts| {
        let costs = function.costs.iter();
        costs.fold(0u64, |sum, cost| {
            sum.wrapping_add(instructions(&cost.counts))
        })
    };
    let mut largest: Vec<(u64, &FunctionCosts)> = costs.iter().map(|f| (own(f), f)).collect();
    largest.sort_by_key(|(own, _)| std::cmp::Reverse(*own));
    let mut files = Files::default();
    let mut found = BTreeMap::new();
    for (_, function) in largest.iter().take(MAX_FUNCTIONS) {
        let key = format!("{}\0{}", function.name, function.object);
        found.entry(key).or_insert_with(|| files.code_of(function));
    }
    found
}

fn instructions(counts: &truecount_engine::virt::Counts) -> u64 {
    counts
        .get(Event::Instructions as usize)
        .copied()
        .unwrap_or(0)
}

#[derive(Default)]
struct Files {
    texts: HashMap<String, Option<Vec<String>>>,
    objects: HashMap<String, Option<File>>,
}

impl Files {
    fn code_of(&mut self, function: &FunctionCosts) -> Code {
        let mut lines: BTreeMap<&str, BTreeMap<u32, u64>> = BTreeMap::new();
        let mut listed: BTreeMap<u64, u64> = BTreeMap::new();
        for cost in &function.costs {
            let file = cost.file.as_deref().unwrap_or(&function.file);
            let count = instructions(&cost.counts);
            if cost.line != 0 && !file.is_empty() {
                let sum = lines.entry(file).or_default().entry(cost.line).or_default();
                *sum = sum.wrapping_add(count);
            }
            let sum = listed.entry(cost.address).or_default();
            *sum = sum.wrapping_add(count);
        }
        let instructions = listed
            .into_iter()
            .take(MAX_LINES)
            .map(|(at, count)| (format!("{at:x}"), count, self.text_of(&function.object, at)))
            .collect();
        // Its own file first, whole from its first line to its last; of others what it has inlined.
        let mut sources = Vec::new();
        if let Some(own) = lines.remove(function.file.as_str()) {
            sources.push(self.source(&function.file, &own, true));
        }
        for (file, counts) in lines {
            sources.push(self.source(file, &counts, false));
        }
        Code {
            sources,
            instructions,
        }
    }

    fn source(&mut self, file: &str, counts: &BTreeMap<u32, u64>, whole: bool) -> Source {
        let text = self.texts.entry(file.to_owned()).or_insert_with(|| {
            let text = input::text(file.as_ref()).ok()?;
            Some(text.lines().map(str::to_owned).collect())
        });
        let last = counts.keys().next_back().copied().unwrap_or(0);
        let first = counts.keys().next().copied().unwrap_or(0);
        let there = |line: u32| {
            let lines = text.as_ref()?;
            lines.get(line.checked_sub(1)? as usize).cloned()
        };
        let line = |number: u32, count: u64| (number, count, there(number).unwrap_or_default());
        let short = (last.saturating_sub(first) as usize) < MAX_LINES;
        let lines = if whole && short && text.is_some() {
            (first..=last)
                .map(|number| line(number, counts.get(&number).copied().unwrap_or(0)))
                .collect()
        } else {
            let counted = counts.iter().take(MAX_LINES);
            counted
                .map(|(&number, &count)| line(number, count))
                .collect()
        };
        Source {
            file: file.to_owned(),
            lines,
        }
    }

    /// The instruction at a place of a file.
    fn text_of(&mut self, object: &str, at: u64) -> String {
        let file = self
            .objects
            .entry(object.to_owned())
            .or_insert_with(|| File::open(object).ok());
        let mut bytes = [0u8; LONGEST];
        let read = file
            .as_ref()
            .and_then(|file| file.read_at(&mut bytes, at).ok())
            .and_then(|read| bytes.get(..read));
        let first = read.and_then(|bytes| Isa::X86_64.listing(bytes, at).next());
        first.map_or_else(String::new, |instruction| instruction.text)
    }
}
