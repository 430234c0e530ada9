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

pub use load::place;
pub use save::save;

use crate::cache::{CACHE, Cache, NONE};
use crate::counts;
use crate::layout::Context;
use crate::pages::{EXEC, PAGES, READ, WRITE};
use crate::snapshot::{Identity, Image, MAX_IMAGES, SavedPage, hash};
use crate::state::Global;
use crate::sys;
use crate::syscall_table as nr;

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

/// States of a snapshot's image: not met yet, in use, its mapping gone again.
const FRESH: u8 = 0;
const ACTIVE: u8 = 1;
const SPENT: u8 = 2;

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
    /// Slot of this image's first thread: others (forks) save nothing.
    leader: u32,
    /// Blocks that came from the snapshot.
    loaded: usize,
    images: &'static [Image],
    pages: &'static [SavedPage],
    index: &'static [u32],
    owners: &'static [u16],
    log: &'static [u64],
    /// [`FRESH`], [`ACTIVE`] or [`SPENT`].
    active: [u8; MAX_IMAGES],
    mapped: [Mapped; MAX_IMAGES],
    mapped_count: usize,
    /// The image that answered last.
    last: usize,
}

static STORE: Global<Store> = Global::new(Store {
    on: false,
    effort: u64::MAX,
    leader: 0,
    loaded: 0,
    images: &[],
    pages: &[],
    index: &[],
    owners: &[],
    log: &[],
    active: [FRESH; MAX_IMAGES],
    mapped: [GONE; MAX_IMAGES],
    mapped_count: 0,
    last: 0,
});

/// At the start of an image: takes over the snapshot behind `fd` (`u64::MAX`:
/// there is none) and looks at what is mapped already.
pub fn start(context: &mut Context, fd: u64, effort: u64) {
    let store = STORE.get();
    store.effort = effort;
    store.leader = context.leader;
    store.on = fd != u64::MAX || effort != u64::MAX;
    if fd != u64::MAX {
        let loaded = load::load(store, CACHE.get(), fd);
        // SAFETY: our descriptor.
        unsafe { sys::call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]) };
        if !loaded {
            // What the program would leave cannot be put together with it.
            store.images = &[];
            store.loaded = 0;
        }
    }
    if store.on {
        maps::initial(|start, end, offset, identity| {
            store.map(context, start, end, offset, identity);
        });
    }
}

/// After a successful call that changes mappings; the lock is held.
pub fn after(number: u64, a: [u64; 6], result: i64) {
    let store = STORE.get();
    if !store.on {
        return;
    }
    let up = |value: u64| value.saturating_add(0xfff) & !0xfff;
    let end = |start: u64, bytes: u64| start.saturating_add(up(bytes));
    match number {
        nr::MMAP => {
            let start = result as u64;
            store.unmap(start, end(start, a[1]));
            let (prot, flags) = (a[2] as u8, a[3]);
            // MAP_PRIVATE, not MAP_ANONYMOUS.
            if prot & (EXEC | WRITE) == EXEC
                && flags & 0x22 == 2
                && let Some(identity) = maps::identity_of(a[4])
            {
                // SAFETY: GS is at this thread's context, as everywhere in the runtime.
                let context = unsafe { &mut *crate::state::current() };
                store.map(context, start, end(start, a[1]), a[5], identity);
            }
        }
        nr::MPROTECT | nr::PKEY_MPROTECT if a[2] as u8 & WRITE != 0 => {
            store.wrote(a[0], end(a[0], a[1]))
        }
        nr::MUNMAP => store.unmap(a[0], end(a[0], a[1])),
        nr::MREMAP => {
            store.unmap(a[0], end(a[0], a[1]));
            store.unmap(result as u64, end(result as u64, a[2]));
        }
        _ => {}
    }
}

/// A block for `pc` from the snapshot, if its image is active.
pub fn find(cache: &mut Cache, pc: u64) -> Option<u32> {
    let store = STORE.get();
    if store.images.is_empty() {
        return None;
    }
    let covers = |at: usize| {
        store.active.get(at) == Some(&ACTIVE)
            && store
                .images
                .get(at)
                .is_some_and(|i| i.start <= pc && pc < i.end)
    };
    let at = if covers(store.last) {
        store.last
    } else {
        (0..store.images.len()).find(|&at| covers(at))?
    };
    store.last = at;
    let image = store.images.get(at)?;
    let table = index_of(store.index, image);
    let first = slot_of(pc, image.index_bits);
    for step in 0..table.len() {
        let entry = *table.get(first.wrapping_add(step) & (table.len() - 1))?;
        if entry == 0 {
            return None;
        }
        let block = cache.blocks.get(entry as usize - 1);
        if block.pc == pc {
            return block.valid.then_some(entry - 1);
        }
    }
    None
}

/// The hash table of an image; empty if it is not inside the index.
fn index_of<'a>(index: &'a [u32], image: &Image) -> &'a [u32] {
    let from = image.first_index as usize;
    let len = 1usize.checked_shl(image.index_bits).unwrap_or(0);
    index.get(from..from.saturating_add(len)).unwrap_or(&[])
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

fn slot_of(pc: u64, bits: u32) -> usize {
    (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 >> (32 - bits.min(31))) as usize
}

/// The hash of a page of the program's; `None` where it cannot be read.
fn page_hash(number: u64) -> Option<u64> {
    let mut bytes = [0u8; 4096];
    sys::copy(bytes.as_mut_ptr() as u64, number << 12, 4096).then(|| hash(0, &bytes))
}

impl Store {
    /// A new mapping of a file: remembered, and its translations taken up.
    fn map(
        &mut self,
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
        let found = (0..self.images.len()).find(|&at| {
            self.images.get(at).is_some_and(|i| {
                i.start == start && i.end <= end && i.offset == offset && i.identity == identity
            }) && self.active.get(at) == Some(&FRESH)
        });
        if let Some(at) = found
            && self.activate(at)
        {
            if let Some(place) = self.mapped.get_mut(free) {
                place.image = Some(at as u16);
            }
            context.cached += self.images.get(at).map_or(0, |i| i.blocks);
        }
    }

    /// Compares every page; where all are the same, the image's blocks can run.
    fn activate(&mut self, at: usize) -> bool {
        let Some(image) = self.images.get(at) else {
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
        let blocks = CACHE.get().blocks.len() as u32;
        let pages = PAGES.get();
        for page in saved {
            let head = if page.head < blocks { page.head } else { NONE };
            pages.adopt(page.number, READ | EXEC, head);
        }
        if let Some(place) = self.active.get_mut(at) {
            *place = ACTIVE;
        }
        if counts::per_block() {
            counts::note_mappings();
            counts::take_over(words_of(self.log, image));
        }
        true
    }

    /// Mappings in the range are gone. One that lost its end goes on.
    fn unmap(&mut self, start: u64, end: u64) {
        for m in self.mapped.iter_mut().take(self.mapped_count) {
            if m.start >= end || start >= m.end {
                continue;
            }
            if m.start < start && m.end <= end {
                m.end = start;
                continue;
            }
            if let Some(image) = m.image
                && let Some(place) = self.active.get_mut(usize::from(image))
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
