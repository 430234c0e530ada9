//! What changes nothing in a model of caches is left out (`option::RECENT`, with `option::FILTERED`).
//!
//! Where a set's least recently used line is replaced, a reference to the one that was used last leaves everything as it
//! is. So each thread has two tables, of the lines that were used last in each set of its first level of data and of
//! instructions. Translated code looks there; what leads to another line goes through a routine of the runtime's, which
//! enters and notes it. An empty place is always right: so a table is emptied where it is not known what was referenced.
//!
//! Beside the records of [`super::known`] the ring has, in order:
//!
//! | record | words |
//! |---|---|
//! | a reference to another line of its set | [`Record`]; the address |
//! | an instruction is in another line of its set | [`Record`] |
//! | a conditional branch (with `option::PREDICTED` one that was predicted wrongly) | [`Record`], which says whether it was taken |
//! | an indirect one | [`Record`]; where it went |
//!
//! `core` only.

use super::known::{self, Record};
use super::levels::{Model, SETS};

/// Where the table of data is in a thread's region …
pub const TABLE: u64 = known::DIRECTORY + (64 << 10);
/// … and that of instructions.
pub const CODE_TABLE: u64 = TABLE + 8 * SETS as u64;

const _: () = assert!(CODE_TABLE + 8 * SETS as u64 <= known::PIECES);

/// What cold code says of instructions in another line: behind their [`known::Literal`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Number of the line of the instruction's first byte …
    pub first: u64,
    /// … and of its last one.
    pub last: u64,
}

impl Record {
    /// In a reference's: nothing else says what it did.
    pub const ALL: u64 = 1 << 58;
    const SORT: u32 = 56;
    const CONDITIONAL: u64 = 1;
    const INDIRECT: u64 = 2;
    const FETCH: u64 = 3;
    /// The byte that says whether a conditional branch was taken.
    pub const TAKEN: u32 = 6;
    /// Where the number of its instruction is then: above all places where blocks are described.
    const NUMBER_BELOW: u32 = Self::ABSOLUTE.trailing_zeros() + 1;

    /// The bit that says so.
    pub const TAKEN_BIT: u64 = 1 << (8 * Self::TAKEN);

    /// Whether it is of a conditional branch …
    #[inline]
    pub fn is_conditional(word: u64) -> bool {
        word >> Self::SORT == Self::CONDITIONAL
    }

    /// … an indirect one …
    #[inline]
    pub fn is_indirect(word: u64) -> bool {
        word >> Self::SORT == Self::INDIRECT
    }

    /// … or an instruction in another line.
    #[inline]
    pub fn is_fetch(word: u64) -> bool {
        word >> Self::SORT == Self::FETCH
    }

    /// For a conditional branch, not taken.
    pub fn conditional(described: u64, number: usize) -> Self {
        Self(Self::CONDITIONAL << Self::SORT | described | (number as u64) << Self::NUMBER_BELOW)
    }

    /// For an indirect one.
    pub fn indirect(described: u64, number: usize) -> Self {
        Self(Self::INDIRECT << Self::SORT | described | (number as u64) << 48)
    }

    /// For an instruction in another line.
    pub fn fetch(described: u64, number: usize) -> Self {
        Self(Self::FETCH << Self::SORT | described | (number as u64) << 48)
    }

    /// What it says, if it is the model's, and the number of its instruction.
    #[inline]
    pub fn model(self) -> Option<(Model, usize)> {
        let number = (self.0 >> 48) as usize & 63;
        match self.0 >> Self::SORT {
            Self::CONDITIONAL => Some((
                Model::Conditional(self.0 >> 48 & 1 != 0),
                (self.0 >> Self::NUMBER_BELOW) as usize & 63,
            )),
            Self::INDIRECT => Some((Model::Indirect, number)),
            Self::FETCH => Some((Model::Fetch, number)),
            _ => None,
        }
    }
}
