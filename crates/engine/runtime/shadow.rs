//! Where the shadow of what the program references is (`xlate::known`), and what makes room in it and in the ring.

use crate::check;
use crate::known::{self, MORE, lies_of, pages_of, word};
use crate::layout::{Context, option, state as slot_state};
use crate::lock::Mutex;
use crate::own_memory;
use crate::recent;
use crate::ring;
use crate::slots::{self, slot};
use crate::sys;
use crate::syscall_table as nr;
use crate::xlate::known::{
    DIRECTORY, Is, Lies, Literal, OWN_PIECES, PAGE_BITS, PIECE, PIECE_BITS, PIECES, POOL,
    POOL_DIRECTORY, POOL_PIECES, Record, SHADOW,
};
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Bytes of the bits of its pages.
const PAGES_BYTES: u64 = SHADOW >> 12 >> 3;

/// Where it may lie: first above what V8 asks for at random (46 bits), and away from what sanitizers, Go, and programs
/// by hand map.
const PLACES: [u64; 4] = [
    0x4413_5200_0000,
    0x6013_5200_0000,
    0x2413_5200_0000,
    0x1213_5200_0000,
];

/// Where the next piece is taken from.
struct Pool {
    /// Its slot; 0: none yet.
    slot: u32,
    used: u64,
    most: u64,
}

const NO_POOL: Pool = Pool {
    slot: 0,
    used: 0,
    most: 0,
};

static POOLS: Mutex<Pool> = Mutex::new(NO_POOL);

/// A new image: where there are no addresses for a shadow, all is noted.
pub fn init() {
    if !known::on() || slots::header().options & option::NO_LINES != 0 {
        return;
    }
    let pages = own_memory::addresses(PAGES_BYTES);
    let all = SHADOW + MORE;
    let Some(place) = PLACES
        .into_iter()
        .find(|&at| reserve(at, all, READ, NOREPLACE))
    else {
        return;
    };
    if !reserve(pages, PAGES_BYTES, READ | WRITE, NOREPLACE) {
        return own_memory::give_back(place, all);
    }
    known::begins(place, pages);
}

const READ: u64 = 1;
const WRITE: u64 = 2;
const FIXED: u64 = 0x10;
const NOREPLACE: u64 = 0x10_0000;

/// Addresses that read as 0.
fn reserve(at: u64, bytes: u64, prot: u64, fixed: u64) -> bool {
    // MAP_PRIVATE|ANONYMOUS|NORESERVE
    let flags = 0x2 | 0x20 | 0x4000 | fixed;
    // SAFETY: at addresses that nobody has, or that are ours.
    let got = unsafe { sys::call(nr::MMAP, [at, bytes, prot, flags, u64::MAX, 0]) };
    if got != at as i64 {
        if got > 0 {
            own_memory::give_back(got as u64, bytes);
        }
        return false;
    }
    // SAFETY: ours. MADV_DONTDUMP
    unsafe { sys::call(nr::MADVISE, [at, bytes, 16, 0, 0, 0]) };
    true
}

/// In a forked child: it has done nothing yet.
pub fn forked() {
    // SAFETY: what it holds is made anew, whoever held it.
    unsafe { POOLS.free_in_child() };
    *POOLS.lock() = NO_POOL;
    let base = known::base();
    if base != 0 {
        check!(
            reserve(base, SHADOW + MORE, READ, FIXED),
            "no memory for the virtual PMU"
        );
        let pages = known::pages();
        // SAFETY: our own memory, which reads as 0 then. MADV_DONTNEED
        unsafe { sys::call(nr::MADVISE, [pages, PAGES_BYTES, 4, 0, 0, 0]) };
    }
}

/// The shadow of an address can be used from now on.
pub fn provide(context: &Context, address: u64) {
    let (piece, page) = (address >> PIECE_BITS, address >> PAGE_BITS & 63);
    let pages = pages_of(piece);
    if pages.load(Acquire) & 1 << page != 0 {
        return;
    }
    let mut pool = POOLS.lock();
    if pages.load(Acquire) == 0 {
        pool.map(context, piece);
    }
    pages.fetch_or(1 << page, AcqRel);
}

