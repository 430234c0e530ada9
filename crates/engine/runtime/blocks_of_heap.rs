//! Blocks of the program's heap come and go: what was done in them until then is told, and put aside in the shadow
//! (`xlate::known`), so that what is done there from then on is seen.

use crate::heap::{HEAP, LARGE, WHAT, word};
use crate::known::{self, byte, pages_of};
use crate::known_blocks::{Blocks, Large};
use crate::layout::Context;
use crate::lock::Mutex;
use crate::references;
use crate::shadow::provide;
use crate::xlate::known::{EACH, PAGE_BITS, PIECE_BITS, did, which};
use crate::xlate::references::MARK;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// The heap's blocks.
static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks::new());
/// The large ones among them.
static LARGES: Mutex<Large> = Mutex::new(Large::new());

/// In a forked child: there are none.
pub fn forked() {
    // SAFETY: what they hold is made anew, whoever held them.
    unsafe {
        BLOCKS.free_in_child();
        LARGES.free_in_child();
    }
    BLOCKS.lock().forget();
    LARGES.lock().forget();
}

/// Says something of the heap.
pub fn say(context: &mut Context, what: u64, value: u64) {
    let value = value & (MARK - 1);
    references::mark(context, MARK | HEAP | what << WHAT | value);
}

/// Which of what was done in a range is told to who reads the ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tell {
    /// All.
    All,
    /// What was done in blocks of the heap.
    InBlocks,
}

/// What a range is from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// What it was: blocks that are not large are looked at, and nothing else.
    Stays,
    /// In no block, or in a large one.
    Free,
    /// In one that is not large.
    Block,
}

/// A block of the heap is allocated, by a site. What was done there until now was no use of it.
pub fn allocated(context: &mut Context, start: u64, size: u64, site: u64) {
    if context.noted.known.shadow == 0 {
        return;
    }
    let end = start.saturating_add(size);
    let before = BLOCKS.lock().insert(start, (size, site));
    let small = size < LARGE;
    if let Some((old, by)) = before {
        let was = start.saturating_add(old);
        if old >= LARGE {
            LARGES.lock().remove(start);
        }
        if by == site && (old < LARGE) == small {
            // It stays where it is, and has another size.
            displace(context, was, end);
            aside(context, was..end, small);
            put_aside(context, end..was, Tell::All, Mark::Free);
        } else {
            put_aside(context, start..was, Tell::All, Mark::Free);
            displace(context, start, end);
            aside(context, start..end, small);
        }
    } else {
        displace(context, start, end);
        aside(context, start..end, small);
    }
    if !small {
        LARGES.lock().insert(start, end);
    }
}

/// Large blocks of which nobody saw that they are free, and which are in the way of a new one, are gone as a whole.
fn displace(context: &mut Context, start: u64, end: u64) {
    loop {
        let found = LARGES.lock().overlapping(start, end);
        let Some((from, to)) = found.filter(|_| start < end) else {
            return;
        };
        LARGES.lock().remove(from);
        put_aside(context, from..to, Tell::All, Mark::Free);
    }
}

/// A block is there from now on. Small ones in its way are gone as a whole: what was done in them is told, too (of
/// others, too, that is no matter).
fn aside(context: &mut Context, range: Range<u64>, small: bool) {
    if range.is_empty() {
        return;
    }
    // (Eight bytes that are its own as a whole.)
    let (first, last) = (range.start.next_multiple_of(8), range.end & !7);
    if first < last && in_block(first) {
        let before = range.start.saturating_sub(LARGE)..range.start;
        put_aside(context, before, Tell::InBlocks, Mark::Stays);
    }
    if first < last && in_block(last - 1) {
        let behind = range.end..range.end.saturating_add(LARGE);
        put_aside(context, behind, Tell::InBlocks, Mark::Stays);
    }
    let tell = if small { Tell::InBlocks } else { Tell::All };
    let mark = if small { Mark::Block } else { Mark::Free };
    put_aside(context, range, tell, mark);
}

/// Whether an address is in a block that is not large.
fn in_block(address: u64) -> bool {
    let address = address & ((1 << 47) - 1);
    let (pages, page) = (pages_of(address >> PIECE_BITS), address >> PAGE_BITS & 63);
    pages.load(Acquire) >> page & 1 != 0
        && byte(known::base() + address / 8).load(Acquire) & did::BLOCK != 0
}

/// A block is free again.
pub fn freed(context: &mut Context, start: u64) {
    if context.noted.known.shadow == 0 {
        return;
    }
    let block = BLOCKS.lock().remove(start);
    if let Some((size, _)) = block {
        if size >= LARGE {
            LARGES.lock().remove(start);
        }
        put_aside(
            context,
            start..start.saturating_add(size),
            Tell::All,
            Mark::Free,
        );
    }
}

