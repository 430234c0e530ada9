//! Calls of the program's allocator (`option::ALLOCATIONS`): what was allocated, by whom, and what is free again, is
//! said in the ring of references (`heap`).
//!
//! Functions are found by the symbols of files that are mapped for execution. Their first blocks begin with a hook, and
//! so do the blocks that their calls return to, as those of chosen functions (`collect`). The outermost call counts:
//! what `operator new` has of `malloc`, or `realloc` of itself, is one block, whose site is where the program called.
//! A function like `strdup` is no allocator, but allocates in its caller's name.

use crate::blocks_of_heap::{self, say};
use crate::elf_file::{File, each_symbol};
use crate::heap::{Call, DEEPEST, word};
use crate::hooks::Hooks;
use crate::layout::{Context, option};
use crate::program_memory::read;
use crate::slots;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::*};

/// What a function does. A bit each, so that a place can be several.
mod does {
    /// `malloc(size)`, `operator new(size, …)`.
    pub const ALLOCATES: u64 = 1;
    /// `calloc(many, size)`.
    pub const CLEARED: u64 = 2;
    /// `realloc(block, size)`.
    pub const CHANGES: u64 = 4;
    /// `reallocarray(block, many, size)`.
    pub const CHANGES_ARRAY: u64 = 8;
    /// `aligned_alloc(alignment, size)`.
    pub const ALIGNED: u64 = 16;
    /// `posix_memalign(result, alignment, size)`.
    pub const RESULT_BEHIND: u64 = 32;
    /// `mmap(address, size, protection, flags, …)`.
    pub const MAPS: u64 = 64;
    /// All of those.
    pub const ANY: u64 = 127;
    /// `free(block)`, `operator delete(block, …)`.
    pub const FREES: u64 = 128;
    /// `munmap(address, size)`.
    pub const UNMAPS: u64 = 256;
    /// Allocates in its caller's name.
    pub const FOR_CALLER: u64 = 512;
    /// A call of such a function returns here.
    pub const RETURN: u64 = 1024;
}

/// Names of functions; those that end with `*` go on anyhow.
#[rustfmt::skip]
const NAMES: &[(&[u8], u64)] = &[
    (b"malloc", does::ALLOCATES), (b"valloc", does::ALLOCATES), (b"pvalloc", does::ALLOCATES),
    // operator new, operator new[]
    (b"_Znwm*", does::ALLOCATES), (b"_Znam*", does::ALLOCATES),
    (b"calloc", does::CLEARED),
    (b"realloc", does::CHANGES), (b"reallocarray", does::CHANGES_ARRAY),
    (b"aligned_alloc", does::ALIGNED), (b"memalign", does::ALIGNED),
    (b"posix_memalign", does::RESULT_BEHIND),
    (b"free", does::FREES), (b"cfree", does::FREES),
    // operator delete, operator delete[]
    (b"_ZdlPv*", does::FREES), (b"_ZdaPv*", does::FREES),
    (b"mmap", does::MAPS), (b"mmap64", does::MAPS), (b"munmap", does::UNMAPS),
    (b"strdup", does::FOR_CALLER), (b"__strdup", does::FOR_CALLER),
    (b"strndup", does::FOR_CALLER), (b"__strndup", does::FOR_CALLER), (b"wcsdup", does::FOR_CALLER),
    (b"asprintf", does::FOR_CALLER), (b"__asprintf_chk", does::FOR_CALLER),
    (b"vasprintf", does::FOR_CALLER), (b"__vasprintf_chk", does::FOR_CALLER),
    (b"getline", does::FOR_CALLER), (b"getdelim", does::FOR_CALLER), (b"__getdelim", does::FOR_CALLER),
];

/// Bytes of a name that are looked at: more than any has.
const NAME: usize = 24;

/// What a function of this name does; 0: nothing.
fn by_name(name: &[u8]) -> u64 {
    let is = |known: &[u8]| match known.split_last() {
        Some((b'*', begins)) => name.starts_with(begins),
        _ => name == known,
    };
    let found = NAMES.iter().find(|(known, _)| is(known));
    found.map_or(0, |(_, does)| *does)
}

/// Functions of the allocator, and the places that their calls return to.
static HOOKED: Hooks = Hooks::new();
static ON: AtomicBool = AtomicBool::new(false);

/// Calls of the allocator are noted.
pub fn on() -> bool {
    ON.load(Relaxed)
}

/// A new image.
pub fn init() {
    ON.store(slots::header().options & option::ALLOCATIONS != 0, Relaxed);
}

/// Whether the runtime is asked in front of the block at `pc`.
pub fn is_hook(pc: u64) -> bool {
    HOOKED.at(pc) != 0
}

/// The places of a range in front of which it is.
pub fn each_hook(start: u64, end: u64, f: impl FnMut(u64)) {
    HOOKED.each(start, end, f);
}

/// Finds the functions of a mapping for execution.
pub fn find(range: &Range<u64>, offset: u64, inode: u64, path: &[u8]) {
    let Some((file, place)) = File::of_mapping(range, offset, inode, path) else {
        return;
    };
    each_symbol(&file, &mut |symbol| {
        let here = (place.from..place.to).contains(&symbol.address);
        // STT_FUNC that others may call: STB_GLOBAL, STB_WEAK
        if symbol.kind != 2 || !matches!(symbol.binding, 1 | 2) || !here {
            return;
        }
        // (Behind the last table of names there are headers, in all but strange files.)
        let name = file.bytes::<NAME>(symbol.name).unwrap_or([0; NAME]);
        let long = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
        match by_name(name.get(..long).unwrap_or(&[])) {
            0 => {}
            does => {
                HOOKED.add(symbol.address.wrapping_add(place.bias), does);
            }
        }
    });
}

