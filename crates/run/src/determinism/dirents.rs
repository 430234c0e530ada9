//! The entries of a directory as the kernel lists them (`struct linux_dirent64`, getdents64(2); include/linux/dirent.h,
//! fs/readdir.c), and the same entries in another order.
//!
//! `d_off` of an entry is the place behind it, where `telldir(3)` and `seekdir(3)` stand. Places stay in the order of the
//! kernel: the k-th entry of the new order carries the place behind the k-th of the old one. So "behind k entries" is the
//! same place in both orders, and whoever comes back to it goes on with entry k of the new one.

use truecount_stats::Rng;

/// In which order entries are answered. `.` and `..` come first, as in most file systems: there are programs that count
/// on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By the bytes of their names.
    Sorted,
    /// At random, by this seed.
    Shuffled(u64),
}

/// The form of the entries: that of `getdents64`, or that of the old `getdents` where `d_type` is the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    New,
    Old,
}

impl Form {
    fn name(self) -> usize {
        match self {
            Self::New => 19,
            Self::Old => 18,
        }
    }
}

const PLACE: std::ops::Range<usize> = 8..16;
const LENGTH: std::ops::Range<usize> = 16..18;

/// Entries of a directory.
#[derive(Debug)]
pub(super) struct Listing {
    bytes: Vec<u8>,
    /// Where each entry begins and ends, in the new order.
    entries: Vec<(usize, usize)>,
    /// The place behind the k-th entry.
    places: Vec<i64>,
}

/// Some entries of a listing, one behind the other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bytes: Vec<u8>,
    /// The entry that follows.
    pub(super) next: usize,
    /// The place behind the last one.
    pub(super) place: i64,
}

