//! The shadow of what the program references (`xlate::known`), and the routines that translated code goes through with
//! what is new: they enter it. Every register stays as it is. A signal that finds a thread here is stepped on to the end
//! of the instruction.

use crate::entry::address;
use crate::layout::{Context, REGION, RING, option};
use crate::masked;
use crate::slots;
use crate::xlate::known::{
    AT, Filter, LIES_BITS, Lies, Literal, Made, PAGE_BITS, Record, SHADOW, Shadow,
};
use crate::xlate::references::{APART, CHUNK};
use core::arch::global_asm;
use core::mem::{offset_of, size_of};
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

unsafe extern "C" {
    fn rt_note();
    fn rt_room();
    fn rt_note_end();
}

/// Spreads operands' numbers over their places (the golden ratio): they differ in their low bits, the highest ones choose.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

global_asm!(
    ".pushsection .text",
    // RDX: where it says what is entered now. All else stays.
    ".macro rt_made",
    "mov edx, [rbx+{counter}]",
    "mov rdx, gs:[rdx]",
    "cmp gs:[{seen}], rdx",
    "je 40f",
    "mov gs:[{seen}], rdx",
    "mov qword ptr gs:[{since}], 0",
    "40: mov edx, gs:[{since}]",
    "add qword ptr gs:[{since}], 1",
    "and edx, 1",
    "shl edx, 6",
    "add edx, {made}",
    "mov gs:[{spill}+48], rcx",
    "mov rcx, [rbx+{record}]",
    "mov gs:[rdx+{made_record}], rcx",
    "mov rcx, gs:[{spill}+48]",
    ".endm",
    ".globl rt_note",
    "rt_note:",
    "mov gs:[{spill}], rax",
    "mov gs:[{spill}+8], rbx",
    "mov gs:[{spill}+16], rcx",
    "mov gs:[{spill}+24], rdx",
    "mov gs:[{spill}+32], rsi",
    "mov gs:[{spill}+40], rdi",
    "mov rbx, gs:[{literal}]",
    "mov rcx, gs:[{address}]",
    "mov rsi, gs:[{shadow}]",
    "test rsi, rsi",
    "jz 10f",
    "movzx edx, byte ptr [rbx+{size}]",
    "lea rdi, [rcx+rdx-1]",
    "mov rax, rcx",
    "or rax, rdi",
    "shr rax, 47",
    "jnz 10f",
    // With a model most are known, and lead to another line: those of eight bytes and less that are aligned are looked at
    // once more.
    "cmp dword ptr gs:[{recent}], 0",
    "je 11f",
    // (Room for its record before anything is counted.)
    "mov eax, gs:[{position}]",
    "test ah, ah",
    "jz 20f",
    "cmp edx, 8",
    "ja 11f",
    "lea eax, [rdx-1]",
    "test eax, ecx",
    "jnz 11f",
    "mov rax, rcx",
    "shr rax, 3",
    "movzx eax, byte ptr [rsi+rax]",
    "not eax",
    "test al, [rbx+{bits}]",
    "jz rt_recent_behind",
    // Are its first and its last byte in pages of the shadow that are there?
    // (A test of bits in memory is slow where their number is in a register. Few references lie in two pages.)
    "11: mov rax, rdi",
    "xor rax, rcx",
    "shr rax, {page}",
    "jnz 12f",
    "13: mov rax, rcx",
    "shr rax, {page}",
    "mov edi, eax",
    "shr rax, 6",
    "shl rax, 3",
    "add rax, gs:[{pages}]",
    "mov rax, [rax]",
    "bt rax, rdi",
    "jnc 20f",
    // How does it lie?
    "xor eax, eax",
    "lea edi, [rdx-1]",
    "and edi, ecx",
    "jz 4f",
    "inc eax",
    "mov edi, ecx",
    "and edi, 63",
    "add edi, edx",
    "cmp edi, 64",
    "jbe 3f",
    "or eax, 2",
    "mov edi, ecx",
    "and edi, 4095",
    "add edi, edx",
    "cmp edi, 4096",
    "jbe 3f",
    "or eax, 4",
    "3: mov rdx, [rbx+{record}]",
    "movabs rdi, {lies}",
    "or rdx, rdi", // as `Record::lies`
    "movabs rdi, {spread}",
    "imul rdi, rdx",
    "shr rdi, 64-{lies_bits}",
    "shl edi, 5",
    "add edi, {table}",
    "cmp gs:[rdi], rdx",
    "je 5f",
    "cmp qword ptr gs:[rdi], 0",
    "je 2f",
    // The other place of two.
    "xor edi, 32",
    "cmp gs:[rdi], rdx",
    "je 5f",
    "cmp qword ptr gs:[rdi], 0",
    "jne 20f",
    "2: mov gs:[rdi], rdx",
    "5: add qword ptr gs:[rdi+8], 1",
    "bt eax, 1",
    "adc qword ptr gs:[rdi+16], 0",
    "bt eax, 2",
    "adc qword ptr gs:[rdi+24], 0",
    "4:",
    "rt_made",
    "mov gs:[rdx+{lies_at}], edi",
    "mov gs:[rdx+{counted}], eax",
    "mov eax, ecx",
    "and eax, 7",
    "movzx edi, byte ptr [rbx+{size}]",
    "lea edi, [rdi+rax+7]",
    "shr edi, 3",
    "mov gs:[rdx+{many}], edi",
    "shr rcx, 3",
    "add rsi, rcx",
    "mov gs:[rdx+{at}], rsi",
    "mov rax, [rsi]",
    "mov gs:[rdx+{before}], rax",
    "mov rax, [rsi+8]",
    "mov gs:[rdx+{before}+8], rax",
    "movzx eax, byte ptr [rbx+{bits}]",
    "mov gs:[rdx+{made_bits}], eax",
    "7: mov dl, [rsi]",
    "and dl, al",
    "cmp dl, al",
    "je 8f",
    "lock or [rsi], al",
    "8: inc rsi",
    "dec edi",
    "jnz 7b",
    "cmp dword ptr gs:[{recent}], 0",
    "jne rt_recent_behind",
    "9: movsxd rax, dword ptr [rbx+{back}]",
    "add rax, rbx",
    "mov gs:[{resume}], rax",
    "mov rax, gs:[{spill}]",
    "mov rbx, gs:[{spill}+8]",
    "mov rcx, gs:[{spill}+16]",
    "mov rdx, gs:[{spill}+24]",
    "mov rsi, gs:[{spill}+32]",
    "mov rdi, gs:[{spill}+40]",
    "jmp qword ptr gs:[{resume}]",
    "12: mov rax, gs:[{pages}]",
    "shr rdi, {page}",
    "bt qword ptr [rax], rdi",
    "jc 13b",
    "jmp 20f",
    // There is no shadow for it: it is noted in the ring.
    "10: cmp dword ptr gs:[{recent}], 0",
    "jne rt_recent_all",
    "mov eax, gs:[{position}]",
    // Where no record begins (`xlate::references`): there is no room.
    "test ah, ah",
    "jz 20f",
    "mov rdx, [rbx+{record}]",
    "mov gs:[rax*8+{ring}], rdx",
    "mov gs:[rax*8+{ring}+8], rcx",
    "add eax, 2",
    "mov gs:[{position}], eax",
    "rt_made",
    "mov dword ptr gs:[rdx+{many}], 0",
    "jmp 9b",
    // Something is to be made ready before.
    "20: mov rax, gs:[{spill}]",
    "mov rbx, gs:[{spill}+8]",
    "mov rcx, gs:[{spill}+16]",
    "mov rdx, gs:[{spill}+24]",
    "mov rsi, gs:[{spill}+32]",
    "mov rdi, gs:[{spill}+40]",
    "mov dword ptr gs:[{kind}], {no_room}",
    "jmp rt_save",
    // Only room in the ring is wanted, and flags stay.
    ".globl rt_room",
    "rt_room:",
    "mov gs:[{spill}+8], rbx",
    "mov gs:[{spill}+16], rcx",
    "mov ebx, gs:[{position}]",
    "movzx ecx, bh",
    "jrcxz 6f",
    "mov rbx, gs:[{literal}]",
    "movsxd rcx, dword ptr [rbx+{back}]",
    "lea rcx, [rcx+rbx]",
    "mov gs:[{resume}], rcx",
    "mov rbx, gs:[{spill}+8]",
    "mov rcx, gs:[{spill}+16]",
    "jmp qword ptr gs:[{resume}]",
    "6: mov rbx, gs:[{spill}+8]",
    "mov rcx, gs:[{spill}+16]",
    "mov dword ptr gs:[{kind}], {no_room}",
    "jmp rt_save",
    ".globl rt_note_end",
    "rt_note_end:",
    ".popsection",
    // (The first word is translated code's.)
    spill = const offset_of!(Context, noted.known.spill) + 8,
    literal = const offset_of!(Context, noted.known.literal),
    address = const offset_of!(Context, noted.known.address),
    shadow = const offset_of!(Context, noted.known.shadow),
    pages = const offset_of!(Context, noted.known.pages),
    seen = const offset_of!(Context, noted.known.seen),
    since = const offset_of!(Context, noted.known.since),
    made = const offset_of!(Context, noted.known.made),
    resume = const offset_of!(Context, noted.known.resume),
    recent = const offset_of!(Context, noted.known.recent),
    position = const offset_of!(Context, noted.position),
    kind = const offset_of!(Context, exit_kind),
    record = const offset_of!(Literal, record),
    counter = const offset_of!(Literal, counter),
    back = const offset_of!(Literal, back),
    size = const offset_of!(Literal, size),
    bits = const offset_of!(Literal, bits),
    made_record = const offset_of!(Made, record),
    at = const offset_of!(Made, at),
    before = const offset_of!(Made, before),
    many = const offset_of!(Made, many),
    made_bits = const offset_of!(Made, bits),
    lies_at = const offset_of!(Made, lies),
    counted = const offset_of!(Made, counted),
    lies = const Record(0).lies().0,
    spread = const SPREAD,
    lies_bits = const LIES_BITS,
    table = const AT,
    page = const PAGE_BITS,
    ring = const RING,
    no_room = const crate::entry::kind::NO_ROOM,
);

