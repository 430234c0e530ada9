//! The shadow of what the program references (`xlate::known`), and the routines that translated code goes through with
//! what is new: they enter it. Every register stays as it is. A signal that finds a thread here is stepped on to the end
//! of the instruction.

mod alone;
mod routines;

use crate::entry::address;
use crate::layout::{Context, REGION, RING, option};
use crate::masked;
use crate::slots;
use crate::xlate::known::{AT, Filter, LIES_OTHER, Lies, Record, SHADOW, Shadow};
use crate::xlate::references::{APART, CHUNK};
use alone::{rt_alone, rt_alone_end};
use core::mem::{offset_of, size_of};
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use routines::{rt_elements, rt_elements_counted, rt_note, rt_note_end, rt_room, rt_unaligned};

/// A word of a thread's ring.
pub fn word(context: &Context, number: u32) -> *mut u64 {
    (context.this + RING + u64::from(number) * 8) as *mut u64
}

/// Whether no record begins where the next word of the ring is: there is no room for one (`xlate::references`).
pub fn is_full(context: &Context) -> bool {
    (context.noted.position / APART).is_multiple_of(CHUNK / APART)
}

/// The routine for all references that are not known, where most are of a model.
pub fn note() -> u64 {
    address(rt_note)
}

/// The routine for room in the ring alone.
pub fn room() -> u64 {
    address(rt_room)
}

/// Where the routines are.
pub fn ranges() -> [Range<u64>; 2] {
    [
        address(rt_unaligned)..address(rt_note_end),
        address(rt_alone)..address(rt_alone_end),
    ]
}

/// Where the shadow of address 0 is; 0: there is none.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Where the bits of its pages are.
static PAGES: AtomicU64 = AtomicU64::new(0);
/// Bytes behind the shadow that can be read.
pub const MORE: u64 = 0x1000;

/// Not 0: other threads may enter something in this memory's shadow.
pub(super) static SHARED: AtomicU8 = AtomicU8::new(0);

/// Another thread is about to be made (or a process that shares this memory, and does not suspend who makes it).
pub fn shares() {
    SHARED.store(1, Release);
}

/// In a forked child: its only thread has the memory to itself.
pub fn forked() {
    SHARED.store(0, Release);
}

/// Whether other threads may enter something in the shadow.
pub fn is_shared() -> bool {
    SHARED.load(Acquire) != 0
}

/// Where the shadow of address 0 is; 0: there is none.
pub fn base() -> u64 {
    BASE.load(Relaxed)
}

/// Where the bits of its pages are.
pub fn pages() -> u64 {
    PAGES.load(Relaxed)
}

/// There is a shadow from now on.
pub fn begins(base: u64, pages: u64) {
    PAGES.store(pages, Relaxed);
    BASE.store(base, Release);
}

/// Whether a range touches the shadow.
pub fn touches(start: u64, end: u64) -> bool {
    let base = BASE.load(Relaxed);
    base != 0 && start < base + SHADOW + MORE && base < end
}

/// A thread's context.
pub fn prepare(context: &mut Context) {
    let known = &mut context.noted.known;
    known.vector_note = address(rt_unaligned);
    known.tells = u32::from(tells());
    // (It asks neither whether there is a shadow, nor what is told.)
    known.vector_alone = match BASE.load(Relaxed) {
        base if base == 0 || tells() => known.vector_note,
        _ => address(rt_alone),
    };
    known.vector_room = address(rt_room);
    known.vector_masked = vector_masked();
    known.shadow = BASE.load(Relaxed);
    known.pages = PAGES.load(Relaxed);
}

/// The routine for elements that a mask chooses, where no model has them. (What is counted by a table has no place in a
/// profile that is written in parts.)
fn vector_masked() -> u64 {
    let options = slots::header().options;
    match BASE.load(Relaxed) {
        _ if options & (option::REQUESTS | option::BY_PATH) != 0 => masked::routine(),
        _ if options & option::NO_LINES != 0 => address(rt_elements_counted),
        0 => masked::routine(),
        _ => address(rt_elements),
    }
}

/// How blocks leave references out; `None`: they note all.
pub fn filter() -> Option<Filter> {
    let options = slots::header().options;
    on().then(|| Filter {
        address: offset_of!(Context, noted.known.address) as u32,
        literal: offset_of!(Context, noted.known.literal) as u32,
        spill: offset_of!(Context, noted.known.spill) as u32,
        shadow: offset_of!(Context, noted.known.shadow) as u32,
        apart: offset_of!(Context, noted.known.apart) as u32,
        lent: offset_of!(Context, noted.known.lent) as u32,
        state: match BASE.load(Relaxed) {
            _ if options & option::NO_LINES != 0 => Shadow::Unasked,
            0 => Shadow::Absent,
            _ => Shadow::Present,
        },
        bytes: options & option::NO_BYTES == 0,
        taken: options & option::NO_TAKEN == 0,
        recent: None,
        vector_note: offset_of!(Context, noted.known.vector_note) as u32,
        vector_alone: offset_of!(Context, noted.known.vector_alone) as u32,
        vector_room: offset_of!(Context, noted.known.vector_room) as u32,
        vector_masked: offset_of!(Context, noted.known.vector_masked) as u32,
        mask: offset_of!(Context, noted.known.chosen) as u32,
        reads_fs: options & option::READS_FS != 0,
        rotates: options & option::ROTATES != 0,
        tells: tells(),
    })
}

/// The bits of 64 pages: those of a piece.
pub fn pages_of(piece: u64) -> &'static AtomicU64 {
    // SAFETY: as many words as there are pieces; nobody else uses them.
    unsafe { &*((PAGES.load(Relaxed) + piece * 8) as *const AtomicU64) }
}

/// A byte of the shadow, which can be used.
pub fn byte(at: u64) -> &'static AtomicU8 {
    // SAFETY: in a page that is there.
    unsafe { &*(at as *const AtomicU8) }
}

/// Where an operand's [`Lies`] may be.
pub fn lies_of(context: &Context, record: u64) -> [u64; 2] {
    let number = u64::from(Record(record).lies_place());
    [number, number ^ LIES_OTHER]
        .map(|number| context.this + AT + number * size_of::<Lies>() as u64)
}

/// Where in the region the [`Lies`] are that were counted last; 0: what was entered last is aligned.
pub fn counted_last(context: &Context) -> u32 {
    let known = &context.noted.known;
    let last = known.made.get(known.since.wrapping_sub(1) as usize % 2);
    last.map_or(0, |made| made.lies)
}

/// Whether what is entered, or not aligned, is told.
pub fn tells() -> bool {
    slots::header().options & option::BY_PATH != 0
}

/// Whether references are filtered.
pub fn on() -> bool {
    slots::header().options & option::FILTERED != 0
}

/// The address of the block that a record of a thread's names.
pub fn pc_of(context: &Context, record: Record) -> Option<u64> {
    // SAFETY: a description of this process', which is never taken away.
    description(context, record).map(|at| unsafe { (at as *const u64).read() })
}

/// Where that block is described.
pub fn description(context: &Context, record: Record) -> Option<u64> {
    let offset = record.described(context.noted.base) * 8;
    let slot = offset.checked_div(REGION)? as u32;
    // (Slot 0 has none, and what is no record may name any.)
    let known = 1..slots::header().next_slot.load(Relaxed);
    known
        .contains(&slot)
        .then(|| slots::context_at(slot) + offset % REGION)
}
