//! Blocks that a snapshot brought: found by address while their image is active.

use crate::block::Block;
use crate::own_memory;
use crate::snapshot::{Image, MAX_IMAGES, Piece};
use crate::sys;
use crate::syscall_table as nr;
use crate::table::Table;

/// States of a snapshot's image: not met yet, in use, its mapping gone again.
pub const FRESH: u8 = 0;
pub const ACTIVE: u8 = 1;
pub const SPENT: u8 = 2;

pub struct Kept {
    pub images: &'static [Image],
    pub index: &'static [u32],
    /// [`FRESH`], [`ACTIVE`] or [`SPENT`].
    pub active: [u8; MAX_IMAGES],
    /// The image that answered last.
    last: usize,
}

impl Kept {
    pub(super) const fn new() -> Self {
        Self {
            images: &[],
            index: &[],
            active: [FRESH; MAX_IMAGES],
            last: 0,
        }
    }

    /// The block for `pc`, if its image is active.
    pub(super) fn find(&mut self, blocks: &mut Table<Block>, pc: u64) -> Option<u32> {
        if self.images.is_empty() {
            return None;
        }
        let covers = |at: usize| {
            self.active.get(at) == Some(&ACTIVE)
                && self
                    .images
                    .get(at)
                    .is_some_and(|i| i.start <= pc && pc < i.end)
        };
        let at = if covers(self.last) {
            self.last
        } else {
            (0..self.images.len()).find(|&at| covers(at))?
        };
        self.last = at;
        let image = self.images.get(at)?;
        let table = index_of(self.index, image);
        let first = slot_of(pc, image.index_bits);
        for step in 0..table.len() {
            let entry = *table.get(first.wrapping_add(step) & (table.len() - 1))?;
            if entry == 0 {
                return None;
            }
            let block = blocks.get(entry as usize - 1);
            if block.pc == pc {
                return block.valid.then_some(entry - 1);
            }
        }
        None
    }
}

/// The hash table of an image; empty if it is not inside the index.
pub fn index_of<'a>(index: &'a [u32], image: &Image) -> &'a [u32] {
    let from = image.first_index as usize;
    let len = 1usize.checked_shl(image.index_bits).unwrap_or(0);
    index.get(from..from.saturating_add(len)).unwrap_or(&[])
}

pub fn slot_of(pc: u64, bits: u32) -> usize {
    (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 >> (32 - bits.min(31))) as usize
}

/// Puts file bytes where nothing was before; where they are, for reading only.
pub fn place_apart(fd: u64, piece: Piece) -> Option<u64> {
    let at = own_memory::addresses(piece.bytes);
    // MAP_PRIVATE | MAP_FIXED_NOREPLACE.
    // SAFETY: a new mapping, at addresses that are given to nobody else.
    let got = unsafe { sys::call(nr::MMAP, [at, piece.bytes, 1, 0x10_0002, fd, piece.at]) };
    if got == at as i64 {
        return Some(at);
    }
    let at = own_memory::reserve(piece.bytes);
    // SAFETY: just reserved.
    unsafe { place(fd, piece, at, 3) }.then_some(at)
}

/// Puts file bytes at `at`: mapped, or read where the file system forbids it.
///
/// # Safety
/// The memory there is the engine's, reserved for this, and nothing refers to it.
pub unsafe fn place(fd: u64, piece: Piece, at: u64, prot: u64) -> bool {
    if piece.bytes == 0 {
        return true;
    }
    // MAP_PRIVATE | MAP_FIXED over memory of ours.
    // SAFETY: the caller's.
    let got = unsafe { sys::call(nr::MMAP, [at, piece.bytes, prot, 0x12, fd, piece.at]) };
    // SAFETY: the caller's.
    got == at as i64 || unsafe { read(fd, piece, at) }
}

/// Reads file bytes to `at`.
///
/// # Safety
/// The memory there is the engine's, writable, and nothing refers to it.
pub unsafe fn read(fd: u64, piece: Piece, at: u64) -> bool {
    let mut done = 0;
    while done < piece.bytes {
        let rest = piece.bytes - done;
        // SAFETY: pread64 into the same memory.
        let got = unsafe { sys::call(nr::PREAD64, [fd, at + done, rest, piece.at + done, 0, 0]) };
        if got <= 0 {
            return false;
        }
        done += got as u64;
    }
    true
}
