//! What the program may execute, and which code pages are watched.
//!
//! A page whose code was translated and that the program may write is mapped without write permission; the
//! fault of the first write drops the page's blocks and gives the permission back. Where a file's page is
//! mapped twice, for execution and for writing, the writable mapping (the *alias*) is watched as well. What is mapped where comes from `maps`.

mod change;
mod compare;
mod kept;
mod later;
mod maps;
mod open;
mod splits;
mod strike;
mod submissions;
mod watch;
use maps::Maps;
use splits::Splits;
use submissions::Submissions;
pub use watch::Fault;
use watch::{MANY_FAULTS, protect, without_write};

use crate::block::NONE;
use crate::cache::Cache;
use crate::layout::WATCHED;
use crate::xlate::decode::MAX_LEN;
use crate::{keys, own_memory, program_memory};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

pub const READ: u8 = 1;
pub const WRITE: u8 = 2;
pub const EXEC: u8 = 4;

/// How many pages are watched. Translated code reads it before a system call: the
/// kernel cannot write into watched pages (see [`Pages::open_for`]).
pub fn watched() -> &'static AtomicU32 {
    // SAFETY: a word of a page there, mapped for good.
    unsafe { &*((own_memory::low() + WATCHED) as *const AtomicU32) }
}

/// A system call's write may concern code (see `code_writes`).
static ARMED: AtomicBool = AtomicBool::new(false);

/// From here on the system calls of this process come to the runtime.
pub fn arm() {
    if !ARMED.swap(true, AcqRel) {
        watched().fetch_add(1, Relaxed);
    }
}

pub fn is_armed() -> bool {
    ARMED.load(Acquire)
}

/// One page of program code, or an alias of one.
#[derive(Clone, Copy)]
pub struct Page {
    /// Page number; 0: unused entry.
    number: u64,
    /// First block on it.
    head: u32,
    /// Write faults so far.
    pub faults: u16,
    /// What the program asked for.
    pub prot: u8,
    /// Write permission is withheld.
    pub watched: bool,
    /// Its code is compared whenever it is entered, and the page is left writable.
    pub compared: bool,
    /// Comparisons that found no change since the last one that did.
    quiet: u16,
    /// `prot` is up to date.
    known: bool,
    /// As linked: private memory of a file that cannot be written.
    constant: bool,
    /// Executable and of a file that others may write: by another mapping, by system calls.
    shared: bool,
    /// Those mappings are watched.
    guarded: bool,
    /// Number of the code page that this page is a writable mapping of.
    alias_of: u64,
}

const PAGE: u64 = core::mem::size_of::<Page>() as u64;

pub struct Pages {
    maps: Maps,
    dirty: bool,
    table: *mut Page,
    bits: u32,
    used: usize,
    last: (u64, u8),
    /// Some executable page is shared.
    any_shared: bool,
    /// Translate without watching: for a step over one instruction.
    pub unwatched: bool,
    never_watch: bool,
    /// Other processes have its shared memory as well.
    many: bool,
    submissions: Submissions,
    splits: Splits,
    /// Children do not have all of this range (`MADV_DONTFORK`), or with other bytes.
    not_in_children: (u64, u64),
}

impl Pages {
    pub const fn new() -> Self {
        Self {
            maps: Maps::new(),
            dirty: true,
            table: core::ptr::null_mut(),
            bits: 0,
            used: 0,
            last: (0, 0),
            any_shared: false,
            unwatched: false,
            never_watch: false,
            many: false,
            submissions: Submissions::new(),
            splits: Splits::new(),
            not_in_children: (0, 0),
        }
    }

    pub fn init(&mut self) {
        self.bits = 9;
        let table = own_memory::reserve(PAGE << self.bits);
        own_memory::provide(table, table + (PAGE << self.bits));
        self.table = table as *mut Page;
        self.look_now();
    }

    fn entry(&mut self, number: u64) -> &mut Page {
        if (self.used + 1) * 2 > 1 << self.bits {
            let (old, old_bits) = (self.table, self.bits);
            self.bits += 1;
            self.table = own_memory::reserve(PAGE << self.bits) as *mut Page;
            for at in 0..1usize << old_bits {
                // SAFETY: inside the old table.
                let page = unsafe { *old.add(at) };
                if page.number != 0 {
                    *self.place(page.number) = page;
                }
            }
        }
        if self.place(number).number == 0 {
            self.used += 1;
            *self.place(number) = Page {
                number,
                head: NONE,
                faults: 0,
                prot: 0,
                watched: false,
                compared: false,
                quiet: 0,
                known: false,
                constant: false,
                shared: false,
                guarded: false,
                alias_of: 0,
            };
        }
        self.place(number)
    }

