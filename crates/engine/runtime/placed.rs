//! Where mappings go whose place the program leaves open: where every kernel would put them, whatever it does about
//! large pages. Linux searches downwards from a base below the stack for the first gap that is large enough
//! (`arch_get_unmapped_area_topdown`); since 6.7 it gives memory of 2 MiB and more an address that is a multiple of that, and
//! so do some file systems with files of that size (`thp_get_unmapped_area`). A hint that is taken makes it search as before;
//! where a file system decides, the place is found with anonymous memory first. Some files let nobody say a place (the
//! rings of io_uring, since 6.5): those have the kernel's.

use crate::machine;
use crate::sys;
use crate::syscall_table as nr;

/// MAP_FIXED, MAP_32BIT, MAP_GROWSDOWN, MAP_HUGETLB, MAP_FIXED_NOREPLACE: their place is said, or another matter.
const OTHERS: u64 = 0x10 | 0x40 | 0x100 | 0x4_0000 | 0x10_0000;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const LARGE: u64 = 2 << 20;
const MREMAP_MAYMOVE: u64 = 1;
const MREMAP_FIXED: u64 = 2;

/// An address that is never free: the engine's own.
fn taken() -> u64 {
    static PLACE: u64 = 0;
    &raw const PLACE as u64 & !0xfff
}

/// The call, with its place chosen.
///
/// # Safety
/// As the program made it, checked against our memory.
pub unsafe fn call(number: u64, mut a: [u64; 6]) -> i64 {
    // SAFETY: the caller's, but for places that the kernel chooses.
    let call = |number, a| unsafe { sys::call(number, a) };
    if !machine::on() {
        return call(number, a);
    }
    match number {
        nr::MMAP if a[3] & OTHERS == 0 => {
            let asked = a;
            if a[0] == 0 {
                a[0] = taken();
            }
            let result = if a[3] & MAP_ANONYMOUS != 0 || a[1] < LARGE {
                call(nr::MMAP, a)
            } else {
                let place = free(a[0], a[1]);
                if place < 0 {
                    return place;
                }
                (a[0], a[3]) = (place as u64, a[3] | MAP_FIXED);
                given_back_if_failed(call(nr::MMAP, a), a[0], a[1])
            };
            if result == -sys::EINVAL && asked[0] == 0 {
                return call(nr::MMAP, asked);
            }
            result
        }
        nr::MREMAP if a[3] == MREMAP_MAYMOVE && a[1] != 0 && a[2] > a[1] => {
            let grown = call(nr::MREMAP, [a[0], a[1], a[2], 0, 0, 0]);
            if grown != -sys::ENOMEM {
                return grown;
            }
            let place = free(taken(), a[2]);
            if place < 0 {
                return place;
            }
            let place = place as u64;
            let to = [a[0], a[1], a[2], MREMAP_MAYMOVE | MREMAP_FIXED, place, 0];
            given_back_if_failed(call(nr::MREMAP, to), place, a[2])
        }
        _ => call(number, a),
    }
}

/// Reserves memory at a free place.
fn free(hint: u64, length: u64) -> i64 {
    // PROT_NONE; MAP_PRIVATE|ANONYMOUS|NORESERVE
    let flags = 0x2 | MAP_ANONYMOUS | 0x4000;
    // SAFETY: a fresh mapping, where the kernel says.
    unsafe { sys::call(nr::MMAP, [hint, length, 0, flags, u64::MAX, 0]) }
}

fn given_back_if_failed(result: i64, place: u64, length: u64) -> i64 {
    if (-4095..0).contains(&result) {
        // SAFETY: reserved above, and nobody has it.
        unsafe { sys::call(nr::MUNMAP, [place, length, 0, 0, 0, 0]) };
    }
    result
}
