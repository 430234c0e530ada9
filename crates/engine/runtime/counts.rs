//! Where counts go: a thread's running total, or per-block counters with their log (`option::BLOCKS`; format in `log`).
//!
//! All threads of a memory share one log (a *space*, named by the slot of its first thread); each has its own counters
//! in its own region. A forked child keeps the counters it was born with and goes on in a log of its own.

mod corrections;

use crate::block::Block;
use crate::layout::{COUNTERS, Context, LOG, MAX_COUNTERS, option, state as slot_state};
use crate::lock::{Guard, Mutex};
use crate::log::{self, Entry};
use crate::slots::{self, slot};
use crate::syscall_table as nr;
use crate::table::Table;
use crate::xlate::block::{self, Part};
use crate::xlate::facts::{Counts, Event, Facts};
use crate::xlate::known;
use crate::{check, functions, sys};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
pub use corrections::{correct, counts_mispredicted, was_predicted};

static BLOCKS: AtomicBool = AtomicBool::new(false);

/// Blocks have counters of their own.
pub fn per_block() -> bool {
    BLOCKS.load(Relaxed)
}

static TOTAL: AtomicBool = AtomicBool::new(false);

/// Threads have a running total: alone, or beside counters of blocks.
fn in_total() -> bool {
    !per_block() || TOTAL.load(Relaxed)
}

static TREE: AtomicBool = AtomicBool::new(false);

/// There is a tree of calls, too: what threads execute is added to its nodes.
pub fn for_tree() -> bool {
    TREE.load(Relaxed)
}

/// From now on.
pub fn begin_tree() {
    TREE.store(true, Relaxed);
    TOTAL.store(true, Relaxed);
}

/// Slot of the space that threads of this memory count in.
static SPACE: AtomicU32 = AtomicU32::new(0);

pub struct Log {
    /// Slot whose region is being written.
    segment: u32,
    /// Bytes used there.
    used: u32,
    /// Next unused counter.
    next: u32,
    /// Counters of parts that no code counts: (block's counter, which part, counter).
    parts: [(u32, Part, u32); 256],
    /// Fingerprints of the executable mappings known, and those before.
    maps: [Table<u64>; 2],
    current: usize,
}

static LOG_STATE: Mutex<Log> = Mutex::new(Log {
    segment: 0,
    used: 0,
    next: 0,
    parts: [(u32::MAX, Part::NONE, 0); 256],
    maps: [Table::new(), Table::new()],
    current: 0,
});

/// For a `fork`: nobody writes the log meanwhile.
pub fn lock() -> Guard<'static, Log> {
    LOG_STATE.lock()
}

/// Frees the lock in a child made by `fork`.
///
/// # Safety
/// The forking thread held it, and nothing of its guard is used in the child.
pub unsafe fn free_in_child() {
    // SAFETY: the caller's.
    unsafe { LOG_STATE.free_in_child() }
}

/// A new image in `slot`: decides how it counts.
pub fn init(slot: u32) {
    let options = slots::header().options;
    let on = options & option::BLOCKS != 0;
    BLOCKS.store(on, Relaxed);
    if options & (option::CLOCK | option::SCHEDULE) != 0 {
        TOTAL.store(true, Relaxed);
    }
    if on {
        let mut log = LOG_STATE.lock();
        SPACE.store(slot, Relaxed);
        log.segment = slot;
        for table in &mut log.maps {
            table.init(MAPS);
        }
    }
}

/// In a forked child: its own log from here on.
pub fn forked(number: u32) {
    if !per_block() {
        return;
    }
    let mut log = LOG_STATE.lock();
    let slot = slot(number);
    slot.base_counters().store(log.next, Relaxed);
    let [segment, used] = slot.base_log();
    segment.store(log.segment, Relaxed);
    used.store(log.used, Relaxed);
    slot.base().store(SPACE.swap(number, Relaxed), Relaxed);
    slot.counters().store(log.next, Release);
    (log.segment, log.used) = (number, 0);
}

/// The space that new threads of this memory count in.
pub fn space() -> u32 {
    SPACE.load(Relaxed)
}

impl Log {
    fn append(&mut self, words: &[u64]) {
        let bytes = words.len() as u64 * 8;
        if LOG + u64::from(self.used) + bytes > known::AT {
            let more = slots::new_slot();
            slot(more).state().store(slot_state::LOG, Release);
            slot(self.segment).log_more().store(more, Release);
            (self.segment, self.used) = (more, 0);
        }
        let at = slots::context_at(self.segment) + LOG + u64::from(self.used);
        for (number, &word) in words.iter().enumerate() {
            // SAFETY: inside the log of a region that is ours.
            unsafe { (at as *mut u64).add(number).write(word) };
        }
        self.used += bytes as u32;
        slot(self.segment).log_len().store(self.used, Release);
    }

    fn take(&mut self) -> u32 {
        check!(
            self.next < MAX_COUNTERS,
            "more than {MAX_COUNTERS} translated blocks in one process"
        );
        self.next += 1;
        slot(space()).counters().store(self.next, Release);
        self.next - 1
    }
}

