//! Whose the bytes of a heap are: blocks by who allocated them, at every time.
//!
//! Blocks come and go while references are counted, at times that all threads share. Threads are looked at by turns,
//! and so each at its own time, which may be earlier than what is known already: a block that another thread has freed
//! since is still the one that was used then. And what a thread is going to allocate when its turn comes may be in
//! another one's references before: it is expected ([`Heap::expect`]).

mod near;
mod page;
mod resize;
mod result;
#[cfg(test)]
mod tests;

use crate::{Kind, PAGE};
pub use near::{Moment, Near};
use page::{Expected, Page, Part};
pub use result::HeapLines;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// Blocks of so many bytes are not entered in every page that they lie in, but where one is touched.
pub const LARGE: u64 = 64 * PAGE;
/// Blocks of the past that are kept for threads whose time is behind.
const PAST: usize = 65_536;
/// Pages found lately: (page, place), chosen by the page's low bits.
const RECENT: usize = 1024;
/// Where no page is.
const NONE: u32 = u32::MAX;

/// What became of the blocks of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapSite {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes, as they were asked for.
    pub bytes: u64,
    /// Bytes of the smallest …
    pub smallest: u64,
    /// … and the largest.
    pub largest: u64,
    /// References to them that missed the first level of a model …
    pub l1_misses: u64,
    /// … and the last one.
    pub ll_misses: u64,
}

/// A block that there is.
#[derive(Clone, Copy, Debug)]
struct Block {
    size: u64,
    site: u32,
    from: u64,
}

impl Block {
    /// `None`: it has no byte that a program could use.
    fn new(address: u64, size: u64, site: u32, from: u64) -> Option<Self> {
        let end = address.checked_add(size)?;
        (size != 0 && end <= 1 << 63).then_some(Self { size, site, from })
    }

    /// The numbers of the pages that it is in.
    fn pages(&self, address: u64) -> std::ops::RangeInclusive<u64> {
        address / PAGE..=(address + self.size - 1) / PAGE
    }

    /// What of it is in a page.
    fn part(&self, address: u64, number: u64) -> Part {
        Part {
            start: address.saturating_sub(number * PAGE) as u16,
            end: (address + self.size - number * PAGE).min(PAGE) as u16,
            site: self.site,
            from: self.from,
            block: (address, self.size),
            touched: 0,
            written: 0,
        }
    }
}

/// The heap of one memory.
#[derive(Clone, Debug, Default)]
pub struct Heap {
    blocks: FxHashMap<u64, Block>,
    /// Where large ones begin, and end.
    large: BTreeMap<u64, u64>,
    places: FxHashMap<u64, u32>,
    pages: Vec<Page>,
    recent: Vec<(u64, u32)>,
    sites: Vec<HeapSite>,
    /// Pages with parts of the past, by when they were over.
    past: VecDeque<(u64, u32)>,
    /// No thread asks for what was over at this time.
    horizon: u64,
    /// How many parts of pages are expected.
    expected: usize,
    /// When blocks were freed that are only expected yet.
    early: FxHashMap<u64, u64>,
    beyond: u64,
    most: usize,
    /// What was used is kept by block.
    apart: bool,
    /// What [`Near`] knows is so.
    stamp: near::Stamp,
}

impl Heap {
    /// One with at most `most` blocks at a time. `apart`: each block is kept in mind, for [`Self::blocks_in`].
    pub fn new(most: usize, apart: bool) -> Self {
        Self {
            most,
            apart,
            ..Self::default()
        }
    }

