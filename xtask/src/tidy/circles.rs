//! Circles of modules: which module of a crate names items of which other, and where that goes round.
//!
//! Paths are resolved as far as text allows: those that begin with `crate`, `self`, `super`, a child or an imported
//! module. An item that a module only passes on belongs to the module that defines it, and passing on (`pub use`) is
//! not a use. A module and those that it is part of are one thing in several files: what a child takes from them
//! makes no circle. Test code is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::paths::{Import, Module, Tree};
use super::source::Source;

/// The page that names the circles which stay, with the reason of each.
const DOCUMENT: &str = "docs/architecture.md";
const HEADING: &str = "## Circles of modules";
const MAX_CIRCLES: usize = 3;

/// Files in which crates begin.
fn is_root(path: &str) -> bool {
    path.ends_with("src/lib.rs") || path.ends_with("/main.rs") && !path.contains("/tests/")
}

/// All circles of the workspace against those that the page names.
pub fn check(texts: &[(String, String)]) -> Vec<Finding> {
    let document = texts.iter().find(|(path, _)| path == DOCUMENT);
    let named = named(document.map_or("", |(_, text)| text));
    let mut findings = Vec::new();
    if named.len() > MAX_CIRCLES {
        let message = format!(
            "{} circles are named; at most {MAX_CIRCLES} may stay",
            named.len()
        );
        findings.push(Finding::new(DOCUMENT, 0, message));
    }
    let mut seen = BTreeSet::new();
    let roots = texts.iter().filter(|(path, _)| is_root(path));
    // Two crates may share files.
    let all: BTreeSet<Vec<String>> = roots.flat_map(|(root, _)| circles(texts, root)).collect();
    for circle in all {
        if named.contains(&circle) {
            seen.insert(circle);
            continue;
        }
        let first = circle.first().cloned().unwrap_or_default();
        let message = format!("a circle of modules: {}", circle.join(", "));
        findings.push(Finding::new(&first, 0, message));
    }
    for gone in named.iter().filter(|circle| !seen.contains(*circle)) {
        let message = format!(
            "there is no such circle of modules any more: {}",
            gone.join(", ")
        );
        findings.push(Finding::new(DOCUMENT, 0, message));
    }
    findings
}

/// Lines `- `file`, `file`: reason` below the heading, each as its sorted files.
fn named(text: &str) -> BTreeSet<Vec<String>> {
    let section = text.split(HEADING).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter_map(|line| line.strip_prefix("- "));
    lines
        .filter_map(|line| {
            let (files, reason) = line.split_once(": ")?;
            let mut files: Vec<String> = files
                .split(", ")
                .map(|file| file.trim_matches('`').to_owned())
                .collect();
            files.sort();
            (!reason.trim().is_empty()).then_some(files)
        })
        .collect()
}

/// The command's subcommands: one module each below this directory.
const COMMANDS: &str = "crates/cli/src/cmd/";

/// Subcommands that name items of another: what two share belongs to a library or stands beside `cmd`.
pub fn commands(texts: &[(String, String)]) -> Vec<Finding> {
    let tree = tree(texts, "crates/cli/src/lib.rs");
    let file = |index: usize| tree.modules.get(index).map_or("", |m| m.file.as_str());
    let command = |index: usize| {
        let below = file(index).strip_prefix(COMMANDS)?;
        let name = below.split('/').next()?.trim_end_matches(".rs");
        (name != "mod").then_some(name)
    };
    let mut findings = Vec::new();
    for (from, to) in edges(&tree) {
        for to in to {
            if let (Some(own), Some(other)) = (command(from), command(to))
                && own != other
            {
                let message = format!("the command {own} imports {other}'s {}", file(to));
                findings.push(Finding::new(file(from), 0, message));
            }
        }
    }
    findings
}

/// The modules of the crate that begins at `root`, without their tests.
fn tree(texts: &[(String, String)], root: &str) -> Tree {
    let files: BTreeMap<&str, &str> = texts
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    Tree::read(root, &|path: &str| {
        files
            .get(path)
            .map(|text| Source::new(path, text).product())
    })
}

/// The circles of the crate that begins at `root`, each as its sorted files.
fn circles(texts: &[(String, String)], root: &str) -> Vec<Vec<String>> {
    let tree = tree(texts, root);
    let edges = edges(&tree);
    let mut circles: Vec<Vec<String>> = components(&edges)
        .into_iter()
        .filter(|component| component.len() > 1)
        .map(|component| {
            let mut files: Vec<String> = component
                .iter()
                .map(|&index| {
                    tree.modules
                        .get(index)
                        .map(|m| m.file.clone())
                        .unwrap_or_default()
                })
                .collect();
            files.sort();
            files
        })
        .collect();
    circles.sort();
    circles
}