/// Nothing is mapped there any more: blocks that begin there are free.
pub fn unmapped(context: &mut Context, start: u64, size: u64) {
    if context.noted.known.shadow == 0 || size == 0 {
        return;
    }
    let end = start.saturating_add(size);
    loop {
        let found = LARGES.lock().overlapping(start, end);
        let Some((from, to)) = found.filter(|&(from, _)| from >= start) else {
            break;
        };
        LARGES.lock().remove(from);
        BLOCKS.lock().remove(from);
        put_aside(context, from..to, Tell::All, Mark::Free);
    }
    if in_block(end - 1) {
        let behind = end..end.saturating_add(LARGE);
        put_aside(context, behind, Tell::InBlocks, Mark::Stays);
    }
    put_aside(context, start..end, Tell::All, Mark::Free);
}

/// What was done in a range is of the past, and told.
fn put_aside(context: &mut Context, range: Range<u64>, tell: Tell, mark: Mark) {
    let block = mark == Mark::Block;
    let (start, end) = (range.start, range.end.min(1 << 47));
    if start >= end {
        return;
    }
    let (base, shared) = (known::base(), known::is_shared());
    let mut telling = Telling::default();
    let mut line = start & !63;
    while line < end {
        let pages = pages_of(line >> PIECE_BITS).load(Acquire);
        if !block && pages >> (line >> PAGE_BITS & 63) & 1 == 0 {
            let bits = if pages == 0 { PIECE_BITS } else { PAGE_BITS };
            line = (line >> bits << bits) + (1 << bits);
            continue;
        }
        if block {
            provide(context, line);
        }
        let first = start.saturating_sub(line) / 8;
        let last = (end - 1 - line).min(63) / 8;
        let whole = (u64::MAX >> (8 * (7 - (last - first)))) << (8 * first);
        // SAFETY: eight bytes of a page that is there.
        let word = unsafe { &*((base + line / 8) as *const AtomicU64) };
        let mut old = word.load(Acquire);
        let (loaded, stored, inside) = loop {
            let blocks = (old >> 7 & EACH) * 0xff;
            let inside = match mark {
                Mark::Stays => whole & blocks,
                Mark::Free | Mark::Block => whole,
            };
            let all = |one: u8, two: u8| {
                let one = old >> one.trailing_zeros() | old >> two.trailing_zeros();
                one & EACH & inside
            };
            let loaded = all(did::LOADED, did::STACK_LOADED);
            let stored = all(did::STORED, did::STACK_STORED);
            let stack = all(did::STACK_LOADED, did::STACK_STORED);
            let now = did::LOADED | did::STORED | did::STACK_LOADED | did::STACK_STORED;
            let stays = if mark == Mark::Stays { 0 } else { did::BLOCK };
            let kept = old & !((EACH * u64::from(now | stays)) & inside);
            let new = kept
                | loaded << did::WAS_LOADED.trailing_zeros()
                | stored << did::WAS_STORED.trailing_zeros()
                | stack << did::WAS_STACK.trailing_zeros()
                | if block { EACH << 7 & inside } else { 0 };
            if new == old {
                break (loaded, stored, inside);
            }
            if !shared {
                word.store(new, Release);
                break (loaded, stored, inside);
            }
            match word.compare_exchange_weak(old, new, AcqRel, Acquire) {
                Ok(_) => break (loaded, stored, inside),
                Err(other) => old = other,
            }
        };
        let told = match tell {
            Tell::All => inside,
            Tell::InBlocks => (old >> 7 & EACH & inside) * 0xff,
        };
        if (loaded | stored) & told != 0 {
            let [all, stored] = [loaded | stored, stored].map(|bytes| which(bytes & told, 1));
            telling.say(context, line, all.into(), stored.into());
        }
        line += 64;
    }
    telling.finish(context);
}

/// What was done in two lines.
#[derive(Default)]
struct Telling {
    /// Said last: where others count from.
    from: u64,
    at: u64,
    touched: u64,
    stored: u64,
}

impl Telling {
    fn say(&mut self, context: &mut Context, line: u64, touched: u64, stored: u64) {
        let at = line & !127;
        if at != self.at {
            self.finish(context);
            self.at = at;
        }
        let shift = line / 64 % 2 * 8;
        self.touched |= touched << shift;
        self.stored |= stored << shift;
    }

    fn finish(&mut self, context: &mut Context) {
        if self.touched == 0 {
            return;
        }
        if self.from == 0 || self.at - self.from >= 128 << 15 {
            self.from = self.at;
            say(context, word::FROM, self.at);
        }
        let away = (self.at - self.from) / 128;
        let value = away << 32 | self.stored << 16 | self.touched;
        say(context, word::USED, value);
        (self.touched, self.stored) = (0, 0);
    }
}
