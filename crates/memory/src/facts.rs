//! Exact facts about references: how many, how long, which lines and pages, what crosses a line or a page.

use crate::{Kind, LINE, PAGE};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Sums over references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// References that read; one that modifies is both.
    pub loads: u64,
    /// References that write.
    pub stores: u64,
    /// Bytes read.
    pub load_bytes: u64,
    /// Bytes written.
    pub store_bytes: u64,
    /// References that lie in more than one line (64 bytes).
    pub line_splits: u64,
    /// References that lie in more than one page (4,096 bytes).
    pub page_splits: u64,
    /// References whose address is no multiple of their size (those of 2, 4, 8, 16, 32 and 64 bytes).
    pub unaligned: u64,
}

impl Totals {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.load_bytes += other.load_bytes;
        self.store_bytes += other.store_bytes;
        self.line_splits += other.line_splits;
        self.page_splits += other.page_splits;
        self.unaligned += other.unaligned;
    }

    /// Counts `times` references of `size` bytes, wherever they were: what is known of an instruction before it is
    /// executed.
    pub fn made(&mut self, size: u32, kind: Kind, times: u64) {
        self.made_of(u64::from(size).wrapping_mul(times), kind, times);
    }

    /// The same of references that are not all of one size, with their bytes together.
    pub fn made_of(&mut self, bytes: u64, kind: Kind, times: u64) {
        self.loads += if kind.loads() { times } else { 0 };
        self.stores += if kind.stores() { times } else { 0 };
        self.load_bytes += if kind.loads() { bytes } else { 0 };
        self.store_bytes += if kind.stores() { bytes } else { 0 };
    }
}

/// How references lie: what depends on their addresses alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// See [`Totals::line_splits`].
    pub line_splits: u64,
    /// See [`Totals::page_splits`].
    pub page_splits: u64,
    /// See [`Totals::unaligned`].
    pub unaligned: u64,
}

/// Bits of an address that are 0 where a reference of so many bytes is aligned, and so in one line; all, where that
/// cannot be told by its address.
pub fn aligned_bits(size: u32) -> u32 {
    match size.is_power_of_two() && size <= LINE as u32 {
        true => size - 1,
        false => u32::MAX,
    }
}

impl Placed {
    /// Counts `times` references of `size` bytes, one behind the other from `address` on upwards: one, or as many as a
    /// repeated string instruction makes.
    pub fn count(&mut self, address: u64, size: u32, times: u64) {
        let bytes = u64::from(size);
        if bytes == 0 || times == 0 {
            return;
        }
        let aligned = aligned_bits(size);
        if aligned != u32::MAX {
            if address & u64::from(aligned) == 0 {
                return;
            }
            self.unaligned += times;
            // Each boundary inside is crossed by one.
            let last = address.saturating_add(bytes.wrapping_mul(times) - 1);
            self.line_splits += last / LINE - address / LINE;
            self.page_splits += last / PAGE - address / PAGE;
            return;
        }
        for time in 0..times {
            let at = address.wrapping_add(time.wrapping_mul(bytes));
            let crosses = |unit: u64| (at & (unit - 1)) + bytes > unit;
            self.line_splits += u64::from(crosses(LINE));
            self.page_splits += u64::from(crosses(PAGE));
        }
    }

    /// Adds them to totals.
    pub fn add_to(&self, totals: &mut Totals) {
        totals.line_splits += self.line_splits;
        totals.page_splits += self.page_splits;
        totals.unaligned += self.unaligned;
    }
}

/// Misses of a line in a model: of the first level, and of the last.
pub type LineMisses = (u32, u32);

/// A page's lines that were read, and written.
#[derive(Clone, Debug, Default)]
struct Page {
    number: u64,
    read: u64,
    written: u64,
    /// By line, where there were any.
    misses: Option<Box<[LineMisses; LINES as usize]>>,
    /// The stack pointer led here.
    stack: bool,
}

/// Lines of a page.
const LINES: u64 = PAGE / LINE;

/// A page that was touched.
#[derive(Clone, Copy, Debug)]
pub struct TouchedPage<'a> {
    /// Its number: `address / PAGE`.
    pub number: u64,
    /// Its lines that were read, a bit each.
    pub read: u64,
    /// Those that were written.
    pub written: u64,
    /// It was found by the stack pointer.
    pub stack: bool,
    /// What its lines missed in a model.
    pub misses: &'a [LineMisses],
}

