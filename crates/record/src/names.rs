//! Names of places in code, for tables and charts.

use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{Location, Symbols};

use super::kallsyms::Kallsyms;

/// A function at a place; several at one place are inlined into each other, innermost first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Named {
    /// Its name.
    pub function: String,
    /// Its source file, when known.
    pub file: Option<String>,
    /// Its line there.
    pub line: Option<u32>,
    /// Last part of the path of the program or library; `[kernel]` and the like.
    pub dso: String,
    /// Not the function of the symbol table, but inlined into it.
    pub inlined: bool,
}

impl Named {
    /// A place of which no more than this is known.
    pub fn plain(function: String, dso: &str) -> Self {
        Self {
            function,
            file: None,
            line: None,
            dso: dso.to_owned(),
            inlined: false,
        }
    }

    /// `function (inlined)`.
    pub fn title(&self) -> String {
        let inlined = if self.inlined { " (inlined)" } else { "" };
        format!("{}{inlined}", self.function)
    }

    /// `file:line function`.
    pub fn source_line(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line} {}", base_name(file), self.function),
            _ => format!("(no source line) {}", self.function),
        }
    }
}

/// The functions at an offset of a file; empty when nothing is known. The caller keeps the answer.
pub fn in_file(symbols: &mut Symbols, file: &MappedFile, offset: u64) -> Vec<Named> {
    let Location { frames, .. } = symbols.locate_once(file, offset);
    let last = frames.len().saturating_sub(1);
    let dso = base_name(&file.path);
    frames
        .into_iter()
        .enumerate()
        .map(|(i, f)| Named {
            function: f.function,
            file: f.file,
            line: f.line,
            dso: dso.to_owned(),
            inlined: i < last,
        })
        .collect()
}

/// The function at an address of the running kernel.
pub fn in_kernel(kernel: &Kallsyms, address: u64) -> Option<Named> {
    let found = kernel.find(address)?;
    let dso = if found.module.is_empty() {
        "[kernel]".to_owned()
    } else {
        format!("[{}]", found.module)
    };
    Some(Named::plain(found.name.to_owned(), &dso))
}

/// The last part of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|p| !p.is_empty()).unwrap_or(path)
}

/// A C++ or Rust name without template arguments and parameter lists, for people: the full one is in the JSON.
pub fn short(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut depth = 0usize;
    let mut closing = Vec::new();
    for c in name.chars() {
        let after_word = out
            .chars()
            .next_back()
            .is_some_and(|l| l.is_alphanumeric() || l == '_')
            || out.ends_with("operator()");
        match c {
            _ if depth > 0 => {
                // Inside of what is left out; `->` closes nothing.
                if c == '<' || c == '(' {
                    closing.push(if c == '<' { '>' } else { ')' });
                    depth += 1;
                } else if closing.last() == Some(&c) {
                    closing.pop();
                    depth -= 1;
                }
            }
            '<' | '(' if after_word && !out.ends_with("operator") => {
                closing.push(if c == '<' { '>' } else { ')' });
                depth = 1;
            }
            '<' if out.ends_with("::") => {
                out.truncate(out.len() - 2);
                closing.push('>');
                depth = 1;
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn names_are_shortened_where_nothing_is_lost() {
        assert_eq!(
            short("void std::sort<int*, Less<int> >(int*, int*, Less<int>) [a.out]"),
            "void std::sort [a.out]"
        );
        assert_eq!(
            short("std::vector<int>::operator[](unsigned long)"),
            "std::vector::operator[](unsigned long)"
        );
        assert_eq!(
            short("<u8 as core::fmt::Debug>::fmt"),
            "<u8 as core::fmt::Debug>::fmt"
        );
        assert_eq!(
            short("core::mem::swap::<u8> (inlined) [x]"),
            "core::mem::swap (inlined) [x]"
        );
        assert_eq!(
            short("(anonymous namespace)::f(int) ← main"),
            "(anonymous namespace)::f ← main"
        );
        assert_eq!(short("f(unclosed"), "f");
    }
}
