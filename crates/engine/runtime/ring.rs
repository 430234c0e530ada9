//! Writing a thread's ring (`xlate::references`), and giving parts of it to who reads it.

use crate::known::{self, word};
use crate::layout::Context;
use crate::slots;
use crate::sys;
use crate::syscall_table as nr;
use crate::xlate::references::{self, APART, CHUNK, CHUNKS, SHORT};
use core::sync::atomic::Ordering::*;

/// Writes words between two blocks; whether they are in the same part as what was before.
pub fn put(context: &mut Context, values: &[u64]) -> bool {
    if context.noted.position == 0 {
        context.noted.position = APART;
    }
    // Where no block begins there is room for some words, but not for any number.
    let full = known::is_full(context);
    if full {
        publish(context);
    }
    for &value in values {
        // SAFETY: a word of the thread's ring, which is as long as its parts and `APART` more.
        unsafe { word(context, context.noted.position).write(value) };
        context.noted.position += 1;
    }
    !full
}

/// The part of the ring that a thread writes is full: gives it to the launcher, and goes on in the next one.
pub fn publish(context: &mut Context) {
    publish_but(context, 0);
}

/// The same, but for the last words, which may have to be taken back: they are the first ones of the next part.
pub fn publish_but(context: &mut Context, last: u32) {
    let idle = context.noted.idle;
    let part = context.noted.filled.load(Relaxed) % CHUNKS;
    // (Where there is little room to write over, a part is given away first.)
    if idle != 0 && idle / CHUNK == part && idle % CHUNK < CHUNK / 2 {
        context.noted.position = idle;
        context.noted.marked = 0;
        return;
    }
    hand_over(context, last);
    if idle != 0 {
        context.noted.idle = context.noted.position;
    }
}

/// Where the part that the thread writes began.
pub fn begin(context: &Context) -> u32 {
    let part = context.noted.filled.load(Relaxed) % CHUNKS;
    let said = context.noted.begins.get(part as usize);
    references::begin(part, said.map_or(0, |said| said.load(Relaxed)))
}

/// See [`publish_but`].
fn hand_over(context: &mut Context, last: u32) {
    /// Rounds of a second without anybody reading, with the launcher gone.
    const PATIENCE: u32 = 3;
    let filled = context.noted.filled.load(Relaxed);
    let part = (filled % CHUNKS) as usize;
    let first = context.noted.position.wrapping_sub(last);
    if let Some(end) = context.noted.ends.get(part) {
        end.store(first, Relaxed);
    }
    let filled = filled.wrapping_add(1);
    context.noted.filled.store(filled, Release);
    let header = slots::header();
    header.rings.bell.fetch_add(1, AcqRel);
    sys::futex_wake(&header.rings.bell);
    let mut rounds = 0;
    loop {
        let read = context.noted.read.load(Acquire);
        if filled.wrapping_sub(read) < CHUNKS {
            break;
        }
        let launcher = [u64::from(header.launcher), 0, 0, 0, 0, 0];
        // SAFETY: signal 0 only asks whether the process exists.
        let gone = unsafe { sys::call(nr::KILL, launcher) } == -3;
        if header.closed.load(Acquire) != 0 || gone && rounds >= PATIENCE {
            header.rings.lost.fetch_add(1, Relaxed);
            context.noted.read.store(read.wrapping_add(1), Release);
            continue;
        }
        sys::futex_wait(&context.noted.read, read, 1000);
        rounds += 1;
    }
    // (Words that nobody reads are written over, which a short part is too short for.)
    let short = rounds > 0 && known::is_shared() && context.noted.idle == 0;
    let part = filled % CHUNKS;
    let said = if short {
        (part + 1) * CHUNK + APART - SHORT
    } else {
        0
    };
    if let Some(begin) = context.noted.begins.get(part as usize) {
        // (Who sees the position sees this.)
        begin.store(said, Release);
    }
    let start = references::begin(part, said);
    for at in 0..last {
        // SAFETY: words of the thread's ring; who reads does not write.
        unsafe { known::word(context, start + at).write(known::word(context, first + at).read()) };
    }
    context.noted.position = start + last;
    context.noted.marked = 0;
}
