//! Mapping a snapshot. The launcher has checked that the file is whole, ours and
//! for this engine; what is checked here is that it fits this process.

use super::Store;
use crate::cache::Cache;
use crate::cache::kept::place_apart;
use crate::snapshot::{Image, MAGIC, MAX_AREAS, MAX_IMAGES, PAGE, Piece, Prefix, SavedPage, piece};
use crate::syscall_table as nr;
use crate::{counts, references, sys};
use core::mem::size_of;

/// A piece as a read-only table of its own.
fn table<T>(fd: u64, piece: Piece) -> Option<&'static [T]> {
    if piece.bytes == 0 {
        return Some(&[]);
    }
    let at = place_apart(fd, piece)?;
    let count = piece.bytes as usize / size_of::<T>();
    // SAFETY: as many whole elements (plain integers) as were placed there.
    Some(unsafe { core::slice::from_raw_parts(at as *const T, count) })
}

/// Maps the snapshot; false (and nothing usable of it) where it does not fit.
pub(super) fn load(store: &mut Store, cache: &mut Cache, fd: u64) -> bool {
    let mut prefix = core::mem::MaybeUninit::<Prefix>::uninit();
    let size = size_of::<Prefix>() as u64;
    // SAFETY: pread64 of plain integers into our own memory.
    let prefix = unsafe {
        if sys::call(nr::PREAD64, [fd, prefix.as_mut_ptr() as u64, size, 0, 0, 0]) != size as i64 {
            return false;
        }
        prefix.assume_init()
    };
    let in_file =
        |p: &Piece| p.at.is_multiple_of(PAGE) && p.at.saturating_add(p.bytes) <= prefix.length;
    let count = |at: usize, size: usize| {
        let bytes = prefix.pieces[at].bytes as usize;
        bytes.is_multiple_of(size).then_some(bytes / size)
    };
    let (Some(owners), Some(images)) = (
        count(piece::OWNERS, 2),
        count(piece::IMAGES, size_of::<Image>()),
    ) else {
        return false;
    };
    if prefix.magic != MAGIC
        || !prefix.pieces.iter().all(in_file)
        || prefix.facts.area_count as usize > MAX_AREAS
        || owners as u64 != prefix.facts.blocks
        || images > MAX_IMAGES
    {
        return false;
    }
    let part = |at: usize| prefix.pieces[at];
    let (Some(images), Some(pages), Some(index), Some(owners), Some(log)) = (
        table::<Image>(fd, part(piece::IMAGES)),
        table::<SavedPage>(fd, part(piece::PAGES)),
        table::<u32>(fd, part(piece::INDEX)),
        table::<u16>(fd, part(piece::OWNERS)),
        table::<u64>(fd, part(piece::LOG)),
    ) else {
        return false;
    };
    if references::on() && !references::adopt(fd, part(piece::DESCRIBED)) {
        return false;
    }
    if !cache.adopt(fd, &prefix) {
        return false;
    }
    counts::go_on_at(prefix.facts.counters as u32);
    store.log = log;
    store.loaded = prefix.facts.blocks as usize;
    (cache.kept.images, cache.kept.index) = (images, index);
    (store.pages, store.owners) = (pages, owners);
    true
}
