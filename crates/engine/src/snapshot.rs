//! Translations on disk, as launcher and runtime agree on them. `core` only;
//! both sides compile this same source.
//!
//! The runtime knows what its tables mean and describes them as *pieces* of its
//! memory ([`Request`]); the launcher copies the pieces behind a [`Prefix`] into
//! a file without looking into them. A later process maps them at the same
//! addresses. What makes that valid is in `DESIGN.md`, "Translations on disk".

/// First word of a [`Prefix`] and of a [`Request`].
pub const MAGIC: u64 = 0x3145_4843_4143_4354;
/// Code areas a snapshot can have.
pub const MAX_AREAS: usize = 6;
/// File mappings a snapshot can have.
pub const MAX_IMAGES: usize = 512;
/// Pieces: the tables, then hot and cold code of each area.
pub const PIECES: usize = piece::AREAS + 2 * MAX_AREAS;
/// Alignment of pieces in the file.
pub const PAGE: u64 = 4096;

/// States of `Context::save`.
pub mod save {
    /// Nothing asked.
    pub const NONE: u32 = 0;
    /// The process waits for its translations to be copied.
    pub const WANTED: u32 = 1;
    /// Its memory has been read; the file is being put in place.
    pub const COPIED: u32 = 2;
    /// Kept, or not wanted: it can go on.
    pub const DONE: u32 = 3;
}

/// Which piece is which.
pub mod piece {
    /// Block descriptions.
    pub const BLOCKS: usize = 0;
    /// Direct exits.
    pub const EXITS: usize = 1;
    /// Which blocks and exits are of which area.
    pub const CHUNKS: usize = 2;
    /// For each block its image's number plus one, `u16`.
    pub const OWNERS: usize = 3;
    /// [`super::Image`]s.
    pub const IMAGES: usize = 4;
    /// [`super::SavedPage`]s.
    pub const PAGES: usize = 5;
    /// Hash tables from program address to block, `u32`.
    pub const INDEX: usize = 6;
    /// With per-block counters: the entries of [`crate::log`] for each image's.
    pub const LOG: usize = 7;
    /// Entries for indirect branches.
    pub const ENTRIES: usize = 8;
    /// With noted references: where the blocks are described that heads name (`xlate::references`).
    pub const DESCRIBED: usize = 9;
    /// Hot code of area *k* is piece `AREAS + 2 * k`, cold code the next.
    pub const AREAS: usize = 10;
}

/// A run of bytes: in the process (an address) or in the file (an offset).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Address or offset.
    pub at: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// What else a code area needs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaFacts {
    /// Where it is mapped.
    pub base: u64,
}

/// Facts the runtime keeps; the launcher copies them unread, except for the
/// two that say what the file is worth.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The code areas.
    pub areas: [AreaFacts; MAX_AREAS],
    /// How many.
    pub area_count: u64,
    /// Blocks in the tables.
    pub blocks: u64,
    /// Those that can be used again.
    pub live: u64,
    /// Counters they use, with per-block counters.
    pub counters: u64,
}

/// The start of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// [`MAGIC`].
    pub magic: u64,
    /// Which runtime, with which way of counting, wrote it.
    pub engine: u64,
    /// Which program it is for.
    pub key: u64,
    /// Bytes of the whole file.
    pub length: u64,
    /// Of the prefix (with 0 here) and everything behind it.
    pub checksum: u64,
    /// Where the pieces are.
    pub pieces: [Piece; PIECES],
    /// For the runtime.
    pub facts: Facts,
}

/// What a process asks to have saved.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// [`MAGIC`].
    pub magic: u64,
    /// Where the pieces are in the process.
    pub pieces: [Piece; PIECES],
    /// For the next runtime.
    pub facts: Facts,
}

/// Device, inode, size, time of change of the contents and of the inode (ns):
/// all zero for the vdso.
pub type Identity = [u64; 5];

/// One executable mapping of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Image {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Which file.
    pub identity: Identity,
    /// Its pages in [`piece::PAGES`].
    pub first_page: u32,
    /// How many.
    pub page_count: u32,
    /// Its hash table in [`piece::INDEX`].
    pub first_index: u32,
    /// Binary logarithm of the table's size.
    pub index_bits: u32,
    /// Blocks in it.
    pub blocks: u64,
    /// Its entries in [`piece::LOG`], in words.
    pub first_word: u64,
    /// How many words.
    pub words: u64,
}

/// A page that translation has read.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SavedPage {
    /// Page number (address / 4096).
    pub number: u64,
    /// [`hash`] of its bytes.
    pub hash: u64,
    /// The first block on it.
    pub head: u32,
    /// Unused.
    pub padding: u32,
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn word(bytes: &[u8]) -> u64 {
    if let Some(whole) = bytes.first_chunk() {
        return u64::from_le_bytes(*whole);
    }
    let mut value = [0u8; 8];
    for (to, from) in value.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(value)
}

/// A fast 64-bit hash against accidents (stale pages, torn files), not against
/// an adversary: multiplications folded to 64 bits, four lanes of 16 bytes.
pub fn hash(seed: u64, bytes: &[u8]) -> u64 {
    const KEYS: [u64; 4] = [
        0x9e37_79b9_7f4a_7c15,
        0xc2b2_ae3d_27d4_eb4f,
        0x1656_67b1_9e37_79f9,
        0xd6e8_feb8_6659_fd93,
    ];
    let mut lanes = KEYS.map(|key| seed ^ key);
    let (chunks, rest) = bytes.as_chunks::<64>();
    for chunk in chunks {
        let parts = chunk.as_chunks::<16>().0;
        for ((lane, part), key) in lanes.iter_mut().zip(parts).zip(KEYS) {
            let part = u128::from_le_bytes(*part);
            let (low, high) = (part as u64, (part >> 64) as u64);
            *lane = lane
                .rotate_left(29)
                .wrapping_add(fold(*lane ^ low, key ^ high));
        }
    }
    let mut result = seed ^ bytes.len() as u64;
    for part in rest.chunks(8) {
        result = fold(result ^ word(part), KEYS[0]).wrapping_add(KEYS[1]);
    }
    for (lane, key) in lanes.iter().zip(KEYS) {
        result = fold(result ^ lane, key).wrapping_add(result.rotate_left(31));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_page_matters() {
        let mut page = [0u8; 4096];
        for (at, byte) in page.iter_mut().enumerate() {
            *byte = (at * 7) as u8;
        }
        let whole = hash(0, &page);
        for bit in 0..4096 * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(hash(0, &page), whole, "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
        assert_ne!(hash(1, &page), whole);
        assert_ne!(hash(0, &page[..4095]), whole);
        assert_ne!(hash(0, &[0; 64]), hash(0, &[0; 128]));
    }
}
