//! Offering a snapshot to the launcher, at the end of a process or in front of
//! an `execve`. Only what a later process can check is kept: blocks whose every
//! byte lies in one mapping of a file that was never writable. The lock is held
//! throughout, so that the tables stand still; other threads run on in
//! translated code. Every change made here leaves the process able to go on.

use super::{Mapped, Store, page_hash, pages_of, words_of};
use crate::block::{NONE, Near};
use crate::cache::Cache;
use crate::cache::kept::{FRESH, Kept, index_of, slot_of};
use crate::counts;
use crate::engine::{self, Engine};
use crate::images::announce;
use crate::layout::Context;
use crate::lock::Mutex;
use crate::log::{self, Entry};
use crate::pages::{EXEC, Pages, WRITE};
use crate::references;
use crate::slots;
use crate::snapshot::save as phase;
use crate::snapshot::{Facts, Image, MAGIC, MAX_IMAGES, PIECES, Piece, Request, SavedPage, piece};
use crate::sys;
use crate::table::Table;
use core::sync::atomic::Ordering::*;

/// Longest wait for the launcher to copy, in tenths of a second.
const PATIENCE: u32 = 200;

/// Offers what this process has translated, if that is worth it.
pub fn save(context: &mut Context) {
    let mut engine = engine::lock();
    let engine = &mut *engine;
    let store = &mut *super::STORE.lock();
    let offered = store.effort != u64::MAX
        && context.leader == store.process
        && slots::header().saving.load(Acquire) != 0;
    if !offered {
        return;
    }
    let worth = if store.process == store.leader {
        is_worth(store, &mut engine.cache)
    } else {
        is_worth_of_fork(context, &engine.cache)
    };
    if worth {
        offer(context, store, engine);
    }
}

/// Whether enough is new.
fn is_worth(store: &Store, cache: &mut Cache) -> bool {
    let fresh = (store.loaded..cache.blocks.len())
        .filter(|&at| {
            // (What has no block yet is not touched: each page of it would be a fault.)
            if !cache.is_numbered(at) {
                return false;
            }
            let block = cache.blocks.get(at);
            block.valid && store.owner_of(block.pc, block.guest_len).is_some()
        })
        .count() as u64;
    let old: u64 = cache.kept.images.iter().map(|i| i.blocks).sum();
    // All is written again, in 1 µs a block of it or more; what is missing is translated again, in 15. What cannot be used
    // is never made good by waiting.
    if store.stale {
        return fresh > (old >> 9) << store.effort.min(9);
    }
    fresh > (old / 20) << store.effort.min(4)
}

/// Whether a forked child has translated so much that its image did not have: with each one that offered something, more
/// is asked of the next, because they mostly find the same.
fn is_worth_of_fork(context: &Context, cache: &Cache) -> bool {
    let before = slots::header().saved_by_forks.load(Acquire).min(16);
    let least = (cache.blocks.len() as u64 >> 7).max(16) << before;
    // With counters a block, what they count is in the log of the parent in part.
    let worth = !counts::per_block() && context.translated > least;
    if worth {
        slots::header().saved_by_forks.fetch_add(1, AcqRel);
    }
    worth
}

fn offer(context: &mut Context, store: &mut Store, engine: &mut Engine) {
    let mut request = Request {
        magic: MAGIC,
        pieces: [Piece::default(); PIECES],
        facts: Facts::default(),
    };
    if !prepare(store, engine, &mut request) {
        return;
    }
    context.save_request = core::ptr::from_ref(&request) as u64;
    (context.save_image, context.save_key) = (store.leader, store.key);
    context.save.store(phase::WANTED, Release);
    announce(context);
    for _ in 0..PATIENCE {
        let now = context.save.load(Acquire);
        if now == phase::DONE || slots::header().saving.load(Acquire) == 0 {
            break;
        }
        sys::futex_wait(&context.save, now, 100);
    }
    context.save.store(phase::NONE, Release);
    // Should the process go on: nothing of this is kept.
}

impl Store {
    /// The mapping that a block lies in as a whole.
    fn owner_of(&self, pc: u64, len: u32) -> Option<usize> {
        let end = pc + u64::from(len);
        let holds = |m: &Mapped| m.clean && m.start <= pc && end <= m.end && len != 0;
        self.mapped.iter().take(self.mapped_count).position(holds)
    }

    /// Images of the snapshot that this process did not meet, and whose place was
    /// not taken by the same file with other bytes.
    fn dormant(&self, kept: &Kept, at: usize) -> bool {
        let Some(image) = kept.images.get(at) else {
            return false;
        };
        let same = |m: &Mapped| m.start == image.start && m.identity == image.identity;
        kept.active.get(at) == Some(&FRESH) && !self.mapped.iter().take(self.mapped_count).any(same)
    }
}

struct Plan {
    images: [Image; MAX_IMAGES],
    count: usize,
    /// New number of each mapping's image, and of each old image, plus one.
    of_mapped: [u16; MAX_IMAGES],
    of_old: [u16; MAX_IMAGES],
    /// Words of log written for each image.
    cursor: [u64; MAX_IMAGES],
}

