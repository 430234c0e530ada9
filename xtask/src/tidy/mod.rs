//! `cargo xtask tidy`: the invariants of `docs/architecture.md` that can be checked from text.
//!
//! Each check is a function from a file (or the workspace's metadata) to findings, tested on made-up
//! sources. What needs types or a run is left to clippy and to tests.

mod checks;
mod circles;
mod edges;
mod files;
mod known;
mod libraries;
mod packages;
mod paths;
mod runtime;
mod sizes;
mod source;
mod words;

use anyhow::{Result, bail};
use std::path::Path;

/// Something that breaks an invariant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The check that says so.
    pub check: &'static str,
    /// Path from the workspace's directory.
    pub path: String,
    /// Line, counted from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// What is wrong, and the rule.
    pub message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            check: "",
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

/// The task.
pub fn main(root: &Path) -> Result<()> {
    let texts = files::texts(root)?;
    let libraries = edges::libraries(root)?;
    let mut all = Vec::new();
    let mut add = |check: &'static str, found: Vec<Finding>| {
        all.extend(
            found
                .into_iter()
                .map(|finding| Finding { check, ..finding }),
        );
    };
    for (path, text) in &texts {
        add("paths", checks::words(path, text));
        add("words", words::check(path, text));
        if path.ends_with(".rs") {
            let source = source::Source::new(path, text);
            add("rust", checks::rust(&source));
            add("libraries", libraries::check(&source, &libraries));
            add("sizes", sizes::check(&source));
        }
    }
    add("unsafe", checks::forbid_unsafe(&texts));
    add("circles", circles::check(&texts));
    add("commands", circles::commands(&texts));
    let metadata = edges::metadata(root)?;
    add("edges", edges::check(root, &metadata)?);
    add("packages", packages::check(&metadata));
    let (mut findings, spared) = known::without(all);
    findings.sort();
    for finding in &findings {
        match finding.line {
            0 => println!("{}: {} ({})", finding.path, finding.message, finding.check),
            line => println!(
                "{}:{line}: {} ({})",
                finding.path, finding.message, finding.check
            ),
        }
    }
    if spared > 0 {
        println!("tidy: {spared} known findings are left (xtask/src/tidy/known.tsv)");
    }
    runtime::check(root)?;
    if findings.is_empty() {
        println!("tidy: {} files, all other invariants hold", texts.len());
        Ok(())
    } else {
        bail!("tidy: {} findings in {} files", findings.len(), texts.len())
    }
}
