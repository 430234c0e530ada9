//! What a model has to know, as it comes: rings of `xlate::recent`, most of whose records are looked up quickly.

use super::Marked;
use crate::xlate::known::Record;
pub use crate::xlate::levels::Known;
use crate::xlate::references::MARK;

/// Bits of the number of places at first …
const PLACES: u32 = 16;
/// … and at most.
const MOST_PLACES: u32 = 20;
/// Spreads records over them (2⁶⁴ by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A record, without what it says beside its meaning (0: none), and the number that a sink gave that. (An array of zeros is
/// no memory before it is used.)
type Place = [u64; 2];

/// Numbers by record: each has two places.
pub(super) struct Numbers {
    places: Box<[Place]>,
    /// How far what records are spread to is shifted.
    shift: u32,
    /// How many were put in the place of another one.
    lost: usize,
}

/// The first of a record's places.
#[inline]
fn first(key: u64, shift: u32) -> usize {
    (key.wrapping_mul(SPREAD) >> shift) as usize
}

/// The other one, beside it.
#[inline]
fn second(first: usize) -> usize {
    first ^ 1
}

impl Numbers {
    pub(super) fn new(wanted: bool) -> Self {
        Self::of(PLACES, wanted)
    }

    fn of(bits: u32, wanted: bool) -> Self {
        let many = if wanted { 1 << bits } else { 0 };
        Self {
            places: vec![[0; 2]; many].into_boxed_slice(),
            shift: u64::BITS - bits,
            lost: 0,
        }
    }

    /// What a record means has this number.
    pub(super) fn set(&mut self, record: Record, number: u32) {
        if !self.put([key(record.0), number.into()]) {
            self.lost += 1;
            // (One in sixty-four is looked up again and again, then.)
            if self.lost > self.places.len() / 64 && self.shift > u64::BITS - MOST_PLACES {
                let more = Self::of(u64::BITS - self.shift + 1, true);
                let old = std::mem::replace(self, more);
                for place in old.places.iter().filter(|place| place[0] != 0) {
                    self.put(*place);
                }
            }
        }
    }

    /// Whether nothing had to make room.
    fn put(&mut self, new: Place) -> bool {
        let place = first(new[0], self.shift);
        let is_free = |place: &&usize| {
            let known = self.places.get(**place);
            known.is_some_and(|known| known[0] == 0 || known[0] == new[0])
        };
        let free = [place, second(place)].iter().find(is_free).copied();
        if let Some(place) = self.places.get_mut(free.unwrap_or(place)) {
            *place = new;
        }
        free.is_some()
    }
}

/// What a record says: of what the sink gave this number ([`super::Sink::number`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is nothing else in a model")]
pub enum Next<'a> {
    /// A reference to this address.
    Reference(u32, u64),
    /// A conditional branch (with [`super::Levels::predicted`] one that was predicted wrongly); whether it was taken.
    Branch(u32, bool),
    /// An indirect branch (the same), and where it went.
    Jump(u32, u64),
    /// An instruction in another line.
    Fetch(u32),
    /// A reference to this address, which the first level is known not to have. It is looked up in the levels behind; what is
    /// in the first level's set is not told before [`Next::Known`].
    MissedReference(u32, u64),
    /// The same of an instruction in another line.
    MissedFetch(u32),
    /// Numbers of the lines of a set of the first level that were used last, the last one first: all that the set has, or
    /// those in front, which are the same ones as before, in any order.
    Known(Known, &'a [u64]),
    /// The thread is in this node of the tree of calls from here on ([`super::Marked::Node`]).
    Node(u64),
}

/// Records behind each other.
pub struct Batch<'a> {
    pub(super) rest: &'a [u64],
    numbers: &'a [Place],
    shift: u32,
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl<'a> Batch<'a> {
    pub(super) fn new(rest: &'a [u64], numbers: &'a Numbers) -> Self {
        Self {
            rest,
            numbers: &numbers.places,
            shift: numbers.shift,
        }
    }
}

/// What of a record has a number.
#[inline]
fn key(word: u64) -> u64 {
    // (A conditional branch says beside its meaning whether it was taken.)
    match Record::is_conditional(word) {
        true => word & !Record::TAKEN_BIT,
        false => word & !Record::MISSED,
    }
}

