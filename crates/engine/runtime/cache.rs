//! Translated blocks and their exits: made, found again, mapped back.
//!
//! Blocks stay where they are; an invalidated one loses its links and its
//! entries. The parts: `areas` (memory for code), `index` (blocks by program
//! address), `ahead` (what the builder asks), `links` (branches between blocks).

mod ahead;
mod areas;
mod index;
pub mod kept;
mod links;
mod saved;

use crate::block::{Block, NONE};
use crate::layout::{Context, MAX_WATCHES, TABLES, Watch};
use crate::own_memory::{self, MAX_AREAS};
use crate::pages::{self, Pages};
use crate::sys;
use crate::table::Table;
use crate::xlate::block::{self, Config, End, MAX_EXITS, Record, Side};
use crate::xlate::emit::reaches;
use crate::xlate::entry::{Offsets, Via, emit_entry};
use crate::xlate::time;
use crate::{check, clock, counts};
use ahead::Reader;
use areas::{Area, code};
use core::mem::offset_of;
use kept::Kept;

pub const OFFSETS: Offsets = Offsets {
    count: offset_of!(Context, count) as u32,
    lanes: offset_of!(Context, count) as u32,
    spill: offset_of!(Context, spill) as u32,
    target: offset_of!(Context, target) as u32,
    spill_2: offset_of!(Context, spill_2) as u32,
    exit_id: offset_of!(Context, exit_id) as u32,
    vector_exit: offset_of!(Context, vector_exit) as u32,
    vector_syscall: offset_of!(Context, vector_syscall) as u32,
    vector_special: offset_of!(Context, vector_special) as u32,
};

const CONFIG: Config = Config {
    offsets: OFFSETS,
    tables: TABLES as u32,
    watched: 0,
    events_word: crate::layout::TOTALS_BASE + offset_of!(crate::layout::Header, events_open) as u64,
    force_far: false,
    limit: block::MAX_INSNS,
    counter: None,
    watches: [Watch { start: 0, end: 0 }; MAX_WATCHES],
    own_clock: false,
};

/// A checked entry into a block for one way of indirect branches.
#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    /// Where its way on to the next of its bucket is patched.
    patch: u64,
    block: u32,
    /// Next entry of the block, of the bucket.
    next: u32,
    chain: u32,
    way: u8,
    /// It is in its bucket.
    published: bool,
}

/// A direct exit.
#[derive(Clone, Copy)]
pub struct Exit {
    pub target: u64,
    patch: u64,
    stub: u64,
    pub block: u32,
    next: u32,
    /// The branch to its correction of the count, if it has one.
    side: Option<Side>,
    /// `side` leads straight to a copy of the correction in front of the target.
    direct: bool,
    /// It is linked: two threads may take it before either sees the link.
    linked: bool,
}

pub struct Cache {
    /// Blocks of a snapshot.
    pub kept: Kept,
    areas: [Option<Area>; MAX_AREAS],
    area_count: usize,
    pub blocks: Table<Block>,
    pub exits: Table<Exit>,
    records: Table<Record>,
    hash: *mut u32,
    hash_bits: u32,
    hash_used: usize,
    entries: Table<Entry>,
    /// For each way, the first entry (number + 1) of each table slot.
    bucket: [Table<u32>; Via::COUNT],
    live: [(u64, u8); 512],
    /// Blocks of one instruction, to be used again: (address, number).
    once: [(u64, u32); 256],
    /// Program addresses with a time stamp.
    watches: [Watch; MAX_WATCHES],
    /// For each area its blocks, in order, as far as they have been noted.
    order: [Table<u32>; MAX_AREAS],
    ordered: usize,
}

/// Blocks that a process can translate.
const MAX_BLOCKS: usize = 8 << 20;

fn once_slot(pc: u64) -> usize {
    (pc ^ pc >> 8) as usize & 255
}

impl Cache {
    pub const fn new() -> Self {
        Self {
            kept: Kept::new(),
            areas: [None; MAX_AREAS],
            area_count: 0,
            blocks: Table::new(),
            exits: Table::new(),
            records: Table::new(),
            hash: core::ptr::null_mut(),
            hash_bits: 0,
            hash_used: 0,
            entries: Table::new(),
            bucket: [const { Table::new() }; Via::COUNT],
            live: [(u64::MAX, 0); 512],
            once: [(0, NONE); 256],
            watches: [Watch { start: 0, end: 0 }; MAX_WATCHES],
            order: [const { Table::new() }; MAX_AREAS],
            ordered: 0,
        }
    }

    pub fn init(&mut self) {
        self.blocks.init(MAX_BLOCKS);
        self.exits.init(24 << 20);
        self.records.init(192 << 20);
        self.entries.init(8 << 20);
        self.hash_bits = 14;
        self.hash = own_memory::reserve(4 << self.hash_bits) as *mut u32;
    }

