//! Translated blocks and their exits: made, found again, mapped back.
//!
//! Blocks stay where they are until their section is emptied; an invalidated one loses its links and its
//! entries. The parts: `areas` (memory for code), `sections` (how it is filled and emptied), `threads` (who may be
//! inside), `index` (blocks by program address), `ahead` (what the builder asks), `links` (branches between blocks).

mod ahead;
mod areas;
mod config;
mod exits;
mod give_way;
mod huge;
mod index;
pub mod kept;
mod links;
mod literals;
mod saved;
mod sections;
mod seldom;
mod threads;

use crate::block::{Block, NONE, Near};
use crate::layout::{MAX_WATCHES, WATCHED, Watch};
use crate::own_memory::{self, MAX_AREAS};
use crate::pages::Pages;
use crate::sys;
use crate::table::Table;
use crate::xlate::block::{self, Added, Config, End, MAX_EXITS, Record};
use crate::xlate::emit::{Buffer, reaches};
use crate::xlate::entry::{Via, emit_entry};
use crate::xlate::time;
use crate::{call_tree, check, clock, collect, counts, machine, program_memory, references, turns};
use ahead::Reader;
use areas::{Area, code};
use config::CONFIG;
pub use config::{CALL_OFFSETS, OFFSETS};
use exits::Entry;
pub use exits::Exit;
use huge::Huge;
use kept::Kept;
use links::ways;
use sections::{CHUNK_BLOCKS, CHUNK_EXITS, Chunk, Section};
use seldom::Seldom;
use threads::Threads;
pub use threads::{CALL, call_of};

pub struct Cache {
    /// Blocks of a snapshot.
    pub kept: Kept,
    areas: Table<Area>,
    area_count: usize,
    sections: Table<Section>,
    /// Code of this GiB finds no place near it.
    crowded: u64,
    /// Sections begun so far.
    begun: u64,
    chunks: Table<Chunk>,
    free_chunk: u32,
    /// Sections retired so far.
    epoch: u64,
    threads: Threads,
    pub blocks: Table<Block>,
    pub exits: Table<Exit>,
    hash: *mut u32,
    hash_bits: u32,
    hash_used: usize,
    entries: Table<Entry>,
    free_entry: u32,
    seldom: Seldom,
    huge: Huge,
    live: [(u64, u8); 512],
    /// Blocks of one instruction, to be used again: (address, number).
    once: [(u64, u32); 256],
    /// Program addresses with a time stamp.
    watches: [Watch; MAX_WATCHES],
}

/// Blocks that a process can have at the same time.
const MAX_BLOCKS: usize = 8 << 20;
const MAX_CHUNKS: usize = MAX_BLOCKS / CHUNK_BLOCKS;

/// What an exit corrects becomes what is pending in the block that it leads to, if that is not too much: a thread
/// that is killed loses it. Returns what is added in front: what was taken over, back again, for those who come
/// another way; else the correction itself.
fn take_over(config: &mut Config, added: Added, once: bool) -> Added {
    let fits = added.value.unsigned_abs() as usize <= block::MAX_INSNS;
    if once || config.counter.is_some() || !fits {
        return added;
    }
    config.pending = added.value.into();
    Added {
        value: -added.value,
        ..added
    }
}

/// Most bytes of a block's code …
const MOST_HOT: usize = 0x4000;
/// … and of its cold code, and what is behind that: less than a section has left (`sections::ROOM`).
const MOST_COLD: usize = 0x7000;

/// Copies a block's bytes behind its cold code, to compare.
fn put_copy(cold: &mut Buffer<'_>, pc: u64, len: u64) -> u64 {
    let copy = cold.here();
    let mut at = 0;
    while at < len {
        let mut bytes = [0u8; 32];
        let part = bytes.get_mut(..(len - at).min(32) as usize);
        let part = part.unwrap_or_default();
        // Just decoded; watched, so that it is what was decoded. (Zeros, where it is gone by now, are never the same.)
        program_memory::read_code(part, pc + at);
        cold.put(part);
        at += 32;
    }
    copy
}

/// Puts a block's records behind its cold code.
fn put_records(cold: &mut Buffer<'_>, built: &block::Block) -> u64 {
    let records = cold.here();
    for record in built.records.iter().take(built.record_count) {
        cold.put(&[record.guest, record.host]);
    }
    records
}

fn once_slot(pc: u64) -> usize {
    (pc ^ pc >> 8) as usize & 255
}

