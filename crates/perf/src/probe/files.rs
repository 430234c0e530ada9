//! Files below a root directory: `/proc` and `/sys`, real or made up.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// No file that is probed is longer; what is cut off would not be understood anyway.
const LONGEST: u64 = 1 << 20;

/// The directory that holds `proc` and `sys`: `/`, or a made-up tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Self::system()
    }
}

impl Root {
    /// The running system.
    #[must_use]
    pub fn system() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A made-up tree.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// Whether this is the running system, so that CPUID speaks of the same machine.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// A path below the root, given without a leading slash.
    #[must_use]
    pub fn path(&self, relative: &str) -> PathBuf {
        self.0.join(relative.trim_start_matches('/'))
    }

    /// A file's text without surrounding white space; `None` where it cannot be read.
    #[must_use]
    pub fn text(&self, relative: &str) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.path(relative))
            .ok()?
            .take(LONGEST)
            .read_to_end(&mut bytes)
            .ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file's number, decimal.
    #[must_use]
    pub fn number(&self, relative: &str) -> Option<u64> {
        self.text(relative)?.parse().ok()
    }

    /// Names of a directory's entries, sorted; `None` where it cannot be read.
    #[must_use]
    pub fn names(&self, relative: &str) -> Option<Vec<String>> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(relative))
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        Some(names)
    }

    /// CPUs that are online (`sys/devices/system/cpu/online`).
    #[must_use]
    pub fn online_cpus(&self) -> Option<Vec<u32>> {
        truecount_events::cpu_list(&self.text("sys/devices/system/cpu/online")?)
    }

    /// Threads of a process (`proc/PID/task`); `None` where there is no such process.
    #[must_use]
    pub fn threads_of(&self, pid: i32) -> Option<Vec<i32>> {
        let names = self.names(&format!("proc/{pid}/task"))?;
        let mut threads: Vec<i32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        threads.sort_unstable();
        Some(threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Tree;

    #[test]
    fn files_of_a_tree() {
        let tree = Tree::new().unwrap();
        tree.file("sys/devices/system/cpu/online", "0-1\n");
        tree.file("proc/7/task/9/comm", "b");
        tree.file("proc/7/task/7/comm", "a");
        let root = tree.root();
        assert_eq!(root.online_cpus(), Some(vec![0, 1]));
        assert_eq!(root.threads_of(7), Some(vec![7, 9]));
        assert_eq!(root.threads_of(8), None);
        assert!(!root.is_system() && Root::system().is_system());
    }
}
