//! The log of a run with per-block counters: what each counter counts, and what
//! was mapped where. The runtime appends to it, the launcher reads it after the
//! program's end (or death); it lies in the upper half of the slot of the first
//! thread of a memory, and goes on in further slots (`Context::log_more`).
//!
//! Entries are 64-bit words; the first has kind (bits 0-7), number of words
//! (8-23), a small field (24-31) and the counter (32-63):
//!
//! | entry | small field | further words |
//! |---|---|---|
//! | block | instructions | address; facts, two a word |
//! | part | 1: adds, 0: takes away; 2: branch taken, 4: predicted wrongly | block's counter, first (bits 32-39), behind the last (40-47), branch (48-55); sums, a byte an event |
//! | description | – | where it is |
//! | mapping | – | start; end; file offset; device; inode; path, zero-padded |
//!
//! A mapping entry comes before the first block translated from it, so the latest
//! one that covers a block's address tells where the block's code came from.
//! `core` only.

use crate::xlate::block::{Branch, MAX_INSNS, Part};
use crate::xlate::facts::{Counts, EVENTS, Facts};

/// A block entry's kind.
pub const BLOCK: u8 = 1;
/// A part entry's kind.
pub const PART: u8 = 2;
/// A description's kind.
pub const DESCRIBED: u8 = 4;
/// A mapping entry's kind.
pub const MAP: u8 = 3;

/// In a part's small field: it adds …
const ADDS: u8 = 1;
/// … a branch was taken …
const TAKEN: u8 = 2;
/// … or predicted wrongly.
const MISPREDICTED: u8 = 4;

/// The first word of an entry.
pub fn head(kind: u8, words: usize, small: u8, counter: u32) -> u64 {
    u64::from(kind)
        | (words as u64 & 0xffff) << 8
        | u64::from(small) << 24
        | u64::from(counter) << 32
}

/// Facts of a block's instructions, two a word.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    words: &'a [u64],
    len: usize,
}

impl<'a> Packed<'a> {
    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Facts> + 'a {
        (0..self.len).map(move |at| {
            let word = self.words.get(at / 2).copied().unwrap_or(0);
            Facts((word >> (at % 2 * 32)) as u32)
        })
    }
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A counter of executions of a block.
    Block {
        /// Its number.
        counter: u32,
        /// Program address.
        pc: u64,
        /// Of its instructions.
        facts: Packed<'a>,
    },
    /// A counter of early exits.
    Part {
        /// Its number.
        counter: u32,
        /// The block's counter.
        of: u32,
        /// Which of its instructions, and what it says of a branch.
        part: Part,
        /// What those instructions sum up to.
        sums: [u8; EVENTS],
    },
    /// Where a block is described in the manner of `xlate::references`.
    Described {
        /// The block's counter.
        counter: u32,
        /// Where: `xlate::known::described`.
        at: u64,
    },
    /// Executable memory.
    Map {
        /// First address.
        start: u64,
        /// Behind the last.
        end: u64,
        /// Where `start` is in the file.
        offset: u64,
        /// The file's device (as in `/proc/PID/maps` with the colon left out).
        device: u64,
        /// The file's inode; 0: no file.
        inode: u64,
        /// Path, zero-padded, as `/proc/PID/maps` shows it.
        path: &'a [u64],
    },
}

/// The entry at the start of `words` and its length in words; `None` at the end
/// (or where the bytes are damaged).
pub fn entry(words: &[u64]) -> Option<(Entry<'_>, usize)> {
    let first = *words.first()?;
    let (kind, len) = (first as u8, (first >> 8 & 0xffff) as usize);
    let (small, counter) = ((first >> 24) as u8, (first >> 32) as u32);
    let rest = words.get(1..len)?;
    let word = |at: usize| rest.get(at).copied().unwrap_or(0);
    let entry = match kind {
        BLOCK => Entry::Block {
            counter,
            pc: word(0),
            facts: Packed {
                words: rest.get(1..)?,
                len: usize::from(small).min(rest.len().saturating_sub(1) * 2),
            },
        },
        PART => {
            let mut sums = [0u8; EVENTS];
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum = (word(1 + at / 8) >> (at % 8 * 8)) as u8;
            }
            Entry::Part {
                counter,
                of: word(0) as u32,
                part: Part {
                    from: (word(0) >> 32) as u8,
                    to: (word(0) >> 40) as u8,
                    add: small & ADDS != 0,
                    branch: match small & !ADDS {
                        TAKEN => Branch::Taken((word(0) >> 48) as u8),
                        MISPREDICTED => Branch::Mispredicted((word(0) >> 48) as u8),
                        _ => Branch::None,
                    },
                },
                sums,
            }
        }
        DESCRIBED => Entry::Described {
            counter,
            at: word(0),
        },
        MAP => Entry::Map {
            start: word(0),
            end: word(1),
            offset: word(2),
            device: word(3),
            inode: word(4),
            path: rest.get(5..)?,
        },
        _ => return None,
    };
    Some((entry, len))
}

