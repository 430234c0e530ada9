//! A page with blocks of a heap in it.

use super::Moment;
use crate::{Kind, LINE};
use std::collections::VecDeque;
use std::ops::Range;

/// Blocks of a page that are told apart.
const BLOCKS_IN_PAGE: usize = 1024;
/// Blocks of the past that are kept.
const PAST: usize = 32;

/// The part of a block that is in one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Bytes of the page: from this one on …
    pub(super) start: u16,
    /// … up to this one.
    pub(super) end: u16,
    pub(super) site: u32,
    /// Allocated at this time.
    pub(super) from: u64,
    /// Where its block begins, and how many bytes it has.
    pub(super) block: (u64, u64),
    /// Lines of the page that were touched in it, a bit each …
    pub(super) touched: u64,
    /// … and written.
    pub(super) written: u64,
}

impl Part {
    pub(super) fn has(&self, from: u16, last: u16) -> bool {
        self.start <= last && from < self.end
    }

    /// Bytes of the page are used, as far as they are its own.
    fn mark(&mut self, from: u16, last: u16, kind: Kind) {
        let (from, last) = (from.max(self.start), last.min(self.end - 1));
        let (first, last) = (u64::from(from) / LINE, u64::from(last) / LINE);
        let lines = (u64::MAX >> (63 - (last - first))) << first;
        self.touched |= lines;
        self.written |= if kind.stores() { lines } else { 0 };
    }
}

/// Lines of a page that blocks of one site were used in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) site: u32,
    /// Where blocks are told apart: as in [`Part`].
    pub(super) block: (u64, u64),
    pub(super) touched: u64,
    pub(super) written: u64,
}

/// A part of blocks that a thread is going to allocate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) part: Part,
    /// The thread.
    pub(super) by: u32,
    /// How many times.
    pub(super) many: u32,
}

impl Expected {
    /// Blocks of a thread's, by a site, at an address.
    pub(super) fn is(&self, by: u32, site: u32, address: u64) -> bool {
        (self.by, self.part.site, self.part.block.0) == (by, site, address)
    }

    /// One more, which may be longer.
    pub(super) fn one_more(&mut self, part: &Part) {
        self.many += 1;
        self.part.end = self.part.end.max(part.end);
        self.part.block.1 = self.part.block.1.max(part.block.1);
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) number: u64,
    /// By address; they do not overlap.
    pub(super) parts: Vec<Part>,
    /// Those that threads are going to allocate, some of them at the same place.
    pub(super) expected: Vec<Expected>,
    /// Those of blocks that are free, and until when they were not.
    pub(super) past: VecDeque<(Part, u64)>,
    /// The latest of these times.
    pub(super) over: u64,
    pub(super) used: Vec<Used>,
    /// The part that was found last.
    pub(super) last: usize,
}

impl Page {
    /// What there was of a part is kept by site, or by block.
    pub(super) fn settle(&mut self, part: &Part, apart: bool) {
        if part.touched == 0 {
            return;
        }
        let few = apart && self.used.len() < BLOCKS_IN_PAGE;
        let new = Used {
            site: part.site,
            block: if few { part.block } else { (0, 0) },
            touched: part.touched,
            written: part.written,
        };
        let same = |used: &&mut Used| (used.site, used.block) == (new.site, new.block);
        match self.used.iter_mut().find(same) {
            Some(used) => {
                used.touched |= new.touched;
                used.written |= new.written;
            }
            None => self.used.push(new),
        }
    }

