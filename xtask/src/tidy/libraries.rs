//! What a library crate must not do, as the table of the architecture page has them: every crate that may not use all.
//!
//! Libraries never print, never exit, know no exit status (the command's `Failure`) and no command line (`clap`).

use std::collections::BTreeSet;

use super::Finding;
use super::source::{Source, words_of};

/// Macros that print.
const PRINTING: &[&str] = &["println", "eprintln", "print", "eprint", "dbg"];

/// Names that belong to the command.
const COMMAND: &[(&str, &str)] = &[
    (
        "Failure",
        "exit statuses are the command's: return an error of your own",
    ),
    ("clap", "command lines are the command's"),
];

/// Its purpose is to print what tests skip.
const MAY_PRINT: &str = "testing";

/// The findings of one file, if it is a library's product code.
pub fn check(source: &Source<'_>, libraries: &BTreeSet<String>) -> Vec<Finding> {
    let Some(library) = library_of(source.path, libraries) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (line, code) in source.product_lines() {
        let packed: String = code.split_whitespace().collect();
        let exits = packed.contains("process::exit(") || packed.contains("process::abort(");
        let prints = super::checks::calls_macro(code, PRINTING)
            .filter(|_| library != MAY_PRINT)
            .map(|name| format!("{name}!"));
        if let Some(what) = prints.or_else(|| exits.then(|| "process::exit".to_owned())) {
            let message = format!("{what}: libraries never print and never exit");
            findings.push(Finding::new(source.path, line, message));
        }
        for (name, why) in COMMAND {
            if words_of(code).any(|(_, word)| word == *name) {
                findings.push(Finding::new(source.path, line, format!("{name}: {why}")));
            }
        }
    }
    findings
}

/// The library crate that a file's product code belongs to.
fn library_of<'a>(path: &'a str, libraries: &BTreeSet<String>) -> Option<&'a str> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    (libraries.contains(name) && rest.starts_with("src/") && !rest.starts_with("src/bin/"))
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let libraries = BTreeSet::from(["stats".to_owned(), "count".to_owned()]);
        check(&Source::new(path, text), &libraries)
            .into_iter()
            .map(|f| f.line)
            .collect()
    }

    #[test]
    fn libraries_do_not_print_or_exit() {
        let text = "fn f() { println!(\"x\"); }\nfn g() { std::process::exit(1) }\nfn h() { write!(f, \"println!\") }\n#[cfg(test)]\nmod tests { fn t() { println!(\"skipped: x\") } }\n";
        assert_eq!(lines("crates/stats/src/lib.rs", text), [1, 2]);
        assert_eq!(lines("crates/cli/src/main.rs", text), [0usize; 0]);
        assert_eq!(lines("crates/stats/tests/x.rs", text), [0usize; 0]);
        assert_eq!(lines("crates/stats/src/deep/tests.rs", text), [0usize; 0]);
    }

    #[test]
    fn libraries_know_no_exit_status_and_no_command_line() {
        let text = "use crate::Failure;\n#[derive(clap::Args)]\nstruct A; // Failure, clap\nfn failure(x: MyFailure) {}\n";
        assert_eq!(lines("crates/count/src/x.rs", text), [1, 2]);
        assert_eq!(lines("crates/cli/src/x.rs", text), [0usize; 0]);
    }
}