/// The counter of the next block (and those of its parts behind it).
pub fn next() -> Option<u32> {
    per_block().then(|| {
        let next = LOG_STATE.lock().next;
        check!(
            next + (block::MAX_PARTS as u32) < MAX_COUNTERS,
            "more than {MAX_COUNTERS} translated blocks in one process"
        );
        next
    })
}

/// In a new image that takes over blocks of an earlier one with this many
/// counters: the next block's comes behind them.
pub fn go_on_at(counters: u32) {
    if per_block() {
        LOG_STATE.lock().next = counters;
        slot(space()).counters().store(counters, Release);
    }
}

/// Counters taken so far.
pub fn used() -> u32 {
    LOG_STATE.lock().next
}

/// Entries of blocks that were taken over and can be executed from now on; the
/// mappings they lie in have been noted.
pub fn take_over(mut words: &[u64]) {
    let mut log = LOG_STATE.lock();
    while let Some((_, used)) = log::entry(words) {
        // In parts that can go on in another slot.
        let mut len = used;
        while let Some((_, used)) = words.get(len..).and_then(log::entry)
            && len + used <= 4096
        {
            len += used;
        }
        log.append(words.get(..len).unwrap_or(&[]));
        words = words.get(len..).unwrap_or(&[]);
    }
}

/// This image's log, if it is all in its own slot.
pub fn whole_log() -> Option<&'static [u64]> {
    let log = LOG_STATE.lock();
    if log.segment != space() || slot(space()).base().load(Relaxed) != 0 {
        return None;
    }
    let start = (slots::context_at(space()) + LOG) as *const u64;
    // SAFETY: written up to there, and never changed again.
    Some(unsafe { core::slice::from_raw_parts(start, log.used as usize / 8) })
}

/// Describes a block that was just translated with [`next`]'s counter.
pub fn describe(pc: u64, built: &block::Block, described: Option<u64>) {
    if !per_block() || built.insns == 0 {
        return;
    }
    let mut log = LOG_STATE.lock();
    let counter = log.take();
    let facts = built.facts.get(..usize::from(built.insns)).unwrap_or(&[]);
    let mut words = [0u64; log::LONGEST];
    let len = log::write_block(&mut words, counter, pc, facts);
    log.append(words.get(..len).unwrap_or(&[]));
    for part in built.parts.iter().take(built.part_count) {
        let number = log.take();
        let words = log::write_part(number, counter, *part, facts);
        log.append(&words);
    }
    if let Some(at) = described {
        log.append(&log::write_described(counter, at));
    }
}

/// A counter of a slot's thread.
fn place_of(slot: u32, counter: u32) -> *mut u64 {
    (slots::context_at(slot) + u64::from(COUNTERS) + u64::from(counter) * 8) as *mut u64
}

fn add(context: &Context, counter: u32, value: u64) {
    // SAFETY: the thread's own region, or that aside; only this thread writes there.
    unsafe {
        let place = match context.region.aside {
            at if at != 0 && at == context.region.counts_at => {
                (at + u64::from(COUNTERS) + u64::from(counter) * 8) as *mut u64
            }
            _ => place_of(slots::slot_of(context), counter),
        };
        place.write_volatile(place.read_volatile().wrapping_add(value));
    }
}

/// The facts of a block's instructions, while the log is not written.
fn found(_log: &Log, block: &Block) -> [Facts; block::MAX_INSNS] {
    let mut facts = [Facts(0); block::MAX_INSNS];
    each(space(), &mut |entry| {
        if let Entry::Block {
            counter,
            facts: found,
            ..
        } = entry
            && counter == block.counter
        {
            for (to, from) in facts.iter_mut().zip(found.iter()) {
                *to = from;
            }
        }
    });
    facts
}

/// The facts of a block's instructions.
pub fn facts(block: &Block) -> [Facts; block::MAX_INSNS] {
    found(&LOG_STATE.lock(), block)
}

