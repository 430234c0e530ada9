//! The rings of noted memory references (`option::REFERENCES`; what is in them: `xlate::references`).
//!
//! Translated code fills a thread's ring; the launcher reads it, part by part, while the program runs, and what is left
//! at its end (`virt::references`). Where blocks are described: slots of their own, 64 MiB each, that are never
//! taken again. A description: the block's address; number of instructions (low half), bytes (next 16 bits), words of
//! a block (high 16 bits); the bytes.

use crate::block::Block;
use crate::cache::kept;
use crate::check;
use crate::entry::{self, address};
use crate::known::{self, word};
use crate::layout::{
    CONTEXT_BYTES, Context, REGION, RING, option, region_offset, state as slot_state,
};
use crate::lock::Mutex;
use crate::recent;
use crate::ring;
use crate::slots::{self, slot};
use crate::snapshot::Piece;
use crate::xlate::block;
use crate::xlate::decode::{Kind, MAX_LEN, decode};
use crate::xlate::known::{Filter, Record};
use crate::xlate::references::{ABSOLUTE, APART, INTERRUPTED, MARK, NODE, Noting, RESUMES, Words};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// 0: not known, 1: off, 2: on, 3: on, and the FS base can be read.
static ON: AtomicU32 = AtomicU32::new(0);
/// Where the first slot of descriptions is, as heads count: what is described there can be kept for other runs.
static BASE: AtomicU64 = AtomicU64::new(0);

/// References are noted.
pub fn on() -> bool {
    ON.load(Relaxed) > 1
}

/// Where the next block is described.
struct Place {
    slot: u32,
    used: u64,
    /// The slot is that of [`BASE`].
    first: bool,
}

static PLACE: Mutex<Place> = Mutex::new(Place {
    slot: 0,
    used: 0,
    first: false,
});

impl Place {
    /// Goes on in a slot of its own.
    fn begin(&mut self) {
        self.slot = slots::new_slot();
        self.used = CONTEXT_BYTES;
        self.first = false;
        slot(self.slot).state().store(slot_state::LOG, Release);
    }

    /// Where the next description is in the totals file.
    fn offset(&self) -> u64 {
        region_offset(self.slot, slots::header().apart) + self.used
    }

    /// The same in words, as it is said: from [`BASE`] on, or with this bit.
    fn said(&self, absolute: u64) -> u64 {
        match self.first {
            true => self.used / 8,
            false => (self.offset() / 8) | absolute,
        }
    }
}

/// Bytes of the longest description.
const LONGEST: u64 = 16 + (block::MAX_INSNS * MAX_LEN) as u64;

/// A new image: decides whether references are noted.
pub fn init() {
    let options = slots::header().options;
    let on = options & option::REFERENCES != 0;
    let reads_fs = options & option::READS_FS != 0;
    ON.store(1 + u32::from(on) + u32::from(on && reads_fs), Relaxed);
    if on {
        let mut place = PLACE.lock();
        place.begin();
        place.first = true;
        BASE.store((place.offset() - place.used) / 8, Relaxed);
    }
}

/// What is described so far, if it can be kept.
pub fn whole() -> Option<Piece> {
    let place = PLACE.lock();
    let at = slots::context_at(place.slot);
    place.first.then(|| Piece {
        at: at + CONTEXT_BYTES,
        bytes: place.used - CONTEXT_BYTES,
    })
}

/// Takes over descriptions that were kept.
pub fn adopt(fd: u64, piece: Piece) -> bool {
    let mut place = PLACE.lock();
    let at = slots::context_at(place.slot) + CONTEXT_BYTES;
    if !place.first || piece.bytes > REGION - CONTEXT_BYTES || !piece.bytes.is_multiple_of(8) {
        return false;
    }
    // SAFETY: a region that is ours, in which nothing is described yet.
    let read = unsafe { kept::read(fd, piece, at) };
    place.used = CONTEXT_BYTES + piece.bytes;
    read
}

/// In a forked child: it describes its blocks in a slot of its own.
pub fn forked() {
    // SAFETY: whoever translates holds the engine's lock, and so did the forking thread: nobody held this one.
    unsafe { PLACE.free_in_child() };
    PLACE.lock().slot = 0;
}

/// A thread's context.
pub fn prepare(context: &mut Context) {
    context.noted.vector = address(entry::rt_references);
    context.noted.base = BASE.load(Relaxed);
    known::prepare(context);
    recent::prepare(context);
    if context.noted.position == 0 {
        context.noted.position = APART;
    }
}