static PLAN: Mutex<Plan> = Mutex::new(Plan {
    images: [NO_IMAGE; MAX_IMAGES],
    count: 0,
    of_mapped: [0; MAX_IMAGES],
    of_old: [0; MAX_IMAGES],
    cursor: [0; MAX_IMAGES],
});

const NO_IMAGE: Image = Image {
    start: 0,
    end: 0,
    offset: 0,
    identity: [0; 5],
    first_page: 0,
    page_count: 0,
    first_index: 0,
    index_bits: 0,
    blocks: 0,
    first_word: 0,
    words: 0,
};

fn table<T: Copy>(capacity: usize) -> Table<T> {
    let mut table = Table::new();
    table.init(capacity.max(1));
    table
}

fn whole<T: Copy>(table: &Table<T>) -> Piece {
    Piece {
        at: table.address(),
        bytes: (table.len() * core::mem::size_of::<T>()) as u64,
    }
}

/// Leaves only what can be kept, and describes it.
fn prepare(store: &mut Store, engine: &mut Engine, request: &mut Request) -> bool {
    let (cache, code_pages) = (&mut engine.cache, &mut engine.pages);
    if !cache.describe(&mut request.pieces, &mut request.facts) {
        return false;
    }
    cache.unpublish_all();
    let plan = &mut *PLAN.lock();
    (plan.count, plan.cursor) = (0, [0; MAX_IMAGES]);
    (plan.of_mapped, plan.of_old) = ([0; MAX_IMAGES], [0; MAX_IMAGES]);
    let room = code_pages.count() + store.pages.len();
    let mut pages = table::<SavedPage>(room);
    for at in 0..store.mapped_count {
        add_mapped(store, code_pages, plan, at, &mut pages);
    }
    for at in 0..cache.kept.images.len() {
        if store.dormant(&cache.kept, at) && plan.count < MAX_IMAGES {
            let mut image = cache.kept.images[at];
            image.first_page = pages.len() as u32;
            for page in pages_of(store.pages, &image) {
                pages.push(*page);
            }
            plan.images[plan.count] = image;
            plan.count += 1;
            plan.of_old[at] = plan.count as u16;
        }
    }
    let owners = assign(store, cache, plan);
    let index = index(cache, plan, &owners);
    if counts::per_block() {
        let Some(log) = describe(store, cache, plan, &owners) else {
            return false;
        };
        request.pieces[piece::LOG] = whole(&log);
        request.facts.counters = u64::from(counts::used());
    }
    if references::on() {
        let Some(described) = references::whole() else {
            return false;
        };
        request.pieces[piece::DESCRIBED] = described;
    }
    request.pieces[piece::OWNERS] = whole(&owners);
    request.pieces[piece::INDEX] = whole(&index);
    request.pieces[piece::PAGES] = whole(&pages);
    request.pieces[piece::IMAGES] = Piece {
        at: plan.images.as_ptr() as u64,
        bytes: (plan.count * core::mem::size_of::<Image>()) as u64,
    };
    request.facts.live = plan.images.iter().take(plan.count).map(|i| i.blocks).sum();
    request.facts.live != 0
}

/// A mapping whose pages are all constant and readable becomes an image.
fn add_mapped(
    store: &mut Store,
    code_pages: &mut Pages,
    plan: &mut Plan,
    at: usize,
    pages: &mut Table<SavedPage>,
) {
    let mapped = store.mapped[at];
    if !mapped.clean || plan.count == MAX_IMAGES {
        return;
    }
    let first = pages.len();
    let mut good = true;
    code_pages.each_known(mapped.start, mapped.end, |number, prot, head| {
        if prot & (EXEC | WRITE) != EXEC {
            // Known, but not code: nothing was read from it.
            good &= head == NONE && prot & WRITE == 0;
            return;
        }
        match page_hash(number) {
            Some(hash) => {
                pages.push(SavedPage {
                    number,
                    hash,
                    head,
                    padding: 0,
                });
            }
            None => good = false,
        }
    });
    if !good || pages.len() == first {
        pages.claim(first);
        store.mapped[at].clean = false;
        return;
    }
    plan.images[plan.count] = Image {
        start: mapped.start,
        end: mapped.end,
        offset: mapped.offset,
        identity: mapped.identity,
        first_page: first as u32,
        page_count: (pages.len() - first) as u32,
        ..NO_IMAGE
    };
    plan.count += 1;
    plan.of_mapped[at] = plan.count as u16;
}

