//! Two trees of calls, path by path: what each gained and lost, exactly.
//!
//! A path is the same in both where its functions have the same names and are in files of the same name: addresses and
//! directories are those of one build.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallTree, Called, Kind, Node};
use crate::functions::base_name;

/// What a path, or a function, cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// How often it was called.
    pub calls: u64,
    /// What it executed itself.
    #[serde(rename = "self")]
    pub own: u64,
    /// With all it called.
    pub inclusive: u64,
}

/// A path of functions in either of the trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffNode {
    /// Index of the caller's node, which is lower.
    pub parent: Option<usize>,
    /// Index into [`CallDiff::functions`].
    pub function: usize,
    /// What it is.
    pub kind: Kind,
    /// Before; zeros: it was not there.
    pub old: Cost,
    /// After; zeros: it is not there any more.
    pub new: Cost,
}

/// A function, summed over all its paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionDiff {
    /// Index into [`CallDiff::functions`].
    pub function: usize,
    /// Before.
    pub old: Cost,
    /// After.
    pub new: Cost,
}

/// The union of two trees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallDiff {
    /// Names.
    pub functions: Vec<Called>,
    /// Paths, callers first.
    pub nodes: Vec<DiffNode>,
    /// Functions, largest change of their own cost first.
    pub sums: Vec<FunctionDiff>,
    /// Instructions before …
    pub old_total: u64,
    /// … and after.
    pub new_total: u64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.calls = self.calls.wrapping_add(other.calls);
        self.own = self.own.wrapping_add(other.own);
        self.inclusive = self.inclusive.wrapping_add(other.inclusive);
    }
}

impl From<&Node> for Cost {
    fn from(node: &Node) -> Self {
        Self {
            calls: node.calls,
            own: node.own,
            inclusive: node.inclusive,
        }
    }
}

/// What became of a cost.
pub fn change(old: u64, new: u64) -> i64 {
    new.wrapping_sub(old).cast_signed()
}

/// Functions and paths of both trees, while they are put together.
#[derive(Default)]
struct Union {
    diff: CallDiff,
    functions: HashMap<(String, String), usize>,
    paths: HashMap<(Option<usize>, usize, Kind), usize>,
    sums: Vec<FunctionDiff>,
}

impl Union {
    fn function(&mut self, called: &Called) -> usize {
        let key = (called.name.clone(), base_name(&called.module).to_owned());
        let next = self.diff.functions.len();
        let number = *self.functions.entry(key).or_insert(next);
        if number == next {
            self.diff.functions.push(called.clone());
            self.sums.push(FunctionDiff {
                function: next,
                old: Cost::default(),
                new: Cost::default(),
            });
        }
        number
    }

    fn add(&mut self, tree: &CallTree, is_new: bool) {
        let functions: Vec<usize> = tree
            .functions
            .iter()
            .map(|called| self.function(called))
            .collect();
        let mut places: Vec<usize> = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            let parent = node.parent.and_then(|parent| places.get(parent)).copied();
            let function = functions.get(node.function).copied().unwrap_or(0);
            let next = self.diff.nodes.len();
            let key = (parent, function, node.kind);
            let place = *self.paths.entry(key).or_insert(next);
            if place == next {
                self.diff.nodes.push(DiffNode {
                    parent,
                    function,
                    kind: node.kind,
                    old: Cost::default(),
                    new: Cost::default(),
                });
            }
            if let Some(known) = self.diff.nodes.get_mut(place) {
                let into = if is_new {
                    &mut known.new
                } else {
                    &mut known.old
                };
                into.add(Cost::from(node));
            }
            places.push(place);
        }
        for cost in tree.by_function() {
            let function = functions.get(cost.function).copied().unwrap_or(0);
            if let Some(sum) = self.sums.get_mut(function) {
                let into = if is_new { &mut sum.new } else { &mut sum.old };
                into.add(Cost {
                    calls: cost.calls,
                    own: cost.own,
                    inclusive: cost.inclusive,
                });
            }
        }
    }
}

impl CallDiff {
    /// Compares two trees.
    #[must_use]
    pub fn of(old: &CallTree, new: &CallTree) -> Self {
        let mut union = Union::default();
        union.add(new, true);
        union.add(old, false);
        let Union { mut diff, sums, .. } = union;
        (diff.old_total, diff.new_total) = (old.total, new.total);
        diff.sums = sums;
        diff.sums.sort_by_key(|sum| {
            let own = change(sum.old.own, sum.new.own).unsigned_abs();
            let inclusive = change(sum.old.inclusive, sum.new.inclusive).unsigned_abs();
            std::cmp::Reverse((own, inclusive))
        });
        diff
    }

    /// Name of a function.
    #[must_use]
    pub fn name(&self, function: usize) -> &str {
        let called = self.functions.get(function);
        called.map_or("?", |called| &called.name)
    }

    /// The functions of a path, the outermost first.
    #[must_use]
    pub fn path(&self, node: &DiffNode) -> Vec<&str> {
        let mut names = vec![self.name(node.function)];
        let mut at = node.parent;
        while let Some(node) = at.and_then(|at| self.nodes.get(at)) {
            names.push(self.name(node.function));
            // Callers come first: this ends.
            at = node.parent;
        }
        names.reverse();
        names
    }

