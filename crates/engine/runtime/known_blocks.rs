//! The blocks of the program's heap that there are: how many bytes, and who allocated them.

use crate::own_memory;
use core::mem::size_of;

/// Bytes, and where the call of the allocator returned to.
pub type Block = (u64, u64);

#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    /// 0: none.
    address: u64,
    block: Block,
}

/// A hash table with open addressing, at most half full.
pub struct Blocks {
    entries: u64,
    /// A power of two, or 0.
    places: u64,
    used: u64,
}

/// Places of the first table.
const FIRST: u64 = 1024;

impl Blocks {
    pub const fn new() -> Self {
        Self {
            entries: 0,
            places: 0,
            used: 0,
        }
    }

    /// There are none.
    pub fn forget(&mut self) {
        if self.places != 0 {
            own_memory::give_back(self.entries, self.places * size_of::<Entry>() as u64);
        }
        *self = Self::new();
    }

    fn entry(&mut self, place: u64) -> &mut Entry {
        let at = self.entries + (place & (self.places - 1)) * size_of::<Entry>() as u64;
        // SAFETY: inside the table, which is ours alone; zeroed memory is an entry.
        unsafe { &mut *(at as *mut Entry) }
    }

    /// Where an address belongs (2⁶⁴ by the golden ratio).
    fn home(&self, address: u64) -> u64 {
        address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
    }

    /// The place of a block, or the free one where it would be.
    fn find(&mut self, address: u64) -> u64 {
        let mut place = self.home(address);
        while !matches!(self.entry(place).address, at if at == 0 || at == address) {
            place += 1;
        }
        place
    }

    /// A block begins there; what was there before.
    pub fn insert(&mut self, address: u64, block: Block) -> Option<Block> {
        if address == 0 {
            return None;
        }
        if 2 * self.used >= self.places {
            self.grow();
        }
        let place = self.find(address);
        let entry = self.entry(place);
        if entry.address == address {
            return Some(core::mem::replace(&mut entry.block, block));
        }
        *entry = Entry { address, block };
        self.used += 1;
        None
    }

    fn grow(&mut self) {
        let old = Self {
            entries: self.entries,
            ..*self
        };
        self.places = (old.places * 2).max(FIRST);
        self.entries = own_memory::reserve(self.places * size_of::<Entry>() as u64);
        let mut old = old;
        for place in 0..old.places {
            let entry = *old.entry(place);
            if entry.address != 0 {
                let place = self.find(entry.address);
                *self.entry(place) = entry;
            }
        }
        old.forget();
    }

    /// No block begins there any more; what was there.
    pub fn remove(&mut self, address: u64) -> Option<Block> {
        if self.places == 0 || address == 0 {
            return None;
        }
        let mut free = self.find(address);
        if self.entry(free).address == 0 {
            return None;
        }
        let block = self.entry(free).block;
        // What comes behind moves up, lest it is not found any more.
        let mut place = free;
        loop {
            place += 1;
            let entry = *self.entry(place);
            if entry.address == 0 {
                break;
            }
            let mask = self.places - 1;
            let home = self.home(entry.address);
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(free) & mask {
                *self.entry(free) = entry;
                free = place;
            }
        }
        self.entry(free).address = 0;
        self.used -= 1;
        Some(block)
    }
}

/// Large blocks by address, for whoever finds one in its way; they do not overlap.
pub struct Large {
    /// Of where each begins, and ends.
    entries: u64,
    room: u64,
    used: u64,
}

/// Room of the first table.
const FIRST_LARGE: u64 = 256;

impl Large {
    pub const fn new() -> Self {
        Self {
            entries: 0,
            room: 0,
            used: 0,
        }
    }

    /// There are none.
    pub fn forget(&mut self) {
        if self.room != 0 {
            own_memory::give_back(self.entries, self.room * 16);
        }
        *self = Self::new();
    }

    fn all(&mut self) -> &mut [(u64, u64)] {
        match self.room {
            0 => &mut [],
            // SAFETY: the table, which is ours alone; any bytes are an entry.
            _ => unsafe {
                core::slice::from_raw_parts_mut(self.entries as *mut _, self.room as usize)
            },
        }
    }

    /// How many begin below an address.
    fn below(&mut self, address: u64) -> usize {
        let used = self.used as usize;
        let all = self.all().get(..used).unwrap_or(&[]);
        all.partition_point(|&(start, _)| start < address)
    }

    /// The last one that begins below `end` and ends above `start`.
    pub fn overlapping(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let at = self.below(end).checked_sub(1)?;
        let found = self.all().get(at).copied()?;
        (found.1 > start).then_some(found)
    }

    /// A block is there now.
    pub fn insert(&mut self, start: u64, end: u64) {
        if self.used == self.room {
            let mut old = core::mem::replace(self, Self::new());
            self.room = (old.room * 2).max(FIRST_LARGE);
            self.entries = own_memory::reserve(self.room * 16);
            self.used = old.used;
            for (to, from) in self.all().iter_mut().zip(old.all()) {
                *to = *from;
            }
            old.forget();
        }
        let at = self.below(start);
        let used = self.used as usize;
        if let Some(behind) = self.all().get_mut(at..=used) {
            behind.rotate_right(1);
            if let Some(first) = behind.first_mut() {
                *first = (start, end);
            }
            self.used += 1;
        }
    }

    /// None begins there any more.
    pub fn remove(&mut self, start: u64) {
        let at = self.below(start);
        let used = self.used as usize;
        if let Some(behind) = self.all().get_mut(at..used)
            && behind.first().is_some_and(|&(first, _)| first == start)
        {
            behind.rotate_left(1);
            self.used -= 1;
        }
    }
}