/// Gives each block its image; what has none is dropped.
fn assign(store: &Store, cache: &mut Cache, plan: &mut Plan) -> Table<u16> {
    let count = cache.blocks.len();
    let mut owners = table::<u16>(count);
    let mut last = 0;
    for number in 0..count {
        let block = *cache.blocks.get(number);
        let dormant = match store.owners.get(number) {
            Some(&old) if old != 0 => plan.of_old.get(usize::from(old) - 1).copied().unwrap_or(0),
            _ => 0,
        };
        if dormant != 0 {
            owners.push(dormant);
            continue;
        }
        let covers = |m: &Mapped| m.clean && m.start <= block.pc && block.pc < m.end;
        if !store.mapped.get(last).is_some_and(covers) {
            last = store.owner_of(block.pc, block.guest_len).unwrap_or(0);
        }
        let mapped = &store.mapped[last];
        let inside = covers(mapped) && block.pc + u64::from(block.guest_len) <= mapped.end;
        let image = plan.of_mapped[last];
        // A block of an image that never became active was not run here, and its
        // description may be that of other bytes.
        let met = match store.owners.get(number) {
            Some(&old) if old != 0 => mapped.image == Some(old - 1),
            Some(_) => false,
            None => true,
        };
        // Where the runtime is asked, it is in a run whose functions were chosen so.
        let kept = block.valid && !block.hidden && block.hook == Near::NONE;
        if kept && inside && met && image != 0 && block.guest_len != 0 {
            cache.keep_links_inside(&block, mapped.start, mapped.end);
            owners.push(image);
            plan.images[usize::from(image) - 1].blocks += 1;
        } else {
            if met {
                cache.invalidate(number as u32);
            }
            owners.push(0);
        }
    }
    owners
}

/// The hash tables of all images.
fn index(cache: &mut Cache, plan: &mut Plan, owners: &Table<u16>) -> Table<u32> {
    let bits = |blocks: u64| 64 - (blocks * 2).max(4).leading_zeros();
    let mut room = cache.kept.index.len();
    for image in plan.images.iter().take(plan.count) {
        room += 1 << bits(image.blocks);
    }
    let mut index = table::<u32>(room);
    for (at, image) in plan.images.iter_mut().enumerate().take(plan.count) {
        let first = index.len() as u32;
        let old = plan
            .of_old
            .iter()
            .position(|&new| usize::from(new) == at + 1);
        if old.is_some() {
            for &entry in index_of(cache.kept.index, image) {
                index.push(entry);
            }
        } else {
            image.index_bits = bits(image.blocks);
            // Fresh memory is zero.
            index.claim(index.len() + (1 << image.index_bits));
        }
        image.first_index = first;
    }
    for (number, &owner) in owners.slice().iter().enumerate() {
        let Some(image) = usize::from(owner)
            .checked_sub(1)
            .and_then(|at| plan.images.get(at))
        else {
            continue;
        };
        if plan.of_old.contains(&owner) {
            continue;
        }
        let pc = cache.blocks.get(number).pc;
        let mask = (1usize << image.index_bits) - 1;
        let mut place = slot_of(pc, image.index_bits);
        loop {
            let entry = index.get(image.first_index as usize + (place & mask));
            if *entry == 0 {
                *entry = number as u32 + 1;
                break;
            }
            place += 1;
        }
    }
    index
}

/// What the counters of each image's blocks count, gathered from the log; `None`
/// if the log is not in one piece.
fn describe(
    store: &Store,
    cache: &mut Cache,
    plan: &mut Plan,
    owners: &Table<u16>,
) -> Option<Table<u64>> {
    let words = counts::whole_log()?;
    let mut of_counter = table::<u16>(counts::used() as usize + 1);
    of_counter.claim(counts::used() as usize);
    for (number, &owner) in owners.slice().iter().enumerate() {
        let block = cache.blocks.get(number);
        if owner != 0 && block.insns != 0 && !plan.of_old.contains(&owner) {
            *of_counter.get(block.counter as usize) = owner;
        }
    }
    // First how many words each image has, then the words.
    let mut log = table::<u64>(words.len() + store.log.len());
    gather(words, &of_counter, plan, None);
    for (at, image) in plan.images.iter_mut().enumerate().take(plan.count) {
        let first = log.len();
        if plan.of_old.iter().any(|&new| usize::from(new) == at + 1) {
            for &word in words_of(store.log, image) {
                log.push(word);
            }
        } else {
            image.words = plan.cursor[at];
            log.claim(first + image.words as usize);
        }
        image.first_word = first as u64;
    }
    plan.cursor = [0; MAX_IMAGES];
    gather(words, &of_counter, plan, Some(&mut log));
    Some(log)
}

/// Goes through a log, advances each image's cursor, and writes if there is a place.
fn gather(words: &[u64], owners: &Table<u16>, plan: &mut Plan, mut to: Option<&mut Table<u64>>) {
    let mut rest = words;
    while let Some((entry, used)) = log::entry(rest) {
        let entry_words = rest.get(..used).unwrap_or(&[]);
        rest = rest.get(used..).unwrap_or(&[]);
        let (Entry::Block { counter: of, .. }
        | Entry::Part { of, .. }
        | Entry::Described { counter: of, .. }) = entry
        else {
            continue;
        };
        let owner = owners.slice().get(of as usize).copied().unwrap_or(0);
        let Some(at) = usize::from(owner).checked_sub(1) else {
            continue;
        };
        for (number, &word) in entry_words.iter().enumerate() {
            if let Some(log) = &mut to {
                *log.get((plan.images[at].first_word + plan.cursor[at]) as usize + number) = word;
            }
        }
        plan.cursor[at] += used as u64;
    }
}
