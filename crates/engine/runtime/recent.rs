//! The lines that a model has in front of its sets (`xlate::recent`), and the routines that translated code goes through
//! with another one. Every register stays as it is. A signal that finds a thread here is stepped on to the end of the
//! instruction.

use crate::block::Block;
use crate::entry::{address, kind};
use crate::known::{self, pc_of, word};
use crate::layout::{Context, RING, option};
use crate::predictor;
use crate::slots;
use crate::xlate::known::{Is, Literal, Record};
use crate::xlate::levels::{LINE_BITS, Model, Recent};
use crate::xlate::recent::{CODE_TABLE, Lines, TABLE};
use crate::xlate::references::{APART, CHUNK, CHUNKS};
use core::arch::global_asm;
use core::mem::{offset_of, size_of};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

unsafe extern "C" {
    fn rt_recent();
    fn rt_recent_code();
    fn rt_forget();
    fn rt_recent_end();
}

global_asm!(
    ".pushsection .text",
    ".macro rt_saves",
    "mov gs:[{spill}], rax",
    "mov gs:[{spill}+8], rbx",
    "mov gs:[{spill}+16], rcx",
    "mov gs:[{spill}+24], rdx",
    "mov gs:[{spill}+32], rsi",
    "mov gs:[{spill}+40], rdi",
    ".endm",
    ".macro rt_restores",
    "mov rax, gs:[{spill}]",
    "mov rbx, gs:[{spill}+8]",
    "mov rcx, gs:[{spill}+16]",
    "mov rdx, gs:[{spill}+24]",
    "mov rsi, gs:[{spill}+32]",
    "mov rdi, gs:[{spill}+40]",
    ".endm",
    // A reference to data.
    ".globl rt_recent",
    "rt_recent:",
    "rt_saves",
    "mov rbx, gs:[{literal}]",
    // From `rt_note`, what it does being done.
    ".globl rt_recent_behind",
    "rt_recent_behind:",
    "xor edx, edx",
    "2: mov rcx, gs:[{address}]",
    "movzx edi, byte ptr [rbx+{size}]",
    "lea rdi, [rcx+rdi-1]",
    "mov rax, rcx",
    "or rax, rdi",
    "shr rax, 47",
    // (It faults.)
    "jnz 9f",
    // RSI, RDI: its lines. RCX, RAX: their sets.
    "mov rsi, rcx",
    "shr rsi, {line}",
    "shr rdi, {line}",
    "mov eax, gs:[{mask}]",
    "mov ecx, esi",
    "and ecx, eax",
    "and eax, edi",
    "test rdx, rdx",
    "jnz 3f",
    "cmp gs:[rcx*8+{table}], rsi",
    "jne 3f",
    "cmp gs:[rax*8+{table}], rdi",
    "je 9f",
    "3: or rdx, [rbx+{record}]",
    "mov rbx, gs:[{position}]",
    // Where no record begins (`xlate::references`): there is no room.
    "test bh, bh",
    "jz 20f",
    "mov gs:[rcx*8+{table}], rsi",
    "mov gs:[rax*8+{table}], rdi",
    "mov ebx, ebx",
    "mov gs:[rbx*8+{ring}], rdx",
    "mov rcx, gs:[{address}]",
    "mov gs:[rbx*8+{ring}+8], rcx",
    "add ebx, 2",
    "mov gs:[{position}], ebx",
    "mov rdi, gs:[{literal}]",
    "mov edi, [rdi+{counter}]",
    "mov rdi, gs:[rdi]",
    "mov gs:[{told}], rdi",
    "8: mov rbx, gs:[{literal}]",
    "9: movsxd rax, dword ptr [rbx+{back}]",
    "add rax, rbx",
    "mov gs:[{resume}], rax",
    "rt_restores",
    "jmp qword ptr gs:[{resume}]",
    "20: rt_restores",
    "mov dword ptr gs:[{kind}], {no_room}",
    "jmp rt_save",
    // From there, too, where nothing else will say what the reference did.
    ".globl rt_recent_all",
    "rt_recent_all:",
    "movabs rdx, {all}",
    "jmp 2b",
    // Instructions in another line.
    ".globl rt_recent_code",
    "rt_recent_code:",
    "rt_saves",
    "mov ebx, gs:[{position}]",
    "test bh, bh",
    "jz 20b",
    "mov rdi, gs:[{literal}]",
    "mov rdx, [rdi+{record}]",
    "mov gs:[rbx*8+{ring}], rdx",
    "inc ebx",
    "mov gs:[{position}], ebx",
    "mov eax, gs:[{code_mask}]",
    "mov rcx, [rdi+{lines}]",
    "mov edx, ecx",
    "and edx, eax",
    "mov gs:[rdx*8+{code_table}], rcx",
    "mov rcx, [rdi+{lines}+8]",
    "mov edx, ecx",
    "and edx, eax",
    "mov gs:[rdx*8+{code_table}], rcx",
    "jmp 8b",
    // What is referenced now is not known here: nothing is in front, and there is to be room. Flags stay.
    ".globl rt_forget",
    "rt_forget:",
    "mov gs:[{spill}], rcx",
    "mov ecx, gs:[{mask}]",
    "5: mov qword ptr gs:[rcx*8+{table}], 0",
    "jrcxz 6f",
    "lea ecx, [rcx-1]",
    "jmp 5b",
    "6: mov rcx, gs:[{spill}]",
    "jmp rt_room",
    ".globl rt_recent_end",
    "rt_recent_end:",
    ".popsection",
    // (The first word is translated code's.)
    spill = const offset_of!(Context, noted.known.spill) + 8,
    literal = const offset_of!(Context, noted.known.literal),
    address = const offset_of!(Context, noted.known.address),
    resume = const offset_of!(Context, noted.known.resume),
    mask = const offset_of!(Context, noted.known.mask),
    code_mask = const offset_of!(Context, noted.known.code_mask),
    position = const offset_of!(Context, noted.position),
    kind = const offset_of!(Context, exit_kind),
    told = const offset_of!(Context, noted.known.told),
    record = const offset_of!(Literal, record),
    counter = const offset_of!(Literal, counter),
    back = const offset_of!(Literal, back),
    size = const offset_of!(Literal, size),
    lines = const size_of::<Literal>() + offset_of!(Lines, first),
    line = const LINE_BITS,
    table = const TABLE,
    code_table = const CODE_TABLE,
    ring = const RING,
    all = const Record::ALL,
    no_room = const kind::NO_ROOM,
);

