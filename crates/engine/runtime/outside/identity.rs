//! Which inputs the run had: hashes of what it read, so that runs of other inputs can be told apart, and by which.
//!
//! Facts: `elf(5)` (headers, notes), `getdents(2)` (entries), `stat(2)`. A build ID stands for the content of the file that
//! has it.

use super::{inputs, stat_of, vector_entry};
use crate::inputs::{KNOWN, NEAR, part};
use crate::snapshot::hash;
use crate::syscall_table as nr;
use crate::{clock, program_memory, sys};
use core::sync::atomic::Ordering::*;

/// Of longer files this much, the size, and the time of change.
const MOST: u64 = 64 << 20;

/// Bytes of arguments or environment that are looked at.
const MOST_WORDS: u64 = 8 << 20;

const PATH_MAX: usize = 4096;

/// Adds to a part: the order does not matter.
fn add(which: usize, hash: u64) {
    if let Some(place) = inputs().identity.parts.get(which) {
        // A sum of small numbers would say little.
        place.fetch_add(crate::shown::mixed(hash), Relaxed);
    }
}

fn is_partial() {
    inputs().identity.partial.store(1, Relaxed);
}

/// Whether a hash was not in the set; now it is.
fn insert(hash: u64) -> bool {
    let hash = hash.max(1);
    let known = &inputs().identity.known;
    let near = (0..8).map(|n| (hash as usize).wrapping_add(n) % NEAR);
    let far = (0..KNOWN).map(|n| NEAR + (hash as usize).wrapping_add(n) % KNOWN);
    for at in near.chain(far) {
        let Some(place) = known.get(at) else { break };
        match place.compare_exchange(0, hash, AcqRel, Acquire) {
            Ok(_) => return true,
            Err(found) if found == hash => return false,
            Err(_) => {}
        }
    }
    is_partial();
    false
}

fn words(seed: u64, words: &[u64]) -> u64 {
    words
        .iter()
        .fold(seed, |seed, word| hash(seed, &word.to_le_bytes()))
}

fn pread(fd: u64, to: &mut [u8], offset: u64) -> Option<usize> {
    let at = [to.as_mut_ptr() as u64, to.len() as u64, offset];
    // SAFETY: pread64 into the slice.
    let got = unsafe { sys::call(nr::PREAD64, [fd, at[0], at[1], at[2], 0, 0]) };
    usize::try_from(got).ok()
}

/// A regular file that can be read. `program`: it is executed.
pub(super) fn content(fd: u64, stat: &[u64; 18], program: bool) {
    let (device, inode, links, size) = (stat[0], stat[1], stat[2], stat[6]);
    // What has no name was made by the run: by the runtime, or a file in memory.
    if links == 0 {
        return;
    }
    let changed = stat[13].wrapping_mul(clock::SECOND).wrapping_add(stat[14]);
    let key = words(0x66, &[device, inode, size, stat[11], stat[12], changed]);
    // A file that the run writes may be another one with the same times.
    let settled = changed < inputs().started.load(Relaxed);
    if settled && !insert(key) {
        return;
    }
    let Some((which, mut found)) = hash_of_file(fd, size) else {
        is_partial();
        return;
    };
    if size > MOST {
        found = words(found, &[stat[11], stat[12]]);
    }
    let which = if program { part::PROGRAM } else { which };
    if insert(words(found, &[which as u64])) {
        inputs().identity.files.fetch_add(1, Relaxed);
        add(which, found);
    }
}

/// What a file is, and the hash of its content: of the build ID where there is one.
fn hash_of_file(fd: u64, size: u64) -> Option<(usize, u64)> {
    let mut head = [0u8; 4096];
    let length = pread(fd, &mut head, 0)?;
    let head = head.get(..length)?;
    let shared = is_shared_object(head);
    let which = if shared { part::LIBRARIES } else { part::FILES };
    let seed = words(0, &[size]);
    if let Some(id) = build_id(head) {
        return Some((which, hash(seed, id)));
    }
    let mut all = hash(seed, head);
    if length == 4096 {
        all = hash_of_rest(fd, all)?;
    }
    Some((which, all))
}

