//! The program's memory, read and written without harm where it cannot be: every copy survives a fault,
//! and none writes into the engine's.

use crate::own_memory::is_engines;
use crate::syscall_table as nr;
use crate::xlate::decode::MAX_LEN;
use crate::{entry, keys, sys};
use core::mem::{MaybeUninit, size_of};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// Types of which any bytes are a value, without padding.
///
/// # Safety
/// That is so.
pub unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: integers.
unsafe impl Plain for u16 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: arrays have no padding between their elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Faults of ours may not reach us any more: see `fault_signals`.
/// Then the kernel copies, and this opens watched pages that it cannot write to.
static OPEN_PAGES: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// From now on the kernel copies. `open`: gives a range its write permission back.
pub fn expect_no_faults(open: fn(u64, u64)) {
    OPEN_PAGES.store(open as *mut (), Release);
}

/// Copies between the program's memory and ours; not 0: it cannot be read or written there.
///
/// # Safety
/// What is written is the program's, or ours and meant to be.
unsafe fn copy_bytes(to: u64, from: u64, len: u64, reads: bool) -> u64 {
    let open_pages = OPEN_PAGES.load(Acquire);
    if !open_pages.is_null() {
        let [own, other] = if reads { [to, from] } else { [from, to] }.map(|at| [at, len]);
        let number = if reads {
            nr::PROCESS_VM_READV
        } else {
            nr::PROCESS_VM_WRITEV
        };
        let (own, other) = (own.as_ptr() as u64, other.as_ptr() as u64);
        // SAFETY: the caller's; both vectors are locals.
        let call = || unsafe { sys::call(number, [u64::from(sys::getpid()), own, 1, other, 1, 0]) };
        let mut done = call();
        if !reads && done != len as i64 {
            // SAFETY: stored from such a function.
            let open_pages = unsafe { core::mem::transmute::<*mut (), fn(u64, u64)>(open_pages) };
            open_pages(to, len);
            done = call();
        }
        // Not allowed, or unknown: as ever.
        if done != -1 && done != -sys::ENOSYS {
            return u64::from(done != len as i64);
        }
    }
    // SAFETY: the caller's; rt_copy survives faults at its one instruction.
    unsafe { entry::rt_copy(to, from, len) }
}

/// Reads a value; `None` where it cannot be read.
pub fn read<T: Plain>(address: u64) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: writes to a local; any bytes are a T.
    unsafe {
        let to = value.as_mut_ptr() as u64;
        let failed = copy_bytes(to, address, size_of::<T>() as u64, true);
        (failed == 0).then(|| value.assume_init())
    }
}

/// Reads bytes; false after a fault.
pub fn read_bytes(to: &mut [u8], from: u64) -> bool {
    // SAFETY: writes to the slice.
    unsafe { copy_bytes(to.as_mut_ptr() as u64, from, to.len() as u64, true) == 0 }
}

/// Reads an instruction's bytes; false where they cannot be read: a file that was truncated, say. Unlike data, code is
/// read where the program itself may only execute it (`keys`).
pub fn fetch(to: &mut [u8; MAX_LEN], from: u64) -> bool {
    // SAFETY: writes to the array; it survives faults at its two loads.
    keys::open(|| unsafe { entry::rt_fetch(to.as_mut_ptr() as u64, from) }) == 0
}

/// Reads bytes of code; false after a fault.
pub fn read_code(to: &mut [u8], from: u64) -> bool {
    keys::open(|| read_bytes(to, from))
}

/// Whether the program's code is the same as bytes of ours; false where it cannot be read.
///
/// # Safety
/// The bytes at `ours` are there.
pub unsafe fn is_same_code(ours: u64, code: u64, len: u64) -> bool {
    // SAFETY: the caller's; it survives faults at its one comparison.
    keys::open(|| unsafe { entry::rt_differs(ours, code, len) }) == 0
}

/// Writes a value; false where it cannot be written.
pub fn write<T: Plain>(address: u64, value: &T) -> bool {
    let from = core::ptr::from_ref(value) as u64;
    copy(address, from, size_of::<T>() as u64)
}

/// Copies from the program or the engine to the program; false after a fault.
pub fn copy(to: u64, from: u64, len: u64) -> bool {
    if is_engines(to, to.saturating_add(len)) {
        return false;
    }
    // SAFETY: what is written is the program's.
    unsafe { copy_bytes(to, from, len, false) == 0 }
}
