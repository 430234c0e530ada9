//! Translations kept on disk: which file mappings there are, and which of the
//! blocks that an earlier process left may run in this one.
//!
//! A snapshot's tables and code are mapped at the start, but nothing in them can
//! be reached until the mapping they belong to (an *image*) is *active*: the
//! same file is mapped at the same place and every page that translation had
//! read has the same bytes. See `DESIGN.md`, "Translations on disk".

mod load;
mod maps;
mod save;

pub use save::save;

use crate::allocations;
use crate::block::NONE;
use crate::cache::kept::{ACTIVE, FRESH, Kept, SPENT};
use crate::collect;
use crate::counts;
use crate::engine::Engine;
use crate::known;
use crate::layout::{Context, StartArgs};
use crate::lock::Mutex;
use crate::pages::{EXEC, READ, WRITE};
use crate::program_memory;
use crate::snapshot::{Identity, Image, MAX_IMAGES, SavedPage, hash};
use crate::sys;
use crate::syscall_table as nr;
use crate::xlate::known::Shadow;

/// An executable, private, read-only mapping of a file as it is now.
#[derive(Clone, Copy)]
struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    identity: Identity,
    /// The snapshot's image that is active here.
    image: Option<u16>,
    /// Still there, and never writable.
    clean: bool,
}

const GONE: Mapped = Mapped {
    start: 0,
    end: 0,
    offset: 0,
    identity: [0; 5],
    image: None,
    clean: false,
};

struct Store {
    /// The cache is used: mappings are followed.
    on: bool,
    /// What to do at the end: see [`crate::layout::StartArgs::cache_effort`].
    effort: u64,
    /// Slot of this image's first thread.
    leader: u32,
    /// Slot of this process's first thread: another one in a forked child.
    process: u32,
    /// See [`crate::layout::StartArgs::cache_key`].
    key: u64,
    /// Blocks that came from the snapshot.
    loaded: usize,
    /// Something there had other code than when it was translated.
    stale: bool,
    pages: &'static [SavedPage],
    owners: &'static [u16],
    log: &'static [u64],
    mapped: [Mapped; MAX_IMAGES],
    mapped_count: usize,
}

/// Taken inside of the engine's lock, or before there are threads.
static STORE: Mutex<Store> = Mutex::new(Store {
    on: false,
    effort: u64::MAX,
    leader: 0,
    process: 0,
    key: 0,
    loaded: 0,
    stale: false,
    pages: &[],
    owners: &[],
    log: &[],
    mapped: [GONE; MAX_IMAGES],
    mapped_count: 0,
});

/// At the start of an image: takes over the snapshot behind `fd` (`u64::MAX`:
/// there is none) and looks at what is mapped already.
pub fn start(engine: &mut Engine, context: &mut Context, args: &StartArgs) {
    // Kept code looks at the shadow of what the program references, wherever that is.
    let fits = known::filter().is_none_or(|filter| filter.state != Shadow::Absent);
    let fd = args.cache_fd;
    let effort = if fits { args.cache_effort } else { u64::MAX };
    let store = &mut *STORE.lock();
    store.effort = effort;
    store.leader = context.leader;
    store.process = context.leader;
    store.key = args.cache_key;
    store.on = fits && (fd != u64::MAX || effort != u64::MAX);
    if fd != u64::MAX {
        let loaded = fits && load::load(store, &mut engine.cache, fd);
        // SAFETY: our descriptor.
        unsafe { sys::call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]) };
        if !loaded {
            // What the program would leave cannot be put together with it.
            engine.cache.kept.images = &[];
            store.loaded = 0;
        }
    }
    if store.on {
        maps::initial(|start, end, offset, identity| {
            store.map(engine, context, start, end, offset, identity);
        });
    }
}

/// In a forked child, whose first thread has this slot.
pub fn forked(slot: u32) {
    STORE.lock().process = slot;
}

/// After a successful call that changes mappings.
pub fn after(engine: &mut Engine, context: &mut Context, number: u64, a: [u64; 6], result: i64) {
    let store = &mut *STORE.lock();
    if !store.on {
        return;
    }
    let up = |value: u64| value.saturating_add(0xfff) & !0xfff;
    let end = |start: u64, bytes: u64| start.saturating_add(up(bytes));
    match number {
        nr::MMAP => {
            let start = result as u64;
            store.unmap(&mut engine.cache.kept, start, end(start, a[1]));
            let (prot, flags) = (a[2] as u8, a[3]);
            // MAP_PRIVATE, not MAP_ANONYMOUS.
            if prot & (EXEC | WRITE) == EXEC
                && flags & 0x22 == 2
                && let Some(identity) = maps::identity_of(a[4])
            {
                store.map(engine, context, start, end(start, a[1]), a[5], identity);
            }
        }
        nr::MPROTECT | nr::PKEY_MPROTECT if a[2] as u8 & WRITE != 0 => {
            store.wrote(a[0], end(a[0], a[1]));
        }
        nr::MUNMAP => store.unmap(&mut engine.cache.kept, a[0], end(a[0], a[1])),
        nr::MREMAP => {
            store.unmap(&mut engine.cache.kept, a[0], end(a[0], a[1]));
            store.unmap(
                &mut engine.cache.kept,
                result as u64,
                end(result as u64, a[2]),
            );
        }
        _ => {}
    }
}

