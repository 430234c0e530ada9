//! The modules of a crate, with the items, imports and paths in each: read from text, without a parser.

use std::collections::{BTreeMap, BTreeSet};

/// One name that `use` brings in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub path: Vec<String>,
    /// `pub use`: for others, not for the module itself.
    pub passes_on: bool,
}

/// A module, in a file or inline.
#[derive(Debug, Default)]
pub struct Module {
    pub file: String,
    pub parent: Option<usize>,
    /// The module that stands for the file: itself, or the one that an inline module is in.
    pub node: usize,
    pub children: BTreeMap<String, usize>,
    /// Names defined in it.
    pub items: BTreeSet<String>,
    pub imports: BTreeMap<String, Vec<Import>>,
    /// Modules of which it passes on or takes all.
    pub globs: Vec<Vec<String>>,
    /// Paths of two words or more in its code.
    pub paths: Vec<Vec<String>>,
}

/// All modules of a crate; the first is its root.
pub struct Tree {
    pub modules: Vec<Module>,
}

/// Product code of a file, with comments and literals blanked out, and its lines as they are.
pub struct Code {
    pub masked: String,
    pub raw: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Step,
    Mark(char),
}

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || c == '_' {
            let mut word = String::from(c);
            while let Some(&next) = chars.peek() {
                if !next.is_alphanumeric() && next != '_' {
                    break;
                }
                word.push(next);
                chars.next();
            }
            tokens.push(Token::Word(word));
        } else if c == ':' && chars.peek() == Some(&':') {
            chars.next();
            tokens.push(Token::Step);
        } else if !c.is_whitespace() {
            tokens.push(Token::Mark(c));
        }
    }
    tokens
}

/// The value of `#[path = "…"]` right above `mod name;`.
fn path_attribute(raw: &str, name: &str) -> Option<String> {
    let at = raw
        .match_indices(&format!("mod {name};"))
        .map(|(at, _)| at)
        .next()?;
    let before = raw.get(..at)?;
    let attribute = before.rfind("#[path = \"")?;
    let after = before.get(attribute + "#[path = \"".len()..)?;
    let (value, between) = after.split_once("\"]")?;
    let near = between
        .split_whitespace()
        .all(|word| word.starts_with("pub") || word.starts_with("#["));
    near.then(|| value.to_owned())
}

/// `directory` and a relative path, joined and without `..`.
fn join(directory: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    for part in relative.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

impl Tree {
    /// Reads the crate whose root is the file `root`.
    pub fn read(root: &str, file: &dyn Fn(&str) -> Option<Code>) -> Self {
        let mut tree = Self {
            modules: Vec::new(),
        };
        let directory = root.rsplit_once('/').map_or("", |(directory, _)| directory);
        tree.add(root, directory, None, file);
        tree
    }

    /// Adds the module in `path`, whose children are in `directory`; its index.
    fn add(
        &mut self,
        path: &str,
        directory: &str,
        parent: Option<usize>,
        file: &dyn Fn(&str) -> Option<Code>,
    ) -> Option<usize> {
        let code = file(path)?;
        let index = self.modules.len();
        self.modules.push(Module {
            file: path.to_owned(),
            parent,
            node: index,
            ..Module::default()
        });
        let mut reader = Reader {
            tree: self,
            tokens: tokens(&code.masked),
            at: 0,
        };
        let children = reader.module(index, 0);
        for (of, name) in children {
            let own = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            let candidates = match path_attribute(&code.raw, &name) {
                Some(given) => vec![join(own, &given)],
                None => vec![
                    join(directory, &format!("{name}.rs")),
                    join(directory, &format!("{name}/mod.rs")),
                ],
            };
            for candidate in candidates {
                let inside = match candidate.strip_suffix("/mod.rs") {
                    Some(inside) => inside.to_owned(),
                    None => candidate.trim_end_matches(".rs").to_owned(),
                };
                if let Some(child) = self.add(&candidate, &inside, Some(of), file) {
                    if let Some(module) = self.modules.get_mut(of) {
                        module.children.insert(name.clone(), child);
                    }
                    break;
                }
            }
        }
        Some(index)
    }
}

struct Reader<'t> {
    tree: &'t mut Tree,
    tokens: Vec<Token>,
    at: usize,
}

