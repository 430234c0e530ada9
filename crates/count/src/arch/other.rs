//! Architectures without counter-reading instructions here: every read is a system call.

use crate::policy::{Policy, PolicyKind};

/// No counter can be read from user space.
pub(crate) const USER_READS: bool = false;

/// There is no instruction to order.
pub(crate) fn supports(_policy: PolicyKind) -> bool {
    true
}

/// Never called: `USER_READS` is false.
///
/// # Safety
/// None needed.
#[inline(always)]
pub(crate) unsafe fn read_one<P: Policy>(_index: u32) -> u64 {
    0
}

/// Never made: `USER_READS` is false.
#[derive(Debug, Default)]
pub(crate) struct Difference;

impl Difference {
    pub(crate) fn new(_counter: u32, _subtracted: u32, _now: u64) -> Self {
        Self
    }

    pub(crate) fn counter(&self) -> u32 {
        0
    }

    pub(crate) fn subtracted(&self) -> u32 {
        0
    }
}

/// Never called: `USER_READS` is false.
///
/// # Safety
/// None needed.
#[inline(always)]
pub(crate) unsafe fn read_difference<P: Policy>(_state: *mut Difference) -> u64 {
    0
}

/// Runs a loop; how many instructions it takes is not known here.
#[inline(never)]
pub fn known_loop(iterations: u64) -> Option<u64> {
    for i in 0..iterations {
        std::hint::black_box(i);
    }
    None
}

/// Not known here.
#[must_use]
pub fn thread_pointer() -> u64 {
    0
}

/// Not known here.
#[must_use]
pub fn inline_register(_index: u32) -> u64 {
    0
}

/// Never called: `USER_READS` is false.
#[inline(always)]
pub(crate) fn read_clock() -> u64 {
    0
}