    /// The part of a block that there is.
    pub(super) fn of(&mut self, block: u64) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.block.0 == block)
    }

    /// A part is of the past, from a time on.
    pub(super) fn is_over(&mut self, part: Part, time: u64, apart: bool) {
        if self.past.len() >= PAST
            && let Some((oldest, _)) = self.past.pop_front()
        {
            self.settle(&oldest, apart);
        }
        self.past.push_back((part, time));
        self.over = self.over.max(time);
    }

    /// Nobody asks for what was over at a time, or before. (What is behind something that was over later stays.)
    pub(super) fn forget(&mut self, time: u64, apart: bool) {
        while let Some(&(part, to)) = self.past.front()
            && to <= time
        {
            self.past.pop_front();
            self.settle(&part, apart);
        }
    }

    /// The numbers of the parts that bytes are in, from one up to another one.
    pub(super) fn within(&self, from: u16, last: u16) -> Range<usize> {
        let first = self.parts.partition_point(|part| part.end <= from);
        let behind = self.parts.partition_point(|part| part.start <= last);
        first..behind.max(first)
    }

    /// The number of a block's part, which begins there.
    pub(super) fn place(&self, start: u16, block: u64) -> Option<usize> {
        let at = self.parts.partition_point(|part| part.start < start);
        let is = |part: &Part| part.block.0 == block;
        match self.parts.get(at).is_some_and(is) {
            true => Some(at),
            false => self.parts.iter().position(is),
        }
    }

    /// How many of the past have to be looked at by who is at a time.
    fn past_at(&self, time: u64) -> usize {
        if time < self.over { self.past.len() } else { 0 }
    }

    /// What was used so far.
    pub(super) fn all_used(&self, apart: bool) -> Vec<Used> {
        let mut all = Self {
            used: self.used.clone(),
            ..Self::default()
        };
        let past = self.past.iter().map(|(part, _)| part);
        let expected = self.expected.iter().map(|one| &one.part);
        for part in self.parts.iter().chain(past).chain(expected) {
            all.settle(part, apart);
        }
        all.used
    }

    /// The part that a byte is in for a thread at its time: one that there is, or that there was then; else one that
    /// another thread allocates later.
    pub(super) fn find(&mut self, byte: u16, at: Moment) -> Option<&mut Part> {
        let hit = self.parts.get(self.last);
        let live = match hit.is_some_and(|part| part.has(byte, byte)) {
            true => Some(self.last),
            false => {
                let behind = self.parts.partition_point(|part| part.start <= byte);
                let before = behind.checked_sub(1);
                before.filter(|&at| self.parts.get(at).is_some_and(|part| byte < part.end))
            }
        };
        if let Some(place) = live {
            self.last = place;
            if self
                .parts
                .get(place)
                .is_some_and(|part| part.from <= at.time)
            {
                return self.parts.get_mut(place);
            }
        }
        if self.past.is_empty() && self.expected.is_empty() {
            return self.parts.get_mut(live?);
        }
        // (Most who come here are at their own allocator's memory, and ahead of all others.)
        let many = self.past_at(at.time);
        let mut past = self
            .past
            .range_mut(..many)
            .filter(|(part, to)| part.has(byte, byte) && at.time < *to);
        let then = past.next().map(|(part, _)| part);
        let expected = self.expected.iter_mut().map(|one| (one.by, &mut one.part));
        let mut expected = expected.filter(|(by, part)| *by != at.thread && part.has(byte, byte));
        match (then, live) {
            (Some(part), _) if part.from <= at.time => Some(part),
            (then, live) => match (expected.next(), live) {
                (Some((_, part)), _) => Some(part),
                (None, Some(place)) => self.parts.get_mut(place),
                (None, None) => then,
            },
        }
    }

    /// Bytes are used, from one up to another one.
    #[inline]
    pub(super) fn touch(&mut self, from: u16, last: u16, kind: Kind, when: Moment) {
        let mut at = from;
        loop {
            match self.find(at, when) {
                Some(part) => {
                    part.mark(at, last, kind);
                    at = part.end;
                }
                // What is between blocks is nobody's.
                None => {
                    let behind = self.parts.partition_point(|part| part.start <= at);
                    let next = self.parts.get(behind).map_or(u16::MAX, |part| part.start);
                    let past = self
                        .past
                        .range(..self.past_at(when.time))
                        .map(|(part, _)| part.start);
                    let past = past.chain(self.expected.iter().map(|one| one.part.start));
                    at = past.filter(|&start| start > at).fold(next, u16::min);
                }
            }
            if at > last {
                return;
            }
        }
    }
}
