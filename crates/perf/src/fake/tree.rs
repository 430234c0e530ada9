//! Made-up `/proc` and `/sys` for the probes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::probe::Root;

/// A temporary directory with files as `/proc` and `/sys` would have them; removed on drop.
///
/// ```
/// use truecount_perf::fake::Tree;
/// use truecount_perf::probe::Pmu;
/// let tree = Tree::new()?;
/// tree.pmu("cpu", 4, &[("rdpmc", "1"), ("format/event", "config:0-7")]);
/// tree.sysctl("perf_event_paranoid", "2");
/// let pmus = Pmu::all(&tree.root()).unwrap_or_default();
/// assert_eq!(pmus[0].rdpmc, Some(1));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Tree {
    directory: PathBuf,
}

impl Tree {
    /// An empty tree.
    ///
    /// # Errors
    /// Where the temporary directory cannot be written to.
    pub fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("truecount-tree-{}-{number}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            match std::fs::create_dir(&directory) {
                Ok(()) => return Ok(Self { directory }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The tree as probes take it.
    #[must_use]
    pub fn root(&self) -> Root {
        Root::at(&self.directory)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Writes a file, with the directories above it.
    ///
    /// # Panics
    /// Where it cannot be written; trees are for tests.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.directory.join(path);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text));
        assert!(written.is_ok(), "{}: {written:?}", path.display());
    }

    /// Sets `kernel.NAME`.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn sysctl(&self, name: &str, value: &str) {
        self.file(&format!("proc/sys/kernel/{name}"), &format!("{value}\n"));
    }

    /// Adds a PMU with its type and files, e.g. `("format/event", "config:0-7")`.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn pmu(&self, name: &str, type_: u32, files: &[(&str, &str)]) {
        let directory = format!("sys/bus/event_source/devices/{name}");
        self.file(&format!("{directory}/type"), &format!("{type_}\n"));
        for (file, text) in files {
            self.file(&format!("{directory}/{file}"), &format!("{text}\n"));
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A directory that stays behind in the temporary directory harms nobody.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
