//! Where references are noted by line: which were touched, and whose they are.

use rustc_hash::FxHashMap;
use truecount_engine::virt::references::{Heap as Said, HeapEvent};
use truecount_memory::{Heap, Kind, LINE, Moment, Near, Touched};

// What the engine tells of large blocks is as the heap here takes it.
const _: () = assert!(truecount_engine::heap::LARGE == truecount_memory::LARGE);

/// Blocks of a heap whose sites are known at the same time.
const BLOCKS: usize = 1 << 21;

/// Lines of one memory, for a thread at its time.
pub(super) struct Lines<'a> {
    pub(super) touched: &'a mut Touched,
    pub(super) heap: Option<&'a mut Heap>,
    pub(super) when: Moment,
}

impl Lines<'_> {
    /// Bytes are used, as far as they are blocks of the heap.
    #[inline]
    pub(super) fn heap(&mut self, address: u64, bytes: u64, kind: Kind) {
        if let Some(heap) = &mut self.heap {
            heap.touch(address, bytes, kind, self.when);
        }
    }

    /// The same, by an operand that was somewhere before.
    #[inline]
    pub(super) fn heap_near(&mut self, near: &mut Near, address: u64, bytes: u64, kind: Kind) {
        if let Some(heap) = &mut self.heap {
            heap.touch_near(near, (address, bytes), kind, self.when);
        }
    }

    /// Bytes are used.
    pub(super) fn bytes(&mut self, address: u64, bytes: u64, kind: Kind) {
        self.touched.bytes(address, bytes, kind);
        self.heap(address, bytes, kind);
    }

    /// A reference missed in a model: the first level, or the last, too.
    pub(super) fn missed(&mut self, address: u64, last: bool) {
        let heap = self.heap.as_mut();
        if !heap.is_some_and(|heap| heap.missed(address, last, self.when)) {
            self.touched.missed(address / LINE, last);
        }
    }
}

/// A heap, and the sites that its blocks were allocated by.
pub(crate) struct Allocated {
    pub(crate) heap: Heap,
    /// By their numbers: where the calls returned to.
    pub(crate) sites: Vec<u64>,
    numbers: FxHashMap<u64, u32>,
}

impl Allocated {
    /// `apart`: each block is kept in mind.
    pub(super) fn new(apart: bool) -> Self {
        Self {
            heap: Heap::new(BLOCKS, apart),
            sites: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }

    /// The number of a site.
    fn number(&mut self, site: u64) -> u32 {
        let next = self.sites.len() as u32;
        let number = *self.numbers.entry(site).or_insert(next);
        if number == next {
            self.sites.push(site);
        }
        number
    }

    /// Something is going to happen when the thread's turn comes.
    pub(super) fn expect(&mut self, said: &Said, thread: u32) {
        if let HeapEvent::Allocated {
            address,
            size,
            site,
        } = said.what
        {
            let time = said.time;
            let number = self.number(site);
            self.heap
                .expect(address, size, number, Moment { time, thread });
        }
    }

    /// Something happened.
    pub(super) fn happens(&mut self, said: &Said, thread: u32) {
        let time = said.time;
        match said.what {
            HeapEvent::Allocated {
                address,
                size,
                site,
            } => {
                let number = self.number(site);
                self.heap
                    .allocate(address, size, number, Moment { time, thread });
            }
            HeapEvent::Freed { address } => self.heap.free(address, time),
            HeapEvent::Unmapped { address, size } => self.heap.unmap(address, size, time),
            HeapEvent::Used {
                address,
                touched,
                written,
            } => self.used(address, touched, written, Moment { time, thread }),
            _ => {}
        }
    }

    /// Eight bytes each, a bit each, were read or written, and written.
    pub(super) fn used(&mut self, address: u64, touched: u16, written: u16, when: Moment) {
        let mut left = touched;
        while left != 0 {
            let first = left.trailing_zeros();
            let stored = written >> first & 1 != 0;
            let same = left & if stored { written } else { !written };
            let many = (same >> first).trailing_ones();
            let kind = if stored { Kind::Store } else { Kind::Load };
            self.heap.touch(
                address + u64::from(first) * 8,
                u64::from(many) * 8,
                kind,
                when,
            );
            left &= !(((1u32 << many) - 1) << first) as u16;
        }
    }
}
