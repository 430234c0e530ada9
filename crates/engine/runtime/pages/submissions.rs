//! Where the arrays of submissions of `io_uring` are mapped.

/// Arrays that are known.
const MOST: usize = 8;

/// Address and bytes of each.
#[derive(Clone, Copy)]
pub(super) struct Submissions {
    arrays: [(u64, u64); MOST],
    known: usize,
}

impl Submissions {
    pub(super) const fn new() -> Self {
        Self {
            arrays: [(0, 0); MOST],
            known: 0,
        }
    }

    /// One more; false: that is too many.
    pub(super) fn add(&mut self, start: u64, bytes: u64) -> bool {
        let place = self.arrays.get_mut(self.known);
        self.known += usize::from(place.is_some());
        place.map(|place| *place = (start, bytes)).is_some()
    }

    pub(super) fn known(&self) -> &[(u64, u64)] {
        self.arrays.get(..self.known).unwrap_or(&[])
    }
}
