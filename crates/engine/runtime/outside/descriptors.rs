//! Descriptors that were open before the run, and connections.

use super::places::{count, name_of, note};
use super::{CHARACTERS, FIFO, REGULAR, SOCKET, device, identity, inputs, stat_of, type_of};
use crate::inputs::{Inputs, kind};
use crate::layout::Context;
use crate::syscall_table as nr;
use crate::{program_memory, report, slots, sys};
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Descriptors that are looked at when the run begins: as many as a process has by default (RLIMIT_NOFILE).
const LOOKED_AT: u64 = 1024;

/// Bit of [`crate::layout::Header::descriptors`].
const INHERITED: u32 = 2;

/// Descriptors that are open already and can be read, but regular files and devices that say nothing; and `ours`, which
/// has the translations of earlier runs.
pub(super) fn note_inherited(inputs: &Inputs, ours: u64) {
    const F_GETFL: u64 = 3;
    const WRITES_ONLY: i64 = 1;
    for fd in (0..LOOKED_AT).filter(|&fd| fd != ours) {
        // SAFETY: no memory.
        let flags = unsafe { sys::call(nr::FCNTL, [fd, F_GETFL, 0, 0, 0, 0]) };
        if flags < 0 || flags & 3 == WRITES_ONLY {
            continue;
        }
        let Some(stat) = stat_of(fd) else { continue };
        if type_of(&stat) == REGULAR {
            identity::content(fd, &stat, false);
        }
        let from_outside = match type_of(&stat) {
            FIFO | SOCKET => true,
            CHARACTERS => device(&stat).is_some(),
            _ => false,
        };
        let known = inputs
            .inherited
            .iter()
            .any(|place| is_at(place, &stat) && place[1].load(Relaxed) != 0);
        if !from_outside || known {
            continue;
        }
        let number = inputs.inherited_count.load(Relaxed);
        let Some(place) = inputs.inherited.get(number as usize) else {
            // Whatever is read from it would not be noticed: the run counts as open.
            count(kind::INHERITED, b"more descriptors than are followed", None);
            continue;
        };
        for (word, value) in place.iter().zip([stat[0], stat[1], stat[5]]) {
            word.store(value, Relaxed);
        }
        inputs.inherited_count.store(number + 1, Release);
        slots::header().descriptors.fetch_or(INHERITED, Release);
    }
}

fn is_at(place: &[AtomicU64; 3], stat: &[u64; 18]) -> bool {
    place
        .iter()
        .zip([stat[0], stat[1], stat[5]])
        .all(|(word, value)| word.load(Relaxed) == value)
}

/// Words to bytes.
pub(super) trait Concat {
    fn concat_bytes(self) -> [u8; 128];
}

impl Concat for [[u8; 8]; 16] {
    fn concat_bytes(self) -> [u8; 128] {
        let mut all = [0; 128];
        for (to, from) in all.chunks_exact_mut(8).zip(self) {
            to.copy_from_slice(&from);
        }
        all
    }
}

/// Sockets of whose connections the other end is looked at.
pub(super) fn is_followed_socket(a: [u64; 6]) -> bool {
    const UNIX: u64 = 1;
    const STREAM: u64 = 1;
    match a[0] {
        UNIX => true,
        2 | 10 => a[1] & 0xf == STREAM,
        _ => false,
    }
}

/// A connection, to a socket of the run or to another.
pub(super) fn connects(context: &Context, a: [u64; 6]) {
    const ACCESS: u64 = nr::ACCESS;
    let Some(hash) = address_at(a[1], a[2]) else {
        return;
    };
    if inputs()
        .addresses
        .iter()
        .any(|known| known.load(Acquire) == hash)
    {
        inputs().connected.fetch_add(1, Relaxed);
        return;
    }
    // Where there is nobody to answer, nothing comes.
    let family = program_memory::read::<u16>(a[1]);
    let first = program_memory::read::<u8>(a[1] + 2);
    if family == Some(1) && first != Some(0) {
        // SAFETY: access(2) of the path in the address, which the kernel checks.
        let there = unsafe { sys::call(ACCESS, [a[1] + 2, 0, 0, 0, 0, 0]) };
        if there != 0 {
            return;
        }
    }
    note(context, kind::SOCKET, b"connect");
}

/// A hash of an address: of internet addresses the port.
pub(super) fn hash_of(bytes: &[u8; 128], length: u32) -> u64 {
    let length = match u16::from_ne_bytes([bytes[0], bytes[1]]) {
        2 | 10 => {
            return u64::from(u16::from_be_bytes([bytes[2], bytes[3]])) | 1 << 32;
        }
        _ => length.min(128) as usize,
    };
    let bytes = bytes.get(..length).unwrap_or(&[]);
    // FNV-1a; a path's terminator does not belong to it.
    let end = bytes.len() - usize::from(bytes.len() > 3 && bytes.last() == Some(&0));
    bytes
        .iter()
        .take(end)
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        })
}

pub(super) fn address_at(at: u64, length: u64) -> Option<u64> {
    let mut bytes = [0u8; 128];
    let length = length.min(128) as usize;
    let place = bytes.get_mut(..length)?;
    (length >= 4 && program_memory::read_bytes(place, at)).then(|| hash_of(&bytes, length as u32))
}

pub(super) fn add_address(hash: u64) {
    for place in &inputs().addresses {
        if place.load(Relaxed) == hash || place.compare_exchange(0, hash, AcqRel, Relaxed).is_ok() {
            return;
        }
    }
}

/// Whether there is any descriptor that brings in something.
fn inherits() -> bool {
    slots::header().descriptors.load(Relaxed) & INHERITED != 0
}

/// A call that reads from a descriptor, or asks whether there is something to read.
pub(super) fn reads(context: &Context, number: u64, fd: u64) {
    if !inherits() {
        return;
    }
    let Some(stat) = stat_of(fd) else { return };
    let count = inputs().inherited_count.load(Acquire) as usize;
    if !inputs()
        .inherited
        .iter()
        .take(count)
        .any(|place| is_at(place, &stat))
    {
        return;
    }
    let mut text = report::Text::new();
    let name = core::str::from_utf8(name_of(number)).unwrap_or("");
    let what = match type_of(&stat) {
        FIFO => "a pipe",
        SOCKET => "a socket",
        _ => "a device",
    };
    let _ = write!(text, "descriptor {fd}, {what}, {name}");
    note(context, kind::INHERITED, text.bytes());
}

/// poll and its kin.
pub(super) fn polls(context: &Context, number: u64, a: [u64; 6]) {
    const IN: u64 = 1;
    if !inherits() {
        return;
    }
    for at in 0..a[1].min(64) {
        let Some(entry) = program_memory::read::<u64>(a[0] + 8 * at) else {
            return;
        };
        if entry >> 32 & IN != 0 {
            reads(context, number, entry & 0xffff_ffff);
        }
    }
}

/// select and its kin.
pub(super) fn selects(context: &Context, number: u64, a: [u64; 6]) {
    if !inherits() || a[1] == 0 {
        return;
    }
    if let Some(set) = program_memory::read::<u64>(a[1]) {
        for fd in (0..a[0].min(64)).filter(|fd| set >> fd & 1 != 0) {
            reads(context, number, fd);
        }
    }
}
