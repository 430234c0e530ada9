//! Code areas, blocks, direct links and the indirect-branch tables.
//!
//! An area is 256 MiB of code within reach of the program code it translates:
//! hot code from the bottom, cold stubs and literals from the middle. Blocks
//! stay where they are; an invalidated one loses its links and its entries.

use crate::check;
use crate::entry::{self, address};
use crate::layout::{Context, JUMP_TABLE, RET_TABLE};
use crate::pages;
use crate::state::{self, Global, Table};
use crate::sys;
use crate::xlate::block::{self, Config, End, MAX_EXITS, Record, Source};
use crate::xlate::decode::{Kind, MAX_LEN, decode, flag};
use crate::xlate::emit::{Buffer, reaches};
use crate::xlate::entry::{Offsets, Via, emit_entry};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

const AREA: u64 = 256 << 20;
const HOT: u64 = 160 << 20;
const MAX_AREAS: usize = 64;
/// No block, no exit.
pub const NONE: u32 = u32::MAX;

pub const OFFSETS: Offsets = Offsets {
    count: offset_of!(Context, count) as u32,
    spill_rax: offset_of!(Context, spill_rax) as u32,
    target: offset_of!(Context, target) as u32,
    spill_2: offset_of!(Context, spill_2) as u32,
    exit_id: offset_of!(Context, exit_id) as u32,
    vector_exit: offset_of!(Context, vector_exit) as u32,
    vector_syscall: offset_of!(Context, vector_syscall) as u32,
    vector_special: offset_of!(Context, vector_special) as u32,
    vector_miss_ret: offset_of!(Context, vector_miss_ret) as u32,
    vector_miss_jump: offset_of!(Context, vector_miss_jump) as u32,
};

const CONFIG: Config = Config {
    offsets: OFFSETS,
    ret_table: RET_TABLE as u32,
    jump_table: JUMP_TABLE as u32,
    force_far: false,
    limit: block::MAX_INSNS,
};

/// One code area. `hot` and `cold` are the next free addresses.
#[derive(Clone, Copy)]
struct Area {
    base: u64,
    hot: u64,
    cold: u64,
    miss_ret: u64,
    miss_jump: u64,
}

/// A translated block.
#[derive(Clone, Copy)]
pub struct Block {
    pub pc: u64,
    pub body: u64,
    pub host_end: u64,
    pub syscall: u64,
    /// Entry addresses (0: none yet) for returns and jumps.
    pub entries: [u64; 2],
    /// Where each entry's way on to the next of its bucket is patched.
    patches: [u64; 2],
    /// Next block of the bucket.
    chain: [u32; 2],
    /// Exits that lead here.
    incoming: u32,
    pub first_exit: u32,
    /// Next block on the same page, for the first and the last page.
    pub page_next: [u32; 2],
    pub guest_len: u32,
    records: u32,
    pub record_count: u16,
    pub insns: u16,
    pub exit_count: u8,
    pub live_in: u8,
    pub valid: bool,
    pub unsupported: bool,
}

/// A direct exit.
#[derive(Clone, Copy)]
pub struct Exit {
    pub target: u64,
    patch: u64,
    stub: u64,
    pub block: u32,
    next: u32,
    /// It is linked: two threads may take it before either sees the link.
    linked: bool,
}

pub struct Cache {
    areas: [Option<Area>; MAX_AREAS],
    area_count: usize,
    pub blocks: Table<Block>,
    pub exits: Table<Exit>,
    records: Table<Record>,
    hash: *mut u32,
    hash_bits: u32,
    hash_used: usize,
    bucket: [Table<u32>; 2],
    live: [(u64, u8); 512],
}

pub static CACHE: Global<Cache> = Global::new(Cache {
    areas: [None; MAX_AREAS],
    area_count: 0,
    blocks: Table::new(),
    exits: Table::new(),
    records: Table::new(),
    hash: core::ptr::null_mut(),
    hash_bits: 0,
    hash_used: 0,
    bucket: [Table::new(), Table::new()],
    live: [(u64::MAX, 0); 512],
});

/// Areas as (base) for signal handlers, without the lock.
static AREA_BASES: [AtomicU64; MAX_AREAS] = [const { AtomicU64::new(0) }; MAX_AREAS];
static AREA_COUNT: AtomicU32 = AtomicU32::new(0);

