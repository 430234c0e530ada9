//! Withholding and giving back the permission to write pages of code.

use super::{Page, Pages, READ, WRITE, watched};
use crate::syscall_table as nr;
use crate::{rseq, sys};
use core::sync::atomic::Ordering::*;

const ENOMEM: i64 = -12;

/// Faults of writes after which a page is compared instead of watched.
pub(super) const MANY_FAULTS: u16 = 8;

/// What a write fault on a code page was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// None of our business.
    Program,
    /// The page was watched; it can be written now, its blocks are gone.
    Watched,
    /// Another thread has just made the page writable again: try again.
    Again,
}

impl Pages {
    /// Withholds write permission, before the bytes are read.
    pub(super) fn watch(&mut self, number: u64) {
        if self.unwatched {
            return;
        }
        let (never_watch, many) = (self.never_watch, self.many);
        let protects = |page: &mut Page| page.prot & WRITE != 0 && !page.watched;
        if self.existing(number).is_some_and(protects) {
            self.splits(number);
        }
        let Some(page) = self.existing(number) else {
            return;
        };
        let never_watch = never_watch || many && page.shared;
        let no_fault = never_watch || rseq::writes_to(number);
        page.compared |= no_fault && (page.shared || page.prot & WRITE != 0);
        let (shared, guarded) = (page.shared, page.guarded || never_watch);
        if page.prot & WRITE != 0 && !page.watched && !page.compared {
            // A page of larger ones cannot be protected alone.
            page.watched = try_protect(number << 12, 0x1000, without_write(page.prot));
            page.compared = !page.watched;
            if page.watched {
                watched().fetch_add(1, Relaxed);
            }
        }
        if shared && !guarded {
            self.guard(number);
        }
    }

    /// Watches the writable mappings of a shared page.
    fn guard(&mut self, number: u64) {
        self.look_now();
        if let Some(page) = self.existing(number) {
            page.guarded = true;
        }
        let Some(own) = self.mapping(number << 12) else {
            return;
        };
        let place = own.offset + ((number << 12) - own.start);
        for at in 0..self.maps.list().len() {
            let Some(&vma) = self.maps.list().get(at) else {
                return;
            };
            let inside = place.wrapping_sub(vma.offset) < vma.end - vma.start;
            let alias = (vma.start + place.wrapping_sub(vma.offset)) >> 12;
            if vma.file != own.file || !vma.shared || !inside || alias == number {
                continue;
            }
            self.splits(alias);
            let page = self.entry(alias);
            let writable = vma.prot & WRITE != 0;
            if page.alias_of == 0 {
                page.alias_of = number;
            }
            if writable && !page.watched {
                page.prot = vma.prot;
                page.known = true;
                page.shared = true;
                page.watched = try_protect(alias << 12, 0x1000, without_write(vma.prot));
                if page.watched {
                    watched().fetch_add(1, Relaxed);
                } else {
                    self.dirty = true;
                    if let Some(page) = self.existing(number) {
                        page.compared = true;
                    }
                }
            }
        }
    }
}

/// A permission without that to write. What could be written could be read as well; alone, the one to execute would be
/// that and no more (a protection key of the kernel's).
pub(super) fn without_write(prot: u8) -> u8 {
    match prot {
        _ if prot & WRITE != 0 => prot & !WRITE | READ,
        _ => prot,
    }
}

/// Changes a permission of the program's own code page; false where pages of this size have none of their own, the
/// program has sealed it, or nothing is there any more.
fn try_protect(address: u64, len: u64, prot: u8) -> bool {
    // SAFETY: nothing but the permission changes.
    let result = unsafe { sys::call(nr::MPROTECT, [address, len, u64::from(prot), 0, 0, 0]) };
    if !matches!(result, -22 | -1) {
        check_protected(address, result);
    }
    result == 0
}

/// Whether the kernel has something there: lists of mappings may be older.
fn is_mapped(address: u64) -> bool {
    let mut resident = 0u8;
    let at = (&raw mut resident) as u64;
    // SAFETY: only asks, about one page.
    unsafe { sys::call(nr::MINCORE, [address, 0x1000, at, 0, 0, 0]) != ENOMEM }
}

pub(super) fn protect(address: u64, len: u64, prot: u8) {
    // SAFETY: nothing but the permission changes.
    let result = unsafe { sys::call(nr::MPROTECT, [address, len, u64::from(prot), 0, 0, 0]) };
    check_protected(address, result);
}

/// Where nothing is mapped, nothing can be written: the program finds out by itself, as natively.
fn check_protected(address: u64, result: i64) {
    crate::check!(
        result == 0 || result == ENOMEM && !is_mapped(address),
        "code at {address:#x} cannot be watched (errno {}); with errno 12: raise vm.max_map_count",
        -result
    );
}