/// A word of a thread's ring.
pub fn word(context: &Context, number: u32) -> *mut u64 {
    (context.this + RING + u64::from(number) * 8) as *mut u64
}

/// Whether no record begins where the next word of the ring is: there is no room for one (`xlate::references`).
pub fn is_full(context: &Context) -> bool {
    (context.noted.position / APART).is_multiple_of(CHUNK / APART)
}

/// The routine for room in the ring alone.
pub fn room() -> u64 {
    address(rt_room)
}

/// Where the routines are.
pub fn range() -> Range<u64> {
    address(rt_note)..address(rt_note_end)
}

/// Where the shadow of address 0 is; 0: there is none.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Where the bits of its pages are.
static PAGES: AtomicU64 = AtomicU64::new(0);
/// Bytes behind the shadow that can be read.
pub const MORE: u64 = 0x1000;

/// Where the shadow of address 0 is; 0: there is none.
pub fn base() -> u64 {
    BASE.load(Relaxed)
}

/// Where the bits of its pages are.
pub fn pages() -> u64 {
    PAGES.load(Relaxed)
}

/// There is a shadow from now on.
pub fn begins(base: u64, pages: u64) {
    PAGES.store(pages, Relaxed);
    BASE.store(base, Release);
}

/// Whether a range touches the shadow.
pub fn touches(start: u64, end: u64) -> bool {
    let base = BASE.load(Relaxed);
    base != 0 && start < base + SHADOW + MORE && base < end
}

