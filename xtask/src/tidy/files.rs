//! The text files of the workspace.

use anyhow::{Context, Result};
use std::path::Path;

/// Directories that hold nothing we wrote.
const SKIPPED: &[&str] = &["target", "corpus", "artifacts", "node_modules", "book"];

/// Directories beginning with a dot that are ours.
const OURS: &[&str] = &[".ci", ".cargo", ".github", ".config"];

/// All text files below `root`: path from there, and text. Files that are not UTF-8 are left out.
pub fn texts(root: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        let path = root.join(&directory);
        let entries =
            std::fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))?;
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let relative = if directory.is_empty() {
                name.clone()
            } else {
                format!("{directory}/{name}")
            };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let hidden = name.starts_with('.') && !OURS.contains(&name.as_str());
                if !hidden && !SKIPPED.contains(&name.as_str()) {
                    directories.push(relative);
                }
            } else if kind.is_file() && name != ".git" {
                // (`.git` is a file in a worktree of git's.)
                // A file that an editor has just renamed away is not an error.
                let Ok(bytes) = std::fs::read(entry.path()) else {
                    continue;
                };
                if let Ok(text) = String::from_utf8(bytes) {
                    found.push((relative, text));
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_has_its_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let texts = texts(&root).unwrap();
        let has = |path: &str| texts.iter().any(|(found, _)| found == path);
        assert!(has("xtask/src/tidy/files.rs") && has("Cargo.toml") && has(".cargo/config.toml"));
        assert!(
            !texts
                .iter()
                .any(|(path, _)| path.starts_with("target/") || path.starts_with(".git/"))
        );
    }
}
