//! Caches behind others: what comes there was not in the level before, and is seldom what was used last.

use crate::geometry::Geometry;

/// Bytes of a line of the CPU's own cache.
const TOGETHER: usize = 64;

/// One cache, each of whose sets lies in one piece.
#[derive(Clone, Debug)]
pub struct Rows {
    blocks: Blocks,
    ways: usize,
    line_bits: u32,
    set_bits: u32,
}

/// Of each set, the most recently used one first: one more than the block's number above the bits that choose the set; 0:
/// none. (Zeros are no memory before they are used.)
#[derive(Clone, Debug)]
enum Blocks {
    /// As programs have them: half of the memory to look at …
    Narrow(Aligned<u32>),
    /// … and any others.
    Wide(Aligned<u64>),
}

/// Words of which the first one that counts is at a line of the CPU's own cache.
#[derive(Clone, Debug)]
struct Aligned<T> {
    words: Box<[T]>,
    first: usize,
}

impl<T: Copy + Default> Aligned<T> {
    fn new(words: usize) -> Self {
        let more = TOGETHER / size_of::<T>();
        let words = vec![T::default(); words.saturating_add(more)].into_boxed_slice();
        let first = words.as_ptr().align_offset(TOGETHER).min(more);
        Self { words, first }
    }

    #[inline]
    fn row(&mut self, set: usize, ways: usize) -> &mut [T] {
        let start = self.first + set * ways;
        self.words.get_mut(start..start + ways).unwrap_or(&mut [])
    }
}

impl Rows {
    /// An empty one.
    pub fn new(geometry: Geometry) -> Self {
        let (sets, ways) = (geometry.sets().max(1), geometry.ways.max(1) as usize);
        Self {
            blocks: Blocks::Narrow(Aligned::new((sets as usize).saturating_mul(ways))),
            ways,
            line_bits: geometry.line.trailing_zeros(),
            set_bits: sets.trailing_zeros(),
        }
    }

    /// Bytes are referenced; whether any of their lines missed.
    #[inline]
    pub fn reference(&mut self, address: u64, size: u32) -> bool {
        let first = address >> self.line_bits;
        let last = address.wrapping_add(u64::from(size.max(1) - 1)) >> self.line_bits;
        let mut missed = self.block(first);
        if last != first {
            missed |= self.block(last);
        }
        missed
    }

    /// A block is referenced; whether it missed.
    #[inline]
    fn block(&mut self, block: u64) -> bool {
        let set = (block & ((1 << self.set_bits) - 1)) as usize;
        let above = (block >> self.set_bits) + 1;
        match (&mut self.blocks, u32::try_from(above)) {
            (Blocks::Narrow(all), Ok(above)) => to_front(all.row(set, self.ways), above),
            (Blocks::Wide(all), _) => to_front(all.row(set, self.ways), above),
            (Blocks::Narrow(_), Err(_)) => {
                self.widen();
                self.block(block)
            }
        }
    }

    /// From here on there is room for any block.
    #[cold]
    fn widen(&mut self) {
        if let Blocks::Narrow(all) = &self.blocks {
            let old = all.words.get(all.first..).unwrap_or(&[]);
            let mut new = Aligned::new(self.ways << self.set_bits);
            let room = new.words.iter_mut().skip(new.first);
            for (to, from) in room.zip(old) {
                *to = u64::from(*from);
            }
            self.blocks = Blocks::Wide(new);
        }
    }
}

/// A block comes in front of its set, and those that were in front of it move back by one; whether it missed.
#[inline]
fn to_front<T: Copy + PartialEq>(row: &mut [T], block: T) -> bool {
    let mut moved = block;
    for place in row {
        std::mem::swap(place, &mut moved);
        if moved == block {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cache;

    /// The same as where each set has its most recently used block apart: with few ways and with many, and from some time on
    /// with blocks whose numbers need more bits.
    #[test]
    fn what_a_cache_does() {
        for ways in [1, 2, 3, 4, 8, 12, 16, 25, 64] {
            let geometry = Geometry::new(4 * ways * 64, ways as u32, 64).unwrap();
            let (mut one, mut other) = (Rows::new(geometry), Cache::new(geometry));
            let mut random = ways;
            let mut missed = 0u32;
            for time in 0..20_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
                // Often the same ones, and some of them in two lines.
                let mut address = 0x10000 + (random >> 33) % (8 * ways * 64);
                if time > 10_000 && random >> 40 & 1 != 0 {
                    address |= 0xffff_8000_0000_0000;
                }
                let size = 1 + (random >> 60) as u32;
                let misses = one.reference(address, size);
                let expected = other.reference(address, size);
                assert_eq!(misses, expected, "{ways} {address:#x} {time}");
                missed += u32::from(misses);
            }
            assert!((1_000..19_000).contains(&missed), "{ways}: {missed}");
            assert!(matches!(one.blocks, Blocks::Wide(_)));
        }
    }
}
