//! The program's memory, read and written without harm where it cannot be: every copy survives a fault,
//! and none writes into the engine's.

use crate::entry;
use crate::own_memory::overlaps_engine;
use core::mem::{MaybeUninit, size_of};

/// Types of which any bytes are a value, without padding.
///
/// # Safety
/// That is so.
pub unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: arrays have no padding between their elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads a value; `None` where it cannot be read.
pub fn read<T: Plain>(address: u64) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: rt_copy survives faults at its one instruction, and writes to a local; any bytes are a T.
    unsafe {
        let failed = entry::rt_copy(value.as_mut_ptr() as u64, address, size_of::<T>() as u64);
        (failed == 0).then(|| value.assume_init())
    }
}

/// Reads bytes; false after a fault.
pub fn read_bytes(to: &mut [u8], from: u64) -> bool {
    // SAFETY: rt_copy survives faults at its one instruction, and writes to the slice.
    unsafe { entry::rt_copy(to.as_mut_ptr() as u64, from, to.len() as u64) == 0 }
}

/// Writes a value; false where it cannot be written.
pub fn write<T: Plain>(address: u64, value: &T) -> bool {
    let from = core::ptr::from_ref(value) as u64;
    copy(address, from, size_of::<T>() as u64)
}

/// Copies from the program or the engine to the program; false after a fault.
pub fn copy(to: u64, from: u64, len: u64) -> bool {
    if overlaps_engine(to, to.saturating_add(len)) {
        return false;
    }
    // SAFETY: rt_copy survives faults at its one instruction; what it writes is the program's.
    unsafe { entry::rt_copy(to, from, len) == 0 }
}