/// Calls `f` for every entry that is valid in a space, oldest log first.
fn each(space: u32, f: &mut dyn FnMut(Entry<'_>)) {
    // A space and those it was forked from, youngest first.
    let (mut number, mut below) = (space, u32::MAX);
    while number != 0 {
        let mut segment = number;
        while segment != 0 {
            let len = slot(segment).log_len().load(Acquire) as usize / 8;
            let start = (slots::context_at(segment) + LOG) as *const u64;
            // SAFETY: written before the length was.
            let mut words = unsafe { core::slice::from_raw_parts(start, len) };
            while let Some((entry, used)) = log::entry(words) {
                if let Entry::Block { counter, .. } | Entry::Part { counter, .. } = entry
                    && counter < below
                {
                    f(entry);
                }
                words = words.get(used..).unwrap_or(&[]);
            }
            segment = slot(segment).log_more().load(Acquire);
        }
        below = below.min(slot(number).base_counters().load(Relaxed));
        number = slot(number).base().load(Relaxed);
    }
}

/// The instructions of a thread so far, at an instruction boundary.
pub fn instructions(number: u32) -> u64 {
    match in_total() {
        true => slot(number).total(),
        false => sum_events(number)[Event::Instructions as usize],
    }
}

/// All events of a thread so far, at an instruction boundary: what `read` of a virtual counter needs. Costs about
/// 10 ns a translated block in per-block mode. In running-total mode only [`Event::Instructions`] is known.
pub fn sum_events(number: u32) -> Counts {
    let mut sums = Counts::default();
    if !per_block() {
        sums[Event::Instructions as usize] = instructions(number);
        return sums;
    }
    let _log = LOG_STATE.lock();
    each(slot(number).space(), &mut |entry| {
        if let Entry::Block { counter, .. } | Entry::Part { counter, .. } = entry {
            // SAFETY: the thread's own region; it may add to the counter meanwhile.
            let value = unsafe { place_of(number, counter).read_volatile() };
            entry.add(value, &mut sums);
        }
    });
    sums
}

/// Mappings remembered at once.
const MAPS: usize = 16_384;

/// Notes the executable mappings that are new since the last look (the lock is
/// held). Source: proc(5), `/proc/thread-self/maps`.
pub fn note_mappings() {
    if per_block() {
        read_mappings();
    }
}

/// (Apart: its buffers are pages of the stack.)
#[inline(never)]
fn read_mappings() {
    let path = b"/proc/thread-self/maps\0";
    // SAFETY: open with our own path.
    let fd = unsafe { sys::call(nr::OPEN, [path.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0]) };
    if fd < 0 {
        return; // what is mapped from here on has no name
    }
    let mut log = LOG_STATE.lock();
    log.current ^= 1;
    let current = log.current;
    log.maps[current].claim(0);
    let mut buffer = [0u8; 4096];
    let mut line = [0u8; 4096 + 128];
    let (mut len, mut hint) = (0, 0);
    loop {
        // SAFETY: read into our buffer.
        let got = unsafe {
            sys::call(
                nr::READ,
                [fd as u64, buffer.as_mut_ptr() as u64, 4096, 0, 0, 0],
            )
        };
        if got <= 0 {
            break;
        }
        for &byte in buffer.iter().take(got as usize) {
            if byte != b'\n' {
                if let Some(place) = line.get_mut(len) {
                    *place = byte;
                    len += 1;
                }
                continue;
            }
            log.note_line(line.get(..len).unwrap_or(&[]), &mut hint);
            len = 0;
        }
    }
    // SAFETY: our descriptor.
    unsafe { sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
}

impl Log {
    /// One line: `start-end perms offset major:minor inode   path`.
    fn note_line(&mut self, line: &[u8], hint: &mut usize) {
        let mut fields = [&[] as &[u8]; 5];
        let mut rest = line;
        for field in &mut fields {
            let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
            *field = rest.get(..end).unwrap_or(&[]);
            rest = rest.get(end + 1..).unwrap_or(&[]);
        }
        let [range, permissions, offset, device, inode] = fields;
        if permissions.get(2) != Some(&b'x') {
            return;
        }
        let fingerprint = line.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let (before, now) = (self.current ^ 1, self.current);
        if self.maps[now].len() < MAPS {
            self.maps[now].push(fingerprint);
        }
        let known = self.maps[before].slice();
        let found = match known.get(*hint) {
            Some(&same) if same == fingerprint => Some(*hint),
            _ => known.iter().position(|&other| other == fingerprint),
        };
        if let Some(at) = found {
            *hint = at + 1;
            return;
        }
        let skip = rest.iter().take_while(|&&b| b == b' ').count();
        let path = rest.get(skip..).unwrap_or(&[]);
        let mut words = [0u64; 6 + 512];
        let used = 6 + path.len().min(4095).div_ceil(8);
        let dash = range.iter().position(|&b| b == b'-').unwrap_or(0);
        let header = [
            log::head(log::MAP, used, 0, 0),
            number(range.get(..dash).unwrap_or(&[]), 16),
            number(range.get(dash + 1..).unwrap_or(&[]), 16),
            number(offset, 16),
            number(device, 16),
            number(inode, 10),
        ];
        for (to, from) in words.iter_mut().zip(header) {
            *to = from;
        }
        for (at, &byte) in path.iter().take(4095).enumerate() {
            if let Some(word) = words.get_mut(6 + at / 8) {
                *word |= u64::from(byte) << (at % 8 * 8);
            }
        }
        self.append(words.get(..used).unwrap_or(&[]));
        let [_, start, end, offset, _, inode] = header;
        functions::mapped(start..end, offset, inode, path);
    }
}

/// Digits of a base; others (the colon of a device) are passed over.
fn number(digits: &[u8], base: u64) -> u64 {
    digits.iter().fold(0, |value: u64, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return value,
        };
        value.wrapping_mul(base).wrapping_add(u64::from(digit))
    })
}