/// What follows happened now: behind everything that any thread has said.
fn happens(context: &mut Context) {
    let now = slots::header().rings.time.fetch_add(1, AcqRel) + 1;
    context.region.allocating.time = now;
    say(context, word::TIME, now);
}

/// Says what time it is, where that is not known in this thread: it begins, or makes a system call.
pub fn time(context: &mut Context) {
    if !on() {
        return;
    }
    let now = slots::header().rings.time.load(Acquire);
    if context.region.allocating.time != now {
        context.region.allocating.time = now;
        say(context, word::TIME, now);
    }
}

/// In front of the block at `Context::pc`, which may have a hook. Returns an address that has one from now on.
pub fn hooked(context: &mut Context) -> Option<u64> {
    if !on() {
        return None;
    }
    let does = HOOKED.at(context.pc);
    if does & does::RETURN != 0 {
        returned(context);
    }
    match does & !does::RETURN {
        0 => None,
        does => called(context, does),
    }
}

fn top(context: &Context) -> Option<Call> {
    let calls = &context.region.allocating;
    calls
        .calls
        .get((calls.depth as usize).checked_sub(1)?)
        .copied()
}

/// A call has returned here.
fn returned(context: &mut Context) {
    let (pc, sp) = (context.pc, context.regs[4]);
    while let Some(call) = top(context) {
        // The address that was returned to has been taken from the stack.
        let over = call.at.wrapping_add(8);
        if over > sp && over - sp <= SAME_STACK {
            return;
        }
        let outermost = context
            .region
            .allocating
            .calls
            .first()
            .map_or(0, |call| call.back);
        context.region.allocating.depth -= 1;
        if over == sp && call.back == pc && call.does & does::ANY != 0 {
            allocated(context, &call, outermost);
        }
    }
}

/// Frames so far below the stack pointer are not gone: they are on another stack.
const SAME_STACK: u64 = 8 << 20;

/// What a call of an allocator came to.
fn allocated(context: &mut Context, call: &Call, site: u64) {
    let result = context.regs[0];
    let block = match call.does {
        does::RESULT_BEHIND if result as u32 == 0 => read::<u64>(call.other).unwrap_or(0),
        does::RESULT_BEHIND => 0,
        does::MAPS if result > u64::MAX - 4096 => 0,
        _ => result,
    };
    let changes = call.does & (does::CHANGES | does::CHANGES_ARRAY) != 0;
    // (Of nothing `realloc` frees the block and has no result.)
    let gone = changes && call.other != 0 && (block != 0 || call.size == 0);
    if block == 0 && !gone {
        return;
    }
    happens(context);
    // (What is allocated where a block is takes its place.)
    if gone && block != call.other {
        blocks_of_heap::freed(context, call.other);
        say(context, word::FREED, call.other);
    }
    if block != 0 {
        blocks_of_heap::allocated(context, block, call.size, site);
        say(context, word::SITE, site);
        say(context, word::SIZE, call.size);
        say(context, word::ALLOCATED, block);
    }
}

/// A function is entered.
fn called(context: &mut Context, does: u64) -> Option<u64> {
    let (at, [size, second, third, fourth]) = (
        context.regs[4],
        [7, 6, 2, 1].map(|register: usize| context.regs.get(register).copied().unwrap_or(0)),
    );
    let back = read::<u64>(at).unwrap_or(0);
    // Calls that were left without a return, or whose return was not seen.
    while let Some(call) = top(context) {
        if (call.back, call.at) == (back, at) && (call.does & does::ANY != 0 || call.does == does) {
            return None; // a tail call, or asked again, after a signal
        }
        let alive = call.at >= at && call.at - at <= SAME_STACK;
        if alive && read::<u64>(call.at) == Some(call.back) {
            break;
        }
        context.region.allocating.depth -= 1;
    }
    if top(context).is_some_and(|call| call.does & does::ANY != 0) {
        return None; // the allocator's own
    }
    let mut call = Call {
        does,
        back,
        at,
        size,
        other: 0,
    };
    match does {
        does::FREES | does::UNMAPS if size == 0 => return None,
        does::FREES => {
            happens(context);
            blocks_of_heap::freed(context, size);
            say(context, word::FREED, size);
            return None;
        }
        does::UNMAPS => {
            happens(context);
            blocks_of_heap::unmapped(context, size, second);
            say(context, word::SIZE, second);
            say(context, word::UNMAPPED, size);
            return None;
        }
        // MAP_ANONYMOUS, but no stack (MAP_STACK)
        does::MAPS if fourth & 0x2_0020 != 0x20 => return None,
        does::MAPS | does::ALIGNED => call.size = second,
        does::CLEARED => call.size = size.saturating_mul(second),
        does::CHANGES => (call.other, call.size) = (size, second),
        does::CHANGES_ARRAY => (call.other, call.size) = (size, second.saturating_mul(third)),
        does::RESULT_BEHIND => (call.other, call.size) = (size, third),
        _ => {}
    }
    let calls = &mut context.region.allocating;
    let place = calls.calls.get_mut(calls.depth as usize)?;
    *place = call;
    calls.depth += 1;
    HOOKED.add(back, does::RETURN).then_some(back)
}

const _: () = assert!(DEEPEST < 1 << 16);
