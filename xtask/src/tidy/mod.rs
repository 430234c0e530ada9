//! `cargo xtask tidy`: the invariants of `docs/architecture.md` that can be checked from text.
//!
//! Each check is a function from a file (or the workspace's metadata) to findings, tested on made-up
//! sources. What needs types or a run is left to clippy and to tests.

mod checks;
mod edges;
mod files;
mod runtime;
mod source;

use anyhow::{Result, bail};
use std::path::Path;

/// Something that breaks an invariant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
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
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

/// The task.
pub fn main(root: &Path) -> Result<()> {
    runtime::check(root)?;
    let texts = files::texts(root)?;
    let mut findings = Vec::new();
    for (path, text) in &texts {
        findings.extend(checks::words(path, text));
        if path.ends_with(".rs") {
            let source = source::Source::new(path, text);
            findings.extend(checks::rust(&source));
        }
    }
    findings.extend(checks::forbid_unsafe(&texts));
    findings.extend(edges::check(root)?);
    findings.sort();
    for finding in &findings {
        match finding.line {
            0 => println!("{}: {}", finding.path, finding.message),
            line => println!("{}:{line}: {}", finding.path, finding.message),
        }
    }
    if findings.is_empty() {
        println!("tidy: {} files, all invariants hold", texts.len());
        Ok(())
    } else {
        bail!("tidy: {} findings in {} files", findings.len(), texts.len())
    }
}