/// A thread's context.
pub fn prepare(context: &mut Context) {
    let known = &mut context.noted.known;
    known.vector_note = address(rt_note);
    known.vector_room = address(rt_room);
    known.vector_masked = masked::routine();
    known.shadow = BASE.load(Relaxed);
    known.pages = PAGES.load(Relaxed);
}

/// How blocks leave references out; `None`: they note all.
pub fn filter() -> Option<Filter> {
    let options = slots::header().options;
    on().then(|| Filter {
        address: offset_of!(Context, noted.known.address) as u32,
        literal: offset_of!(Context, noted.known.literal) as u32,
        spill: offset_of!(Context, noted.known.spill) as u32,
        shadow: offset_of!(Context, noted.known.shadow) as u32,
        apart: offset_of!(Context, noted.known.apart) as u32,
        lent: offset_of!(Context, noted.known.lent) as u32,
        state: match BASE.load(Relaxed) {
            _ if options & option::NO_LINES != 0 => Shadow::Unasked,
            0 => Shadow::Absent,
            _ => Shadow::Present,
        },
        bytes: options & option::NO_BYTES == 0,
        taken: options & option::NO_TAKEN == 0,
        recent: None,
        vector_note: offset_of!(Context, noted.known.vector_note) as u32,
        vector_room: offset_of!(Context, noted.known.vector_room) as u32,
        vector_masked: offset_of!(Context, noted.known.vector_masked) as u32,
        mask: offset_of!(Context, noted.known.chosen) as u32,
        reads_fs: options & option::READS_FS != 0,
        rotates: options & option::ROTATES != 0,
    })
}

/// The bits of 64 pages: those of a piece.
pub fn pages_of(piece: u64) -> &'static AtomicU64 {
    // SAFETY: as many words as there are pieces; nobody else uses them.
    unsafe { &*((PAGES.load(Relaxed) + piece * 8) as *const AtomicU64) }
}

/// A byte of the shadow, which can be used.
pub fn byte(at: u64) -> &'static AtomicU8 {
    // SAFETY: in a page that is there.
    unsafe { &*(at as *const AtomicU8) }
}

/// Where an operand's [`Lies`] may be.
pub fn lies_of(context: &Context, record: u64) -> [u64; 2] {
    let number = record.wrapping_mul(SPREAD) >> (64 - LIES_BITS);
    [number, number ^ 1].map(|number| context.this + AT + number * size_of::<Lies>() as u64)
}

/// Where in the region the [`Lies`] are that were counted last; 0: what was entered last is aligned.
pub fn counted_last(context: &Context) -> u32 {
    let known = &context.noted.known;
    let last = known.made.get(known.since.wrapping_sub(1) as usize % 2);
    last.map_or(0, |made| made.lies)
}

/// Whether references are filtered.
pub fn on() -> bool {
    slots::header().options & option::FILTERED != 0
}

/// The address of the block that a record of a thread's names.
pub fn pc_of(context: &Context, record: Record) -> Option<u64> {
    // SAFETY: a description of this process', which is never taken away.
    description(context, record).map(|at| unsafe { (at as *const u64).read() })
}

/// Where that block is described.
pub fn description(context: &Context, record: Record) -> Option<u64> {
    let offset = record.described(context.noted.base) * 8;
    let slot = offset.checked_div(REGION)? as u32;
    // (Slot 0 has none, and what is no record may name any.)
    let known = 1..slots::header().next_slot.load(Relaxed);
    known
        .contains(&slot)
        .then(|| slots::context_at(slot) + offset % REGION)
}