impl Cache {
    pub const fn new() -> Self {
        Self {
            kept: Kept::new(),
            areas: Table::new(),
            area_count: 0,
            sections: Table::new(),
            crowded: u64::MAX,
            begun: 0,
            chunks: Table::new(),
            free_chunk: NONE,
            epoch: 0,
            threads: Threads::new(),
            blocks: Table::new(),
            exits: Table::new(),
            hash: core::ptr::null_mut(),
            hash_bits: 0,
            hash_used: 0,
            entries: Table::new(),
            free_entry: NONE,
            seldom: Seldom::new(),
            huge: Huge::new(),
            live: [(u64::MAX, 0); 512],
            once: [(0, NONE); 256],
            watches: [Watch { start: 0, end: 0 }; MAX_WATCHES],
        }
    }

    pub fn init(&mut self) {
        self.areas.init(MAX_AREAS);
        self.sections.init(MAX_AREAS * Area::SECTIONS);
        self.chunks.init(MAX_CHUNKS);
        self.blocks.init(MAX_CHUNKS * CHUNK_BLOCKS);
        self.exits.init(MAX_CHUNKS * CHUNK_EXITS);
        self.entries.init(8 << 20);
        self.hash_bits = 11;
        self.hash = own_memory::reserve(4 << self.hash_bits) as *mut u32;
    }

    /// Times what lies between these addresses from now on (nothing is translated yet), and measures
    /// what the stamps themselves take.
    pub fn watch(&mut self, pages: &mut Pages, watches: [Watch; MAX_WATCHES], near: u64) {
        /// Enough for a median, after the first rounds that find nothing in the caches.
        const ROUNDS: u32 = 4096;
        self.watches = watches;
        if watches.iter().all(|watch| watch.start == 0) {
            return;
        }
        let at = self.section(pages, near);
        let section = *self.sections.get(at);
        let mut hot = code(section.hot, 0x1000);
        time::calibration(&mut hot, ROUNDS);
        check!(!hot.overflowed(), "the calibration is too large");
        let mask = sys::set_mask(u64::MAX);
        // SAFETY: code just written to executable memory, not yet given to anybody; it keeps every
        // register but RCX, and GS is at this thread's context.
        unsafe { core::mem::transmute::<u64, extern "C" fn()>(section.hot)() };
        sys::set_mask(mask);
    }

    /// How the next block is built.
    fn config(&self, number: u32, once: bool) -> Config {
        let mut config = CONFIG;
        config.offsets.count += 8 * (number & 7);
        config.watched = (own_memory::low() + WATCHED) as u32;
        config.tables = own_memory::low() as u32;
        config.counter = counts::next();
        config.watches = self.watches;
        config.own_clock = clock::on();
        config.in_turn = turns::on();
        config.own_machine = machine::on();
        config.own_random = machine::own_random();
        config.requests = collect::on();
        config.components = machine::shown().components;
        if call_tree::on() {
            config.calls = Some(call_tree::offsets());
        }
        config.noting = references::next();
        if once {
            config.limit = 1;
        }
        config
    }