/// From each file's module to those whose items it names.
fn edges(tree: &Tree) -> BTreeMap<usize, BTreeSet<usize>> {
    let mut edges: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (index, module) in tree.modules.iter().enumerate() {
        let own = module.node;
        let mut add = |target: Option<Target>| match target {
            Some(Target::Item(to)) => {
                let to = tree.modules.get(to).map_or(to, |m| m.node);
                if to != own && !tree.contains(to, own) {
                    edges.entry(own).or_default().insert(to);
                }
            }
            Some(Target::Module(_)) | None => {}
        };
        for import in module
            .imports
            .values()
            .flatten()
            .filter(|import| !import.passes_on)
        {
            add(tree.resolve(index, &import.path, &mut BTreeSet::new()));
        }
        for path in &module.paths {
            add(tree.resolve(index, path, &mut BTreeSet::new()));
        }
    }
    edges
}

/// What a path names.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item, by the module that defines it.
    Item(usize),
}

impl Tree {
    /// Whether `inner` is a part of `outer`, at any depth.
    fn contains(&self, outer: usize, inner: usize) -> bool {
        let parent = |index: usize| self.modules.get(index).and_then(|m| m.parent);
        std::iter::successors(parent(inner), |&index| parent(index)).any(|index| index == outer)
    }

    /// What `path` means in the module `from`; `None` where it leads out of the crate.
    fn resolve(
        &self,
        from: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, Vec<String>)>,
    ) -> Option<Target> {
        if !seen.insert((from, path.to_vec())) {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(from),
            "super" => Target::Module(self.modules.get(from)?.parent?),
            name => self.child_or_import(from, name, seen)?,
        };
        while let (Target::Module(module), Some((name, after))) = (at, rest.split_first()) {
            at = match name.as_str() {
                "super" => Target::Module(self.modules.get(module)?.parent?),
                "self" => at,
                name => self.member(module, name, seen),
            };
            rest = after;
        }
        Some(at)
    }

    fn child_or_import(
        &self,
        from: usize,
        name: &str,
        seen: &mut BTreeSet<(usize, Vec<String>)>,
    ) -> Option<Target> {
        let module: &Module = self.modules.get(from)?;
        if let Some(&child) = module.children.get(name) {
            return Some(Target::Module(child));
        }
        if let Some(imports) = module.imports.get(name) {
            let mut imports = imports.iter();
            return imports.find_map(|import: &Import| self.resolve(from, &import.path, seen));
        }
        // A module that is taken with everything else.
        module.globs.iter().find_map(|glob| {
            let Some(Target::Module(all)) = self.resolve(from, glob, seen) else {
                return None;
            };
            let child = self.modules.get(all)?.children.get(name)?;
            Some(Target::Module(*child))
        })
    }

    /// The module or item called `name` in a module: its own, or one that it passes on.
    fn member(
        &self,
        module: usize,
        name: &str,
        seen: &mut BTreeSet<(usize, Vec<String>)>,
    ) -> Target {
        let own = Target::Item(module);
        let Some(found) = self.modules.get(module) else {
            return own;
        };
        if !found.items.contains(name)
            && let Some(target) = self.child_or_import(module, name, seen)
        {
            return target;
        }
        if found.items.contains(name) {
            return own;
        }
        for glob in &found.globs {
            if let Some(Target::Module(from)) = self.resolve(module, glob, seen)
                && from != module
                && let Target::Item(home) = self.member(from, name, seen)
                && self
                    .modules
                    .get(home)
                    .is_some_and(|m| m.items.contains(name))
            {
                return Target::Item(home);
            }
        }
        own
    }
}

