//! The guard of a region.

use super::Label;
use super::local::Open;
use std::rc::Rc;

/// A region that is open; dropping it ends it. It stays on its thread, whose counters it reads.
#[must_use = "a region ends when its guard is dropped: bind it to a name"]
#[derive(Debug)]
pub struct Region {
    /// From `Rc::into_raw`; null where this thread cannot record.
    open: *const Open,
    label: Label,
    begin: u64,
}

impl Region {
    /// Where this thread cannot record.
    #[cold]
    pub(super) fn none() -> Self {
        Self {
            open: std::ptr::null(),
            label: Label(0),
            begin: 0,
        }
    }

    #[inline(always)]
    pub(super) fn begin(open: Rc<Open>, label: Label) -> Self {
        // The reads come last, so that as little as possible of the recording is in the region.
        let begin = open.begin();
        Self {
            open: Rc::into_raw(open),
            label,
            begin,
        }
    }
}

impl Drop for Region {
    #[inline(always)]
    fn drop(&mut self) {
        if self.open.is_null() {
            return;
        }
        // SAFETY: `begin` made the pointer of an `Rc` and kept its count; a region is dropped once, on the
        // thread that made it, and its `begin` came from there.
        unsafe {
            (*self.open).end(self.label, self.begin);
            Rc::decrement_strong_count(self.open);
        }
    }
}