/// Pages found lately: (page, place), chosen by the page's low bits.
const RECENT: usize = 1024;

/// Lines and pages of one memory that were touched.
#[derive(Clone, Debug)]
pub struct Touched {
    places: FxHashMap<u64, u32>,
    pages: Vec<Page>,
    /// Empty, while nothing is being touched.
    recent: Box<[(u64, u32)]>,
    extent: Extent,
}

/// How much of a memory was touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Lines (64 bytes) that were read or written.
    pub lines: u64,
    /// Lines that were written.
    pub written: u64,
    /// Pages (4,096 bytes) that were read or written.
    pub pages: u64,
}

impl Extent {
    /// Adds what came since an earlier one.
    pub fn add_since(&mut self, before: &Self, after: &Self) {
        self.lines += after.lines - before.lines;
        self.written += after.written - before.written;
        self.pages += after.pages - before.pages;
    }
}

impl Page {
    /// Lines (a bit each) are touched, which this is told.
    #[inline]
    fn touch(&mut self, lines: u64, kind: Kind, extent: &mut Extent) {
        let is_new = |known: u64| u64::from((lines & !known).count_ones());
        extent.lines += is_new(self.read | self.written);
        if kind.stores() {
            extent.written += is_new(self.written);
            self.written |= lines;
        }
        if kind.loads() {
            self.read |= lines;
        }
    }
}

impl Default for Touched {
    fn default() -> Self {
        Self::new()
    }
}

impl Touched {
    /// None yet.
    pub fn new() -> Self {
        Self {
            places: FxHashMap::default(),
            pages: Vec::new(),
            recent: Box::default(),
            extent: Extent::default(),
        }
    }

    /// Nothing is going to be touched for a while: what makes it fast is given up.
    pub fn pause(&mut self) {
        self.recent = Box::default();
    }

    #[cold]
    fn resume(&mut self) {
        self.recent = vec![(u64::MAX, 0); RECENT].into_boxed_slice();
    }

    #[inline]
    fn page(&mut self, page: u64) -> Option<&mut Page> {
        self.page_and_extent(page).map(|(page, _)| page)
    }

    #[inline]
    fn page_and_extent(&mut self, page: u64) -> Option<(&mut Page, &mut Extent)> {
        if self.recent.is_empty() {
            self.resume();
        }
        let recent = self.recent.get_mut(page as usize % RECENT)?;
        if recent.0 != page {
            let next = u32::try_from(self.pages.len()).ok()?;
            let place = *self.places.entry(page).or_insert(next);
            if place == next {
                self.pages.push(Page {
                    number: page,
                    ..Page::default()
                });
                self.extent.pages += 1;
            }
            *recent = (page, place);
        }
        let page = self.pages.get_mut(recent.1 as usize)?;
        Some((page, &mut self.extent))
    }

    /// A line is touched: its number, as `address / LINE`.
    #[inline]
    pub fn line(&mut self, line: u64, kind: Kind) {
        let bit = 1 << (line % LINES);
        if let Some((place, extent)) = self.page_and_extent(line / LINES) {
            place.touch(bit, kind, extent);
        }
    }

    /// A line missed in a model: the first level, or the last, too.
    pub fn missed(&mut self, line: u64, last: bool) {
        let Some(place) = self.page(line / LINES) else {
            return;
        };
        let misses = place
            .misses
            .get_or_insert_with(|| Box::new([(0, 0); LINES as usize]));
        if let Some(of) = misses.get_mut((line % LINES) as usize) {
            of.0 = of.0.saturating_add(1);
            of.1 = of.1.saturating_add(u32::from(last));
        }
    }

    /// A line is a part of a stack.
    pub fn is_stack(&mut self, line: u64) {
        if let Some(place) = self.page(line / LINES) {
            place.stack = true;
        }
    }