/// Strongly connected components (Tarjan, SIAM J. Comput. 1(2), 1972).
fn components(edges: &BTreeMap<usize, BTreeSet<usize>>) -> Vec<Vec<usize>> {
    let mut search = Search {
        edges,
        order: BTreeMap::new(),
        low: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for &node in edges.keys() {
        if !search.order.contains_key(&node) {
            search.visit(node);
        }
    }
    search.found
}

struct Search<'a> {
    edges: &'a BTreeMap<usize, BTreeSet<usize>>,
    order: BTreeMap<usize, usize>,
    low: BTreeMap<usize, usize>,
    stack: Vec<usize>,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, node: usize) -> usize {
        let number = self.order.len();
        self.order.insert(node, number);
        self.stack.push(node);
        let mut low = number;
        for &next in self.edges.get(&node).into_iter().flatten() {
            match self.order.get(&next) {
                None => low = low.min(self.visit(next)),
                Some(&other) if self.stack.contains(&next) => low = low.min(other),
                Some(_) => {}
            }
        }
        self.low.insert(node, low);
        if low == number {
            let at = self
                .stack
                .iter()
                .position(|&each| each == node)
                .unwrap_or_default();
            self.found.push(self.stack.split_off(at));
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|&(path, text)| (path.to_owned(), text.to_owned()))
            .collect()
    }

    fn found(list: &[(&str, &str)]) -> Vec<Vec<String>> {
        circles(&files(list), "crates/x/src/lib.rs")
    }

    #[test]
    fn a_circle_of_siblings_is_found() {
        let list = [
            ("crates/x/src/lib.rs", "mod a; mod b; mod c;"),
            (
                "crates/x/src/a.rs",
                "use crate::b::{self, B}; pub struct A;",
            ),
            (
                "crates/x/src/b.rs",
                "pub struct B; fn f() { super::c::g(3) }",
            ),
            (
                "crates/x/src/c/mod.rs",
                "pub fn g(_: u8) -> crate::a::A { crate::a::A }",
            ),
        ];
        let all = ["a.rs", "b.rs", "c/mod.rs"].map(|name| format!("crates/x/src/{name}"));
        assert_eq!(found(&list), [all.to_vec()]);
    }

    #[test]
    fn what_a_module_passes_on_is_the_other_modules() {
        // `b` names `A` by its parent, which passes it on: that is no use of the parent.
        let list = [
            ("crates/x/src/lib.rs", "mod m;"),
            (
                "crates/x/src/m.rs",
                "mod a; mod b; pub use a::A; pub(super) use b::*; use b::f; fn g() { f() }",
            ),
            ("crates/x/src/m/a.rs", "pub struct A;"),
            ("crates/x/src/m/b.rs", "use super::A; pub fn f() -> A { A }"),
        ];
        assert_eq!(found(&list), Vec::<Vec<String>>::new());
        // Nor is an item of the parent's own: a child is a part of it. A sibling's is.
        let mut own = list;
        own[3].1 = "use super::{A, g}; pub fn f() -> A { A }";
        assert_eq!(found(&own), Vec::<Vec<String>>::new());
        own[2].1 = "pub struct A; fn h() { super::f(); }";
        let both = ["m/a.rs", "m/b.rs"].map(|name| format!("crates/x/src/{name}"));
        assert_eq!(found(&own), [both.to_vec()]);
    }

    #[test]
    fn tests_comments_and_other_crates_do_not_count() {
        let list = [
            (
                "crates/x/src/lib.rs",
                "mod a; mod b; pub mod inline { pub fn h() {} pub fn i() { super::inline::h() } }",
            ),
            ("crates/x/src/a.rs", "use crate::b::B; pub struct A;"),
            (
                "crates/x/src/b.rs",
                "// use crate::a::A;\nuse std::a::A; pub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }\n",
            ),
        ];
        assert_eq!(found(&list), Vec::<Vec<String>>::new());
    }

    #[test]
    fn the_page_names_what_may_stay() {
        let mut list = files(&[
            ("crates/x/src/lib.rs", "mod a; mod b;"),
            ("crates/x/src/a.rs", "use crate::b::B; pub struct A;"),
            ("crates/x/src/b.rs", "use crate::a::A; pub struct B;"),
        ]);
        let messages = |list: &[(String, String)]| -> Vec<String> {
            check(list).into_iter().map(|f| f.message).collect()
        };
        assert_eq!(
            messages(&list),
            ["a circle of modules: crates/x/src/a.rs, crates/x/src/b.rs"]
        );
        let page = |rows: &str| {
            (
                DOCUMENT.to_owned(),
                format!("# A\n\n{HEADING}\n\n{rows}\n## Next\n"),
            )
        };
        list.push(page(
            "- `crates/x/src/b.rs`, `crates/x/src/a.rs`: each is the other's half\n",
        ));
        assert_eq!(messages(&list), Vec::<String>::new());
        list.pop();
        list.push(page("- `crates/x/src/a.rs`, `crates/x/src/b.rs`: \n"));
        assert_eq!(messages(&list).len(), 1, "a reason is needed");
        list.pop();
        list.push(page("- `crates/x/src/a.rs`, `crates/x/src/c.rs`: gone\n"));
        assert_eq!(
            messages(&list).len(),
            2,
            "what is not there is not to be named"
        );
    }

    #[test]
    fn a_command_that_imports_another_is_found() {
        let mut list = files(&[
            ("crates/cli/src/lib.rs", "mod cmd; mod render;"),
            ("crates/cli/src/render.rs", "pub fn show() {}"),
            (
                "crates/cli/src/cmd/mod.rs",
                "mod a; mod b; fn run() { a::run(); b::run() }",
            ),
            (
                "crates/cli/src/cmd/a/mod.rs",
                "mod part; pub fn run() { part::x(); crate::render::show() }",
            ),
            (
                "crates/cli/src/cmd/a/part.rs",
                "pub(in crate::cmd) fn x() {}",
            ),
            (
                "crates/cli/src/cmd/b.rs",
                "// use super::a;\npub fn run() {}\n#[cfg(test)]\nmod tests { use crate::cmd::a::run; }\n",
            ),
        ]);
        assert_eq!(commands(&list), []);
        for bad in [
            "use super::a; pub fn run() { a::run() }",
            "use crate::cmd::a::run as other; pub fn run() {}",
            "pub fn run() { super::a::part::x() }",
            "use super::*; pub fn run() { a::run() }",
        ] {
            list[5].1 = bad.to_owned();
            let found = commands(&list);
            assert_eq!(found.len(), 1, "{bad}");
            assert_eq!(found[0].path, "crates/cli/src/cmd/b.rs");
            assert!(found[0].message.contains("the command b imports a's"));
        }
    }
}