    /// A thread is going to say that it allocates a block, when its turn comes: others may use that before.
    pub fn expect(&mut self, address: u64, size: u64, site: u32, at: Moment) {
        self.stamp.renew();
        let Some(block) = Block::new(address, size, site, at.time) else {
            return;
        };
        if size >= LARGE {
            // Seldom enough to be there at once.
            return self.place(address, size, site, at);
        }
        for number in block.pages(address) {
            let place = self.make_page(number);
            let Some(page) = self.pages.get_mut(place as usize) else {
                return;
            };
            let part = block.part(address, number);
            let same = |one: &&mut Expected| one.is(at.thread, site, address);
            match page.expected.iter_mut().find(same) {
                Some(same) => same.one_more(&part),
                None => {
                    page.expected.push(Expected {
                        part,
                        by: at.thread,
                        many: 1,
                    });
                    self.expected += 1;
                }
            }
        }
    }

    /// What was expected has come, or what was known of it is kept.
    fn came(&mut self, address: u64, block: Block, thread: u32) {
        let apart = self.apart;
        for number in block.pages(address) {
            let place = self.places.get(&number).copied();
            let Some(page) = place.and_then(|place| self.pages.get_mut(place as usize)) else {
                continue;
            };
            let mut known = page.expected.iter();
            let known = known.position(|one| one.is(thread, block.site, address));
            let Some(at) = known else { continue };
            let Some(one) = page.expected.get_mut(at) else {
                continue;
            };
            one.many -= 1;
            if one.many == 0 {
                let part = page.expected.swap_remove(at).part;
                self.expected -= 1;
                page.settle(&part, apart);
            }
        }
    }

    /// A block is allocated at a time, by a site.
    pub fn allocate(&mut self, address: u64, size: u64, site: u32, at: Moment) {
        if let Some(of) = self.site(site) {
            of.smallest = match of.blocks {
                0 => size,
                _ => of.smallest.min(size),
            };
            of.largest = of.largest.max(size);
            of.blocks += 1;
            of.bytes = of.bytes.saturating_add(size);
        }
        self.place(address, size, site, at);
    }

    /// The block is where it is.
    fn place(&mut self, address: u64, size: u64, site: u32, at: Moment) {
        self.stamp.renew();
        let Some(block) = Block::new(address, size, site, at.time) else {
            return;
        };
        let known = self.blocks.get(&address);
        if size >= LARGE && known.is_some_and(|known| (known.from, known.size) == (at.time, size)) {
            return; // as was expected
        }
        if size < LARGE && self.expected != 0 {
            self.came(address, block, at.thread); // (large ones are there at once)
        }
        // Whose turn came first may have freed it already, or has allocated something else there since.
        let known = self.blocks.get(&address).copied();
        let over = match self.early.is_empty() {
            true => None,
            false => self.early.remove(&address),
        };
        let over = over.filter(|&to| to > at.time);
        if over
            .or(known.map(|known| known.from))
            .is_some_and(|to| to > at.time)
        {
            return;
        }
        if let Some(known) = known.filter(|known| known.resizes_to(&block)) {
            return self.resize(address, known, block);
        }
        if known.is_some() || self.expected != 0 {
            self.free(address, at.time);
        }
        if self.blocks.len() >= self.most {
            self.beyond += 1;
            return;
        }
        self.blocks.insert(address, block);
        if size < LARGE {
            for number in block.pages(address) {
                let place = self.make_page(number);
                self.enter(place, address, block);
            }
            return;
        }
        let end = address + size;
        self.large.insert(address, end);
        self.recent.clear();
        for place in self.known(address, end) {
            self.enter(place, address, block);
        }
    }

    /// The places of known pages in a range.
    fn known(&self, address: u64, end: u64) -> Vec<u32> {
        let (first, last) = (address / PAGE, (end - 1) / PAGE);
        if last - first < self.pages.len() as u64 {
            let pages = first..=last;
            return pages
                .filter_map(|page| self.places.get(&page).copied())
                .collect();
        }
        let pages = self.pages.iter().zip(0..);
        let inside = pages.filter(|(page, _)| (first..=last).contains(&page.number));
        inside.map(|(_, place)| place).collect()
    }

