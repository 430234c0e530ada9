//! `Recorder`: nested regions of a program, recorded into region profiles.
//!
//! The format is measureme's (`.mm_profdata`, version 9), so that `truecount profile` and measureme's
//! own tools read it; facts: measureme 12. Each thread writes into memory of its own without locks;
//! a full page is appended to the file with one `write`. One file per counter: every file is a whole
//! profile of the same regions, and several are read side by side as groups of runs are.

mod buffer;
mod clock;
mod error;
mod file;
mod local;
mod region;
#[cfg(feature = "tracing")]
mod tracing;

pub use error::RecorderError;
pub use region::Region;
#[cfg(feature = "tracing")]
pub use tracing::RegionLayer;

use crate::Options;
use clock::{Clocks, Wall};
use file::Output;
use local::Open;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Most counters that one recorder takes at once.
pub const MAX_COUNTERS: usize = 4;

/// A label whose text is in the files already: the cheapest way to name a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(pub(crate) u64);

/// What names a region: a [`Label`] or a text that lives as long as the program.
pub trait IntoLabel: Copy + private::Sealed {
    #[doc(hidden)]
    fn label(self, open: &Open) -> Label;
}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Label {}
    impl Sealed for &'static str {}
}

impl IntoLabel for Label {
    #[inline(always)]
    fn label(self, _: &Open) -> Label {
        self
    }
}

impl IntoLabel for &'static str {
    #[inline(always)]
    fn label(self, open: &Open) -> Label {
        open.label(self)
    }
}

/// Records nested regions. Cheap to clone; every clone writes to the same files.
///
/// ```
/// let directory = std::env::temp_dir().join(format!("truecount-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&directory)?;
/// let recorder = truecount::Recorder::new(directory.join("example"))?;
/// {
///     let _all = recorder.region("all");
///     for name in ["one", "two"] {
///         let _part = recorder.region_with("part", &[name]);
///     }
///     recorder.instant("done with both");
/// }
/// recorder.finish()?; // says what could not be written, if anything
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
    /// Dropped with the last clone.
    _last: Arc<Last>,
}

/// Writes what is left when the last clone of a recorder goes.
#[derive(Debug)]
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        let mut output = self.0.output.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever wants to know calls `finish`.
        let _ = output.flush();
    }
}