    fn place(&mut self, number: u64) -> &mut Page {
        let mask = (1usize << self.bits) - 1;
        let mut at = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & mask;
        loop {
            // SAFETY: masked; never more than half full.
            let page = unsafe { &mut *self.table.add(at) };
            if page.number == number || page.number == 0 {
                return page;
            }
            at = (at + 1) & mask;
        }
    }

    fn existing(&mut self, number: u64) -> Option<&mut Page> {
        let page = self.place(number);
        (page.number != 0).then_some(page)
    }

    /// Whether code at `address` can be executed.
    pub fn readable(&mut self, address: u64) -> bool {
        self.prot(address >> 12) & EXEC != 0
    }

    /// Whether the first page of memory, which no entry can stand for, can be executed.
    pub fn has_code_at_0(&mut self) -> bool {
        self.look_now();
        self.mapping(0).is_some_and(|vma| vma.prot & EXEC != 0)
    }

    fn prot(&mut self, number: u64) -> u8 {
        if self.last.0 == number && number != 0 {
            return self.last.1;
        }
        if number == 0 || number >> 35 != 0 {
            return 0;
        }
        if let Some(page) = self.existing(number)
            && page.known
        {
            let prot = page.prot;
            self.last = (number, prot);
            return prot;
        }
        // What is not known was not asked since the last change of mappings, or
        // never: the list may be old for it.
        self.look_now();
        let Some(vma) = self.mapping(number << 12) else {
            return 0;
        };
        if vma.prot & EXEC != 0 {
            if vma.prot & (READ | WRITE) == 0 {
                keys::used();
            }
            let shared = self.maps.is_written_elsewhere(&vma);
            let page = self.entry(number);
            page.prot = vma.prot;
            page.known = true;
            page.constant = vma.is_constant() && !shared;
            page.shared = shared;
            page.guarded = false;
            // The kernel grows such a mapping with the permissions of its lowest page.
            page.compared |= vma.grows && vma.prot & WRITE != 0;
            if shared {
                self.any_shared = true;
                arm();
            }
            self.last = (number, vma.prot);
        }
        vma.prot
    }

    /// Executable, and nothing that the program does short of a change of
    /// mappings can change it.
    pub fn is_constant(&mut self, address: u64) -> bool {
        let number = address >> 12;
        self.prot(number) & EXEC != 0 && self.existing(number).is_some_and(|p| p.constant)
    }

    /// Whether a whole range (of at most two pages) can be executed; watches it.
    pub fn executable(&mut self, start: u64, len: u64) -> bool {
        let last = start.wrapping_add(len.max(1) - 1);
        if !self.readable(start) || !self.readable(last) {
            return false;
        }
        self.watch(start >> 12);
        if start >> 12 != last >> 12 {
            self.watch(last >> 12);
        }
        true
    }

    /// Copies code bytes; stops at the first page that is not executable, or cannot be read.
    pub fn fetch(&mut self, pc: u64, out: &mut [u8; MAX_LEN]) -> usize {
        if !self.readable(pc) {
            return 0;
        }
        let left = 0x1000 - (pc & 0xfff) as usize;
        let mut len = MAX_LEN;
        if left < MAX_LEN && !self.readable((pc | 0xfff) + 1) {
            len = left;
        }
        self.watch(pc >> 12);
        if left < len {
            self.watch((pc >> 12) + 1);
        }
        let all = len == MAX_LEN && program_memory::fetch(out, pc);
        if all {
            return len;
        }
        // The second page may be one that cannot be read: a file's that is too short.
        for len in [len, left.min(len)] {
            let part = out.get_mut(..len).unwrap_or_default();
            if program_memory::read_code(part, pc) {
                return len;
            }
        }
        0
    }

    /// Notes a new block on its pages; watches those that can be written.
    pub fn note(&mut self, cache: &mut Cache, number: u32) {
        let block = *cache.blocks.get(number as usize);
        let first = block.pc >> 12;
        let last = (block.pc + u64::from(block.guest_len.max(1)) - 1) >> 12;
        for (way, page_number) in [first, last].into_iter().enumerate() {
            if way == 1 && last == first {
                break;
            }
            // A dormant block may still be in the list of its other page.
            let block = cache.blocks.get(number as usize);
            if !block.listed[way] {
                block.listed[way] = true;
                let page = self.entry(page_number);
                block.page_next[way] = page.head;
                page.head = number;
            }
        }
    }

