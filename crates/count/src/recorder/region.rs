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
    #[inline(always)]
    pub(super) fn begin(local: &super::Local, label: Label) -> Self {
        match local.open_ref() {
            Some(open) => Self::begin_at(open, label),
            None => Self {
                open: None,
                label,
                starts: [0; MOST_COUNTERS],
            },
        }
    }

    #[inline(always)]
    pub(super) fn begin_at(open: &Rc<Open>, label: Label) -> Self {
        let open = Rc::clone(open);
        // The reads come last, so that as little as possible of the recording is in the region.
        let starts = open.starts();
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
            open.end(self.label, &self.starts);
        }
    }
}
