//! Tables of references that are known to add nothing (`xlate::known`), and the routines that translated code goes
//! through with what is not: they note it in the ring and enter it in its table. Every register stays as it is; flags
//! stay in [`rt_room`] only. A signal that finds a thread here is stepped on to the end of the instruction.

use crate::block::Block;
use crate::entry::address;
use crate::layout::{COUNTERS, Context, REGION, RING, option};
use crate::slots;
use crate::xlate::decode::{MAX_LEN, decode};
use crate::xlate::known::{CLASSES, Class, Filter, Is, Literal, PIECE, Record, simple};
use crate::xlate::references::{APART, CHUNK, CHUNKS, Words};
use core::arch::global_asm;
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};

unsafe extern "C" {
    fn rt_note();
    fn rt_room();
    fn rt_note_end();
}

/// By class: where its table is, and the bits of an address that choose an entry.
#[unsafe(no_mangle)]
static RT_CLASSES: [[u32; 2]; CLASSES] = {
    let mut all = [[0; 2]; CLASSES];
    let mut number = 0;
    while number < CLASSES {
        let class = Class(number as u8);
        all[number] = [class.table(), class.mask()];
        number += 1;
    }
    all
};

global_asm!(
    ".pushsection .text",
    ".globl rt_note",
    "rt_note:",
    "mov gs:[{spill}+8], rax",
    "mov gs:[{spill}+16], rbx",
    "mov gs:[{spill}+24], rcx",
    "mov rbx, gs:[{literal}]",
    "mov eax, gs:[{position}]",
    // Where no record begins (`xlate::references`): there is no room.
    "test ah, ah",
    "jz 9f",
    "mov rcx, [rbx+{record}]",
    "mov gs:[rax*8+{ring}], rcx",
    "mov rcx, gs:[{address}]",
    "mov gs:[rax*8+{ring}+8], rcx",
    "add eax, 2",
    "mov gs:[{position}], eax",
    "mov eax, [rbx+{counter}]",
    "mov rax, gs:[rax]",
    "cmp gs:[{seen}], rax",
    "je 7f",
    "mov gs:[{seen}], rax",
    "mov dword ptr gs:[{since}], 0",
    "7: add dword ptr gs:[{since}], 1",
    "movsxd rax, dword ptr [rbx+{back}]",
    "add rax, rbx",
    "mov gs:[{resume}], rax",
    "movzx eax, byte ptr [rbx+{unaligned}]",
    "test eax, ecx",
    "jnz 8f",
    "movzx ebx, byte ptr [rbx+{class}]",
    "cmp ebx, {classes}",
    "jae 8f",
    "lea rax, [rip+RT_CLASSES]",
    "lea rax, [rax+rbx*8]",
    "mov gs:[{spill}+32], rdx",
    "mov edx, [rax+4]",
    "and edx, ecx",
    "mov eax, [rax]",
    "and rcx, -8",
    "mov gs:[rax+rdx], rcx",
    // The piece of the table that the entry is in has one.
    "shr edx, {piece}",
    "mov rax, gs:[rbx*8+{used}]",
    "bts rax, rdx",
    "mov gs:[rbx*8+{used}], rax",
    "mov rdx, gs:[{spill}+32]",
    "8: mov rax, gs:[{spill}+8]",
    "mov rbx, gs:[{spill}+16]",
    "mov rcx, gs:[{spill}+24]",
    "jmp qword ptr gs:[{resume}]",
    "9: mov rax, gs:[{spill}+8]",
    "mov rbx, gs:[{spill}+16]",
    "mov rcx, gs:[{spill}+24]",
    "mov dword ptr gs:[{kind}], {no_room}",
    "jmp rt_save",
    // Only room is wanted.
    ".globl rt_room",
    "rt_room:",
    "mov gs:[{spill}+16], rbx",
    "mov gs:[{spill}+24], rcx",
    "mov ebx, gs:[{position}]",
    "movzx ecx, bh",
    "jrcxz 6f",
    "mov rbx, gs:[{literal}]",
    "movsxd rcx, dword ptr [rbx+{back}]",
    "lea rcx, [rcx+rbx]",
    "mov gs:[{resume}], rcx",
    "mov rbx, gs:[{spill}+16]",
    "mov rcx, gs:[{spill}+24]",
    "jmp qword ptr gs:[{resume}]",
    "6: mov rbx, gs:[{spill}+16]",
    "mov rcx, gs:[{spill}+24]",
    "mov dword ptr gs:[{kind}], {no_room}",
    "jmp rt_save",
    ".globl rt_note_end",
    "rt_note_end:",
    ".popsection",
    spill = const offset_of!(Context, noted.known.spill),
    literal = const offset_of!(Context, noted.known.literal),
    address = const offset_of!(Context, noted.known.address),
    seen = const offset_of!(Context, noted.known.seen),
    since = const offset_of!(Context, noted.known.since),
    resume = const offset_of!(Context, noted.known.resume),
    used = const offset_of!(Context, noted.known.used),
    position = const offset_of!(Context, noted.position),
    kind = const offset_of!(Context, exit_kind),
    record = const offset_of!(Literal, record),
    counter = const offset_of!(Literal, counter),
    back = const offset_of!(Literal, back),
    unaligned = const offset_of!(Literal, unaligned),
    class = const offset_of!(Literal, class),
    classes = const CLASSES,
    piece = const PIECE.trailing_zeros(),
    ring = const RING,
    no_room = const crate::entry::kind::NO_ROOM,
);