    /// Drops every block of a page.
    fn drop_blocks(&mut self, cache: &mut Cache, number: u64) {
        let Some(page) = self.existing(number) else {
            return;
        };
        let mut block = page.head;
        page.head = NONE;
        page.guarded = false;
        while block != NONE {
            let info = *cache.blocks.get(block as usize);
            let way = usize::from(info.pc >> 12 != number);
            cache.blocks.get(block as usize).listed[way] = false;
            cache.invalidate(block);
            block = info.page_next[way];
        }
    }

    /// Drops the blocks that an address is in.
    pub fn drop_at(&mut self, cache: &mut Cache, pc: u64) {
        let mut block = self.existing(pc >> 12).map_or(NONE, |page| page.head);
        while block != NONE {
            let info = *cache.blocks.get(block as usize);
            if pc.wrapping_sub(info.pc) < u64::from(info.guest_len.max(1)) {
                cache.invalidate(block);
            }
            block = info.page_next[usize::from(info.pc >> 12 != pc >> 12)];
        }
    }

    /// Drops the blocks of every page that other mappings can write.
    fn drop_shared(&mut self, cache: &mut Cache) {
        for at in 0..1usize << self.bits {
            // SAFETY: inside the table.
            let page = unsafe { *self.table.add(at) };
            if page.number != 0 && page.shared {
                self.drop_blocks(cache, page.number);
            }
        }
    }

    /// A write fault: whether the page was watched (now it can be written).
    pub fn write_fault(&mut self, cache: &mut Cache, address: u64) -> Fault {
        let number = address >> 12;
        let Some(page) = self.existing(number) else {
            return Fault::Program;
        };
        if !page.watched {
            if !page.known || page.prot & WRITE == 0 {
                return Fault::Program;
            }
            // Another thread was faster, or what we know is wrong: look.
            self.dirty &= !self.read_maps();
            let writable = self.mapping(address).is_some_and(|v| v.prot & WRITE != 0);
            return if writable {
                Fault::Again
            } else {
                Fault::Program
            };
        }
        page.watched = false;
        page.faults = page.faults.saturating_add(1);
        // Written time and again: comparing costs less than a fault.
        page.compared |= page.faults >= MANY_FAULTS && page.alias_of == 0;
        watched().fetch_sub(1, Relaxed);
        let (prot, code) = (page.prot, page.alias_of);
        page.alias_of = 0;
        self.drop_blocks(cache, number);
        if code != 0 {
            // Whatever maps this place of the file; the list may be old for it.
            self.drop_shared(cache);
        }
        protect(number << 12, 0x1000, prot);
        Fault::Watched
    }

    /// Whether a write at `address` can change the code of a range.
    pub fn is_written(&mut self, start: u64, len: u64, address: u64) -> bool {
        let last = start.wrapping_add(len.max(1) - 1) >> 12;
        let page = address >> 12;
        let alias = self.existing(page).map_or(0, |p| p.alias_of);
        [page, alias].iter().any(|&n| n == start >> 12 || n == last)
    }

    /// Calls `f` for every page of the range that has an entry.
    fn each(&mut self, start: u64, end: u64, mut f: impl FnMut(&mut Self, u64)) {
        let (first, last) = (start >> 12, end.saturating_add(0xfff) >> 12);
        if last.saturating_sub(first) < 1 << self.bits {
            for number in first..last {
                if self.existing(number).is_some() {
                    f(self, number);
                }
            }
        } else {
            for at in 0..1usize << self.bits {
                // SAFETY: inside the table.
                let number = unsafe { (*self.table.add(at)).number };
                if number >= first && number < last && number != 0 {
                    f(self, number);
                }
            }
        }
    }

    /// Entries there are.
    pub fn count(&self) -> usize {
        self.used
    }

    /// Calls `f(number, protection, first block)` for pages of the range that
    /// were looked at since they were mapped.
    pub fn each_known(&mut self, start: u64, end: u64, mut f: impl FnMut(u64, u8, u32)) {
        self.each(start, end, |pages, number| {
            if let Some(page) = pages.existing(number)
                && page.known
            {
                let prot = if page.watched {
                    page.prot | WRITE
                } else {
                    page.prot
                };
                f(number, prot, page.head);
            }
        });
    }
}