impl<'a> Iterator for Batch<'a> {
    type Item = Next<'a>;

    /// The next one; `None`: there is none, or something else comes before.
    #[inline]
    fn next(&mut self) -> Option<Next<'a>> {
        let (&word, behind) = self.rest.split_first()?;
        let conditional = Record::is_conditional(word);
        let key = key(word);
        let missed = word & Record::MISSED != 0;
        let place = first(key, self.shift);
        let mut known = self.numbers.get(place)?;
        if known[0] != key {
            known = self.numbers.get(second(place))?;
        }
        if known[0] != key || word & MARK != 0 {
            if let Some(known) = Record(word).as_known() {
                let (lines, behind) = behind.split_at_checked(known.lines)?;
                self.rest = behind;
                return Some(Next::Known(known, lines));
            }
            // (A mark is no record's key.)
            let Some(Marked::Node(node)) = Marked::of(word) else {
                return None;
            };
            self.rest = behind;
            return Some(Next::Node(node));
        }
        let number = known[1] as u32;
        if conditional {
            self.rest = behind;
            return Some(Next::Branch(number, word & Record::TAKEN_BIT != 0));
        }
        if Record::is_fetch(key) {
            self.rest = behind;
            return Some(match missed {
                true => Next::MissedFetch(number),
                false => Next::Fetch(number),
            });
        }
        let (&value, behind) = behind.split_first()?;
        self.rest = behind;
        Some(match Record::is_indirect(word) {
            true => Next::Jump(number, value),
            false if missed => Next::MissedReference(number, value),
            false => Next::Reference(number, value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many more records than there are places at first: each that is found has its own number, and nearly all are found.
    #[test]
    fn numbers_grow() {
        const MANY: u32 = 200_000;
        let record = |number: u32| Record::fetch(u64::from(number) * 7, number as usize % 64).0;
        let mut numbers = Numbers::new(true);
        for number in 0..MANY {
            numbers.set(Record(record(number)), number);
        }
        let words: Vec<u64> = (0..MANY)
            .map(|number| match number % 3 {
                0 => record(number) | Record::MISSED,
                _ => record(number),
            })
            .collect();
        let mut found = 0;
        let mut rest = words.as_slice();
        while !rest.is_empty() {
            let mut batch = Batch::new(rest, &numbers);
            for next in batch.by_ref() {
                let (number, missed) = match next {
                    Next::Fetch(number) => (number, false),
                    Next::MissedFetch(number) => (number, true),
                    other => panic!("{other:?}"),
                };
                let word = words[number as usize];
                assert_eq!(
                    (word & !Record::MISSED, missed),
                    (record(number), number % 3 == 0)
                );
                found += 1;
            }
            rest = batch.rest.get(1..).unwrap_or(&[]);
        }
        assert!(found > MANY / 100 * 95 && found <= MANY, "{found}");
        assert!(numbers.places.len() <= 1 << MOST_PLACES);
    }

    /// Nothing is left out or said twice.
    #[test]
    fn records_of_every_length() {
        let fetch = Record::fetch(8, 1).0;
        let branch = Record::conditional(16, 2).0;
        let jump = Record::indirect(24, 3).0;
        let mut numbers = Numbers::new(true);
        for (record, number) in [(fetch, 1), (branch, 2), (jump, 3)] {
            numbers.set(Record(record), number);
        }
        let known = Known {
            code: true,
            set: 5,
            lines: 3,
        };
        let some = [
            fetch,
            Record::known(known).0,
            11,
            12,
            13,
            branch | Record::TAKEN_BIT,
            jump,
            99,
        ];
        let words = some.repeat(100);
        let mut batch = Batch::new(&words, &numbers);
        for _ in 0..100 {
            assert_eq!(batch.next(), Some(Next::Fetch(1)));
            assert_eq!(batch.next(), Some(Next::Known(known, &[11, 12, 13])));
            assert_eq!(batch.next(), Some(Next::Branch(2, true)));
            assert_eq!(batch.next(), Some(Next::Jump(3, 99)));
        }
        assert_eq!(batch.next(), None);
        // Cut off, and lines that are not there.
        for end in 0..some.len() {
            assert!(Batch::new(&words[..end], &numbers).count() <= 4);
        }
    }
}