/// A word of a thread's ring.
pub fn word(context: &Context, number: u32) -> *mut u64 {
    (context.this + RING + u64::from(number) * 8) as *mut u64
}

/// Where the routines are.
pub fn range() -> Range<u64> {
    address(rt_note)..address(rt_note_end)
}

/// A thread's context.
pub fn prepare(context: &mut Context) {
    context.noted.known.vector_note = address(rt_note);
    context.noted.known.vector_room = address(rt_room);
    context.noted.known.allocations = ALLOCATIONS.load(Acquire);
}

/// How blocks leave references out; `None`: they note all.
pub fn filter() -> Option<Filter> {
    let options = slots::header().options;
    on().then_some(Filter {
        address: offset_of!(Context, noted.known.address) as u32,
        literal: offset_of!(Context, noted.known.literal) as u32,
        spill: offset_of!(Context, noted.known.spill) as u32,
        vector_note: offset_of!(Context, noted.known.vector_note) as u32,
        vector_room: offset_of!(Context, noted.known.vector_room) as u32,
        reads_fs: options & option::READS_FS != 0,
    })
}

/// There was no room: there is now, and the thread comes again.
pub fn come_again(context: &mut Context) {
    let literal = context.noted.known.literal;
    // SAFETY: in translated code, which has just named it.
    let again = unsafe { (*(literal as *const Literal)).again };
    context.resume = literal.wrapping_add_signed(i64::from(again));
}

/// Allocations of this process.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// The last of them: one more than its number, first byte, bytes.
static LAST: [[AtomicU64; 3]; LATELY] = [const { [const { AtomicU64::new(0) }; 3] }; LATELY];
const LATELY: usize = 64;

/// A block of the heap is allocated: what any thread knows of its lines is no more. (Another thread forgets when it
/// comes to know of that time: see [`catch_up`].)
pub fn allocated(context: &mut Context, start: u64, size: u64) {
    if !on() {
        return;
    }
    let number = ALLOCATIONS.fetch_add(1, AcqRel);
    if let Some([which, at, long]) = LAST.get(number as usize % LATELY) {
        which.store(0, Release);
        at.store(start, Release);
        long.store(size, Release);
        which.store(number + 1, Release);
    }
    catch_up(context);
}

/// Forgets what other threads have allocated since.
pub fn catch_up(context: &mut Context) {
    let now = ALLOCATIONS.load(Acquire);
    let known = context.noted.known.allocations;
    if now == known {
        return;
    }
    context.noted.known.allocations = now;
    if now.wrapping_sub(known) > LATELY as u64 {
        return forget_all(context);
    }
    for number in known..now {
        let Some([which, at, long]) = LAST.get(number as usize % LATELY) else {
            continue;
        };
        let (start, size) = (at.load(Acquire), long.load(Acquire));
        // Not written yet, or another one by now?
        if which.load(Acquire) != number + 1 {
            return forget_all(context);
        }
        forget(context, start, size);
    }
}

fn clear(context: &Context, class: Class, from: u64, bytes: u64) {
    let at = context.this + u64::from(class.table()) + from;
    // SAFETY: inside the thread's own table.
    unsafe { core::ptr::write_bytes(at as *mut u8, 0, bytes as usize) };
}

/// Forgets what is known of lines. A piece that is cleared as a whole is not cleared again before it is used: a block
/// may grow byte by byte.
fn forget(context: &mut Context, start: u64, size: u64) {
    let used = context.noted.known.used;
    let left = used
        .iter()
        .zip(0..)
        .map(|(&used, number)| clear_lines(context, Class(number), used, start, size));
    let mut now = [0; CLASSES];
    now.iter_mut().zip(left).for_each(|(to, left)| *to = left);
    context.noted.known.used = now;
}

/// Clears what a table has of lines, in the pieces that have entries; the pieces that may still have some.
fn clear_lines(context: &Context, class: Class, mut used: u64, start: u64, size: u64) -> u64 {
    // An operand may begin 31 bytes in front of what it references.
    let (from, to) = (
        start.saturating_sub(31) & !63,
        start.saturating_add(size).saturating_add(63) & !63,
    );
    let table = u64::from(class.bytes());
    if to.saturating_sub(from) >= table {
        return clear_used(context, class, used);
    }
    let mut at = from;
    while at < to && used != 0 {
        let place = at & (table - 1);
        let piece = u64::from(PIECE);
        let long = (to - at).min(piece - place % piece);
        let bit = 1 << (place / piece);
        if used & bit != 0 {
            clear(context, class, place, long);
            used &= if long == piece { !bit } else { !0 };
        }
        at += long;
    }
    used
}

