//! The engine's own memory in the program's address space, out of the program's reach.

use crate::call_routines;
use crate::check;
use crate::known;
use crate::layout::{ARENA_BASE, LOW_BYTES, RUNTIME_BASE, TOTALS_BASE};
use crate::masked;
use crate::recent;
use crate::sys;
use crate::syscall_table as nr;
use crate::totals;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// No program address at all.
pub const NOWHERE: u64 = u64::MAX;
/// End of what belongs to the runtime's image.
pub const RUNTIME_END: u64 = RUNTIME_BASE + 0x40_0000;
/// Bytes of a code area.
pub const AREA: u64 = 64 << 20;
/// Code areas there can be.
pub const MAX_AREAS: usize = 64;

/// Which place of [`crate::layout::LOW`] is used.
static LOW_BASE: AtomicU64 = AtomicU64::new(0);

/// Where what has to be low is.
pub fn low() -> u64 {
    LOW_BASE.load(Relaxed)
}

/// What has to be low is there from now on.
pub fn set_low(base: u64) {
    LOW_BASE.store(base, Relaxed);
}

/// Whether a host address is the runtime's.
pub fn is_runtime(address: u64) -> bool {
    (RUNTIME_BASE..RUNTIME_END).contains(&address)
}

static ARENA_NEXT: AtomicU64 = AtomicU64::new(ARENA_BASE);

/// The code areas' first addresses, for signal handlers, without a lock.
static AREA_BASES: [AtomicU64; MAX_AREAS] = [const { AtomicU64::new(0) }; MAX_AREAS];
static AREA_COUNT: AtomicU32 = AtomicU32::new(0);

/// Maps zeroed private memory for the runtime, away from the program's.
pub fn reserve(bytes: u64) -> u64 {
    let bytes = (bytes + 0xfff) & !0xfff;
    for _ in 0..64 {
        let at = addresses(bytes);
        if map(at, bytes) {
            return at;
        }
    }
    crate::report::fail(format_args!("no address space for the virtual PMU"))
}

/// Pages that are about to be written one after the other are made at once, where the kernel can (Linux 5.14): a fault
/// for each costs several times as much, and the start of a short program is mostly faults.
pub fn provide(start: u64, end: u64) {
    const MADV_POPULATE_WRITE: u64 = 23;
    // SAFETY: our own memory; nothing changes but that it is there.
    unsafe {
        sys::call(
            nr::MADVISE,
            [start, end - start, MADV_POPULATE_WRITE, 0, 0, 0],
        )
    };
}

/// Addresses that nobody else is given; nothing is mapped there.
pub fn addresses(bytes: u64) -> u64 {
    let bytes = (bytes + 0xfff) & !0xfff;
    let at = ARENA_NEXT.fetch_add(bytes + 0x1000, Relaxed);
    check!(
        at + bytes < TOTALS_BASE,
        "no address space for the virtual PMU"
    );
    at
}

/// Maps zeroed private memory at addresses of ours; false where somebody else is there.
pub fn map(at: u64, bytes: u64) -> bool {
    // PROT_READ|PROT_WRITE; MAP_PRIVATE|ANONYMOUS|NORESERVE|FIXED_NOREPLACE
    let flags = 0x2 | 0x20 | 0x4000 | 0x10_0000;
    // SAFETY: a fresh mapping at an address nobody has, or an error.
    let got = unsafe { sys::call(nr::MMAP, [at, bytes, 3, flags, u64::MAX, 0]) };
    check!(
        got == at as i64 || got == -17 || got >= 0,
        "no memory for the virtual PMU ({bytes} bytes: errno {})",
        -got
    );
    got == at as i64
}

/// Whether there is memory for the code and tables that most programs need. Where limits do not leave that much, it
/// is said before anything of the program has been executed.
pub fn probe() {
    const BYTES: u64 = 256 << 20;
    // PROT_READ|WRITE; PRIVATE|ANONYMOUS|NORESERVE|FIXED_NOREPLACE
    let flags = 0x2 | 0x20 | 0x4000 | 0x10_0000;
    let at = TOTALS_BASE - BYTES;
    // SAFETY: fresh memory that is given back at once.
    unsafe {
        let got = sys::call(nr::MMAP, [at, BYTES, 3, flags, u64::MAX, 0]);
        check!(
            got == at as i64,
            "no memory for the virtual PMU ({BYTES} bytes: errno {})",
            -got
        );
        sys::call(nr::MUNMAP, [at, BYTES, 0, 0, 0, 0]);
    }
}

/// Takes memory back that [`reserve`] gave, and that nothing refers to any more. (Its addresses are not used again.)
pub fn give_back(at: u64, bytes: u64) {
    // SAFETY: the caller's to give back.
    unsafe { sys::call(nr::MUNMAP, [at, (bytes + 0xfff) & !0xfff, 0, 0, 0, 0]) };
}

/// Code area `number` lies at `base` from now on; those behind it are gone.
pub fn note_area(number: usize, base: u64) {
    if let Some(place) = AREA_BASES.get(number) {
        place.store(base, Relaxed);
        AREA_COUNT.store(number as u32 + 1, Release);
    }
}

/// Code area `number` is the program's memory now.
pub fn lose_area(number: usize, nowhere: u64) {
    if let Some(place) = AREA_BASES.get(number) {
        place.store(nowhere, Relaxed);
    }
}

/// There are no code areas any more.
pub fn forget_areas() {
    AREA_COUNT.store(0, Release);
}

fn area_bases() -> impl Iterator<Item = u64> {
    let count = AREA_COUNT.load(Acquire) as usize;
    AREA_BASES.iter().take(count).map(|base| base.load(Relaxed))
}

/// Whether a host address lies in translated code, or in a routine that is as good as in it.
pub fn in_code(address: u64) -> bool {
    area_bases().any(|base| address.wrapping_sub(base) < AREA)
        || call_routines::range().contains(&address)
        || known::ranges().iter().any(|range| range.contains(&address))
        || recent::range().contains(&address)
        || masked::range().contains(&address)
}

/// Whether a range touches memory of the engine.
pub fn overlaps_engine(start: u64, end: u64) -> bool {
    totals::overlaps(start, end) || is_engines(start, end)
}

/// Whether any of it is the engine's: nothing is given up for who asks.
pub fn is_engines(start: u64, end: u64) -> bool {
    let touches = |low: u64, high: u64| start < high && low < end;
    touches_runtime(start, end)
        || totals::touches(start, end)
        || known::touches(start, end)
        || touches(low(), low() + LOW_BYTES)
        || area_bases().any(|base| touches(base, base + AREA))
}

/// Whether it touches memory that cannot go elsewhere.
pub fn overlaps_fixed(start: u64, end: u64) -> bool {
    totals::overlaps(start, end) || touches_runtime(start, end) || known::touches(start, end)
}

fn touches_runtime(start: u64, end: u64) -> bool {
    let touches = |low: u64, high: u64| start < high && low < end;
    touches(RUNTIME_BASE, RUNTIME_END) || touches(ARENA_BASE, ARENA_NEXT.load(Relaxed))
}
