//! What the program may execute, and which code pages are watched.
//!
//! A page whose code was translated and that the program may write is mapped
//! without write permission; the fault of the first write drops the page's
//! blocks and gives the permission back. What is mapped where comes from
//! `/proc/self/maps` (proc(5)), read again after the program changed mappings.

use crate::cache::{Cache, NONE};
use crate::state::{self, Global};
use crate::sys;
use crate::xlate::decode::MAX_LEN;

pub const READ: u8 = 1;
pub const WRITE: u8 = 2;
pub const EXEC: u8 = 4;

#[derive(Clone, Copy)]
struct Vma {
    start: u64,
    end: u64,
    prot: u8,
}

/// One page of program code.
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
    /// `prot` is up to date.
    known: bool,
}

const MAX_VMAS: usize = 16_384;

pub struct Pages {
    vmas: [Vma; MAX_VMAS],
    vma_count: usize,
    dirty: bool,
    table: *mut Page,
    bits: u32,
    used: usize,
    last: (u64, u8),
    /// Translate without watching: for a step over one instruction.
    pub unwatched: bool,
}

/// What a write fault on a code page was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// None of our business.
    Program,
    /// The page was watched; it can be written now, its blocks are gone.
    Watched,
    /// Another thread has just made the page writable again: try again.
    Again,
}

pub static PAGES: Global<Pages> = Global::new(Pages {
    vmas: [Vma {
        start: 0,
        end: 0,
        prot: 0,
    }; MAX_VMAS],
    vma_count: 0,
    dirty: true,
    table: core::ptr::null_mut(),
    bits: 0,
    used: 0,
    last: (0, 0),
    unwatched: false,
});

impl Pages {
    pub fn init(&mut self) {
        self.bits = 12;
        self.table = state::reserve(24 << self.bits) as *mut Page;
    }

    fn entry(&mut self, number: u64) -> &mut Page {
        if (self.used + 1) * 2 > 1 << self.bits {
            let (old, old_bits) = (self.table, self.bits);
            self.bits += 1;
            self.table = state::reserve(24 << self.bits) as *mut Page;
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
                known: false,
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

    fn read_maps(&mut self) {
        self.vma_count = 0;
        self.dirty = false;
        let path = b"/proc/self/maps\0";
        // SAFETY: open, read and close with our own buffers.
        let fd = unsafe { sys::call(2, [path.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0]) };
        crate::check!(fd >= 0, "/proc/self/maps cannot be opened (errno {})", -fd);
        let mut buffer = [0u8; 4096];
        let (mut field, mut start, mut end, mut prot) = (0, 0u64, 0u64, 0u8);
        loop {
            // SAFETY: as above.
            let got = unsafe {
                sys::call(0, [fd as u64, buffer.as_mut_ptr() as u64, 4096, 0, 0, 0])
            };
            if got <= 0 {
                break;
            }
            for &byte in buffer.iter().take(got as usize) {
                match (field, byte) {
                    (_, b'\n') => {
                        if prot & EXEC != 0 {
                            if let Some(place) = self.vmas.get_mut(self.vma_count) {
                                *place = Vma { start, end, prot };
                                self.vma_count += 1;
                            }
                        }
                        (field, start, end, prot) = (0, 0, 0, 0);
                    }
                    (0, b'-') => field = 1,
                    (1, b' ') => field = 2,
                    (2, b' ') => field = 3,
                    (0, digit) => start = start << 4 | hex(digit),
                    (1, digit) => end = end << 4 | hex(digit),
                    (2, b'r') => prot |= READ,
                    (2, b'w') => prot |= WRITE,
                    (2, b'x') => prot |= EXEC,
                    _ => {}
                }
            }
        }
        // SAFETY: our descriptor.
        unsafe { sys::call(3, [fd as u64, 0, 0, 0, 0, 0]) };
        crate::counts::note_mappings();
    }

    fn mapped(&mut self, address: u64) -> u8 {
        for attempt in 0..2 {
            if attempt == 1 {
                if !self.dirty {
                    return 0;
                }
            }
            if self.vma_count == 0 || attempt == 1 {
                self.read_maps();
            }
            let known = self.vmas.get(..self.vma_count).unwrap_or(&[]);
            if let Some(vma) = known.iter().find(|v| v.start <= address && address < v.end) {
                return vma.prot;
            }
        }
        0
    }

    /// Whether code at `address` can be executed.
    pub fn readable(&mut self, address: u64) -> bool {
        self.prot(address >> 12) & EXEC != 0
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
        if self.dirty {
            self.read_maps();
        }
        let prot = self.mapped(number << 12);
        if prot & EXEC != 0 {
            let page = self.entry(number);
            page.prot = prot;
            page.known = true;
            self.last = (number, prot);
        }
        prot
    }

    /// Executable and not writable by the program.
    pub fn is_constant(&mut self, address: u64) -> bool {
        self.prot(address >> 12) & (EXEC | WRITE) == EXEC
    }

    /// Withholds write permission, before the bytes are read.
    fn watch(&mut self, number: u64) {
        if self.unwatched {
            return;
        }
        if let Some(page) = self.existing(number)
            && page.prot & WRITE != 0
            && !page.watched
        {
            page.watched = true;
            let prot = page.prot & !WRITE;
            protect(number << 12, 0x1000, prot);
        }
    }

    /// Copies code bytes; stops at the first page that is not executable.
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
        if len == MAX_LEN {
            // SAFETY: the pages are mapped (and a race ends in a report).
            *out = unsafe { (pc as *const [u8; MAX_LEN]).read_unaligned() };
        } else {
            for (at, place) in out.iter_mut().enumerate().take(len) {
                // SAFETY: as above.
                *place = unsafe { *((pc + at as u64) as *const u8) };
            }
        }
        len
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
            let page = self.entry(page_number);
            cache.blocks.get(number as usize).page_next[way] = page.head;
            page.head = number;
        }
    }