/// Words that are followed by the name of an item.
const ITEMS: &[&str] = &[
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "const",
    "static",
    "union",
    "macro_rules",
];

impl Reader<'_> {
    fn token(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        match self.token(ahead) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn mark(&self, ahead: usize, mark: char) -> bool {
        self.token(ahead) == Some(&Token::Mark(mark))
    }

    fn module_at(&mut self, index: usize) -> &mut Module {
        // The index is of a module that was pushed before.
        #[expect(clippy::indexing_slicing, reason = "pushed before")]
        &mut self.tree.modules[index]
    }

    /// Reads until the brace that closes the module; what its files of modules are called.
    fn module(&mut self, index: usize, depth: usize) -> Vec<(usize, String)> {
        let mut children = Vec::new();
        let mut open = 0usize;
        let mut public = false;
        while let Some(token) = self.token(0).cloned() {
            match token {
                Token::Mark('{') => open += 1,
                Token::Mark('}') if open == 0 && depth > 0 => return children,
                Token::Mark('}') => open = open.saturating_sub(1),
                Token::Word(word) => {
                    let was_public = std::mem::replace(&mut public, word == "pub");
                    if word == "use" {
                        self.at += 1;
                        self.import(index, was_public, &mut Vec::new());
                        public = false;
                        continue;
                    }
                    children.extend(self.item(index, depth, &word));
                    public = public || was_public && self.mark(0, ')');
                    continue;
                }
                Token::Mark('(') if public => {
                    // `pub(crate)`: still public at the word after it.
                    while self.token(0).is_some() && !self.mark(0, ')') {
                        self.at += 1;
                    }
                }
                Token::Mark(_) | Token::Step => {}
            }
            self.at += 1;
        }
        children
    }

    /// A word that is not `use`: a module, the name of an item, or a path.
    fn item(&mut self, index: usize, depth: usize, word: &str) -> Vec<(usize, String)> {
        let name = self.word(1).map(str::to_owned);
        if let ("mod", Some(name)) = (word, &name) {
            if self.mark(2, ';') {
                self.at += 3;
                return vec![(index, name.clone())];
            }
            if self.mark(2, '{') {
                self.at += 3;
                let inline = self.tree.modules.len();
                let (file, node) = (
                    self.module_at(index).file.clone(),
                    self.module_at(index).node,
                );
                let module = Module {
                    file,
                    node,
                    parent: Some(index),
                    ..Module::default()
                };
                self.tree.modules.push(module);
                self.module_at(index).children.insert(name.clone(), inline);
                let children = self.module(inline, depth + 1);
                self.at += 1;
                return children;
            }
        }
        if ITEMS.contains(&word) {
            let skip = if word == "macro_rules" { 2 } else { 1 };
            if let Some(name) = self.word(skip).map(str::to_owned) {
                self.module_at(index).items.insert(name);
                self.at += skip + 1;
                return Vec::new();
            }
        }
        let before = self
            .at
            .checked_sub(1)
            .and_then(|at| self.tokens.get(at))
            .cloned();
        let mut path = vec![word.to_owned()];
        self.at += 1;
        while self.token(0) == Some(&Token::Step) {
            let Some(next) = self.word(1).map(str::to_owned) else {
                break;
            };
            path.push(next);
            self.at += 2;
        }
        let follows = matches!(before, Some(Token::Step | Token::Mark('.' | '\'')));
        if path.len() > 1 && !follows {
            self.module_at(index).paths.push(path);
        }
        Vec::new()
    }

    /// A tree of `use`, from behind the word or an opening brace to its end.
    fn import(&mut self, index: usize, passes_on: bool, prefix: &mut Vec<String>) {
        let length = prefix.len();
        while let Some(token) = self.token(0).cloned() {
            self.at += 1;
            match token {
                Token::Word(word) if word == "as" => {
                    let alias = self.word(0).unwrap_or("_").to_owned();
                    self.at += 1;
                    self.bring_in(index, alias, prefix.clone(), passes_on);
                    prefix.truncate(length);
                    // The name is taken; its comma or end follows.
                    if self.mark(0, ',') {
                        self.at += 1;
                    }
                }
                Token::Word(word) => prefix.push(word),
                Token::Step => {}
                Token::Mark('{') => {
                    self.import(index, passes_on, &mut prefix.clone());
                    prefix.truncate(length);
                    if self.mark(0, ',') {
                        self.at += 1;
                    }
                }
                Token::Mark('*') => {
                    let module = std::mem::replace(
                        prefix,
                        prefix.get(..length).unwrap_or_default().to_vec(),
                    );
                    self.module_at(index).globs.push(module);
                }
                Token::Mark(',' | '}' | ';') => {
                    if prefix.len() > length {
                        let path = prefix.clone();
                        let name = match path.last().map(String::as_str) {
                            Some("self") => path.iter().rev().nth(1).cloned(),
                            _ => path.last().cloned(),
                        };
                        self.bring_in(index, name.unwrap_or_default(), path, passes_on);
                        prefix.truncate(length);
                    }
                    if token != Token::Mark(',') {
                        return;
                    }
                }
                Token::Mark(_) => {}
            }
        }
    }

    fn bring_in(&mut self, index: usize, name: String, path: Vec<String>, passes_on: bool) {
        let import = Import { path, passes_on };
        self.module_at(index)
            .imports
            .entry(name)
            .or_default()
            .push(import);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[(&str, &str)]) -> Tree {
        Tree::read("x/src/lib.rs", &|path: &str| {
            let found = list.iter().find(|(name, _)| *name == path)?;
            Some(Code {
                masked: found.1.to_owned(),
                raw: found.1.to_owned(),
            })
        })
    }

    fn paths(imports: &BTreeMap<String, Vec<Import>>) -> Vec<String> {
        let all = imports.iter().flat_map(|(name, list)| {
            list.iter().map(move |i| {
                format!(
                    "{name} = {}{}",
                    i.path.join("::"),
                    if i.passes_on { " on" } else { "" }
                )
            })
        });
        all.collect()
    }

    #[test]
    fn imports_are_read() {
        let tree = read(&[(
            "x/src/lib.rs",
            "use a::{b, c::{self, D as E}, f::*}; pub(crate) use super::G; pub use h::I; fn j() { use k::L; m::n::<o>(p::q()); r.s(); }",
        )]);
        let root = &tree.modules[0];
        let expected = [
            "E = a::c::D",
            "G = super::G on",
            "I = h::I on",
            "L = k::L",
            "b = a::b",
            "c = a::c::self",
        ];
        assert_eq!(paths(&root.imports), expected);
        assert_eq!(root.globs, [["a", "f"]]);
        assert_eq!(root.paths, [["m", "n"], ["p", "q"]]);
        assert!(root.items.contains("j"));
    }

    #[test]
    fn modules_are_found_by_name_attribute_and_inline() {
        let tree = read(&[
            (
                "x/src/lib.rs",
                "mod a; pub(crate) mod b; #[path = \"../other/c.rs\"]\npub mod c; mod d { pub struct D; mod e { } } fn f() {}",
            ),
            ("x/src/a.rs", "mod g;"),
            ("x/src/a/g.rs", "fn g() {}"),
            ("x/src/b/mod.rs", "mod h;"),
            ("x/src/b/h.rs", ""),
            ("x/other/c.rs", "struct C;"),
        ]);
        let files: BTreeSet<&str> = tree.modules.iter().map(|m| m.file.as_str()).collect();
        let expected = [
            "x/other/c.rs",
            "x/src/a.rs",
            "x/src/a/g.rs",
            "x/src/b/h.rs",
            "x/src/b/mod.rs",
            "x/src/lib.rs",
        ];
        assert_eq!(files.into_iter().collect::<Vec<_>>(), expected);
        let root = &tree.modules[0];
        assert_eq!(root.children.len(), 4);
        assert!(
            root.items.contains("f"),
            "what follows an inline module is the root's: {:?}",
            root.items
        );
        let inline = &tree.modules[root.children["d"]];
        assert!(inline.items.contains("D") && inline.node == 0);
    }
}