/// The launcher can no longer be asked.
pub fn save_no_more() {
    STORE.lock().effort = u64::MAX;
}

/// Bytes there are no longer the file's; the engine's lock is held.
pub fn wrote(start: u64, end: u64) {
    STORE.lock().wrote(start, end);
}

fn pages_of<'a>(pages: &'a [SavedPage], image: &Image) -> &'a [SavedPage] {
    let from = image.first_page as usize;
    pages
        .get(from..from.saturating_add(image.page_count as usize))
        .unwrap_or(&[])
}

fn words_of<'a>(log: &'a [u64], image: &Image) -> &'a [u64] {
    let from = image.first_word as usize;
    log.get(from..from.saturating_add(image.words as usize))
        .unwrap_or(&[])
}

/// The hash of a page of the program's; `None` where it cannot be read.
fn page_hash(number: u64) -> Option<u64> {
    let mut bytes = [0u8; 4096];
    program_memory::read_code(&mut bytes, number << 12).then(|| hash(0, &bytes))
}

impl Store {
    /// A new mapping of a file: remembered, and its translations taken up.
    fn map(
        &mut self,
        engine: &mut Engine,
        context: &mut Context,
        start: u64,
        end: u64,
        offset: u64,
        identity: Identity,
    ) {
        let free = self
            .mapped
            .iter()
            .take(self.mapped_count)
            .position(|m| m.end == 0)
            .unwrap_or(self.mapped_count);
        let Some(place) = self.mapped.get_mut(free) else {
            return;
        };
        *place = Mapped {
            start,
            end,
            offset,
            identity,
            image: None,
            clean: true,
        };
        self.mapped_count = self.mapped_count.max(free + 1);
        // A fork's counters below those it was born with are its parent's.
        if counts::per_block() && context.leader != self.leader {
            return;
        }
        let found = (0..engine.cache.kept.images.len()).find(|&at| {
            engine.cache.kept.images.get(at).is_some_and(|i| {
                i.start == start && i.end <= end && i.offset == offset && i.identity == identity
            }) && engine.cache.kept.active.get(at) == Some(&FRESH)
        });
        let Some(at) = found else { return };
        if !self.activate(engine, at) {
            self.stale = true;
        } else {
            if let Some(place) = self.mapped.get_mut(free) {
                place.image = Some(at as u16);
            }
            context.cached += engine.cache.kept.images.get(at).map_or(0, |i| i.blocks);
        }
    }

    /// Compares every page; where all are the same, the image's blocks can run.
    fn activate(&self, engine: &mut Engine, at: usize) -> bool {
        let images = engine.cache.kept.images;
        let Some(image) = images.get(at) else {
            return false;
        };
        let saved = pages_of(self.pages, image);
        let same = |page: &SavedPage| {
            let inside = image.start >> 12 <= page.number && page.number < image.end >> 12;
            inside && page_hash(page.number) == Some(page.hash)
        };
        if !saved.iter().all(same) {
            return false;
        }
        let blocks = engine.cache.blocks.len() as u32;
        let pages = &mut engine.pages;
        for page in saved {
            let head = if page.head < blocks { page.head } else { NONE };
            pages.adopt(page.number, READ | EXEC, head);
        }
        if let Some(place) = engine.cache.kept.active.get_mut(at) {
            *place = ACTIVE;
        }
        if counts::per_block() {
            // (The allocator's functions in it are found then.)
            counts::note_mappings();
            counts::take_over(words_of(self.log, image));
        }
        // They were translated in a run that asked elsewhere.
        let Engine { cache, pages, .. } = engine;
        let (start, end) = (image.start, image.end);
        collect::each_hook(start, end, |pc| pages.drop_at(cache, pc));
        allocations::each_hook(start, end, |pc| pages.drop_at(cache, pc));
        true
    }

    /// Mappings in the range are gone. One that lost its end goes on.
    fn unmap(&mut self, kept: &mut Kept, start: u64, end: u64) {
        for m in self.mapped.iter_mut().take(self.mapped_count) {
            if m.start >= end || start >= m.end {
                continue;
            }
            if m.start < start && m.end <= end {
                m.end = start;
                continue;
            }
            if let Some(image) = m.image
                && let Some(place) = kept.active.get_mut(usize::from(image))
            {
                *place = SPENT;
            }
            *m = GONE;
        }
    }

    /// The program may write there: such bytes are not the file's.
    fn wrote(&mut self, start: u64, end: u64) {
        for m in self.mapped.iter_mut().take(self.mapped_count) {
            if m.start < end && start < m.end {
                m.clean = false;
            }
        }
    }
}
