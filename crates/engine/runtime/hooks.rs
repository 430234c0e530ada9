//! Places in the program's code where the runtime is asked something (`collect`, `allocations`): addresses, and what is
//! done there, in an open hash table that grows. Who adds holds the engine's lock; who looks need not.

use crate::own_memory;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// The first table has 2 to this power places.
const FIRST: u32 = 12;
/// Where a table begins: the other bits say its size, as a power of two.
const AT: u64 = !0xfff;

/// An address, and what is done there, a bit each.
type Place = [AtomicU64; 2];

/// What is done where.
pub struct Hooks {
    /// The table; 0: nothing was added.
    table: AtomicU64,
    used: AtomicU64,
}

fn places(table: u64) -> &'static [Place] {
    if table == 0 {
        return &[];
    }
    // SAFETY: so many were reserved, zeros at first, and are never given back: somebody may be looking.
    unsafe { core::slice::from_raw_parts((table & AT) as *const Place, 1 << (table & !AT)) }
}

/// Where an address is, or is to be put.
fn find(table: u64, pc: u64) -> Option<&'static Place> {
    let places = places(table);
    let first =
        (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & places.len().wrapping_sub(1);
    let (before, behind) = places.split_at_checked(first)?;
    behind.iter().chain(before).find(|[known, _]| {
        let known = known.load(Acquire);
        known == pc || known == 0
    })
}

impl Hooks {
    pub const fn new() -> Self {
        Self {
            table: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }

    /// What is done at an address; 0: nothing.
    pub fn at(&self, pc: u64) -> u64 {
        let place = find(self.table.load(Acquire), pc);
        place.map_or(0, |[known, does]| match known.load(Acquire) {
            0 => 0,
            _ => does.load(Relaxed),
        })
    }

    /// The addresses of a range at which something is done.
    pub fn each(&self, start: u64, end: u64, mut f: impl FnMut(u64)) {
        for [pc, _] in places(self.table.load(Acquire)) {
            let pc = pc.load(Acquire);
            if pc != 0 && start <= pc && pc < end {
                f(pc);
            }
        }
    }

    /// Adds to what is done at an address; false where that was done already. There is none at 0.
    pub fn add(&self, pc: u64, bits: u64) -> bool {
        let before = self.at(pc);
        if pc == 0 || before | bits == before {
            return false;
        }
        let table = match self.table.load(Relaxed) {
            table if self.used.load(Relaxed) as usize * 2 < places(table).len() => table,
            full => self.grow(full),
        };
        let Some([address, does]) = find(table, pc) else {
            return false;
        };
        does.fetch_or(bits, Relaxed);
        if before == 0 {
            address.store(pc, Release);
            self.used.fetch_add(1, Relaxed);
        }
        true
    }

    fn grow(&self, full: u64) -> u64 {
        let bits = match full & !AT {
            0 => FIRST,
            bits => bits as u32 + 1,
        };
        let bytes = (size_of::<Place>() as u64) << bits;
        let table = own_memory::reserve(bytes) | u64::from(bits);
        for [address, does] in places(full) {
            let pc = address.load(Relaxed);
            if let Some([to, what]) = (pc != 0).then(|| find(table, pc)).flatten() {
                what.store(does.load(Relaxed), Relaxed);
                to.store(pc, Relaxed);
            }
        }
        self.table.store(table, Release);
        table
    }
}