#[inline(never)]
fn hash_of_rest(fd: u64, mut all: u64) -> Option<u64> {
    let mut piece = [0u8; 16 << 10];
    let mut at = 4096;
    while at < MOST {
        let length = pread(fd, &mut piece, at)?;
        if length == 0 {
            break;
        }
        all = hash(all, piece.get(..length)?);
        at += length as u64;
    }
    Some(all)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn is_elf(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF\x02\x01")
}

/// An ELF file of type ET_DYN.
fn is_shared_object(head: &[u8]) -> bool {
    is_elf(head) && field(head, 16).map(u16::from_le_bytes) == Some(3)
}

/// The GNU build ID of an ELF file, where it is in its first bytes.
fn build_id(head: &[u8]) -> Option<&[u8]> {
    const PT_NOTE: u32 = 4;
    const NT_GNU_BUILD_ID: u32 = 3;
    if !is_elf(head) {
        return None;
    }
    let word = |at| Some(u64::from_le_bytes(field(head, at)?) as usize);
    let half = |at| Some(u32::from_le_bytes(field(head, at)?));
    let headers = word(0x20)?;
    let number = u16::from_le_bytes(field(head, 0x38)?);
    for at in (0..usize::from(number)).map(|n| headers.saturating_add(n * 56)) {
        if half(at)? != PT_NOTE {
            continue;
        }
        let (offset, size) = (word(at + 8)?, word(at + 0x20)?);
        let Some(notes) = head.get(offset..offset.saturating_add(size)) else {
            continue;
        };
        let mut at = 0;
        while let Some([name, length, kind]) = note(notes, at) {
            let start = at + 12 + (name as usize).next_multiple_of(4);
            let end = start.saturating_add(length as usize);
            if kind == NT_GNU_BUILD_ID && notes.get(at + 12..at + 16) == Some(b"GNU\0") {
                return notes.get(start..end);
            }
            at = end.checked_next_multiple_of(4)?;
        }
    }
    None
}

/// Sizes of name and description of a note, and its type.
fn note(notes: &[u8], at: usize) -> Option<[u32; 3]> {
    let word = |n: usize| Some(u32::from_le_bytes(field(notes, at.checked_add(4 * n)?)?));
    Some([word(0)?, word(1)?, word(2)?])
}

/// A program begins: its content, the loader's, its arguments and its environment. `stack`: its initial stack pointer.
pub(super) fn program(word: impl Fn(u64) -> Result<u64, ()>, stack: u64, loader: u64) {
    const EXECFN: u64 = 31;
    let path = c"/proc/self/exe".as_ptr() as u64;
    // SAFETY: open and close of a descriptor of ours.
    let fd = unsafe { sys::call(nr::OPEN, [path, 0o2_000_000, 0, 0, 0, 0]) };
    match u64::try_from(fd) {
        Ok(fd) => {
            if let Some(stat) = stat_of(fd) {
                content(fd, &stat, true);
            }
            // SAFETY: as above.
            unsafe { sys::call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]) };
        }
        Err(_) => is_partial(),
    }
    let mut head = [0u8; 1024];
    if loader != 0 && program_memory::read_bytes(&mut head, loader) {
        let found = hash(1, build_id(&head).unwrap_or(&head));
        if insert(found) {
            add(part::LIBRARIES, found);
        }
    }
    let ends = || {
        let arguments = word(stack)?;
        let first = word(stack.wrapping_add(8))?;
        let variable = word(stack.wrapping_add(8 * (arguments.wrapping_add(2))))?;
        let end = vector_entry(&word, stack, EXECFN)?.unwrap_or(0);
        Ok::<_, ()>((arguments, first, variable, end))
    };
    let Ok((arguments, first, variable, end)) = ends() else {
        return is_partial();
    };
    let middle = if variable == 0 { end } else { variable };
    if arguments != 0 {
        strings(part::ARGUMENTS, first, middle);
    }
    if variable != 0 {
        strings(part::ENVIRONMENT, variable, end);
    }
}