    fn make_page(&mut self, number: u64) -> u32 {
        if let Some(&place) = self.places.get(&number) {
            return place;
        }
        let place = self.pages.len() as u32;
        self.pages.push(Page {
            number,
            ..Page::default()
        });
        self.places.insert(number, place);
        if let Some(recent) = self.recent.get_mut(number as usize % RECENT) {
            *recent = (number, place);
        }
        for address in self.large_in(number) {
            // (Where two overlap it is the one that begins later.)
            if let Some(&block) = self.blocks.get(&address)
                && self.over_in(place, &block.part(address, number)).is_empty()
            {
                self.enter(place, address, block);
            }
        }
        place
    }

    /// The large blocks in a page.
    fn large_in(&self, number: u64) -> Vec<u64> {
        let (start, last) = (number * PAGE, number * PAGE + (PAGE - 1));
        let below = self.large.range(..=last).rev();
        let inside = below.take_while(|&(_, &end)| end > start);
        inside.map(|(&address, _)| address).collect()
    }

    /// The blocks that a part overlaps in a page; whether they are large, and were not used there.
    fn over_in(&self, place: u32, part: &Part) -> Vec<(u64, bool)> {
        let page = self.pages.get(place as usize);
        let over = page.and_then(|page| page.parts.get(page.within(part.start, part.end - 1)));
        let over = over.unwrap_or(&[]).iter();
        over.map(|one| (one.block.0, one.block.1 >= LARGE && one.touched == 0))
            .collect()
    }

    /// Enters a block in a page.
    fn enter(&mut self, place: u32, address: u64, block: Block) {
        let Some(number) = self.pages.get(place as usize).map(|page| page.number) else {
            return;
        };
        let part = block.part(address, number);
        // Whatever was there before is gone: nobody saw it freed.
        for (before, is_room) in self.over_in(place, &part) {
            // (Room of an allocator's, of which it gives pieces away.)
            match is_room {
                true => drop(self.take(place, before)),
                false => self.free(before, block.from),
            }
        }
        if let Some(page) = self.pages.get_mut(place as usize) {
            let at = page.parts.partition_point(|one| one.start < part.start);
            page.parts.insert(at, part);
        }
    }

    /// The block that begins at an address is free from a time on.
    pub fn free(&mut self, address: u64, time: u64) {
        self.stamp.renew();
        let Some(&block) = self.blocks.get(&address) else {
            if self.expected == 0 {
                return;
            }
            let place = self.places.get(&(address / PAGE));
            let page = place.and_then(|&place| self.pages.get(place as usize));
            let is_expected = |page: &Page| {
                let mut expected = page.expected.iter();
                expected.any(|one| one.part.block.0 == address && one.part.from < time)
            };
            if page.is_some_and(is_expected) {
                self.early.insert(address, time);
            }
            return;
        };
        if block.from > time {
            return; // the free of what was there before
        }
        self.blocks.remove(&address);
        let end = address + block.size;
        self.large.remove(&address);
        if block.size >= LARGE {
            self.recent.clear();
        }
        if (end - 1) / PAGE == address / PAGE {
            if let Some(&place) = self.places.get(&(address / PAGE)) {
                self.leave(place, address, time);
            }
            return;
        }
        for place in self.known(address, end) {
            self.leave(place, address, time);
        }
    }

    fn leave(&mut self, place: u32, block: u64, time: u64) {
        if let Some(part) = self.take(place, block) {
            self.over(place, part, time);
        }
    }

    /// Takes a block's part out of a page.
    fn take(&mut self, place: u32, block: u64) -> Option<Part> {
        let page = self.pages.get_mut(place as usize)?;
        let start = block.saturating_sub(page.number * PAGE).min(PAGE) as u16;
        let at = page.place(start, block)?;
        Some(page.parts.remove(at))
    }

