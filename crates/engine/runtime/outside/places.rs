//! How often something came in, and where in the program it did first.

use super::{has_ended, inputs};
use crate::inputs::{Input, NAME, Place};
use crate::layout::Context;
use crate::program_memory;
use crate::syscall_table as nr;
use core::sync::atomic::{AtomicU8, Ordering::*};

/// A call's name in capitals.
pub(super) fn name_of(number: u64) -> &'static [u8] {
    nr::TABLE
        .iter()
        .find(|call| call.number == number)
        .map_or(b"", |call| call.name.as_bytes())
}

/// Once more, with the place where the program is.
pub(super) fn note(context: &Context, which: usize, detail: &[u8]) {
    count(which, detail, Some(context));
}

pub(super) fn count(which: usize, detail: &[u8], context: Option<&Context>) {
    let Some(input) = inputs().all.get(which) else {
        return;
    };
    if has_ended() {
        return;
    }
    input.times.fetch_add(1, Relaxed);
    if input.claimed.load(Relaxed) != 0
        || input
            .claimed
            .compare_exchange(0, 1, AcqRel, Relaxed)
            .is_err()
    {
        return;
    }
    store(&input.detail, detail);
    if let Some(context) = context {
        place(context, input);
    }
    input.known.store(1, Release);
}

fn store(to: &[AtomicU8], bytes: &[u8]) {
    let room = to.split_last().map_or(&[][..], |(_zero, room)| room);
    for (to, &byte) in room.iter().zip(bytes) {
        to.store(byte, Relaxed);
    }
}

/// Words of the stack that are looked at for return addresses.
const WORDS: usize = 192;

/// Finds the instruction, and who called the C library where it is in that: the first word of the stack that is behind a
/// call in another file.
fn place(context: &Context, input: &Input) {
    let mut stack = [0u64; WORDS];
    let mut words = 0;
    for (at, word) in stack.iter_mut().enumerate() {
        match program_memory::read(context.regs[4].wrapping_add(8 * at as u64)) {
            Some(value) => *word = value,
            None => break,
        }
        words = at + 1;
    }
    let stack = stack.get(..words).unwrap_or(&[]);
    let mut nearest = WORDS;
    mappings(|start, end, offset, file| {
        if (start..end).contains(&context.pc) {
            fill(&input.place, context.pc - start + offset, file);
            return;
        }
        if is_of_the_c_library(file) {
            return;
        }
        let found = stack
            .iter()
            .take(nearest)
            .position(|word| (start..end).contains(word) && follows_a_call(*word));
        if let Some(found) = found {
            nearest = found;
            let word = stack.get(found).copied().unwrap_or(start);
            fill(&input.caller, word - start + offset - 1, file);
        }
    });
}

fn fill(place: &Place, offset: u64, file: &[u8]) {
    place.offset.store(offset, Relaxed);
    for byte in &place.file {
        byte.store(0, Relaxed);
    }
    store(&place.file, file.get(..file.len().min(NAME)).unwrap_or(&[]));
}

fn is_of_the_c_library(file: &[u8]) -> bool {
    let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or(file);
    [
        &b"libc.so"[..],
        b"libc-",
        b"ld-",
        b"ld.so",
        b"libpthread",
        b"[",
    ]
    .iter()
    .any(|start| name.starts_with(start))
}

/// Whether the instruction in front of an address is a call: `e8`, or `ff /2` of two, three, six or seven bytes.
fn follows_a_call(address: u64) -> bool {
    let Some(bytes) = program_memory::read::<[u8; 7]>(address.wrapping_sub(7)) else {
        return false;
    };
    let indirect = |at: usize| bytes[at] == 0xff && bytes[at + 1] >> 3 & 7 == 2;
    bytes[2] == 0xe8 || indirect(5) || indirect(4) || indirect(1) || indirect(0)
}

/// Calls `each` with start, end, offset and name of every executable mapping of a file.
fn mappings(mut each: impl FnMut(u64, u64, u64, &[u8])) {
    crate::lines::of(c"/proc/thread-self/maps", |line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let mut ends = fields.next()?.split(|&byte| byte == b'-').map(hex);
        let (start, end) = (ends.next()?, ends.next()?);
        if fields.next()?.get(2) != Some(&b'x') {
            return None;
        }
        let offset = hex(fields.next()?);
        let name = line
            .iter()
            .position(|&byte| byte == b'/' || byte == b'[')
            .and_then(|at| line.get(at..))?;
        each(start, end, offset, name);
        Some(())
    });
}

fn hex(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, &digit| {
        value << 4
            | u64::from(match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => 0,
            })
    })
}