/// Whether a host address lies in translated code.
pub fn in_code(address: u64) -> bool {
    let count = AREA_COUNT.load(Acquire) as usize;
    AREA_BASES
        .iter()
        .take(count)
        .any(|base| address.wrapping_sub(base.load(Relaxed)) < AREA)
}

/// Whether a range touches memory of the engine.
pub fn overlaps_engine(start: u64, end: u64) -> bool {
    let touches = |low: u64, high: u64| start < high && low < end;
    let count = AREA_COUNT.load(Acquire) as usize;
    touches(crate::layout::RUNTIME_BASE, JUMP_TABLE + crate::layout::TABLE_BYTES)
        || touches(crate::layout::TOTALS_BASE, state::arena_end())
        || AREA_BASES.iter().take(count).any(|base| {
            let base = base.load(Relaxed);
            touches(base, base + AREA)
        })
}

struct Reader<'a> {
    live: &'a mut [(u64, u8); 512],
    pages: &'a mut pages::Pages,
}

impl Source for Reader<'_> {
    fn fetch(&mut self, pc: u64, out: &mut [u8; MAX_LEN]) -> usize {
        self.pages.fetch(pc, out)
    }

    /// Looks a few instructions ahead, never into code that may change.
    fn live_flags(&mut self, pc: u64) -> u8 {
        let slot = (pc ^ pc >> 9) as usize & 511;
        if let Some(&(at, live)) = self.live.get(slot)
            && at == pc
        {
            return live;
        }
        let (mut live, mut dead) = (0u8, 0u8);
        let mut at = pc;
        for step in 0..12 {
            let mut bytes = [0u8; MAX_LEN];
            if !self.pages.is_constant(at) {
                live |= flag::ALL & !dead;
                break;
            }
            let readable = self.pages.fetch(at, &mut bytes);
            let Ok(insn) = decode(bytes.get(..readable).unwrap_or(&[])) else {
                live |= flag::ALL & !dead;
                break;
            };
            live |= insn.flags_read() & !dead;
            dead |= insn.flags_written();
            if dead == flag::ALL || live | dead == flag::ALL {
                break;
            }
            at = at.wrapping_add(u64::from(insn.len));
            match insn.kind {
                Kind::Plain if step < 11 => {}
                Kind::Jmp | Kind::Call if step < 11 => {
                    at = at.wrapping_add_signed(i64::from(insn.rel));
                }
                _ => {
                    live |= flag::ALL & !dead;
                    break;
                }
            }
        }
        if let Some(place) = self.live.get_mut(slot) {
            *place = (pc, live);
        }
        live
    }
}

