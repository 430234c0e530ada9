//! The blocks by program address: an open hash table with tombstones.

use super::Cache;
use crate::block::NONE;
use crate::own_memory;

fn hash_of(pc: u64, bits: u32) -> usize {
    (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

impl Cache {
    fn slot(&self, at: usize) -> u32 {
        // SAFETY: callers mask with the table's size.
        unsafe { *self.hash.add(at & ((1 << self.hash_bits) - 1)) }
    }

    /// The block for `pc`, if translated; it may be dormant.
    pub(super) fn look_up(&mut self, pc: u64) -> Option<u32> {
        let mut at = hash_of(pc, self.hash_bits);
        loop {
            let entry = self.slot(at);
            if entry == 0 {
                return self.kept.find(&mut self.blocks, pc);
            }
            if entry != NONE && self.blocks.get(entry as usize - 1).pc == pc {
                return Some(entry - 1);
            }
            at += 1;
        }
    }

    pub(super) fn insert(&mut self, pc: u64, number: u32) {
        if (self.hash_used + 1) * 2 > 1 << self.hash_bits {
            let (old, old_bits) = (self.hash, self.hash_bits);
            // Larger only if it is full of blocks, not of tombstones.
            let is_block = |at: &usize| !matches!(self.slot(*at), 0 | NONE);
            let blocks = (0..1usize << old_bits).filter(is_block).count();
            self.hash_bits += u32::from(blocks * 4 > 1 << old_bits);
            self.hash = own_memory::reserve(4 << self.hash_bits) as *mut u32;
            self.hash_used = 0;
            for at in 0..1usize << old_bits {
                // SAFETY: inside the old table.
                let entry = unsafe { *old.add(at) };
                if entry != 0 && entry != NONE {
                    let pc = self.blocks.get(entry as usize - 1).pc;
                    self.insert(pc, entry - 1);
                }
            }
            own_memory::give_back(old as u64, 4 << old_bits);
        }
        let mask = (1usize << self.hash_bits) - 1;
        let mut at = hash_of(pc, self.hash_bits);
        while self.slot(at) != 0 {
            at += 1;
        }
        // SAFETY: masked.
        unsafe { *self.hash.add(at & mask) = number + 1 };
        self.hash_used += 1;
    }

    pub(super) fn forget(&mut self, pc: u64) {
        self.forget_where(pc, |_| true);
    }

    /// Forgets `pc`, if it is the address of this block.
    pub(super) fn forget_number(&mut self, pc: u64, number: u32) {
        self.forget_where(pc, |known| known == number);
    }

    fn forget_where(&mut self, pc: u64, which: impl Fn(u32) -> bool) {
        let mask = (1usize << self.hash_bits) - 1;
        let mut at = hash_of(pc, self.hash_bits);
        loop {
            let entry = self.slot(at);
            if entry == 0 {
                return;
            }
            if entry != NONE && self.blocks.get(entry as usize - 1).pc == pc {
                if which(entry - 1) {
                    // SAFETY: masked. A tombstone.
                    unsafe { *self.hash.add(at & mask) = NONE };
                }
                return;
            }
            at += 1;
        }
    }
}
