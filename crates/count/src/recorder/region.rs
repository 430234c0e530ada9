//! The guard of a region.

use super::local::Open;
use super::{Label, MOST_COUNTERS};
use std::rc::Rc;

/// A region that is open; dropping it ends it. It stays on its thread, whose counters it reads.
#[must_use = "a region ends when its guard is dropped: bind it to a name"]
#[derive(Debug)]
pub struct Region {
    /// `None` where this thread cannot record.
    open: Option<Rc<Open>>,
    label: Label,
    starts: [u64; MOST_COUNTERS],
}

impl Region {
    /// Where this thread cannot record.
    #[cold]
    pub(super) fn none() -> Self {
        Self {
            open: None,
            label: Label(0),
            starts: [0; MOST_COUNTERS],
        }
    }

    #[inline(always)]
    pub(super) fn begin(open: Rc<Open>, label: Label) -> Self {
        // The reads come last, so that as little as possible of the recording is in the region.
        let starts = open.begin();
        Self {
            open: Some(open),
            label,
            starts,
        }
    }
}

impl Drop for Region {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            open.end(self.label, self.starts);
        }
    }
}