impl Pool {
    fn map(&mut self, context: &Context, piece: u64) {
        if self.slot == 0 {
            *self = Self {
                slot: context.space,
                used: 0,
                most: OWN_PIECES,
            };
        } else if self.used == self.most {
            *self = Self {
                slot: slots::new_slot(),
                used: 0,
                most: POOL,
            };
            let at = slots::context_at(self.slot) as *mut Context;
            // SAFETY: a slot that nobody has, and whose context no thread will use.
            unsafe {
                (*at).space = context.space;
                (*at).noted.known.pool = 1;
            }
            slot(self.slot).state().store(slot_state::LOG, Release);
        }
        let region = slots::context_at(self.slot);
        let (directory, first) = match self.most {
            OWN_PIECES => (DIRECTORY, PIECES),
            _ => (POOL_DIRECTORY, POOL_PIECES),
        };
        let (from, to) = (
            region + first + self.used * PIECE,
            known::base() + piece * PIECE,
        );
        // Of a shared mapping, a length of 0 gives another one of the same (mremap(2)). MREMAP_MAYMOVE|FIXED
        // SAFETY: addresses of ours.
        let got = unsafe { sys::call(nr::MREMAP, [from, 0, PIECE, 3, to, 0]) };
        check!(
            got == to as i64,
            "no memory for the virtual PMU (errno {})",
            -got
        );
        let word = |at: u64| {
            // SAFETY: a word of the directory.
            unsafe { &*((region + directory + at * 8) as *const AtomicU64) }
        };
        word(1 + self.used).store(piece + 1, Relaxed);
        self.used += 1;
        word(0).store(self.used, Release);
    }
}

/// There was no room: there is now, and the thread comes again.
pub fn come_again(context: &mut Context) {
    let literal = context.noted.known.literal;
    // SAFETY: in translated code, which has just named it.
    let literal = unsafe { &*(literal as *const Literal) };
    make_room(context, literal);
    context.resume = context
        .noted
        .known
        .literal
        .wrapping_add_signed(i64::from(literal.again));
}

fn make_room(context: &mut Context, literal: &Literal) {
    if context.noted.known.forget == 1 {
        recent::forget_for(context, literal);
        context.noted.known.forget = 2;
        return;
    }
    if known::is_full(context) {
        ring::publish_but(context, literal.last());
    }
    let (first, shadow) = (context.noted.known.address, context.noted.known.shadow);
    let last = first.wrapping_add(u64::from(literal.size.max(1)) - 1);
    let is_noted = |at: u64| shadow != 0 && at >> 47 == 0;
    match Record(literal.record).is() {
        Some(Is::Reference(_)) if is_noted(first) && is_noted(last) => {
            provide(context, first);
            provide(context, last);
            if first & (u64::from(literal.size) - 1) == 0 {
                return;
            }
        }
        Some(Is::Masked(_)) => {
            // (The elements are in the same pages.)
            for at in [first, last].into_iter().filter(|&at| is_noted(at)) {
                provide(context, at);
            }
        }
        _ => return,
    }
    // Other operands have both places of what is counted of this one.
    let record = Record(literal.record).lies().0;
    let [home, other] = lies_of(context, record);
    // SAFETY: in the thread's own table.
    let read = |at: u64| unsafe { *(at as *const Lies) };
    let is_others = |at| !matches!(read(at).record, known if known == 0 || known == record);
    if is_others(home) && is_others(other) {
        // (What was counted last may have to be taken back: see `unfinished`.)
        let last = context.this + u64::from(known::counted_last(context));
        let place = if home == last { other } else { home };
        say_lies(context, read(place));
        // SAFETY: as above.
        unsafe { *(place as *mut Lies) = Lies::default() };
    }
}

/// Says in the ring how references lie.
fn say_lies(context: &mut Context, lies: Lies) {
    // (Where no record begins: see `references::mark`.)
    if known::is_full(context) {
        ring::publish(context);
    }
    let words = [
        lies.record,
        lies.unaligned,
        lies.line_splits,
        lies.page_splits,
    ];
    for (at, value) in (context.noted.position..).zip(words) {
        // SAFETY: words of the thread's ring, in which there is room.
        unsafe { word(context, at).write(value) };
    }
    context.noted.position += 4;
}