    /// What changed alone: such paths with those above them, and such functions.
    #[must_use]
    pub fn reduced(self) -> Self {
        let differs = |node: &DiffNode| node.old != node.new;
        let mut wanted: Vec<bool> = self.nodes.iter().map(differs).collect();
        for (at, node) in self.nodes.iter().enumerate().rev() {
            let below = wanted.get(at).copied().unwrap_or(false);
            if let Some(above) = node.parent.and_then(|parent| wanted.get_mut(parent)) {
                *above |= below;
            }
        }
        let mut places: Vec<Option<usize>> = Vec::with_capacity(wanted.len());
        let mut nodes = Vec::new();
        for (mut node, wanted) in self.nodes.into_iter().zip(wanted) {
            places.push(wanted.then_some(nodes.len()));
            if wanted {
                let parent = node.parent.and_then(|parent| places.get(parent));
                node.parent = parent.copied().flatten();
                nodes.push(node);
            }
        }
        let sums = self.sums.into_iter().filter(|sum| sum.old != sum.new);
        Self {
            nodes,
            sums: sums.collect(),
            ..self
        }
    }

    /// Paths whose own cost or calls changed, the largest change first.
    #[must_use]
    pub fn changed(&self) -> Vec<&DiffNode> {
        let mut changed: Vec<&DiffNode> = self
            .nodes
            .iter()
            .filter(|node| (node.old.own, node.old.calls) != (node.new.own, node.new.calls))
            .collect();
        changed.sort_by_key(|node| {
            std::cmp::Reverse(change(node.old.own, node.new.own).unsigned_abs())
        });
        changed
    }
}

impl CallTree {
    /// The tree in a saved result of `truecount run --calls --json`.
    ///
    /// # Errors
    /// One line: what it is not.
    pub fn from_document(document: &Value) -> Result<Self, String> {
        let schema = document.get("schema").and_then(Value::as_str);
        if !schema.is_some_and(|schema| schema.starts_with("truecount.run/")) {
            return Err("it is not a result of truecount run --json".to_owned());
        }
        let Some(calls) = document.get("calls") else {
            return Err("it has no tree of calls: it was made without --calls".to_owned());
        };
        let mut tree: Self = serde_json::from_value(calls.clone())
            .map_err(|error| format!("its tree of calls is damaged: {error}"))?;
        let total = tree.total;
        for (at, node) in tree.nodes.iter().enumerate() {
            let known = node.function < tree.functions.len();
            if !known || node.parent.is_some_and(|parent| parent >= at) {
                return Err(format!("its tree of calls is damaged at node {at}"));
            }
        }
        tree.sum();
        if tree.total != total {
            return Err("its tree of calls does not add up".to_owned());
        }
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::tests::tree;

    #[test]
    fn paths_are_matched_by_name_and_nothing_is_lost() {
        // main calls f, and g which calls f.
        let old = tree(
            &["main", "f", "g"],
            &[
                (None, 0, 1, 10),
                (Some(0), 1, 5, 50),
                (Some(0), 2, 1, 7),
                (Some(2), 1, 2, 20),
            ],
        );
        // g is gone, h is there; f costs more below main.
        let new = tree(
            &["h", "f", "main", "x"],
            &[(None, 2, 1, 10), (Some(0), 0, 3, 30), (Some(0), 1, 5, 80)],
        );
        let diff = CallDiff::of(&old, &new);
        assert_eq!((diff.old_total, diff.new_total), (87, 120));
        let rows: Vec<_> = diff
            .changed()
            .into_iter()
            .map(|node| (diff.path(node).join(" "), node.old.own, node.new.own))
            .collect();
        let expected = [
            ("main h", 0, 30),
            ("main f", 50, 80),
            ("main g f", 20, 0),
            ("main g", 7, 0),
        ];
        assert_eq!(
            rows,
            expected.map(|(path, old, new)| (path.to_owned(), old, new))
        );
        let reduced = diff.clone().reduced();
        let paths = |diff: &CallDiff| -> Vec<String> {
            let changed = diff.changed().into_iter();
            changed.map(|node| diff.path(node).join(" ")).collect()
        };
        assert_eq!(paths(&reduced), paths(&diff));
        let same = CallDiff::of(&old, &old).reduced();
        assert_eq!((same.nodes.len(), same.sums.len()), (0, 0));
        let f = diff.sums.iter().find(|sum| diff.name(sum.function) == "f");
        let f = f.expect("f");
        assert_eq!(
            (f.old.own, f.new.own, f.old.calls, f.new.calls),
            (70, 80, 7, 5)
        );
    }

    #[test]
    fn what_is_no_tree_is_refused_in_one_line() {
        let good = serde_json::json!({"schema": "truecount.run/2", "calls": {
            "functions": [{"name": "a"}], "total": 4, "folded": 0, "too_deep": 0, "sums": [],
            "nodes": [{"parent": null, "function": 0, "kind": "thread", "calls": 0, "self": 4, "inclusive": 4}]}});
        assert_eq!(CallTree::from_document(&good).map(|tree| tree.total), Ok(4));
        let mut parent = good.clone();
        parent["calls"]["nodes"][0]["parent"] = 0.into();
        let mut function = good.clone();
        function["calls"]["nodes"][0]["function"] = 9.into();
        let mut sum = good.clone();
        sum["calls"]["total"] = 5.into();
        let mut none = good.clone();
        none.as_object_mut().expect("object").remove("calls");
        for (document, said) in [
            (parent, "node 0"),
            (function, "node 0"),
            (sum, "add up"),
            (none, "--calls"),
            (serde_json::json!([]), "truecount run"),
        ] {
            let error = CallTree::from_document(&document).expect_err(said);
            assert!(error.contains(said), "{error}");
        }
    }
}
