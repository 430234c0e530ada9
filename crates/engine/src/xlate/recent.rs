//! What changes nothing in a model of caches is left out (`option::RECENT`, with `option::FILTERED`).
//!
//! Each thread knows the lines of its first levels of data and of instructions ([`Cache`]), in rows, one for a set, with the
//! time at which each was used last; and in one place of [`SLOTS`], by its number, each line that was used there last.
//! Translated code looks there; a line that is known is no miss: it gets the time, and nobody is told. (Blocks set the
//! thread's clock on, their instructions have times behind each other.) What leads to another line goes through a routine
//! of the runtime's, which looks into the row, and notes what is not there.
//!
//! Where a set's lines are all known, that is a miss ([`Record::MISSED`]), and the least recently used line makes room. Where
//! they are not, at first and where it is not known what was referenced, who reads the ring has to find out; for that he is
//! told before in which order those were used that are known. (It is always those that were used last.)
//!
//! Beside the records of [`super::known`] the ring has, in order:
//!
//! | record | words |
//! |---|---|
//! | a reference to a line that is not known | [`Record`]; the address |
//! | an instruction is in such a line | [`Record`] |
//! | the known lines of a set, the one that was used last first | [`Record`]; the numbers of the lines |
//! | a conditional branch (with `option::PREDICTED` one that was predicted wrongly) | [`Record`], which says whether it was taken |
//! | an indirect one | [`Record`]; where it went |
//!
//! `core` only.

use super::known::{self, Is, Record};
use super::levels::{Known, Model, SETS, WAYS};
use core::mem::size_of;

/// Where what is known of data is in a thread's region …
pub const TABLE: u64 = known::DIRECTORY + (64 << 10);
/// … and of instructions.
pub const CODE_TABLE: u64 = TABLE + size_of::<Cache>() as u64;
/// Where that ends.
pub const END: u64 = CODE_TABLE + size_of::<Cache>() as u64;

const _: () = assert!(END <= known::PIECES);

/// Places for lines that were used lately, by their numbers.
pub const SLOTS: u32 = 4096;
/// (Lines with the same place are of the same set.)
const _: () = assert!(SLOTS >= SETS);

/// What is known of a first level.
#[repr(C)]
pub struct Cache {
    /// Lines that were used lately, by their numbers.
    pub places: [Place; SLOTS as usize],
    /// Known lines, by set …
    pub rows: [Row; SETS as usize],
    /// … how many those are …
    pub known: [u32; SETS as usize],
    /// … and how many of them are not in [`Cache::places`].
    pub aside: [u32; SETS as usize],
}

/// How a line of instructions is said: its low half says set and place, the high one all that is above the place's number,
/// and one more, so that four bytes tell whether a place has it. (Lines of data are said by their numbers.)
pub const fn code_line(number: u64) -> u64 {
    number & 0xffff_ffff | ((number >> SLOTS.trailing_zeros()) + 1) << 32
}

/// The number of a line of instructions.
pub const fn code_number(line: u64) -> u64 {
    line & 0xffff_ffff | ((line >> 32) - 1) << SLOTS.trailing_zeros()
}

/// A place for a line. (What is asked and what is set are beside each other: they share a line of the CPU's own cache.)
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// The line that was used last of those that this is the place of, if it is known; 0: none …
    pub line: u64,
    /// … and when it was.
    pub time: u64,
}

/// Known lines of a set.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// Their numbers, in any order …
    pub lines: [u64; WAYS as usize],
    /// … and when each was used last, or before that, if it is in [`Cache::places`].
    pub times: [u64; WAYS as usize],
}

/// A block sets the clock on by this; its instructions have [`AT`] of them each, the lines of a reference one each.
pub const TICKS: u32 = 256;
/// See [`TICKS`].
pub const AT: usize = 4;

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
    const KNOWN: u64 = 4;
    /// In that of a reference or an instruction in another line: the first level does not have it.
    pub const MISSED: u64 = 1 << 59;
    /// In one of known lines: they are of instructions.
    const OF_CODE: u64 = 1 << 55;
    /// Where the number of known lines is.
    const LINES: u32 = 48;
    /// The high half of that of known lines, without their number: of data, and of instructions.
    pub const KNOWN_LINES: [u32; 2] = [
        (Self::KNOWN << (Self::SORT - 32)) as u32,
        (Self::KNOWN << (Self::SORT - 32) | Self::OF_CODE >> 32) as u32,
    ];
    /// Where that is there.
    pub const LINES_HIGH: u32 = Self::LINES - 32;
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

    /// Of a reference: it is there whether the model is told something or not.
    pub fn is_told_always(self) -> bool {
        self.0 & (Self::ALL | Self::FACTS) != 0
    }

    /// Without what an execution says beside: of one and the same reference it is the same each time.
    #[must_use]
    pub fn meaning(self) -> Self {
        match self.is() {
            Some(Is::Reference(_)) => Self(self.asked().0 & !(Self::ALL | Self::FACTS)),
            _ => self.asked(),
        }
    }

    /// Without [`Record::MISSED`].
    #[must_use]
    pub fn asked(self) -> Self {
        match self.is() {
            Some(Is::Reference(_) | Is::Model(_)) => Self(self.0 & !Self::MISSED),
            _ => self,
        }
    }

    /// For known lines.
    pub fn known(known: Known) -> Self {
        let [data, code] = Self::KNOWN_LINES;
        let high = if known.code { code } else { data } | (known.lines as u32) << Self::LINES_HIGH;
        Self(u64::from(high) << 32 | u64::from(known.set))
    }

    /// The known lines that follow.
    #[inline]
    pub fn as_known(self) -> Option<Known> {
        (self.0 >> Self::SORT == Self::KNOWN).then_some(Known {
            code: self.0 & Self::OF_CODE != 0,
            set: self.0 as u32 & (SETS - 1),
            lines: (self.0 >> Self::LINES) as usize & 31,
        })
    }

    /// What it says, if it is the model's, and the number of its instruction.
    #[inline]
    pub fn model(self) -> Option<(Model, usize)> {
        let number = (self.0 >> 48) as usize & 63;
        match (self.0 & !Self::MISSED) >> Self::SORT {
            Self::CONDITIONAL => Some((
                Model::Conditional(self.0 >> 48 & 1 != 0),
                (self.0 >> Self::NUMBER_BELOW) as usize & 63,
            )),
            Self::INDIRECT => Some((Model::Indirect, number)),
            Self::FETCH => Some((Model::Fetch, number)),
            _ => Some((Model::Known(self.as_known()?), 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_say_which_line_of_instructions_it_is() {
        // Of the shortest lines, up to the last address there is.
        for number in [0, 1, 0xfff, 0x1000, 0xffff_ffff, 1 << 32, (1 << 43) - 1] {
            let line = code_line(number);
            assert_eq!(code_number(line), number);
            assert_ne!(line >> 32, 0, "as a place that has none");
            assert_eq!(line as u32 % SLOTS, number as u32 % SLOTS);
        }
    }
}