/// How the next block notes its references.
pub fn next() -> Option<Noting> {
    if !on() {
        return None;
    }
    let mut place = PLACE.lock();
    if place.slot == 0 || place.used + LONGEST > REGION {
        place.begin();
    }
    let filter = known::filter().map(|filter| Filter {
        recent: recent::recent(),
        ..filter
    });
    let absolute = match known::on() {
        true => Record::ABSOLUTE,
        false => ABSOLUTE,
    };
    let described = place.said(absolute);
    Some(Noting {
        described,
        ring: RING as u32,
        position: offset_of!(Context, noted.position) as u32,
        vector: offset_of!(Context, noted.vector) as u32,
        reads_fs: ON.load(Relaxed) == 3,
        wide_masks: slots::header().options & option::WIDE_MASKS != 0,
        filter,
    })
}

/// Describes a block that was just translated as [`next`] said. Returns where, as it is said, if that is not in its head.
pub fn describe(pc: u64, built: &block::Block) -> Option<u64> {
    if built.words == 0 {
        return None;
    }
    let mut place = PLACE.lock();
    let said = place.said(Record::ABSOLUTE);
    let at = slots::context_at(place.slot) + place.used;
    let counts = u64::from(built.insns)
        | (u64::from(built.guest_len) & 0xffff) << 32
        | u64::from(built.words) << 48;
    check!(
        u64::from(built.guest_len) + 16 <= LONGEST,
        "a block at {pc:#x} is too long"
    );
    // SAFETY: inside a region that is ours; the program's bytes were just decoded.
    unsafe {
        (at as *mut u64).write(pc);
        (at as *mut u64).add(1).write(counts);
        for byte in 0..u64::from(built.guest_len) {
            ((at + 16 + byte) as *mut u8).write(*((pc + byte) as *const u8));
        }
    }
    place.used += (16 + u64::from(built.guest_len)).next_multiple_of(8);
    known::on().then_some(said)
}

/// Where the head of the thread's last block is.
fn last_head(context: &Context, block: &Block) -> u32 {
    let noted = &context.noted;
    // Marks may have been written since.
    let marks = match noted.marked == noted.position {
        true => noted.marks,
        false => 0,
    };
    noted.position.wrapping_sub(u32::from(block.words) + marks)
}

/// A thread left `block`, whose head is in the ring, after `done` instructions.
pub fn left(context: &Context, block: &Block, done: u16) {
    if context.probing != 0 || block.words == 0 || known::on() {
        return;
    }
    let head = last_head(context, block);
    // SAFETY: the head of the thread's last block.
    unsafe {
        let place = word(context, head);
        let described = place.read() & ((1 << 48) - 1);
        place.write(described | u64::from(done + 1) << 48);
    }
}

/// A thread was interrupted in a string instruction at `pc`, the one behind `done` of `block`'s: what it has done so
/// far counts; what is left is noted when it goes on.
pub fn interrupted(context: &Context, block: &Block, done: u16, registers: &[u64; 16]) {
    if context.probing != 0 || block.words == 0 {
        return;
    }
    let head = last_head(context, block);
    let (mut pc, mut at) = (block.pc, head + 1);
    for number in 0..=done {
        let mut bytes = [0u8; MAX_LEN];
        for (to, from) in bytes
            .iter_mut()
            .zip(pc..block.pc + u64::from(block.guest_len))
        {
            // SAFETY: a block's bytes; it is being executed.
            *to = unsafe { *(from as *const u8) };
        }
        let Ok(insn) = decode(&bytes) else { return };
        let words = Words::of(&insn, &bytes);
        if number == done {
            let before = words.in_front() as u32;
            if insn.kind != Kind::Plain || words.after().next().is_none() {
                return;
            }
            for (place, register) in (at + before..).zip(words.after()) {
                let value = registers.get(usize::from(register)).copied().unwrap_or(0);
                // SAFETY: words of the thread's last block.
                unsafe { word(context, place).write(value) };
            }
        }
        at += words.len() as u32;
        pc += u64::from(insn.len);
    }
    // SAFETY: the head, as `left` wrote it.
    unsafe {
        let place = word(context, head);
        place.write(place.read() | u64::from(INTERRUPTED) << 48);
    }
}

/// Writes a mark (`xlate::references::MARK`) between two blocks.
pub fn mark(context: &mut Context, mark: u64) {
    let more = context.noted.marked == context.noted.position;
    let more = ring::put(context, &[mark]) && more;
    context.noted.marks = if more { context.noted.marks + 1 } else { 1 };
    context.noted.marked = context.noted.position;
}

/// A signal is delivered to a thread that would have gone on at `pc`: whether the last block's branch was taken follows from
/// that, where blocks are noted.
pub fn resumes(context: &mut Context, pc: u64) {
    if on() && !known::on() && pc < MARK {
        mark(context, MARK | RESUMES | pc);
    }
}

/// Says in which node of the tree of calls the thread is from here on, as the routines of `call_routines` do.
pub fn node(context: &mut Context) {
    if on() {
        mark(context, MARK | NODE | context.calls.node);
    }
}

/// What the thread notes from here on is of no use to anybody, or of use again.
pub fn idle(context: &mut Context, idle: bool) {
    context.noted.idle = if idle { context.noted.position } else { 0 };
}
