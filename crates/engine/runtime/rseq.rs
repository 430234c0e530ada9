//! Restartable sequences (rseq(2)). The kernel serves the C library's registration, so the number of the CPU is right and
//! the library goes the way it goes natively. A program with critical sections of its own finds a kernel without
//! (`src/restartable.rs`); where they come with a library later, code that names one is not executed.
//!
//! Facts: include/uapi/linux/rseq.h (`struct rseq_cs`: version, flags, start, length, abort address; the signature is in
//! front of the abort address).

use crate::layout::option;
use crate::program_memory;
use crate::slots;
use crate::sys;
use crate::syscall_table as nr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// The program may register.
static SERVED: AtomicBool = AtomicBool::new(false);
/// The signature of the last registration; 0: there was none.
static SIGNATURE: AtomicU32 = AtomicU32::new(0);
/// Pages that the kernel writes to behind the program's back, by their number: a hash table.
static WRITTEN: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];
static FULL: AtomicBool = AtomicBool::new(false);

const UNREGISTER: u64 = 1;

/// A new image. Where clocks or CPUs are the engine's, so is their number.
pub fn start(allowed: bool) {
    let own = option::CLOCK | option::MACHINE | option::SCHEDULE;
    SERVED.store(allowed && slots::header().options & own == 0, Relaxed);
}

/// Pages that the kernel is going to write to: not to be watched from now on.
pub fn pages_to_leave(a: [u64; 6]) -> Option<[u64; 2]> {
    if !SERVED.load(Relaxed) || a[2] & UNREGISTER != 0 {
        return None;
    }
    SIGNATURE.store(a[3] as u32, Relaxed);
    let pages = [a[0] >> 12, a[0].wrapping_add(63) >> 12];
    pages.iter().copied().for_each(note);
    Some(pages)
}

/// rseq.
pub fn call(a: [u64; 6]) -> i64 {
    if !SERVED.load(Relaxed) {
        return -sys::ENOSYS;
    }
    // SAFETY: passed through as the program made it.
    unsafe { sys::call(nr::RSEQ, a) }
}

/// The kernel must find the page writable at any time.
fn note(page: u64) {
    let start = page as usize;
    let found = (0..WRITTEN.len()).any(|step| {
        let place = WRITTEN.get(start.wrapping_add(step) % WRITTEN.len());
        place.is_some_and(
            |place| match place.compare_exchange(0, page, AcqRel, Acquire) {
                Ok(_) => true,
                Err(other) => other == page,
            },
        )
    });
    if !found {
        FULL.store(true, Release);
    }
}

/// Whether the kernel writes to a page so.
pub fn writes_to(page: u64) -> bool {
    if SIGNATURE.load(Relaxed) == 0 {
        return false;
    }
    let start = page as usize;
    FULL.load(Acquire)
        || (0..WRITTEN.len())
            .map_while(|step| WRITTEN.get(start.wrapping_add(step) % WRITTEN.len()))
            .map(|place| place.load(Acquire))
            .take_while(|&known| known != 0)
            .any(|known| known == page)
}

/// Whether a critical section is described at an address.
pub fn is_described(at: u64) -> bool {
    let signature = SIGNATURE.load(Relaxed);
    if signature == 0 || !at.is_multiple_of(8) || at >> 47 != 0 {
        return false;
    }
    let Some([version, start, length, abort]) = program_memory::read::<[u64; 4]>(at) else {
        return false;
    };
    version as u32 == 0
        && (0x1000..1 << 47).contains(&start)
        && (1..0x1_0000).contains(&length)
        && (0x1000..1 << 47).contains(&abort)
        && program_memory::read::<u32>(abort - 4) == Some(signature)
}
