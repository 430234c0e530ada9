//! A point on a counter. Only differences of two points of one counter mean anything.

use std::marker::PhantomData;

/// What [`Counter::read`](crate::Counter::read) gives: a point on that counter, on that thread.
///
/// Eight bytes. Not `Send`: a point of one thread's counter says nothing to another thread's.
///
/// ```compile_fail
/// let counter = truecount::Counter::<truecount::Fence>::open("wall-time").unwrap();
/// let start = counter.read();
/// std::thread::spawn(move || start); // a point does not leave its thread
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Stamp {
    raw: u64,
    thread: PhantomData<*const ()>,
}

impl Stamp {
    #[inline(always)]
    pub(crate) const fn new(raw: u64) -> Self {
        Self {
            raw,
            thread: PhantomData,
        }
    }

    /// The raw value, in whatever form the counter has it (for storing; see
    /// [`Counter::between_raw`](crate::Counter::between_raw)).
    #[inline(always)]
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.raw
    }
}
