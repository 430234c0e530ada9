//! The totals file in the program's address space, mapped as far as slots are in use: what is mapped counts
//! for limits of memory, and is memory that the program cannot have.

use crate::check;
use crate::layout::{
    Header, MAX_SLOTS, REGION, TOTALS_BASE, TOTALS_FAR, TOTALS_NEAR, region_offset,
};
use crate::sys;
use crate::syscall_table as nr;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Ends of what is mapped of the near and the far part, as offsets in the file.
static MAPPED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Contexts are mapped by so many bytes.
const GRAIN: u64 = 1 << 20;
/// What is mapped of the far part at first, to grow from.
const SEED: u64 = 0x1000;
const FAR_BYTES: u64 = MAX_SLOTS as u64 * REGION - TOTALS_NEAR;

/// Where a part begins in the file, and in memory.
const PARTS: [(u64, u64); 2] = [(0, TOTALS_BASE), (TOTALS_NEAR, TOTALS_FAR + TOTALS_NEAR)];

fn part(offset: u64) -> usize {
    usize::from(offset >= TOTALS_NEAR)
}

/// The totals file's header.
pub fn header() -> &'static Header {
    // SAFETY: mapped by rt_start before anything else runs; what changes in it is atomic.
    unsafe { &*(TOTALS_BASE as *const Header) }
}

/// Maps the header, and what belongs to the first thread's slot. Where regions are large, all of the file, so that
/// what a program sets as its limit of memory holds for what it maps itself; if it has been started with a limit that
/// this is too much for, as little as can be.
pub fn start(fd: u64, slot: u32) {
    must(place(0, fd, REGION));
    if header().apart == REGION {
        must(place(1, fd, SEED));
        // SAFETY: ours; it becomes longer where it is.
        let longer = |part: usize, from, to| unsafe {
            sys::call(nr::MREMAP, [PARTS[part].1, from, to, 0, 0, 0])
        };
        if longer(0, REGION, TOTALS_NEAR) > 0 {
            MAPPED[0].store(TOTALS_NEAR, Release);
            if longer(1, SEED, FAR_BYTES) > 0 {
                MAPPED[1].store(TOTALS_NEAR + FAR_BYTES, Release);
            }
        }
    }
    region(slot);
}

fn must(result: i64) {
    check!(
        result >= 0,
        "the totals file cannot be mapped (errno {})",
        -result
    );
}

/// Maps the first bytes of a part.
fn place(part: usize, fd: u64, bytes: u64) -> i64 {
    let (offset, at) = PARTS[part];
    // PROT_READ|WRITE; MAP_SHARED|NORESERVE|FIXED_NOREPLACE
    let flags = 1 | 0x4000 | 0x10_0000;
    // SAFETY: a shared mapping at an address reserved for it.
    let got = unsafe { sys::call(nr::MMAP, [at, bytes, 3, flags, fd, offset]) };
    if got == at as i64 {
        // SAFETY: just mapped. MADV_DONTDUMP
        unsafe { sys::call(nr::MADVISE, [at, bytes, 16, 0, 0, 0]) };
        MAPPED[part].store(offset + bytes, Release);
    }
    got
}

/// Address of a slot's region, which is mapped then.
pub fn region(slot: u32) -> u64 {
    let apart = match slot {
        0 => return TOTALS_BASE,
        _ => header().apart,
    };
    let offset = region_offset(slot, apart);
    let part = part(offset);
    if MAPPED[part].load(Acquire) < offset + apart {
        grow(part, (offset + apart).next_multiple_of(GRAIN));
    }
    let (start, at) = PARTS[part];
    at + (offset - start)
}

/// The slot whose region begins at an address.
pub fn slot_at(address: u64) -> u32 {
    let offset = match address.wrapping_sub(TOTALS_BASE) {
        near if near < TOTALS_NEAR => near,
        _ => address - TOTALS_FAR,
    };
    ((offset - REGION) / header().apart) as u32 + 1
}

/// Maps a part up to an offset in the file. Any thread may do so at any time, without a lock: a child of
/// `fork` must not find one held.
#[cold]
fn grow(part: usize, end: u64) {
    let (start, at) = PARTS[part];
    loop {
        let mapped = MAPPED[part].load(Acquire);
        check!(mapped != 0, "the program has the addresses of slots");
        if mapped >= end {
            return;
        }
        // SAFETY: makes a mapping of ours longer, where it can stay where it is.
        let got = unsafe { sys::call(nr::MREMAP, [at, mapped - start, end - start, 0, 0, 0]) };
        if got == at as i64 {
            MAPPED[part].fetch_max(end, AcqRel);
            return;
        }
        // Has another thread just done so (before a `fork`, perhaps, and its child knows nothing of it)?
        let mut known = mapped;
        // SAFETY: asks whether something is mapped there. MADV_NORMAL
        while unsafe { sys::call(nr::MADVISE, [at + (known - start), 0x1000, 0, 0, 0, 0]) } == 0 {
            known = (known + 1).next_multiple_of(GRAIN);
        }
        if known == mapped && MAPPED[part].load(Acquire) == mapped {
            crate::report::fail(format_args!(
                "no address space for the counts of one more thread or process (errno {})",
                -got
            ));
        }
        MAPPED[part].fetch_max(known, AcqRel);
    }
}

/// Whether a range touches what is mapped, or is going to be. The far part, if nothing has come to it yet, is
/// the program's where it wants it.
pub fn overlaps(start: u64, end: u64) -> bool {
    let (offset, far) = PARTS[1];
    let next = region_offset(header().next_slot.load(Acquire), REGION);
    if touches_far(start, end) && next < offset {
        let mapped = MAPPED[1].swap(0, AcqRel).saturating_sub(offset);
        // SAFETY: ours, and nothing is in it; a length of 0 is refused.
        unsafe { sys::call(nr::MUNMAP, [far, mapped, 0, 0, 0, 0]) };
    }
    touches(start, end)
}

/// As [`overlaps`], of somebody who only asks: nothing is given up.
pub fn touches(start: u64, end: u64) -> bool {
    let near = match header().apart {
        REGION => TOTALS_NEAR,
        apart => region_offset(MAX_SLOTS, apart),
    };
    touches_far(start, end) || start < TOTALS_BASE + near && TOTALS_BASE < end
}

fn touches_far(start: u64, end: u64) -> bool {
    let far = PARTS[1].1;
    MAPPED[1].load(Acquire) != 0 && start < far + FAR_BYTES && far < end
}