    /// Times what lies between these addresses from now on (nothing is translated yet), and measures
    /// what the stamps themselves take.
    pub fn watch(&mut self, watches: [Watch; MAX_WATCHES], near: u64) {
        /// Enough for a median, after the first rounds that find nothing in the caches.
        const ROUNDS: u32 = 4096;
        self.watches = watches;
        if watches.iter().all(|watch| watch.start == 0) {
            return;
        }
        let at = self.area(near);
        let Some(Some(area)) = self.areas.get(at).copied() else {
            return;
        };
        let mut hot = code(area.hot, 0x1000);
        time::calibration(&mut hot, ROUNDS);
        check!(!hot.overflowed(), "the calibration is too large");
        let mask = sys::set_mask(u64::MAX);
        // SAFETY: code just written to executable memory, not yet given to anybody; it keeps every
        // register but RCX, and GS is at this thread's context.
        unsafe { core::mem::transmute::<u64, extern "C" fn()>(area.hot)() };
        sys::set_mask(mask);
    }

    /// Ends the run where another block would not fit.
    fn need_room(&self, pc: u64) {
        let has_room = self.blocks.room() > 1
            && self.exits.room() > MAX_EXITS
            && self.records.room() > block::MAX_RECORDS
            && self.entries.room() > 1;
        if !has_room {
            self.full(pc);
        }
    }

    /// How the next block is built.
    fn config(&self, once: bool) -> Config {
        let mut config = CONFIG;
        config.offsets.count += 8 * (self.blocks.len() as u32 & 7);
        config.watched = core::ptr::from_ref(&pages::WATCHED) as usize as u32;
        config.counter = counts::next();
        config.watches = self.watches;
        config.own_clock = clock::on();
        if once {
            config.limit = 1;
        }
        config
    }

    /// Keeps a block's records and exits; the number of the first record.
    fn note_parts(&mut self, built: &block::Block, number: u32, once: bool) -> u32 {
        let records = self.records.len() as u32;
        for &record in built.records.iter().take(built.record_count) {
            self.records.push(record);
        }
        for exit in built.exits.iter().take(built.exit_count.min(MAX_EXITS)) {
            self.exits.push(Exit {
                target: exit.target,
                patch: if once { 0 } else { exit.patch },
                stub: exit.stub,
                side: exit.side.filter(|_| !once),
                direct: false,
                block: number,
                next: NONE,
                linked: false,
            });
        }
        records
    }

    /// Translates the block at `pc`. `via` asks for an entry in front of it;
    /// `once` makes a block of one instruction that nothing will find again. `exit`
    /// is the exit that asked: if it corrects the count on its way, its correction
    /// is put in front and it is linked.
    pub fn translate(
        &mut self,
        pages: &mut Pages,
        pc: u64,
        via: Option<Via>,
        once: bool,
        exit: u32,
    ) -> Option<u32> {
        if !pages.readable(pc) {
            return None;
        }
        self.need_room(pc);
        let at = self.area(pc);
        let Some(Some(mut area)) = self.areas.get(at).copied() else {
            return None;
        };
        let mut hot = code(area.hot, 0x4000);
        let mut cold = code(area.cold, 0x4000);
        let mut config = self.config(once);
        let first_exit = self.exits.len() as u32;
        let side = self
            .side_of(exit)
            .filter(|side| reaches(side.branch + 4, hot.here()));
        let mut reader = Reader {
            live: &mut self.live,
            pages,
        };
        let mut entry = None;
        if let Some(via) = via {
            let at = hot.here();
            let patch = emit_entry(&mut hot, &OFFSETS, via, pc, area.miss(via.number()));
            entry = Some((via, at, patch));
        }
        let correction = hot.here();
        if let Some(side) = side {
            block::count_keeping(&mut hot, &OFFSETS, side.added, side.live);
        }
        let mut built = block::build(&mut reader, &config, pc, first_exit, &mut hot, &mut cold);
        let compared = !once && pages.is_compared(pc, u64::from(built.guest_len));
        if compared && let Some(limit) = ahead::first_store(pages, pc, built.insns) {
            // What the store changes may be what comes next.
            config.limit = limit;
            (hot, cold) = (code(area.hot, 0x4000), code(area.cold, 0x4000));
            entry = None;
            let mut reader = Reader {
                live: &mut self.live,
                pages,
            };
            built = block::build(&mut reader, &config, pc, first_exit, &mut hot, &mut cold);
        }
        check!(
            !hot.overflowed() && !cold.overflowed(),
            "a block at {pc:#x} is too large"
        );
        if built.end == End::Unreadable {
            return None;
        }
        counts::describe(pc, &built);
        let last = pc + u64::from(built.guest_len.max(1)) - 1;
        let mut copy = 0;
        if once || !pages.is_constant(pc) || !pages.is_constant(last) {
            copy = cold.here();
            for at in 0..u64::from(built.guest_len) {
                // SAFETY: just decoded; watched, so that it is what was decoded.
                cold.put(&[unsafe { *((pc + at) as *const u8) }]);
            }
            check!(!cold.overflowed(), "a block at {pc:#x} is too large");
        }
        let number = self.blocks.len() as u32;
        let records = self.note_parts(&built, number, once);
        area.hot = hot.here();
        area.cold = cold.here();
        let host_end = hot.here();
        if let Some(place) = self.areas.get_mut(at) {
            *place = Some(area);
        }
        self.blocks.push(Block {
            pc,
            body: built.body,
            host_end,
            syscall: built.syscall,
            first_entry: NONE,
            incoming: NONE,
            first_exit,
            page_next: [NONE; 2],
            listed: [false; 2],
            guest_len: built.guest_len,
            records,
            record_count: built.record_count as u16,
            insns: built.insns,
            counter: config.counter.unwrap_or(0),
            exit_count: built.exit_count as u8,
            copy,
            valid: true,
            unsupported: built.end == End::Unsupported,
            compared,
        });
        if side.is_some() && !compared {
            self.link_directly(exit, number, correction);
        }
        if let Some((via, at, patch)) = entry {
            self.add_entry(number, via, at, patch);
        }
        if once {
            if let Some(place) = self.once.get_mut(once_slot(pc)) {
                *place = (pc, number);
            }
        } else {
            self.insert(pc, number);
            pages.note(self, number);
        }
        Some(number)
    }