    /// A part of a page is of the past, from a time on.
    fn over(&mut self, place: u32, part: Part, time: u64) {
        let Some(page) = self.pages.get_mut(place as usize) else {
            return;
        };
        if time <= self.horizon {
            page.settle(&part, self.apart);
            return;
        }
        page.is_over(part, time, self.apart);
        self.past.push_back((time, place));
        if self.past.len() > PAST {
            let oldest = self.past.front().map_or(0, |(time, _)| *time);
            self.forget(oldest);
        }
    }

    /// Blocks that begin in a range are free from a time on.
    pub fn unmap(&mut self, address: u64, size: u64, time: u64) {
        let end = address.saturating_add(size);
        let mut gone: Vec<u64> = self.large.range(address..end).map(|(at, _)| *at).collect();
        if size != 0 && end < 1 << 63 {
            for place in self.known(address, end) {
                let page = self.pages.get(place as usize);
                let parts = page.map_or(&[] as &[Part], |page| &page.parts);
                gone.extend(parts.iter().map(|part| part.block.0));
            }
        }
        for block in gone {
            if (address..end).contains(&block) {
                self.free(block, time);
            }
        }
    }

    /// No thread's time is before this one any more.
    pub fn forget(&mut self, time: u64) {
        self.horizon = self.horizon.max(time);
        let is_over = |&(over, _): &(u64, u32)| over <= time;
        if self.past.front().is_some_and(is_over) {
            self.stamp.renew();
        }
        while let Some(&(over, place)) = self.past.front()
            && over <= time
        {
            self.past.pop_front();
            if let Some(page) = self.pages.get_mut(place as usize) {
                page.forget(time, self.apart);
            }
        }
    }

    /// The page at an address, where there is or was a block in it.
    #[inline]
    fn page(&mut self, address: u64) -> Option<&mut Page> {
        let number = address / PAGE;
        let recent = self.recent.get(number as usize % RECENT);
        let place = match recent {
            Some(&(known, place)) if known == number => place,
            _ => self.look_up(number),
        };
        self.pages.get_mut(place as usize)
    }

    #[inline(never)]
    fn look_up(&mut self, number: u64) -> u32 {
        if self.recent.is_empty() {
            self.recent.resize(RECENT, (u64::MAX, NONE));
        }
        let mut place = self.places.get(&number).copied();
        if place.is_none() && !self.large_in(number).is_empty() {
            place = Some(self.make_page(number));
        }
        let place = place.unwrap_or(NONE);
        if let Some(recent) = self.recent.get_mut(number as usize % RECENT) {
            *recent = (number, place);
        }
        place
    }

    /// Bytes are used by a thread whose time this is.
    pub fn touch(&mut self, address: u64, bytes: u64, kind: Kind, when: Moment) {
        if self.blocks.is_empty() && self.pages.is_empty() {
            return;
        }
        let Some(more) = bytes.checked_sub(1) else {
            return;
        };
        let end = address.saturating_add(more);
        let mut at = address;
        loop {
            let last = end.min(at | (PAGE - 1));
            if let Some(page) = self.page(at) {
                page.touch((at % PAGE) as u16, (last % PAGE) as u16, kind, when);
            }
            if last == end {
                return;
            }
            at = last + 1;
        }
    }

    /// A reference missed in a model: the first level, or the last, too. False: it was to no block.
    pub fn missed(&mut self, address: u64, last: bool, when: Moment) -> bool {
        let page = self.page(address);
        let part = page.and_then(|page| page.find((address % PAGE) as u16, when));
        let Some(site) = part.map(|part| part.site) else {
            return false;
        };
        if let Some(of) = self.site(site) {
            of.l1_misses += 1;
            of.ll_misses += u64::from(last);
        }
        true
    }

    fn site(&mut self, number: u32) -> Option<&mut HeapSite> {
        let place = number as usize;
        if place >= self.sites.len() {
            self.sites.resize(place + 1, HeapSite::default());
        }
        self.sites.get_mut(place)
    }
}
