//! The calling-context tree of a run with names: what every path of functions executed.
//!
//! The engine knows addresses. Here they get the names of their symbols, and nodes that have the same become one: an
//! address that is entered in two ways, threads of one program. Stubs of procedure linkage tables belong to who calls
//! through them.

use std::collections::{BTreeMap, HashMap};

mod check;
pub mod diff;
mod folded;
mod lines;
mod memory;

pub use check::check;
pub use lines::{InlinedCost, SourceLine};
pub use truecount_engine::virt::CallOptions;

use serde::{Deserialize, Serialize};
use truecount_engine::virt::{CallKind, CallNode, Calls, Mapping};

use crate::functions::{Names, is_stub};
use crate::result::RunResult;
use memory::OfMemory;

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A program, or one of its threads.
    Thread,
    /// A function.
    Function,
    /// A handler that the kernel called.
    Signal,
    /// Paths below `parent` for which there was no room: `calls` are all calls in them.
    Other,
}

/// A function, or a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Called {
    /// Its name.
    pub name: String,
    /// Path of the file it is in; empty for threads.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
}

/// A path of functions: this one, called by `parent`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Index of the caller's node, which is lower.
    pub parent: Option<usize>,
    /// Index into [`CallTree::functions`].
    pub function: usize,
    /// What it is.
    pub kind: Kind,
    /// With call sites apart: where it returns to, an address in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<u64>,
    /// The source line of that call, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_line: Option<SiteLine>,
    /// How often it was called on this path.
    pub calls: u64,
    /// What it executed there itself.
    #[serde(rename = "self")]
    pub own: u64,
    /// With all it called.
    pub inclusive: u64,
    /// The same for [`CallTree::events`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventCost>,
}

/// The source line that a call is on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SiteLine {
    /// The source file.
    pub file: String,
    /// The line in it.
    pub line: u32,
}

/// What was counted of an event beside instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCost {
    /// By the function itself.
    #[serde(rename = "self")]
    pub own: u64,
    /// With all it called.
    pub inclusive: u64,
}

impl EventCost {
    fn add(&mut self, more: Self) {
        self.own = self.own.wrapping_add(more.own);
        self.inclusive = self.inclusive.wrapping_add(more.inclusive);
    }
}

/// Adds events to others in the same order, as far as there are any.
fn add_events(sums: &mut [EventCost], more: impl IntoIterator<Item = EventCost>) {
    for (sum, more) in sums.iter_mut().zip(more) {
        sum.add(more);
    }
}

/// The sums of one function over the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionCost {
    /// Index into [`CallTree::functions`].
    pub function: usize,
    /// How often it was called.
    pub calls: u64,
    /// What it executed itself.
    #[serde(rename = "self")]
    pub own: u64,
    /// With all it called; what it called of itself counts once.
    pub inclusive: u64,
    /// The same for [`CallTree::events`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventCost>,
    /// What it executed itself, by source line, where that was asked for ([`CallTree::add_lines`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<SourceLine>,
    /// The same by what is inlined in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<InlinedCost>,
}

/// The tree of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTree {
    /// Names.
    pub functions: Vec<Called>,
    /// Paths, callers first.
    pub nodes: Vec<Node>,
    /// Instructions of all nodes: the run's.
    pub total: u64,
    /// Names of what was counted beside instructions; behind all others those of [`CallTree::facts`] and
    /// [`CallTree::modelled`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Those that are facts about memory references. Lines and pages count on the path that touched them first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// Those that a model of caches and branch predictors says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modelled: Vec<String>,
    /// How often a path was met for which there was no room: see [`Kind::Other`].
    pub folded: u64,
    /// Calls that were too deep to be kept apart from their callers.
    pub too_deep: u64,
}

/// Which threads have a tree of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Apart {
    /// One a program.
    #[default]
    Programs,
    /// One a process.
    Processes,
    /// One a thread.
    Threads,
}

/// Names of functions by place, for one run.
struct Finder<'a> {
    names: &'a mut Names,
    /// Mappings of an image by address.
    mappings: HashMap<u32, BTreeMap<u64, Mapping>>,
    found: HashMap<(u32, u64), Called>,
    lines: HashMap<(u32, u64), Option<SiteLine>>,
}