/// Clears the pieces that have entries; none has any then.
fn clear_used(context: &Context, class: Class, mut used: u64) -> u64 {
    while used != 0 {
        let piece = u64::from(used.trailing_zeros());
        clear(context, class, piece * u64::from(PIECE), u64::from(PIECE));
        used &= used - 1;
    }
    0
}

fn forget_all(context: &mut Context) {
    for (&used, number) in context.noted.known.used.iter().zip(0..) {
        clear_used(context, Class(number), used);
    }
    context.noted.known.used = [0; CLASSES];
}

/// Whether references are filtered.
pub fn on() -> bool {
    slots::header().options & option::FILTERED != 0
}

/// The address of the block that a record names.
fn described_pc(record: Record) -> Option<u64> {
    let offset = record.described() * 8;
    let slot = offset.checked_div(REGION)? as u32;
    // SAFETY: a description of this process', which is never taken away; slot 0 has none.
    (slot != 0)
        .then(|| unsafe { ((slots::context_at(slot) + offset % REGION) as *const u64).read() })
}

/// The words of instruction `done` of a block, if they are noted, and not its references.
fn words_of(block: &Block, done: u16) -> Option<Words> {
    let reads_fs = slots::header().options & option::READS_FS != 0;
    let mut pc = block.pc;
    for number in 0..=done {
        let mut bytes = [0u8; MAX_LEN];
        let all = pc..block.pc + u64::from(block.guest_len);
        for (to, from) in bytes.iter_mut().zip(all) {
            // SAFETY: a block's bytes; it is being executed.
            *to = unsafe { *(from as *const u8) };
        }
        let insn = decode(&bytes).ok()?;
        if number == done {
            let words = Words::of(&insn, &bytes);
            let references = insn.is_load() || insn.is_store();
            let noted = references && simple(&insn, &bytes, reads_fs).is_none();
            return noted.then_some(words);
        }
        pc += u64::from(insn.len);
    }
    None
}

/// Instruction `done` of `block` was noted and not executed: what was noted is cancelled. `registers`: those of the
/// instruction, if it is one that repeats and may have been interrupted in its middle.
pub fn unfinished(context: &Context, block: &Block, done: u16, registers: Option<&[u64; 16]>) {
    if context.probing != 0 {
        return;
    }
    // Marks may have been written since.
    let marks = match context.noted.marked == context.noted.position {
        true => context.noted.marks,
        false => 0,
    };
    let mut end = context.noted.position.wrapping_sub(marks);
    let is_ours = |record: Record| {
        described_pc(record) == Some(block.pc) && record.number() == usize::from(done)
    };
    let start = context.noted.filled.load(Relaxed) % CHUNKS * CHUNK + APART;
    if let Some(words) = words_of(block, done) {
        // An instruction's record: nothing else of this thread's is behind it.
        let long = words.len() as u32 + 1;
        if end < start + long {
            return;
        }
        let head = word(context, end - long);
        // SAFETY: words of the thread's ring.
        let record = Record(unsafe { head.read() });
        if !is_ours(record) || record.is() != Some(Is::Instruction(words.len())) {
            return;
        }
        let repeats = words.after().next().is_some_and(|register| register < 16);
        let flag = match registers.filter(|_| repeats) {
            Some(registers) => {
                let first = end - words.after().count() as u32;
                for (place, register) in (first..).zip(words.after()) {
                    let value = registers.get(usize::from(register)).copied().unwrap_or(0);
                    // SAFETY: words of that record.
                    unsafe { word(context, place).write(value) };
                }
                Record::INTERRUPTED
            }
            None => Record::CANCELLED,
        };
        // SAFETY: as above.
        unsafe { head.write(record.0 | flag) };
        return;
    }
    // Its references: those that were noted by this execution of the block.
    // SAFETY: the thread's own counter.
    let counter = unsafe {
        let at = context.this + u64::from(COUNTERS) + u64::from(block.counter) * 8;
        (at as *const u64).read_volatile()
    };
    if counter != context.noted.known.seen {
        return;
    }
    for _ in 0..context.noted.known.since.min(2) {
        if end < start + 2 {
            return;
        }
        let head = word(context, end - 2);
        // SAFETY: words of the thread's ring.
        let (record, at) = unsafe { (Record(head.read()), head.add(1).read()) };
        if !is_ours(record) || !matches!(record.is(), Some(Is::Reference(_))) {
            return;
        }
        // SAFETY: as above.
        unsafe { head.write(record.0 | Record::CANCELLED) };
        for (&used, number) in context.noted.known.used.iter().zip(0..) {
            clear_lines(context, Class(number), used, at, 1);
        }
        end -= 2;
    }
}
