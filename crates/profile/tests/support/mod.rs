//! Real profiles for tests: made on the spot by the installed rustc, or named by an environment variable.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program with enough in it to make rustc work: generics, traits, a recursion, a derive.
const SOURCE: &str = r#"
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Tree<T> { left: Option<Box<Tree<T>>>, right: Option<Box<Tree<T>>>, value: T }
impl<T: Ord + Clone + std::fmt::Debug> Tree<T> {
    pub fn insert(&mut self, value: T) where T: Default {
        let side = if value < self.value { &mut self.left } else { &mut self.right };
        match side {
            Some(tree) => tree.insert(value),
            None => *side = Some(Box::new(Tree { left: None, right: None, value })),
        }
    }
    pub fn depth(&self) -> usize {
        1 + self.left.iter().chain(&self.right).map(|t| t.depth()).max().unwrap_or(0)
    }
}
fn main() {
    let mut tree = Tree::default();
    for i in [5_u32, 3, 8, 1, 4] { tree.insert(i); }
    println!("{tree:?} {}", tree.depth());
}
"#;

/// Compiles [`SOURCE`] with rustc's self-profiler; `None` (with the reason printed) where that cannot be done.
pub fn rustc_profile(directory: &Path, events: &str, name: &str) -> Option<PathBuf> {
    let source = directory.join(format!("{name}.rs"));
    std::fs::write(&source, SOURCE).unwrap();
    let profiles = directory.join(format!("{name}-profiles"));
    let output = Command::new("rustc")
        .env("RUSTC_BOOTSTRAP", "1")
        .args([
            "--edition",
            "2021",
            "--crate-type",
            "bin",
            "--emit",
            "metadata",
            "--crate-name",
            name,
        ])
        .arg(format!("-Zself-profile={}", profiles.display()))
        .arg(format!("-Zself-profile-events={events}"))
        .arg("--out-dir")
        .arg(directory)
        .arg(&source)
        .output();
    match output {
        Ok(output) if output.status.success() => truecount_profile::find(&profiles).ok()?.pop(),
        Ok(output) => {
            truecount_testing::skip!(
                "rustc",
                "rustc made no profile: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            None
        }
        Err(error) => {
            truecount_testing::skip!("rustc", "rustc cannot be run: {error}");
            None
        }
    }
}
