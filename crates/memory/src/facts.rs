//! Exact facts about references: how many, how long, which lines and pages, what crosses a line or a page.

use crate::{Kind, LINE, PAGE, Reference};
use rustc_hash::FxHashMap;

/// Sums over references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// Counts a reference.
    #[inline]
    fn count(&mut self, reference: Reference) {
        let Reference {
            address,
            size,
            kind,
        } = reference;
        let bytes = u64::from(size);
        self.loads += u64::from(kind.loads());
        self.stores += u64::from(kind.stores());
        self.load_bytes += if kind.loads() { bytes } else { 0 };
        self.store_bytes += if kind.stores() { bytes } else { 0 };
        let crosses = |unit: u64| (address & (unit - 1)) + bytes > unit;
        if crosses(LINE) {
            self.line_splits += 1;
            self.page_splits += u64::from(crosses(PAGE));
        }
        let whole = size.is_power_of_two() && size <= 64 && address & (bytes - 1) != 0;
        self.unaligned += u64::from(whole);
    }
}

/// A page's lines that were read, and written.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    read: u64,
    written: u64,
}

/// Pages found lately: (page, place), chosen by the page's low bits.
const RECENT: usize = 1024;

/// Facts about the references of one memory.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Sums.
    pub totals: Totals,
    places: FxHashMap<u64, u32>,
    pages: Vec<Page>,
    recent: Box<[(u64, u32)]>,
    /// How many references had each size; sizes above 64 bytes are in the last place.
    sizes: [u64; 66],
}

impl Default for Facts {
    fn default() -> Self {
        Self::new()
    }
}

impl Facts {
    /// None yet.
    pub fn new() -> Self {
        Self {
            totals: Totals::default(),
            places: FxHashMap::default(),
            pages: Vec::new(),
            recent: vec![(u64::MAX, 0); RECENT].into_boxed_slice(),
            sizes: [0; 66],
        }
    }

    fn page(&mut self, page: u64) -> Option<&mut Page> {
        let recent = self.recent.get_mut(page as usize % RECENT)?;
        if recent.0 != page {
            let next = u32::try_from(self.pages.len()).ok()?;
            let place = *self.places.entry(page).or_insert(next);
            if place == next {
                self.pages.push(Page::default());
            }
            *recent = (page, place);
        }
        self.pages.get_mut(recent.1 as usize)
    }

    /// Counts a reference of at most 4 GiB.
    #[inline]
    pub fn count(&mut self, reference: Reference) {
        if reference.size == 0 {
            return;
        }
        self.totals.count(reference);
        if let Some(place) = self.sizes.get_mut(reference.size.min(65) as usize) {
            *place += 1;
        }
        self.touch(reference.address, u64::from(reference.size), reference.kind);
    }

    /// Counts `times` references of `size` bytes, one behind the other from `address` on upwards, as a repeated
    /// string instruction makes them.
    pub fn count_run(&mut self, address: u64, size: u32, times: u64, kind: Kind) {
        let bytes = u64::from(size).wrapping_mul(times);
        if bytes == 0 {
            return;
        }
        let totals = &mut self.totals;
        totals.loads += if kind.loads() { times } else { 0 };
        totals.stores += if kind.stores() { times } else { 0 };
        totals.load_bytes += if kind.loads() { bytes } else { 0 };
        totals.store_bytes += if kind.stores() { bytes } else { 0 };
        let out = address & (u64::from(size) - 1);
        if size.is_power_of_two() && out != 0 {
            totals.unaligned += times;
            // One for each boundary inside.
            let crossed = |unit: u64| (address + bytes - 1) / unit - address / unit;
            totals.line_splits += crossed(LINE);
            totals.page_splits += crossed(PAGE);
        }
        if let Some(place) = self.sizes.get_mut(size.min(65) as usize) {
            *place += times;
        }
        self.touch(address, bytes, kind);
    }