    /// A block that steps over the instruction at `pc`.
    pub fn step_over(&mut self, pages: &mut Pages, pc: u64) -> Option<u32> {
        pages.unwatched = true;
        let (at, number) = self.once.get(once_slot(pc)).copied().unwrap_or((0, NONE));
        let known =
            (at == pc && number != NONE && self.is_unchanged(pages, number)).then_some(number);
        let block = known.or_else(|| self.translate(pages, pc, None, true, NONE));
        pages.unwatched = false;
        block
    }

    /// The block for `pc`, if it was translated and its bytes are still the same.
    pub fn find(&mut self, pages: &mut Pages, pc: u64) -> Option<u32> {
        let number = self.look_up(pc)?;
        let block = *self.blocks.get(number as usize);
        if block.valid && !block.compared {
            return Some(number);
        }
        let same = self.is_unchanged(pages, number);
        if block.compared {
            pages.compared(self, pc, same);
        }
        if !same {
            self.invalidate(number);
            self.forget(pc);
            return None;
        }
        if block.valid && self.blocks.get(number as usize).valid {
            return Some(number);
        }
        // One that is compared ends where it writes memory; so another is needed where that has changed.
        if block.compared != pages.is_compared(pc, u64::from(block.guest_len)) {
            self.forget(pc);
            return None;
        }
        self.blocks.get(number as usize).valid = true;
        pages.note(self, number);
        Some(number)
    }

    /// Compares a block's bytes with its copy, on watched pages.
    fn is_unchanged(&mut self, pages: &mut Pages, number: u32) -> bool {
        let block = *self.blocks.get(number as usize);
        if block.copy == 0 || block.unsupported {
            return false;
        }
        let len = u64::from(block.guest_len);
        // SAFETY: the copy is ours; the program's bytes were found executable.
        pages.executable(block.pc, len)
            && (0..len).all(|at| unsafe {
                *((block.copy + at) as *const u8) == *((block.pc + at) as *const u8)
            })
    }

    /// What is known about flags further on may be wrong now.
    pub fn forget_liveness(&mut self) {
        self.live = [(u64::MAX, 0); 512];
    }

    /// Whether `find` needs no look at the program's bytes.
    pub fn is_ready(&mut self, pc: u64) -> bool {
        self.look_up(pc).is_some_and(|number| {
            let block = self.blocks.get(number as usize);
            block.valid && !block.compared
        })
    }

    /// The block whose body (entries excluded) holds a host address.
    pub fn block_at(&mut self, host: u64) -> Option<u32> {
        // Blocks of an area are in address order; which they are is noted when it is first asked for.
        for number in self.ordered..self.blocks.len() {
            let body = self.blocks.get(number).body;
            let area = self.area_of(body);
            if let Some(order) = self.order.get_mut(area) {
                if order.capacity() == 0 {
                    order.init(MAX_BLOCKS);
                }
                order.push(number as u32);
            }
        }
        self.ordered = self.blocks.len();
        let order = self.order.get(self.area_of(host))?.slice();
        let blocks = self.blocks.slice();
        let after = order.partition_point(|&number| {
            blocks
                .get(number as usize)
                .is_some_and(|block| block.body <= host)
        });
        let number = *order.get(after.checked_sub(1)?)?;
        (host < blocks.get(number as usize)?.host_end).then_some(number)
    }

    pub fn records(&self, block: &Block) -> &[Record] {
        let from = block.records as usize;
        self.records
            .slice()
            .get(from..from + usize::from(block.record_count))
            .unwrap_or(&[])
    }
}
