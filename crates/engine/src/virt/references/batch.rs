//! What a model has to know, as it comes: rings of `xlate::recent`, most of whose records are looked up quickly.

use super::Marked;
use crate::xlate::known::Record;
pub use crate::xlate::levels::Known;
use crate::xlate::references::MARK;

/// Bits of the number of places.
const PLACES: u32 = 16;
/// Spreads records over them (2⁶⁴ by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A record, without what it says beside its meaning (0: none), and the number that a sink gave that. (An array of zeros is
/// no memory before it is used.)
type Place = [u64; 2];

/// Numbers by record: each has two places.
pub(super) struct Numbers(Box<[Place]>);

/// The first of a record's places.
#[inline]
fn first(key: u64) -> usize {
    (key.wrapping_mul(SPREAD) >> (64 - PLACES)) as usize
}

/// The other one, beside it.
#[inline]
fn second(first: usize) -> usize {
    first ^ 1
}

impl Numbers {
    pub(super) fn new(wanted: bool) -> Self {
        let many = if wanted { 1 << PLACES } else { 0 };
        Self(vec![[0; 2]; many].into_boxed_slice())
    }

    pub(super) fn set(&mut self, key: u64, number: u32) {
        let place = first(key);
        let is_free = |place: &&usize| self.0.get(**place).is_some_and(|place| place[0] == 0);
        let free = [place, second(place)].iter().find(is_free).copied();
        if let Some(place) = self.0.get_mut(free.unwrap_or(place)) {
            *place = [key, number.into()];
        }
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
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl<'a> Batch<'a> {
    pub(super) fn new(rest: &'a [u64], numbers: &'a Numbers) -> Self {
        let numbers = &*numbers.0;
        Self { rest, numbers }
    }
}

impl<'a> Iterator for Batch<'a> {
    type Item = Next<'a>;

    /// The next one; `None`: there is none, or something else comes before.
    #[inline]
    fn next(&mut self) -> Option<Next<'a>> {
        let (&word, behind) = self.rest.split_first()?;
        // A conditional branch says beside its meaning whether it was taken.
        let conditional = Record::is_conditional(word);
        let key = if conditional {
            word & !Record::TAKEN_BIT
        } else {
            word & !Record::MISSED
        };
        let missed = word & Record::MISSED != 0;
        let place = first(key);
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