fn hash_of(pc: u64, bits: u32) -> usize {
    (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

impl Cache {
    pub fn init(&mut self) {
        self.blocks.init(8 << 20);
        self.exits.init(24 << 20);
        self.records.init(192 << 20);
        for bucket in &mut self.bucket {
            bucket.init(65_536);
            // Lazily zero: entries are block number + 1.
            bucket.claim(65_536);
        }
        self.hash_bits = 14;
        self.hash = state::reserve(4 << self.hash_bits) as *mut u32;
    }

    fn slot(&self, at: usize) -> u32 {
        // SAFETY: callers mask with the table's size.
        unsafe { *self.hash.add(at & ((1 << self.hash_bits) - 1)) }
    }

    /// The block for `pc`, if translated.
    pub fn find(&mut self, pc: u64) -> Option<u32> {
        let mut at = hash_of(pc, self.hash_bits);
        loop {
            let entry = self.slot(at);
            if entry == 0 {
                return None;
            }
            if entry != NONE && self.blocks.get(entry as usize - 1).pc == pc {
                return Some(entry - 1);
            }
            at += 1;
        }
    }

    fn insert(&mut self, pc: u64, number: u32) {
        if (self.hash_used + 1) * 2 > 1 << self.hash_bits {
            let (old, old_bits) = (self.hash, self.hash_bits);
            self.hash_bits += 1;
            self.hash = state::reserve(4 << self.hash_bits) as *mut u32;
            self.hash_used = 0;
            for at in 0..1usize << old_bits {
                // SAFETY: inside the old table.
                let entry = unsafe { *old.add(at) };
                if entry != 0 && entry != NONE {
                    let pc = self.blocks.get(entry as usize - 1).pc;
                    self.insert(pc, entry - 1);
                }
            }
        }
        let mask = (1usize << self.hash_bits) - 1;
        let mut at = hash_of(pc, self.hash_bits);
        while self.slot(at) != 0 {
            at += 1;
        }
        // SAFETY: masked.
        unsafe { *self.hash.add(at & mask) = number + 1 };
        self.hash_used += 1;
    }

    fn forget(&mut self, pc: u64) {
        let mask = (1usize << self.hash_bits) - 1;
        let mut at = hash_of(pc, self.hash_bits);
        loop {
            let entry = self.slot(at);
            if entry == 0 {
                return;
            }
            if entry != NONE && self.blocks.get(entry as usize - 1).pc == pc {
                // SAFETY: masked. A tombstone.
                unsafe { *self.hash.add(at & mask) = NONE };
                return;
            }
            at += 1;
        }
    }

    /// The area that serves code at `pc`: within reach, with room.
    fn area(&mut self, pc: u64) -> usize {
        for at in 0..self.area_count {
            if let Some(Some(area)) = self.areas.get(at)
                && pc.wrapping_sub(area.base).wrapping_add(0x7000_0000) < 0xd000_0000
                && area.hot + 0x8000 < area.base + HOT
                && area.cold + 0x8000 < area.base + AREA
            {
                return at;
            }
        }
        self.new_area(pc)
    }

    fn new_area(&mut self, pc: u64) -> usize {
        let around = pc & !0xfff_ffff;
        let low = if pc < 0x6000_0000 { 0x6000_0000 } else { 0 };
        let near = [-4i64, -5, -3, -6, -2, 4, 5, 3, 6, 2]
            .map(|steps| around.wrapping_add_signed(steps * AREA as i64));
        // PROT_READ|WRITE|EXEC; PRIVATE|ANONYMOUS|NORESERVE|FIXED_NOREPLACE
        let flags = 0x2 | 0x20 | 0x4000 | 0x10_0000;
        for at in core::iter::once(low).chain(near) {
            if at == 0 || at >> 47 != 0 || at < 0x1000_0000 {
                continue;
            }
            // SAFETY: a fresh mapping or an error.
            let got = unsafe { sys::call(sys::MMAP, [at, AREA, 7, flags, u64::MAX, 0]) };
            if got < 0 {
                continue;
            }
            if got as u64 != at {
                // SAFETY: a kernel without MAP_FIXED_NOREPLACE put it elsewhere: give it back.
                unsafe { sys::call(11, [got as u64, AREA, 0, 0, 0, 0]) };
                continue;
            }
            let number = self.area_count;
            check!(number < MAX_AREAS, "too many code areas");
            let mut area = Area {
                base: at,
                hot: at,
                cold: at + HOT,
                miss_ret: 0,
                miss_jump: 0,
            };
            let mut thunks = code(at + HOT, 64);
            area.miss_ret = thunks.here();
            thunks.jump_gs(OFFSETS.vector_miss_ret);
            area.miss_jump = thunks.here();
            thunks.jump_gs(OFFSETS.vector_miss_jump);
            area.cold += 64;
            if let Some(place) = self.areas.get_mut(number) {
                *place = Some(area);
            }
            self.area_count += 1;
            AREA_BASES[number].store(at, Relaxed);
            AREA_COUNT.store(self.area_count as u32, Release);
            return number;
        }
        crate::report::fail(format_args!("no room for translated code near {pc:#x}"))
    }

    /// Translates the block at `pc`. `via` asks for an entry in front of it;
    /// `once` makes a block of one instruction that nothing will find again.
    pub fn translate(&mut self, pc: u64, via: Option<Via>, once: bool) -> Option<u32> {
        let pages = pages::PAGES.get();
        if !pages.readable(pc) {
            return None;
        }
        let at = self.area(pc);
        let Some(Some(mut area)) = self.areas.get(at).copied() else {
            return None;
        };
        let mut hot = code(area.hot, 0x4000);
        let mut cold = code(area.cold, 0x4000);
        let mut config = CONFIG;
        config.offsets.count += 8 * (self.blocks.len() as u32 & 7);
        if once {
            config.limit = 1;
        }
        let first_exit = self.exits.len() as u32;
        let mut reader = Reader {
            live: &mut self.live,
            pages,
        };
        let mut entries = [0u64; 2];
        let mut patches = [0u64; 2];
        if let Some(via) = via {
            // The entry needs to know whether flags are live at the block's start:
            // the same look-ahead tells, cautiously.
            let live = reader.live_flags(pc) != 0;
            let (slot, miss) = match via {
                Via::Ret => (0, area.miss_ret),
                Via::Jump => (1, area.miss_jump),
            };
            entries[slot] = hot.here();
            patches[slot] = emit_entry(&mut hot, &OFFSETS, via, pc, live, miss);
        }
        let built = block::build(&mut reader, &config, pc, first_exit, &mut hot, &mut cold);
        check!(
            !hot.overflowed() && !cold.overflowed(),
            "a block at {pc:#x} is too large"
        );
        if built.end == End::Unreadable {
            return None;
        }
        let number = self.blocks.len() as u32;
        let records = self.records.len() as u32;
        for &record in built.records.iter().take(built.record_count) {
            self.records.push(record);
        }
        for exit in built.exits.iter().take(built.exit_count.min(MAX_EXITS)) {
            self.exits.push(Exit {
                target: exit.target,
                patch: if once { 0 } else { exit.patch },
                stub: exit.stub,
                block: number,
                next: NONE,
                linked: false,
            });
        }
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
            entries,
            patches,
            chain: [NONE; 2],
            incoming: NONE,
            first_exit,
            page_next: [NONE; 2],
            guest_len: built.guest_len,
            records,
            record_count: built.record_count as u16,
            insns: built.insns,
            exit_count: built.exit_count as u8,
            live_in: built.live_in,
            valid: true,
            unsupported: built.end == End::Unsupported,
        });
        if !once {
            self.insert(pc, number);
            pages::PAGES.get().note(self, number);
        }
        Some(number)
    }

    /// Links an exit to a block, if a displacement reaches.
    pub fn link(&mut self, exit: u32, block: u32) {
        let body = self.blocks.get(block as usize).body;
        let exits = self.exits.get(exit as usize);
        let from = exits.patch;
        if from == 0 || exits.linked {
            return;
        }
        let owner = exits.block;
        if !self.blocks.get(owner as usize).valid {
            return;
        }
        let to = if reaches(from + 4, body) {
            body
        } else {
            self.far_jump(from, body)
        };
        patch(from, to);
        let head = self.blocks.get(block as usize).incoming;
        let exits = self.exits.get(exit as usize);
        (exits.next, exits.linked) = (head, true);
        self.blocks.get(block as usize).incoming = exit;
    }

    /// `jmp [rip+0]` with the address behind it, in the area of `from`.
    fn far_jump(&mut self, from: u64, to: u64) -> u64 {
        for area in self.areas.iter_mut().flatten() {
            if from.wrapping_sub(area.base) < AREA {
                let mut cold = code(area.cold, 32);
                let here = cold.here();
                cold.put(&[0xff, 0x25, 0, 0, 0, 0]);
                cold.put(&to.to_le_bytes());
                area.cold = cold.here();
                return here;
            }
        }
        to
    }

    /// Makes `block` reachable by indirect branches of one sort.
    pub fn publish(&mut self, block: u32, via: Via) {
        let way = if via == Via::Ret { 0 } else { 1 };
        let info = *self.blocks.get(block as usize);
        if info.entries[way] == 0 {
            let at = self.area_of(info.body);
            let Some(Some(area)) = self.areas.get_mut(at) else { return };
            let miss = if way == 0 { area.miss_ret } else { area.miss_jump };
            let mut cold = code(area.cold, 256);
            let start = cold.here();
            let patch = emit_entry(&mut cold, &OFFSETS, via, info.pc, info.live_in != 0, miss);
            cold.jmp(info.body);
            area.cold = cold.here();
            let target = self.blocks.get(block as usize);
            target.entries[way] = start;
            target.patches[way] = patch;
        }
        let info = *self.blocks.get(block as usize);
        let index = (info.pc & 0xffff) as usize;
        let head = *self.bucket[way].get(index);
        // Already in the bucket?
        let mut at = head;
        while at != 0 {
            if at - 1 == block {
                return;
            }
            let next = self.blocks.get(at as usize - 1).chain[way];
            at = if next == NONE { 0 } else { next + 1 };
        }
        if head != 0 {
            let onward = self.blocks.get(head as usize - 1).entries[way];
            self.blocks.get(block as usize).chain[way] = head - 1;
            let from = info.patches[way];
            let to = if reaches(from + 4, onward) {
                onward
            } else {
                self.far_jump(from, onward)
            };
            patch(from, to);
        }
        *self.bucket[way].get(index) = block + 1;
        set_table(way, index, info.entries[way]);
    }

    fn area_of(&self, host: u64) -> usize {
        self.areas
            .iter()
            .position(|a| a.is_some_and(|a| host.wrapping_sub(a.base) < AREA))
            .unwrap_or(0)
    }

    /// Takes a block out of every table and unlinks what leads to it.
    pub fn invalidate(&mut self, number: u32) {
        let info = *self.blocks.get(number as usize);
        if !info.valid {
            return;
        }
        self.blocks.get(number as usize).valid = false;
        self.forget(info.pc);
        self.live = [(u64::MAX, 0); 512];
        let mut exit = info.incoming;
        while exit != NONE {
            let e = *self.exits.get(exit as usize);
            patch(e.patch, e.stub);
            self.exits.get(exit as usize).linked = false;
            exit = e.next;
        }
        for way in 0..2 {
            if info.entries[way] == 0 {
                continue;
            }
            let index = (info.pc & 0xffff) as usize;
            let head = *self.bucket[way].get(index);
            let next = info.chain[way];
            if head == number + 1 {
                *self.bucket[way].get(index) = if next == NONE { 0 } else { next + 1 };
                let onward = match next {
                    NONE => default_entry(way),
                    next => self.blocks.get(next as usize).entries[way],
                };
                set_table(way, index, onward);
                continue;
            }
            let mut at = head;
            while at != 0 {
                let before = *self.blocks.get(at as usize - 1);
                if before.chain[way] == number {
                    let area = self.areas[self.area_of(before.body)];
                    let miss = area.map_or(0, |a| if way == 0 { a.miss_ret } else { a.miss_jump });
                    let onward = match next {
                        NONE => miss,
                        next => self.blocks.get(next as usize).entries[way],
                    };
                    let from = before.patches[way];
                    let to = if reaches(from + 4, onward) {
                        onward
                    } else {
                        self.far_jump(from, onward)
                    };
                    patch(from, to);
                    self.blocks.get(at as usize - 1).chain[way] = next;
                    break;
                }
                at = if before.chain[way] == NONE { 0 } else { before.chain[way] + 1 };
            }
        }
    }

    /// The block whose body (entries excluded) holds a host address.
    pub fn block_at(&mut self, host: u64) -> Option<u32> {
        // Blocks of one area are in address order, areas interleave: search the
        // blocks of this area by bisection over the ordered numbers is not
        // possible, so each area keeps its own order through `area_blocks`.
        let len = self.blocks.len();
        let blocks = self.blocks.slice();
        let area = self.area_of(host);
        let base = self.areas.get(area).copied().flatten()?.base;
        let inside = |b: &Block| b.body.wrapping_sub(base) < AREA;
        // Bisect, skipping to the nearest block of this area.
        let (mut low, mut high) = (0usize, len);
        while low < high {
            let mut middle = (low + high) / 2;
            let start = middle;
            while middle < high && !blocks.get(middle).is_some_and(inside) {
                middle += 1;
            }
            if middle == high {
                high = start;
                continue;
            }
            let block = blocks.get(middle)?;
            if host < block.body {
                high = start;
            } else if host >= block.host_end {
                low = middle + 1;
            } else {
                return Some(middle as u32);
            }
        }
        None
    }

    pub fn records(&self, block: &Block) -> &[Record] {
        let from = block.records as usize;
        self.records
            .slice()
            .get(from..from + usize::from(block.record_count))
            .unwrap_or(&[])
    }
}

/// A buffer over code memory.
fn code(at: u64, len: usize) -> Buffer<'static> {
    // SAFETY: callers pass free space of an area, which is mapped for good.
    Buffer::new(unsafe { core::slice::from_raw_parts_mut(at as *mut u8, len) }, at)
}

/// Redirects a branch: one aligned-enough store of its displacement.
fn patch(at: u64, to: u64) {
    let displacement = to.wrapping_sub(at + 4) as u32;
    // SAFETY: emission keeps the four bytes inside a cache line, so that
    // threads that run there see the old or the new branch.
    unsafe { (at as *mut u32).write_volatile(displacement) };
}

fn default_entry(way: usize) -> u64 {
    address(if way == 0 { entry::rt_miss_ret } else { entry::rt_miss_jump })
}

fn set_table(way: usize, index: usize, value: u64) {
    let base = if way == 0 { RET_TABLE } else { JUMP_TABLE };
    // SAFETY: index < 65536; one aligned word.
    unsafe { ((base as *mut u64).add(index)).write_volatile(value) };
}