    /// Every page that was touched, in the order of their first times.
    pub fn pages(&self) -> impl Iterator<Item = TouchedPage<'_>> {
        self.pages.iter().map(|page| TouchedPage {
            number: page.number,
            read: page.read,
            written: page.written,
            stack: page.stack,
            misses: page.misses.as_ref().map_or(&[], |misses| &misses[..]),
        })
    }

    /// Bytes are touched.
    pub fn bytes(&mut self, address: u64, bytes: u64, kind: Kind) {
        let Some(more) = bytes.checked_sub(1) else {
            return;
        };
        let end = address.saturating_add(more);
        let mut at = address;
        loop {
            let page = at / PAGE;
            let last = end.min(page * PAGE + (PAGE - 1));
            let (from, to) = (at % PAGE / LINE, last % PAGE / LINE);
            let lines = (u64::MAX >> (63 - (to - from))) << from;
            if let Some((place, extent)) = self.page_and_extent(page) {
                place.touch(lines, kind, extent);
            }
            if last == end {
                return;
            }
            at = last + 1;
        }
    }

    /// How much was touched so far.
    #[inline]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Lines (64 bytes) that were read or written.
    pub fn lines_touched(&self) -> u64 {
        self.extent.lines
    }

    /// Lines that were read.
    pub fn lines_read(&self) -> u64 {
        let read = self.pages.iter().map(|page| page.read.count_ones());
        read.map(u64::from).sum()
    }

    /// Lines that were written.
    pub fn lines_written(&self) -> u64 {
        self.extent.written
    }

    /// Pages (4,096 bytes) that were read or written.
    pub fn pages_touched(&self) -> u64 {
        self.extent.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reference;

    fn count(totals: &mut Totals, touched: &mut Touched, reference: Reference, times: u64) {
        let Reference {
            address,
            size,
            kind,
        } = reference;
        totals.made(size, kind, times);
        let mut placed = Placed::default();
        placed.count(address, size, times);
        placed.add_to(totals);
        touched.bytes(address, u64::from(size) * times, kind);
    }

    fn reference(address: u64, size: u32, kind: Kind) -> Reference {
        Reference {
            address,
            size,
            kind,
        }
    }

    #[test]
    fn lines_pages_and_splits() {
        let (mut totals, mut touched) = (Totals::default(), Touched::new());
        let mut one = |address, size, kind| {
            count(&mut totals, &mut touched, reference(address, size, kind), 1);
        };
        one(0x1000, 8, Kind::Load);
        one(0x1008, 8, Kind::Store);
        one(0x103c, 8, Kind::Modify); // two lines
        one(0x1ffc, 8, Kind::Load); // two pages
        one(0x3001, 1, Kind::Load);
        one(0x4039, 10, Kind::Load); // two lines, no power of two
        one(0x4000, 108, Kind::Store);
        let expected = Totals {
            loads: 5,
            stores: 3,
            load_bytes: 35,
            store_bytes: 124,
            line_splits: 4,
            page_splits: 1,
            unaligned: 2,
        };
        assert_eq!(totals, expected);
        // 0x1000, 0x1040, 0x1fc0, 0x2000, 0x3000, 0x4000, 0x4040
        assert_eq!((touched.lines_touched(), touched.lines_written()), (7, 4));
        assert_eq!((touched.lines_read(), touched.pages_touched()), (7, 4));
        touched.line(0x5000 / LINE, Kind::Store);
        assert_eq!((touched.lines_written(), touched.pages_touched()), (5, 5));
    }

    /// A run is what its elements are, one by one.
    #[test]
    fn a_run_is_its_elements() {
        let starts = [0x1000u64, 0x1001, 0x1ff9, 0x203e, 0x2ffc];
        for (start, size, times) in starts
            .into_iter()
            .flat_map(|start| [1u32, 2, 4, 8, 10].map(|size| (start, size)))
            .flat_map(|(start, size)| [0u64, 1, 3, 700].map(|times| (start, size, times)))
        {
            let (mut run, mut single) = (Totals::default(), Totals::default());
            let (mut one, mut other) = (Touched::new(), Touched::new());
            count(
                &mut run,
                &mut one,
                reference(start, size, Kind::Store),
                times,
            );
            for at in 0..times {
                let element = reference(start + at * u64::from(size), size, Kind::Store);
                count(&mut single, &mut other, element, 1);
            }
            assert_eq!(run, single, "{start:#x} {size} {times}");
            assert_eq!(one.lines_written(), other.lines_written());
            assert_eq!(one.pages_touched(), other.pages_touched());
        }
    }

    #[test]
    fn the_last_byte_there_is() {
        let mut touched = Touched::new();
        touched.bytes(u64::MAX - 7, 8, Kind::Load);
        touched.bytes(u64::MAX, 1, Kind::Load);
        assert_eq!(touched.pages_touched(), 1);
        let mut placed = Placed::default();
        placed.count(u64::MAX, 8, 1);
        assert_eq!(placed.unaligned, 1);
    }
}