const _: () = assert!(offset_of!(Lines, last) == offset_of!(Lines, first) + 8);

/// Where the routines are.
pub fn range() -> Range<u64> {
    address(rt_recent)..address(rt_recent_end)
}

/// Whether the model's lines are looked at.
pub fn on() -> bool {
    slots::header().options & option::RECENT != 0
}

/// How blocks leave out what changes nothing in the model; `None`: they do not.
pub fn recent() -> Option<Recent> {
    let header = slots::header();
    on().then(|| Recent {
        mask: header.sets.data.saturating_sub(1),
        code_mask: header.sets.code.saturating_sub(1),
        code_bits: header.sets.code_bits,
        branches: header.options & option::NO_BRANCHES == 0,
        predicted: predictor::on(),
        taken: predictor::on() && header.options & option::MODEL_ALONE == 0,
        vector_code: offset_of!(Context, noted.known.vector_code) as u32,
        vector_ring: offset_of!(Context, noted.known.vector_ring) as u32,
    })
}

/// A thread's context.
pub fn prepare(context: &mut Context) {
    let Some(recent) = recent() else { return };
    predictor::prepare(context);
    let known = &mut context.noted.known;
    known.recent = 1;
    (known.mask, known.code_mask) = (recent.mask, recent.code_mask);
    known.vector_room = address(rt_forget);
    known.vector_code = address(rt_recent_code);
    known.vector_ring = known::room();
    if slots::header().options & option::MODEL_ALONE != 0 {
        known.vector_note = address(rt_recent);
    }
}

/// What the thread referenced lately is not what the model was told: no data is in front.
pub fn forget(context: &Context) {
    if let Some(recent) = recent() {
        empty(context.this + TABLE, recent.mask);
    }
}

/// Instruction `done` of a block was noted and not executed, or is going to be once more: what was noted of it last was
/// not. `branch`: that is a branch, too. (What the ring ends with may be of an earlier execution.)
pub fn take_back(context: &mut Context, block: &Block, done: u16, mut branch: bool) {
    // (Behind marks nothing can be taken away.)
    if !on() || context.noted.marked == context.noted.position {
        return;
    }
    let start = context.noted.filled.load(Relaxed) % CHUNKS * CHUNK + APART;
    let counter = block.executions(context);
    let references = context.noted.known.told == counter;
    let mut before = None;
    loop {
        let position = context.noted.position;
        let ours = |words: u32| {
            let at = position.checked_sub(words).filter(|&at| at >= start)?;
            // SAFETY: a word of the thread's ring.
            let record = Record(unsafe { word(context, at).read() });
            let number = record.model().map_or(record.number(), |(_, number)| number);
            let is = record.is()?;
            let ours = number == usize::from(done) && pc_of(context, record) == Some(block.pc);
            (ours && before != Some(record)).then_some((record, is))
        };
        let (record, words) = match (ours(1), ours(2)) {
            (Some((record, Is::Model(Model::Conditional(_)))), _) if branch => (record, 1),
            (Some((record, Is::Model(Model::Fetch))), _) => {
                forget_all(context);
                (record, 1)
            }
            (_, Some((record, Is::Model(Model::Indirect)))) if branch => (record, 2),
            (_, Some((record, Is::Reference(_)))) if references => {
                forget(context);
                (record, 2)
            }
            _ => return,
        };
        context.noted.position = position - words;
        before = Some(record);
        // (It has one; the same one of an earlier execution may have gone the other way.)
        branch &= matches!(record.is(), Some(Is::Reference(_)));
    }
}

/// What the thread does from here on is told again, or is not: nothing is in front.
pub fn forget_all(context: &Context) {
    forget(context);
    if let Some(recent) = recent() {
        empty(context.this + CODE_TABLE, recent.code_mask);
    }
}

fn empty(table: u64, mask: u32) {
    for set in 0..=u64::from(mask) {
        // SAFETY: the thread's own table.
        unsafe { ((table + set * 8) as *mut u64).write(0) };
    }
}