    fn touch(&mut self, address: u64, bytes: u64, kind: Kind) {
        let end = address.saturating_add(bytes - 1);
        let mut at = address;
        loop {
            let page = at / PAGE;
            let last = end.min(page * PAGE + (PAGE - 1));
            let (from, to) = (at % PAGE / LINE, last % PAGE / LINE);
            let lines = (u64::MAX >> (63 - (to - from))) << from;
            if let Some(place) = self.page(page) {
                place.read |= if kind.loads() { lines } else { 0 };
                place.written |= if kind.stores() { lines } else { 0 };
            }
            if last == end {
                return;
            }
            at = last + 1;
        }
    }

    fn lines(&self, of: impl Fn(&Page) -> u64) -> u64 {
        self.pages
            .iter()
            .map(|page| u64::from(of(page).count_ones()))
            .sum()
    }

    /// Lines (64 bytes) that were read or written.
    pub fn lines_touched(&self) -> u64 {
        self.lines(|page| page.read | page.written)
    }

    /// Lines that were read.
    pub fn lines_read(&self) -> u64 {
        self.lines(|page| page.read)
    }

    /// Lines that were written.
    pub fn lines_written(&self) -> u64 {
        self.lines(|page| page.written)
    }

    /// Pages (4,096 bytes) that were read or written.
    pub fn pages_touched(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Sizes that occurred, with how many references had them; 65 stands for all that are longer than 64 bytes.
    pub fn sizes(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0u32..)
            .zip(self.sizes.iter().copied())
            .filter(|&(_, times)| times != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(address: u64, size: u32, kind: Kind) -> Reference {
        Reference {
            address,
            size,
            kind,
        }
    }

    #[test]
    fn lines_pages_and_splits() {
        let mut facts = Facts::new();
        facts.count(reference(0x1000, 8, Kind::Load));
        facts.count(reference(0x1008, 8, Kind::Store));
        facts.count(reference(0x103c, 8, Kind::Modify)); // two lines
        facts.count(reference(0x1ffc, 8, Kind::Load)); // two pages
        facts.count(reference(0x3001, 1, Kind::Load));
        let totals = Totals {
            loads: 4,
            stores: 2,
            load_bytes: 25,
            store_bytes: 16,
            line_splits: 2,
            page_splits: 1,
            unaligned: 2,
        };
        assert_eq!(facts.totals, totals);
        // 0x1000, 0x1040, 0x1fc0, 0x2000, 0x3000
        assert_eq!((facts.lines_touched(), facts.lines_written()), (5, 2));
        assert_eq!((facts.lines_read(), facts.pages_touched()), (5, 3));
        assert_eq!(facts.sizes().collect::<Vec<_>>(), [(1, 1), (8, 4)]);
    }

    /// A run is what its elements are, one by one.
    #[test]
    fn a_run_is_its_elements() {
        let starts = [0x1000u64, 0x1001, 0x1ff9, 0x203e, 0x2ffc];
        for (start, size, times) in starts
            .into_iter()
            .flat_map(|start| [1u32, 2, 4, 8].map(|size| (start, size)))
            .flat_map(|(start, size)| [0u64, 1, 3, 700].map(|times| (start, size, times)))
        {
            let (mut run, mut single) = (Facts::new(), Facts::new());
            run.count_run(start, size, times, Kind::Store);
            for at in 0..times {
                single.count(reference(start + at * u64::from(size), size, Kind::Store));
            }
            assert_eq!(run.totals, single.totals, "{start:#x} {size} {times}");
            assert_eq!(run.lines_written(), single.lines_written());
            assert_eq!(run.pages_touched(), single.pages_touched());
        }
    }

    #[test]
    fn the_last_byte_there_is() {
        let mut facts = Facts::new();
        facts.count(reference(u64::MAX - 7, 8, Kind::Load));
        facts.count(reference(u64::MAX, 8, Kind::Load));
        assert_eq!(facts.pages_touched(), 1);
    }
}