impl Finder<'_> {
    fn function(&mut self, image: u32, pid: u32, pc: u64) -> Called {
        if let Some(found) = self.found.get(&(image, pc)) {
            return found.clone();
        }
        let called = match mapping_of(&self.mappings, image, pc) {
            Some(mapping) => {
                let (module, name) = self.names.symbol(mapping, pc, pid);
                Called { name, module }
            }
            None => Called {
                name: "[unknown]".to_owned(),
                module: "[unknown]".to_owned(),
            },
        };
        self.found.insert((image, pc), called.clone());
        called
    }

    /// The line of the call that returns to `site`.
    fn line(&mut self, image: u32, site: u64) -> Option<SiteLine> {
        if let Some(found) = self.lines.get(&(image, site)) {
            return found.clone();
        }
        let call = site.wrapping_sub(1);
        let mapping = mapping_of(&self.mappings, image, call);
        let line = mapping.and_then(|mapping| self.names.line(mapping, call));
        let line = line.map(|(file, line)| SiteLine { file, line });
        self.lines.insert((image, site), line.clone());
        line
    }
}

/// What is mapped at `pc` of an image.
fn mapping_of(
    mappings: &HashMap<u32, BTreeMap<u64, Mapping>>,
    image: u32,
    pc: u64,
) -> Option<&Mapping> {
    let (_, mapping) = mappings.get(&image)?.range(..=pc).next_back()?;
    (pc < mapping.end).then_some(mapping)
}

/// The tree that a run kept, with names; `sites`: paths are told apart by call sites, where the run did. `Err`: what does
/// not add up.
///
/// # Errors
/// The own costs of a thread's nodes do not sum to what it executed.
pub fn tree_of(
    ran: &RunResult,
    names: &mut Names,
    apart: Apart,
    sites: bool,
) -> Result<Option<CallTree>, String> {
    let executed = &ran.executed;
    let (Some(calls), Some(blocks)) = (executed.calls.as_ref(), executed.blocks.as_ref()) else {
        return Ok(None);
    };
    let of_memory = OfMemory::of(ran);
    check::check_all(ran, &of_memory)?;
    names.forget_processes();
    let mut mappings: HashMap<u32, BTreeMap<u64, Mapping>> = HashMap::new();
    blocks.each_translated(&mut |block| {
        if let Some(mapping) = block.mapping {
            let known = mappings.entry(block.image).or_default();
            if known.get(&mapping.start) != Some(mapping) {
                known.insert(mapping.start, mapping.clone());
            }
        }
    });
    let finder = Finder {
        names,
        mappings,
        found: HashMap::new(),
        lines: HashMap::new(),
    };
    Ok(Some(built((ran, calls, &of_memory), finder, apart, sites)))
}