/// The strings between two addresses.
fn strings(which: usize, start: u64, end: u64) {
    let length = end.wrapping_sub(start);
    if length > MOST_WORDS {
        return is_partial();
    }
    let mut all = words(which as u64, &[length]);
    let mut piece = [0u8; 1024];
    let mut at = start;
    while at < end {
        let bytes = (end - at).min(1024) as usize;
        let Some(place) = piece.get_mut(..bytes) else {
            return;
        };
        if !program_memory::read_bytes(place, at) {
            return is_partial();
        }
        all = hash(all, place);
        at += bytes as u64;
    }
    add(which, all);
}

/// The hash of a path; `None`: it cannot be read.
fn path(at: u64) -> Option<u64> {
    let mut all = 0;
    let mut length = 0;
    while length < PATH_MAX {
        let here = at.wrapping_add(length as u64);
        let piece = match program_memory::read::<[u8; 32]>(here) {
            Some(piece) => piece,
            // The end of a mapping may be near.
            None => {
                let mut piece = [0u8; 32];
                for (at, byte) in (here..).zip(&mut piece) {
                    *byte = program_memory::read(at)?;
                    if *byte == 0 {
                        break;
                    }
                }
                piece
            }
        };
        let end = piece.iter().position(|&byte| byte == 0);
        all = hash(all, piece.get(..end.unwrap_or(32))?);
        if end.is_some() {
            return Some(all);
        }
        length += 32;
    }
    None
}

/// A path was looked for: what came of it.
pub(super) fn looked_up(number: u64, a: [u64; 6], result: i64) {
    let argument = nr::path_argument(number).and_then(|at| a.get(at));
    let Some(path) = argument.and_then(|&at| path(at)) else {
        return;
    };
    let what = match number {
        _ if result < 0 => words(path, &[result as u64]),
        nr::READLINK | nr::READLINKAT => {
            let at = if number == nr::READLINK { a[1] } else { a[2] };
            let mut link = [0u8; 256];
            let length = link.len().min(result as usize);
            let Some(place) = link.get_mut(..length) else {
                return;
            };
            if !program_memory::read_bytes(place, at) {
                return;
            }
            hash(path, place)
        }
        _ => words(path, &[1]),
    };
    add(part::NAMES, what);
}

/// Something could not be made of, or done to, a path.
pub(super) fn missed(at: u64, result: i64) {
    if let Some(path) = path(at) {
        add(part::NAMES, words(path, &[result as u64]));
    }
}

/// What `stat` told of a file: its type, and of a regular file `size` and, where the run did not change it, the time.
pub(super) fn told(at: u64, kind: u32, size: Option<u64>, modified: Option<[u64; 2]>) {
    let Some(path) = path(at) else { return };
    add(
        part::NAMES,
        words(path, &[u64::from(kind), size.unwrap_or(0)]),
    );
    if let Some(modified) = modified {
        add(part::TIMES, words(path, &modified));
    }
}

/// Entries of a directory, `length` bytes at an address.
pub(super) fn entries(number: u64, at: u64, length: u64) {
    let name_at = if number == nr::GETDENTS64 { 19 } else { 18 };
    let end = at.saturating_add(length);
    let mut at = at;
    while at < end {
        let Some(bytes) = program_memory::read::<u16>(at.wrapping_add(16)).filter(|&n| n >= 18)
        else {
            return;
        };
        if let Some(name) = path(at.wrapping_add(name_at)) {
            add(part::NAMES, words(name, &[2]));
        }
        at = at.saturating_add(u64::from(bytes));
    }
}