/// What all clones and threads have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Tells recorders apart in thread-local memory.
    pub(crate) number: u64,
    pub(crate) clocks: Clocks,
    pub(crate) output: Mutex<Output>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Recorder {
    /// Records wall time into `path` (with `.mm_profdata` appended where it does not end so).
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn new(path: impl AsRef<Path>) -> Result<Self, RecorderError> {
        Self::with_counters(path, &["wall-time"])
    }

    /// Records one to four counters, each into a file of its own: `path.mm_profdata` for one,
    /// `path.COUNTER.mm_profdata` for several. Counters are those of [`crate::Counter::open`].
    ///
    /// Wall time is read from the time stamp counter where the kernel itself uses that as its clock
    /// (calibrated against the kernel's clock for 10 ms here), else from `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// No counter or too many, one that cannot be opened, or a file that cannot be created or written.
    pub fn with_counters(path: impl AsRef<Path>, counters: &[&str]) -> Result<Self, RecorderError> {
        Self::with_options(path, counters, Options::new())
    }

    /// As [`with_counters`](Self::with_counters), with options for the counters.
    ///
    /// # Errors
    /// As [`with_counters`](Self::with_counters).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "as the counters' own constructors"
    )]
    pub fn with_options(
        path: impl AsRef<Path>,
        counters: &[&str],
        options: Options,
    ) -> Result<Self, RecorderError> {
        if counters.is_empty() || counters.len() > MAX_COUNTERS {
            return Err(RecorderError::Counters {
                found: counters.len(),
            });
        }
        let clocks = Clocks::new(counters, &options)?;
        let paths: Vec<PathBuf> = counters
            .iter()
            .map(|counter| file::path(path.as_ref(), (counters.len() > 1).then_some(*counter)))
            .collect();
        let descriptions = clocks.describe()?;
        let shared = Arc::new(Shared {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            clocks,
            output: Mutex::new(Output::default()),
        });
        let recorder = Self {
            _last: Arc::new(Last(Arc::clone(&shared))),
            shared,
        };
        // What recording costs is measured with no file behind, then the files begin with it.
        let overheads = recorder.measure()?;
        local::forget(&recorder.shared);
        let mut output = recorder.output();
        *output = Output::create(&paths, &descriptions, &overheads)?;
        drop(output);
        Ok(recorder)
    }

    pub(crate) fn output(&self) -> std::sync::MutexGuard<'_, Output> {
        self.shared
            .output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A label for use in hot places; the same text gives the same label.
    #[must_use]
    pub fn label(&self, text: &str) -> Label {
        Label(self.output().string(text))
    }

    /// Begins a region; it ends when the guard is dropped. Regions nest as their guards do.
    ///
    /// A thread whose counter cannot be opened records nothing, and [`finish`](Self::finish) says so.
    #[inline]
    pub fn region(&self, label: impl IntoLabel) -> Region {
        match local::part(&self.shared) {
            Some(open) => {
                let label = label.label(&open);
                Region::begin(open, label)
            }
            None => Region::none(),
        }
    }

    /// Begins a region with arguments. The text is looked up (and stored once), which takes longer
    /// than [`region`](Self::region); it is not part of the region.
    pub fn region_with(&self, label: &str, arguments: &[&str]) -> Region {
        let label = Label(self.output().event_text(label, arguments));
        self.region(label)
    }

    /// Records a point in time.
    #[inline]
    pub fn instant(&self, label: impl IntoLabel) {
        if let Some(open) = local::part(&self.shared) {
            open.instant(label.label(&open));
        }
    }

    /// Records a number (at most 2^48 − 1; larger ones are recorded as that).
    #[inline]
    pub fn integer(&self, label: impl IntoLabel, value: u64) {
        if let Some(open) = local::part(&self.shared) {
            open.integer(label.label(&open), value);
        }
    }

    /// Writes what all threads have recorded so far.
    ///
    /// # Errors
    /// The first failure since the last call, once: what was written before it stays valid.
    pub fn flush(&self) -> Result<(), RecorderError> {
        self.output().flush()
    }

    /// Writes everything. Regions that end later, on this or other clones, are still recorded.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn finish(self) -> Result<(), RecorderError> {
        self.flush()
    }

    /// The files, one a counter.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.output().paths()
    }

    /// What an empty region costs, per counter: least of many tries inside, median around.
    fn measure(&self) -> Result<Vec<Overhead>, RecorderError> {
        const TRIES: usize = 400;
        let mut overheads = vec![
            Overhead {
                inner: u64::MAX,
                outer: u64::MAX
            };
            self.shared.clocks.len()
        ];
        let Some(local) = local::open(&self.shared)? else {
            return Ok(overheads);
        };
        let label = Label(0);
        for _ in 0..TRIES {
            let outside = local.starts();
            drop(Region::begin(std::rc::Rc::clone(&local), label));
            let after = local.starts();
            for (lane, overhead) in overheads.iter_mut().enumerate() {
                let (start, end) = local.last(lane);
                let inner = end.saturating_sub(start);
                overhead.inner = overhead.inner.min(inner);
                // The two reads around stand for one more: what a read counts itself is taken off.
                let both = after[lane].saturating_sub(outside[lane]);
                overhead.outer = overhead.outer.min(both.saturating_sub(inner));
            }
        }
        for overhead in &mut overheads {
            overhead.outer = overhead.outer.max(overhead.inner);
        }
        Ok(overheads)
    }
}

/// What recording one region costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overhead {
    /// Counted between its own two reads.
    pub(crate) inner: u64,
    /// Counted by what encloses it.
    pub(crate) outer: u64,
}

/// Whether wall time comes from the time stamp counter on this machine, for reports.
#[must_use]
pub fn wall_time_source() -> &'static str {
    Wall::new().source()
}