fn built(
    (ran, calls, of_memory): (&RunResult, &Calls, &OfMemory),
    mut finder: Finder<'_>,
    apart: Apart,
    sites: bool,
) -> CallTree {
    let threads: HashMap<u32, &crate::result::Thread> = ran
        .executed
        .threads
        .iter()
        .map(|thread| (thread.slot, thread))
        .collect();
    let events = calls.events.iter();
    let mut tree = CallTree {
        events: events.map(|event| format!("{}:u", event.name())).collect(),
        folded: calls.folded,
        too_deep: calls.too_deep,
        ..CallTree::default()
    };
    of_memory.name(&mut tree);
    let own_events = |node: &CallNode| {
        let counted = own_events(node).take(calls.events.len());
        counted.chain(of_memory.own(node)).collect::<Vec<_>>()
    };
    let mut functions: HashMap<Called, usize> = HashMap::new();
    let mut known: HashMap<(Option<usize>, usize, Kind, u64), usize> = HashMap::new();
    // What became of each of the engine's nodes; none: not collected.
    let mut places: Vec<Option<usize>> = Vec::with_capacity(calls.nodes.len());
    for node in &calls.nodes {
        let thread = threads.get(&node.slot);
        let (image, pid) = thread.map_or((0, 0), |thread| (thread.image, thread.pid));
        let above = node.parent.and_then(|parent| places.get(parent as usize));
        let parent = above.copied().flatten();
        let thrown_away = node.kind == CallKind::Off || above.is_some() && parent.is_none();
        if node.kind == CallKind::Part {
            places.push(parent);
            continue;
        }
        if thrown_away {
            places.push(None);
            continue;
        }
        let (kind, called) = match node.kind {
            CallKind::Thread => (Kind::Thread, root_name(thread.copied(), apart)),
            CallKind::Other => (
                Kind::Other,
                Called {
                    name: "[other]".to_owned(),
                    module: String::new(),
                },
            ),
            CallKind::Signal => (Kind::Signal, finder.function(image, pid, node.function)),
            _ => (Kind::Function, finder.function(image, pid, node.function)),
        };
        // A stub's few instructions are its caller's.
        if kind == Kind::Function
            && is_stub(&called.name)
            && let Some(at) = parent
        {
            places.push(Some(at));
            if let Some(caller) = tree.nodes.get_mut(at) {
                caller.own = caller.own.wrapping_add(node.own);
                add_events(&mut caller.events, own_events(node));
            }
            continue;
        }
        let number = functions.len();
        let function = *functions.entry(called).or_insert(number);
        let site = if sites { node.site } else { 0 };
        let key = (parent, function, kind, site);
        let place = *known.entry(key).or_insert_with(|| {
            tree.nodes.push(Node {
                parent,
                function,
                kind,
                site: (site != 0).then_some(site),
                site_line: (site != 0).then(|| finder.line(image, site)).flatten(),
                calls: 0,
                own: 0,
                inclusive: 0,
                events: vec![EventCost::default(); tree.events.len()],
            });
            tree.nodes.len() - 1
        });
        if let Some(sum) = tree.nodes.get_mut(place) {
            sum.calls += node.calls;
            sum.own = sum.own.wrapping_add(node.own);
            add_events(&mut sum.events, own_events(node));
        }
        places.push(Some(place));
    }
    let mut names: Vec<(Called, usize)> = functions.into_iter().collect();
    names.sort_unstable_by_key(|&(_, number)| number);
    tree.functions = names.into_iter().map(|(called, _)| called).collect();
    tree.sum();
    tree
}

/// What an engine's node has of events, none of it inclusive yet.
fn own_events(node: &CallNode) -> impl Iterator<Item = EventCost> {
    let own = node.events.into_iter();
    own.map(|own| EventCost { own, inclusive: 0 })
}

fn root_name(thread: Option<&crate::result::Thread>, apart: Apart) -> Called {
    let name = match (thread, apart) {
        (None, _) => "[unknown]".to_owned(),
        (Some(thread), Apart::Programs) => thread.program.clone(),
        (Some(thread), Apart::Processes) => format!("{} {}", thread.program, thread.pid),
        (Some(thread), Apart::Threads) => {
            format!("{} {} thread {}", thread.program, thread.pid, thread.tid)
        }
    };
    Called {
        name,
        module: String::new(),
    }
}

impl CallTree {
    /// Fills in what is inclusive, and the total.
    pub fn sum(&mut self) {
        self.total = 0;
        for node in &mut self.nodes {
            node.inclusive = node.own;
            for event in &mut node.events {
                event.inclusive = event.own;
            }
            self.total = self.total.wrapping_add(node.own);
        }
        for at in (0..self.nodes.len()).rev() {
            let (above, rest) = self.nodes.split_at_mut(at);
            let Some(node) = rest.first() else {
                continue;
            };
            if let Some(parent) = node.parent.and_then(|parent| above.get_mut(parent)) {
                parent.inclusive = parent.inclusive.wrapping_add(node.inclusive);
                let inclusive = node.events.iter().map(|event| event.inclusive);
                let more = inclusive.map(|inclusive| EventCost { own: 0, inclusive });
                add_events(&mut parent.events, more);
            }
        }
    }

