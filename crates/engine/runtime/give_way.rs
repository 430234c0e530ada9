//! The engine's memory gives way where the program wants its addresses (`MAP_FIXED`, a heap that grows): what can be
//! elsewhere goes there, as long as one thread alone is in this memory.

use crate::cache_file;
use crate::engine::{self, Engine};
use crate::layout::LOW_BYTES;
use crate::own_memory::{low, overlaps_engine, overlaps_fixed};
use crate::sys;
use crate::syscall_table as nr;

/// Makes room; false where there is none.
pub fn from(start: u64, end: u64) -> bool {
    if !overlaps_engine(start, end) {
        return true;
    }
    if overlaps_fixed(start, end) {
        return false;
    }
    let mut engine = engine::lock();
    let Engine { cache, pages, .. } = &mut *engine;
    if !cache.is_alone() {
        return false;
    }
    // A signal's handler looks at what moves.
    let mask = sys::set_mask(u64::MAX);
    cache.give_up_areas(pages, start, end);
    let wanted = start < low() + LOW_BYTES && low() < end;
    let moved = !wanted || cache.move_low(start, end);
    sys::set_mask(mask);
    // Translations are kept for the usual places.
    cache_file::save_no_more();
    moved
}

/// A heap that could not grow: tried again where it was the engine that was in its way.
pub fn grow(end: u64, got: i64) -> i64 {
    let start = got as u64;
    if got < 0 || start >= end || !overlaps_engine(start, end) || !from(start, end) {
        return got;
    }
    // SAFETY: the program's call once more.
    unsafe { sys::call(nr::BRK, [end, 0, 0, 0, 0, 0]) }
}
