//! The routine that translated code goes through with references whose elements a mask chooses (`xlate::masked`), where they
//! are not counted only (`known`): it notes them, and whether a model's first level has the lines that they are in. Every register stays as it is. A signal that
//! finds a thread here is stepped on to the end of the instruction.

use crate::entry::{address, kind};
use crate::layout::{Context, RING};
use crate::xlate::known::{Literal, Record};
use crate::xlate::levels::LINE_BITS;
use crate::xlate::recent::{Cache, Place, SLOTS, TABLE};
use core::arch::global_asm;
use core::mem::offset_of;
use core::ops::Range;

unsafe extern "C" {
    fn rt_masked();
    fn rt_masked_end();
}

global_asm!(
    ".pushsection .text",
    ".globl rt_masked",
    "rt_masked:",
    "mov gs:[{spill}], rax",
    "mov gs:[{spill}+8], rbx",
    "mov gs:[{spill}+16], rcx",
    "mov gs:[{spill}+24], rdx",
    "mov gs:[{spill}+32], rsi",
    "mov gs:[{spill}+40], rdi",
    "mov rbx, gs:[{literal}]",
    "mov eax, gs:[{position}]",
    // Where no record begins (`xlate::references`): there is no room.
    "test ah, ah",
    "jz 20f",
    // RDX: which elements there are. (Others are not asked for.)
    "movzx ecx, byte ptr [rbx+{size}]",
    "mov esi, ecx",
    "movzx ecx, byte ptr [rbx+{shift}]",
    "shr esi, cl",
    "mov ecx, 64",
    "sub ecx, esi",
    "mov rdx, gs:[{chosen}]",
    "shl rdx, cl",
    "shr rdx, cl",
    "mov rax, [rbx+{record}]",
    "cmp dword ptr gs:[{recent}], 0",
    "je 5f",
    // RSI and RDI: the lines of the first and the last of them.
    "test rdx, rdx",
    "jz 4f",
    "movzx ecx, byte ptr [rbx+{shift}]",
    "bsf rsi, rdx",
    "bsr rdi, rdx",
    "inc edi",
    "shl esi, cl",
    "shl edi, cl",
    "mov rcx, gs:[{address}]",
    "add rsi, rcx",
    "lea rdi, [rdi+rcx-1]",
    "mov rcx, rsi",
    "or rcx, rdi",
    "shr rcx, 47",
    // (It faults.)
    "jnz 5f",
    "shr rsi, {line}",
    "shr rdi, {line}",
    "mov ecx, esi",
    "and ecx, {slots}-1",
    "add ecx, ecx",
    "cmp gs:[rcx*8+{lines}], rsi",
    "jne 6f",
    "mov ecx, edi",
    "and ecx, {slots}-1",
    "add ecx, ecx",
    "cmp gs:[rcx*8+{lines}], rdi",
    "jne 6f",
    // They are used, one behind the other.
    "movzx ecx, word ptr [rbx+{time}]",
    "add rcx, gs:[{clock}]",
    "and esi, {slots}-1",
    "add esi, esi",
    "mov gs:[rsi*8+{times}], rcx",
    "and edi, {slots}-1",
    "add edi, edi",
    "cmp esi, edi",
    "je 4f",
    "inc rcx",
    "mov gs:[rdi*8+{times}], rcx",
    "4: movabs rcx, {in_place}",
    "or rax, rcx",
    "5: mov ecx, gs:[{position}]",
    "mov gs:[rcx*8+{ring}], rax",
    "mov rax, gs:[{address}]",
    "mov gs:[rcx*8+{ring}+8], rax",
    "mov gs:[rcx*8+{ring}+16], rdx",
    "add ecx, 3",
    "mov gs:[{position}], ecx",
    "mov dword ptr gs:[{forget}], 0",
    "movsxd rax, dword ptr [rbx+{back}]",
    "add rax, rbx",
    "mov gs:[{resume}], rax",
    "mov rax, gs:[{spill}]",
    "mov rbx, gs:[{spill}+8]",
    "mov rcx, gs:[{spill}+16]",
    "mov rdx, gs:[{spill}+24]",
    "mov rsi, gs:[{spill}+32]",
    "mov rdi, gs:[{spill}+40]",
    "jmp qword ptr gs:[{resume}]",
    // Who reads the ring has to find out; what is known of their sets is told before.
    "6: cmp dword ptr gs:[{any}], 0",
    "je 5b",
    "cmp dword ptr gs:[{forget}], 2",
    "je 5b",
    "mov dword ptr gs:[{forget}], 1",
    "20: mov rax, gs:[{spill}]",
    "mov rbx, gs:[{spill}+8]",
    "mov rcx, gs:[{spill}+16]",
    "mov rdx, gs:[{spill}+24]",
    "mov rsi, gs:[{spill}+32]",
    "mov rdi, gs:[{spill}+40]",
    "mov dword ptr gs:[{kind}], {no_room}",
    "jmp rt_save",
    ".globl rt_masked_end",
    "rt_masked_end:",
    ".popsection",
    // (The first word is translated code's.)
    spill = const offset_of!(Context, noted.known.spill) + 8,
    literal = const offset_of!(Context, noted.known.literal),
    address = const offset_of!(Context, noted.known.address),
    chosen = const offset_of!(Context, noted.known.chosen),
    resume = const offset_of!(Context, noted.known.resume),
    recent = const offset_of!(Context, noted.known.recent),
    any = const offset_of!(Context, noted.known.any),
    forget = const offset_of!(Context, noted.known.forget),
    clock = const offset_of!(Context, noted.known.clock),
    position = const offset_of!(Context, noted.position),
    kind = const offset_of!(Context, exit_kind),
    record = const offset_of!(Literal, record),
    back = const offset_of!(Literal, back),
    size = const offset_of!(Literal, size),
    shift = const offset_of!(Literal, bits),
    time = const offset_of!(Literal, time),
    line = const LINE_BITS,
    slots = const SLOTS,
    lines = const TABLE as usize + offset_of!(Cache, places) + offset_of!(Place, line),
    times = const TABLE as usize + offset_of!(Cache, places) + offset_of!(Place, time),
    ring = const RING,
    in_place = const Record::IN_PLACE,
    no_room = const kind::NO_ROOM,
);

/// Where the routine is.
pub fn range() -> Range<u64> {
    routine()..address(rt_masked_end)
}

/// Its entry.
pub fn routine() -> u64 {
    address(rt_masked)
}