impl Entry<'_> {
    /// Adds what this counter at `value` means to `sums`.
    pub fn add(&self, value: u64, sums: &mut Counts) {
        match *self {
            Entry::Block { facts, .. } => {
                for facts in facts.iter() {
                    facts.add(value, sums);
                }
            }
            Entry::Part {
                part, sums: each, ..
            } => {
                let times = part.times(value);
                for (sum, each) in sums.iter_mut().zip(each) {
                    *sum = sum.wrapping_add(times.wrapping_mul(u64::from(each)));
                }
            }
            Entry::Map { .. } | Entry::Described { .. } => {}
        }
    }
}

/// Words of the longest block entry.
pub const LONGEST: usize = 2 + MAX_INSNS / 2;

/// Words of a block entry, written to `out`; returns how many.
pub fn write_block(out: &mut [u64; LONGEST], counter: u32, pc: u64, facts: &[Facts]) -> usize {
    let len = 2 + facts.len().div_ceil(2);
    let (mut at, mut word) = (2, 0u64);
    for (number, fact) in facts.iter().enumerate() {
        word |= u64::from(fact.0) << (number % 2 * 32);
        if number % 2 == 1 || number + 1 == facts.len() {
            if let Some(place) = out.get_mut(at) {
                *place = word;
            }
            (at, word) = (at + 1, 0);
        }
    }
    out[0] = head(BLOCK, len, facts.len() as u8, counter);
    out[1] = pc;
    len.min(out.len())
}

/// Words of a description.
pub fn write_described(counter: u32, at: u64) -> [u64; 2] {
    [head(DESCRIBED, 2, 0, counter), at]
}

/// Words of a part entry, of the block `of` with `facts`.
pub fn write_part(counter: u32, of: u32, part: Part, facts: &[Facts]) -> [u64; 4] {
    let Part {
        from,
        to,
        add,
        branch,
    } = part;
    let (says, at) = match branch {
        Branch::None => (0, 0),
        Branch::Taken(at) => (TAKEN, at),
        Branch::Mispredicted(at) => (MISPREDICTED, at),
    };
    let mut sums = [0u64; EVENTS];
    for fact in facts.get(usize::from(from)..usize::from(to)).unwrap_or(&[]) {
        fact.add(1, &mut sums);
    }
    let mut out = [
        head(PART, 4, says | u8::from(add), counter),
        u64::from(of) | u64::from(from) << 32 | u64::from(to) << 40 | u64::from(at) << 48,
        0,
        0,
    ];
    for (at, sum) in sums.into_iter().enumerate() {
        if let Some(place) = out.get_mut(2 + at / 8) {
            *place |= (sum & 0xff) << (at % 8 * 8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let facts: Vec<Facts> = (1..=9).map(|n| Facts(n | n << 4)).collect();
        let mut words = [0; LONGEST];
        let len = write_block(&mut words, 7, 0x1234, &facts);
        assert_eq!(len, 2 + 5);
        let (entry_read, used) = entry(&words).unwrap();
        assert_eq!(used, len);
        let Entry::Block {
            counter,
            pc,
            facts: packed,
        } = entry_read
        else {
            panic!("{entry_read:?}");
        };
        assert_eq!((counter, pc), (7, 0x1234));
        assert!(packed.iter().eq(facts.iter().copied()));
        let branches = [Branch::None, Branch::Taken(4), Branch::Mispredicted(63)];
        for branch in branches {
            let written = Part {
                from: 2,
                to: 5,
                add: false,
                branch,
            };
            let words = write_part(8, 7, written, &facts);
            let (entry_read, used) = entry(&words).unwrap();
            assert_eq!(used, 4);
            let Entry::Part { of, part, .. } = entry_read else {
                panic!("{entry_read:?}");
            };
            assert_eq!((of, part), (7, written));
            let mut sums = [100u64; EVENTS];
            entry_read.add(3, &mut sums);
            assert_eq!(sums[0], 100 - 9);
        }
    }

    #[test]
    fn damaged_logs_end() {
        assert!(entry(&[]).is_none());
        assert!(entry(&[0]).is_none());
        assert!(entry(&[head(BLOCK, 9, 4, 0), 1]).is_none());
        assert!(entry(&[head(MAP, 3, 0, 0), 1, 2]).is_none());
        assert!(entry(&[head(BLOCK, 0, 4, 0), 1]).is_none());
    }
}