impl Listing {
    /// Orders what the kernel gave; `None` where that is not what it should be.
    pub(super) fn new(bytes: Vec<u8>, form: Form, order: Order) -> Option<Self> {
        let (mut entries, mut places) = (Vec::new(), Vec::new());
        let mut at = 0usize;
        while at < bytes.len() {
            let entry = bytes.get(at..)?;
            let length: [u8; 2] = entry.get(LENGTH)?.try_into().ok()?;
            let entry = entry.get(..usize::from(u16::from_ne_bytes(length)))?;
            name(entry, form)?;
            places.push(i64::from_ne_bytes(entry.get(PLACE)?.try_into().ok()?));
            let end = at.checked_add(entry.len())?;
            entries.push((at, end));
            at = end;
        }
        let key = |&(from, to): &(usize, usize)| {
            let name = bytes.get(from..to).and_then(|entry| name(entry, form));
            (!matches!(name, Some(b"." | b"..")), name)
        };
        entries.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        if let Order::Shuffled(seed) = order {
            let first = entries.iter().take_while(|each| !key(each).0).count();
            if let Some(others) = entries.get_mut(first..) {
                Rng::new(seed).shuffle(others);
            }
        }
        Some(Self {
            bytes,
            entries,
            places,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        let each = size_of::<(usize, usize)>() + size_of::<i64>();
        self.bytes
            .len()
            .saturating_add(self.len().saturating_mul(each))
    }

    /// Whether each place can be told from the beginning: else the listing would never come to its end.
    pub(super) fn has_places(&self) -> bool {
        self.places.iter().all(|&place| place > 0)
    }

    /// The entry that follows at a place. File systems with hashed names may give entries the same place: the last counts.
    pub(super) fn behind(&self, place: i64) -> Option<usize> {
        if place == 0 {
            return Some(0);
        }
        let last = self.places.iter().rposition(|&each| each == place)?;
        last.checked_add(1)
    }

    /// The place behind the `count` first entries.
    pub(super) fn place(&self, count: usize) -> Option<i64> {
        match count.checked_sub(1) {
            None => Some(0),
            Some(last) => self.places.get(last).copied(),
        }
    }

    /// Entries from the one numbered `from` on, as many as fit into `room` bytes; `None` when there is no such entry or
    /// not even one fits.
    pub(super) fn part(&self, from: usize, room: usize) -> Option<Part> {
        let mut part = Part {
            bytes: Vec::new(),
            next: from,
            place: 0,
        };
        let entries = self.entries.get(from..)?.iter();
        for (&(begin, end), &place) in entries.zip(self.places.get(from..)?) {
            let entry = self.bytes.get(begin..end)?;
            if part.bytes.len().saturating_add(entry.len()) > room {
                break;
            }
            let start = part.bytes.len();
            part.bytes.extend_from_slice(entry);
            let field = part.bytes.get_mut(start..)?.get_mut(PLACE)?;
            field.copy_from_slice(&place.to_ne_bytes());
            part.next = part.next.saturating_add(1);
            part.place = place;
        }
        (part.next > from).then_some(part)
    }
}

/// What a program gets that lists a directory with these entries (of `getdents64`, or of the old `getdents`) and room
/// for so many bytes a call, and how many calls it makes; `None` where that is not what a kernel gives.
#[must_use]
pub fn reordered(
    entries: &[u8],
    old: bool,
    shuffled: Option<u64>,
    room: usize,
) -> Option<(Vec<u8>, usize)> {
    let form = if old { Form::Old } else { Form::New };
    let order = shuffled.map_or(Order::Sorted, Order::Shuffled);
    let listing = Listing::new(entries.to_vec(), form, order)?;
    let (mut out, mut at, mut calls) = (Vec::new(), 0, 0);
    while let Some(part) = listing.part(at, room) {
        let leads_back = listing.behind(part.place);
        if listing.has_places() && leads_back.is_none() {
            return None;
        }
        out.extend(part.bytes);
        (at, calls) = (part.next, calls + 1);
    }
    Some((out, calls))
}

/// The name of an entry, without the zero that ends it.
fn name(entry: &[u8], form: Form) -> Option<&[u8]> {
    let rest = entry.get(form.name()..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    rest.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel would give: every name with the place behind it.
    fn kernel(form: Form, names: &[(&str, i64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, place) in names {
            let length = (form.name() + name.len() + 2).next_multiple_of(8);
            let mut entry = vec![0u8; length];
            entry[0] = name.len() as u8;
            entry[PLACE].copy_from_slice(&place.to_ne_bytes());
            entry[LENGTH].copy_from_slice(&(length as u16).to_ne_bytes());
            entry[form.name()..][..name.len()].copy_from_slice(name.as_bytes());
            bytes.extend(entry);
        }
        bytes
    }

    /// Names and places of entries.
    fn list(mut bytes: &[u8], form: Form) -> Vec<(String, i64)> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let length = u16::from_ne_bytes(bytes[LENGTH].try_into().unwrap());
            let (entry, rest) = bytes.split_at(usize::from(length));
            let place = i64::from_ne_bytes(entry[PLACE].try_into().unwrap());
            let text = String::from_utf8(name(entry, form).unwrap().to_vec()).unwrap();
            all.push((text, place));
            bytes = rest;
        }
        all
    }

    const NAMES: [(&str, i64); 6] = [
        ("beta", 7),
        ("..", 3),
        ("!a", 90),
        (".", 12),
        ("a-longer-name-of-a-file", 5),
        ("alpha", 100),
    ];

    #[test]
    fn names_move_and_places_stay() {
        for form in [Form::New, Form::Old] {
            let listing = Listing::new(kernel(form, &NAMES), form, Order::Sorted).unwrap();
            let part = listing.part(0, 10_000).unwrap();
            let expected = [
                (".", 7),
                ("..", 3),
                ("!a", 90),
                ("a-longer-name-of-a-file", 12),
                ("alpha", 5),
                ("beta", 100),
            ]
            .map(|(name, place)| (name.to_owned(), place));
            assert_eq!(list(&part.bytes, form), expected);
            assert_eq!((part.next, part.place), (6, 100));
            assert!(listing.has_places());
        }
    }

    #[test]
    fn parts_of_any_size_give_every_entry_once_and_places_lead_back() {
        let form = Form::New;
        for order in [Order::Sorted, Order::Shuffled(5)] {
            let listing = Listing::new(kernel(form, &NAMES), form, order).unwrap();
            let whole = list(&listing.part(0, 10_000).unwrap().bytes, form);
            for room in [48, 60, 100, 170] {
                let (mut all, mut at) = (Vec::new(), 0);
                while let Some(part) = listing.part(at, room) {
                    assert!(part.bytes.len() <= room);
                    assert_eq!(listing.behind(part.place), Some(part.next));
                    assert_eq!(listing.place(part.next), Some(part.place));
                    at = part.next;
                    all.extend(list(&part.bytes, form));
                }
                assert_eq!(all, whole, "{room}");
            }
            assert_eq!(listing.part(0, 23), None);
            assert_eq!(listing.part(6, 1000), None);
            assert_eq!((listing.behind(0), listing.behind(8)), (Some(0), None));
        }
    }

    #[test]
    fn a_seed_gives_an_order_and_another_one_another() {
        let names: Vec<String> = (0..50).map(|n| format!("f{n}")).collect();
        let with_places: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(1..).collect();
        let of = |order| {
            let bytes = kernel(Form::New, &with_places);
            let listing = Listing::new(bytes, Form::New, order).unwrap();
            list(&listing.part(0, 1 << 20).unwrap().bytes, Form::New)
        };
        let (one, two) = (of(Order::Shuffled(1)), of(Order::Shuffled(2)));
        assert_eq!(one, of(Order::Shuffled(1)));
        assert_ne!(one, two);
        let sorted = |mut list: Vec<(String, i64)>| {
            list.sort();
            list.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(sorted(one), sorted(two));
    }

    #[test]
    fn what_no_kernel_gives_is_refused() {
        let good = kernel(Form::New, &NAMES);
        for cut in 1..good.len() {
            // Where an entry ends by chance, the rest is whole.
            let cut = good[..cut].to_vec();
            if let Some(listing) = Listing::new(cut.clone(), Form::New, Order::Sorted) {
                assert_eq!(listing.part(0, 10_000).unwrap().bytes.len(), cut.len());
                assert!(listing.len() < NAMES.len());
            }
        }
        for length in [0u16, 1, 17, 18, 19, 20, 0xffff] {
            let mut wrong = good.clone();
            wrong[LENGTH].copy_from_slice(&length.to_ne_bytes());
            let listing = Listing::new(wrong, Form::New, Order::Sorted);
            assert!(
                listing.is_none_or(|listing| listing.bytes.len() == good.len()),
                "{length}"
            );
        }
        let endless = vec![b'x'; 400];
        assert!(Listing::new(endless, Form::New, Order::Sorted).is_none());
        let standing = kernel(Form::New, &[("a", 0), ("b", 0)]);
        let standing = Listing::new(standing, Form::New, Order::Sorted).unwrap();
        assert!(!standing.has_places());
        let nothing = Listing::new(Vec::new(), Form::New, Order::Sorted).unwrap();
        assert_eq!((nothing.len(), nothing.part(0, 100)), (0, None));
    }
}