    /// Drops every block of a page.
    fn drop_blocks(&mut self, cache: &mut Cache, number: u64) {
        let Some(page) = self.existing(number) else { return };
        let mut block = page.head;
        page.head = NONE;
        while block != NONE {
            let info = *cache.blocks.get(block as usize);
            let way = usize::from(info.pc >> 12 != number);
            cache.invalidate(block);
            block = info.page_next[way];
        }
    }

    /// A write fault: true if the page was watched (now it can be written).
    pub fn write_fault(&mut self, cache: &mut Cache, address: u64) -> Fault {
        let number = address >> 12;
        let Some(page) = self.existing(number) else {
            return Fault::Program;
        };
        if !page.watched {
            return match page.known && page.prot & WRITE != 0 {
                true => Fault::Again,
                false => Fault::Program,
            };
        }
        page.watched = false;
        page.faults = page.faults.saturating_add(1);
        let prot = page.prot;
        self.drop_blocks(cache, number);
        protect(number << 12, 0x1000, prot);
        Fault::Watched
    }

    /// Gives write permission back everywhere (a system call met a watched page).
    pub fn unwatch_all(&mut self, cache: &mut Cache) -> bool {
        let mut any = false;
        for at in 0..1usize << self.bits {
            // SAFETY: inside the table.
            let page = unsafe { *self.table.add(at) };
            if page.number != 0 && page.watched {
                any |= self.write_fault(cache, page.number << 12) == Fault::Watched;
            }
        }
        any
    }

    /// Calls `f` for every page of the range that has an entry.
    fn each(&mut self, start: u64, end: u64, mut f: impl FnMut(&mut Self, u64)) {
        let (first, last) = (start >> 12, (end + 0xfff) >> 12);
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

    /// Takes over a page of code that may run, with the blocks on it.
    pub fn adopt(&mut self, number: u64, prot: u8, head: u32) {
        let page = self.entry(number);
        page.head = head;
        page.prot = prot;
        page.known = true;
        page.watched = false;
        self.last = (0, 0);
    }

    /// Calls `f(number, protection, first block)` for pages of the range that
    /// were looked at since they were mapped.
    pub fn each_known(&mut self, start: u64, end: u64, mut f: impl FnMut(u64, u8, u32)) {
        self.each(start, end, |pages, number| {
            if let Some(page) = pages.existing(number)
                && page.known
            {
                let prot = if page.watched { page.prot | WRITE } else { page.prot };
                f(number, prot, page.head);
            }
        });
    }

    /// Mappings in the range went away or were replaced.
    pub fn forget(&mut self, cache: &mut Cache, start: u64, end: u64) {
        self.dirty = true;
        self.last = (0, 0);
        self.each(start, end, |pages, number| {
            pages.drop_blocks(cache, number);
            if let Some(page) = pages.existing(number) {
                page.known = false;
                page.watched = false;
            }
        });
    }

    /// Something new was mapped where nothing was translated.
    pub fn changed(&mut self) {
        self.dirty = true;
        self.last = (0, 0);
    }

    /// After a successful `mprotect` of the range to `prot`.
    pub fn protected(&mut self, cache: &mut Cache, start: u64, end: u64, prot: u8) {
        self.dirty = true;
        self.last = (0, 0);
        self.each(start, end, |pages, number| {
            if prot & (EXEC | WRITE) == 0 {
                pages.drop_blocks(cache, number);
            }
            let Some(page) = pages.existing(number) else { return };
            page.prot = prot;
            page.known = true;
            page.watched = false;
            if prot & WRITE != 0 && page.head != NONE {
                page.watched = true;
                protect(number << 12, 0x1000, prot & !WRITE);
            }
        });
    }
}

fn hex(digit: u8) -> u64 {
    match digit {
        b'0'..=b'9' => u64::from(digit - b'0'),
        b'a'..=b'f' => u64::from(digit - b'a' + 10),
        _ => 0,
    }
}

fn protect(address: u64, len: u64, prot: u8) {
    // SAFETY: changes only the permission of the program's own code page.
    unsafe { sys::call(sys::MPROTECT, [address, len, u64::from(prot), 0, 0, 0]) };
}
