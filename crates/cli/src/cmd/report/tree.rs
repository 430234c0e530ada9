//! The tree of callers and callees: from the outermost callers to the functions (`-g caller`), or from each function to
//! its callers (`-g callee`).

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::json;
use truecount_sample::profile::Weight;

use super::view::{Named, View, base_name, short, symbol};
use crate::render::style::{DIM, paint};

/// Deeper chains are cut there: nobody reads them.
const MAX_DEPTH: usize = 512;
const DEEPER: &str = "(deeper calls)";

/// Which way a tree grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Order {
    /// From the outermost callers to what they call
    Caller,
    /// From each function to its callers
    Callee,
}

struct Node {
    name: usize,
    own: Weight,
    total: Weight,
    children: Vec<usize>,
}

/// The nodes by number; the first is the root, which is no function.
pub(super) struct Tree {
    nodes: Vec<Node>,
    names: Vec<Option<Named>>,
    all: u64,
}

/// A node that is shown, in the order of lines.
pub(super) struct Line<'a> {
    pub(super) depth: usize,
    /// It has sisters that are shown.
    branches: bool,
    last: bool,
    named: Option<&'a Named>,
    own: Weight,
    total: Weight,
}

impl Tree {
    pub(super) fn of(view: &mut View, event: u32, order: Order) -> Self {
        view.name_all();
        let mut tree = Self {
            nodes: Vec::new(),
            names: vec![None],
            all: view.total(event).events,
        };
        tree.node(0);
        let mut names: HashMap<Named, usize> = HashMap::new();
        let mut edges: HashMap<(usize, usize), usize> = HashMap::new();
        let entries = view.profile.entries.clone();
        for (context, weight) in entries.iter().filter(|(c, _)| c.event == event) {
            if !view.shows_sample(context) {
                continue;
            }
            let mut chain = view.chain(context);
            if let Some(end) = context.early_end {
                let file = base_name(view.profile.path_of(end));
                let dso = if file.is_empty() { "unknown" } else { file };
                chain.push(Named::plain(format!("(ends early: {})", end.brief()), dso));
            }
            if order == Order::Caller {
                chain.reverse();
            }
            let (mut at, mut outermost) = (0, 0);
            tree.add(at, *weight);
            for (depth, mut named) in chain.into_iter().enumerate() {
                // One function is one node, whichever of its lines it was.
                (named.line, named.file) = (None, None);
                let name = if depth == MAX_DEPTH {
                    0
                } else {
                    let next = tree.names.len();
                    *names.entry(named).or_insert_with_key(|named| {
                        tree.names.push(Some(named.clone()));
                        next
                    })
                };
                at = match edges.get(&(at, name)) {
                    Some(&known) => known,
                    None => {
                        let new = tree.node(name);
                        edges.insert((at, name), new);
                        if let Some(parent) = tree.nodes.get_mut(at) {
                            parent.children.push(new);
                        }
                        new
                    }
                };
                tree.add(at, *weight);
                if depth == 0 {
                    outermost = at;
                }
                if depth == MAX_DEPTH {
                    break;
                }
            }
            let sampled = match order {
                Order::Caller => at,
                Order::Callee => outermost,
            };
            if let Some(node) = tree.nodes.get_mut(sampled) {
                node.own.add(*weight);
            }
        }
        tree
    }

    fn node(&mut self, name: usize) -> usize {
        self.nodes.push(Node {
            name,
            own: Weight::default(),
            total: Weight::default(),
            children: Vec::new(),
        });
        self.nodes.len() - 1
    }

    fn add(&mut self, at: usize, weight: Weight) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.total.add(weight);
        }
    }

    /// The nodes of at least `limit` percent, those with most events first, `top` of the outermost.
    pub(super) fn lines(&self, limit: f64, top: usize) -> Vec<Line<'_>> {
        let least = limit / 100.0 * self.all as f64;
        let shown = |at: usize, most: usize| {
            let of = |at: &usize| self.nodes.get(*at).map_or(0, |n| n.total.events);
            let children = self.nodes.get(at).map_or(&[][..], |n| &n.children);
            let mut out: Vec<usize> = children.to_vec();
            out.retain(|child| of(child) as f64 >= least);
            out.sort_by_key(|child| std::cmp::Reverse(of(child)));
            out.truncate(most);
            out
        };
        let mut lines = Vec::new();
        // (node, depth, has sisters, is the last of them), the next one last.
        let mut open: Vec<(usize, usize, bool, bool)> = Vec::new();
        let push = |open: &mut Vec<(usize, usize, bool, bool)>, list: Vec<usize>, depth| {
            let (sisters, last) = (list.len() > 1, list.last().copied());
            let list = list.into_iter().rev();
            open.extend(list.map(|at| (at, depth, sisters, Some(at) == last)));
        };
        push(&mut open, shown(0, top), 0);
        while let Some((at, depth, branches, last)) = open.pop() {
            let Some(node) = self.nodes.get(at) else {
                continue;
            };
            lines.push(Line {
                depth,
                branches,
                last,
                named: self.names.get(node.name).and_then(Option::as_ref),
                own: node.own,
                total: node.total,
            });
            push(&mut open, shown(at, usize::MAX), depth + 1);
        }
        lines
    }

    pub(super) fn json(&self, limit: f64, top: usize) -> serde_json::Value {
        let weight = |w: Weight| json!({"samples": w.samples, "events": w.events});
        let lines = self.lines(limit, top).into_iter().map(|line| {
            json!({
                "depth": line.depth,
                "function": line.named.map_or(DEEPER, |n| n.function.as_str()),
                "dso": line.named.map(|n| &n.dso),
                "inlined": line.named.is_some_and(|n| n.inlined),
                "self": weight(line.own),
                "total": weight(line.total),
            })
        });
        lines.collect()
    }
}

/// Prints the tree of an event. Only children stand below their parent; sisters are marked and indented.
pub(super) fn print(out: &mut dyn Write, tree: &Tree, limit: f64, top: usize) -> io::Result<()> {
    let percent = |w: Weight| 100.0 * w.events as f64 / tree.all.max(1) as f64;
    writeln!(out, "{}", paint(DIM, "     total       self"))?;
    // How far each depth is indented: a line under which no mark stands costs no room.
    let mut indents: Vec<usize> = Vec::new();
    for line in tree.lines(limit, top) {
        indents.truncate(line.depth);
        let outer = indents.last().copied().unwrap_or(0);
        let mark = match (line.depth, line.branches, line.last) {
            (0, ..) | (_, false, _) => "",
            (_, true, false) => "├ ",
            (_, true, true) => "└ ",
        };
        indents.push(outer + if mark.is_empty() { 0 } else { 2 });
        let name = match line.named {
            Some(named) => short(&symbol(named)),
            None => DEEPER.to_owned(),
        };
        writeln!(
            out,
            "{:>8.2} % {:>8.2} %  {:outer$}{mark}{name}",
            percent(line.total),
            percent(line.own),
            ""
        )?;
    }
    Ok(())
}