    /// Name of a node's function.
    pub fn name(&self, node: &Node) -> &str {
        self.functions
            .get(node.function)
            .map_or("?", |called| &called.name)
    }

    /// The nodes below each node, largest first; behind the last one those of no parent.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.nodes.len() + 1];
        for (at, node) in self.nodes.iter().enumerate() {
            let parent = node.parent.unwrap_or(self.nodes.len());
            if let Some(list) = children.get_mut(parent) {
                list.push(at);
            }
        }
        let inclusive = |&at: &usize| self.nodes.get(at).map_or(0, |node| node.inclusive);
        for list in &mut children {
            list.sort_by_key(|at| std::cmp::Reverse(inclusive(at)));
        }
        children
    }

    /// What each function cost and how often it was called, by inclusive cost. What a function calls of itself, however
    /// far down, is in its own cost once.
    pub fn by_function(&self) -> Vec<FunctionCost> {
        let mut costs: Vec<FunctionCost> = (0..self.functions.len())
            .map(|function| FunctionCost {
                function,
                calls: 0,
                own: 0,
                inclusive: 0,
                events: vec![EventCost::default(); self.events.len()],
                lines: Vec::new(),
                inlined: Vec::new(),
            })
            .collect();
        let children = self.children();
        let mut on_path = vec![0u32; self.functions.len()];
        // Down and up again without recursion: trees can be a million calls deep.
        let mut open: Vec<(usize, bool)> = Vec::new();
        open.extend(children.last().into_iter().flatten().map(|&at| (at, true)));
        while let Some((at, enters)) = open.pop() {
            let Some(node) = self.nodes.get(at) else {
                continue;
            };
            let (Some(cost), Some(depth)) =
                (costs.get_mut(node.function), on_path.get_mut(node.function))
            else {
                continue;
            };
            if !enters {
                *depth -= 1;
                continue;
            }
            cost.calls += node.calls;
            cost.own = cost.own.wrapping_add(node.own);
            let outermost = *depth == 0;
            if outermost {
                cost.inclusive = cost.inclusive.wrapping_add(node.inclusive);
            }
            let events = node.events.iter().map(|event| EventCost {
                inclusive: if outermost { event.inclusive } else { 0 },
                ..*event
            });
            add_events(&mut cost.events, events);
            *depth += 1;
            open.push((at, false));
            open.extend(children.get(at).into_iter().flatten().map(|&at| (at, true)));
        }
        costs.sort_by(|a, b| {
            (b.inclusive, b.own)
                .cmp(&(a.inclusive, a.own))
                .then_with(|| a.function.cmp(&b.function))
        });
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of functions by name, from (parent, function, calls, own cost).
    pub(super) fn tree(names: &[&str], nodes: &[(Option<usize>, usize, u64, u64)]) -> CallTree {
        let called = |name: &&str| Called {
            name: (*name).to_owned(),
            module: format!("/build/{}/prog", names.len()),
        };
        let mut tree = CallTree {
            functions: names.iter().map(called).collect(),
            nodes: nodes
                .iter()
                .map(|&(parent, function, calls, own)| Node {
                    parent,
                    function,
                    kind: Kind::Function,
                    site: None,
                    site_line: None,
                    calls,
                    own,
                    inclusive: 0,
                    events: Vec::new(),
                })
                .collect(),
            ..CallTree::default()
        };
        tree.sum();
        tree
    }

    /// main calls f, which calls itself and g, which calls f again.
    #[test]
    fn recursion_counts_once() {
        let nodes = [
            (None, 0, 1, 10),
            (Some(0), 1, 2, 20),
            (Some(1), 1, 3, 30),
            (Some(2), 2, 4, 40),
            (Some(3), 1, 5, 50),
        ];
        let tree = tree(&["main", "f", "g"], &nodes);
        assert_eq!(tree.total, 150);
        let costs: Vec<_> = tree
            .by_function()
            .into_iter()
            .map(|cost| (cost.function, cost.calls, cost.own, cost.inclusive))
            .collect();
        assert_eq!(costs, [(0, 1, 10, 150), (1, 10, 100, 140), (2, 4, 40, 90)]);
    }
}