    /// Keeps a block's exits under their numbers.
    fn note_exits(&mut self, built: &block::Block, number: u32, first: u32, once: bool) {
        let exits = built.exits.iter().take(built.exit_count.min(MAX_EXITS));
        for (at, exit) in exits.enumerate() {
            let patch = if once { 0 } else { exit.patch };
            let side = exit.side.filter(|_| !once);
            *self.exits.get(first as usize + at) =
                Exit::new(number, exit.target, patch, exit.stub, side);
        }
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
        let at = self.section(pages, pc);
        let literal = self.sections.get(at).literal();
        let mut section = *self.sections.get(at);
        let Some((number, first_exit)) = self.next_numbers(at) else {
            self.full(pc);
        };
        if self.entries.room() == 0 && self.free_entry == NONE {
            self.full(pc);
        }
        let mut hot = code(section.hot, MOST_HOT);
        let mut cold = code(section.cold, MOST_COLD);
        let mut config = self.config(number, once);
        config.literal = literal;
        let mut side = self
            .side_of(exit)
            .filter(|side| reaches(side.branch + 4, hot.here()));
        let miss = via.map_or(0, |via| self.miss(section.hot, via.number()));
        let mut reader = Reader {
            live: &mut self.live,
            pages,
        };
        let mut entry = None;
        if let Some(via) = via {
            let code = emit_entry(&mut hot, &OFFSETS, ways(), via, pc, miss);
            entry = Some((via, code));
        }
        let front = hot.here();
        if let Some(side) = side {
            let mut way = side.way;
            way.added = take_over(&mut config, way.added, once);
            let filter = config.noting.and_then(|noting| noting.filter);
            way.emit(&mut hot, &OFFSETS, filter.as_ref());
        }
        let mut built = block::build(&mut reader, &config, pc, first_exit, &mut hot, &mut cold);
        let compared = !once && pages.is_compared(pc, u64::from(built.guest_len));
        let (limit, hidden) = ahead::ends_early(pages, pc, built.insns, [once, compared]);
        if let Some(limit) = limit {
            config.limit = limit;
            config.pending = 0;
            (hot, cold) = (code(section.hot, MOST_HOT), code(section.cold, MOST_COLD));
            (entry, side) = (None, None);
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
        let described = references::describe(pc, &built);
        counts::describe(pc, &built, described);
        let last = pc + u64::from(built.guest_len.max(1)) - 1;
        let mut copy = 0;
        if once || !pages.is_constant(pc) || !pages.is_constant(last) {
            copy = put_copy(&mut cold, pc, u64::from(built.guest_len));
        }
        let records = put_records(&mut cold, &built);
        check!(!cold.overflowed(), "a block at {pc:#x} is too large");
        self.note_exits(&built, number, first_exit, once);
        (section.hot, section.cold) = (hot.here(), cold.here());
        // Filling it has given numbers to the block only.
        let place = self.sections.get(at);
        (place.hot, place.cold) = (section.hot, section.cold);
        if let Some(value) = built.literal {
            // SAFETY: a place that the section has for it.
            unsafe { (literal as *mut u64).write(value) };
            place.take_literal();
        }
        let front_first = config.pending != 0;
        let enter = if front_first { front } else { built.body };
        let direct = if front_first { built.body } else { front };
        let block = Block {
            pc,
            body: built.body,
            enter: Near::new(built.body, enter),
            pending: config.pending,
            host_end: Near::new(built.body, section.hot),
            syscall: Near::new(built.body, built.syscall),
            hook: Near::new(built.body, built.hook),
            first_exit,
            guest_len: built.guest_len,
            records: Near::new(built.body, records),
            record_count: built.record_count as u16,
            insns: built.insns,
            counter: config.counter.unwrap_or(0),
            words: built.words,
            exit_count: built.exit_count as u8,
            copy: Near::new(built.body, copy),
            valid: true,
            unsupported: built.end == End::Unsupported,
            compared,
            hidden,
            ..Block::NONE
        };
        self.note_block(number, block, built.exit_count.min(MAX_EXITS));
        if side.is_some() && !compared {
            self.link_directly(exit, number, direct);
        }
        if let Some((via, code)) = entry {
            self.add_entry(number, via, code);
        }
        self.enter_table(pages, pc, number, once);
        Some(number)
    }

    /// Makes a new block one that is found; one that runs `once`, only where it is looked for.
    fn enter_table(&mut self, pages: &mut Pages, pc: u64, number: u32, once: bool) {
        if !once {
            self.insert(pc, number);
            pages.note(self, number);
        } else if let Some(place) = self.once.get_mut(once_slot(pc)) {
            *place = (pc, number);
        }
    }

    /// The block at `pc` is to begin with a hook from now on.
    pub fn ask_at(&mut self, pc: u64) {
        if let Some(number) = self.look_up(pc) {
            self.invalidate(number);
            self.forget(pc);
        }
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
        let copy = block.at(block.copy);
        if copy == 0 || block.unsupported {
            return false;
        }
        let len = u64::from(block.guest_len);
        // SAFETY: the copy is ours.
        pages.executable(block.pc, len)
            && unsafe { program_memory::is_same_code(copy, block.pc, len) }
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

    pub fn records(&self, block: &Block) -> &[Record] {
        let (at, count) = (
            block.at(block.records) as *const Record,
            usize::from(block.record_count),
        );
        // SAFETY: `translate` wrote as many there, two bytes each; they stay as long as the block.
        unsafe { core::slice::from_raw_parts(at, count) }
    }
}

const _: () =
    assert!(core::mem::size_of::<Record>() == 2 && core::mem::offset_of!(Record, guest) == 0);
