//! What the rings say of the program's heap, and in which order.
//!
//! A block that one thread allocates may be in another one's references long before the part of the ring is full that
//! says so. So with several threads every ring is looked through for what it says of the heap ([`Scout`]), as far as it
//! is written, before any part is read that was full by then. What happened is told in the order of its times.

use super::codes::Codes;
use super::ring::{Ring, begin_of};
use crate::heap::{HEAP, WHAT, word};
use crate::layout::Context;
use crate::xlate::known::Record;
use crate::xlate::references::{APART, CHUNK, CHUNKS, MARK, described};
use std::mem::offset_of;

/// What a thread says of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// When: a number that all threads of the run count on with what happens.
    pub time: u64,
    /// What.
    pub what: HeapEvent,
}

/// What happens to a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapEvent {
    /// Nothing: so late is it in the thread.
    Now,
    /// A block is allocated.
    Allocated {
        /// Its first byte.
        address: u64,
        /// Bytes that were asked for.
        size: u64,
        /// Where the call of the allocator returned to.
        site: u64,
    },
    /// The block at an address is free.
    Freed {
        /// Its first byte.
        address: u64,
    },
    /// Nothing is mapped any more.
    Unmapped {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// With [`super::References::filtered`]: what any thread has done in two lines since they were allocated.
    Used {
        /// First byte of the first line.
        address: u64,
        /// Eight bytes each, a bit each: read or written …
        touched: u16,
        /// … written.
        written: u16,
    },
}

/// Words of marks that belong together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words {
    time: u64,
    site: u64,
    size: u64,
    from: u64,
}

impl Words {
    /// With one word more; what it completes.
    pub(super) fn take(&mut self, mark: u64) -> Option<Heap> {
        if mark & MARK == 0 || mark & HEAP == 0 {
            return None;
        }
        let value = mark & (MARK - 1);
        let what = match mark >> WHAT {
            word::TIME => {
                self.time = value;
                HeapEvent::Now
            }
            word::SITE => {
                self.site = value;
                return None;
            }
            word::SIZE => {
                self.size = value;
                return None;
            }
            word::FROM => {
                self.from = value;
                return None;
            }
            word::USED => HeapEvent::Used {
                address: self.from.wrapping_add((value >> 32) * 128),
                touched: value as u16,
                written: (value >> 16) as u16,
            },
            word::ALLOCATED => HeapEvent::Allocated {
                address: value,
                size: self.size,
                site: self.site,
            },
            word::FREED => HeapEvent::Freed { address: value },
            word::UNMAPPED => HeapEvent::Unmapped {
                address: value,
                size: self.size,
            },
            _ => return None,
        };
        Some(Heap {
            time: self.time,
            what,
        })
    }
}

/// How far a ring was looked through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scout {
    /// Which part, counted as `Ring::filled` does.
    part: u32,
    /// Number of the next word; 0: it is the part's first one.
    at: u32,
    words: Words,
}

impl Scout {
    /// From the beginning of a part on; `words`: what was said before.
    pub(super) fn new(part: u32, words: Words) -> Self {
        Self { part, at: 0, words }
    }

    /// It has not come as far as this part.
    pub(super) fn is_behind(&self, part: u32) -> bool {
        part.wrapping_sub(self.part).cast_signed() > 0
    }

    /// Looks at what was written since, with `codes` blocks, without them records; `see` is told what happened.
    pub(super) fn look(
        &mut self,
        ring: &Ring,
        mut codes: Option<&mut Codes<'_>>,
        buffer: &mut Vec<u64>,
        see: &mut dyn FnMut(Heap),
    ) {
        let load = |at| ring.load(at);
        // In this order: where a part is full the position is the next one's, or soon will be.
        let filled = load(offset_of!(Context, noted.filled));
        let position = load(offset_of!(Context, noted.position));
        while self.part != filled {
            let ends = offset_of!(Context, noted.ends) + 4 * (self.part % CHUNKS) as usize;
            self.up_to(load(ends), ring, codes.as_deref_mut(), buffer, see);
            self.part = self.part.wrapping_add(1);
            self.at = 0;
        }
        let part = self.part % CHUNKS * CHUNK;
        if (part + APART..=part + CHUNK + APART).contains(&position) {
            self.up_to(position, ring, codes, buffer, see);
        }
    }

    fn up_to(
        &mut self,
        end: u32,
        ring: &Ring,
        mut codes: Option<&mut Codes<'_>>,
        buffer: &mut Vec<u64>,
        see: &mut dyn FnMut(Heap),
    ) {
        if self.at == 0 {
            self.at = begin_of(&|at| ring.load(at), self.part);
        }
        let Some(long) = end.checked_sub(self.at).filter(|&long| long != 0) else {
            return;
        };
        buffer.clear();
        buffer.resize(long as usize, 0);
        ring.copy(self.at as usize, buffer);
        let (base, mut at) = (ring.base(), 0);
        // (Of the last block nothing but its head may be written yet.)
        while let Some(&head) = buffer.get(at) {
            if head & MARK != 0 {
                if let Some(heap) = self.words.take(head) {
                    see(heap);
                }
                at += 1;
                continue;
            }
            let Some(codes) = codes.as_deref_mut() else {
                at += 1 + Record(head).words();
                continue;
            };
            let code = codes.find(described(head, base));
            let Some(code) = code.and_then(|code| codes.get(code)) else {
                break; // who reads the part finds that, too
            };
            at += code.words;
        }
        self.at = end;
    }
}
